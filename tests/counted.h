/* counted.h - for tests of one thread that must give back all they took: a context whose memory is counted, made
 * before each test and looked at after it. */
#ifndef TEST_COUNTED_H
#define TEST_COUNTED_H

#include "files.h"
#include "heap.h"
#include "test.h"

static heap memory;
static brasa_context *ctx;

static void start(void)
{
    memory = (heap){0};
    brasa_context_options o = {.threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &memory};
    if (!CHECK(brasa_context_new(&o, &ctx) == BRASA_OK))
        exit(1);
}

static void stop(void)
{
    brasa_context_free(ctx);
    CHECK_INT(memory.live, 0);
}

#endif
