/* pool.h - memory that is handed out piece by piece and given back all at once.
 *
 * Graphs and programs are made of many small things with one common end of life. Pieces come zeroed and
 * aligned to 16 bytes. After a failed call, which returns NULL, the pool stays usable.
 */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "core/context.h"

typedef struct pool {
    brasa_context *ctx;
    struct pool_chunk *chunks;
    size_t used, size; /* of the newest chunk */
} pool;

void *pool_get(pool *p, size_t count, size_t size);
char *pool_text(pool *p, const char *format, ...) BRASA_PRINTF(2, 3);
/* The same array with room for one more element after `count`; the old one stays in the pool, so the cost is
 * at most the final size again. NULL when out of memory. */
void *pool_grow(pool *p, void *array, int count, int *capacity, size_t size);
void pool_free(pool *p);

#endif
