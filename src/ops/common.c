/* common.c - what several ops share. */
#include "ops/op.h"

/* Waking two threads and waiting for them costs a few microseconds: so many simple operations. A loop that is not
 * worth it must not enter a parallel region at all: libgomp allocates memory for a team of one. */
static const double worth_waking = 16384;

void step_for(const step *s, int64_t items, double work, void (*range)(const step *s, int64_t begin, int64_t end))
{
    const int64_t parts = items < s->threads ? items : s->threads;
    if (parts <= 1 || work < worth_waking) {
        range(s, 0, items);
        return;
    }
#pragma omp parallel for num_threads(s->threads) schedule(static, 1)
    for (int64_t part = 0; part < parts; part++)
        range(s, items * part / parts, items * (part + 1) / parts);
}

brasa_status infer_same(infer_args *a)
{
    a->out[0] = a->in[0];
    return BRASA_OK;
}

brasa_status infer_all_same(infer_args *a)
{
    for (int i = 1; i < a->nin; i++)
        if (!shape_equal(&a->in[0], &a->in[i]))
            return infer_fail(a, "input %d has another shape than input 1", i + 1);
    return infer_same(a);
}

const op_case elementwise_cases[] = {
    {"1x1x1x1", ""},
    {"1x1x5x7", ""},
    {"2x3x8x8", ""},
    {"3x17x5x5", ""},
    {"1x513x2x3", ""},
    {"4x10", ""},
    {"7", ""},
    {"16x128x600x600", "", CASE_PLAN},                         /* 2.9 GB */
    {"1000000x1000000x1000x1000", "", CASE_FAILS | CASE_PLAN}, /* 4e18 bytes */
    {"2x0x4x4", "", CASE_FAILS},
    {0},
};
