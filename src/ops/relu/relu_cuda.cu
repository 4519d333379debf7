/* relu_cuda.cu - max(x, 0), min(max(x, 0), 6) and their gradients on GPUs. */
#include "device/cuda/elementwise.cuh"

static __device__ float relu(float x, float, float)
{
    return activate(x, ACT_RELU);
}

static __device__ float relu6(float x, float, float)
{
    return activate(x, ACT_RELU6);
}

static __device__ float relu_grad(float dst, float ddst, float)
{
    return dst <= 0 ? 0.f : ddst;
}

static __device__ float relu6_grad(float dst, float ddst, float)
{
    return dst <= 0 || dst >= 6 ? 0.f : ddst;
}

CUDA_KERNELS(relu) = {
    CUDA_ROW("relu", (elementwise<1, relu>), elementwise_formats),
    CUDA_ROW("relu_grad", (elementwise<2, relu_grad>), elementwise_formats),
    CUDA_ROW("relu6", (elementwise<1, relu6>), elementwise_formats),
    CUDA_ROW("relu6_grad", (elementwise<2, relu6_grad>), elementwise_formats),
    CUDA_END,
};
