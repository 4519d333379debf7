/* data_sets.h - for tests of sources of data: sets that must open, and sets that must be refused. */
#ifndef TEST_DATA_SETS_H
#define TEST_DATA_SETS_H

#include "data_files.h"
#include "test.h"

static brasa_context *ctx;

__attribute__((constructor)) static void start(void)
{
    brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx);
}

__attribute__((destructor)) static void end(void)
{
    brasa_context_free(ctx);
}

/* The set, or NULL with a failed check. */
static inline dataset *opened(const char *format, ...) BRASA_PRINTF(1, 2);
static inline dataset *opened(const char *format, ...)
{
    char spec[600];
    dataset *d = NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(spec, sizeof spec, format, args);
    va_end(args);
    if (dataset_open(ctx, spec, &d) != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", spec, ctx->error);
    return d;
}

/* Refused, in one line that holds both texts. */
static inline void refused(const char *spec, const char *where, const char *why)
{
    OWNED(dataset) *d = NULL;
    const brasa_status status = dataset_open(ctx, spec, &d);
    CHECK(status == BRASA_BAD_FILE || status == BRASA_BAD_ARGUMENT || status == BRASA_NOT_FOUND);
    CHECK(!d);
    CHECK_HAS(ctx->error, where);
    CHECK_HAS(ctx->error, why);
    CHECK(!strchr(ctx->error, '\n'));
}

#endif
