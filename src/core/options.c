/* options.c - see options.h. */
#include "core/options.h"
#include "core/context.h"

#include <string.h>

/* No struct comes near it: a larger size is some other number. */
enum { MOST_BYTES = 4096 };

static brasa_status read_size(brasa_context *ctx, const void *theirs, const char *name, size_t *out)
{
    memcpy(out, theirs, sizeof *out);
    if (*out >= sizeof *out && *out <= MOST_BYTES)
        return BRASA_OK;
    return fail(ctx, BRASA_BAD_ARGUMENT, "%s: size is %zu, but must be that of the struct: %s x = {.size = sizeof x}",
                name, *out, name);
}

brasa_status options_take(brasa_context *ctx, void *mine, size_t size, const void *theirs, const char *name)
{
    size_t given = size;
    memset(mine, 0, size);
    brasa_status status = theirs ? read_size(ctx, theirs, name, &given) : BRASA_OK;
    if (status != BRASA_OK)
        return status;
    if (theirs)
        memcpy(mine, theirs, given < size ? given : size);
    memcpy(mine, &size, sizeof size);
    for (size_t i = size; i < given; i++)
        if (((const char *)theirs)[i])
            return fail(ctx, BRASA_BAD_ARGUMENT,
                        "%s: byte %zu is set, but this libbrasa (%s) knows %zu bytes: the program was compiled for a "
                        "newer one; install that, or leave its new options zero",
                        name, i, brasa_version(), size);
    return BRASA_OK;
}

brasa_status options_give(brasa_context *ctx, void *theirs, const void *mine, size_t size, const char *name)
{
    size_t given;
    if (!theirs)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s: NULL was given to write it to", name);
    const brasa_status status = read_size(ctx, theirs, name, &given);
    if (status != BRASA_OK)
        return status;
    memset(theirs, 0, given);
    memcpy(theirs, mine, given < size ? given : size);
    memcpy(theirs, &given, sizeof given);
    return BRASA_OK;
}
