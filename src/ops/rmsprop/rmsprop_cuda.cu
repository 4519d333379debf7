/* rmsprop_cuda.cu - RMSprop on an NVIDIA GPU; the equations are those of rmsprop.c. */
#include "device/cuda/cuda.cuh"

extern "C" {
#include "ops/rmsprop/rmsprop.h"
}

#define RULE_ATTR   rmsprop_attr
#define RULE_SLOTS  2
#define RULE_ROUNDS 0

typedef struct rule {
    float scale, decay, shrink;
    float rho, rest, inner, outer; /* epsilon, within the root or behind it */
    float before, after;           /* one of the two is the rate, the other is 1 */
    float momentum;
    bool plain; /* there is none */
} rule;

static __device__ __forceinline__ rule rule_make(const rmsprop_attr &t, const update &u)
{
    const bool in_root = t.place == EPSILON_INSIDE_ROOT, in_velocity = t.form == SGD_RATE_INSIDE;
    rule r;
    r.scale = (float)u.scale;
    r.decay = (float)u.weight_decay;
    r.shrink = (float)u.shrink;
    r.rho = (float)t.rho;
    r.rest = (float)(1 - t.rho);
    r.inner = (float)(in_root ? t.epsilon : 0);
    r.outer = (float)(in_root ? 0 : t.epsilon);
    r.before = (float)(in_velocity ? u.rate : 1);
    r.after = (float)(in_velocity ? 1 : u.rate);
    r.momentum = (float)t.momentum;
    r.plain = t.momentum == 0;
    return r;
}

static __device__ __forceinline__ void rule_apply(const rule &r, float gradient, float *p, float *v, float *b)
{
    const float g = r.scale * gradient + r.decay * *p;
    *v = r.rho * *v + r.rest * g * g;
    float move = r.before * g / (sqrtf(*v + r.inner) + r.outer);
    if (!r.plain)
        *b = move = r.momentum * *b + move;
    *p = r.shrink * *p - r.after * move;
}

#include "ops/optimizer.cuh"

CUDA_KERNELS(rmsprop) = {UPDATE_ROW("rmsprop"), CUDA_END};
