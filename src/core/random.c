/* random.c - numbers of a given distribution. */
#include "core/random.h"

#include <math.h>

double random_uniform(const random_stream *s, uint64_t index, double low, double high)
{
    random_group g = random_at(s, index / 4);
    return low + (high - low) * random_unit(g.word[index % 4]);
}

double random_normal(const random_stream *s, uint64_t index)
{
    const double two_pi = 6.283185307179586;
    random_group g = random_at(s, index / 2);
    const uint32_t *w = g.word + 2 * (index % 2);
    /* 1 - u lies in (0, 1], so the logarithm is finite. */
    return sqrt(-2.0 * log(1.0 - random_unit(w[0]))) * cos(two_pi * random_unit(w[1]));
}
