/* adaptive_avgpool_simd.c - adaptive average-pooling in blocks of channels: a lane of a vector is a channel. */
#include "device/cpu/simd.h"
#include "ops/adaptive_avgpool/adaptive_avgpool.h"

#define NUMBER  vec
#define SCALAR  float
#define NAME(f) f
#include "ops/means.h"

/* item: a block of planes */
SPLIT_STEP(adaptive_avgpool, means_range, planes_of(&s->out[0].shape),
           adaptive_work(&s->in[0].shape, &s->out[0].shape))
SPLIT_STEP(adaptive_avgpool_grad, means_grad_range, planes_of(&s->out[0].shape),
           adaptive_work(&s->out[0].shape, &s->in[0].shape))

const kernel SIMD_TABLE(adaptive_avgpool)[] = {
    SIMD_KERNEL(adaptive_avgpool_op, adaptive_avgpool),
    SIMD_KERNEL(adaptive_avgpool_grad_op, adaptive_avgpool_grad),
    {0},
};
