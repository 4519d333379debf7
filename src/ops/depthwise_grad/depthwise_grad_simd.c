/* depthwise_grad_simd.c - both gradients of a depthwise convolution in blocks of channels: a lane of a vector is a
 * channel.
 *
 * The kernels that networks are made of, 3 x 3 with stride 1 or 2, go by inputs: the elements of ddst that saw a
 * place are multiplied with the weights for dsrc and with src for dwei, so that everything is read once and dsrc is
 * written once. ddst lies in a ring of rows with zeros at both ends meanwhile, so that borders are no case of their
 * own. Every other window goes by rows of outputs, tap by tap.
 *
 * A plane's part of dwei is summed up row by row, and the parts of the samples are added in their order: results do
 * not depend on the number of threads.
 */
#include "device/cpu/simd.h"
#include "ops/depthwise_grad/depthwise_grad.h"

enum { SIZE = 3, TAPS = SIZE * SIZE, WIDTH = 128 }; /* of the ring, which takes less than the first cache */

typedef struct depthwise {
    window y, x;
    int64_t N, blocks, HW, P, RS;
} depthwise;

static depthwise depthwise_of(const conv2d_attr *t, const shape *src, const shape *dst)
{
    depthwise v = {.y = window_y(&t->window, src, dst), .x = window_x(&t->window, src, dst)};
    v.N = src->dim[0];
    v.blocks = blocks_of(src->dim[1]);
    v.HW = v.y.in * v.x.in;
    v.P = v.y.out * v.x.out;
    v.RS = v.y.size * v.x.size;
    return v;
}

/* The tensors of one plane. */
typedef struct plane {
    const vec *src, *wei, *ddst;
    vec *dsrc, *dwei;
} plane;

/* --- 3 x 3, stride 1 or 2 -------------------------------------------------------------------------------------- */

/* A row of ddst: output ox stands at ox + edge, behind and before zeros. */
typedef vec ring_row[WIDTH + SIZE];

static bool fits_ring(const window *w)
{
    return w->size == SIZE && w->dilation == 1 && w->before < SIZE && w->in <= w->stride * WIDTH;
}

static bool is_near(const depthwise *v)
{
    return fits_ring(&v->y) && fits_ring(&v->x) && v->y.stride == v->x.stride && v->y.stride <= 2;
}

/* Row oy of ddst, all zeros where there is none. */
static void load_row(const depthwise *v, const vec *ddst, int64_t oy, int64_t edge, vec *to)
{
    const int64_t last = oy >= 0 && oy < v->y.out ? v->x.out : 0, width = v->x.in / v->x.stride + SIZE;
    for (int64_t j = 0; j < width; j++)
        to[j] = j >= edge && j - edge < last ? ddst[oy * v->x.out + j - edge] : (vec){0};
}

/* A row of inputs; row[r] is what the kernel's row r sees, tap s of it at x + 2 - s. */
static void near_row(const vec *const row[SIZE], const vec *wei, const vec *src, vec *dsrc, vec *dwei, int64_t W,
                     bool stream)
{
    vec sum[TAPS] = {{0}}, w[TAPS]; /* a copy stays in registers: dsrc cannot be part of it */
    for (int tap = 0; tap < TAPS; tap++)
        w[tap] = wei[tap];
    for (int64_t x = 0; x < W; x++) {
        const vec here = src[x];
        vec d[SIZE] = {{0}};
        for (int r = 0; r < SIZE; r++) {
            for (int s = 0; s < SIZE; s++) {
                const vec seen = row[r][x + SIZE - 1 - s];
                d[r] += w[r * SIZE + s] * seen;
                sum[r * SIZE + s] += here * seen;
            }
        }
        vec_store(&dsrc[x], d[0] + d[1] + d[2], stream);
    }
    for (int tap = 0; tap < TAPS; tap++)
        dwei[tap] += sum[tap];
}

static void near_plane(const depthwise *v, plane p, bool stream)
{
    ring_row ring[SIZE];
    const int64_t W = v->x.in, edge = SIZE - 1 - v->x.before, first = v->y.before;
    load_row(v, p.ddst, first - 2, edge, ring[1]);
    load_row(v, p.ddst, first - 1, edge, ring[2]);
    for (int64_t y = 0; y < v->y.in; y++) {
        load_row(v, p.ddst, first + y, edge, ring[y % 3]);
        const vec *const row[] = {ring[y % 3], ring[(y + 2) % 3], ring[(y + 1) % 3]};
        near_row(row, p.wei, p.src + y * W, p.dsrc + y * W, p.dwei, W, stream);
    }
}

/* With stride 2 every second input is seen by the first and the last tap of two outputs, the others by the middle tap
 * of one. What a row of inputs is seen by: by the kernel's rows r[], which one or two rows of ddst had there. */
typedef struct seen_by {
    int r[2];
    const vec *row[2]; /* output k stands at k + 1 */
} seen_by;

/* The input before the middle tap of output k, and the one under it, where they are inside. */
static inline void pair_step(const seen_by *b, int count, const vec *wei, const plane *p, int64_t k, int64_t x,
                             int64_t W, vec *sum, bool stream)
{
    const bool first = x >= 0, second = x + 1 < W;
    const vec outer = first ? p->src[x] : (vec){0}, middle = second ? p->src[x + 1] : (vec){0};
    vec d_outer = {0}, d_middle = {0};
    for (int i = 0; i < count; i++) {
        const vec *w = wei + SIZE * b->r[i], last = b->row[i][k], next = b->row[i][k + 1];
        d_outer += w[0] * next + w[2] * last;
        d_middle += w[1] * next;
        sum[SIZE * i] += outer * next;
        sum[SIZE * i + 1] += middle * next;
        sum[SIZE * i + 2] += outer * last;
    }
    if (first)
        vec_store(&p->dsrc[x], d_outer, stream);
    if (second)
        vec_store(&p->dsrc[x + 1], d_middle, stream);
}

static inline void pairs_row(const seen_by *b, int count, const vec *wei, const plane *p, int64_t before, int64_t W,
                             vec *dwei, bool stream)
{
    vec sum[2 * SIZE] = {{0}};
    int64_t k = before / 2, x = 2 * k - before;
    if (x < 0)
        pair_step(b, count, wei, p, k++, x, W, sum, stream);
    for (x = 2 * k - before; x + 1 < W; x += 2)
        pair_step(b, count, wei, p, k++, x, INT64_MAX, sum, stream);
    if (x < W)
        pair_step(b, count, wei, p, k, x, W, sum, stream);
    for (int i = 0; i < SIZE * count; i++)
        dwei[SIZE * b->r[i / SIZE] + i % SIZE] += sum[i];
}

static void pairs_plane(const depthwise *v, plane p, bool stream)
{
    ring_row ring[2];
    const int64_t W = v->x.in;
    int64_t loaded = v->y.before / 2 - 2; /* the last row in the ring */
    for (int64_t y = 0; y < v->y.in; y++, p.src += W, p.dsrc += W) {
        const int64_t k = (y + v->y.before) / 2;
        for (; loaded < k; loaded++)
            load_row(v, p.ddst, loaded + 1, 1, ring[(loaded + 1) & 1]);
        const vec *now = ring[k & 1], *last = ring[(k + 1) & 1];
        if ((y + v->y.before) % 2)
            pairs_row(&(seen_by){{1}, {now}}, 1, p.wei, &p, v->x.before, W, p.dwei, stream);
        else
            pairs_row(&(seen_by){{0, 2}, {now, last}}, 2, p.wei, &p, v->x.before, W, p.dwei, stream);
    }
}

/* --- any window ------------------------------------------------------------------------------------------------ */

static void clear_rows(vec *dsrc, int64_t W, int64_t from, int64_t to)
{
    for (int64_t i = from * W; i < to * W; i++)
        dsrc[i] = (vec){0};
}

/* A row of outputs under one tap: dsrc += wei ddst; returns the sum of src ddst. src and dsrc are what output 0 sees.
 */
static vec far_tap(span columns, int64_t stride, vec wei, const vec *src, const vec *ddst, vec *dsrc)
{
    vec sum = {0};
    for (int64_t ox = columns.lo; ox < columns.hi; ox++) {
        dsrc[ox * stride] += wei * ddst[ox];
        sum += src[ox * stride] * ddst[ox];
    }
    return sum;
}

static void far_plane(const depthwise *v, plane p)
{
    const window *y = &v->y, *x = &v->x;
    int64_t clear = 0; /* rows before it are begun: just before their first use, so that they are in the cache */
    for (int64_t oy = 0; oy < y->out; oy++) {
        const int64_t top = oy * y->stride - y->before, reach = top + (y->size - 1) * y->dilation + 1;
        const int64_t needed = reach < y->in ? reach : y->in;
        clear_rows(p.dsrc, x->in, clear, needed);
        clear = needed > clear ? needed : clear;
        for (int64_t tap = 0; tap < v->RS; tap++) {
            const int64_t iy = top + tap / x->size * y->dilation, s = tap % x->size;
            const int64_t at = iy * x->in + s * x->dilation - x->before;
            if (iy >= 0 && iy < y->in)
                p.dwei[tap] += far_tap(window_outputs(x, s), x->stride, p.wei[tap], p.src + at, p.ddst + oy * x->out,
                                       p.dsrc + at);
        }
    }
    clear_rows(p.dsrc, x->in, clear, y->in);
}

/* --- all planes ------------------------------------------------------------------------------------------------ */

/* item: a plane of a block, whose part of dwei goes into the workspace */
static void planes_range(const step *s, int64_t begin, int64_t end)
{
    const depthwise v = depthwise_of(s->attr, &s->in[0].shape, &s->in[2].shape);
    const bool near = is_near(&v);
    const bool stream = near && is_huge(&s->out[0]);
    for (int64_t item = begin; item < end; item++) {
        const plane p = {.src = (const vec *)s->in[0].data + item * v.HW,
                         .wei = (const vec *)s->in[1].data + item % v.blocks * v.RS,
                         .ddst = (const vec *)s->in[2].data + item * v.P,
                         .dsrc = (vec *)s->out[0].data + item * v.HW,
                         .dwei = (vec *)s->workspace + item * v.RS};
        for (int64_t tap = 0; tap < v.RS; tap++)
            p.dwei[tap] = (vec){0};
        if (near && v.y.stride == 1)
            near_plane(&v, p, stream);
        else if (near)
            pairs_plane(&v, p, stream);
        else
            far_plane(&v, p);
    }
    vec_stream_end(stream);
}

/* item: a block of channels */
static void weights_range(const step *s, int64_t begin, int64_t end)
{
    const depthwise v = depthwise_of(s->attr, &s->in[0].shape, &s->in[2].shape);
    for (int64_t i = begin * v.RS; i < end * v.RS; i++) {
        const vec *part = (const vec *)s->workspace + i;
        vec sum = {0};
        for (int64_t n = 0; n < v.N; n++)
            sum += part[n * v.blocks * v.RS];
        ((vec *)s->out[1].data)[i] = sum;
    }
}

/* item: a block of channels */
static void bias_range(const step *s, int64_t begin, int64_t end)
{
    const depthwise v = depthwise_of(s->attr, &s->in[0].shape, &s->in[2].shape);
    float *dbia = s->out[2].data;
    for (int64_t b = begin; b < end; b++) {
        vec sum = {0};
        for (int64_t n = 0; n < v.N; n++) {
            const vec *ddst = (const vec *)s->in[2].data + (n * v.blocks + b) * v.P;
            for (int64_t oy = 0; oy < v.y.out; oy++) {
                vec row = {0};
                for (int64_t ox = 0; ox < v.x.out; ox++)
                    row += *ddst++;
                sum += row;
            }
        }
        for (int64_t i = 0; i < BLOCK && b * BLOCK + i < s->out[2].count; i++)
            dbia[b * BLOCK + i] = sum[i];
    }
}

static brasa_status depthwise_grad(const step *s)
{
    const depthwise v = depthwise_of(s->attr, &s->in[0].shape, &s->in[2].shape);
    const double parts = (double)(v.N * v.blocks * v.RS);
    step_for(s, v.N * v.blocks, (double)s->in[2].count * (double)v.RS / BLOCK, planes_range);
    step_for(s, v.blocks, parts, weights_range);
    if (s->nout > 2)
        step_for(s, v.blocks, (double)s->in[2].count / BLOCK, bias_range);
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    const depthwise v = depthwise_of(n->attr, &g->values[n->in[0]].shape, &g->values[n->in[2]].shape);
    return v.N * v.blocks * v.RS * (int64_t)sizeof(vec);
}

/* Weights in blocks of channels too, as oneDNN's forward pass has them. */
static void formats(const graph *g, const node *n, format *in, format *out)
{
    cpu_formats(g, n, in, out);
    in[1].layout = out[1].layout = layout_in_blocks(0, BLOCK);
}

const kernel SIMD_TABLE(depthwise_grad)[] = {
    SIMD_ROW("depthwise_grad", depthwise_grad_op, .supports = simd_supports, .formats = formats,
             .workspace = workspace, .run = depthwise_grad),
    {0},
};
