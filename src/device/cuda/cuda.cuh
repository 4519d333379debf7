/* cuda.cuh - for *_cuda.cu: elements of 32 and 16 bits under one name, in packs of 16 bytes, and sums over a block.
 *
 * A kernel is a template over T, the stored type, float or bf16, and computes in floats. */
#ifndef DEVICE_CUDA_CUDA_CUH
#define DEVICE_CUDA_CUDA_CUH

#include <cuda_bf16.h>

#include "device/cuda/cuda.h"

typedef __nv_bfloat16 bf16;

static __device__ __forceinline__ float to_float(float x)
{
    return x;
}
static __device__ __forceinline__ float to_float(bf16 x)
{
    return __bfloat162float(x);
}
template <class T> static __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* 16 bytes: what a thread reads or writes at once. The address must be aligned to it. */
template <class T> struct alignas(16) pack {
    static const int N = 16 / sizeof(T);
    T x[N];
};

/* The threads of a grid share out items 0 .. count - 1. */
#define GRID_FOR(i, count)                                                                                           \
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < (count);                                    \
         i += (int64_t)gridDim.x * blockDim.x)

/* Blocks of `threads` for so many items, one each, but no more than the GPU can hold a few times over. */
static inline int blocks_for(const step *s, int64_t items, int threads)
{
    const int64_t most = (int64_t)queue_of(s)->processors * (2048 / threads) * 4,
                  wanted = (items + threads - 1) / threads;
    return (int)(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

/* The sum over a warp, in all of its lanes, always in the same order. */
static __device__ __forceinline__ float warp_sum(float x)
{
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

static __device__ __forceinline__ float warp_max(float x)
{
    for (int d = 16; d; d >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

/* The sum over a block of up to 1024 threads, a multiple of 32, in all of them. `room` is 33 floats of shared memory.
 */
static __device__ __forceinline__ float block_sum(float x, float *room)
{
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    if (warp == 0) {
        x = warp_sum(lane < warps ? room[lane] : 0.f);
        if (lane == 0)
            room[32] = x;
    }
    __syncthreads();
    return room[32];
}

/* As the relu and relu6 ops compute it. */
static __device__ __forceinline__ float activate(float x, activation act)
{
    return act == ACT_NONE ? x : x <= 0 ? 0.f : act == ACT_RELU6 && x >= 6 ? 6.f : x;
}

/* Calls a template by the type that an argument is stored in: BY_TYPE(s->out[0].format.storage, relu_start, s). */
#define BY_TYPE(type, function, ...) ((type) == BF16 ? function<bf16>(__VA_ARGS__) : function<float>(__VA_ARGS__))

/* Defines the kernel `run`, which starts such a template and does nothing else. */
#define CUDA_RUN(run, type, function)                                                                                \
    static brasa_status run(const step *s)                                                                           \
    {                                                                                                                \
        BY_TYPE(type, function, s);                                                                                  \
        return cuda_started(s);                                                                                      \
    }

/* Defines such a template, which launches another: with packs of channels, or one by one where they do not fill
 * packs. */
#define BY_WIDTH(function, launch, channels)                                                                         \
    template <class T> static void function(const step *s)                                                           \
    {                                                                                                                \
        if ((channels) % pack<T>::N)                                                                                 \
            launch<T, 1>(s);                                                                                         \
        else                                                                                                         \
            launch<T, pack<T>::N>(s);                                                                                \
    }

/* The list of an op's kernels: CUDA_KERNELS(relu) = {CUDA_ROW(...), CUDA_END}; */
#define CUDA_KERNELS(name)                                                                                           \
    extern "C" const backend_kernel name##_cuda[];                                                                   \
    const backend_kernel name##_cuda[]

#endif
