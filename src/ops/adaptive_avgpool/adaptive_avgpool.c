/* adaptive_avgpool.c - means that make planes of a given size, whatever the size of the input.
 *
 * N samples, C channels; src N x C x H x W, dst N x C x height x width. As in PyTorch, output o of n along an axis of
 * `in` pixels is the mean of pixels floor(o in / n) ... ceil((o + 1) in / n) - 1. Neighbours overlap, and are not
 * evenly apart, where n does not divide `in`: no avgpool does the same.
 */
#include "ops/adaptive_avgpool/adaptive_avgpool.h"

#ifdef REAL

#define NUMBER REAL
#define SCALAR REAL
#include "ops/means.h"

SPLIT_STEP(NAME(adaptive_avgpool), NAME(means_range), shape_span(&s->out[0].shape, 0, 2),
           adaptive_work(&s->in[0].shape, &s->out[0].shape))
SPLIT_STEP(NAME(adaptive_avgpool_grad), NAME(means_grad_range), shape_span(&s->out[0].shape, 0, 2),
           adaptive_work(&s->out[0].shape, &s->in[0].shape))

#else

typedef struct adaptive_attr {
    pair size;
} adaptive_attr;

#define REAL_SOURCE "ops/adaptive_avgpool/adaptive_avgpool.c"
#include "ops/real.h"

static const field fields[] = {
    {"size", FIELD_PAIR, offsetof(adaptive_attr, size), NULL, 1, MAX_WINDOW, NULL, true,
     "height x width of the output"},
    {0},
};

static brasa_status infer(infer_args *a)
{
    const adaptive_attr *t = a->attr;
    brasa_status status = infer_rank(a, 0, 4);
    a->out[0] = shape_4(a->in[0].dim[0], a->in[0].dim[1], t->size.h, t->size.w);
    return status;
}

const op_def adaptive_avgpool_grad_op = {.name = "adaptive_avgpool_grad", .attr_size = sizeof(adaptive_attr)};

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &adaptive_avgpool_grad_op, 1, a->dout, 1, a->n->in);
}

static op_cost cost(const graph *g, const node *n)
{
    return (op_cost){adaptive_work(&g->values[n->in[0]].shape, &g->values[n->out[0]].shape)};
}

static const op_case cases[] = {
    {"1x1x1x1", "1"},
    {"1x1x5x7", "2"},
    {"2x3x8x8", "4"}, /* as avgpool 2 */
    {"2x5x14x14", "4"},
    {"3x17x5x5", "3x2"},
    {"1x513x4x3", "3"},
    {"2x3x7x9", "7x9"}, /* nothing to do */
    {"2x3x6x5", "1"},   /* as global_avgpool */
    {"2x3x2x3", "5x4"}, /* more outputs than inputs */
    {"2x3x1x1", "3"},
    {"16x128x600x600", "7", CASE_PLAN}, /* 2.9 GB in */
    {"1000000x1000000x1000x1000", "2", CASE_FAILS | CASE_PLAN},
    {"2x3x0x4", "2", CASE_FAILS},
    {"2x12", "2", CASE_FAILS},
    {0},
};

const op_def adaptive_avgpool_op = {
    .name = "adaptive_avgpool",
    .help = "means that make planes of a given size",
    .min_in = 1,
    .max_in = 1,
    .attr_size = sizeof(adaptive_attr),
    .fields = fields,
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .cases = cases,
};

const op_def *const adaptive_avgpool_parts[] = {&adaptive_avgpool_op, &adaptive_avgpool_grad_op, NULL};
const kernel adaptive_avgpool_ref[] = {
    REFERENCE(adaptive_avgpool_op, adaptive_avgpool),
    REFERENCE(adaptive_avgpool_grad_op, adaptive_avgpool_grad),
    {0},
};

#endif
