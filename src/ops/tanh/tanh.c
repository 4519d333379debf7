/* tanh.c - the hyperbolic tangent. The gradient is computed from the output, so that the input may be overwritten. */
#include "ops/activation.h"

#include <tgmath.h> /* tanh is tanhf where REAL is float */

#ifdef REAL

FORWARD(tanh, 10, , tanh(x)) /* tanh counts as ten */
BACKWARD(tanh_grad, 1, , d *(1 - y * y))

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
    .grad = grad,
    ACTIVATION_FIELDS,
    .cases = elementwise_cases,
};

const op_def *const tanh_parts[] = {&tanh_op, &tanh_grad_op, NULL};
const kernel tanh_ref[] = {
    ELEMENTWISE(tanh_op, tanh),
    ELEMENTWISE(tanh_grad_op, tanh_grad),
    {0},
};

#endif
