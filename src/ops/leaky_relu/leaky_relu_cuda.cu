/* leaky_relu_cuda.cu - x where x > 0, slope * x elsewhere, and its gradient on GPUs. */
#include "device/cuda/elementwise.cuh"

static __device__ float leaky_relu(float x, float, float slope)
{
    return x <= 0 ? slope * x : x;
}

static __device__ float leaky_relu_grad(float dst, float ddst, float slope)
{
    return dst <= 0 ? slope * ddst : ddst;
}

static float slope_of(const step *s)
{
    return (float)*(const double *)s->attr;
}

static brasa_status run(const step *s)
{
    return elementwise<1, leaky_relu>(s, slope_of(s));
}

static brasa_status run_grad(const step *s)
{
    return elementwise<2, leaky_relu_grad>(s, slope_of(s));
}

CUDA_KERNELS(leaky_relu) = {
    CUDA_ROW("leaky_relu", run, elementwise_formats),
    CUDA_ROW("leaky_relu_grad", run_grad, elementwise_formats),
    CUDA_END,
};
