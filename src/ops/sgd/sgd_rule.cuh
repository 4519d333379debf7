/* sgd_rule.cuh - a step of stochastic gradient descent on an NVIDIA GPU; the equations are those of sgd.c. */
#ifndef OPS_SGD_RULE_CUH
#define OPS_SGD_RULE_CUH

#include "device/cuda/cuda.cuh"

extern "C" {
#include "ops/sgd/sgd.h"
}

typedef struct rule {
    float scale, decay, shrink, rate;
    float momentum, a, b, k, l; /* v = m v + a g; p -= b (k g + l v) */
    bool plain;                 /* there is no velocity */
} rule;

static __device__ __forceinline__ rule rule_make(const sgd_attr &t, const update &u)
{
    const bool inside = t.form == SGD_RATE_INSIDE;
    rule r;
    r.scale = (float)u.scale;
    r.decay = (float)u.weight_decay;
    r.shrink = (float)u.shrink;
    r.rate = (float)u.rate;
    r.momentum = (float)t.momentum;
    r.a = inside ? -(float)u.rate : 1.f;
    r.b = inside ? -1.f : (float)u.rate;
    r.k = t.nesterov ? r.a : 0.f;
    r.l = t.nesterov ? r.momentum : 1.f;
    r.plain = t.momentum == 0;
    return r;
}

static __device__ __forceinline__ void rule_apply(const rule &r, float gradient, float *p, float *v, float *)
{
    const float g = r.scale * gradient + r.decay * *p;
    if (r.plain) {
        *p = r.shrink * *p - r.rate * g;
        return;
    }
    *v = r.momentum * *v + r.a * g;
    *p = r.shrink * *p - r.b * (r.k * g + r.l * *v);
}

#endif
