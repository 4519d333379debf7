/* weighted_sum_cuda.cu - the sum of scalars, each times its weight, and its gradients on GPUs. */
#include "device/cuda/elementwise.cuh"
#include "ops/weighted_sum/weighted_sum.h"

typedef struct terms {
    int count;
    const float *x[MAX_REALS];
    float weight[MAX_REALS];
} terms;

static __global__ void weighted_sum_kernel(const __grid_constant__ terms t, float *dst)
{
    float sum = 0;
    for (int k = 0; k < t.count; k++)
        sum += t.weight[k] * *t.x[k];
    *dst = sum;
}

static brasa_status run_weighted_sum(const step *s)
{
    const weighted_sum_attr *attr = (const weighted_sum_attr *)s->attr;
    terms t = {};
    for (; t.count < s->nin; t.count++) { /* as many as there are weights: infer has seen to it */
        t.x[t.count] = (const float *)s->in[t.count].data;
        t.weight[t.count] = (float)attr->weights.value[t.count];
    }
    weighted_sum_kernel<<<1, 1, 0, stream_of(s)>>>(t, (float *)s->out[0].data);
    return cuda_started(s);
}

static __device__ float scaled(float x, float, float factor)
{
    return factor * x;
}

static brasa_status run_scale(const step *s)
{
    return elementwise<1, scaled>(s, (float)((const scale_attr *)s->attr)->factor);
}

CUDA_KERNELS(weighted_sum) = {
    CUDA_ROW("weighted_sum", run_weighted_sum, NULL),
    CUDA_ROW("scale", run_scale, elementwise_formats),
    CUDA_END,
};
