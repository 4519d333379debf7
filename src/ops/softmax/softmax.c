/* softmax.c - exp(x) / sum of exp(x) over the classes of each row of an N x C tensor. The row's largest element is
 * subtracted first, so that nothing overflows. The gradient is computed from the output. */
#include "ops/op.h"

#include <tgmath.h> /* exp is expf where REAL is float */

#ifdef REAL

/* item: a row */
static void NAME(softmax_range)(const step *s, int64_t begin, int64_t end)
{
    const int64_t C = s->in[0].shape.dim[1];
    for (int64_t n = begin; n < end; n++) {
        const REAL *src = (const REAL *)s->in[0].data + n * C;
        REAL *dst = (REAL *)s->out[0].data + n * C, top = src[0], sum = 0;
        for (int64_t c = 1; c < C; c++)
            top = src[c] > top ? src[c] : top;
        for (int64_t c = 0; c < C; c++) {
            dst[c] = exp(src[c] - top);
            sum += dst[c];
        }
        for (int64_t c = 0; c < C; c++)
            dst[c] /= sum;
    }
}

static brasa_status NAME(softmax)(const step *s)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    step_for(s, N, (double)(N * C) * 10, NAME(softmax_range)); /* exp counts as ten */
    return BRASA_OK;
}

/* in: dst, ddst; out: dsrc = dst (ddst - sum of ddst dst); item: a row */
static void NAME(softmax_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const int64_t C = s->in[0].shape.dim[1];
    for (int64_t n = begin; n < end; n++) {
        const REAL *dst = (const REAL *)s->in[0].data + n * C, *ddst = (const REAL *)s->in[1].data + n * C;
        REAL *dsrc = (REAL *)s->out[0].data + n * C, sum = 0;
        for (int64_t c = 0; c < C; c++)
            sum += dst[c] * ddst[c];
        for (int64_t c = 0; c < C; c++)
            dsrc[c] = dst[c] * (ddst[c] - sum);
    }
}

static brasa_status NAME(softmax_grad)(const step *s)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    step_for(s, N, (double)(N * C) * 2, NAME(softmax_grad_range));
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/softmax/softmax.c"
#include "ops/real.h"

static brasa_status infer(infer_args *a)
{
    brasa_status status = infer_rank(a, 0, 2);
    return status == BRASA_OK ? infer_same(a) : status;
}

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &softmax_grad_op, 2, (int[]){a->n->out[0], a->dout[0]}, 1, a->n->in);
}

static const op_case cases[] = {
    {"1x1", ""},
    {"1x10", ""},
    {"5x3", ""},
    {"4x17", ""},
    {"2x513", ""},
    {"70000x10000", "", CASE_PLAN}, /* 2.8 GB */
    {"2x3x4x4", "", CASE_FAILS},
    {"2x0", "", CASE_FAILS},
    {0},
};

const op_def softmax_op = {
    .name = "softmax",
    .help = "probabilities of the classes of each row",
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .grad = grad,
    .in_place = 1,
    .cases = cases,
};

const op_def softmax_grad_op = {.name = "softmax_grad", .in_place = 3u};

const op_def *const softmax_parts[] = {&softmax_op, &softmax_grad_op, NULL};
const kernel softmax_ref[] = {
    REFERENCE(softmax_op, softmax),
    REFERENCE(softmax_grad_op, softmax_grad),
    {0},
};

#endif
