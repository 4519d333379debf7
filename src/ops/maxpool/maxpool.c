/* maxpool.c - the largest value of each window.
 *
 * N samples, C channels; src N x C x H x W, dst N x C x height x width, and beside dst the place of each winner in
 * its input plane, which is all that the gradient needs. Padding never wins. NaN wins over everything, as in PyTorch;
 * of equal values the first one does.
 */
#include "ops/maxpool/maxpool.h"

#include <math.h>

#ifdef REAL

/* One output row: tap by tap, so that the outputs do not wait for each other. */
static void NAME(maxpool_row)(const window *x, span rows, const REAL *restrict src, REAL *restrict dst,
                              int32_t *restrict winner, activation act)
{
    for (int64_t o = 0; o < x->out; o++) {
        dst[o] = (REAL)-INFINITY;
        winner[o] = (int32_t)(rows.lo * x->in + window_inputs(x, o).lo); /* should nothing be above -infinity */
    }
    for (int64_t iy = rows.lo; iy < rows.hi; iy++) {
        for (int64_t tap = 0; tap < x->size; tap++) {
            const span outputs = window_outputs(x, tap);
            for (int64_t o = outputs.lo; o < outputs.hi; o++) {
                const int64_t i = iy * x->in + o * x->stride - x->before + tap;
                const bool wins = (src[i] > dst[o]) | (src[i] != src[i]);
                dst[o] = wins ? src[i] : dst[o];
                winner[o] = wins ? (int32_t)i : winner[o];
            }
        }
    }
    for (int64_t o = 0; act != ACT_NONE && o < x->out; o++)
        dst[o] = ACTIVATE(act, dst[o]);
}

/* in: src; out: dst, winner (i32); item: a plane of dst */
static void NAME(maxpool_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data;
    REAL *dst = s->out[0].data;
    int32_t *winner = s->out[1].data;
    const shape *in = &s->in[0].shape, *out = &s->out[0].shape;
    const window y = window_y(s->attr, in, out), x = window_x(s->attr, in, out);
    const int64_t HW = y.in * x.in, P = y.out * x.out;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t oy = 0; oy < y.out; oy++) {
            const int64_t row = i * P + oy * x.out;
            NAME(maxpool_row)
            (&x, window_inputs(&y, oy), src + i * HW, dst + row, winner + row, s->node->act);
        }
    }
}

SPLIT_STEP(NAME(maxpool), NAME(maxpool_range), shape_span(&s->out[0].shape, 0, 2),
           window_taps(s->attr, s->out[0].count))

/* in: winner (i32), ddst; out: dsrc; item: a plane of dsrc */
static void NAME(maxpool_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const int32_t *winner = s->in[0].data;
    const REAL *ddst = s->in[1].data;
    REAL *dsrc = s->out[0].data;
    const int64_t HW = shape_span(&s->out[0].shape, 2, 4), P = shape_span(&s->in[1].shape, 2, 4);
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = 0; j < HW; j++)
            dsrc[i * HW + j] = 0;
        for (int64_t j = i * P; j < (i + 1) * P; j++)
            dsrc[i * HW + winner[j]] += ddst[j];
    }
}

SPLIT_STEP(NAME(maxpool_grad), NAME(maxpool_grad_range), shape_span(&s->out[0].shape, 0, 2), (double)s->out[0].count)

#else

#define REAL_SOURCE "ops/maxpool/maxpool.c"
#include "ops/real.h"

#define AT(member) offsetof(window_attr, member)
static const field fields[] = {
    {"size", FIELD_PAIR, AT(size), NULL, 1, MAX_WINDOW, NULL, true, "height x width of the window"},
    {"stride", FIELD_PAIR, AT(stride), "0", 0, MAX_WINDOW, NULL, false, "pixels between windows; 0: the size"},
    {"pad", FIELD_PADS, AT(pad), "valid", 0, 0, NULL, false, "pixels around the input, which never win"},
    {"ceil", FIELD_BOOL, AT(ceil), "no", 0, 0, NULL, false, "the last window may be cut off by the border"},
    {0},
};
#undef AT

static brasa_status infer(infer_args *a)
{
    if (a->in[0].rank == 4 && shape_span(&a->in[0], 2, 4) > INT32_MAX)
        return infer_fail(a, "a plane has more than 2^31 - 1 pixels");
    brasa_status status = window_infer_pool(a, a->attr);
    a->nout = 2;
    a->out[1] = a->out[0];
    a->type[1] = I32;
    return status;
}

const op_def maxpool_grad_op = {.name = "maxpool_grad", .attr_size = sizeof(window_attr), .fuse = maxpool_fuse_grad};

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &maxpool_grad_op, 2, (int[]){a->n->out[1], a->dout[0]}, 1, a->n->in);
}

static op_cost cost(const graph *g, const node *n)
{
    return (op_cost){window_taps(n->attr, shape_count(&g->values[n->out[0]].shape))};
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
    {"2x3x7x7", "3 stride=2 pad=1"},
    {"2x3x8x8", "3 stride=2 ceil"},
    {"1x2x5x5", "2 stride=2 pad=1 ceil"}, /* the window past the end is left out */
    {"1x2x1x1", "2 ceil"},                /* not even one whole window */
    {"1x2x6x6", "3 stride=1 pad=same"},
    {"2x3x7x8", "3x2 stride=2 pad=same", 0, 0, "tfkeras"},
    {"2x3x7x8", "3 stride=2 pad=same", 0, 0, "caffe"},
    {"16x128x600x600", "2", CASE_PLAN},  /* 2.9 GB in */
    {"1x1x46340x46340", "2", CASE_PLAN}, /* a plane just below 2^31 pixels */
    {"1x1x46341x46341", "2", CASE_FAILS | CASE_PLAN},
    {"1000000x1000000x1000x1000", "2", CASE_FAILS | CASE_PLAN},
    {"2x3x1x1", "2", CASE_FAILS}, /* empty outputs */
    {"2x3x1x1", "3 stride=2 ceil", CASE_FAILS},
    {"2x3x8x8", "2 pad=2", CASE_FAILS},
    {"2x3x8x8", "2 pad=same", CASE_FAILS}, /* not with a stride in PyTorch */
    {"2x12", "2", CASE_FAILS},
    {0},
};

const op_def maxpool_op = {
    .name = "maxpool",
    .help = "the largest value of each window",
    .min_in = 1,
    .max_in = 1,
    .attr_size = sizeof(window_attr),
    .fields = fields,
    .infer = infer,
    .grad = grad,
    .takes_activation = true,
    .fuse = maxpool_fuse,
    .cost = cost,
    .cases = cases,
};

const op_def *const maxpool_parts[] = {&maxpool_op, &maxpool_grad_op, NULL};
const kernel maxpool_ref[] = {REFERENCE(maxpool_op, maxpool), REFERENCE(maxpool_grad_op, maxpool_grad), {0}};

#endif
