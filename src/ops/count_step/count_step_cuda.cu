/* count_step_cuda.cu - one more training step is done, on GPUs. */
#include "device/cuda/cuda.cuh"

static __global__ void count_kernel(const int64_t *before, int64_t *after)
{
    *after = *before + 1;
}

static brasa_status run(const step *s)
{
    count_kernel<<<1, 1, 0, stream_of(s)>>>((const int64_t *)s->in[0].data, (int64_t *)s->out[0].data);
    return cuda_started(s);
}

CUDA_KERNELS(count_step) = {
    CUDA_ROW("count_step", run, NULL),
    CUDA_END,
};
