/* multiply_cuda.cu - the product of two tensors, element by element, on GPUs. It is its own gradient. */
#include "device/cuda/elementwise.cuh"

static __device__ float product(float x, float y, float)
{
    return x * y;
}

static brasa_status run(const step *s)
{
    return elementwise<2, product>(s, 0);
}

extern "C" {
extern const backend_kernel multiply_cuda[];
const backend_kernel multiply_cuda[] = {
    CUDA_ROW("multiply", run, elementwise_formats),
    CUDA_END,
};
}
