/* adaptive_avgpool_simd.c - adaptive average-pooling in blocks of channels: a lane of a vector is a channel. */
#include "device/cpu/simd.h"
#include "ops/adaptive_avgpool/adaptive_avgpool.h"

/* item: a block of planes, here and below */
static void adaptive_avgpool_range(const step *s, int64_t begin, int64_t end)
{
    const shape *in = &s->in[0].shape, *out = &s->out[0].shape;
    const axis y = {in->dim[2], out->dim[2]}, x = {in->dim[3], out->dim[3]};
    vec *dst = (vec *)s->out[0].data + begin * y.out * x.out;
    for (int64_t item = begin; item < end; item++) {
        const vec *src = (const vec *)s->in[0].data + item * y.in * x.in;
        for (int64_t o = 0; o < y.out * x.out; o++) {
            const span rows = axis_inputs(&y, o / x.out), columns = axis_inputs(&x, o % x.out);
            vec sum = {0};
            for (int64_t iy = rows.lo; iy < rows.hi; iy++)
                for (int64_t ix = columns.lo; ix < columns.hi; ix++)
                    sum += src[iy * x.in + ix];
            *dst++ = sum / (float)(span_size(rows) * span_size(columns));
        }
    }
}

static brasa_status adaptive_avgpool(const step *s)
{
    const shape *out = &s->out[0].shape;
    step_for(s, out->dim[0] * blocks_of(out->dim[1]), adaptive_work(&s->in[0].shape, out), adaptive_avgpool_range);
    return BRASA_OK;
}

static void adaptive_avgpool_grad_range(const step *s, int64_t begin, int64_t end)
{
    const shape *in = &s->out[0].shape, *out = &s->in[0].shape;
    const axis y = {in->dim[2], out->dim[2]}, x = {in->dim[3], out->dim[3]};
    const vec *ddst = (const vec *)s->in[0].data + begin * y.out * x.out;
    for (int64_t item = begin; item < end; item++) {
        vec *dsrc = (vec *)s->out[0].data + item * y.in * x.in;
        for (int64_t i = 0; i < y.in * x.in; i++)
            dsrc[i] = (vec){0};
        for (int64_t o = 0; o < y.out * x.out; o++) {
            const span rows = axis_inputs(&y, o / x.out), columns = axis_inputs(&x, o % x.out);
            const vec part = *ddst++ / (float)(span_size(rows) * span_size(columns));
            for (int64_t iy = rows.lo; iy < rows.hi; iy++)
                for (int64_t ix = columns.lo; ix < columns.hi; ix++)
                    dsrc[iy * x.in + ix] += part;
        }
    }
}

static brasa_status adaptive_avgpool_grad(const step *s)
{
    const shape *in = &s->out[0].shape;
    step_for(s, in->dim[0] * blocks_of(in->dim[1]), adaptive_work(in, &s->in[0].shape), adaptive_avgpool_grad_range);
    return BRASA_OK;
}

const kernel SIMD_TABLE(adaptive_avgpool)[] = {
    SIMD_KERNEL(adaptive_avgpool_op, adaptive_avgpool),
    SIMD_KERNEL(adaptive_avgpool_grad_op, adaptive_avgpool_grad),
    {0},
};
