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

static brasa_status run_relu(const step *s)
{
    return elementwise<1, relu>(s, 0);
}

static brasa_status run_relu6(const step *s)
{
    return elementwise<1, relu6>(s, 0);
}

static brasa_status run_relu_grad(const step *s)
{
    return elementwise<2, relu_grad>(s, 0);
}

static brasa_status run_relu6_grad(const step *s)
{
    return elementwise<2, relu6_grad>(s, 0);
}

extern "C" {
extern const backend_kernel relu_cuda[];
const backend_kernel relu_cuda[] = {
    CUDA_ROW("relu", run_relu, elementwise_formats),
    CUDA_ROW("relu_grad", run_relu_grad, elementwise_formats),
    CUDA_ROW("relu6", run_relu6, elementwise_formats),
    CUDA_ROW("relu6_grad", run_relu6_grad, elementwise_formats),
    CUDA_END,
};
}
