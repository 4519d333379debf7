/* storage.h - what the elements of a tensor are stored as.
 *
 * A value has a logical type: F32, F64, I32 or I64. Its elements may be stored as another one, which holds them less
 * exactly or in another way:
 *     BF16       a float's upper 16 bits, to nearest, to even where two are as near
 *     SPLIT_F32  a float in two planes, the first of which reads as BF16: split_f32.h
 *     F16        IEEE half: 5 bits of exponent, 10 of fraction, to nearest even
 *     U8         0 to 255: a pixel
 * A new storage type is a member of dtype, a row of the table in storage.c and a case in each of storage_load and
 * storage_store: the reference kernel of every op takes it then (ops/any_storage.c).
 */
#ifndef CORE_STORAGE_H
#define CORE_STORAGE_H

#include "core/split_f32.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum dtype { F32, F64, I32, I64, BF16, SPLIT_F32, F16, U8 } dtype;

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

static inline float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float bf16_load(uint16_t x)
{
    return float_of_bits((uint32_t)x << 16);
}

static inline uint16_t bf16_store(float x)
{
    const uint32_t bits = split_whole(bits_of_float(x));
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

static inline float f16_load(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 1023;
    if (exponent == 31) /* infinite, or no number */
        return float_of_bits(sign | 0x7F800000 | fraction << 13);
    if (exponent == 0) { /* fraction x 2^-24: zero and the small ones without a leading bit */
        const float y = (float)fraction * 0x1p-24f;
        return sign ? -y : y;
    }
    return float_of_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

static inline uint16_t f16_store(float x)
{
    const uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000)
        return 0x7FFF;
    if (size >= 0x477FF000) /* 65520 and more are nearer to what would come after 65504 */
        return (uint16_t)(sign | 0x7C00);
    if (size < 0x38800000) /* below 2^-14: a sum with 2^23 rounds to whole 2^-24 */
        return (uint16_t)(sign | (bits_of_float(float_of_bits(size) * 0x1p24f + 0x1p23f) & 0x7FF));
    return (uint16_t)(sign | (size + 0xFFF + (size >> 13 & 1) - (112u << 23)) >> 13);
}

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
        return (double)split_load((const uint16_t *)data, plane, i);
    case F16:
        return (double)f16_load(((const uint16_t *)data)[i]);
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
        split_store((uint16_t *)data, plane, i, (float)x);
        break;
    case F16:
        ((uint16_t *)data)[i] = f16_store((float)x);
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
