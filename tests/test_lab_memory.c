/* test_lab_memory.c - what processes share is counted once. */
#include "test.h"
#include "lab/memory.h"

#define SAMPLE(n, when, of_rss, of_pss)                                                                              \
    {                                                                                                                \
        .processes = n, .at = when, .rss = of_rss, .pss = of_pss                                                     \
    }

TEST(peak)
{
    static const struct {
        const char *what;
        int64_t peak_rss, expected;
        int count;
        store_sample samples[5];
    } cases[] = {
        {"nobody looked", -1, -1, 0, {{0}}},
        {"alone: the kernel's own peak", 150, 150, 2, {SAMPLE(1, 1, 100, 90), SAMPLE(1, 2, 120, -1)}},
        {"with PSS", 190, 110, 2, {SAMPLE(1, 1, 100, 100), SAMPLE(2, 2, 190, 110)}},
        {"after the last PSS", 260, 180, 3, {SAMPLE(1, 1, 100, 100), SAMPLE(2, 2, 190, 110), SAMPLE(2, 3, 260, -1)}},
        {"before the first", 210, 130, 3, {SAMPLE(1, 1, 100, 100), SAMPLE(2, 2, 210, -1), SAMPLE(2, 3, 200, 120)}},
        {"in between", 300, 238, 3, {SAMPLE(2, 1, 200, 120), SAMPLE(2, 4, 300, -1), SAMPLE(2, 5, 250, 194)}},
        {"PSS was never told", 190, 190, 2, {SAMPLE(1, 1, 100, 100), SAMPLE(2, 2, 190, -1)}},
        {"PSS of later pages", 190, 190, 2, {SAMPLE(2, 1, 190, 195), SAMPLE(2, 2, 180, -1)}},
        {"alone it had most", 300, 250, 3, {SAMPLE(1, 1, 250, -1), SAMPLE(2, 2, 300, 160), SAMPLE(2, 3, 280, -1)}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CASE("%s", cases[i].what);
        CHECK_INT(memory_peak(cases[i].samples, cases[i].count, cases[i].peak_rss), cases[i].expected);
    }
}
