/* random.c - numbers of a given distribution. */
#include "core/random.h"

#include <math.h>
#include <stdbool.h>

static bool same_stream(const random_stream *a, const random_stream *b)
{
    return a->seed == b->seed && a->purpose == b->purpose && a->stream == b->stream && a->step == b->step;
}

/* random_at, but for the group of before: elements are mostly asked for one after the other, and the cipher is most
 * of what they cost. */
static const random_group *group_at(const random_stream *s, uint64_t group)
{
    static _Thread_local struct {
        random_stream stream;
        uint64_t group;
        random_group words;
    } last = {.group = UINT64_MAX}; /* no element's */
    if (last.group != group || !same_stream(&last.stream, s)) {
        last.stream = *s;
        last.group = group;
        last.words = random_at(s, group);
    }
    return &last.words;
}

double random_uniform(const random_stream *s, uint64_t index, double low, double high)
{
    return low + (high - low) * random_unit(group_at(s, index / 4)->word[index % 4]);
}

double random_normal(const random_stream *s, uint64_t index)
{
    const double two_pi = 6.283185307179586;
    const uint32_t *w = group_at(s, index / 2)->word + 2 * (index % 2);
    /* 1 - u lies in (0, 1], so the logarithm is finite. */
    return sqrt(-2.0 * log(1.0 - random_unit(w[0]))) * cos(two_pi * random_unit(w[1]));
}
