/* sigmoid.c - 1 / (1 + exp(-x)). The gradient is computed from the output, so that the input may be overwritten. */
#include "ops/op.h"

#include <tgmath.h> /* exp is expf where REAL is float */

#ifdef REAL

static void NAME(sigmoid_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data;
    REAL *dst = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dst[i] = 1 / (1 + exp(-src[i])); /* exp may reach infinity: the result is then 0, as it should be */
}

static brasa_status NAME(sigmoid)(const step *s)
{
    step_for(s, s->out[0].count, (double)s->out[0].count * 10, NAME(sigmoid_range)); /* exp counts as ten */
    return BRASA_OK;
}

/* in: dst, ddst; out: dsrc = ddst dst (1 - dst) */
static void NAME(sigmoid_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *dst = s->in[0].data, *ddst = s->in[1].data;
    REAL *dsrc = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dsrc[i] = ddst[i] * dst[i] * (1 - dst[i]);
}

static brasa_status NAME(sigmoid_grad)(const step *s)
{
    step_for(s, s->out[0].count, (double)s->out[0].count, NAME(sigmoid_grad_range));
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/sigmoid/sigmoid.c"
#include "ops/real.h"

static const op_def sigmoid_grad_op = {.name = "sigmoid_grad", .in_place = 3u};

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &sigmoid_grad_op, 2, (int[]){a->n->out[0], a->dout[0]}, 1, a->n->in);
}

static const op_def sigmoid_op = {
    .name = "sigmoid",
    .help = "1 / (1 + exp(-x))",
    .min_in = 1,
    .max_in = 1,
    .infer = infer_same,
    .grad = grad,
    .in_place = 1,
    .elementwise = true,
    .cases = elementwise_cases,
};

const op_def *const sigmoid_parts[] = {&sigmoid_op, &sigmoid_grad_op, NULL};
const kernel sigmoid_ref[] = {
    REFERENCE(sigmoid_op, sigmoid),
    ELEMENTWISE(sigmoid_grad_op, sigmoid_grad),
    {0},
};

#endif
