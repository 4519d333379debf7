/* store_files.c - see store_files.h. */
#include "store_files.h"

#include <string.h>

const char *store_file(pool *p, const char *store, const char *name)
{
    const char *slash = strrchr(store, '/'), *own = slash ? slash + 1 : store;
    const size_t length = strlen(own);
    const bool usual = length > 3 && strcmp(own + length - 3, ".db") == 0;
    const char *out =
        pool_text(p, "%.*s%s%s", (int)(strlen(store) - (usual ? 3 : 0)), store, usual ? "-" : ".", name);
    if (!out)
        fail_memory(p->ctx, strlen(store));
    return out;
}
