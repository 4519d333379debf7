/* maxpool_simd.c - max-pooling in blocks of channels: a lane of a vector is a channel. */
#include "backend/cpu/simd.h"
#include "ops/maxpool/maxpool.h"

#include <math.h>

typedef struct plane {
    window y, x;
    int64_t HW, P;
} plane;

static plane plane_of(const window_attr *t, const shape *src, const shape *dst)
{
    plane p = {.y = window_y(t, src, dst), .x = window_x(t, src, dst)};
    p.HW = p.y.in * p.x.in;
    p.P = p.y.out * p.x.out;
    return p;
}

/* item: a block of planes */
static void maxpool_range(const step *s, int64_t begin, int64_t end)
{
    const plane p = plane_of(s->attr, &s->in[0].shape, &s->out[0].shape);
    for (int64_t item = begin; item < end; item++) {
        const vec *src = (const vec *)s->in[0].data + item * p.HW;
        vec *dst = (vec *)s->out[0].data + item * p.P;
        veci *winner = (veci *)s->out[1].data + item * p.P;
        for (int64_t o = 0; o < p.P; o++) {
            const span rows = window_inputs(&p.y, o / p.x.out), columns = window_inputs(&p.x, o % p.x.out);
            vec best = vec_all(-INFINITY);
            veci place = (int32_t)(rows.lo * p.x.in + columns.lo) - (veci){0};
            for (int64_t i = rows.lo; i < rows.hi; i++) {
                for (int64_t j = columns.lo; j < columns.hi; j++) {
                    const vec v = src[i * p.x.in + j];
                    const veci wins = (v > best) | (v != v);
                    best = vec_choose(wins, v, best);
                    place = (((int32_t)(i * p.x.in + j) - (veci){0}) & wins) | (place & ~wins);
                }
            }
            dst[o] = best;
            winner[o] = place;
        }
    }
}

static brasa_status maxpool(const step *s)
{
    const shape *out = &s->out[0].shape;
    const window_attr *t = s->attr;
    step_for(s, out->dim[0] * blocks_of(out->dim[1]), (double)s->out[0].count * t->size.h * t->size.w, maxpool_range);
    return BRASA_OK;
}

/* item: a block of planes */
static void maxpool_grad_range(const step *s, int64_t begin, int64_t end)
{
    const plane p = plane_of(s->attr, &s->out[0].shape, &s->in[1].shape);
    for (int64_t item = begin; item < end; item++) {
        const veci *winner = (const veci *)s->in[0].data + item * p.P;
        const vec *ddst = (const vec *)s->in[1].data + item * p.P;
        vec *dsrc = (vec *)s->out[0].data + item * p.HW;
        for (int64_t i = 0; i < p.HW; i++)
            dsrc[i] = (vec){0};
        for (int64_t o = 0; o < p.P; o++) {
            const span rows = window_inputs(&p.y, o / p.x.out), columns = window_inputs(&p.x, o % p.x.out);
            for (int64_t i = rows.lo; i < rows.hi; i++) {
                for (int64_t j = columns.lo; j < columns.hi; j++) {
                    const veci here = winner[o] == (int32_t)(i * p.x.in + j) - (veci){0};
                    dsrc[i * p.x.in + j] += vec_choose(here, ddst[o], (vec){0});
                }
            }
        }
    }
}

static brasa_status maxpool_grad(const step *s)
{
    const shape *out = &s->out[0].shape;
    const window_attr *t = s->attr;
    step_for(s, out->dim[0] * blocks_of(out->dim[1]), (double)s->in[1].count * t->size.h * t->size.w,
             maxpool_grad_range);
    return BRASA_OK;
}

const kernel SIMD_TABLE(maxpool)[] = {
    SIMD_KERNEL(maxpool_op, maxpool),
    SIMD_KERNEL(maxpool_grad_op, maxpool_grad),
    {0},
};
