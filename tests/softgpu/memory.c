/* memory.c - see memory.h. The caller sees to it that blocks neither come nor go while a kernel runs. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

static struct {
    memory_block *blocks; /* by address */
    size_t count, room, used;
} all;

size_t memory_used(void)
{
    return all.used;
}

/* SOFTGPU_MEMORY is its size in bytes. */
size_t memory_total(void)
{
    const char *word = getenv("SOFTGPU_MEMORY");
    const unsigned long long bytes = word ? strtoull(word, NULL, 10) : 0;
    return bytes ? (size_t)bytes : (size_t)8 << 30;
}

/* The number of blocks that begin at `at` or before. */
static size_t before(const void *at)
{
    size_t low = 0, high = all.count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if ((const char *)at < all.blocks[middle].start)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void *memory_get(size_t bytes, memory_kind kind, int device)
{
    enum { ALIGN = 512, GAP = 512 /* behind each: what reaches beyond a block reaches no other one */ };
    if (kind == OF_THE_GPU && (bytes > memory_total() || all.used + bytes > memory_total()))
        return NULL;
    if (all.count == all.room) {
        const size_t room = all.room ? 2 * all.room : 64;
        memory_block *more = realloc(all.blocks, room * sizeof *more);
        if (!more)
            return NULL;
        all.blocks = more;
        all.room = room;
    }
    char *start = aligned_alloc(ALIGN, (bytes + GAP + ALIGN - 1) / ALIGN * ALIGN);
    if (!start)
        return NULL;
    memset(start, POISON, bytes);
    const size_t at = before(start);
    memmove(all.blocks + at + 1, all.blocks + at, (all.count - at) * sizeof *all.blocks);
    all.blocks[at] = (memory_block){start, bytes, kind, device};
    all.count++;
    all.used += kind == OF_THE_GPU ? bytes : 0;
    return start;
}

bool memory_put(void *start, memory_kind kind)
{
    const size_t at = before(start);
    if (!at || all.blocks[at - 1].start != start || all.blocks[at - 1].kind != kind)
        return false;
    all.used -= kind == OF_THE_GPU ? all.blocks[at - 1].bytes : 0;
    memmove(all.blocks + at - 1, all.blocks + at, (all.count - at) * sizeof *all.blocks);
    all.count--;
    free(start);
    return true;
}

const memory_block *memory_find(const void *at)
{
    const size_t n = before(at);
    return n && (const char *)at < all.blocks[n - 1].start + all.blocks[n - 1].bytes ? &all.blocks[n - 1] : NULL;
}

static bool within(const memory_block *b, const void *at, size_t bytes)
{
    return b && bytes <= (size_t)(b->start + b->bytes - (const char *)at);
}

bool memory_has(const void *at, size_t bytes)
{
    return within(memory_find(at), at, bytes);
}

bool memory_reached(const void *at, size_t bytes, int device)
{
    const memory_block *b = memory_find(at);
    return within(b, at, bytes) && (b->kind == OF_THE_HOST || b->device == device);
}
