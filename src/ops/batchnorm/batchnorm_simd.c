/* batchnorm_simd.c - batch normalization in blocks of channels: a lane of a vector is a channel.
 *
 * A block of channels is N planes of HW vectors. Everything is bound by memory, so each pass over it counts: one for
 * the statistics or the two sums of the gradient, one for the elements. Sums are taken in float over a few vectors,
 * and in double over those; as the squares are taken around a mean of what came before, mean and variance are as
 * exact as those of two passes.
 *
 * The vectors of a block are cut into parts, as many as the shape says, and summed part by part: so threads can share
 * a block, and the sums do not depend on how. Where there are enough blocks a thread does one block after the other,
 * both passes of it, and finds in its cache what the first pass has left there: the second one goes from the end to
 * the beginning for that reason.
 */
#include "backend/cpu/simd.h"
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

static bounds bounds_of(activation act)
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

static blocks blocks_in(const batchnorm_attr *t, const shape *src)
{
    blocks v = {.C = src->dim[1], .HW = src->dim[2] * src->dim[3], .blocks = blocks_of(src->dim[1])};
    v.count = src->dim[0] * v.HW;
    v.parts = v.count / PART_LEAST < PARTS_MOST ? v.count / PART_LEAST : PARTS_MOST;
    v.parts += v.parts == 0;
    v.epsilon = t->epsilon;
    return v;
}

static int64_t workspace(const graph *g, const node *n)
{
    const blocks v = blocks_in(n->attr, &g->values[n->in[0]].shape);
    return v.blocks * v.parts * (int64_t)sizeof(sums);
}

/* A part of a block: vectors lo .. hi - 1 of it. */
typedef struct piece {
    int64_t b, lo, hi;
} piece;

static piece piece_of(const blocks *v, int64_t item)
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
static vec lanes_get(const blocks *v, int64_t b, const float *from, float all)
{
    if (from && (b + 1) * BLOCK <= v->C)
        return ((const vec *)from)[b];
    lanes l = {.v = {0}};
    for (int64_t i = 0; i < BLOCK && b * BLOCK + i < v->C; i++)
        l.x[i] = from ? from[b * BLOCK + i] : all;
    return l.v;
}

static void lanes_put(const blocks *v, int64_t b, float *to, vec x)
{
    const lanes l = {.v = x};
    for (int64_t i = 0; i < BLOCK && b * BLOCK + i < v->C; i++)
        to[b * BLOCK + i] = l.x[i];
}

/* The sums of a whole block: of its parts, in their order. */
static sums sums_of(const blocks *v, const sums *part, int64_t b)
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
static affine affine_of(const blocks *v, const batchnorm_args *a, int64_t b, vec mean, vec var)
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

/* No cache holds the tensors of a step: next to nothing of them is left when the next node comes. */
static bool is_huge(const step *s)
{
    return s->in[0].count * (int64_t)sizeof(float) >= STREAM_LEAST;
}

/* Output 0 lies where an input lies: its lines are in the cache anyway. */
static bool is_in_place(const step *s)
{
    bool found = false;
    for (int k = 0; k < s->nin; k++)
        found = found || s->in[k].data == s->out[0].data;
    return found;
}

typedef void (*range)(const step *s, int64_t begin, int64_t end);

/* Runs the first pass and the second one over all parts of all blocks, which are their items; both_range does so for
 * one block after the other, which are its items. */
static void run_passes(const step *s, double work, range first_range, range second_range, range both_range)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    if (v.blocks % s->threads == 0 || v.blocks >= 8 * (int64_t)s->threads) {
        step_for(s, v.blocks, work, both_range);
    } else {
        step_for(s, v.blocks * v.parts, work, first_range);
        step_for(s, v.blocks * v.parts, work, second_range);
    }
}

/* --- forward ------------------------------------------------------------------------------------------------- */

/* Adds the sums of src - shift and of its square. In float they are taken around *center, which moves along with the
 * mean of the last chunk: so the squares are hardly larger than they must be, whatever the data. With d = src -
 * center and e = center - shift the sum of (d + e)^2 is that of d^2 and n e^2 + 2 e d. */
static void add_moments(sums *to, vec *center, const vec *src, int64_t count)
{
    vec sum[2] = {{0}}, square[2] = {{0}}; /* two of each, for one addition need not wait for the other */
    for (int64_t i = 0; i < count; i += 2) {
        for (int64_t j = 0; j < 2 && i + j < count; j++) {
            const vec d = src[i + j] - *center;
            sum[j] += d;
            square[j] += d * d;
        }
    }
    sum[0] += sum[1];
    square[0] += square[1];
    const double n = (double)count;
    const wide low = wide_low(sum[0]), e_low = wide_low(*center) - wide_low(to->shift.v);
    const wide high = wide_high(sum[0]), e_high = wide_high(*center) - wide_high(to->shift.v);
    to->first.v[0] += low + n * e_low;
    to->first.v[1] += high + n * e_high;
    to->second.v[0] += wide_low(square[0]) + e_low * (n * e_low + 2 * low);
    to->second.v[1] += wide_high(square[0]) + e_high * (n * e_high + 2 * high);
    *center += sum[0] / (float)count;
}

/* item: a part of a block */
static void moments_range(const step *s, int64_t begin, int64_t end)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    const vec *src = s->in[0].data;
    sums *part = s->workspace;
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_of(&v, item);
        run r = run_first(&v, &(piece){p.b, p.lo, p.hi});
        sums sum = {.shift = {src[p.b * v.HW]}}, unused = sum;
        vec center = src[r.at];
        /* The first value may lie far from all others: the first chunk comes twice, for a center to begin with. */
        add_moments(&unused, &center, src + r.at, r.count < CHUNK ? r.count : CHUNK);
        while (p.lo < p.hi) {
            r = run_first(&v, &p);
            for (int64_t i = 0; i < r.count; i += CHUNK)
                add_moments(&sum, &center, src + r.at + i, r.count - i < CHUNK ? r.count - i : CHUNK);
        }
        part[item] = sum;
    }
}

static void normalize_run(affine f, bounds act, const vec *src, const vec *res, vec *dst, int64_t count, bool stream)
{
    for (int64_t i = 0; i < count; i++) {
        vec y = normalize(src[i], &f);
        if (res)
            y += res[i];
        vec_store(&dst[i], activate(y, &act), stream);
    }
}

static void normalize_piece(const step *s, const blocks *v, const batchnorm_args *a, piece p, const affine *f)
{
    const vec *src = a->src, *res = a->res;
    vec *dst = s->out[0].data;
    const bool stream = is_huge(s) && !is_in_place(s);
    while (p.lo < p.hi) {
        const run r = run_last(v, &p);
        normalize_run(*f, bounds_of(s->node->act), src + r.at, res ? res + r.at : NULL,
                      dst + r.at + shift_of(v, &s->out[0], &r), r.count, stream);
    }
    vec_stream_end(stream);
}

/* item: a part of a block */
static void train_range(const step *s, int64_t begin, int64_t end)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    const batchnorm_args a = batchnorm_args_of(s);
    for (int64_t item = end - 1; item >= begin; item--) {
        const piece p = piece_of(&v, item);
        const sums t = sums_of(&v, s->workspace, p.b);
        lanes mean, var;
        for (int i = 0; i < BLOCK; i++) {
            const double away = t.first.x[i] / (double)v.count;
            const double square = t.second.x[i] / (double)v.count - away * away;
            mean.x[i] = (float)(t.shift.x[i] + away);
            var.x[i] = square < 0 ? 0 : (float)square; /* NaN stays */
        }
        if (p.lo == 0) {
            lanes_put(&v, p.b, s->out[1].data, mean.v);
            lanes_put(&v, p.b, s->out[2].data, var.v);
        }
        const affine f = affine_of(&v, &a, p.b, mean.v, var.v);
        normalize_piece(s, &v, &a, p, &f);
    }
}

/* item: a block */
static void train_both_range(const step *s, int64_t begin, int64_t end)
{
    const int64_t parts = blocks_in(s->attr, &s->in[0].shape).parts;
    for (int64_t b = begin; b < end; b++) {
        moments_range(s, b * parts, (b + 1) * parts);
        train_range(s, b * parts, (b + 1) * parts);
    }
}

static brasa_status batchnorm_train(const step *s)
{
    run_passes(s, (double)s->in[0].count, moments_range, train_range, train_both_range);
    return BRASA_OK;
}

/* item: a part of a block */
static void eval_range(const step *s, int64_t begin, int64_t end)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    const batchnorm_args a = batchnorm_args_of(s);
    for (int64_t item = end - 1; item >= begin; item--) {
        const piece p = piece_of(&v, item);
        const affine f = affine_of(&v, &a, p.b, lanes_get(&v, p.b, a.mean, 0), lanes_get(&v, p.b, a.var, 0));
        normalize_piece(s, &v, &a, p, &f);
    }
}

static brasa_status batchnorm_eval(const step *s)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    step_for(s, v.blocks * v.parts, (double)s->in[0].count, eval_range);
    return BRASA_OK;
}

/* --- gradients ----------------------------------------------------------------------------------------------- */

/* The gradient behind a block's activation. */
typedef struct slope {
    const vec *src, *ddst, *dst; /* dst NULL: it is computed from src */
    affine f;
    bool flat; /* somewhere: within the bounds */
    bounds act;
} slope;

static slope slope_of(const step *s, const blocks *v, const batchnorm_args *a, int64_t b)
{
    const batchnorm_attr *t = s->attr;
    return (slope){
        .src = a->src,
        .ddst = a->ddst,
        .dst = a->dst,
        .f = affine_of(v, a, b, lanes_get(v, b, a->mean, 0), lanes_get(v, b, a->var, 0)),
        .flat = t->flat != ACT_NONE,
        .act = bounds_of(t->flat),
    };
}

/* The slope with its pointers such that the indices of src are those of all three, for a run: ddst and dst may be
 * parts. */
static inline slope slope_at(const step *s, const blocks *v, slope g, const run *r)
{
    g.ddst += shift_of(v, &s->in[1], r);
    if (g.dst)
        g.dst += shift_of(v, &s->in[2], r);
    return g;
}

/* What of ddst passes the activation. */
static inline vec passes(const slope *g, int64_t i)
{
    if (!g->flat)
        return g->ddst[i];
    const vec y = g->dst ? g->dst[i] : normalize(g->src[i], &g->f);
    return vec_choose((y <= g->act.low) | (y >= g->act.high), (vec){0}, g->ddst[i]);
}

/* Adds the sums of the gradient and of the gradient times src - mean, over vectors begin .. end - 1. */
static void add_slopes(sums *to, const slope *g, int64_t begin, int64_t end)
{
    vec sum[2] = {{0}}, product[2] = {{0}};
    for (int64_t i = begin; i < end; i += 2) {
        for (int64_t j = 0; j < 2 && i + j < end; j++) {
            const vec d = passes(g, i + j);
            sum[j] += d;
            product[j] += d * (g->src[i + j] - g->f.mean);
        }
    }
    sum[0] += sum[1];
    product[0] += product[1];
    to->first.v[0] += wide_low(sum[0]);
    to->first.v[1] += wide_high(sum[0]);
    to->second.v[0] += wide_low(product[0]);
    to->second.v[1] += wide_high(product[0]);
}

/* item: a part of a block */
static void slopes_range(const step *s, int64_t begin, int64_t end)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    const batchnorm_args a = batchnorm_args_of(s);
    sums *part = s->workspace;
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_of(&v, item);
        const slope g = slope_of(s, &v, &a, p.b);
        sums sum = {.shift = {{0}}};
        while (p.lo < p.hi) {
            const run r = run_first(&v, &p);
            const slope here = slope_at(s, &v, g, &r);
            for (int64_t i = 0; i < r.count; i += CHUNK)
                add_slopes(&sum, &here, r.at + i, r.at + (r.count - i < CHUNK ? r.count : i + CHUNK));
        }
        part[item] = sum;
    }
}

/* dsrc = scale (gradient - level - (src - mean) tilt), and dres, the gradient as it is */
static void write_run(slope g, vec level, vec tilt, vec *dsrc, vec *dres, run r, bool stream, bool stream_dres)
{
    for (int64_t i = r.at; i < r.at + r.count; i++) {
        const vec d = passes(&g, i);
        vec_store(&dsrc[i], g.f.scale * (d - level - (g.src[i] - g.f.mean) * tilt), stream);
        if (dres)
            vec_store(&dres[i], d, stream_dres);
    }
}

/* What the sums of a block's gradient say. */
typedef struct finished {
    lanes dwei, dbia, level, tilt;
} finished;

static finished finish(const step *s, const blocks *v, const batchnorm_args *a, int64_t b)
{
    const sums t = sums_of(v, s->workspace, b);
    const lanes var = {lanes_get(v, b, a->var, 0)};
    const double n = (double)v->count;
    const bool flows = s->node->op == &batchnorm_train_grad_op;
    finished f;
    for (int i = 0; i < BLOCK; i++) {
        const double inverse = 1 / sqrt(var.x[i] + v->epsilon);
        f.dwei.x[i] = (float)(t.second.x[i] * inverse);
        f.dbia.x[i] = (float)t.first.x[i];
        f.level.x[i] = flows ? (float)(t.first.x[i] / n) : 0;
        f.tilt.x[i] = flows ? (float)(inverse * inverse * t.second.x[i] / n) : 0;
    }
    for (int64_t i = v->C - b * BLOCK; i < BLOCK; i++)
        f.level.x[i] = f.tilt.x[i] = 0;
    return f;
}

/* item: a part of a block */
static void slopes_write_range(const step *s, int64_t begin, int64_t end)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    const batchnorm_args a = batchnorm_args_of(s);
    vec *dres = ((const batchnorm_attr *)s->attr)->keeps_dres ? s->out[s->nout - 1].data : NULL;
    const bool huge = is_huge(s), stream = huge && !is_in_place(s);
    for (int64_t item = end - 1; item >= begin; item--) {
        piece p = piece_of(&v, item);
        const slope g = slope_of(s, &v, &a, p.b);
        const finished f = finish(s, &v, &a, p.b);
        if (p.lo == 0 && a.wei) {
            lanes_put(&v, p.b, s->out[1].data, f.dwei.v);
            lanes_put(&v, p.b, s->out[2].data, f.dbia.v);
        }
        while (p.lo < p.hi) {
            const run r = run_last(&v, &p);
            write_run(slope_at(s, &v, g, &r), f.level.v, f.tilt.v, s->out[0].data, dres, r, stream, huge);
        }
    }
    vec_stream_end(huge);
}

/* item: a block */
static void grad_both_range(const step *s, int64_t begin, int64_t end)
{
    const int64_t parts = blocks_in(s->attr, &s->in[0].shape).parts;
    for (int64_t b = begin; b < end; b++) {
        slopes_range(s, b * parts, (b + 1) * parts);
        slopes_write_range(s, b * parts, (b + 1) * parts);
    }
}

static brasa_status batchnorm_grad(const step *s)
{
    run_passes(s, (double)s->in[0].count * 2, slopes_range, slopes_write_range, grad_both_range);
    return BRASA_OK;
}

/* Parts: dst forward, ddst and dst backward, of which there may be no second. */
#define KERNEL(operation, function, work, in, out)                                                                   \
    {                                                                                                                \
        .name = SIMD_NAME(#function), .op = &operation, .real = F32, .isa = SIMD_ISA, .supports = simd_supports,     \
        .layouts = cpu_layouts, .workspace = work, .parts_in = in, .parts_out = out, .run = function                 \
    }

const kernel SIMD_TABLE(batchnorm)[] = {
    KERNEL(batchnorm_train_op, batchnorm_train, workspace, 0, 1),
    KERNEL(batchnorm_train_grad_op, batchnorm_grad, workspace, 6, 0),
    KERNEL(batchnorm_eval_op, batchnorm_eval, NULL, 0, 1),
    KERNEL(batchnorm_eval_grad_op, batchnorm_grad, workspace, 6, 0),
    {0},
};
