/* split_f32.h - f32 tensors stored as two 16-bit planes: bf16, then the low bits.
 *
 * Mixed precision reads the first plane as bf16 weights and updates both as f32 master weights, so no second copy is
 * needed. The first plane is rounded to nearest, and away from zero where two are as near. Both together are the
 * float, every bit of it: bits = (upper << 16) + lower, where lower is signed But of the many NaNs there is one.
 */
#ifndef CORE_SPLIT_F32_H
#define CORE_SPLIT_F32_H

#include "core/on_device.h"

#include <stdint.h>
#include <string.h>

/* Elements from the first plane to the second, for so many elements: both begin at a multiple of 64 bytes. */
static inline ON_DEVICE int64_t split_plane(int64_t count)
{
    return (count + 31) / 32 * 32;
}

/* Prepares the bits of a float for the split: turns every NaN into one whose bf16 is a NaN, too. */
static inline ON_DEVICE uint32_t split_whole(uint32_t bits)
{
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFF0000u : bits;
}

static inline ON_DEVICE uint16_t split_upper(uint32_t whole)
{
    return (uint16_t)((whole + 0x8000u) >> 16);
}

static inline ON_DEVICE uint16_t split_lower(uint32_t whole)
{
    return (uint16_t)whole;
}

static inline ON_DEVICE uint32_t split_join(uint16_t upper, uint16_t lower)
{
    return ((uint32_t)upper << 16) + lower - (lower & 0x8000u) * 2;
}

/* --- of the host: element i of a tensor whose planes are so far apart --------------------------------------------
 */

static inline void split_store(uint16_t *to, int64_t plane, int64_t i, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = split_whole(bits);
    to[i] = split_upper(bits);
    to[plane + i] = split_lower(bits);
}

static inline float split_load(const uint16_t *from, int64_t plane, int64_t i)
{
    const uint32_t bits = split_join(from[i], from[plane + i]);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
