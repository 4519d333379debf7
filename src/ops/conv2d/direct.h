/* direct.h - the weight gradient of a convolution as it is defined, on blocks of channels: sums in registers for
 * LINES channels of an input block and up to VECTORS output blocks.
 *
 * What one sample has of them in src and ddst stays near for all taps. Each element is one sum in one order, whatever
 * the number of threads is.
 */
#ifndef OPS_CONV2D_DIRECT_H
#define OPS_CONV2D_DIRECT_H

#include "ops/conv2d/tiles.h"
#include "ops/optimizer.h"

enum { LINES = BLOCK / 2, VECTORS = 3 }; /* with AVX-512 24 of the 32 registers hold sums, with AVX2 12 of 16 */
enum { SOME = 7 };                       /* outputs of a row that are computed between two requests to memory */

typedef struct job {
    const arg *src, *ddst;
    window y, x;
    int64_t C, K; /* blocks */
    int tensors;  /* that will be wanted in the same places as the gradient, and are asked for early */
    const float *tensor[1 + MAX_SLOTS];
} job;

static inline job direct_job(const step *s, const conv2d_attr *t)
{
    const arg *src = &s->in[0], *ddst = &s->in[1];
    job j = {.src = src,
             .ddst = ddst,
             .y = window_y(&t->window, &src->shape, &ddst->shape),
             .x = window_x(&t->window, &src->shape, &ddst->shape),
             .C = blocks_of(src->shape.dim[1]),
             .K = blocks_of(ddst->shape.dim[1])};
    /* A single tap that sees every pixel goes over them in one row. */
    if (j.y.size * j.x.size == 1 && j.y.stride * j.x.stride == 1 && j.y.in == j.y.out && j.x.in == j.x.out) {
        j.x.in = j.x.out *= j.y.out;
        j.y.in = j.y.out = 1;
    }
    return j;
}

/* Floats of the weights of one input block and one output block. */
static inline int64_t direct_block(const job *j)
{
    return j->y.size * j->x.size * BLOCK * BLOCK;
}

/* What is still to be asked for: LINES vectors of each output block, of each tensor. */
typedef struct asking {
    int64_t at; /* where they lie in the first one */
    int left;
} asking;

/* Asks for the next of them. A few at a time: many at once would keep what is computed from its own data. */
static inline void direct_ask(const job *j, asking *a)
{
    if (a->left == 0)
        return;
    a->left--;
    const int t = a->left % j->tensors, v = a->left / j->tensors;
    const float *from = j->tensor[t] + a->at + v * j->C * direct_block(j);
    for (int64_t i = 0; i < LINES * BLOCK; i += 64 / (int64_t)sizeof(float))
        __builtin_prefetch(from + i, 1);
}

/* One tap in one sample. `src` is what it sees at output (0, 0), `ddst` the first output block's plane; outputs
 * outside of rows and cols see padding. sums[vector][LINES], `far` vectors apart; begin: they are not there yet. */
static inline __attribute__((always_inline)) void direct_tap(const int vectors, const job *j, const float *src,
                                                             const vec *ddst, span rows, span cols, vec *sums,
                                                             int64_t far, bool begin, asking ask)
{
    const int64_t plane = j->y.out * j->x.out, next = j->x.stride * BLOCK, line = j->y.stride * j->x.in * BLOCK;
    vec sum[VECTORS][LINES];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 8
        for (int l = 0; l < LINES; l++)
            sum[v][l] = begin ? (vec){0} : sums[v * far + l];
    for (int64_t row = rows.lo; row < rows.hi; row++) {
        const float *x = src + row * line + cols.lo * next;
        const vec *d = ddst + row * j->x.out + cols.lo;
        for (int64_t left = cols.hi - cols.lo; left > 0; left -= SOME) {
            direct_ask(j, &ask);
            for (int64_t count = left < SOME ? left : SOME; count > 0; count--, x += next, d++) {
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
    }
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 8
        for (int l = 0; l < LINES; l++)
            sums[v * far + l] = sum[v][l];
}

static inline __attribute__((always_inline)) void direct_taps(const int vectors, const job *j, int64_t n, int64_t c,
                                                              int64_t k, vec *sums, int64_t far)
{
    const float *src = (const float *)j->src->data + n * j->src->sample + c * j->y.in * j->x.in * BLOCK;
    const vec *ddst = (const vec *)((const float *)j->ddst->data + n * j->ddst->sample) + k * j->y.out * j->x.out;
    asking ask = {.at = (k * j->C + c) * direct_block(j)};
    for (int64_t tap = 0; tap < j->y.size * j->x.size; tap++) {
        const int64_t r = tap / j->x.size, s = tap % j->x.size;
        const int64_t y = r * j->y.dilation - j->y.before, x = s * j->x.dilation - j->x.before;
        const span rows = window_outputs(&j->y, r), cols = window_outputs(&j->x, s);
        for (int l = 0; l < BLOCK; l += LINES, ask.at += LINES * BLOCK) {
            ask.left = n == 0 ? vectors * j->tensors : 0;
            direct_tap(vectors, j, src + (y * j->x.in + x) * BLOCK + l, ddst, rows, cols, sums + tap * BLOCK + l, far,
                       n == 0, ask);
        }
    }
}

/* All samples and taps of input block c and `vectors` output blocks from k on: sums[vector][tap][input][output], the
 * vectors `far` apart. */
static inline void direct_sums(int vectors, const job *j, int64_t c, int64_t k, vec *sums, int64_t far)
{
    for (int64_t n = 0; n < j->src->shape.dim[0]; n++)
        if (vectors == 3)
            direct_taps(3, j, n, c, k, sums, far);
        else if (vectors == 2)
            direct_taps(2, j, n, c, k, sums, far);
        else
            direct_taps(1, j, n, c, k, sums, far);
}

/* dbia of the output blocks begin .. end - 1 */
static inline void direct_bias(const arg *ddst, float *dbia, int64_t begin, int64_t end)
{
    const int64_t N = ddst->shape.dim[0], P = shape_span(&ddst->shape, 2, 4), K = ddst->shape.dim[1];
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

/* Groups of up to VECTORS output blocks, of nearly the same size so that threads have the same to do: group i has the
 * blocks from direct_first(j, i) on, up to the next one's. */
static inline int64_t direct_groups(const job *j)
{
    return (j->K + VECTORS - 1) / VECTORS;
}

static inline int64_t direct_first(const job *j, int64_t i)
{
    return j->K * i / direct_groups(j);
}

/* The work of a step in simple operations, for step_for. */
static inline double direct_work(const job *j)
{
    return (double)shape_count(&j->ddst->shape) * (double)(j->C * BLOCK * j->y.size * j->x.size);
}

#endif
