/* timing.cu - a kernel that does nothing for a while. What is to be timed is queued behind it, and so begins when all
 * of it is there: the time is the GPU's, and not that of the host, which takes longer to start a small kernel than
 * that takes to run. */
#include "device/cuda/cuda.h"

/* Long enough to start a node's kernels by way of the slowest library. */
enum { DELAY_NANOSECONDS = 60000 };

static __device__ uint64_t now_nanoseconds(void)
{
    uint64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

static __global__ void wait_kernel(void)
{
    const uint64_t start = now_nanoseconds();
    while (now_nanoseconds() - start < DELAY_NANOSECONDS)
        ;
}

cudaError_t cuda_has_code(void)
{
    struct cudaFuncAttributes about;
    return cudaFuncGetAttributes(&about, wait_kernel);
}

void cuda_delay(cudaStream_t stream)
{
    wait_kernel<<<1, 1, 0, stream>>>();
}
