/* test_random.c - Philox4x32-10 and what is made of it. */
#include "test.h"
#include "core/random.h"

#include <stdlib.h>

/* From the known-answer file of the Random123 library: zeros, ones, and the digits of pi. */
TEST(known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int k = 0; k < 3; k++) {
        random_group got = philox4x32(rows[k].counter, rows[k].key);
        for (int i = 0; i < 4; i++)
            CHECK_INT(got.word[i], rows[k].want[i]);
    }
}

/* The layout of counter and key is part of the format of a run: old runs must repeat. */
TEST(layout)
{
    const random_stream s = {
        .seed = 0x299f31d0a4093822, .purpose = RANDOM_DATA, .stream = 0x707344, .step = 0x13198a2e};
    random_group got = random_at(&s, 0x85a308d3243f6a88);
    const uint32_t want[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    for (int i = 0; i < 4; i++)
        CHECK_INT(got.word[i], want[i]);
    random_group group = random_at(&s, 5);
    for (int i = 0; i < 4; i++) /* elements of a stream are the words of its groups in order */
        CHECK(random_uniform(&s, 20 + (uint64_t)i, 0, 1) == random_unit(group.word[i]));
}

/* Whatever was asked for before: a stream that differs in one place, or none at all, in any order. */
TEST(any_order)
{
    enum { STREAMS = 6, ELEMENTS = 16 };
    static const random_stream streams[STREAMS] = {{0},
                                                   {.seed = 7, .purpose = RANDOM_TEST, .stream = 1, .step = 2},
                                                   {.seed = 8, .purpose = RANDOM_TEST, .stream = 1, .step = 2},
                                                   {.seed = 7, .purpose = RANDOM_DATA, .stream = 1, .step = 2},
                                                   {.seed = 7, .purpose = RANDOM_TEST, .stream = 3, .step = 2},
                                                   {.seed = 7, .purpose = RANDOM_TEST, .stream = 1, .step = 3}};
    const random_stream order = {.seed = 5, .purpose = RANDOM_TEST};
    for (uint64_t i = 0; i < 2000; i++) {
        const random_group chosen = random_at(&order, i);
        const random_stream *s = &streams[i ? chosen.word[0] % STREAMS : 0];
        const uint64_t index = i ? chosen.word[1] % ELEMENTS : 0;
        CHECK(random_uniform(s, index, 0, 1) == random_unit(random_at(s, index / 4).word[index % 4]));
    }
}

TEST(range)
{
    CHECK(random_unit(0) == 0);
    CHECK(random_unit(UINT32_MAX) < 1);
    CHECK((float)random_unit(UINT32_MAX) < 1); /* also after rounding */
    const random_stream s = {.seed = 1, .purpose = RANDOM_TEST};
    double low = 0, high = -1;
    for (uint64_t i = 0; i < 100000; i++) {
        double x = random_uniform(&s, i, -1, 0.5);
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    CHECK(low >= -1 && low < -0.9999);
    CHECK(high < 0.5 && high > 0.4999);
}

/* 100000 numbers: the mean's deviation is 0.0009, so 0.004 is more than four of it. A histogram of 64 bins has a
 * chi-square of 63 +- 11. */
TEST(uniform_moments)
{
    enum { COUNT = 100000, BINS = 64 };
    const random_stream s = {.seed = 42, .purpose = RANDOM_TEST, .stream = 3, .step = 9};
    double sum = 0, squares = 0, chi = 0;
    int bin[BINS] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = random_uniform(&s, i, 0, 1);
        sum += x;
        squares += x * x;
        bin[(int)(x * BINS)]++;
    }
    CHECK_CLOSE(sum / COUNT, 0.5, 0.004);
    CHECK_CLOSE(squares / COUNT, 1.0 / 3, 0.004);
    for (int i = 0; i < BINS; i++)
        chi += pow(bin[i] - (double)COUNT / BINS, 2) / ((double)COUNT / BINS);
    CHECK_CLOSE(chi, BINS - 1, 55);
}

TEST(normal_moments)
{
    enum { COUNT = 100000 };
    const random_stream s = {.seed = 42, .purpose = RANDOM_WEIGHTS, .stream = 7};
    double moment[5] = {0}, neighbours = 0, before = 0;
    int beyond = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = random_normal(&s, i);
        for (int k = 1; k <= 4; k++)
            moment[k] += pow(x, k) / COUNT;
        neighbours += x * before / COUNT;
        before = x;
        beyond += fabs(x) > 1.959964;
        CHECK(isfinite(x));
    }
    CHECK_CLOSE(moment[1], 0, 0.015);
    CHECK_CLOSE(moment[2], 1, 0.02);
    CHECK_CLOSE(moment[3], 0, 0.04);
    CHECK_CLOSE(moment[4], 3, 0.15);
    CHECK_CLOSE(neighbours, 0, 0.015);
    CHECK_CLOSE((double)beyond / COUNT, 0.05, 0.004);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(random_group));
}

/* Counters are encrypted one to one, so different places must give different groups: every pair of seed, purpose,
 * stream, step and group that a small run could meet, sorted and compared with its neighbour. Under one key equality
 * is impossible; between keys it has a chance of 2^-128 a pair. */
TEST(streams_do_not_collide)
{
    enum { SEEDS = 3, PURPOSES = 4, STREAMS = 20, STEPS = 10, GROUPS = 16 };
    const int total = SEEDS * PURPOSES * STREAMS * STEPS * GROUPS;
    random_group *all = malloc((size_t)total * sizeof *all);
    REQUIRE(all);
    for (int i = 0; i < total; i++) {
        random_stream s = {.seed = (uint64_t)(i % SEEDS) << 31,
                           .purpose = (random_purpose)(1 + i / SEEDS % PURPOSES),
                           .stream = (uint32_t)(i / SEEDS / PURPOSES % STREAMS),
                           .step = (uint32_t)(i / SEEDS / PURPOSES / STREAMS % STEPS)};
        all[i] = random_at(&s, (uint64_t)(i / SEEDS / PURPOSES / STREAMS / STEPS));
    }
    qsort(all, (size_t)total, sizeof *all, compare);
    int equal = 0;
    for (int i = 1; i < total; i++)
        equal += compare(&all[i - 1], &all[i]) == 0;
    CHECK_INT(equal, 0);
    free(all);
}
