/* storage.h - what the elements of a tensor are stored as.
 *
 * A value has a logical type: F32, F64, I32 or I64. Its elements may be stored as another one, which holds them less
 * exactly or in another way:
 *     BF16       a float's upper 16 bits, to nearest, to even where two are as near
 *     SPLIT_F32  a float in two planes, the first of which reads as BF16 (halves.h)
 *     U8         0 to 255: a pixel
 * A new storage type is a member of dtype, a row of the table in storage.c and a case in each of storage_load and
 * storage_store.
 */
#ifndef CORE_STORAGE_H
#define CORE_STORAGE_H

#include "core/halves.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum dtype { F32, F64, I32, I64, BF16, SPLIT_F32, U8 } dtype;

/* Bytes of an element, in all planes. */
size_t dtype_size(dtype type);
const char *dtype_name(dtype type);
/* Whether it holds fractions. */
bool dtype_real(dtype type);

/* Bytes of so many elements. */
int64_t storage_bytes(dtype type, int64_t count);
/* From the first plane of so many elements to the second, in elements of a plane; 0: there is one. */
int64_t storage_plane(dtype type, int64_t count);
/* What a tensor that is stored so can be read as in its place, too: BF16 of SPLIT_F32; else the type itself. */
dtype storage_view(dtype type);

/* Element i of `data`, whose planes are so far apart; and the same for writing. */
static inline double storage_load(dtype type, const void *data, int64_t plane, int64_t i)
{
    switch (type) {
    case F32:
        return (double)((const float *)data)[i];
    case F64:
        return ((const double *)data)[i];
    case I32:
        return (double)((const int32_t *)data)[i];
    case I64:
        return (double)((const int64_t *)data)[i];
    case BF16:
        return (double)bf16_load(((const uint16_t *)data)[i]);
    case SPLIT_F32:
        return (double)halves_get((const uint16_t *)data, plane, i);
    case U8:
        return (double)((const uint8_t *)data)[i];
    }
    return 0;
}

static inline void storage_store(dtype type, void *data, int64_t plane, int64_t i, double x)
{
    switch (type) {
    case F32:
        ((float *)data)[i] = (float)x;
        break;
    case F64:
        ((double *)data)[i] = x;
        break;
    case I32:
        ((int32_t *)data)[i] = (int32_t)x;
        break;
    case I64:
        ((int64_t *)data)[i] = (int64_t)x;
        break;
    case BF16:
        ((uint16_t *)data)[i] = bf16_store((float)x);
        break;
    case SPLIT_F32:
        halves_set((uint16_t *)data, plane, i, (float)x);
        break;
    case U8:
        ((uint8_t *)data)[i] = (uint8_t)(x > 0 ? x < 255 ? x + 0.5 : 255 : 0);
        break;
    }
}

/* Elements first to first + count - 1 of `from` into to[], which holds reals, F32 or F64; and back. */
void storage_load_many(dtype type, const void *from, int64_t plane, int64_t first, int64_t count, dtype real,
                       void *to);
void storage_store_many(dtype type, void *to, int64_t plane, int64_t first, int64_t count, dtype real,
                        const void *from);

#endif
