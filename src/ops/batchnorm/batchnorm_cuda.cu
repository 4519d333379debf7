/* batchnorm_cuda.cu - batch normalization on NVIDIA GPUs, forward.
 *
 * The sums for mean and variance are those of src - base and of its square, where base is a number from among those
 * of the channel: so little is lost when the square of the mean is subtracted, be the mean large or a single number
 * far off.
 */
#include "ops/batchnorm/channels.cuh"

typedef struct forward {
    batchnorm_args in;
    void *dst;
    int64_t pixel;     /* from one row of dst to the next, in elements */
    float *mean, *var; /* written in training */
    double *sums;      /* of the parts; behind them, base */
    unsigned *arrivals;
    spread f;
    double epsilon;
    bounds act;
    bool streams; /* dst is more than the cache holds */
} forward;

/* --- statistics ------------------------------------------------------------------------------------------------ */

/* N rows of a thread, from its row k on, which is at `at`. */
template <int FROM, class T, int V, int N>
static __device__ __forceinline__ void rows_get(few<T, V> (&to)[N], const void *from, const walk &w, int k,
                                                int64_t at)
{
#pragma unroll
    for (int i = 0; i < N; i++, at += w.all.step)
        if (k + i < w.count)
            to[i] = FROM == STASHED ? stash_of<T, V>()[(k + i) * blockDim.x] : get<T, V, FROM == LAST>(from, at);
}

/* Of three numbers of a channel the one in the middle, rounded to 16 bits of the largest: with more of them, what is
 * lost when it is subtracted from a larger number would be the same for many, and add up. */
static __device__ __forceinline__ float base_of(float a, float b, float c)
{
    const float middle = fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
    const float large = fmaxf(fmaxf(fabsf(a), fabsf(b)), fabsf(c)) * 256;
    const float rounded = (middle + large) - large;
    return isnan(rounded) ? middle : rounded; /* where `large` is infinite */
}

/* The same in all blocks. */
template <class T, int V>
static __device__ __forceinline__ void find_base(float *base, const void *src, const spread &f, const walk &w)
{
    const int64_t c = (int64_t)blockIdx.x * f.lanes * V + w.first;
    few<T, V> x[PROBES];
#pragma unroll
    for (int k = 0; k < PROBES; k++)
        x[k] = get<T, V, false>(src, (f.probe[k] + c) * (int64_t)sizeof(T));
#pragma unroll
    for (int v = 0; v < V; v++)
        base[v] = base_of(number(x[0], v), number(x[1], v), number(x[2], v));
}

/* The sums of the block's part into room.total, and room.base. STASH: the rows stay in shared memory. */
template <class T, int V, bool STASH>
static __device__ __forceinline__ void sum_moments(const forward &j, const walk &w, room *r)
{
    const int FROM = STASH ? LAST : AGAIN;
    const int N = V == 1 ? 8 : 16 / sizeof(T); /* 64 bytes: so much must be under way */
    float base[V] = {0}, square[V] = {0};
    double sum[V] = {0}; /* of numbers that may all be of one sign, while the mean is near 0 */
    int64_t at = w.all.at;
    few<T, V> x[N];
    rows_get<FROM>(x, j.in.src, w, 0, at);
    if (w.count)
        find_base<T, V>(base, j.in.src, j.f, w);
    for (int k = 0; k < w.count; k += N) {
        float few_sum[V] = {0};
#pragma unroll
        for (int i = 0; i < N; i++, at += w.all.step) {
            if (k + i >= w.count)
                continue;
            if (STASH)
                stash_of<T, V>()[(k + i) * blockDim.x] = x[i];
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float d = number(x[i], v) - base[v];
                few_sum[v] += d;
                square[v] = fmaf(d, d, square[v]);
            }
        }
        rows_get<FROM>(x, j.in.src, w, k + N, at);
#pragma unroll
        for (int v = 0; v < V; v++)
            sum[v] += few_sum[v];
    }
    for (int v = 0; v < V && w.leads; v++)
        r->base[w.first + v] = base[v];
    block_sums<V>(j.f.lanes, sum, square, r);
}

/* Mean and variance of the channels from room.total, written, and what they make of an element. */
static __device__ __forceinline__ void finish_moments(const forward &j, const own &o, double base, room *r)
{
    if (o.mine) {
        const double away = r->total[0][threadIdx.x] * j.f.share;
        const double square = r->total[1][threadIdx.x] * j.f.share - away * away;
        const float mean = (float)(base + away), var = square < 0 ? 0 : (float)square; /* NaN stays */
        if (blockIdx.y == 0) {
            j.mean[o.c] = mean;
            j.var[o.c] = var;
        }
        set_affine(r, o, mean, var, j.epsilon);
    }
    __syncthreads();
}

/* --- elements -------------------------------------------------------------------------------------------------- */

/* The rows that a thread normalizes next: 32 bytes of each tensor, for as much is on its way out. */
template <class T, int V> struct both {
    static const int N = V == 1 ? 4 : 8 / sizeof(T);
    few<T, V> src[N], res[N];
};

template <int FROM, class T, int V>
static __device__ __forceinline__ void both_get(both<T, V> *to, const forward &j, const walk &w, int k, int64_t at)
{
    rows_get<FROM>(to->src, j.in.src, w, k, at);
    if (j.in.res)
        rows_get<FROM == AGAIN ? AGAIN : LAST>(to->res, j.in.res, w, k, at);
}

/* `x` are the first rows, read before; `to` is where they go. dst may lie where src or res lies. */
template <int FROM, class T, int V>
static __device__ __forceinline__ void normalize_rows(const forward &j, const walk &w, trail to, both<T, V> x,
                                                      const room *r)
{
    float mean[V], scale[V], shift[V];
    int64_t at = w.all.at;
#pragma unroll
    for (int v = 0; v < V; v++) {
        mean[v] = r->mean[w.first + v];
        scale[v] = r->scale[w.first + v];
        shift[v] = r->shift[w.first + v];
    }
    for (int k = 0; k < w.count; k += x.N) {
#pragma unroll
        for (int i = 0; i < x.N; i++, to.at += to.step) {
            float y[V];
            if (k + i >= w.count)
                continue;
#pragma unroll
            for (int v = 0; v < V; v++) {
                y[v] = normalize(number(x.src[i], v), mean[v], scale[v], shift[v]);
                if (j.in.res)
                    y[v] += number(x.res[i], v);
                y[v] = y[v] <= j.act.low ? j.act.low : y[v];
                y[v] = y[v] >= j.act.high ? j.act.high : y[v];
            }
            put<T, V>(j.dst, to.at, y, j.streams);
        }
        at += x.N * w.all.step;
        both_get<FROM>(&x, j, w, k + x.N, at);
    }
}

/* --- kernels --------------------------------------------------------------------------------------------------- */

/* Training, a block with its slice whole. */
template <class T, int V> static __global__ void __launch_bounds__(WHOLE_THREADS, 1) train_whole(const forward j)
{
    __shared__ room r;
    const walk w = walk_of<T, V>(j.f, false);
    const own o = own_of(j.f, j.in);
    both<T, V> x;
    sum_moments<T, V, false>(j, w, &r);
    both_get<AGAIN>(&x, j, w, 0, w.all.at);
    finish_moments(j, o, o.mine ? r.base[threadIdx.x] : 0, &r);
    normalize_rows<AGAIN>(j, w, trail_of<T, V>(j.f, j.pixel, false), x, &r);
}

/* Training in one launch, a block with a part. */
template <class T, int V> static __global__ void __launch_bounds__(BLOCK_THREADS, 1) train_stashed(const forward j)
{
    __shared__ room r;
    const walk w = walk_of<T, V>(j.f, false);
    const own o = own_of(j.f, j.in);
    both<T, V> x;
    sum_moments<T, V, true>(j, w, &r);
    put_part(j.sums, j.f, o, &r);
    both_get<STASHED>(&x, j, w, 0, w.all.at);
    wait_for_parts(j.arrivals, j.f.parts);
    add_parts(j.sums, j.f, &r);
    finish_moments(j, o, o.mine ? r.base[threadIdx.x] : 0, &r);
    normalize_rows<STASHED>(j, w, trail_of<T, V>(j.f, j.pixel, false), x, &r);
}

/* Training in two launches: the sums of a part. */
template <class T, int V> static __global__ void __launch_bounds__(BLOCK_THREADS, 1) train_sums(const forward j)
{
    __shared__ room r;
    const walk w = walk_of<T, V>(j.f, false);
    const own o = own_of(j.f, {});
    sum_moments<T, V, false>(j, w, &r);
    put_part(j.sums, j.f, o, &r);
    if (o.mine && blockIdx.y == 0)
        j.sums[2 * j.f.parts * j.f.C + o.c] = r.base[threadIdx.x];
}

/* And the elements of a part. */
template <class T, int V> static __global__ void __launch_bounds__(BLOCK_THREADS, 1) train_elements(const forward j)
{
    __shared__ room r;
    const walk w = walk_of<T, V>(j.f, true);
    const own o = own_of(j.f, j.in);
    const double base = o.mine ? j.sums[2 * j.f.parts * j.f.C + o.c] : 0;
    both<T, V> x;
    both_get<LAST>(&x, j, w, 0, w.all.at);
    add_parts(j.sums, j.f, &r);
    finish_moments(j, o, base, &r);
    normalize_rows<LAST>(j, w, trail_of<T, V>(j.f, j.pixel, true), x, &r);
}

/* With the statistics that are there. */
template <class T, int V> static __global__ void __launch_bounds__(BLOCK_THREADS, 1) eval_elements(const forward j)
{
    __shared__ room r;
    const walk w = walk_of<T, V>(j.f, false);
    const own o = own_of(j.f, j.in);
    both<T, V> x;
    both_get<AGAIN>(&x, j, w, 0, w.all.at);
    if (o.mine)
        set_affine(&r, o, o.mean, o.var, j.epsilon);
    __syncthreads();
    normalize_rows<AGAIN>(j, w, trail_of<T, V>(j.f, j.pixel, false), x, &r);
}

/* --- starting them --------------------------------------------------------------------------------------------- */

template <class T, int V> static void start_few(const forward &j, cudaStream_t stream)
{
    const dim3 grid(j.f.slices, j.f.parts);
    if (!j.mean) {
        eval_elements<T, V><<<grid, j.f.threads, 0, stream>>>(j);
    } else if (j.f.whole) {
        train_whole<T, V><<<grid, j.f.threads, 0, stream>>>(j);
    } else if (V != 4 || !start_stashed<forward>(train_stashed<T, 4>, j, stream)) {
        train_sums<T, V><<<grid, j.f.threads, 0, stream>>>(j);
        train_elements<T, V><<<grid, j.f.threads, 0, stream>>>(j);
    }
}

template <class T> static void start(const forward &j, cudaStream_t stream)
{
    if (j.f.each == 4)
        start_few<T, 4>(j, stream);
    else
        start_few<T, 1>(j, stream);
}

static spread train_spread(const void *attr, const shape *src, dtype type, const cuda_queue *q)
{
    return spread_passes(src, type, 1 + ((const batchnorm_attr *)attr)->residual, 1, BLOCK_THREADS, q);
}

static int64_t train_workspace(const graph *g, const node *n)
{
    const value *src = &g->values[n->in[0]];
    const spread f = train_spread(n->attr, &src->shape, input_format(g, n, 0).storage, queue_of_graph(g));
    return spread_workspace(&f);
}

static forward forward_of(const step *s, bool train)
{
    const cuda_queue *q = queue_of(s);
    const shape *src = &s->in[0].shape;
    const dtype type = s->in[0].format.storage;
    return {.in = batchnorm_args_in(s, true, train),
            .dst = s->out[0].data,
            .pixel = s->out[0].pixel,
            .mean = train ? (float *)s->out[1].data : NULL,
            .var = train ? (float *)s->out[2].data : NULL,
            .sums = (double *)s->workspace,
            .arrivals = q->arrivals,
            .f = train ? train_spread(s->attr, src, type, q) : spread_parts(src, type, q->processors),
            .epsilon = ((const batchnorm_attr *)s->attr)->epsilon,
            .act = bounds_of(s->node->act),
            .streams = is_beyond_cache(s, &s->out[0])};
}

static brasa_status train_run(const step *s)
{
    BY_TYPE(s->in[0].format.storage, start, forward_of(s, true), stream_of(s));
    return cuda_started(s);
}

static brasa_status eval_run(const step *s)
{
    BY_TYPE(s->in[0].format.storage, start, forward_of(s, false), stream_of(s));
    return cuda_started(s);
}

CUDA_KERNELS(batchnorm) = {
    {"batchnorm_train",
     {.name = "batchnorm_train_cuda",
      .real = F32,
      .formats = channels_formats,
      .parts_out = 1,
      .workspace = train_workspace,
      .run = train_run}},
    {"batchnorm_eval",
     {.name = "batchnorm_eval_cuda", .real = F32, .formats = channels_formats, .parts_out = 1, .run = eval_run}},
    CUDA_END,
};
