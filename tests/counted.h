/* counted.h - for tests of one thread that must give back all they took: a context whose memory is counted, with a
 * pool. A file says AROUND_EACH(start, stop); a test may start anew. */
#ifndef TEST_COUNTED_H
#define TEST_COUNTED_H

#include "files.h"
#include "heap.h"
#include "test.h"

#include "core/pool.h"

static heap memory;
static brasa_context *ctx;
static pool scratch;

static void stop(void)
{
    if (!ctx)
        return;
    pool_free(&scratch);
    brasa_context_free(ctx);
    ctx = NULL;
    CHECK_INT(memory.live, 0);
}

static void start(void)
{
    stop();
    memory = (heap){0};
    brasa_context_options o = {
        .size = sizeof o, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &memory};
    if (!CHECK(brasa_context_new(&o, &ctx) == BRASA_OK))
        exit(1);
    scratch = (pool){.ctx = ctx};
}

#endif
