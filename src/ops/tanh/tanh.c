/* tanh.c - the hyperbolic tangent. The gradient is computed from the output, so that the input may be overwritten. */
#include "ops/op.h"

#include <tgmath.h> /* tanh is tanhf where REAL is float */

#ifdef REAL

static void NAME(tanh_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data;
    REAL *dst = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dst[i] = tanh(src[i]);
}

static brasa_status NAME(tanh)(const step *s)
{
    step_for(s, s->out[0].count, (double)s->out[0].count * 10, NAME(tanh_range)); /* tanh counts as ten */
    return BRASA_OK;
}

/* in: dst, ddst; out: dsrc = ddst (1 - dst^2) */
static void NAME(tanh_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *dst = s->in[0].data, *ddst = s->in[1].data;
    REAL *dsrc = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dsrc[i] = ddst[i] * (1 - dst[i] * dst[i]);
}

static brasa_status NAME(tanh_grad)(const step *s)
{
    step_for(s, s->out[0].count, (double)s->out[0].count, NAME(tanh_grad_range));
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/tanh/tanh.c"
#include "ops/real.h"

static const op_def tanh_grad_op = {.name = "tanh_grad", .in_place = 3u};

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &tanh_grad_op, 2, (int[]){a->n->out[0], a->dout[0]}, 1, a->n->in);
}

static const op_def tanh_op = {
    .name = "tanh",
    .help = "hyperbolic tangent",
    .min_in = 1,
    .max_in = 1,
    .infer = infer_same,
    .grad = grad,
    .in_place = 1,
    .elementwise = true,
    .cases = elementwise_cases,
};

const op_def *const tanh_parts[] = {&tanh_op, &tanh_grad_op, NULL};
const kernel tanh_ref[] = {
    ELEMENTWISE(tanh_op, tanh),
    ELEMENTWISE(tanh_grad_op, tanh_grad),
    {0},
};

#endif
