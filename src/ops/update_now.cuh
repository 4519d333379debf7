/* update_now.cuh - the numbers of this step, which an update on an NVIDIA GPU finds in the device's memory. */
#ifndef OPS_UPDATE_NOW_CUH
#define OPS_UPDATE_NOW_CUH

#include "device/cuda/cuda.cuh"

extern "C" {
#include "ops/optimizer.h"
}

/* What is the same for all parameters and changes from step to step. */
typedef struct update_source {
    const float *rate, *scale; /* scale may be NULL: 1 */
    const int64_t *steps;
} update_source;

/* The same as update_read, on the device. */
static __device__ __forceinline__ update update_now(const optimizer_attr &t, const update_source &from)
{
    const double rate = *from.rate;
    update u;
    u.rate = rate;
    u.scale = from.scale ? *from.scale : 1.f;
    u.weight_decay = t.decoupled ? 0 : t.weight_decay;
    u.shrink = t.decoupled ? 1 - rate * t.weight_decay : 1;
    u.steps = *from.steps;
    return u;
}

#endif
