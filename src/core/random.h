/* random.h - numbers that depend on where they are used, not on when: Philox4x32-10.
 *
 * Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A counter of 128 bits is
 * encrypted under a 64-bit key; any element of any stream is reached directly, by any thread, in any order.
 * Here the key is the seed, and the counter is (index of a group of four, step, purpose and stream), so that
 * weights, dropout masks and data never share numbers.
 */
#ifndef CORE_RANDOM_H
#define CORE_RANDOM_H

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

/* The raw cipher. */
random_group philox4x32(const uint32_t counter[4], const uint32_t key[2]);

/* Elements 4 * group ... 4 * group + 3 of a stream. */
random_group random_at(const random_stream *s, uint64_t group);

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
