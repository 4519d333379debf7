/* moving_average_cuda.cu - running = (1 - share) running + share scale stat, on GPUs. */
#include "backend/cuda/cuda.cuh"
#include "ops/moving_average/moving_average.h"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS)
    moving_average_kernel(const float *old, const float *stat, const int64_t *steps, float *running, int64_t count,
                          moving_average_attr attr)
{
    __shared__ double share; /* made once a block: logarithms in double take long */
    if (threadIdx.x == 0)
        share = moving_average_share(&attr, *steps + 1);
    __syncthreads();
    GRID_FOR(i, count)
    {
        running[i] = (float)((1 - share) * old[i] + share * attr.scale * stat[i]);
    }
}

static brasa_status run(const step *s)
{
    const arg *running = &s->out[0];
    moving_average_kernel<<<blocks_for(s, running->count, THREADS), THREADS, 0, stream_of(s)>>>(
        (const float *)s->in[0].data, (const float *)s->in[1].data, (const int64_t *)s->in[2].data,
        (float *)running->data, running->count, *(const moving_average_attr *)s->attr);
    return cuda_started(s);
}

extern "C" {
extern const backend_kernel moving_average_cuda[];
const backend_kernel moving_average_cuda[] = {
    CUDA_ROW("moving_average", run, NULL),
    CUDA_END,
};
}
