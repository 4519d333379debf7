/* sigmoid.c - 1 / (1 + exp(-x)). The gradient is computed from the output, so that the input may be overwritten. */
#include "ops/activation.h"

#include <tgmath.h> /* exp is expf where REAL is float */

#ifdef REAL

FORWARD(sigmoid, 10, ,
        1 / (1 + exp(-x))) /* exp counts as ten; it may reach infinity: the result is then 0, as it should be */
BACKWARD(sigmoid_grad, 1, , d *y *(1 - y))

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
    .grad = grad,
    ACTIVATION_FIELDS,
    .cases = elementwise_cases,
};

const op_def *const sigmoid_parts[] = {&sigmoid_op, &sigmoid_grad_op, NULL};
const kernel sigmoid_ref[] = {
    REFERENCE(sigmoid_op, sigmoid),
    ELEMENTWISE(sigmoid_grad_op, sigmoid_grad),
    {0},
};

#endif
