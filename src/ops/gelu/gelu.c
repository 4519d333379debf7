/* gelu.c - x P(x), where P is the normal distribution's cumulative function; or the approximation of it by tanh.
 *
 * Hendrycks, Gimpel: "Gaussian error linear units", 2016. The gradient needs the input: the function is not
 * monotonic, so its output does not tell where it came from.
 */
#include "ops/activation.h"
#include "ops/gelu/gelu.h"

#include <tgmath.h> /* erf, exp, tanh are those of REAL */

#ifdef REAL

#define EXACT const bool exact = ((const gelu_attr *)s->attr)->approximate == APPROXIMATE_NONE

static REAL NAME(bend)(REAL x)
{
    return tanh((REAL)TANH_SLOPE * (x + (REAL)TANH_CUBE * x * x * x));
}

FORWARD(gelu, 10, EXACT, /* erf and tanh count as ten */
        (REAL)0.5 * x * (1 + (exact ? erf(x * (REAL)HALF_ROOT) : NAME(bend)(x))))

/* The derivative at x. */
static REAL NAME(slope_exact)(REAL x)
{
    const REAL share = (REAL)0.5 * (1 + erf(x * (REAL)HALF_ROOT));
    return share + x * (REAL)NORMAL_HEIGHT * exp((REAL)-0.5 * x * x);
}

static REAL NAME(slope_tanh)(REAL x)
{
    const REAL t = NAME(bend)(x);
    const REAL dt = (1 - t * t) * (REAL)TANH_SLOPE * (1 + (REAL)(3 * TANH_CUBE) * x * x);
    return (REAL)0.5 * (1 + t + x * dt);
}

/* y is the input */
BACKWARD(gelu_grad, 20, EXACT, (exact ? NAME(slope_exact)(y) : NAME(slope_tanh)(y)) * d)
#undef EXACT

#else

#define REAL_SOURCE "ops/gelu/gelu.c"
#include "ops/real.h"

static const char *const approximate_words[] = {[APPROXIMATE_NONE] = "none", [APPROXIMATE_TANH] = "tanh", NULL};
static const field fields[] = {
    {"approximate", FIELD_WORD, offsetof(gelu_attr, approximate), "none", 0, 0, approximate_words, false,
     "tanh: the older formula that approximates the exact one"},
    {0},
};

static const op_def gelu_grad_op = {.name = "gelu_grad", .attr_size = sizeof(gelu_attr), .in_place = 3u};

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &gelu_grad_op, 2, (int[]){a->n->in[0], a->dout[0]}, 1, a->n->in);
}

static const op_case cases[] = {
    {"1x1x1x1", ""},
    {"2x3x8x8", ""},
    {"3x17x5x5", "approximate=tanh"},
    {"1x513x2x3", ""},
    {"4x10", "approximate=tanh"},
    {"7", ""},
    {"16x128x600x600", "", CASE_PLAN}, /* 2.9 GB */
    {"2x0x4x4", "", CASE_FAILS},
    {0},
};

static const op_def gelu_op = {
    .name = "gelu",
    .help = "x times the share of a normal distribution below x",
    .attr_size = sizeof(gelu_attr),
    .fields = fields,
    .grad = grad,
    ACTIVATION_FIELDS,
    .cases = cases,
};

const op_def *const gelu_parts[] = {&gelu_op, &gelu_grad_op, NULL};
const kernel gelu_ref[] = {
    ELEMENTWISE(gelu_op, gelu),
    ELEMENTWISE(gelu_grad_op, gelu_grad),
    {0},
};

#endif
