/* streams.h - the random numbers of data, all of purpose RANDOM_DATA: which stream is whose. Part of a run's format:
 * they never change. Drawn pictures have the streams from 2^16 on (draw.h). */
#ifndef DATA_STREAMS_H
#define DATA_STREAMS_H

#include "core/random.h"

enum { STREAM_SPLIT = 1, STREAM_ORDER = 2, STREAM_CHANGE = 3 };

/* 0 to count - 1, from a random word. */
static inline int32_t data_below(uint32_t word, int32_t count)
{
    return (int32_t)((uint64_t)word * (uint64_t)count >> 32);
}

/* Puts a list into an order that depends on (seed, stream, step) and its length alone: Fisher and Yates. */
static inline void data_shuffle(int32_t *list, int32_t count, uint64_t seed, uint32_t stream, uint32_t step)
{
    const random_stream s = {seed, RANDOM_DATA, stream, step};
    random_group g = {{0}};
    for (int32_t i = count - 1, drawn = 0; i > 0; i--, drawn++) {
        if (drawn % 4 == 0)
            g = random_at(&s, (uint64_t)drawn / 4);
        const int32_t other = data_below(g.word[drawn % 4], i + 1), moved = list[i];
        list[i] = list[other];
        list[other] = moved;
    }
}

#endif
