/* batchnorm_grad_simd.c - the gradient of batch normalization in blocks of channels. Where dres is wanted the first
 * pass writes it, and the second one reads it in place of all that it was made of. */
#include "ops/batchnorm/blocks.h"

/* The gradient behind a block's activation. */
typedef struct slope {
    const vec *src, *ddst, *more, *dst; /* more may be NULL; dst NULL: it is computed from src */
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
        .more = a->more,
        .dst = a->dst,
        .f = affine_of(v, a, b, lanes_get(v, b, a->mean, 0), lanes_get(v, b, a->var, 0)),
        .flat = t->flat != ACT_NONE,
        .act = bounds_of(t->flat),
    };
}

/* The slope with its pointers such that the indices of src are those of all, for a run: all others may be parts. */
static inline slope slope_at(const step *s, const blocks *v, slope g, const run *r)
{
    g.ddst += shift_of(v, &s->in[1], r);
    if (g.more)
        g.more += shift_of(v, &s->in[2], r);
    if (g.dst)
        g.dst += shift_of(v, &s->in[g.more ? 3 : 2], r);
    return g;
}

static vec *dres_of(const step *s)
{
    return ((const batchnorm_attr *)s->attr)->keeps_dres ? s->out[s->nout - 1].data : NULL;
}

/* What of ddst passes the activation. */
static inline vec passes(const slope *g, int64_t i)
{
    const vec d = g->more ? g->ddst[i] + g->more[i] : g->ddst[i];
    if (!g->flat)
        return d;
    const vec y = g->dst ? g->dst[i] : normalize(g->src[i], &g->f);
    return vec_choose((y <= g->act.low) | (y >= g->act.high), (vec){0}, d);
}

/* Adds the sums of the gradient and of the gradient times src - mean, over vectors begin .. end - 1, and writes dres,
 * the gradient as it is. */
static void add_slopes(sums *to, const slope *g, int64_t begin, int64_t end, vec *dres, bool stream)
{
    vec sum[2] = {{0}}, product[2] = {{0}};
    for (int64_t i = begin; i < end; i += 2) {
        for (int64_t j = 0; j < 2 && i + j < end; j++) {
            const vec d = passes(g, i + j);
            sum[j] += d;
            product[j] += d * (g->src[i + j] - g->f.mean);
            if (dres)
                vec_store(&dres[i + j], d, stream);
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
    vec *dres = dres_of(s);
    const bool stream = dres && is_huge(&s->out[0]);
    for (int64_t item = begin; item < end; item++) {
        piece p = piece_of(&v, item);
        const slope g = slope_of(s, &v, &a, p.b);
        sums sum = {.shift = {{0}}};
        while (p.lo < p.hi) {
            const run r = run_first(&v, &p);
            const slope here = slope_at(s, &v, g, &r);
            for (int64_t i = 0; i < r.count; i += CHUNK)
                add_slopes(&sum, &here, r.at + i, r.at + (r.count - i < CHUNK ? r.count : i + CHUNK), dres, stream);
        }
        part[item] = sum;
    }
    vec_stream_end(stream);
}

/* dsrc = scale (gradient - level - (src - mean) tilt) */
static void write_run(slope g, vec level, vec tilt, vec *dsrc, run r, bool stream)
{
    for (int64_t i = r.at; i < r.at + r.count; i++) {
        const vec d = passes(&g, i);
        vec_store(&dsrc[i], g.f.scale * (d - level - (g.src[i] - g.f.mean) * tilt), stream);
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
    const vec *dres = dres_of(s);
    const bool stream = is_huge(&s->out[0]) && !is_in_place(s);
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
            const slope here = dres ? (slope){.src = g.src, .ddst = dres, .f = g.f} : slope_at(s, &v, g, &r);
            write_run(here, f.level.v, f.tilt.v, s->out[0].data, r, stream);
        }
    }
    vec_stream_end(stream);
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

/* ddst, more and dst may be parts; there may be no more and no dst. */
const kernel SIMD_TABLE(batchnorm_grad)[] = {
    BATCHNORM_KERNEL(batchnorm_train_grad_op, batchnorm_grad, sums_workspace, 14, 0),
    BATCHNORM_KERNEL(batchnorm_eval_grad_op, batchnorm_grad, sums_workspace, 14, 0),
    {0},
};
