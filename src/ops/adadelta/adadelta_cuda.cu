/* adadelta_cuda.cu - Adadelta on an NVIDIA GPU; the equations are those of adadelta.c. */
#include "device/cuda/cuda.cuh"

extern "C" {
#include "ops/adadelta/adadelta.h"
}

#define RULE_ATTR   adadelta_attr
#define RULE_SLOTS  2
#define RULE_ROUNDS 0

typedef struct rule {
    float scale, decay, shrink, rate;
    float rho, rest, epsilon;
} rule;

static __device__ __forceinline__ rule rule_make(const adadelta_attr &t, const update &u)
{
    rule r;
    r.scale = (float)u.scale;
    r.decay = (float)u.weight_decay;
    r.shrink = (float)u.shrink;
    r.rate = (float)u.rate;
    r.rho = (float)t.rho;
    r.rest = (float)(1 - t.rho);
    r.epsilon = (float)t.epsilon;
    return r;
}

static __device__ __forceinline__ void rule_apply(const rule &r, float gradient, float *p, float *v, float *d)
{
    const float g = r.scale * gradient + r.decay * *p;
    *v = r.rho * *v + r.rest * g * g;
    const float move = g * sqrtf(*d + r.epsilon) / sqrtf(*v + r.epsilon);
    *d = r.rho * *d + r.rest * move * move;
    *p = r.shrink * *p - r.rate * move;
}

#include "ops/optimizer.cuh"

CUDA_KERNELS(adadelta) = {UPDATE_ROW("adadelta"), CUDA_END};
