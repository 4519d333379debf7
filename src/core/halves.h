/* halves.h - floats in two halves: a plane of upper ones, and behind it one of lower ones.
 *
 * The upper half is the float rounded to bf16, to nearest, and away from zero where two are as near: what computes in
 * 16 bits reads that plane as a tensor of bf16. Both together are the float, every bit of it:
 *     bits = (upper << 16) + lower, where lower is signed
 * But of the many NaNs there is one.
 */
#ifndef CORE_HALVES_H
#define CORE_HALVES_H

#include "core/on_device.h"

#include <stdint.h>
#include <string.h>

/* From an upper half to its lower one, of so many elements: both planes begin at a multiple of 64 bytes. */
static inline ON_DEVICE int64_t halves_plane(int64_t count)
{
    return (count + 31) / 32 * 32;
}

/* To be asked before a float is split, by its bits: a NaN whose upper half is one, too. */
static inline ON_DEVICE uint32_t halves_whole(uint32_t bits)
{
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFF0000u : bits;
}

static inline ON_DEVICE uint16_t halves_upper(uint32_t whole)
{
    return (uint16_t)((whole + 0x8000u) >> 16);
}

static inline ON_DEVICE uint16_t halves_lower(uint32_t whole)
{
    return (uint16_t)whole;
}

static inline ON_DEVICE uint32_t halves_join(uint16_t upper, uint16_t lower)
{
    return ((uint32_t)upper << 16) + lower - (lower & 0x8000u) * 2;
}

/* --- of the host: element i of a tensor in halves, the planes so far apart -------------------------------------- */

static inline void halves_set(uint16_t *to, int64_t plane, int64_t i, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = halves_whole(bits);
    to[i] = halves_upper(bits);
    to[plane + i] = halves_lower(bits);
}

static inline float halves_get(const uint16_t *from, int64_t plane, int64_t i)
{
    const uint32_t bits = halves_join(from[i], from[plane + i]);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
