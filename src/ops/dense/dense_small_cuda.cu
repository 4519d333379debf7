/* dense_small_cuda.cu - the fully connected layer with few samples, where the time goes into the memory of its
 * weights.
 *
 * N samples, C inputs, K outputs. The weights are read once, 16 bytes at a time where they can be. Their gradient is
 * written once. Everything else is small and comes from the caches. Kernels are made for 1, 2, 4 and 8 samples; the
 * last samples of a larger one repeat the last there is, or are zero, and nothing of theirs is written.
 *
 * Every sum has one order: within a thread, then over the lanes of a warp, the warps of a block, the blocks.
 */
#include "ops/dense/dense_few.cuh"

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

/* The second number of launch bounds, here and below: so many blocks of a processor have enough under way, and the
 * compiler may use registers for more of it in each. */
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

/* A warp takes every eighth row of the block's part, several at once, a lane P inputs. */
template <class T, int N, int P>
static __global__ void __launch_bounds__(THREADS, N *P > 16 || (N > 1 && P > 4) ? 2 : 4)
    data(const T *wei, const T *ddst, T *dsrc, dense_sizes d, split s, part_sums sums)
{
    const int WIDTH = 32 * P, AHEAD = 4;
    __shared__ __align__(16) float row[MOST_ROWS][N];
    __shared__ warp_parts<N, P> part;
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
    add_parts(sum, part, dsrc, d, s, sums);
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

static split split_of(const graph *g, const node *n)
{
    const dense_sizes d = dense_sizes_of(&g->values[n->out[0]].shape, &g->values[n->in[1]].shape);
    return data_split(queue_of_graph(g), &d, size_of_weight(g));
}

static brasa_status data_open(graph *g, node *n)
{
    const split s = split_of(g, n);
    return part_sums_open(g, n, &s);
}

static int64_t data_workspace(const graph *g, const node *n)
{
    const dense_sizes d = dense_sizes_of(&g->values[n->out[0]].shape, &g->values[n->in[1]].shape);
    const split s = split_of(g, n);
    return part_sums_bytes(&d, &s);
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
    const part_sums sums = {(float *)s->workspace, (unsigned *)s->state};
    const unsigned blocks = (unsigned)(p.tiles * p.parts);
    const int at_once = data_at_once(&d, sizeof(T)), MOST = N > 4 ? 4 : pack<T>::N;
    if (at_once == MOST)
        data<T, N, MOST><<<blocks, THREADS, 0, stream_of(s)>>>(wei, ddst, dsrc, d, p, sums);
    else if (at_once == 4)
        data<T, N, 4><<<blocks, THREADS, 0, stream_of(s)>>>(wei, ddst, dsrc, d, p, sums);
    else
        data<T, N, 1><<<blocks, THREADS, 0, stream_of(s)>>>(wei, ddst, dsrc, d, p, sums);
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
        const bool half = (matrix).format.storage == BF16;                                                           \
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

CUDA_KERNELS(dense_small) = {
    {"dense",
     {.name = "dense_small_cuda",
      .real = F32,
      .supports = supports_forward,
      .formats = dense_cuda_formats,
      .run = forward_run}},
    {"dense_grad_data",
     {.name = "dense_grad_data_small_cuda",
      .real = F32,
      .supports = supports_gradient,
      .formats = dense_cuda_formats_gradient,
      .open = data_open,
      .close = cuda_counters_close,
      .workspace = data_workspace,
      .run = data_run}},
    {"dense_grad_weights",
     {.name = "dense_grad_weights_small_cuda",
      .real = F32,
      .supports = supports_gradient,
      .formats = dense_cuda_formats_gradient,
      .run = weights_run}},
    CUDA_END,
};
