/* pool.c - a chain of chunks, each twice the last one, up to 1 MiB. */
#include "core/pool.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The sanitized build makes each piece a chunk of its own, so that its borders are watched and its allocation can
 * fail in a test. */
#ifdef POOL_SEPARATE
enum { FIRST_CHUNK = 0, LARGEST_CHUNK = 0, ALIGN = 16 };
#else
enum { FIRST_CHUNK = 8 << 10, LARGEST_CHUNK = 1 << 20, ALIGN = 16 };
#endif

struct pool_chunk {
    struct pool_chunk *next;
    _Alignas(ALIGN) char data[];
};

static bool pool_add_chunk(pool *p, size_t bytes)
{
    size_t size = p->size ? p->size * 2 : FIRST_CHUNK;
    size = size > LARGEST_CHUNK ? LARGEST_CHUNK : size;
    size = size < bytes ? bytes : size;
    struct pool_chunk *chunk = mem_get(p->ctx, sizeof *chunk + size);
    if (!chunk)
        return false;
    chunk->next = p->chunks;
    p->chunks = chunk;
    p->size = size;
    p->used = 0;
    return true;
}

void *pool_get(pool *p, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX / 4) / size)
        return NULL;
    size_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
    if ((!p->chunks || p->used + bytes > p->size) && !pool_add_chunk(p, bytes))
        return NULL;
    void *piece = p->chunks->data + p->used;
    p->used += bytes;
    return piece;
}

char *pool_text(pool *p, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : pool_get(p, (size_t)length + 1, 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void *pool_grow(pool *p, void *array, int count, int *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    int larger = *capacity ? *capacity * 2 : 16;
    void *copy = pool_get(p, (size_t)larger, size);
    if (!copy)
        return NULL;
    if (count)
        memcpy(copy, array, (size_t)count * size);
    *capacity = larger;
    return copy;
}

void pool_free(pool *p)
{
    while (p->chunks) {
        struct pool_chunk *next = p->chunks->next;
        mem_put(p->ctx, p->chunks);
        p->chunks = next;
    }
    p->used = p->size = 0;
}
