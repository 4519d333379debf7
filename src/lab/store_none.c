/* store_none.c - the store of a build without SQLite: there is none, and it says so. Nothing but store_open and
 * store_close can be called then, as no store was ever opened; the others are there for the linker. */
#include "lab/store.h"

static brasa_status none(brasa_context *ctx)
{
    return fail(ctx, BRASA_NOT_FOUND,
                "this brasa was built without SQLite, in which the lab keeps its results (Debian: libsqlite3-dev)");
}

brasa_status store_open(brasa_context *ctx, const char *path, store_mode mode, store **out)
{
    (void)path, (void)mode;
    *out = NULL;
    return none(ctx);
}

void store_close(store *s)
{
    (void)s;
}

#define ADD(name, type)                                                                                              \
    brasa_status name(store *s, type *what)                                                                          \
    {                                                                                                                \
        (void)s, (void)what;                                                                                         \
        return BRASA_WRONG_STATE;                                                                                    \
    }

#define LIST(name, type)                                                                                             \
    brasa_status name(store *s, pool *p, int64_t of, type **out, int *count)                                         \
    {                                                                                                                \
        (void)s, (void)p, (void)of, (void)out, (void)count;                                                          \
        return BRASA_WRONG_STATE;                                                                                    \
    }

ADD(store_add_campaign, store_campaign)
ADD(store_add_parity, store_parity)
ADD(store_add_cell, store_cell)
LIST(store_resumes, store_resumed)
LIST(store_parities, store_parity)
LIST(store_cells, store_cell)
LIST(store_rows, store_row)
LIST(store_epochs, store_epoch)
LIST(store_samples, store_sample)
LIST(store_functions, store_function)

brasa_status store_campaigns(store *s, pool *p, store_campaign **out, int *count)
{
    (void)s, (void)p, (void)out, (void)count;
    return BRASA_WRONG_STATE;
}

brasa_status store_finish_campaign(store *s, int64_t campaign, const char *finished)
{
    (void)s, (void)campaign, (void)finished;
    return BRASA_WRONG_STATE;
}

brasa_status store_resume_campaign(store *s, int64_t campaign, const char *peers, const store_resumed *how)
{
    (void)s, (void)campaign, (void)peers, (void)how;
    return BRASA_WRONG_STATE;
}

brasa_status store_add_row(store *s, store_row *what, const store_details *details)
{
    (void)s, (void)what, (void)details;
    return BRASA_WRONG_STATE;
}
