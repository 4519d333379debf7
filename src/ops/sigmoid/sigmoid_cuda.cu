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

static brasa_status run(const step *s)
{
    return elementwise<1, sigmoid>(s, 0);
}

static brasa_status run_grad(const step *s)
{
    return elementwise<2, sigmoid_grad>(s, 0);
}

extern "C" {
extern const backend_kernel sigmoid_cuda[];
const backend_kernel sigmoid_cuda[] = {
    CUDA_ROW("sigmoid", run, elementwise_formats),
    CUDA_ROW("sigmoid_grad", run_grad, elementwise_formats),
    CUDA_END,
};
}
