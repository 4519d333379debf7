/* random.h - numbers that depend on where they are used, not on when: Philox4x32-10.
 *
 * Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A counter of 128 bits is
 * encrypted under a 64-bit key; any element of any stream is reached directly, by any thread, in any order.
 * Here the key is the seed, and the counter is (index of a group of four, step, purpose and stream), so that
 * weights, dropout masks and data never share numbers.
 */
#ifndef CORE_RANDOM_H
#define CORE_RANDOM_H

#include "core/on_device.h"

#include <stdint.h>

/* The purposes; their numbers are part of the format of a run and never change. */
typedef enum random_purpose {
    RANDOM_WEIGHTS = 1,
    RANDOM_DROPOUT = 2,
    RANDOM_DATA = 3,
    RANDOM_TEST = 4,
} random_purpose;

typedef struct random_stream {
    uint64_t seed;
    random_purpose purpose; /* at most 255 */
    uint32_t stream;        /* at most 2^24 - 1: the node's or parameter's number */
    uint32_t step;
} random_stream;

typedef struct random_group {
    uint32_t word[4];
} random_group;

/* The raw cipher. This one and random_at stand here so that loops over a stream take them in, where the call would
 * cost half as much again, and so that a GPU draws the same numbers. */
static inline ON_DEVICE random_group philox4x32(const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c0;
        uint64_t p1 = UINT64_C(0xCD9E8D57) * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += UINT32_C(0x9E3779B9); /* the golden ratio, and sqrt(3) - 1, as 32-bit fractions */
        k1 += UINT32_C(0xBB67AE85);
    }
    random_group out = {{c0, c1, c2, c3}};
    return out;
}

/* Elements 4 * group ... 4 * group + 3 of a stream. */
static inline ON_DEVICE random_group random_at(const random_stream *s, uint64_t group)
{
    uint32_t counter[4] = {(uint32_t)group, (uint32_t)(group >> 32), s->step,
                           (uint32_t)s->purpose << 24 | (s->stream & 0xFFFFFF)};
    uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    return philox4x32(counter, key);
}

/* A word as a number in [0, 1), a multiple of 2^-24: exact in float. */
static inline double random_unit(uint32_t word)
{
    return (word >> 8) * 0x1p-24;
}

/* Element `index` of a stream, uniform in [low, high). */
double random_uniform(const random_stream *s, uint64_t index, double low, double high);
/* Element `index` of a stream, normal with mean 0 and deviation 1 (Box-Muller). */
double random_normal(const random_stream *s, uint64_t index);

#endif
