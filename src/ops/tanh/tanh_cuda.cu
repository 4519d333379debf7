/* tanh_cuda.cu - the hyperbolic tangent and its gradient on GPUs. */
#include "device/cuda/elementwise.cuh"

static __device__ float tanh_of(float x, float, float)
{
    return tanhf(x);
}

static __device__ float tanh_grad(float dst, float ddst, float)
{
    return ddst * (1 - dst * dst);
}

CUDA_KERNELS(tanh) = {
    CUDA_ROW("tanh", (elementwise<1, tanh_of>), elementwise_formats),
    CUDA_ROW("tanh_grad", (elementwise<2, tanh_grad>), elementwise_formats),
    CUDA_END,
};
