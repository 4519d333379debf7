/* random.c - Philox4x32-10. */
#include "core/random.h"

#include <math.h>

random_group philox4x32(const uint32_t counter[4], const uint32_t key[2])
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
    return (random_group){{c0, c1, c2, c3}};
}

random_group random_at(const random_stream *s, uint64_t group)
{
    uint32_t counter[4] = {(uint32_t)group, (uint32_t)(group >> 32), s->step,
                           (uint32_t)s->purpose << 24 | (s->stream & 0xFFFFFF)};
    uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    return philox4x32(counter, key);
}

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
