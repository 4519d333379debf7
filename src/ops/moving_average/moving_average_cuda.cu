/* moving_average_cuda.cu - running = (1 - share) running + share scale stat, on GPUs.
 *
 * A network has two such vectors for each batch norm, a hundred in ResNet-50, and none is long: one launch does up to
 * MOST of them, a block each. */
#include "device/cuda/cuda.cuh"
#include "ops/moving_average/moving_average.h"

enum { THREADS = 256, MOST = 64 }; /* 64 rows are within the 4 KB that parameters of a kernel always have */

typedef struct average {
    const float *old, *stat;
    float *running;
    int64_t count;
    moving_average_attr attr;
} average;

typedef struct averages {
    const int64_t *steps;
    average of[MOST];
} averages;

static __global__ void __launch_bounds__(THREADS) moving_average_kernel(const __grid_constant__ averages all)
{
    const average &a = all.of[blockIdx.x];
    __shared__ double share; /* made once a block: logarithms in double take long */
    if (threadIdx.x == 0)
        share = moving_average_share(&a.attr, *all.steps + 1);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < a.count; i += THREADS)
        a.running[i] = (float)((1 - share) * a.old[i] + share * a.attr.scale * a.stat[i]);
}

static brasa_status run_many(const step *const *steps, int count)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < count && status == BRASA_OK;) {
        const step *first = steps[i];
        averages all = {};
        int some = 0;
        all.steps = (const int64_t *)first->in[2].data;
        for (; i < count && some < MOST && steps[i]->in[2].data == first->in[2].data; i++) {
            const step *s = steps[i];
            all.of[some++] = {(const float *)s->in[0].data, (const float *)s->in[1].data, (float *)s->out[0].data,
                              s->out[0].count, *(const moving_average_attr *)s->attr};
        }
        moving_average_kernel<<<some, THREADS, 0, stream_of(first)>>>(all);
        status = cuda_started(first);
    }
    return status;
}

static brasa_status run(const step *s)
{
    return run_many(&s, 1);
}

CUDA_KERNELS(moving_average) = {
    {"moving_average", {.name = "moving_average_cuda", .real = F32, .run = run, .run_many = run_many}},
    CUDA_END,
};
