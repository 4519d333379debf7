/* lrn.c - local response normalization over neighbouring channels.
 *
 * N samples, C channels of HW pixels: src and dst N x C x HW.
 *     scale = k + alpha' (sum of src^2 over the window of channels),  dst = src / scale^beta
 * The window of channel c is c - size/2 .. c + (size - 1)/2, cut off at the ends: for even sizes as in PyTorch, for
 * odd ones as everywhere. alpha' is alpha / size where `divide` is set (PyTorch, Caffe), else alpha (TensorFlow).
 */
#include "ops/lrn/lrn.h"

#include <math.h>

#ifdef REAL

/* scale of channel c at `count` pixels from the first on; `src` is the sample's first plane. */
static void NAME(scales)(const lrn *v, const REAL *src, int64_t c, int64_t first, int64_t count, REAL *restrict scale)
{
    const int64_t lo = c - v->below < 0 ? 0 : c - v->below, hi = c + v->above < v->C ? c + v->above : v->C - 1;
    for (int64_t i = 0; i < count; i++)
        scale[i] = 0;
    for (int64_t j = lo; j <= hi; j++) {
        const REAL *row = src + j * v->HW + first;
        for (int64_t i = 0; i < count; i++)
            scale[i] += row[i] * row[i];
    }
    for (int64_t i = 0; i < count; i++)
        scale[i] = (REAL)(v->k + v->alpha * scale[i]);
}

/* in: src; out: dst; item: a plane, here and below */
static void NAME(lrn_range)(const step *s, int64_t begin, int64_t end)
{
    const lrn v = lrn_of(s->attr, &s->in[0].shape);
    for (int64_t plane = begin; plane < end; plane++) {
        const int64_t c = plane % v.C;
        const REAL *row = (const REAL *)s->in[0].data + plane * v.HW;
        REAL *out = (REAL *)s->out[0].data + plane * v.HW, scale[TILE];
        for (int64_t p = 0; p < v.HW; p += TILE) {
            const int64_t count = v.HW - p < TILE ? v.HW - p : TILE;
            NAME(scales)(&v, row - c * v.HW, c, p, count, scale);
            for (int64_t i = 0; i < count; i++)
                out[p + i] = (REAL)(row[p + i] * pow(scale[i], -v.beta));
        }
    }
}

static brasa_status NAME(lrn)(const step *s)
{
    const lrn v = lrn_of(s->attr, &s->in[0].shape);
    step_for(s, v.N * v.C, lrn_work(&v), NAME(lrn_range));
    return BRASA_OK;
}

/* First half of the gradient: dsrc = ddst / scale^beta, and what each output hands to its window, as
 * share = ddst src / scale^(beta + 1). */
static void NAME(own_part)(const lrn *v, const REAL *src, const REAL *ddst, REAL *dsrc, REAL *share, int64_t c)
{
    REAL scale[TILE];
    for (int64_t p = 0; p < v->HW; p += TILE) {
        const int64_t count = v->HW - p < TILE ? v->HW - p : TILE;
        NAME(scales)(v, src, c, p, count, scale);
        for (int64_t i = c * v->HW + p, j = 0; j < count; i++, j++) {
            const double part = ddst[i] * pow(scale[j], -v->beta);
            share[i] = (REAL)(part * src[i] / scale[j]);
            dsrc[i] = (REAL)part;
        }
    }
}

/* Second half: dsrc -= 2 alpha' beta src (sum of the shares of the outputs whose window holds the channel). */
static void NAME(shared_part)(const lrn *v, const REAL *src, const REAL *share, REAL *dsrc, int64_t c)
{
    const int64_t lo = c - v->above < 0 ? 0 : c - v->above, hi = c + v->below < v->C ? c + v->below : v->C - 1;
    const REAL factor = (REAL)(2 * v->alpha * v->beta);
    for (int64_t p = 0; p < v->HW; p++) {
        REAL sum = 0;
        for (int64_t j = lo; j <= hi; j++)
            sum += share[j * v->HW + p];
        dsrc[c * v->HW + p] -= factor * src[c * v->HW + p] * sum;
    }
}

static void NAME(own_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data, *ddst = s->in[1].data;
    REAL *dsrc = s->out[0].data, *share = s->workspace;
    const lrn v = lrn_of(s->attr, &s->in[0].shape);
    for (int64_t plane = begin; plane < end; plane++) {
        const int64_t c = plane % v.C, first = (plane - c) * v.HW; /* of the sample */
        NAME(own_part)(&v, src + first, ddst + first, dsrc + first, share + first, c);
    }
}

static void NAME(shared_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data, *share = s->workspace;
    REAL *dsrc = s->out[0].data;
    const lrn v = lrn_of(s->attr, &s->in[0].shape);
    for (int64_t plane = begin; plane < end; plane++) {
        const int64_t c = plane % v.C, first = (plane - c) * v.HW; /* of the sample */
        NAME(shared_part)(&v, src + first, share + first, dsrc + first, c);
    }
}

/* in: src, ddst; out: dsrc; workspace: the shares, of the size of src */
static brasa_status NAME(lrn_grad)(const step *s)
{
    const lrn v = lrn_of(s->attr, &s->in[0].shape);
    step_for(s, v.N * v.C, lrn_work(&v), NAME(own_range));
    step_for(s, v.N * v.C, lrn_work(&v), NAME(shared_range)); /* needs all shares */
    return BRASA_OK;
}

#else

enum { TILE = 256 }; /* pixels whose scales are held on the stack */

#define REAL_SOURCE "ops/lrn/lrn.c"
#include "ops/real.h"

static const field fields[] = {
    {"size", FIELD_INT, offsetof(lrn_attr, size), "", 1, 1 << 20, NULL, true, "channels in the window"},
    {"alpha", FIELD_REAL, offsetof(lrn_attr, alpha), "", 0, 1e15, NULL, false, "weight of the squares"},
    {"beta", FIELD_REAL, offsetof(lrn_attr, beta), "", 0, 1e3, NULL, false, "exponent"},
    {"k", FIELD_REAL, offsetof(lrn_attr, k), "", 0, 1e15, NULL, false, "added to the squares"},
    {"divide", FIELD_BOOL, offsetof(lrn_attr, divide), "", 0, 0, NULL, false, "divide alpha by the size"},
    {0},
};

static void set_defaults(void *attr, const dialect *d)
{
    *(lrn_attr *)attr = (lrn_attr){d->lrn_size, d->lrn_alpha, d->lrn_beta, d->lrn_k, d->lrn_divide};
}

static brasa_status infer(infer_args *a)
{
    brasa_status status = infer_rank(a, 0, 4);
    return status == BRASA_OK ? infer_same(a) : status;
}

/* In place of ddst: each element is read before it is written, and the second half reads only src and the shares. */
const op_def lrn_grad_op = {.name = "lrn_grad", .attr_size = sizeof(lrn_attr), .in_place = 1u << 1};

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &lrn_grad_op, 2, (int[]){a->n->in[0], a->dout[0]}, 1, a->n->in);
}

static int64_t workspace(const graph *g, const node *n)
{
    return shape_count(&g->values[n->in[0]].shape) * (int64_t)dtype_size(g->real);
}

static op_cost cost(const graph *g, const node *n)
{
    const lrn v = lrn_of(n->attr, &g->values[n->out[0]].shape);
    return (op_cost){lrn_work(&v)};
}

static const op_case cases[] = {
    {"1x1x1x1", ""},
    {"1x1x5x7", "alpha=0.5"},
    {"2x3x4x4", ""},
    {"2x17x3x3", "alpha=0.5"},
    {"1x513x1x2", "alpha=0.1"},
    {"1x2x17x17", "3 alpha=0.7"},
    {"2x7x3x3", "1 alpha=0.5"},
    {"2x7x3x3", "4 alpha=1 beta=0.6 k=2"},
    {"2x7x3x3", "2 alpha=1 beta=2 k=0.5 divide=no"},
    {"2x3x4x4", "9 alpha=1"}, /* a window larger than the channels */
    {"2x17x2x2", "", 0, 0, "tfkeras"},
    {"2x7x3x3", "", 0, 0, "caffe"},
    {"1x40x5x7", "alpha=0.5"}, /* windows over several blocks of channels */
    {"2x33x3x3", "8 alpha=1 beta=1"},
    {"1x24x2x3", "16 alpha=1 beta=0.5"},
    {"1x20x2x3", "15 alpha=1"},
    {"1x20x3x3", "5 alpha=1 k=0"},     /* a padding of zeros has no scale */
    {"16x128x600x600", "", CASE_PLAN}, /* 2.9 GB */
    {"1000000x1000000x1000x1000", "", CASE_FAILS | CASE_PLAN},
    {"2x12", "", CASE_FAILS},
    {"2x0x4x4", "", CASE_FAILS},
    {0},
};

const op_def lrn_op = {
    .name = "lrn",
    .help = "local response normalization over channels",
    .min_in = 1,
    .max_in = 1,
    .attr_size = sizeof(lrn_attr),
    .fields = fields,
    .set_defaults = set_defaults,
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .cases = cases,
};

const op_def *const lrn_parts[] = {&lrn_op, &lrn_grad_op, NULL};
const kernel lrn_ref[] = {
    REFERENCE(lrn_op, lrn),
    REFERENCE_(lrn_grad_op, lrn_grad, .workspace = workspace),
    {0},
};

#endif
