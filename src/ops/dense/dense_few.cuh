/* dense_few.cuh - what kernels of the fully connected layer share that are made for few samples: dense_small_cuda.cu,
 * and dense_update_small_cuda.cu. N samples, C inputs, K outputs.
 *
 * A block works on a tile of the inputs and some rows of the weights, a part of them. Sums over rows, of the gradient
 * of the data, are made over those of a warp, the warps of a block and then the parts, in this order.
 */
#ifndef OPS_DENSE_FEW_CUH
#define OPS_DENSE_FEW_CUH

#include "device/cuda/cuda.cuh"
#include "ops/dense/dense_cuda.h"

#include <string.h>

extern "C" {
#include "core/split_f32.h"
}

enum { FEW = DENSE_CUDA_FEW, THREADS = 256, WARPS = THREADS / 32 };

/* P elements, read or written at once. */
template <class T, int P> struct alignas(P * sizeof(T)) some {
    T x[P];
};

template <class T, int P> static __device__ __forceinline__ void load(const T *from, float (&to)[P])
{
    const some<T, P> v = *(const some<T, P> *)from;
#pragma unroll
    for (int p = 0; p < P; p++)
        to[p] = to_float(v.x[p]);
}

/* Weights, which nobody on this processor reads again: they leave the first cache to the others. Being volatile,
 * those that stand together are started together. */
static __device__ __forceinline__ void load_once(const float *from, float (&to)[4])
{
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "l"(from));
}

static __device__ __forceinline__ void load_once(const float *from, float (&to)[1])
{
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(to[0]) : "l"(from));
}

/* Two of 16 bits, the first of them in the lower half. */
static __device__ __forceinline__ void take_apart(unsigned two, float *to)
{
    to[0] = __uint_as_float(two << 16);
    to[1] = __uint_as_float(two & 0xffff0000u);
}

static __device__ __forceinline__ void load_once(const bf16 *from, float (&to)[8])
{
    unsigned x[4];
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "l"(from));
#pragma unroll
    for (int i = 0; i < 4; i++)
        take_apart(x[i], to + 2 * i);
}

static __device__ __forceinline__ void load_once(const bf16 *from, float (&to)[4])
{
    unsigned x[2];
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "l"(from));
#pragma unroll
    for (int i = 0; i < 2; i++)
        take_apart(x[i], to + 2 * i);
}

static __device__ __forceinline__ void load_once(const bf16 *from, float (&to)[1])
{
    unsigned short x;
    asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(x) : "l"(from));
    to[0] = __uint_as_float((unsigned)x << 16);
}

enum { MOST_ROWS = 128 }; /* of a part */

/* The part of a layer that a block works on: a tile of its inputs, some rows of its weights. */
typedef struct split {
    int64_t tiles;
    int rows, parts; /* of each part, and how many there are */
} split;

/* Tiles of `width` inputs; at least and at most so many rows, and about so many blocks for a processor. */
static split split_for(const cuda_queue *q, const dense_sizes *d, int64_t width, int64_t least, int64_t most,
                       int blocks)
{
    split s;
    s.tiles = (d->C + width - 1) / width;
    int64_t rows = (d->K * s.tiles / (q->processors * (int64_t)blocks) + WARPS - 1) / WARPS * WARPS;
    rows = rows < least ? least : rows > most ? most : rows;
    s.rows = (int)rows;
    s.parts = (int)((d->K + rows - 1) / rows);
    return s;
}

/* ddst of `rows` outputs from `first` on, turned so that the samples of an output lie together. */
template <class T, int N>
static __device__ __forceinline__ void lay_ddst(const T *ddst, const dense_sizes &d, int64_t first, int rows,
                                                float (*to)[N])
{
    for (int i = threadIdx.x; i < rows * N; i += THREADS) {
        const int n = i / rows, k = i % rows;
        to[k][n] = n < d.N ? to_float(ddst[n * d.K + first + k]) : 0.f;
    }
    __syncthreads();
}

/* sum += x^T w: what P weights of an output add to the gradients of P inputs, for N samples. */
template <int N, int P>
static __device__ __forceinline__ void add_row(const float (&x)[N], const float (&w)[P], float (&sum)[N][P])
{
#pragma unroll
    for (int i = 0; i < N * P; i++)
        sum[i / P][i % P] += x[i / P] * w[i % P];
}

/* Whether this block is the last one of so many that come here; what the others wrote before may then be read. The
 * counter is zero again after that. */
static __device__ __forceinline__ bool is_last(unsigned *counter, unsigned blocks)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(counter, blocks - 1) == blocks - 1;
    __syncthreads();
    if (last)
        __threadfence();
    return last;
}

/* What the sums over a block's rows need: of its warps, in shared memory; of all parts; a counter, zero, for
 * each tile. */
template <int N, int P> struct warp_parts {
    float sum[WARPS][N][32 * P];
};

typedef struct part_sums {
    float *room; /* parts x N x C; not needed for one part, nor are counters */
    unsigned *counters;
} part_sums;

static inline int64_t part_sums_bytes(const dense_sizes *d, const split *s)
{
    return s->parts > 1 ? s->parts * d->N * d->C * (int64_t)sizeof(float) : 0;
}

/* For kernel.open: the counters; cuda_counters_close frees them. */
static inline brasa_status part_sums_open(graph *g, node *n, const split *s)
{
    return s->parts > 1 ? cuda_counters_open(g, n, (size_t)s->tiles) : BRASA_OK;
}

/* dsrc, from what each lane has summed up over its rows, for P inputs. The last block of a tile adds up the parts. */
template <class T, int N, int P>
static __device__ __forceinline__ void add_parts(const float (&sum)[N][P], warp_parts<N, P> &warps, T *dsrc,
                                                 const dense_sizes &d, const split &s, const part_sums &all_parts)
{
    const int WIDTH = 32 * P, warp = threadIdx.x / 32, at = threadIdx.x % 32 * P;
    const int64_t tile = blockIdx.x % s.tiles, index = blockIdx.x / s.tiles;
    float *room = all_parts.room;
#pragma unroll
    for (int i = 0; i < N * P; i++)
        warps.sum[warp][i / P][at + i % P] = sum[i / P][i % P];
    __syncthreads();
    for (int i = threadIdx.x; i < N * WIDTH; i += THREADS) {
        const int64_t n = i / WIDTH, c = tile * WIDTH + i % WIDTH;
        float all = 0;
        for (int w = 0; w < WARPS; w++)
            all += warps.sum[w][n][i % WIDTH];
        if (n >= d.N || c >= d.C)
            continue;
        if (s.parts > 1)
            room[(index * d.N + n) * d.C + c] = all;
        else
            dsrc[n * d.C + c] = from_float<T>(all);
    }
    if (s.parts == 1 || !is_last(all_parts.counters + tile, s.parts))
        return;
    for (int i = threadIdx.x; i < N * WIDTH; i += THREADS) {
        const int64_t n = i / WIDTH, c = tile * WIDTH + i % WIDTH;
        float all = 0;
        if (n >= d.N || c >= d.C)
            continue;
#pragma unroll 8
        for (int other = 0; other < s.parts; other++)
            all += __ldcg(room + (other * d.N + n) * d.C + c);
        dsrc[n * d.C + c] = from_float<T>(all);
    }
}

#endif
