/* avgpool_simd.c - average-pooling in blocks of channels: a lane of a vector is a channel. */
#include "device/cpu/simd.h"
#include "ops/avgpool/avgpool.h"

#define NUMBER  vec
#define SCALAR  float
#define NAME(f) f
#include "ops/means.h"

/* item: a block of planes, here and below */
SPLIT_STEP(avgpool, means_range, planes_of(&s->out[0].shape), window_taps(s->attr, s->out[0].count))
SPLIT_STEP(avgpool_grad, means_grad_range, planes_of(&s->out[0].shape),
           (double)s->out[0].count + window_taps(s->attr, s->in[0].count))

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

SPLIT_STEP(global_avgpool, global_avgpool_range, planes_of(&s->in[0].shape), (double)s->in[0].count)

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

SPLIT_STEP(global_avgpool_grad, global_avgpool_grad_range, planes_of(&s->out[0].shape), (double)s->out[0].count)

const kernel SIMD_TABLE(avgpool)[] = {
    SIMD_KERNEL(avgpool_op, avgpool),
    SIMD_KERNEL(avgpool_grad_op, avgpool_grad),
    SIMD_KERNEL(global_avgpool_op, global_avgpool),
    SIMD_KERNEL(global_avgpool_grad_op, global_avgpool_grad),
    {0},
};
