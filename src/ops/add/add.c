/* add.c - the sum of two or more tensors of one shape: residual connections, and gradients that meet. */
#include "ops/op.h"

#ifdef REAL

/* Nearly all sums are of two. */
static void NAME(add_two)(const step *s, int64_t begin, int64_t end)
{
    const REAL *a = s->in[0].data, *b = s->in[1].data;
    REAL *dst = s->out[0].data;
    const activation act = s->node->act;
    for (int64_t i = begin; i < end; i++) {
        const REAL sum = a[i] + b[i];
        dst[i] = ACTIVATE(act, sum);
    }
}

static void NAME(add_range)(const step *s, int64_t begin, int64_t end)
{
    if (s->nin == 2) {
        NAME(add_two)(s, begin, end);
        return;
    }
    REAL *dst = s->out[0].data;
    const activation act = s->node->act;
    for (int64_t i = begin; i < end; i++) {
        REAL sum = ((const REAL *)s->in[0].data)[i];
        for (int k = 1; k < s->nin; k++)
            sum += ((const REAL *)s->in[k].data)[i];
        dst[i] = ACTIVATE(act, sum);
    }
}

SPLIT_STEP(NAME(add), NAME(add_range), s->out[0].count, (double)s->out[0].count * s->nin)

#else

#define REAL_SOURCE "ops/add/add.c"
#include "ops/wide.h"

static void grad(grad_args *a)
{
    for (int k = 0; k < a->n->nin; k++)
        a->din[k] = a->dout[0];
}

static const op_case cases[] = {
    {"1x1x1x1 1x1x1x1", ""},
    {"2x3x8x8 2x3x8x8", ""},
    {"3x17 3x17 3x17", ""},
    {"1x513x3x2 1x513x3x2", ""},
    {"16x128x600x600 16x128x600x600", "", CASE_PLAN},
    {"2x3x8x8 2x3x8x7", "", CASE_FAILS},
    {"2x3x8x8 2x3", "", CASE_FAILS},
    {"2x0 2x0", "", CASE_FAILS},
    {0},
};

const op_def add_op = {
    .name = "add",
    .help = "sum of tensors of one shape",
    .min_in = 2,
    .infer = infer_all_same,
    .grad = grad,
    .in_place = ~0u,
    .takes_activation = true,
    .cases = cases,
};

const op_def *const add_parts[] = {&add_op, NULL};
const kernel add_wide[] = {WIDE(add_op, add), {0}};

#endif
