/* store_files.h - the names of what lies beside a store: "lab-files" and "lab-3-quick.html" for lab.db, "lab.x.files"
 * for lab.x and "lab.files" for lab. No two stores share a folder; two pages have one name only where a campaign's
 * name begins with a number. */
#ifndef CLI_STORE_FILES_H
#define CLI_STORE_FILES_H

#include "core/pool.h"

/* `name`, with what goes before it; in the store's own folder. NULL: out of memory, and the error is set. */
const char *store_file(pool *p, const char *store, const char *name);

#endif
