/* schedule_cuda.cu - the learning rate of a step, on GPUs: the counter that it depends on is there. */
#include "device/cuda/cuda.cuh"
#include "ops/schedule/schedule.h"

static __global__ void schedule_kernel(const int64_t *steps, schedule_attr attr, float *rate)
{
    *rate = (float)schedule_at(&attr, *steps);
}

static brasa_status run(const step *s)
{
    schedule_kernel<<<1, 1, 0, stream_of(s)>>>((const int64_t *)s->in[0].data, *(const schedule_attr *)s->attr,
                                               (float *)s->out[0].data);
    return cuda_started(s);
}

CUDA_KERNELS(schedule) = {
    CUDA_ROW("schedule", run, NULL),
    CUDA_END,
};
