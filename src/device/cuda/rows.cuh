/* rows.cuh - N rows of C elements, a result for each: the work of a warp, or of a block where rows are long.
 *
 * A kernel is a template over T, the stored type, and ROW, the threads of a row: 32 or ROWS_THREADS. They take its
 * elements in turns, and an element is always the same thread's. */
#ifndef DEVICE_CUDA_ROWS_CUH
#define DEVICE_CUDA_ROWS_CUH

#include "device/cuda/totals.cuh"

enum { ROWS_THREADS = 256, ROWS_SHORT = 128 /* elements of a row that one warp is enough for */ };

/* The first row of this thread, and how far it is to the next one. */
template <int ROW> static __device__ __forceinline__ int64_t rows_first(void)
{
    return (int64_t)blockIdx.x * (ROWS_THREADS / ROW) + threadIdx.x / ROW;
}

template <int ROW> static __device__ __forceinline__ int64_t rows_step(void)
{
    return (int64_t)gridDim.x * (ROWS_THREADS / ROW);
}

/* Blocks for so many rows; at most MOST_TOTALS. */
static inline int rows_blocks(int64_t N, int64_t C)
{
    const int64_t each = C <= ROWS_SHORT ? ROWS_THREADS / 32 : 1, wanted = (N + each - 1) / each;
    return (int)(wanted < MOST_TOTALS ? wanted : MOST_TOTALS);
}

/* Starts a kernel: ROWS_START(softmax_kernel, T, s, N, C)(src, dst, N, C). */
#define ROWS_START(kernel, T, s, N, C)                                                                               \
    ((C) <= ROWS_SHORT ? kernel<T, 32>                                                                               \
                       : kernel<T, ROWS_THREADS>)<<<rows_blocks(N, C), ROWS_THREADS, 0, stream_of(s)>>>

/* The sum and the largest over the threads of a row, in all of them; the same in double. */
template <int ROW> static __device__ __forceinline__ float row_sum(float x)
{
    if (ROW == 32)
        return warp_sum(x);
    __shared__ float room[33];
    return block_sum(x, room);
}

template <int ROW> static __device__ __forceinline__ double row_total(double x)
{
    return ROW == 32 ? warp_total(x) : block_total(x);
}

template <int ROW> static __device__ __forceinline__ float row_max(float x)
{
    x = warp_max(x);
    if (ROW == 32)
        return x;
    __shared__ float room[ROWS_THREADS / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_max(room[threadIdx.x % (ROWS_THREADS / 32)]);
}

/* For kernel.formats: rows as they are stored already. What has no layout yet is fed, or lasts: that is in floats. */
static inline format rows_stored(const graph *g, int v)
{
    return format_plain(storage_view(g->values[v].format.storage));
}

#endif
