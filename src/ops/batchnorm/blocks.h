/* blocks.h - what both kernels of batch norm in blocks of channels share: a lane of a vector is a channel.
 *
 * A block of channels is N planes of HW vectors. Everything is bound by memory, so each pass over it counts: one for
 * the statistics or the two sums of the gradient, one for the elements. Sums are taken in float over a few vectors,
 * and in double over those.
 *
 * The vectors of a block are cut into parts, as many as the shape says, and summed part by part: so threads can share
 * a block, and the sums do not depend on how. Where there are enough blocks a thread does one block after the other,
 * both passes of it, and finds in its cache what the first pass has left there: the second one goes from the end to
 * the beginning for that reason.
 */
#ifndef OPS_BATCHNORM_BLOCKS_H
#define OPS_BATCHNORM_BLOCKS_H

#include "device/cpu/simd.h"
#include "ops/batchnorm/batchnorm.h"

#include <immintrin.h>
#include <math.h>

/* --- vectors ------------------------------------------------------------------------------------------------- */

/* The lanes of a vector in double: the lower half, or the upper one. */
typedef double wide __attribute__((vector_size(sizeof(vec))));

static inline wide wide_low(vec x)
{
#ifdef SIMD_AVX512
    return (wide)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
#else
    return (wide)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
#endif
}

static inline wide wide_high(vec x)
{
#ifdef SIMD_AVX512
    return (wide)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1));
#else
    return (wide)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
#endif
}

/* An activation is flat at and below `low`, at and above `high`; NaN: there is no such bound. */
typedef struct bounds {
    vec low, high;
} bounds;

static inline bounds bounds_of(activation act)
{
    return (bounds){vec_all(act == ACT_NONE ? NAN : 0), vec_all(act == ACT_RELU6 ? 6 : NAN)};
}

static inline vec activate(vec y, const bounds *b)
{
    return vec_choose(y >= b->high, b->high, vec_choose(y <= b->low, b->low, y));
}

/* --- blocks and parts ---------------------------------------------------------------------------------------- */

/* The lanes of a block as numbers. */
typedef union lanes {
    vec v;
    float x[BLOCK];
} lanes;

typedef union wide_lanes {
    wide v[2]; /* the lower half, the upper one */
    double x[BLOCK];
} wide_lanes;

/* Two sums for each channel of a block, over one part of it. */
typedef struct sums {
    wide_lanes first, second;
    lanes shift; /* what was subtracted from src */
} sums;

enum {
    CHUNK = 32,        /* vectors that are summed in float; to do so in double takes twice the time */
    PART_LEAST = 2048, /* vectors of a part, where a block has several */
    PARTS_MOST = 32,   /* of a block */
};

typedef struct blocks {
    int64_t C, HW, blocks;
    int64_t count; /* vectors of a block, all samples */
    int64_t parts; /* of a block */
    double epsilon;
} blocks;

static inline blocks blocks_in(const batchnorm_attr *t, const shape *src)
{
    blocks v = {.C = src->dim[1], .HW = src->dim[2] * src->dim[3], .blocks = blocks_of(src->dim[1])};
    v.count = src->dim[0] * v.HW;
    v.parts = v.count / PART_LEAST < PARTS_MOST ? v.count / PART_LEAST : PARTS_MOST;
    v.parts += v.parts == 0;
    v.epsilon = t->epsilon;
    return v;
}

static inline int64_t sums_workspace(const graph *g, const node *n)
{
    const blocks v = blocks_in(n->attr, &g->values[n->in[0]].shape);
    return v.blocks * v.parts * (int64_t)sizeof(sums);
}

/* A part of a block: vectors lo .. hi - 1 of it. */
typedef struct piece {
    int64_t b, lo, hi;
} piece;

static inline piece piece_of(const blocks *v, int64_t item)
{
    const int64_t p = item % v->parts;
    return (piece){item / v->parts, v->count * p / v->parts, v->count * (p + 1) / v->parts};
}

/* Vectors that lie one after the other, all of sample n. */
typedef struct run {
    int64_t n, at, count;
} run;

/* Takes the first run off a piece that is not empty. */
static inline run run_first(const blocks *v, piece *p)
{
    const int64_t n = p->lo / v->HW, end = (n + 1) * v->HW < p->hi ? (n + 1) * v->HW : p->hi;
    const run r = {n, (n * v->blocks + p->b) * v->HW + p->lo - n * v->HW, end - p->lo};
    p->lo = end;
    return r;
}

/* And the last one. */
static inline run run_last(const blocks *v, piece *p)
{
    const int64_t n = (p->hi - 1) / v->HW, begin = n * v->HW > p->lo ? n * v->HW : p->lo;
    const run r = {n, (n * v->blocks + p->b) * v->HW + begin - n * v->HW, p->hi - begin};
    p->hi = begin;
    return r;
}

/* Where a run of vectors lies that are `at` in other tensors, in one that may be a part: so many vectors further on.
 */
static inline int64_t shift_of(const blocks *v, const arg *part, const run *r)
{
    return r->n * (part->sample / BLOCK - v->blocks * v->HW);
}

/* C floats in plain order: those of block b, zeros in the padding; `all` where there are none. */
static inline vec lanes_get(const blocks *v, int64_t b, const float *from, float all)
{
    if (from && (b + 1) * BLOCK <= v->C)
        return ((const vec *)from)[b];
    lanes l = {.v = {0}};
    for (int64_t i = 0; i < BLOCK && b * BLOCK + i < v->C; i++)
        l.x[i] = from ? from[b * BLOCK + i] : all;
    return l.v;
}

static inline void lanes_put(const blocks *v, int64_t b, float *to, vec x)
{
    const lanes l = {.v = x};
    for (int64_t i = 0; i < BLOCK && b * BLOCK + i < v->C; i++)
        to[b * BLOCK + i] = l.x[i];
}

/* The sums of a whole block: of its parts, in their order. */
static inline sums sums_of(const blocks *v, const sums *part, int64_t b)
{
    sums s = part[b * v->parts];
    for (int64_t p = b * v->parts + 1; p < (b + 1) * v->parts; p++) {
        for (int half = 0; half < 2; half++) {
            s.first.v[half] += part[p].first.v[half];
            s.second.v[half] += part[p].second.v[half];
        }
    }
    return s;
}

/* How a block is normalized: (src - mean) * scale + shift. Nothing but zeros in the padding. */
typedef struct affine {
    vec mean, scale, shift;
} affine;

/* From mean and var as they are stored, so that the gradient finds the same bits. */
static inline affine affine_of(const blocks *v, const batchnorm_args *a, int64_t b, vec mean, vec var)
{
    const lanes wei = {lanes_get(v, b, a->wei, 1)}, variance = {var};
    lanes scale;
    for (int i = 0; i < BLOCK; i++)
        scale.x[i] = (float)(wei.x[i] / sqrt(variance.x[i] + v->epsilon));
    for (int64_t i = v->C - b * BLOCK; i < BLOCK; i++)
        scale.x[i] = 0;
    return (affine){mean, scale.v, lanes_get(v, b, a->bia, 0)};
}

static inline vec normalize(vec x, const affine *f)
{
    return (x - f->mean) * f->scale + f->shift;
}

/* --- two passes ---------------------------------------------------------------------------------------------- */

/* Output 0 lies where an input lies: its lines are in the cache anyway. */
static inline bool is_in_place(const step *s)
{
    bool found = false;
    for (int k = 0; k < s->nin; k++)
        found = found || s->in[k].data == s->out[0].data;
    return found;
}

typedef void (*range)(const step *s, int64_t begin, int64_t end);

/* Runs the first pass and the second one over all parts of all blocks, which are their items; both_range does so for
 * one block after the other, which are its items. */
static inline void run_passes(const step *s, double work, range first_range, range second_range, range both_range)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    if (v.blocks % s->threads == 0 || v.blocks >= 8 * (int64_t)s->threads) {
        step_for(s, v.blocks, work, both_range);
    } else {
        step_for(s, v.blocks * v.parts, work, first_range);
        step_for(s, v.blocks * v.parts, work, second_range);
    }
}

/* A row of a kernel list. */
#define BATCHNORM_KERNEL(operation, function, work, in, out)                                                         \
    SIMD_ROW(#function, operation, .supports = simd_supports, .formats = cpu_formats, .workspace = work,             \
             .parts_in = in, .parts_out = out, .run = function)

#endif
