/* leaky_relu.c - x where x > 0, slope * x elsewhere. The slope is not negative, so the output tells the sign of the
 * input: the gradient is computed from it, and the input may be overwritten. NaN stays NaN. */
#include "ops/activation.h"

#ifdef REAL

#define SLOPE const REAL slope = (REAL) * (const double *)s->attr
FORWARD(leaky_relu, 1, SLOPE, x <= 0 ? slope * x : x)
BACKWARD(leaky_relu_grad, 1, SLOPE, y <= 0 ? slope * d : d)
#undef SLOPE

#else

#define REAL_SOURCE "ops/leaky_relu/leaky_relu.c"
#include "ops/wide.h"

static const field fields[] = {
    {"slope", FIELD_REAL, 0, "0.01", 0, 1, NULL, true, "what negative inputs are multiplied with"},
    {0},
};

static const op_def leaky_relu_grad_op = {
    .name = "leaky_relu_grad", .attr_size = sizeof(double), .fields = fields, .in_place = 1u << 1};

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &leaky_relu_grad_op, 2, (int[]){a->n->out[0], a->dout[0]}, 1, a->n->in);
}

static const op_case cases[] = {
    {"1x1x1x1", ""},
    {"1x3x5x7", "0.2"},
    {"2x17x3x3", "slope=1"},
    {"1x513x2x1", "0.5"},
    {"4x10", "0.3"},
    {"16x128x600x600", "", CASE_PLAN},
    {"1000000x1000000x1000x1000", "", CASE_FAILS | CASE_PLAN},
    {"2x0x4x4", "", CASE_FAILS},
    {0},
};

static const op_def leaky_relu_op = {
    .name = "leaky_relu",
    .help = "x where x > 0, slope * x elsewhere",
    .attr_size = sizeof(double),
    .fields = fields,
    .grad = grad,
    ACTIVATION_FIELDS,
    .cases = cases,
};

const op_def *const leaky_relu_parts[] = {&leaky_relu_op, &leaky_relu_grad_op, NULL};
const kernel leaky_relu_wide[] = {
    WIDE(leaky_relu_op, leaky_relu),
    WIDE(leaky_relu_grad_op, leaky_relu_grad),
    {0},
};

#endif
