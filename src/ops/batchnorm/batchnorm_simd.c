/* batchnorm_simd.c - batch normalization in blocks of channels, forward. As the squares are taken around a mean of
 * what came before, mean and variance are as exact as those of two passes. */
#include "ops/batchnorm/blocks.h"

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

/* What is made again for a gradient is large, and read by something that computes for long and need not find it in a
 * cache (recompute.c). */
static bool is_streamed(const step *s)
{
    return (is_huge(&s->out[0]) || s->node->role == ROLE_GRADIENT) && !is_in_place(s);
}

static void normalize_piece(const step *s, const blocks *v, const batchnorm_args *a, piece p, const affine *f)
{
    const vec *src = a->src, *res = a->res;
    vec *dst = s->out[0].data;
    const bool stream = is_streamed(s);
    while (p.lo < p.hi) {
        const run r = run_last(v, &p);
        normalize_run(*f, bounds_of(s->node->act), src + r.at, res ? res + r.at : NULL,
                      dst + r.at + shift_of(v, &s->out[0], &r), r.count, stream);
    }
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
    vec_stream_end(is_streamed(s));
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

/* What each block is multiplied by, and so on: once, as a picture may have a single pixel. item: a block */
static void affine_range(const step *s, int64_t begin, int64_t end)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    const batchnorm_args a = batchnorm_args_of(s);
    for (int64_t b = begin; b < end; b++)
        ((affine *)s->workspace)[b] = affine_of(&v, &a, b, lanes_get(&v, b, a.mean, 0), lanes_get(&v, b, a.var, 0));
}

static int64_t affine_workspace(const graph *g, const node *n)
{
    return blocks_of(g->values[n->in[0]].shape.dim[1]) * (int64_t)sizeof(affine);
}

/* item: a block of a sample, in the order in which they lie */
static void eval_range(const step *s, int64_t begin, int64_t end)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    const batchnorm_args a = batchnorm_args_of(s);
    const affine *f = s->workspace;
    for (int64_t item = begin; item < end; item++) {
        const int64_t n = item / v.blocks, b = item % v.blocks;
        normalize_piece(s, &v, &a, (piece){b, n * v.HW, (n + 1) * v.HW}, &f[b]);
    }
    vec_stream_end(is_streamed(s));
}

static brasa_status batchnorm_eval(const step *s)
{
    const blocks v = blocks_in(s->attr, &s->in[0].shape);
    step_for(s, v.blocks, (double)s->in[0].shape.dim[1], affine_range);
    step_for(s, s->in[0].shape.dim[0] * v.blocks, (double)s->in[0].count, eval_range);
    return BRASA_OK;
}

/* dst may be a part. */
const kernel SIMD_TABLE(batchnorm)[] = {
    BATCHNORM_KERNEL(batchnorm_train_op, batchnorm_train, sums_workspace, 0, 1),
    BATCHNORM_KERNEL(batchnorm_eval_op, batchnorm_eval, affine_workspace, 0, 1),
    {0},
};
