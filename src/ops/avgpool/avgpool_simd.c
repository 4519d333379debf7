/* avgpool_simd.c - average-pooling in blocks of channels: a lane of a vector is a channel. */
#include "device/cpu/simd.h"
#include "ops/avgpool/avgpool.h"

typedef struct pooling {
    const avgpool_attr *attr;
    window y, x;
} pooling;

static pooling pooling_of(const avgpool_attr *t, const shape *src, const shape *dst)
{
    return (pooling){.attr = t, .y = window_y(&t->window, src, dst), .x = window_x(&t->window, src, dst)};
}

static float divisor(const pooling *p, int64_t oy, int64_t ox)
{
    return (float)(avgpool_pixels(p->attr, &p->y, oy) * avgpool_pixels(p->attr, &p->x, ox));
}

/* item: a block of planes, here and below */
static void avgpool_range(const step *s, int64_t begin, int64_t end)
{
    const pooling p = pooling_of(s->attr, &s->in[0].shape, &s->out[0].shape);
    const int64_t W = p.x.in;
    vec *dst = (vec *)s->out[0].data + begin * p.y.out * p.x.out;
    for (int64_t item = begin; item < end; item++) {
        const vec *src = (const vec *)s->in[0].data + item * p.y.in * W;
        for (int64_t oy = 0; oy < p.y.out; oy++) {
            const span rows = window_inputs(&p.y, oy);
            for (int64_t ox = 0; ox < p.x.out; ox++) {
                const span columns = window_inputs(&p.x, ox);
                vec sum = {0};
                for (int64_t iy = rows.lo; iy < rows.hi; iy++)
                    for (int64_t ix = columns.lo; ix < columns.hi; ix++)
                        sum += src[iy * W + ix];
                *dst++ = sum / divisor(&p, oy, ox);
            }
        }
    }
}

static brasa_status avgpool(const step *s)
{
    const shape *out = &s->out[0].shape;
    step_for(s, out->dim[0] * blocks_of(out->dim[1]), avgpool_work(s->attr, s->out[0].count), avgpool_range);
    return BRASA_OK;
}

static void clear_rows(vec *dsrc, int64_t W, int64_t from, int64_t to)
{
    for (int64_t i = from * W; i < to * W; i++)
        dsrc[i] = (vec){0};
}

/* What the windows of one output row hand back to their pixels. */
static void spread_row(const pooling *p, int64_t oy, const vec *ddst, vec *dsrc)
{
    const span rows = window_inputs(&p->y, oy);
    for (int64_t ox = 0; ox < p->x.out; ox++) {
        const span columns = window_inputs(&p->x, ox);
        const vec part = ddst[ox] / divisor(p, oy, ox);
        for (int64_t iy = rows.lo; iy < rows.hi; iy++)
            for (int64_t ix = columns.lo; ix < columns.hi; ix++)
                dsrc[iy * p->x.in + ix] += part;
    }
}

static void avgpool_grad_range(const step *s, int64_t begin, int64_t end)
{
    const pooling p = pooling_of(s->attr, &s->out[0].shape, &s->in[0].shape);
    const vec *ddst = (const vec *)s->in[0].data + begin * p.y.out * p.x.out;
    for (int64_t item = begin; item < end; item++) {
        vec *dsrc = (vec *)s->out[0].data + item * p.y.in * p.x.in;
        int64_t clear = 0; /* rows before it are begun: just before their first use, so that they are in the cache */
        for (int64_t oy = 0; oy < p.y.out; oy++, ddst += p.x.out) {
            const int64_t needed = window_inputs(&p.y, oy).hi;
            clear_rows(dsrc, p.x.in, clear, needed);
            clear = needed > clear ? needed : clear;
            spread_row(&p, oy, ddst, dsrc);
        }
        clear_rows(dsrc, p.x.in, clear, p.y.in);
    }
}

static brasa_status avgpool_grad(const step *s)
{
    const shape *out = &s->out[0].shape;
    const double work = (double)s->out[0].count + avgpool_work(s->attr, s->in[0].count);
    step_for(s, out->dim[0] * blocks_of(out->dim[1]), work, avgpool_grad_range);
    return BRASA_OK;
}

/* Rows are summed up by themselves: the sum of a large plane is more exact so, and additions wait less. */
static void global_avgpool_range(const step *s, int64_t begin, int64_t end)
{
    const int64_t H = s->in[0].shape.dim[2], W = s->in[0].shape.dim[3];
    const vec *src = (const vec *)s->in[0].data + begin * H * W;
    vec *dst = s->out[0].data;
    for (int64_t item = begin; item < end; item++) {
        vec sum = {0};
        for (int64_t h = 0; h < H; h++, src += W) {
            vec row = {0};
            for (int64_t w = 0; w < W; w++)
                row += src[w];
            sum += row;
        }
        dst[item] = sum / (float)(H * W);
    }
}

static brasa_status global_avgpool(const step *s)
{
    const shape *in = &s->in[0].shape;
    step_for(s, in->dim[0] * blocks_of(in->dim[1]), (double)s->in[0].count, global_avgpool_range);
    return BRASA_OK;
}

static void global_avgpool_grad_range(const step *s, int64_t begin, int64_t end)
{
    const vec *ddst = s->in[0].data;
    const int64_t HW = shape_span(&s->out[0].shape, 2, 4);
    for (int64_t item = begin; item < end; item++) {
        const vec part = ddst[item] / (float)HW;
        vec *dsrc = (vec *)s->out[0].data + item * HW;
        for (int64_t i = 0; i < HW; i++)
            dsrc[i] = part;
    }
}

static brasa_status global_avgpool_grad(const step *s)
{
    const shape *out = &s->out[0].shape;
    step_for(s, out->dim[0] * blocks_of(out->dim[1]), (double)s->out[0].count, global_avgpool_grad_range);
    return BRASA_OK;
}

const kernel SIMD_TABLE(avgpool)[] = {
    SIMD_KERNEL(avgpool_op, avgpool),
    SIMD_KERNEL(avgpool_grad_op, avgpool_grad),
    SIMD_KERNEL(global_avgpool_op, global_avgpool),
    SIMD_KERNEL(global_avgpool_grad_op, global_avgpool_grad),
    {0},
};
