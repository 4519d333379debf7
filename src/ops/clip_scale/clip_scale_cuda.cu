/* clip_scale_cuda.cu - the norm of all gradients together, and what they are multiplied with, on GPUs.
 *
 * Every tensor is cut into pieces of a fixed size. A block makes the sum of a piece's squares, in double; one block
 * then adds up those of all pieces. So the order of the sum depends on the shapes alone.
 */
#include "device/cuda/elementwise.cuh"
#include "ops/clip_scale/clip_scale.h"

enum {
    THREADS = 256,
    PIECE = 32768, /* elements */
    MOST = 512,    /* tensors of one start, which are parameters of the kernel: 12 kB */
};

typedef struct tensor {
    const void *data;
    int64_t count;
    int32_t first; /* the number of its first piece, within this start */
    dtype type;
} tensor;

typedef struct tensors {
    int count;
    tensor x[MOST];
} tensors;

static int64_t pieces_of(int64_t count)
{
    return (count + PIECE - 1) / PIECE;
}

/* The sum over a block, in its first thread. */
static __device__ double block_total(double x)
{
    __shared__ double room[THREADS / 32];
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int warp = 0; warp < THREADS / 32; warp++)
        x += room[warp];
    return x;
}

/* A thread's share of `count` elements. */
template <class T> static __device__ double squares(const T *__restrict__ src, int64_t count)
{
    enum { N = pack<T>::N };
    double sum[N] = {0};
    const int64_t packs = (uintptr_t)src % 16 == 0 ? count / N : 0;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < packs; i += THREADS) {
        const pack<T> p = ((const pack<T> *)src)[i];
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += (double)to_float(p.x[j]) * to_float(p.x[j]);
    }
    for (int64_t i = packs * N + threadIdx.x; i < count; i += THREADS)
        sum[0] += (double)to_float(src[i]) * to_float(src[i]);
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
        for (int j = 0; j < half; j++)
            sum[j] += sum[j + half];
    return sum[0];
}

/* A block: a piece. */
static __global__ void __launch_bounds__(THREADS) squares_kernel(const __grid_constant__ tensors t, double *part)
{
    int low = 0, high = t.count - 1; /* its tensor is one of these */
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (t.x[middle].first <= (int)blockIdx.x)
            low = middle;
        else
            high = middle - 1;
    }
    const int64_t begin = ((int)blockIdx.x - t.x[low].first) * (int64_t)PIECE, rest = t.x[low].count - begin;
    const int64_t count = rest < PIECE ? rest : PIECE;
    const double sum = t.x[low].type == BF16 ? squares((const bf16 *)t.x[low].data + begin, count)
                                             : squares((const float *)t.x[low].data + begin, count);
    const double total = block_total(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = total;
}

static __global__ void __launch_bounds__(THREADS)
    scale_kernel(const double *part, int64_t count, clip_attr attr, float *scale)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += THREADS)
        sum += part[i];
    const double total = block_total(sum);
    if (threadIdx.x == 0)
        *scale = (float)clip_scale_of(&attr, sqrt(total));
}

static brasa_status run(const step *s)
{
    double *part = (double *)s->workspace;
    int64_t before = 0; /* pieces of earlier starts */
    for (int done = 0; done < s->nin;) {
        tensors t = {};
        int64_t pieces = 0;
        for (; done < s->nin && t.count < MOST; done++) {
            const arg *a = &s->in[done];
            t.x[t.count++] = tensor{a->data, a->count, (int32_t)pieces, a->format.storage};
            pieces += pieces_of(a->count);
        }
        squares_kernel<<<(unsigned)pieces, THREADS, 0, stream_of(s)>>>(t, part + before);
        before += pieces;
    }
    scale_kernel<<<1, THREADS, 0, stream_of(s)>>>(part, before, *(const clip_attr *)s->attr, (float *)s->out[0].data);
    return cuda_started(s);
}

/* A double for each piece. */
static int64_t workspace(const graph *g, const node *n)
{
    int64_t pieces = 0;
    for (int k = 0; k < n->nin; k++)
        pieces += pieces_of(layout_count(&g->values[n->in[k]].format.layout, &g->values[n->in[k]].shape));
    return pieces * (int64_t)sizeof(double);
}

/* The norm does not depend on how the gradients lie. */
static void formats(const graph *g, const node *n, format *in, format *)
{
    for (int k = 0; k < n->nin; k++)
        in[k] = g->values[n->in[k]].settled ? g->values[n->in[k]].format : cuda_format_exact(g, n->in[k]);
}

CUDA_KERNELS(clip_scale) = {
    {"clip_scale", {.name = "clip_scale_cuda", .real = F32, .formats = formats, .workspace = workspace, .run = run}},
    CUDA_END,
};
