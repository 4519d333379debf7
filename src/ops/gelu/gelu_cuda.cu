/* gelu_cuda.cu - gelu, in both of its forms, and its gradient on GPUs. */
#include "device/cuda/elementwise.cuh"
#include "ops/gelu/gelu.h"

static __device__ float bend(float x)
{
    return tanhf((float)TANH_SLOPE * (x + (float)TANH_CUBE * x * x * x));
}

static __device__ float gelu_exact(float x, float, float)
{
    return 0.5f * x * (1 + erff(x * (float)HALF_ROOT));
}

static __device__ float gelu_tanh(float x, float, float)
{
    return 0.5f * x * (1 + bend(x));
}

static __device__ float gelu_grad_exact(float x, float ddst, float)
{
    const float share = 0.5f * (1 + erff(x * (float)HALF_ROOT));
    return ddst * (share + x * (float)NORMAL_HEIGHT * expf(-0.5f * x * x));
}

static __device__ float gelu_grad_tanh(float x, float ddst, float)
{
    const float t = bend(x), dt = (1 - t * t) * (float)TANH_SLOPE * (1 + (float)(3 * TANH_CUBE) * x * x);
    return ddst * (0.5f * (1 + t + x * dt));
}

static bool is_exact(const step *s)
{
    return ((const gelu_attr *)s->attr)->approximate == APPROXIMATE_NONE;
}

static brasa_status run(const step *s)
{
    return is_exact(s) ? elementwise<1, gelu_exact>(s, 0) : elementwise<1, gelu_tanh>(s, 0);
}

static brasa_status run_grad(const step *s)
{
    return is_exact(s) ? elementwise<2, gelu_grad_exact>(s, 0) : elementwise<2, gelu_grad_tanh>(s, 0);
}

CUDA_KERNELS(gelu) = {
    CUDA_ROW("gelu", run, elementwise_formats),
    CUDA_ROW("gelu_grad", run_grad, elementwise_formats),
    CUDA_END,
};
