/* heap.h - for tests: an allocator that counts, and fails when told to. */
#ifndef TEST_HEAP_H
#define TEST_HEAP_H

#include <stdlib.h>
#include <string.h>

typedef struct heap {
    int calls, fail_at; /* the call that fails, from 1; 0: none */
    int live;
    size_t largest; /* that was asked for */
} heap;

static inline void *heap_alloc(void *user, size_t bytes)
{
    heap *h = user;
    if (++h->calls == h->fail_at)
        return NULL;
    h->largest = bytes > h->largest ? bytes : h->largest;
    void *block = malloc(bytes);
    if (block)
        memset(block, 0xA5, bytes);
    h->live += block != NULL;
    return block;
}

static inline void heap_release(void *user, void *block)
{
    ((heap *)user)->live--;
    free(block);
}

#endif
