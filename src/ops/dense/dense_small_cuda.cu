/* dense_small_cuda.cu - the fully connected layer with few samples, where the time goes into the memory of its
 * weights.
 *
 * N samples, C inputs, K outputs. The weights are read once, 16 bytes at a time where they can be. Their gradient is
 * written once. Everything else is small and comes from the caches. Kernels are made for 1, 2, 4 and 8 samples; the
 * last samples of a larger one repeat the last there is, or are zero, and nothing of theirs is written.
 *
 * Every sum has one order: within a thread, then over the lanes of a warp, the warps of a block, the blocks.
 */
#include "backend/cuda/cuda.cuh"
#include "ops/dense/dense_cuda.h"

/* The second number of launch bounds below: so many blocks of a processor have enough under way, and the compiler may
 * use registers for more of it in each. */
enum { FEW = 8, THREADS = 256, WARPS = THREADS / 32 };

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

/* Elements that a thread reads at once: as many as every row of weights allows, in an address of their size. */
static int most_at_once(const dense_sizes *d, size_t size)
{
    return size == sizeof(bf16) && d->C % 8 == 0 ? 8 : d->C % 4 == 0 ? 4 : 1;
}

/* The gradient of weights. In a loop the compiler takes a struct apart. */
static __device__ __forceinline__ void store(float *to, const float (&x)[4])
{
    __stwb((float4 *)to, make_float4(x[0], x[1], x[2], x[3]));
}

static __device__ __forceinline__ void store(bf16 *to, const float (&x)[4])
{
    const __nv_bfloat162 low = __floats2bfloat162_rn(x[0], x[1]), high = __floats2bfloat162_rn(x[2], x[3]);
    __stwb((uint2 *)to, make_uint2(*(const unsigned *)&low, *(const unsigned *)&high));
}

template <class T> static __device__ __forceinline__ void store(T *to, const float (&x)[1])
{
    *to = from_float<T>(x[0]);
}

/* --- forward --------------------------------------------------------------------------------------------------- */

/* Sums V values over a warp at once: half of the lanes go on with half of the values, as long as there are two. In
 * the end lane l has the sum of value l / (32 / V). */
template <int V> static __device__ __forceinline__ float warp_sums(float (&x)[V])
{
#pragma unroll
    for (int level = 0; level < 5; level++) {
        const int d = 16 >> level, half = V >> level >> 1;
        const bool upper = threadIdx.x & d;
#pragma unroll
        for (int i = 0; i < V / 2; i++) {
            const float given = upper ? x[i] : x[i + half], kept = upper ? x[i + half] : x[i];
            if (i < half)
                x[i] = kept + __shfl_xor_sync(0xffffffffu, given, d);
        }
        if (half == 0)
            x[0] += __shfl_xor_sync(0xffffffffu, x[0], d);
    }
    return x[0];
}

enum { ROWS = 4 }; /* of weights for a block, so that what is read of src serves four times */

template <class T, int N, int P>
static __global__ void __launch_bounds__(THREADS, 2)
    forward(const T *src, const T *wei, const float *bia, T *dst, dense_sizes d, activation act)
{
    const int VALUES = ROWS * N, LANES = 32 / VALUES, AHEAD = N > 4 ? 1 : 2;
    __shared__ float part[WARPS][VALUES];
    const int64_t first = (int64_t)blockIdx.x * ROWS;
    float sum[VALUES] = {};
#pragma unroll AHEAD
    for (int64_t c = threadIdx.x * P; c < d.C; c += THREADS * P) {
        float w[ROWS][P];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            load_once(wei + (first + r < d.K ? first + r : d.K - 1) * d.C + c, w[r]);
#pragma unroll
        for (int n = 0; n < N; n++) {
            float x[P];
            load(src + (n < d.N ? n : d.N - 1) * d.C + c, x);
#pragma unroll
            for (int i = 0; i < ROWS * P; i++)
                sum[i / P * N + n] += w[i / P][i % P] * x[i % P];
        }
    }
    const float all = warp_sums(sum);
    const int lane = threadIdx.x % 32, i = threadIdx.x;
    if (lane % LANES == 0)
        part[threadIdx.x / 32][lane / LANES] = all;
    __syncthreads();
    const int64_t k = first + i / N, n = i % N;
    if (i >= VALUES || k >= d.K || n >= d.N)
        return;
    float y = 0;
    for (int w = 0; w < WARPS; w++)
        y += part[w][i];
    dst[n * d.K + k] = from_float<T>(activate(y + (bia ? bia[k] : 0.f), act));
}

/* --- the gradient of the data ---------------------------------------------------------------------------------- */

enum { MOST_ROWS = 128 };

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

/* A warp takes every eighth row of the block's part, several at once, a lane P inputs. Where there are several parts
 * their sums go to `room`, parts x N x C, and the last block of a tile adds them up. */
template <class T, int N, int P>
static __global__ void __launch_bounds__(THREADS, N > 4 ? 2 : 4)
    data(const T *wei, const T *ddst, T *dsrc, dense_sizes d, split s, float *room, unsigned *counters)
{
    const int WIDTH = 32 * P, AHEAD = 4;
    __shared__ __align__(16) float row[MOST_ROWS][N], part[WARPS][N][WIDTH];
    const int64_t tile = blockIdx.x % s.tiles, index = blockIdx.x / s.tiles, first = index * s.rows;
    const int rows = (int)(d.K - first < s.rows ? d.K - first : s.rows);
    const int warp = threadIdx.x / 32, at = threadIdx.x % 32 * P;
    lay_ddst(ddst, d, first, rows, row);
    float sum[N][P] = {};
    const T *from = wei + first * d.C + tile * WIDTH + at;
    const int end = tile * WIDTH + at < d.C ? rows : 0;
    int k = warp;
    for (; k + (AHEAD - 1) * WARPS < end; k += AHEAD * WARPS) {
        float w[AHEAD][P];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            load_once(from + (k + j * WARPS) * d.C, w[j]);
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            add_row(row[k + j * WARPS], w[j], sum);
    }
    for (; k < end; k += WARPS) {
        float w[P];
        load_once(from + k * d.C, w);
        add_row(row[k], w, sum);
    }
#pragma unroll
    for (int i = 0; i < N * P; i++)
        part[warp][i / P][at + i % P] = sum[i / P][i % P];
    __syncthreads();
    for (int i = threadIdx.x; i < N * WIDTH; i += THREADS) {
        const int64_t n = i / WIDTH, c = tile * WIDTH + i % WIDTH;
        float all = 0;
        for (int w = 0; w < WARPS; w++)
            all += part[w][n][i % WIDTH];
        if (n >= d.N || c >= d.C)
            continue;
        if (s.parts > 1)
            room[(index * d.N + n) * d.C + c] = all;
        else
            dsrc[n * d.C + c] = from_float<T>(all);
    }
    if (s.parts == 1 || !is_last(counters + tile, s.parts))
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

/* With many samples there is no room for the sums of more. */
static int data_at_once(const dense_sizes *d, size_t size)
{
    const int most = most_at_once(d, size);
    return d->N > 4 && most > 4 ? 4 : most;
}

static split data_split(const cuda_queue *q, const dense_sizes *d, size_t size)
{
    /* With more samples there is more to add up at the end. */
    return split_for(q, d, 32 * data_at_once(d, size), d->N > 2 ? 64 : 32, MOST_ROWS, 8);
}

/* Bytes of a weight as it is read. */
static size_t size_of_weight(const graph *g)
{
    return g->precision == BRASA_BF16 ? sizeof(bf16) : sizeof(float);
}

/* The counters of the tiles, which keep their zeros from step to step, as a workspace does not. */
static brasa_status data_open(graph *g, node *n)
{
    const dense_sizes d = dense_sizes_of(&g->values[n->out[0]].shape, &g->values[n->in[1]].shape);
    const cuda_queue *q = queue_of_graph(g);
    const split s = data_split(q, &d, size_of_weight(g));
    const size_t bytes = (size_t)s.tiles * sizeof(unsigned);
    if (s.parts == 1)
        return BRASA_OK;
    cudaError_t error = cudaMalloc(&n->state, bytes);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(n->state, 0, bytes, q->stream);
    else
        (void)cudaGetLastError(); /* which is kept otherwise */
    return cuda_fail(g->ctx, error, n->name);
}

static void data_close(brasa_context *ctx, void *state)
{
    (void)ctx;
    cudaFree(state);
}

static int64_t data_workspace(const graph *g, const node *n)
{
    const dense_sizes d = dense_sizes_of(&g->values[n->out[0]].shape, &g->values[n->in[1]].shape);
    const split s = data_split(queue_of_graph(g), &d, size_of_weight(g));
    return s.parts > 1 ? s.parts * d.N * d.C * (int64_t)sizeof(float) : 0;
}

/* --- the gradient of the weights ------------------------------------------------------------------------------- */

/* A thread holds P inputs of all samples, and goes through the rows of its block's part. */
template <class T, int N, int P>
static __global__ void __launch_bounds__(THREADS)
    weights(const T *src, const T *ddst, T *dwei, float *dbia, dense_sizes d, split s)
{
    __shared__ __align__(16) float row[MOST_ROWS][N];
    const int64_t tile = blockIdx.x % s.tiles, first = blockIdx.x / s.tiles * s.rows;
    const int rows = (int)(d.K - first < s.rows ? d.K - first : s.rows);
    const int64_t c = (tile * THREADS + threadIdx.x) * P;
    lay_ddst(ddst, d, first, rows, row);
    if (dbia && tile == 0 && (int)threadIdx.x < rows) {
        float all = 0;
        for (int n = 0; n < N; n++)
            all += row[threadIdx.x][n];
        dbia[first + threadIdx.x] = all;
    }
    if (c >= d.C)
        return;
    float x[N][P] = {};
#pragma unroll
    for (int n = 0; n < N; n++)
        if (n < d.N)
            load(src + n * d.C + c, x[n]);
#pragma unroll 4
    for (int k = 0; k < rows; k++) {
        float y[P] = {};
#pragma unroll
        for (int i = 0; i < N * P; i++)
            y[i % P] += row[k][i / P] * x[i / P][i % P];
        store(dwei + (first + k) * d.C + c, y);
    }
}

/* --- starting them --------------------------------------------------------------------------------------------- */

/* in: src, wei [, bia]; out: dst */
template <class T, int N> static void forward_start(const step *s)
{
    const dense_sizes d = dense_sizes_of(&s->in[0].shape, &s->out[0].shape);
    const T *src = (const T *)s->in[0].data, *wei = (const T *)s->in[1].data;
    const float *bia = s->nin > 2 ? (const float *)s->in[2].data : NULL;
    T *dst = (T *)s->out[0].data;
    const unsigned blocks = (unsigned)((d.K + ROWS - 1) / ROWS);
    const int at_once = most_at_once(&d, sizeof(T));
    if (at_once == pack<T>::N)
        forward<T, N, pack<T>::N><<<blocks, THREADS, 0, stream_of(s)>>>(src, wei, bia, dst, d, s->node->act);
    else if (at_once == 4)
        forward<T, N, 4><<<blocks, THREADS, 0, stream_of(s)>>>(src, wei, bia, dst, d, s->node->act);
    else
        forward<T, N, 1><<<blocks, THREADS, 0, stream_of(s)>>>(src, wei, bia, dst, d, s->node->act);
}

/* in: wei, ddst; out: dsrc */
template <class T, int N> static void data_start(const step *s)
{
    const dense_sizes d = dense_sizes_of(&s->out[0].shape, &s->in[1].shape);
    const split p = data_split(queue_of(s), &d, sizeof(T));
    const T *wei = (const T *)s->in[0].data, *ddst = (const T *)s->in[1].data;
    T *dsrc = (T *)s->out[0].data;
    float *room = (float *)s->workspace;
    unsigned *counters = (unsigned *)s->state;
    const unsigned blocks = (unsigned)(p.tiles * p.parts);
    const int at_once = data_at_once(&d, sizeof(T)), MOST = N > 4 ? 4 : pack<T>::N;
    if (at_once == MOST)
        data<T, N, MOST><<<blocks, THREADS, 0, stream_of(s)>>>(wei, ddst, dsrc, d, p, room, counters);
    else if (at_once == 4)
        data<T, N, 4><<<blocks, THREADS, 0, stream_of(s)>>>(wei, ddst, dsrc, d, p, room, counters);
    else
        data<T, N, 1><<<blocks, THREADS, 0, stream_of(s)>>>(wei, ddst, dsrc, d, p, room, counters);
}

/* in: src, ddst; out: dwei [, dbia] */
template <class T, int N> static void weights_start(const step *s)
{
    const dense_sizes d = dense_sizes_of(&s->in[0].shape, &s->in[1].shape);
    const bool four = d.C % 4 == 0;
    const split p = split_for(queue_of(s), &d, THREADS * (four ? 4 : 1), 8, 64, 4);
    const T *src = (const T *)s->in[0].data, *ddst = (const T *)s->in[1].data;
    T *dwei = (T *)s->out[0].data;
    float *dbia = s->nout > 1 ? (float *)s->out[1].data : NULL;
    const unsigned blocks = (unsigned)(p.tiles * p.parts);
    if (four)
        weights<T, N, 4><<<blocks, THREADS, 0, stream_of(s)>>>(src, ddst, dwei, dbia, d, p);
    else
        weights<T, N, 1><<<blocks, THREADS, 0, stream_of(s)>>>(src, ddst, dwei, dbia, d, p);
}

/* Calls a template by the type of src or ddst, and by the number of its rows. */
#define BY_SAMPLES(matrix, function, s)                                                                              \
    do {                                                                                                             \
        const int64_t samples = (matrix).shape.dim[0];                                                               \
        const bool half = (matrix).type == BF16;                                                                     \
        if (samples <= 1)                                                                                            \
            half ? function<bf16, 1>(s) : function<float, 1>(s);                                                     \
        else if (samples <= 2)                                                                                       \
            half ? function<bf16, 2>(s) : function<float, 2>(s);                                                     \
        else if (samples <= 4)                                                                                       \
            half ? function<bf16, 4>(s) : function<float, 4>(s);                                                     \
        else                                                                                                         \
            half ? function<bf16, FEW>(s) : function<float, FEW>(s);                                                 \
    } while (0)

static brasa_status forward_run(const step *s)
{
    BY_SAMPLES(s->in[0], forward_start, s);
    return cuda_started(s);
}

static brasa_status data_run(const step *s)
{
    BY_SAMPLES(s->in[1], data_start, s);
    return cuda_started(s);
}

static brasa_status weights_run(const step *s)
{
    BY_SAMPLES(s->in[0], weights_start, s);
    return cuda_started(s);
}

/* --- the kernels ----------------------------------------------------------------------------------------------- */

static bool supports_forward(const graph *g, const node *n)
{
    return g->values[n->in[0]].shape.dim[0] <= FEW;
}

static bool supports_gradient(const graph *g, const node *n)
{
    return g->values[n->in[1]].shape.dim[0] <= FEW;
}

extern "C" {
extern const backend_kernel dense_small_cuda[];
const backend_kernel dense_small_cuda[] = {
    {"dense",
     {.name = "dense_small_cuda",
      .real = F32,
      .supports = supports_forward,
      .layouts = dense_cuda_layouts,
      .run = forward_run}},
    {"dense_grad_data",
     {.name = "dense_grad_data_small_cuda",
      .real = F32,
      .supports = supports_gradient,
      .layouts = dense_cuda_layouts_gradient,
      .open = data_open,
      .close = data_close,
      .workspace = data_workspace,
      .run = data_run}},
    {"dense_grad_weights",
     {.name = "dense_grad_weights_small_cuda",
      .real = F32,
      .supports = supports_gradient,
      .layouts = dense_cuda_layouts_gradient,
      .run = weights_run}},
    CUDA_END,
};
}
