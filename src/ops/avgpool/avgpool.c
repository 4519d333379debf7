/* avgpool.c - the mean of each window, and of each plane.
 *
 * N samples, C channels; src N x C x H x W, dst N x C x height x width (1 x 1 for the global one). The divisor is the
 * number of pixels under the window: with `count_pad` those in the padding too, but never those beyond it, where a
 * last window in ceil mode may reach.
 */
#include "ops/avgpool/avgpool.h"

#ifdef REAL

#define NUMBER REAL
#define SCALAR REAL
#include "ops/means.h"

SPLIT_STEP(NAME(avgpool), NAME(means_range), shape_span(&s->out[0].shape, 0, 2),
           window_taps(s->attr, s->out[0].count))
SPLIT_STEP(NAME(avgpool_grad), NAME(means_grad_range), shape_span(&s->out[0].shape, 0, 2),
           (double)s->out[0].count + window_taps(s->attr, s->in[0].count))

/* in: src; out: dst */
static void NAME(global_avgpool_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data;
    REAL *dst = s->out[0].data;
    const int64_t HW = shape_span(&s->in[0].shape, 2, 4);
    for (int64_t i = begin; i < end; i++) {
        double sum = 0;
        for (int64_t j = 0; j < HW; j++)
            sum += src[i * HW + j];
        dst[i] = (REAL)(sum / (double)HW);
    }
}

SPLIT_STEP(NAME(global_avgpool), NAME(global_avgpool_range), s->out[0].count, (double)s->in[0].count)

/* in: ddst; out: dsrc */
static void NAME(global_avgpool_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *ddst = s->in[0].data;
    REAL *dsrc = s->out[0].data;
    const int64_t HW = shape_span(&s->out[0].shape, 2, 4);
    for (int64_t i = begin; i < end; i++) {
        const REAL part = ddst[i] / (REAL)HW;
        for (int64_t j = 0; j < HW; j++)
            dsrc[i * HW + j] = part;
    }
}

SPLIT_STEP(NAME(global_avgpool_grad), NAME(global_avgpool_grad_range), s->in[0].count, (double)s->out[0].count)

#else

#define REAL_SOURCE "ops/avgpool/avgpool.c"
#include "ops/real.h"

#define AT(member) offsetof(avgpool_attr, member)
static const field fields[] = {
    {"size", FIELD_PAIR, AT(window.size), NULL, 1, MAX_WINDOW, NULL, true, "height x width of the window"},
    {"stride", FIELD_PAIR, AT(window.stride), "0", 0, MAX_WINDOW, NULL, false, "pixels between windows; 0: the size"},
    {"pad", FIELD_PADS, AT(window.pad), "valid", 0, 0, NULL, false, "zeros around the input"},
    {"ceil", FIELD_BOOL, AT(window.ceil), "no", 0, 0, NULL, false, "the last window may be cut off by the border"},
    {"count_pad", FIELD_BOOL, AT(count_pad), "", 0, 0, NULL, false, "the padding counts in the mean"},
    {0},
};
#undef AT

static void set_defaults(void *attr, const dialect *d)
{
    avgpool_attr *t = attr;
    t->count_pad = d->avgpool_counts_padding;
}

static brasa_status infer(infer_args *a)
{
    avgpool_attr *t = a->attr;
    return window_infer_pool(a, &t->window);
}

static brasa_status infer_global(infer_args *a)
{
    brasa_status status = infer_rank(a, 0, 4);
    a->out[0] = shape_4(a->in[0].dim[0], a->in[0].dim[1], 1, 1);
    return status;
}

const op_def avgpool_grad_op = {.name = "avgpool_grad", .attr_size = sizeof(avgpool_attr)};
const op_def global_avgpool_grad_op = {.name = "global_avgpool_grad"};

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &avgpool_grad_op, 1, a->dout, 1, a->n->in);
}

static void grad_global(grad_args *a)
{
    a->din[0] = grad_emit(a, &global_avgpool_grad_op, 1, a->dout, 1, a->n->in);
}

static op_cost cost(const graph *g, const node *n)
{
    return (op_cost){window_taps(n->attr, shape_count(&g->values[n->out[0]].shape))};
}

static op_cost cost_global(const graph *g, const node *n)
{
    return (op_cost){(double)shape_count(&g->values[n->in[0]].shape)};
}

static const op_case cases[] = {
    {"1x1x1x1", "1"},
    {"1x1x5x7", "2"},
    {"2x3x8x8", "2"},
    {"3x17x5x5", "3 stride=1"},
    {"1x513x4x3", "2"},
    {"2x3x7x9", "3x2 stride=2x3"},
    {"2x3x2x2", "4 pad=2 stride=1"}, /* a window larger than the input */
    {"2x3x9x9", "2 stride=4"},       /* a stride larger than the window */
    {"2x3x8x7", "3 stride=2 pad=0,1,1,0"},
    {"2x3x8x7", "3 stride=2 pad=0,1,1,0 count_pad=no"},
    {"2x3x7x7", "3 stride=2 pad=1"},
    {"2x3x7x7", "3 stride=2 pad=1 count_pad=no"},
    {"2x3x8x8", "3 stride=2 ceil"},
    {"1x2x8x6", "3 stride=2 pad=1 ceil"},
    {"1x2x5x5", "2 stride=2 pad=1 ceil"}, /* the window past the end is left out */
    {"1x2x1x1", "2 ceil"},                /* not even one whole window */
    {"1x2x6x6", "3 stride=1 pad=same"},
    {"2x3x7x8", "3x2 stride=2 pad=same", 0, 0, "tfkeras"},
    {"2x3x7x8", "3 stride=2 pad=same", 0, 0, "caffe"},
    {"2x20x9x7", "3x2 stride=2x3 pad=1"}, /* in blocks of channels */
    {"1x5x8x7", "3 stride=2 pad=0,1,1,0 count_pad=no"},
    {"1x33x9x9", "2 stride=4"},
    {"2x4x5x5", "2 stride=2 pad=1 ceil"},
    {"16x128x600x600", "2", CASE_PLAN}, /* 2.9 GB in */
    {"1000000x1000000x1000x1000", "2", CASE_FAILS | CASE_PLAN},
    {"2x3x1x1", "2", CASE_FAILS}, /* empty outputs */
    {"2x3x1x1", "3 stride=2 ceil", CASE_FAILS},
    {"2x3x8x8", "2 pad=2", CASE_FAILS},
    {"2x3x8x8", "2 pad=same", CASE_FAILS}, /* not with a stride in PyTorch */
    {"2x12", "2", CASE_FAILS},
    {0},
};

static const op_case global_cases[] = {
    {"1x1x1x1", ""},
    {"1x3x5x7", ""},
    {"2x17x8x8", ""},
    {"1x513x2x3", ""},
    {"16x128x600x600", "", CASE_PLAN}, /* 2.9 GB in */
    {"1000000x1000000x1000x1000", "", CASE_FAILS | CASE_PLAN},
    {"2x12", "", CASE_FAILS},
    {"2x3x0x4", "", CASE_FAILS},
    {0},
};

const op_def avgpool_op = {
    .name = "avgpool",
    .help = "the mean of each window",
    .min_in = 1,
    .max_in = 1,
    .attr_size = sizeof(avgpool_attr),
    .fields = fields,
    .set_defaults = set_defaults,
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .cases = cases,
};

const op_def global_avgpool_op = {
    .name = "global_avgpool",
    .help = "the mean of each plane: N x C x 1 x 1",
    .min_in = 1,
    .max_in = 1,
    .infer = infer_global,
    .grad = grad_global,
    .cost = cost_global,
    .cases = global_cases,
};

const op_def *const avgpool_parts[] = {&avgpool_op, &avgpool_grad_op, &global_avgpool_op, &global_avgpool_grad_op,
                                       NULL};
const kernel avgpool_ref[] = {
    REFERENCE(avgpool_op, avgpool),
    REFERENCE(avgpool_grad_op, avgpool_grad),
    REFERENCE(global_avgpool_op, global_avgpool),
    REFERENCE(global_avgpool_grad_op, global_avgpool_grad),
    {0},
};

#endif
