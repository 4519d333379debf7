/* multiply.c - the product of two tensors of one shape, element by element: gates and masks. */
#include "ops/op.h"

#ifdef REAL

static void NAME(multiply_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *a = s->in[0].data, *b = s->in[1].data;
    REAL *dst = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dst[i] = a[i] * b[i];
}

SPLIT_STEP(NAME(multiply), NAME(multiply_range), s->out[0].count, (double)s->out[0].count)

#else

#define REAL_SOURCE "ops/multiply/multiply.c"
#include "ops/wide.h"

/* Each gradient is ddst times the other input. */
static void grad(grad_args *a)
{
    for (int k = 0; k < 2; k++)
        if (a->need[k])
            a->din[k] = grad_emit(a, a->n->op, 2, (int[]){a->dout[0], a->n->in[1 - k]}, 1, a->n->in);
}

static const op_case cases[] = {
    {"1x1x1x1 1x1x1x1", ""},
    {"2x3x8x8 2x3x8x8", ""},
    {"3x17 3x17", ""},
    {"1x513x3x2 1x513x3x2", ""},
    {"16x128x600x600 16x128x600x600", "", CASE_PLAN},
    {"2x3x8x8 2x3x8x7", "", CASE_FAILS},
    {"2x3x8x8 2x3", "", CASE_FAILS},
    {"2x0 2x0", "", CASE_FAILS},
    {0},
};

static const op_def multiply_op = {
    .name = "multiply",
    .alias = "mul",
    .help = "product of two tensors of one shape, element by element",
    .min_in = 2,
    .max_in = 2,
    .infer = infer_all_same,
    .grad = grad,
    .in_place = 3u,
    .cases = cases,
};

const op_def *const multiply_parts[] = {&multiply_op, NULL};
const kernel multiply_wide[] = {WIDE(multiply_op, multiply), {0}};

#endif
