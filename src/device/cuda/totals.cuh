/* totals.cuh - one number out of a whole tensor, in one launch and always with the same bits.
 *
 * Each block leaves the sum of its share in the workspace. The block that comes to its end last adds these up, in
 * their order. Which one that is, a counter tells: it comes back to zero with the last block, and so it is ready for
 * the next launch. It must not lie in the workspace, where other nodes write in between: the node keeps it, for
 * kernel.open = counter_open, kernel.close = cuda_counters_close.
 */
#ifndef DEVICE_CUDA_TOTALS_CUH
#define DEVICE_CUDA_TOTALS_CUH

#include "device/cuda/cuda.cuh"

enum { MOST_TOTALS = 1024 }; /* blocks of a launch that makes a total */

/* For kernel.workspace. */
static inline int64_t totals_workspace(const graph *g, const node *n)
{
    (void)g;
    (void)n;
    return MOST_TOTALS * (int64_t)sizeof(double);
}

static inline brasa_status counter_open(graph *g, node *n)
{
    return cuda_counters_open(g, n, 1);
}

/* The sum over a warp, in all of its lanes. */
static __device__ __forceinline__ double warp_total(double x)
{
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* The sum over a block of up to 1024 threads, a multiple of 32, in all of them. */
static __device__ __forceinline__ double block_total(double x)
{
    __shared__ double room[33];
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = warp_total(x);
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    if (warp == 0) {
        x = warp_total(lane < warps ? room[lane] : 0.);
        if (lane == 0)
            room[32] = x;
    }
    __syncthreads();
    return room[32];
}

/* Whether this is the last block to come here; then it sees what the first threads of all others wrote before. */
static __device__ __forceinline__ bool last_block(unsigned *counter)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}

/* Adds up x of all threads of the grid, of MOST_TOTALS blocks at most. True in one block only, which has the sum in
 * *total, in all of its threads. */
static __device__ __forceinline__ bool grid_total(double x, double *parts, unsigned *counter, double *total)
{
    const double own = block_total(x);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = own;
    if (!last_block(counter))
        return false;
    double sum = 0;
    for (int i = threadIdx.x; i < (int)gridDim.x; i += blockDim.x)
        sum += __ldcg(parts + i);
    *total = block_total(sum);
    return true;
}

#endif
