/* relu.c - max(x, 0) and min(max(x, 0), 6). NaN stays NaN, as in PyTorch. Both gradients are computed from the
 * output, so that the input may be overwritten. */
#include "ops/activation.h"

#ifdef REAL

FORWARD(relu, 1, , x <= 0 ? 0 : x)

/* dsrc = ddst where dst > 0. Both are read whatever comes of it: so there is no branch, and the compiler can use
 * vectors. They may be parts: then it goes sample by sample, and those of number n lie n gaps further on. */
static void NAME(relu_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const bool parts = s->in[0].sample != s->out[0].sample || s->in[1].sample != s->out[0].sample;
    const int64_t sample = parts ? s->out[0].sample : s->out[0].count;
    for (int64_t stop; begin < end; begin = stop) {
        const int64_t n = begin / sample;
        const REAL *dst = (const REAL *)s->in[0].data + n * (s->in[0].sample - s->out[0].sample);
        const REAL *ddst = (const REAL *)s->in[1].data + n * (s->in[1].sample - s->out[0].sample);
        REAL *dsrc = s->out[0].data;
        stop = (n + 1) * sample < end ? (n + 1) * sample : end;
        for (int64_t i = begin; i < stop; i++) {
            const REAL d = ddst[i];
            dsrc[i] = dst[i] <= 0 ? 0 : d;
        }
    }
}

SPLIT_STEP(NAME(relu_grad), NAME(relu_grad_range), s->out[0].count, (double)s->out[0].count)

FORWARD(relu6, 1, , x <= 0 ? 0 : x >= 6 ? 6 : x)
BACKWARD(relu6_grad, 1, , ((y <= 0) | (y >= 6)) ? 0 : d)

#else

#define REAL_SOURCE "ops/relu/relu.c"
#include "ops/wide.h"

const op_def relu_grad_op = {.name = "relu_grad", .in_place = 1u << 1};
const op_def relu6_grad_op = {.name = "relu6_grad", .in_place = 1u << 1};

static void grad(grad_args *a)
{
    const op_def *op = a->n->op == &relu_op ? &relu_grad_op : &relu6_grad_op;
    a->din[0] = grad_emit(a, op, 2, (int[]){a->n->out[0], a->dout[0]}, 1, a->n->in);
}

const op_def relu_op = {
    .name = "relu",
    .help = "max(x, 0)",
    .grad = grad,
    ACTIVATION_FIELDS,
    .cases = elementwise_cases,
};

const op_def relu6_op = {
    .name = "relu6",
    .help = "min(max(x, 0), 6)",
    .grad = grad,
    ACTIVATION_FIELDS,
    .cases = elementwise_cases,
};

const op_def *const relu_parts[] = {&relu_op, &relu_grad_op, &relu6_op, &relu6_grad_op, NULL};
const kernel relu_wide[] = {
    WIDE(relu_op, relu),
    WIDE_(relu_grad_op, relu_grad, .any_layout = true, .parts_in = 3),
    WIDE(relu6_op, relu6),
    WIDE(relu6_grad_op, relu6_grad),
    {0},
};

#endif
