/* dense_cuda.cu - the fully connected layer and its gradients, for every size, where there is no library to do it.
 *
 * The three products are one: dst[i][j] is the sum over r of a(i, r) b(j, r), and what differs is by which steps i, j
 * and r go through memory. A block makes a square tile of dst, a thread EACH x EACH elements of it; slices of a and
 * b, DEEP long, are laid into shared memory by turns, the next one being read while the last one is multiplied. Each
 * element is summed by one thread, r by r.
 */
#include "device/cuda/cuda.cuh"
#include "ops/dense/dense_cuda.h"

enum { TILE = 64, DEEP = 16, EACH = 4, THREADS = TILE / EACH * (TILE / EACH), SHARE = TILE * DEEP / THREADS };
enum { ROW = TILE + 4 }; /* of a slice in shared memory: few lanes meet in a bank, and 16 bytes are aligned */

/* Element (i, r) of a factor is data[i * line + r * step]; one of the two is 1. */
template <class T> struct factor {
    const T *data;
    int64_t lines, line, step;
};

/* --- the product ----------------------------------------------------------------------------------------------- */

/* The place in a slice of a thread's q-th element: neighbours read neighbouring addresses. */
static __device__ __forceinline__ void place(bool along, int q, int *i, int *r)
{
    const int e = threadIdx.x + q * THREADS;
    *i = along ? e / DEEP : e % TILE;
    *r = along ? e % DEEP : e / TILE;
}

/* This thread's share of a slice, zero beyond the ends. */
template <class T>
static __device__ __forceinline__ void fetch(const factor<T> &f, int64_t first, int64_t depth, int64_t from,
                                             float (&to)[SHARE])
{
#pragma unroll
    for (int q = 0; q < SHARE; q++) {
        int i, r;
        place(f.step == 1, q, &i, &r);
        const bool inside = first + i < f.lines && from + r < depth;
        to[q] = inside ? to_float(f.data[(first + i) * f.line + (from + r) * f.step]) : 0.f;
    }
}

static __device__ __forceinline__ void lay(bool along, const float (&x)[SHARE], float (*slice)[ROW])
{
#pragma unroll
    for (int q = 0; q < SHARE; q++) {
        int i, r;
        place(along, q, &i, &r);
        slice[r][i] = x[q];
    }
}

/* dst = a x b^T [+ bias, one for each j] under an activation; sums, where it is not NULL, gets those of a's lines. */
template <class A, class B, class D>
static __global__ void __launch_bounds__(THREADS)
    product(factor<A> a, factor<B> b, int64_t depth, D *dst, const float *bias, activation act, float *sums)
{
    __shared__ __align__(16) float left[DEEP][ROW], right[DEEP][ROW];
    const int64_t across = (b.lines + TILE - 1) / TILE;
    const int64_t i0 = blockIdx.x / across * TILE, j0 = blockIdx.x % across * TILE;
    const int y = threadIdx.x / (TILE / EACH) * EACH, x = threadIdx.x % (TILE / EACH) * EACH;
    const bool summing = sums && j0 == 0 && threadIdx.x < TILE;
    float mine[SHARE], other[SHARE], sum[EACH][EACH] = {}, line_sum = 0;
    fetch(a, i0, depth, 0, mine);
    fetch(b, j0, depth, 0, other);
    for (int64_t r0 = 0; r0 < depth; r0 += DEEP) {
        lay(a.step == 1, mine, left);
        lay(b.step == 1, other, right);
        __syncthreads();
        if (r0 + DEEP < depth) {
            fetch(a, i0, depth, r0 + DEEP, mine);
            fetch(b, j0, depth, r0 + DEEP, other);
        }
#pragma unroll
        for (int r = 0; r < DEEP; r++) {
            const pack<float> u = *(const pack<float> *)&left[r][y], v = *(const pack<float> *)&right[r][x];
#pragma unroll
            for (int e = 0; e < EACH * EACH; e++)
                sum[e / EACH][e % EACH] += u.x[e / EACH] * v.x[e % EACH];
        }
        for (int r = 0; summing && r < DEEP; r++)
            line_sum += left[r][threadIdx.x];
        __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < EACH * EACH; e++) {
        const int64_t i = i0 + y + e / EACH, j = j0 + x + e % EACH;
        if (i < a.lines && j < b.lines)
            dst[i * b.lines + j] = from_float<D>(activate(sum[e / EACH][e % EACH] + (bias ? bias[j] : 0.f), act));
    }
    if (summing && i0 + threadIdx.x < a.lines)
        sums[i0 + threadIdx.x] = line_sum;
}

template <class A, class B, class D>
static void product_start(const step *s, factor<A> a, factor<B> b, int64_t depth, D *dst, const float *bias,
                          activation act, float *sums)
{
    const int64_t blocks = (a.lines + TILE - 1) / TILE * ((b.lines + TILE - 1) / TILE);
    product<A, B, D><<<(unsigned)blocks, THREADS, 0, stream_of(s)>>>(a, b, depth, dst, bias, act, sums);
}

/* --- the three of them ----------------------------------------------------------------------------------------- */

/* in: src, wei [, bia]; out: dst */
template <class T> static void forward_start(const step *s)
{
    const dense_sizes d = dense_sizes_of(&s->in[0].shape, &s->out[0].shape);
    const factor<T> src = {(const T *)s->in[0].data, d.N, d.C, 1};
    const factor<T> wei = {(const T *)s->in[1].data, d.K, d.C, 1};
    const float *bia = s->nin > 2 ? (const float *)s->in[2].data : NULL;
    product_start(s, src, wei, d.C, (T *)s->out[0].data, bia, s->node->act, NULL);
}

CUDA_RUN(forward_run, s->in[0].format.storage, forward_start)

/* in: wei, ddst; out: dsrc */
template <class T> static void data_start(const step *s)
{
    const dense_sizes d = dense_sizes_of(&s->out[0].shape, &s->in[1].shape);
    const factor<T> ddst = {(const T *)s->in[1].data, d.N, d.K, 1};
    const factor<T> wei = {(const T *)s->in[0].data, d.C, 1, d.C};
    product_start(s, ddst, wei, d.K, (T *)s->out[0].data, NULL, ACT_NONE, NULL);
}

CUDA_RUN(data_run, s->in[1].format.storage, data_start)

/* in: src, ddst; the gradient of `rows` rows of weights from `first` on */
template <class T> static void rows_start(const step *s, int64_t first, int64_t rows, void *to, float *dbia)
{
    const dense_sizes d = dense_sizes_of(&s->in[0].shape, &s->in[1].shape);
    const factor<T> ddst = {(const T *)s->in[1].data + first, rows, 1, d.K};
    const factor<T> src = {(const T *)s->in[0].data, d.C, 1, d.C};
    product_start(s, ddst, src, d.N, (T *)to, NULL, ACT_NONE, dbia);
}

void dense_cuda_weight_rows(const step *s, int64_t first, int64_t rows, void *to)
{
    BY_TYPE(s->in[0].format.storage, rows_start, s, first, rows, to, NULL);
}

/* in: src, ddst; out: dwei [, dbia] */
static brasa_status weights_run(const step *s)
{
    float *dbia = s->nout > 1 ? (float *)s->out[1].data : NULL;
    BY_TYPE(s->in[0].format.storage, rows_start, s, 0, s->in[1].shape.dim[1], s->out[0].data, dbia);
    return cuda_started(s);
}

/* --- layouts --------------------------------------------------------------------------------------------------- */

void dense_cuda_formats(const graph *g, const node *n, format *in, format *out)
{
    in[0] = cuda_format_product(g, n->in[0]);
    in[1] = cuda_format_product(g, n->in[1]);
    out[0] = cuda_format_product(g, n->out[0]);
}

void dense_cuda_formats_gradient(const graph *g, const node *n, format *in, format *out)
{
    in[0] = cuda_format_product(g, n->in[0]);
    in[1] = cuda_format_product(g, n->in[1]);
    out[0] = cuda_format_product(g, n->out[0]);
}

/* --- what a library leaves ------------------------------------------------------------------------------------- */

template <class T> static __global__ void finish(T *dst, int64_t count, int64_t K, const float *bia, activation act)
{
    GRID_FOR(i, count)
    dst[i] = from_float<T>(activate(to_float(dst[i]) + (bia ? bia[i % K] : 0.f), act));
}

template <class T>
static void finish_start(cudaStream_t stream, void *dst, int64_t N, int64_t K, const float *bia, activation act)
{
    const int64_t wanted = (N * K + THREADS - 1) / THREADS, most = 1 << 20;
    finish<T><<<(unsigned)(wanted < most ? wanted : most), THREADS, 0, stream>>>((T *)dst, N * K, K, bia, act);
}

void dense_cuda_finish(cudaStream_t stream, void *dst, dtype type, int64_t N, int64_t K, const float *bia,
                       activation act)
{
    BY_TYPE(type, finish_start, stream, dst, N, K, bia, act);
}

/* A block sums 32 columns: a warp every 32nd row of them, then one warp what the others have, in their order. */
enum { COLUMNS = 32, GROUPS = 32 };

template <class T>
static __global__ void __launch_bounds__(COLUMNS *GROUPS) column_sums(const T *x, int64_t N, int64_t K, float *sums)
{
    __shared__ float part[GROUPS][COLUMNS];
    const int lane = threadIdx.x % COLUMNS, group = threadIdx.x / COLUMNS;
    const int64_t k = blockIdx.x * (int64_t)COLUMNS + lane;
    float sum = 0;
#pragma unroll 4
    for (int64_t n = group; n < N; n += GROUPS)
        sum += k < K ? to_float(x[n * K + k]) : 0.f;
    part[group][lane] = sum;
    __syncthreads();
    if (group > 0 || k >= K)
        return;
    for (int other = 1; other < GROUPS; other++)
        sum += part[other][lane];
    sums[k] = sum;
}

template <class T>
static void bias_gradient_start(cudaStream_t stream, const void *ddst, int64_t N, int64_t K, float *dbia)
{
    const unsigned blocks = (unsigned)((K + COLUMNS - 1) / COLUMNS);
    column_sums<T><<<blocks, COLUMNS * GROUPS, 0, stream>>>((const T *)ddst, N, K, dbia);
}

void dense_cuda_bias_gradient(cudaStream_t stream, const void *ddst, dtype type, int64_t N, int64_t K, float *dbia)
{
    BY_TYPE(type, bias_gradient_start, stream, ddst, N, K, dbia);
}

/* --- the kernels ----------------------------------------------------------------------------------------------- */

CUDA_KERNELS(dense) = {
    CUDA_ROW("dense", forward_run, dense_cuda_formats),
    CUDA_ROW("dense_grad_data", data_run, dense_cuda_formats_gradient),
    CUDA_ROW("dense_grad_weights", weights_run, dense_cuda_formats_gradient),
    CUDA_END,
};
