/* conv2d_grad_weights_direct_simd.c - the weight gradient of a convolution as it is defined, on blocks of channels:
 * for small pictures, whose short rows oneDNN's kernels do not like.
 *
 * An item is one input block and up to VECTORS output blocks. It goes over the samples; what one needs of src and
 * ddst stays in the first cache for all taps, and for each tap and LINES input channels the sums are in registers.
 * dwei itself holds them in between. Each element is one sum in one order, whatever the number of threads is.
 */
#include "backend/cpu/simd.h"
#include "ops/conv2d/conv2d.h"

enum { LINES = BLOCK / 2, VECTORS = 3 }; /* with AVX-512 24 of the 32 registers hold sums, with AVX2 12 of 16 */

typedef struct job {
    const arg *src, *ddst;
    float *dwei;
    window y, x;
    int64_t C, K; /* blocks */
} job;

static job job_of(const step *s)
{
    const window_attr *t = &((const conv2d_attr *)s->attr)->window;
    const arg *src = &s->in[0], *ddst = &s->in[1];
    return (job){src,
                 ddst,
                 s->out[0].data,
                 window_y(t, &src->shape, &ddst->shape),
                 window_x(t, &src->shape, &ddst->shape),
                 blocks_of(src->shape.dim[1]),
                 blocks_of(ddst->shape.dim[1])};
}

/* One tap in one sample. `src` is what it sees at output (0, 0), `ddst` the first output block's plane; outputs
 * outside of rows and cols see padding. sums[vector][LINES], `far` vectors apart. */
static inline __attribute__((always_inline)) void add_tap(const int vectors, const job *j, const float *src,
                                                          const vec *ddst, span rows, span cols, vec *sums,
                                                          int64_t far)
{
    const int64_t plane = j->y.out * j->x.out, next = j->x.stride * BLOCK, line = j->y.stride * j->x.in * BLOCK;
    vec sum[VECTORS][LINES];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 8
        for (int l = 0; l < LINES; l++)
            sum[v][l] = sums[v * far + l];
    for (int64_t row = rows.lo; row < rows.hi; row++) {
        const float *x = src + row * line + cols.lo * next;
        const vec *d = ddst + row * j->x.out + cols.lo;
        for (int64_t count = cols.hi - cols.lo; count > 0; count--, x += next, d++) {
            vec all[VECTORS];
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++)
                all[v] = d[v * plane];
#pragma GCC unroll 8
            for (int l = 0; l < LINES; l++) {
                const vec one = vec_all(x[l]);
#pragma GCC unroll 3
                for (int v = 0; v < vectors; v++)
                    sum[v][l] += one * all[v];
            }
        }
    }
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 8
        for (int l = 0; l < LINES; l++)
            sums[v * far + l] = sum[v][l];
}

/* All taps of sample n: input block c, output blocks k .. k + vectors - 1. */
static inline __attribute__((always_inline)) void add_sample(const int vectors, const job *j, int64_t n, int64_t c,
                                                             int64_t k)
{
    const int64_t RS = j->y.size * j->x.size, far = j->C * RS * BLOCK;
    const float *src = (const float *)j->src->data + n * j->src->sample + c * j->y.in * j->x.in * BLOCK;
    const vec *ddst = (const vec *)((const float *)j->ddst->data + n * j->ddst->sample) + k * j->y.out * j->x.out;
    vec *sums = (vec *)j->dwei + (k * j->C + c) * RS * BLOCK;
    for (int64_t tap = 0; tap < RS; tap++) {
        const int64_t r = tap / j->x.size, s = tap % j->x.size;
        const int64_t y = r * j->y.dilation - j->y.before, x = s * j->x.dilation - j->x.before;
        const span rows = window_outputs(&j->y, r), cols = window_outputs(&j->x, s);
        for (int l = 0; l < BLOCK; l += LINES)
            add_tap(vectors, j, src + (y * j->x.in + x) * BLOCK + l, ddst, rows, cols, sums + tap * BLOCK + l, far);
    }
}

/* item: up to VECTORS output blocks of one input block */
static void weights_range(const step *s, int64_t begin, int64_t end)
{
    const job j = job_of(s);
    const int64_t RS = j.y.size * j.x.size;
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = i / j.C * VECTORS, c = i % j.C, left = j.K - k;
        for (int64_t v = 0; v < VECTORS && v < left; v++)
            for (int64_t at = 0; at < RS * BLOCK; at++)
                ((vec *)j.dwei)[((k + v) * j.C + c) * RS * BLOCK + at] = (vec){0};
        for (int64_t n = 0; n < j.src->shape.dim[0]; n++)
            if (left >= 3)
                add_sample(3, &j, n, c, k);
            else if (left == 2)
                add_sample(2, &j, n, c, k);
            else
                add_sample(1, &j, n, c, k);
    }
}

/* item: an output block */
static void bias_range(const step *s, int64_t begin, int64_t end)
{
    const arg *ddst = &s->in[1];
    const int64_t N = ddst->shape.dim[0], P = shape_span(&ddst->shape, 2, 4), K = ddst->shape.dim[1];
    float *dbia = s->out[1].data;
    for (int64_t k = begin; k < end; k++) {
        vec sum = {0};
        for (int64_t n = 0; n < N; n++) {
            const vec *d = (const vec *)((const float *)ddst->data + n * ddst->sample) + k * P;
            vec part = {0}; /* a sample's own sum first: fewer roundings in a row */
            for (int64_t p = 0; p < P; p++)
                part += d[p];
            sum += part;
        }
        for (int64_t l = 0; l < BLOCK && k * BLOCK + l < K; l++)
            dbia[k * BLOCK + l] = sum[l];
    }
}

static brasa_status conv2d_grad_weights_direct(const step *s)
{
    const job j = job_of(s);
    const double work = (double)shape_count(&s->in[1].shape) * (double)j.C * BLOCK * (double)(j.y.size * j.x.size);
    step_for(s, (j.K + VECTORS - 1) / VECTORS * j.C, work, weights_range);
    if (s->nout > 1)
        step_for(s, j.K, (double)s->in[1].count, bias_range);
    return BRASA_OK;
}

/* Where it was faster than oneDNN (Zen 4, one thread): 1.3 to 1.5 times for 3 x 3 with stride 2 and 7 x 7 outputs at
 * batches of 8 and 32, 1.1 times for 3 x 3 at batch 1. It was slower with windows of one tap, and with stride 2 on
 * larger pictures. */
static bool supports(const graph *g, const node *n)
{
    const conv2d_attr *t = n->attr;
    const shape *src = &g->values[n->in[0]].shape, *dst = &g->values[n->in[1]].shape;
    const int64_t P = shape_span(dst, 2, 4);
    const bool strided = t->window.stride.h > 1 || t->window.stride.w > 1;
    return simd_matches(g, n) && t->groups == 1 && src->dim[1] >= 4 && dst->dim[1] >= 4 &&
           t->window.size.h * t->window.size.w > 1 &&
           (strided ? P <= 49 && dst->dim[0] > 1 : P <= 196 && dst->dim[0] == 1);
}

static void layouts(const graph *g, const node *n, layout *in, layout *out)
{
    cpu_layouts(g, n, in, out);
    out[0] = (layout){.nblocks = 2, .axis = {1, 0}, .block = {BLOCK, BLOCK}};
    if (n->nout > 1)
        out[1] = (layout){0};
}

const kernel SIMD_TABLE(conv2d_grad_weights_direct)[] = {
    {.name = SIMD_NAME("conv2d_grad_weights_direct"),
     .op = &conv2d_grad_weights_op,
     .real = F32,
     .isa = SIMD_ISA,
     .supports = supports,
     .layouts = layouts,
     .parts_in = 3,
     .run = conv2d_grad_weights_direct},
    {0},
};
