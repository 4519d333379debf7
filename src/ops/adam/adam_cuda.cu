/* adam_cuda.cu - Adam and AdamW on an NVIDIA GPU; the equations are those of adam.c. */
#include "device/cuda/cuda.cuh"

extern "C" {
#include "ops/adam/adam.h"
}

#define RULE_ATTR   adam_attr
#define RULE_SLOTS  2
#define RULE_ROUNDS 0

typedef struct rule {
    float scale, decay, shrink;
    float size, root, epsilon; /* p -= size m / (root sqrt(v) + epsilon) */
    float beta1, rest1, beta2, rest2;
} rule;

static __device__ __forceinline__ rule rule_make(const adam_attr &t, const update &u)
{
    const double steps = (double)u.steps + 1, c1 = 1 - pow(t.beta1, steps), c2 = 1 - pow(t.beta2, steps);
    const bool corrected = t.form == ADAM_CORRECTED;
    rule r;
    r.scale = (float)u.scale;
    r.decay = (float)u.weight_decay;
    r.shrink = (float)u.shrink;
    r.size = (float)(corrected ? u.rate / c1 : u.rate * sqrt(c2) / c1);
    r.root = (float)(corrected ? 1 / sqrt(c2) : 1);
    r.epsilon = (float)t.epsilon;
    r.beta1 = (float)t.beta1;
    r.rest1 = (float)(1 - t.beta1);
    r.beta2 = (float)t.beta2;
    r.rest2 = (float)(1 - t.beta2);
    return r;
}

static __device__ __forceinline__ void rule_apply(const rule &r, float gradient, float *p, float *m, float *v)
{
    const float g = r.scale * gradient + r.decay * *p;
    *m = r.beta1 * *m + r.rest1 * g;
    *v = r.beta2 * *v + r.rest2 * g * g;
    *p = r.shrink * *p - r.size * *m / (r.root * sqrtf(*v) + r.epsilon);
}

#include "ops/optimizer.cuh"

CUDA_KERNELS(adam) = {UPDATE_ROW("adam"), UPDATE_ROW("adamw"), CUDA_END};
