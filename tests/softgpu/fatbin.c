/* fatbin.c - finds the PTX that nvcc puts into a program beside machine code. It lies in pieces, each with a head:
 * which kind it is, how long, and how it is packed. NVIDIA does not say how; this was found by looking at files of
 * CUDA 13 made with each of nvcc's --compress-mode. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WRAPPER = 0x466243b1,
    CONTAINER = 0xba55ed50 - (1ll << 32),
    PTX = 1,
    PACKED_LZ4 = 0x2000,
    PACKED_ZSTD = 0x8000
};

typedef struct wrapper {
    uint32_t magic, version;
    const char *data;
    void *unused;
} wrapper;

typedef struct container {
    uint32_t magic;
    uint16_t version, head;
    uint64_t bytes; /* behind the head */
} container;

typedef struct piece {
    uint16_t kind, version;
    uint32_t head;
    uint64_t bytes;  /* behind the head */
    uint32_t packed; /* of which these count, if it is packed */
    uint32_t unknown[2];
    uint32_t target; /* 90: of compute_90 */
    uint32_t unknown_more[2];
    uint32_t flags, unknown_last[3];
    uint64_t unpacked;
} piece;

/* LZ4's blocks: so many plain bytes, then so many that came before, by a distance. */
static bool unpack_lz4(const unsigned char *from, size_t count, unsigned char *to, size_t room)
{
    const unsigned char *end = from + count;
    size_t at = 0;
    while (from < end) {
        const unsigned head = *from++;
        size_t plain = head >> 4, again = (head & 15);
        for (unsigned more = 255; plain >= 15 && more == 255 && from < end;)
            plain += more = *from++;
        if (plain > (size_t)(end - from) || plain > room - at)
            return false;
        memcpy(to + at, from, plain);
        at += plain;
        from += plain;
        if (from + 2 > end)
            break;
        const size_t distance = from[0] | (size_t)from[1] << 8;
        from += 2;
        for (unsigned more = 255; again >= 15 && more == 255 && from < end;)
            again += more = *from++;
        again += 4;
        if (!distance || distance > at || again > room - at)
            return false;
        for (; again; again--, at++)
            to[at] = to[at - distance];
    }
    return at == room;
}

/* By its library, which Debian's own tools want and so is there, mostly without its header. */
static bool unpack_zstd(const void *from, size_t count, void *to, size_t room)
{
    size_t (*unpack)(void *, size_t, const void *, size_t) = NULL;
    void *file = dlopen("libzstd.so.1", RTLD_NOW), *found = file ? dlsym(file, "ZSTD_decompress") : NULL;
    memcpy(&unpack, &found, sizeof unpack);
    return unpack && unpack(to, room, from, count) == room;
}

static char *unpack(const piece *p, char *why, size_t size)
{
    const unsigned char *from = (const unsigned char *)p + p->head;
    const size_t packed = p->flags & (PACKED_LZ4 | PACKED_ZSTD) ? p->packed : p->bytes,
                 bytes = p->flags & (PACKED_LZ4 | PACKED_ZSTD) ? p->unpacked : p->bytes;
    unsigned char *to = calloc(1, bytes + 1);
    bool good = to != NULL;
    if (good && p->flags & PACKED_LZ4)
        good = unpack_lz4(from, packed, to, bytes);
    else if (good && p->flags & PACKED_ZSTD)
        good = unpack_zstd(from, packed, to, bytes);
    else if (good)
        memcpy(to, from, bytes);
    if (good)
        return (char *)to;
    snprintf(why, size, "PTX that cannot be unpacked%s", p->flags & PACKED_ZSTD ? ": it wants libzstd.so.1" : "");
    free(to);
    return NULL;
}

/* The highest target of whose PTX it takes: SOFTGPU_PTX, or that of the GPU that it is. */
static uint32_t most_target(void)
{
    const char *word = getenv("SOFTGPU_PTX");
    return word ? (uint32_t)strtoul(word, NULL, 10) : 10 * CAPABILITY;
}

/* As a driver does, it takes the PTX of the highest target that the GPU can run. */
char *fatbin_words(const void *wrapped, char *why, size_t size)
{
    const wrapper *w = wrapped;
    const container *c = (const container *)(const void *)w->data;
    snprintf(why, size, "no PTX: it is compiled for GPUs that are there alone");
    if (w->magic != WRAPPER || c->magic != (uint32_t)CONTAINER)
        return NULL;
    const char *at = (const char *)c + c->head, *end = at + c->bytes;
    const piece *best = NULL;
    while (at + sizeof(piece) <= end) {
        const piece *p = (const piece *)(const void *)at;
        if (p->kind == PTX && p->target <= most_target() && (!best || p->target > best->target))
            best = p;
        at += p->head + p->bytes;
    }
    return best ? unpack(best, why, size) : NULL;
}
