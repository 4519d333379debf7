/* conv2d.c - two-dimensional convolution (cross-correlation, as every framework computes it).
 *
 * N samples; C input channels of H x W; K output channels, their plane P positions (height x width); a kernel of
 * R x S; G groups. src N x C x H x W, wei K x C/G x R x S, bia K, dst N x K x P. A tap is one element of C/G x R x S:
 * what an output element is a weighted sum of.
 *
 * All three kernels work on tiles of taps and positions. What each tap sees at each position is gathered into a small
 * matrix on the stack (stride, padding and dilation end there), and the rest is one loop that adds weighted rows.
 * Each output element is summed by one thread in one order: results do not depend on the number of threads.
 */
#include "ops/conv2d/conv2d.h"
#include "ops/depthwise_grad/depthwise_grad.h"
#include "ops/fused_update.h"

#ifdef REAL

/* out[i] += wei[0] rows[0][i] + wei[1] rows[1][i] + ... Eight rows at a time, so that out is read and written once
 * for them; the loop over i becomes vectors without reordering any sum. */
static void NAME(add_rows)(REAL *restrict out, int64_t count, const REAL *restrict rows, int64_t row_step,
                           int64_t nrows, const REAL *restrict wei, int64_t wei_step)
{
    int64_t j = 0;
    for (; j + 8 <= nrows; j += 8) {
        const REAL *r0 = rows + j * row_step, *r1 = r0 + row_step, *r2 = r1 + row_step, *r3 = r2 + row_step;
        const REAL *r4 = r3 + row_step, *r5 = r4 + row_step, *r6 = r5 + row_step, *r7 = r6 + row_step;
        REAL w[8];
        for (int i = 0; i < 8; i++)
            w[i] = wei[(j + i) * wei_step];
        for (int64_t i = 0; i < count; i++)
            out[i] += ((w[0] * r0[i] + w[1] * r1[i]) + (w[2] * r2[i] + w[3] * r3[i])) +
                      ((w[4] * r4[i] + w[5] * r5[i]) + (w[6] * r6[i] + w[7] * r7[i]));
    }
    for (; j < nrows; j++) {
        const REAL *row = rows + j * row_step, w = wei[j * wei_step];
        for (int64_t i = 0; i < count; i++)
            out[i] += w * row[i];
    }
}

/* What taps t.lo .. t.hi - 1 see at positions p.lo .. p.hi - 1 of one sample and group; zero in the padding. `src` is
 * the group's first plane. */
static void NAME(gather)(const conv *v, const REAL *src, span t, span p, REAL *out, int64_t tap_step, int64_t p_step)
{
    for (int64_t tap = t.lo; tap < t.hi; tap++) {
        REAL *to = out + (tap - t.lo) * tap_step;
        walk w = walk_start(v, tap, p);
        while (walk_row(v, &w)) {
            const REAL *from = src + w.at;
            for (int64_t i = 0; i < w.before; i++, to += p_step)
                *to = 0;
            for (int64_t i = 0; i < w.inside; i++, to += p_step)
                *to = from[i * v->x.stride];
            for (int64_t i = 0; i < w.after; i++, to += p_step)
                *to = 0;
        }
    }
}

/* A tile of one sample's output: channels k, positions p. `src` is the first plane of their group. */
static void NAME(forward_tile)(const conv *v, const REAL *src, const REAL *wei, const REAL *bia, REAL *dst, span k,
                               span p, activation act)
{
    REAL seen[TILE_TAPS * TILE_POSITIONS];
    const int64_t count = p.hi - p.lo;
    for (int64_t c = k.lo; c < k.hi; c++)
        for (int64_t i = p.lo; i < p.hi; i++)
            dst[c * v->P + i] = bia ? bia[c] : 0;
    for (int64_t tap = 0; tap < v->taps; tap += TILE_TAPS) {
        const span t = span_from(tap, TILE_TAPS, v->taps);
        NAME(gather)(v, src, t, p, seen, TILE_POSITIONS, 1);
        for (int64_t c = k.lo; c < k.hi; c++) {
            REAL *out = dst + c * v->P + p.lo;
            NAME(add_rows)(out, count, seen, TILE_POSITIONS, t.hi - t.lo, wei + c * v->taps + tap, 1);
        }
    }
    for (int64_t c = k.lo; act != ACT_NONE && c < k.hi; c++)
        for (int64_t i = p.lo; i < p.hi; i++)
            dst[c * v->P + i] = ACTIVATE(act, dst[c * v->P + i]);
}

/* in: src, wei [, bia]; out: dst; item: a tile of dst */
static void NAME(conv2d_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data, *wei = s->in[1].data, *bia = s->nin > 2 ? s->in[2].data : NULL;
    REAL *dst = s->out[0].data;
    const conv v = conv_of(s->attr, &s->in[0].shape, &s->out[0].shape);
    const int64_t blocks = channel_blocks(&v), tiles_p = tiles(v.P, TILE_POSITIONS);
    for (int64_t i = begin; i < end; i++) { /* of sample n: channels k, positions p */
        const int64_t n = i / tiles_p / blocks;
        const span k = group_channels(&v, i / tiles_p % blocks);
        const span p = span_from(i % tiles_p * TILE_POSITIONS, TILE_POSITIONS, v.P);
        const REAL *planes = src + n * v.C * v.HW + first_plane(&v, k);
        NAME(forward_tile)(&v, planes, wei, bia, dst + n * v.K * v.P, k, p, s->node->act);
    }
}

static brasa_status NAME(conv2d)(const step *s)
{
    const conv v = conv_of(s->attr, &s->in[0].shape, &s->out[0].shape);
    step_for(s, v.N * channel_blocks(&v) * tiles(v.P, TILE_POSITIONS), conv_work(&v), NAME(conv2d_range));
    return BRASA_OK;
}

/* Adds to the plane `dsrc` what the positions p give back to it. `wei` is the first tap of its channel in its group,
 * `ddst` the group's first plane. */
static void NAME(backward_tile)(const conv *v, const REAL *wei, const REAL *ddst, REAL *dsrc, span p)
{
    REAL sum[TILE_POSITIONS];
    for (int64_t tap = 0; tap < v->y.size * v->x.size; tap++) {
        for (int64_t i = 0; i < p.hi - p.lo; i++)
            sum[i] = 0;
        NAME(add_rows)(sum, p.hi - p.lo, ddst + p.lo, v->P, v->K / v->G, wei + tap, v->taps);
        const REAL *from = sum;
        walk w = walk_start(v, tap, p);
        while (walk_row(v, &w)) {
            REAL *to = dsrc + w.at;
            from += w.before;
            for (int64_t i = 0; i < w.inside; i++)
                to[i * v->x.stride] += from[i];
            from += w.inside + w.after;
        }
    }
}

/* The whole plane `dsrc`, of channel c. `wei` is all weights, `ddst` the sample's first plane. */
static void NAME(backward_plane)(const conv *v, const REAL *wei, const REAL *ddst, REAL *dsrc, int64_t c)
{
    const int64_t depth = v->C / v->G, first = c / depth * (v->K / v->G); /* of the channels that this plane feeds */
    const REAL *w = wei + first * v->taps + c % depth * v->y.size * v->x.size;
    for (int64_t i = 0; i < v->HW; i++)
        dsrc[i] = 0;
    for (int64_t p = 0; p < v->P; p += TILE_POSITIONS)
        NAME(backward_tile)(v, w, ddst + first * v->P, dsrc, span_from(p, TILE_POSITIONS, v->P));
}

/* in: wei, ddst; out: dsrc; item: a plane of dsrc */
static void NAME(conv2d_grad_data_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *wei = s->in[0].data, *ddst = s->in[1].data;
    REAL *dsrc = s->out[0].data;
    const conv v = conv_of(s->attr, &s->out[0].shape, &s->in[1].shape);
    for (int64_t i = begin; i < end; i++)
        NAME(backward_plane)(&v, wei, ddst + i / v.C * v.K * v.P, dsrc + i * v.HW, i % v.C);
}

static brasa_status NAME(conv2d_grad_data)(const step *s)
{
    const conv v = conv_of(s->attr, &s->out[0].shape, &s->in[1].shape);
    step_for(s, v.N * v.C, conv_work(&v), NAME(conv2d_grad_data_range));
    return BRASA_OK;
}

/* dwei of channels k and taps t. `src` is the first sample's first plane of the group. */
static void NAME(weights_tile)(const conv *v, const REAL *src, const REAL *ddst, REAL *dwei, span k, span t)
{
    REAL seen[TILE_POSITIONS * TILE_TAPS], sum[TILE_TAPS];
    for (int64_t c = k.lo; c < k.hi; c++)
        for (int64_t i = t.lo; i < t.hi; i++)
            dwei[c * v->taps + i] = 0;
    for (int64_t n = 0; n < v->N; n++) {
        for (int64_t first = 0; first < v->P; first += TILE_POSITIONS) {
            const span p = span_from(first, TILE_POSITIONS, v->P);
            NAME(gather)(v, src + n * v->C * v->HW, t, p, seen, 1, TILE_TAPS);
            for (int64_t c = k.lo; c < k.hi; c++) {
                for (int64_t i = 0; i < t.hi - t.lo; i++)
                    sum[i] = 0; /* a tile's own sum first: fewer roundings in a row */
                const REAL *d = ddst + (n * v->K + c) * v->P + first;
                NAME(add_rows)(sum, t.hi - t.lo, seen, TILE_TAPS, p.hi - p.lo, d, 1);
                for (int64_t i = t.lo; i < t.hi; i++)
                    dwei[c * v->taps + i] += sum[i - t.lo];
            }
        }
    }
}

/* item: a tile of dwei */
static void NAME(weights_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data, *ddst = s->in[1].data;
    const conv v = conv_of(s->attr, &s->in[0].shape, &s->in[1].shape);
    const int64_t tiles_t = tiles(v.taps, TILE_TAPS);
    for (int64_t i = begin; i < end; i++) {
        const span k = group_channels(&v, i / tiles_t), t = span_from(i % tiles_t * TILE_TAPS, TILE_TAPS, v.taps);
        NAME(weights_tile)(&v, src + first_plane(&v, k), ddst, s->out[0].data, k, t);
    }
}

/* item: an element of dbia */
static void NAME(bias_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *ddst = s->in[1].data;
    REAL *dbia = s->out[1].data;
    const conv v = conv_of(s->attr, &s->in[0].shape, &s->in[1].shape);
    for (int64_t k = begin; k < end; k++) {
        double sum = 0;
        for (int64_t n = 0; n < v.N; n++)
            for (int64_t p = 0; p < v.P; p++)
                sum += ddst[(n * v.K + k) * v.P + p];
        dbia[k] = (REAL)sum;
    }
}

/* in: src, ddst; out: dwei [, dbia] */
static brasa_status NAME(conv2d_grad_weights)(const step *s)
{
    const conv v = conv_of(s->attr, &s->in[0].shape, &s->in[1].shape);
    step_for(s, channel_blocks(&v) * tiles(v.taps, TILE_TAPS), conv_work(&v), NAME(weights_range));
    if (s->nout > 1)
        step_for(s, v.K, (double)s->in[1].count, NAME(bias_range));
    return BRASA_OK;
}

#else

/* A tile's matrix takes 16 KB in float: a third of a first-level cache, so that the rows of ddst or dst fit too. */
enum { TILE_TAPS = 64, TILE_POSITIONS = 64, TILE_CHANNELS = 32 };

typedef struct conv {
    int64_t N, C, K, G, P;
    int64_t HW, taps;
    window y, x;
} conv;

static conv conv_of(const conv2d_attr *t, const shape *src, const shape *dst)
{
    conv v = {.N = src->dim[0], .C = src->dim[1], .K = dst->dim[1], .G = t->groups};
    v.P = shape_span(dst, 2, 4);
    v.HW = shape_span(src, 2, 4);
    v.y = window_y(&t->window, src, dst);
    v.x = window_x(&t->window, src, dst);
    v.taps = v.C / v.G * v.y.size * v.x.size;
    return v;
}

static double conv_work(const conv *v)
{
    return (double)(v->N * v->K * v->P) * (double)v->taps;
}

static int64_t tiles(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static span span_from(int64_t first, int64_t count, int64_t end)
{
    return (span){first, first + count < end ? first + count : end};
}

/* Of output channels; blocks do not reach over groups. */
static int64_t channel_blocks(const conv *v)
{
    return v->G * tiles(v->K / v->G, TILE_CHANNELS);
}

/* The output channels of block b. */
static span group_channels(const conv *v, int64_t b)
{
    const int64_t channels = v->K / v->G, per_group = tiles(channels, TILE_CHANNELS);
    const int64_t g = b / per_group, first = g * channels + b % per_group * TILE_CHANNELS;
    return span_from(first, TILE_CHANNELS, (g + 1) * channels);
}

/* Where, within a sample, the input planes of these output channels' group begin. */
static int64_t first_plane(const conv *v, span k)
{
    return k.lo / (v->K / v->G) * (v->C / v->G) * v->HW;
}

/* A tap's way over the positions of a tile, one output row at a time. */
typedef struct walk {
    int64_t before, inside, after; /* positions of this row in the padding, in the input, in the padding */
    int64_t at;                    /* what the first one inside sees, from the group's first plane on */
    int64_t plane, tap_y, tap_x;   /* of the tap */
    int64_t y, x, left;            /* the next position, and how many there are */
    span columns;
} walk;

static walk walk_start(const conv *v, int64_t tap, span p)
{
    const int64_t RS = v->y.size * v->x.size;
    walk w = {.plane = tap / RS * v->HW, .y = p.lo / v->x.out, .x = p.lo % v->x.out, .left = p.hi - p.lo};
    w.tap_y = tap % RS / v->x.size * v->y.dilation - v->y.before;
    w.tap_x = tap % v->x.size * v->x.dilation - v->x.before;
    w.columns = window_outputs(&v->x, tap % v->x.size);
    return w;
}

/* Sets before, inside, after and at for the next row; false when there is none. */
static bool walk_row(const conv *v, walk *w)
{
    if (w->left == 0)
        return false;
    const int64_t end = w->x + w->left < v->x.out ? w->x + w->left : v->x.out;
    const int64_t row = w->y * v->y.stride + w->tap_y;
    int64_t lo = end, hi = end;
    w->at = w->plane;
    if (row >= 0 && row < v->y.in && w->columns.hi > w->x && w->columns.lo < end) {
        lo = w->columns.lo > w->x ? w->columns.lo : w->x;
        hi = w->columns.hi < end ? w->columns.hi : end;
        w->at += row * v->x.in + lo * v->x.stride + w->tap_x;
    }
    w->before = lo - w->x;
    w->inside = hi - lo;
    w->after = end - hi;
    w->left -= end - w->x;
    w->y++;
    w->x = 0;
    return true;
}

#define REAL_SOURCE "ops/conv2d/conv2d.c"
#include "ops/real.h"

#define AT(member) offsetof(conv2d_attr, member)
static const field fields[] = {
    {"channels", FIELD_INT, AT(channels), NULL, 1, 1 << 28, NULL, true, "output channels"},
    {"kernel", FIELD_PAIR, AT(window.size), NULL, 1, MAX_WINDOW, NULL, true, "height x width of the kernel"},
    {"stride", FIELD_PAIR, AT(window.stride), "1", 1, MAX_WINDOW, NULL, false, "pixels from one output to the next"},
    {"pad", FIELD_PADS, AT(window.pad), "valid", 0, 0, NULL, false, "zeros around the input"},
    {"dilation", FIELD_PAIR, AT(window.dilation), "1", 1, MAX_WINDOW, NULL, false, "pixels from one tap to the next"},
    {"groups", FIELD_INT, AT(groups), "1", 1, 1 << 28, NULL, false, "parts of the channels that do not meet"},
    {"bias", FIELD_BOOL, AT(bias), "yes", 0, 0, NULL, false, "add a learned constant"},
    {"init", FIELD_WORD, AT(init), "dialect", 0, 0, initializer_words, false, "initial weights", true},
    {"init_value", FIELD_REAL, AT(init_value), "0", 0, 0, NULL, false, "every weight, with init=constant", true},
    {0},
};
#undef AT

static bool groups_divide(const conv2d_attr *t, const shape *src)
{
    return src->dim[1] % t->groups == 0 && t->channels % t->groups == 0;
}

static int params(const void *attr, const shape *in, int nin, const dialect *d, param_spec *out)
{
    const conv2d_attr *t = attr;
    (void)nin;
    if (in[0].rank != 4 || !groups_divide(t, &in[0]))
        return 0;
    const int R = t->window.size.h, S = t->window.size.w;
    const int64_t depth = in[0].dim[1] / t->groups;
    /* PyTorch and Keras read both fans off the weight's shape, so the outgoing one knows no groups. */
    const double RS = (double)R * S, fan_in = (double)depth * RS, fan_out = t->channels * RS;
    const shape wei = shape_4(t->channels, depth, R, S);
    out[0] = (param_spec){"weight", wei, (initializer_kind)t->init, fan_in, fan_out, false, t->init_value};
    out[1] = (param_spec){"bias", shape_1(t->channels), (initializer_kind)d->bias_init, fan_in, fan_out, false};
    return t->bias ? 2 : 1;
}

static brasa_status infer(infer_args *a)
{
    conv2d_attr *t = a->attr;
    brasa_status status = infer_rank(a, 0, 4);
    if (status != BRASA_OK)
        return status;
    if (!groups_divide(t, &a->in[0]))
        return infer_fail(a, "groups=%d must divide both the %lld input channels and the %d output channels",
                          t->groups, (long long)a->in[0].dim[1], t->channels);
    return window_infer(a, &t->window, t->channels);
}

static void grad(grad_args *a)
{
    const int *in = a->n->in;
    if (a->need[0] && a->need[1] && depthwise_is(a->n->attr, &a->g->values[in[0]].shape)) {
        a->din[0] = grad_emit(a, &depthwise_grad_op, 3, (int[]){in[0], in[1], a->dout[0]}, a->n->nin, in);
        for (int k = 1; k < a->n->nin && a->din[0] >= 0; k++)
            a->din[k] = a->din[0] + k; /* outputs of a node are numbered one after the other */
        return;
    }
    if (a->need[0])
        a->din[0] = grad_emit(a, &conv2d_grad_data_op, 2, (int[]){in[1], a->dout[0]}, 1, in);
    if (!a->need[1] && (a->n->nin < 3 || !a->need[2]))
        return;
    a->din[1] = grad_emit(a, &conv2d_grad_weights_op, 2, (int[]){in[0], a->dout[0]}, a->n->nin - 1, in + 1);
    if (a->n->nin > 2 && a->din[1] >= 0)
        a->din[2] = a->din[1] + 1; /* outputs of a node are numbered one after the other */
}

/* 2 N K P taps, whichever of the products it is. Padding counts, as it does in the literature. */
static op_cost cost(const graph *g, const node *n)
{
    const bool forward = n->op->grad, data = n->op == &conv2d_grad_data_op;
    const shape *wei = &g->values[forward ? n->in[1] : data ? n->in[0] : n->out[0]].shape;
    const shape *dst = &g->values[forward ? n->out[0] : n->in[1]].shape;
    return (op_cost){2.0 * (double)shape_count(dst) * (double)shape_span(wei, 1, 4)};
}

static const op_case cases[] = {
    {"1x1x1x1", "1 1"},
    {"1x1x5x7", "3 3"},
    {"2x3x8x8", "4 3x3"},
    {"3x17x5x5", "3 3x3 pad=1"},
    {"1x513x2x3", "2 1x1"},
    {"2x3x4x4", "513 2x2 stride=2"},
    {"2x70x3x3", "40 2x2"}, /* more taps and channels than a tile holds */
    {"1x2x11x13", "3 3x3"}, /* and more positions */
    {"2x3x8x8", "4 3x3 bias=no"},
    {"2x3x7x9", "2 3x1 stride=1x2"},
    {"2x3x2x2", "4 5x5 pad=2"},    /* a kernel larger than the input */
    {"1x2x3x3", "2 3x3 pad=4"},    /* windows that lie in the padding alone */
    {"2x3x9x9", "4 2x2 stride=3"}, /* a stride larger than the kernel */
    {"2x3x8x7", "4 3x3 pad=0,1,2,1 stride=2"},
    {"2x3x9x9", "4 3x3 dilation=2"},
    {"1x2x7x10", "3 2x3 dilation=3x2 pad=2 stride=2"},
    {"2x6x5x5", "4 3x3 groups=2"},
    {"2x5x6x6", "5 3x3 groups=5 pad=1"},      /* depthwise */
    {"1x17x4x4", "34 3x3 groups=17 bias=no"}, /* depthwise, two outputs a channel */
    {"1x513x3x3", "513 3x3 groups=513 pad=1 stride=2"},
    {"3x20x9x11", "20 3x3 groups=20 pad=1 bias=no"},
    {"2x17x8x6", "17 3x3 groups=17 pad=2,0,1,2"},
    {"2x20x9x12", "20 3x3 groups=20 pad=1 stride=2 bias=no"},
    {"2x17x8x7", "17 3x3 groups=17 stride=2"},
    {"2x17x7x8", "17 3x3 groups=17 pad=2,0,1,2 stride=2"},
    {"2x20x4x130", "20 3x3 groups=20 pad=1"}, /* wider than the ring of rows that its gradients use */
    {"2x9x11x7", "9 5x5 groups=9 pad=2 stride=2x1"},
    {"1x16x9x10", "16 3x2 groups=16 dilation=2x3 pad=3 stride=2"},
    {"2x8x7x7", "8 1x1 groups=8 stride=3"}, /* inputs that no window sees */
    {"2x3x6x6", "4 3x3 pad=same"},
    {"1x2x5x6", "3 4x2 pad=same dilation=2"},
    {"2x3x7x8", "4 3x3 pad=same stride=2", 0, 0, "tfkeras"},
    {"1x2x8x9", "2 2x5 pad=same stride=3", 0, 0, "tfkeras"},
    {"1x2x5x5", "2 1x1 pad=same stride=2", 0, 0, "keras2"},
    {"2x3x7x8", "4 3x3 pad=same stride=2", 0, 0, "caffe"},
    {"1x2x6x6", "3 4x4 pad=same", 0, 0, "caffe"},
    {"2x3x6x6", "4 3x3 init=he_normal"},
    {"2x32x14x15", "48 3x3 pad=1", 0, 5e-6}, /* enough tiles for Winograd's algorithm, not all of them full */
    {"1x128x20x22", "32 3x3 bias=no", 0, 5e-6},
    {"1x33x19x20", "40 3x3 pad=1,0,0,1", 0, 5e-6},      /* pads that oneDNN's does not take */
    {"33x272x5x5", "24 3x3 pad=1", CASE_NO_GRAD, 5e-6}, /* more tiles and channels than ours works on at a time */
    {"2x128x15x18", "128 1x1"},                         /* enough channels and pixels for Strassen's algorithm */
    {"1x272x9x28", "158 1x1 bias=no"},                  /* an odd number of blocks, and one that is not full */
    {"1x158x9x28", "272 1x1"},                          /* the same of outputs */
    {"1x1040x9x28", "128 1x1", 0, 5e-6},                /* and more channels than it works on at a time */
    {"2x17x13x14", "40 5x5 pad=2"}, /* and enough for tiles that see 8 x 8; channels that fill no block */
    {"1x33x15x9", "16 5x5 pad=0,4,1,2"},
    {"5x16x7x11", "33 4x4 pad=1 bias=no"},
    {"2x3x23x21", "20 7x7 stride=2 pad=3"}, /* strides undone by phases */
    {"1x1x41x70", "64 11x11 stride=4 pad=2"},
    {"8x2x12x12", "16 6x6 stride=2 bias=no"},
    {"2x33x27x26", "130 3x3 stride=2 pad=1"}, /* by Winograd's algorithm, of odd and even pixels apart */
    {"8x16x13x13", "257 3x3 stride=2 pad=2,0,1,1"},
    {"2x35x27x27", "120 3x3 stride=2 bias=no"},
    {"35x272x13x14", "24 3x3 stride=2 pad=1", CASE_NO_GRAD,
     1.5e-5},                                             /* more tiles and channels than it has at a time */
    {"1x48x33x32", "80 5x5 pad=2", CASE_NO_GRAD, 1.5e-5}, /* more than one run of tiles */
    {"8x64x2048x2048", "64 3x3 pad=1", CASE_PLAN},        /* 8.6 GB in, 8.6 GB out */
    {"1000000x1000000x1000x1000", "1 1", CASE_FAILS | CASE_PLAN},
    {"1x1000000x8x8", "200000000 32000x32000 pad=20000", CASE_FAILS | CASE_PLAN}, /* the weights overflow 64 bits */
    {"2x3x4x4", "4 5x5", CASE_FAILS},                                             /* empty outputs */
    {"2x3x4x4", "4 3x3 dilation=2", CASE_FAILS},
    {"2x3x8x8", "4 3x3 pad=same stride=2", CASE_FAILS}, /* not in PyTorch */
    {"2x3x8x8", "4 3x3 groups=2", CASE_FAILS},
    {"2x4x8x8", "3 3x3 groups=2", CASE_FAILS},
    {"2x48", "4 3x3", CASE_FAILS},
    {0},
};

const op_def conv2d_op = {
    .name = "conv2d",
    .alias = "conv",
    .help = "convolution; groups=C makes it depthwise",
    .min_in = 1,
    .max_in = 1,
    .attr_size = sizeof(conv2d_attr),
    .fields = fields,
    .params = params,
    .infer = infer,
    .grad = grad,
    .takes_activation = true,
    .cost = cost,
    .cases = cases,
};
const op_def conv2d_grad_data_op = {
    .name = "conv2d_grad_data", .attr_size = sizeof(conv2d_attr), .fields = fields, .cost = cost};
const op_def conv2d_grad_weights_op = {.name = "conv2d_grad_weights",
                                       .attr_size = sizeof(conv2d_attr),
                                       .fields = fields,
                                       .fuse = conv2d_fuse_update,
                                       .cost = cost};
const op_def conv2d_update_op = {.name = "conv2d_update", .attr_size = sizeof(fused_update_attr), .cost = cost};

const op_def *const conv2d_parts[] = {&conv2d_op, &conv2d_grad_data_op, &conv2d_grad_weights_op, &conv2d_update_op,
                                      NULL};
const kernel conv2d_ref[] = {
    REFERENCE(conv2d_op, conv2d),
    REFERENCE(conv2d_grad_data_op, conv2d_grad_data),
    REFERENCE(conv2d_grad_weights_op, conv2d_grad_weights),
    {0},
};

#endif
