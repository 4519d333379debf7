/* lrn_cuda.cu - local response normalization on a GPU.
 *
 * The channels of a pixel lie side by side. A thread has eight of them and sees the eight before and behind: windows
 * that reach no further are summed up in registers. Backward the threads of a pixel tell each other their shares, so
 * that no power is computed twice. Wider windows, and channels that make no eights, go element by element.
 */
#include "ops/window.cuh"

extern "C" {
#include "ops/lrn/lrn.h"
}

enum { V = 8, NEAR_SIZE = 2 * V + 1, NEAR_PACKS = 512, NEAR_THREADS = 256 };

typedef struct norms {
    int64_t pixels;
    int C, below, above;
    float alpha, beta, k; /* alpha' */
} norms;

static norms norms_of(const step *s)
{
    const lrn v = lrn_of((const lrn_attr *)s->attr, &s->in[0].shape);
    return norms{v.N * v.HW, (int)v.C, (int)v.below, (int)v.above, (float)v.alpha, (float)v.beta, (float)v.k};
}

static bool is_near(const void *attr, const shape *src)
{
    return src->dim[1] % V == 0 && src->dim[1] / V <= NEAR_PACKS && ((const lrn_attr *)attr)->size <= NEAR_SIZE;
}

/* scale^-beta; for the betas that the dialects have, without a logarithm. */
static __device__ __forceinline__ float power(const norms &v, float scale)
{
    if (v.beta == 0.75f)
        return rsqrtf(scale) * sqrtf(rsqrtf(scale));
    if (v.beta == 0.5f)
        return rsqrtf(scale);
    return powf(scale, -v.beta);
}

/* --- windows within the neighbours ------------------------------------------------------------------------------ */

/* sum[i] = x[i + V - below] + ... + x[i + V + above]: the windows of the V in the middle of three packs. */
static __device__ __forceinline__ void window_sums(const float *x, int below, int above, float *sum)
{
#pragma unroll
    for (int i = 0; i < V; i++)
        sum[i] = 0;
#pragma unroll
    for (int tap = -V; tap <= V; tap++)
        if (tap >= -below && tap <= above)
#pragma unroll
            for (int i = 0; i < V; i++)
                sum[i] += x[V + tap + i];
}

/* Three packs from one before `from` on, without those that are outside of the pixel. */
template <class T> static __device__ __forceinline__ void load_three(const T *from, int pack, int packs, float *x)
{
    unpack(fetch<T, V>(from - V, pack > 0), x);
    unpack(fetch<T, V>(from, true), x + V);
    unpack(fetch<T, V>(from + V, pack + 1 < packs), x + 2 * V);
}

/* The elements of a pack, and their scales. */
template <class T>
static __device__ __forceinline__ void scales(const norms &v, const T *from, int pack, int packs, float *own,
                                              float *scale)
{
    float x[3 * V];
    load_three(from, pack, packs, x);
#pragma unroll
    for (int i = 0; i < V; i++)
        own[i] = x[V + i];
#pragma unroll
    for (int i = 0; i < 3 * V; i++)
        x[i] *= x[i];
    window_sums(x, v.below, v.above, scale);
#pragma unroll
    for (int i = 0; i < V; i++)
        scale[i] = v.k + v.alpha * scale[i];
}

/* threadIdx.x: a pack of a pixel, threadIdx.y: a pixel */
template <class T> static __global__ void lrn_near(norms v, const T *__restrict__ src, T *__restrict__ dst)
{
    const int pack = threadIdx.x, packs = blockDim.x;
    for (int64_t p = blockIdx.x * (int64_t)blockDim.y + threadIdx.y; p < v.pixels;
         p += (int64_t)gridDim.x * blockDim.y) {
        const int64_t at = p * v.C + pack * V;
        float x[V], scale[V];
        scales(v, src + at, pack, packs, x, scale);
#pragma unroll
        for (int i = 0; i < V; i++)
            x[i] *= power(v, scale[i]);
        store<T, V>(dst + at, x);
    }
}

/* dsrc may be ddst: a thread reads its elements before it writes them, and those of no other. */
template <class T> static __global__ void lrn_grad_near(norms v, const T *src, const T *ddst, T *dsrc)
{
    __shared__ __align__(32) float room[NEAR_PACKS * V]; /* the shares */
    const int pack = threadIdx.x, packs = blockDim.x;
    float *mine = room + (threadIdx.y * packs + pack) * V;
    const float factor = 2 * v.alpha * v.beta;
    for (int64_t first = blockIdx.x * (int64_t)blockDim.y; first < v.pixels;
         first += (int64_t)gridDim.x * blockDim.y) {
        const bool inside = first + threadIdx.y < v.pixels;
        const int64_t at = (first + threadIdx.y) * v.C + pack * V;
        float x[V], part[V], share[3 * V], sum[V];
        if (inside) {
            float scale[V];
            scales(v, src + at, pack, packs, x, scale);
            load<T, V>(ddst + at, part);
#pragma unroll
            for (int i = 0; i < V; i++) {
                part[i] *= power(v, scale[i]);
                share[V + i] = part[i] * x[i] / scale[i];
            }
            store<float, V>(mine, share + V);
        }
        __syncthreads();
        if (inside) {
            unpack(fetch<float, V>(mine - V, pack > 0), share);
            unpack(fetch<float, V>(mine + V, pack + 1 < packs), share + 2 * V);
            window_sums(share, v.above, v.below, sum); /* of the outputs whose window holds the channel */
#pragma unroll
            for (int i = 0; i < V; i++)
                part[i] -= factor * x[i] * sum[i];
            store<T, V>(dsrc + at, part);
        }
        __syncthreads(); /* before the next shares come */
    }
}

/* --- any window ------------------------------------------------------------------------------------------------- */

/* Of channel c; `pixel` is its first channel. */
template <class T> static __device__ float scale_of(const norms &v, const T *pixel, int c)
{
    const int lo = c - v.below < 0 ? 0 : c - v.below, hi = c + v.above < v.C ? c + v.above : v.C - 1;
    float sum = 0;
    for (int j = lo; j <= hi; j++) {
        const float x = to_float(pixel[j]);
        sum += x * x;
    }
    return v.k + v.alpha * sum;
}

template <class T> static __global__ void lrn_far(norms v, const T *__restrict__ src, T *__restrict__ dst)
{
    GRID_FOR(i, v.pixels * v.C)
    {
        const int c = (int)(i % v.C);
        dst[i] = from_float<T>(to_float(src[i]) * power(v, scale_of(v, src + i - c, c)));
    }
}

template <class T> static __global__ void lrn_shares(norms v, const T *src, const T *ddst, float *share)
{
    GRID_FOR(i, v.pixels * v.C)
    {
        const int c = (int)(i % v.C);
        const float scale = scale_of(v, src + i - c, c);
        share[i] = to_float(ddst[i]) * power(v, scale) * to_float(src[i]) / scale;
    }
}

/* dsrc may be ddst. */
template <class T>
static __global__ void lrn_grad_far(norms v, const T *src, const T *ddst, const float *share, T *dsrc)
{
    const float factor = 2 * v.alpha * v.beta;
    GRID_FOR(i, v.pixels * v.C)
    {
        const int c = (int)(i % v.C);
        const int lo = c - v.above < 0 ? 0 : c - v.above, hi = c + v.below < v.C ? c + v.below : v.C - 1;
        float sum = 0;
        for (int j = lo; j <= hi; j++)
            sum += share[i - c + j];
        const float part = to_float(ddst[i]) * power(v, scale_of(v, src + i - c, c));
        dsrc[i] = from_float<T>(part - factor * to_float(src[i]) * sum);
    }
}

/* --- the ops ---------------------------------------------------------------------------------------------------- */

/* Pixels of a block, as many as fit; its threads. */
static dim3 near_block(const norms &v)
{
    const int packs = v.C / V, pixels = NEAR_THREADS / packs;
    return dim3(packs, pixels > 1 ? pixels : 1);
}

template <class T> static void lrn_start(const step *s)
{
    const norms v = norms_of(s);
    const T *src = (const T *)s->in[0].data;
    T *dst = (T *)s->out[0].data;
    if (is_near(s->attr, &s->in[0].shape)) {
        const dim3 block = near_block(v);
        const int blocks = blocks_for(s, v.pixels * block.x, block.x * block.y);
        lrn_near<T><<<blocks, block, 0, stream_of(s)>>>(v, src, dst);
    } else {
        lrn_far<T><<<blocks_for(s, v.pixels * v.C, 256), 256, 0, stream_of(s)>>>(v, src, dst);
    }
}

template <class T> static void lrn_grad_start(const step *s)
{
    const norms v = norms_of(s);
    const T *src = (const T *)s->in[0].data, *ddst = (const T *)s->in[1].data;
    T *dsrc = (T *)s->out[0].data;
    if (is_near(s->attr, &s->in[0].shape)) {
        const dim3 block = near_block(v);
        const int blocks = blocks_for(s, v.pixels * block.x, block.x * block.y);
        lrn_grad_near<T><<<blocks, block, 0, stream_of(s)>>>(v, src, ddst, dsrc);
    } else {
        const int blocks = blocks_for(s, v.pixels * v.C, 256);
        lrn_shares<T><<<blocks, 256, 0, stream_of(s)>>>(v, src, ddst, (float *)s->workspace);
        lrn_grad_far<T><<<blocks, 256, 0, stream_of(s)>>>(v, src, ddst, (const float *)s->workspace, dsrc);
    }
}

/* in: src; out: dst */
CUDA_RUN(lrn_run, s->out[0].format.storage, lrn_start)

/* in: src, ddst; out: dsrc; workspace: the shares, where they are not told from thread to thread */
CUDA_RUN(lrn_grad_run, s->out[0].format.storage, lrn_grad_start)

static int64_t workspace(const graph *g, const node *n)
{
    const shape *src = &g->values[n->in[0]].shape;
    return is_near(n->attr, src) ? 0 : shape_count(src) * (int64_t)sizeof(float);
}

CUDA_KERNELS(lrn) = {
    WINDOW_ROW("lrn", lrn_run),
    {"lrn_grad",
     {.name = "lrn_grad_cuda",
      .real = F32,
      .supports = window_fits,
      .formats = window_formats,
      .workspace = workspace,
      .run = lrn_grad_run}},
    CUDA_END,
};
