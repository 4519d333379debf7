/* mse.c - the mean of the squared differences of two tensors, over all elements. The sum is taken in double, in an
 * order that does not depend on the number of threads. */
#include "ops/op.h"

#ifndef REAL /* once, before the kernels */

enum { LANES = 64 }; /* parts of the tensors with a sum each: fixed, so that the result is too */

#endif
#ifdef REAL

/* The sums of squares; item: a lane */
static void NAME(mse_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *x = s->in[0].data, *y = s->in[1].data;
    const int64_t count = shape_count(&s->in[0].shape);
    double *part = s->workspace;
    for (int64_t lane = begin; lane < end; lane++) {
        double sum[4] = {0}; /* four running sums: the compiler may use vectors without reordering anything */
        int64_t i = count * lane / LANES;
        const int64_t stop = count * (lane + 1) / LANES;
        for (; i + 4 <= stop; i += 4)
            for (int j = 0; j < 4; j++)
                sum[j] += (double)(x[i + j] - y[i + j]) * (x[i + j] - y[i + j]);
        for (; i < stop; i++)
            sum[0] += (double)(x[i] - y[i]) * (x[i] - y[i]);
        part[lane] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

/* in: prediction, target; out: loss; workspace: a sum for each lane */
static brasa_status NAME(mse)(const step *s)
{
    const double count = (double)shape_count(&s->in[0].shape), *part = s->workspace;
    step_for(s, LANES, count, NAME(mse_range));
    double sum = 0;
    for (int lane = 0; lane < LANES; lane++)
        sum += part[lane];
    *(REAL *)s->out[0].data = (REAL)(sum / count);
    return BRASA_OK;
}

/* in: x, y, dloss; out: dx = 2 dloss (x - y) / count */
static void NAME(mse_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *x = s->in[0].data, *y = s->in[1].data;
    REAL *dx = s->out[0].data;
    const REAL factor = (REAL)(2.0 * *(const REAL *)s->in[2].data / (double)shape_count(&s->out[0].shape));
    for (int64_t i = begin; i < end; i++)
        dx[i] = factor * (x[i] - y[i]);
}

SPLIT_STEP(NAME(mse_grad), NAME(mse_grad_range), s->out[0].count, (double)s->out[0].count)

#else

#define REAL_SOURCE "ops/mse/mse.c"
#include "ops/real.h"

static brasa_status infer(infer_args *a)
{
    brasa_status status = infer_all_same(a);
    a->out[0] = (shape){0};
    return status;
}

static const op_def mse_grad_op = {.name = "mse_grad", .in_place = 3u};

/* The loss is symmetric: the target's gradient is the same with the two exchanged. */
static void grad(grad_args *a)
{
    const int *in = a->n->in;
    for (int k = 0; k < 2; k++)
        if (a->need[k])
            a->din[k] = grad_emit(a, &mse_grad_op, 3, (int[]){in[k], in[1 - k], a->dout[0]}, 1, in);
}

static int64_t workspace(const graph *g, const node *n)
{
    (void)g;
    (void)n;
    return LANES * (int64_t)sizeof(double);
}

static const op_case cases[] = {
    {"1x1 1x1", ""},
    {"2x3x8x8 2x3x8x8", ""},
    {"3x17 3x17", ""},
    {"1x513x3x2 1x513x3x2", ""},
    {"scalar scalar", ""},
    {"16x128x600x600 16x128x600x600", "", CASE_PLAN},
    {"2x3 2x4", "", CASE_FAILS},
    {"2x3 6", "", CASE_FAILS},
    {"2x0 2x0", "", CASE_FAILS},
    {0},
};

static const op_def mse_op = {
    .name = "mse",
    .help = "loss: mean of the squared differences of prediction and target",
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .grad = grad,
    .cases = cases,
};

const op_def *const mse_parts[] = {&mse_op, &mse_grad_op, NULL};
const kernel mse_ref[] = {
    REFERENCE_(mse_op, mse, .workspace = workspace),
    REFERENCE(mse_grad_op, mse_grad),
    {0},
};

#endif
