/* sigmoid_cuda.cu - 1 / (1 + exp(-x)) and its gradient on GPUs. */
#include "device/cuda/elementwise.cuh"

static __device__ float sigmoid(float x, float, float)
{
    return 1 / (1 + expf(-x)); /* expf may reach infinity: the result is then 0, as it should be */
}

static __device__ float sigmoid_grad(float dst, float ddst, float)
{
    return ddst * dst * (1 - dst);
}

CUDA_KERNELS(sigmoid) = {
    CUDA_ROW("sigmoid", (elementwise<1, sigmoid>), elementwise_formats),
    CUDA_ROW("sigmoid_grad", (elementwise<2, sigmoid_grad>), elementwise_formats),
    CUDA_END,
};
