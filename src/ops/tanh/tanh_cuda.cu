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

static brasa_status run(const step *s)
{
    return elementwise<1, tanh_of>(s, 0);
}

static brasa_status run_grad(const step *s)
{
    return elementwise<2, tanh_grad>(s, 0);
}

extern "C" {
extern const backend_kernel tanh_cuda[];
const backend_kernel tanh_cuda[] = {
    CUDA_ROW("tanh", run, elementwise_formats),
    CUDA_ROW("tanh_grad", run_grad, elementwise_formats),
    CUDA_END,
};
}
