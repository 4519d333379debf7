/* batchnorm_grad_cuda.cu - the gradient of batch normalization on NVIDIA GPUs. Where dres is wanted the first pass
 * writes it, and the second one reads it in place of all that it was made of. */
#include "ops/batchnorm/channels.cuh"

typedef struct backward {
    batchnorm_args in;
    int64_t pixel;      /* from one row of ddst to the next, in elements */
    void *dsrc, *dres;  /* dres may be NULL, ... */
    float *dwei, *dbia; /* ... and these */
    double *sums;       /* of the parts */
    unsigned *arrivals;
    spread f;
    double epsilon;
    bounds flat;
    bool flows;   /* through mean and var */
    bool streams; /* dsrc is more than the cache holds */
} backward;

/* --- the gradient behind the activation ------------------------------------------------------------------------ */

/* Rows that a thread reads at a time: 64 bytes of all tensors. E: there are others than src and ddst. */
template <class T, int V, bool E> struct rows {
    static const int N = (V == 1 ? 4 : 8 / sizeof(T)) / (E ? 2 : 1);
    few<T, V> src[N], ddst[N], more[N], dst[N];
};

/* From row k on, which is at `at`, and at `from` of ddst. */
template <int FROM, class T, int V, bool E>
static __device__ __forceinline__ void rows_get(rows<T, V, E> *to, const backward &j, const walk &w, trail from,
                                                int k, int64_t at)
{
#pragma unroll
    for (int i = 0; i < to->N; i++, at += w.all.step, from.at += from.step) {
        if (k + i >= w.count)
            continue;
        if (FROM == STASHED) {
            to->src[i] = stash_of<T, V>()[(k + i) * blockDim.x];
            to->ddst[i] = stash_of<T, V>()[(j.f.deep + k + i) * blockDim.x];
            continue;
        }
        to->src[i] = get<T, V, FROM == LAST>(j.in.src, at);
        to->ddst[i] = get<T, V, FROM == LAST>(j.in.ddst, from.at);
        if (E && j.in.more)
            to->more[i] = get<T, V, FROM == LAST>(j.in.more, at);
        if (E && j.in.dst)
            to->dst[i] = get<T, V, FROM == LAST>(j.in.dst, at);
    }
}

/* How the channels of a thread are normalized. */
template <int V> struct affine {
    float mean[V], scale[V], shift[V];
};

template <int V> static __device__ __forceinline__ affine<V> affine_get(const room *r, const walk &w)
{
    affine<V> f;
#pragma unroll
    for (int v = 0; v < V; v++) {
        f.mean[v] = r->mean[w.first + v];
        f.scale[v] = r->scale[w.first + v];
        f.shift[v] = r->shift[w.first + v];
    }
    return f;
}

/* What of ddst passes the activation, of row i; where there is dres, as it is stored there. */
template <class T, int V, bool E>
static __device__ __forceinline__ void passes(float *d, const backward &j, const rows<T, V, E> &x, const affine<V> &f,
                                              int i)
{
#pragma unroll
    for (int v = 0; v < V; v++) {
        const float again = normalize(number(x.src[i], v), f.mean[v], f.scale[v], f.shift[v]);
        const float y = E && j.in.dst ? number(x.dst[i], v) : again;
        const float sum = E && j.in.more ? number(x.ddst[i], v) + number(x.more[i], v) : number(x.ddst[i], v);
        d[v] = (y <= j.flat.low) | (y >= j.flat.high) ? 0 : sum;
    }
    if (E && j.dres && j.in.more) {
        const few<T, V> kept = few_of<T, V>(d);
#pragma unroll
        for (int v = 0; v < V; v++)
            d[v] = number(kept, v);
    }
}

/* --- two passes ------------------------------------------------------------------------------------------------ */

/* The sums of the gradient and of the gradient times src - mean over the block's part, into room.total; and dres. `x`
 * are the first rows, read before; `from` is where those of ddst lie. STASH: src and ddst stay in shared memory. */
template <bool STASH, class T, int V, bool E>
static __device__ __forceinline__ void sum_slopes(const backward &j, const walk &w, trail from, rows<T, V, E> x,
                                                  room *r)
{
    const affine<V> f = affine_get<V>(r, w);
    float sum[V] = {0}, product[V] = {0};
    int64_t at = w.all.at;
    for (int k = 0; k < w.count; k += x.N) {
#pragma unroll
        for (int i = 0; i < x.N; i++, at += w.all.step) {
            float d[V];
            if (k + i >= w.count)
                continue;
            if (STASH) {
                stash_of<T, V>()[(k + i) * blockDim.x] = x.src[i];
                stash_of<T, V>()[(j.f.deep + k + i) * blockDim.x] = x.ddst[i];
            }
            passes(d, j, x, f, i);
#pragma unroll
            for (int v = 0; v < V; v++) {
                sum[v] += d[v];
                product[v] = fmaf(d[v], number(x.src[i], v) - f.mean[v], product[v]);
            }
            if (j.dres)
                put<T, V>(j.dres, at, d, false);
        }
        from.at += x.N * from.step;
        rows_get<STASH ? LAST : AGAIN>(&x, j, w, from, k + x.N, at);
    }
    block_sums<V>(j.f.lanes, sum, product, r);
}

/* What the sums of a channel say, from room.total. */
static __device__ __forceinline__ void finish_slopes(const backward &j, const own &o, room *r)
{
    if (o.mine) {
        const double sum = r->total[0][threadIdx.x], product = r->total[1][threadIdx.x];
        const double inverse = inverse_of(o.var, j.epsilon);
        if (blockIdx.y == 0 && j.dwei) {
            j.dwei[o.c] = (float)(product * inverse);
            j.dbia[o.c] = (float)sum;
        }
        r->level[threadIdx.x] = j.flows ? (float)(sum * j.f.share) : 0;
        r->tilt[threadIdx.x] = j.flows ? (float)(inverse * inverse * product * j.f.share) : 0;
    }
    __syncthreads();
}

/* dsrc = scale (gradient - level - (src - mean) tilt). It may lie where an input lies. */
template <int FROM, class T, int V, bool E>
static __device__ __forceinline__ void write_slopes(const backward &j, const walk &w, trail from, rows<T, V, E> x,
                                                    const room *r)
{
    const affine<V> f = affine_get<V>(r, w);
    float level[V], tilt[V];
    int64_t at = w.all.at;
#pragma unroll
    for (int v = 0; v < V; v++) {
        level[v] = r->level[w.first + v];
        tilt[v] = r->tilt[w.first + v];
    }
    for (int k = 0; k < w.count; k += x.N) {
#pragma unroll
        for (int i = 0; i < x.N; i++, at += w.all.step) {
            float d[V];
            if (k + i >= w.count)
                continue;
            passes(d, j, x, f, i);
#pragma unroll
            for (int v = 0; v < V; v++)
                d[v] = f.scale[v] * (d[v] - level[v] - (number(x.src[i], v) - f.mean[v]) * tilt[v]);
            put<T, V>(j.dsrc, at, d, j.streams);
        }
        from.at += x.N * from.step;
        rows_get<FROM>(&x, j, w, from, k + x.N, at);
    }
}

/* --- kernels --------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ void set_own_affine(const backward &j, const own &o, room *r)
{
    if (o.mine)
        set_affine(r, o, o.mean, o.var, j.epsilon);
}

/* A block with its slice whole: all that the second pass reads is in the cache, and dres of no use to it. */
template <class T, int V, bool E>
static __global__ void __launch_bounds__(WHOLE_THREADS, 1) grad_whole(const backward j)
{
    __shared__ room r;
    const walk w = walk_of<T, V>(j.f, false);
    const own o = own_of(j.f, j.in);
    const trail from = trail_of<T, V>(j.f, j.pixel, false);
    rows<T, V, E> x;
    rows_get<AGAIN>(&x, j, w, from, 0, w.all.at);
    set_own_affine(j, o, &r);
    __syncthreads();
    sum_slopes<false>(j, w, from, x, &r);
    finish_slopes(j, o, &r);
    rows_get<AGAIN>(&x, j, w, from, 0, w.all.at);
    write_slopes<AGAIN>(j, w, from, x, &r);
}

/* One launch, a block with a part; for src and ddst alone. */
template <class T, int V> static __global__ void __launch_bounds__(WHOLE_THREADS, 1) grad_stashed(const backward j)
{
    __shared__ room r;
    const walk w = walk_of<T, V>(j.f, false);
    const own o = own_of(j.f, j.in);
    const trail from = trail_of<T, V>(j.f, j.pixel, false);
    rows<T, V, false> x;
    rows_get<LAST>(&x, j, w, from, 0, w.all.at);
    set_own_affine(j, o, &r);
    __syncthreads();
    sum_slopes<true>(j, w, from, x, &r);
    put_part(j.sums, j.f, o, &r);
    wait_for_parts(j.arrivals, j.f.parts);
    add_parts(j.sums, j.f, &r);
    finish_slopes(j, o, &r);
    rows_get<STASHED>(&x, j, w, from, 0, w.all.at);
    write_slopes<STASHED>(j, w, from, x, &r);
}

/* Two launches: the sums of a part, and dres. */
template <class T, int V, bool E>
static __global__ void __launch_bounds__(BLOCK_THREADS, 1) grad_sums(const backward j)
{
    __shared__ room r;
    const walk w = walk_of<T, V>(j.f, false);
    const own o = own_of(j.f, j.in);
    const trail from = trail_of<T, V>(j.f, j.pixel, false);
    rows<T, V, E> x;
    rows_get<AGAIN>(&x, j, w, from, 0, w.all.at);
    set_own_affine(j, o, &r);
    __syncthreads();
    sum_slopes<false>(j, w, from, x, &r);
    put_part(j.sums, j.f, o, &r);
}

/* And the elements of a part. */
template <class T, int V, bool E>
static __global__ void __launch_bounds__(BLOCK_THREADS, 1) grad_elements(const backward j)
{
    __shared__ room r;
    const walk w = walk_of<T, V>(j.f, true);
    const own o = own_of(j.f, j.in);
    const trail from = trail_of<T, V>(j.f, j.pixel, true);
    rows<T, V, E> x;
    rows_get<LAST>(&x, j, w, from, 0, w.all.at);
    add_parts(j.sums, j.f, &r);
    set_own_affine(j, o, &r);
    finish_slopes(j, o, &r);
    write_slopes<LAST>(j, w, from, x, &r);
}

/* --- starting them --------------------------------------------------------------------------------------------- */

typedef enum pass { PASS_SUMS, PASS_ELEMENTS, PASS_BOTH } pass;

template <class T, int V, bool E> static void start_rows(const backward &j, pass p, cudaStream_t stream)
{
    const dim3 grid(j.f.slices, j.f.parts);
    if (p == PASS_BOTH)
        grad_whole<T, V, E><<<grid, j.f.threads, 0, stream>>>(j);
    else if (p == PASS_SUMS)
        grad_sums<T, V, E><<<grid, j.f.threads, 0, stream>>>(j);
    else
        grad_elements<T, V, E><<<grid, j.f.threads, 0, stream>>>(j);
}

template <class T> static void start_pass(const backward &j, pass p, cudaStream_t stream)
{
    const bool extra = j.in.more || j.in.dst;
    if (j.f.each == 4 && extra)
        start_rows<T, 4, true>(j, p, stream);
    else if (j.f.each == 4)
        start_rows<T, 4, false>(j, p, stream);
    else
        start_rows<T, 1, true>(j, p, stream);
}

template <class T> static void start(backward j, cudaStream_t stream)
{
    if (j.f.whole) {
        start_pass<T>(j, PASS_BOTH, stream);
        return;
    }
    if (j.f.each == 4 && start_stashed<backward>(grad_stashed<T, 4>, j, stream))
        return;
    start_pass<T>(j, PASS_SUMS, stream);
    if (j.dres) { /* is there now */
        j.in.ddst = j.dres;
        j.pixel = j.f.C;
        j.in.more = j.in.dst = j.dres = NULL;
        j.flat = bounds_of(ACT_NONE);
    }
    start_pass<T>(j, PASS_ELEMENTS, stream);
}

static spread grad_spread(const void *attr, const shape *src, dtype type, const cuda_queue *q)
{
    const batchnorm_attr *t = (const batchnorm_attr *)attr;
    return spread_passes(src, type, 2 + t->sums + t->reads_dst, t->sums || t->reads_dst ? 0 : 2, WHOLE_THREADS, q);
}

static int64_t grad_workspace(const graph *g, const node *n)
{
    const value *src = &g->values[n->in[0]];
    const spread f = grad_spread(n->attr, &src->shape, input_format(g, n, 0).storage, queue_of_graph(g));
    return spread_workspace(&f);
}

/* Told from what was stored: in 16 bits that is 6 already for what comes near it, and 0 for what is next to nothing.
 */
static bounds flat_of(activation act, bool is_bf16)
{
    const bounds b = bounds_of(act);
    return is_bf16 ? (bounds){b.low + 0x1p-134f, b.high - 0x1p-6f} : b;
}

static void grad_start(const step *s, bool flows)
{
    const batchnorm_attr *t = (const batchnorm_attr *)s->attr;
    const backward j = {.in = batchnorm_args_in(s, false, false),
                        .pixel = s->in[1].pixel,
                        .dsrc = s->out[0].data,
                        .dres = t->keeps_dres ? s->out[s->nout - 1].data : NULL,
                        .dwei = t->affine ? (float *)s->out[1].data : NULL,
                        .dbia = t->affine ? (float *)s->out[2].data : NULL,
                        .sums = (double *)s->workspace,
                        .arrivals = queue_of(s)->arrivals,
                        .f = grad_spread(t, &s->in[0].shape, s->in[0].format.storage, queue_of(s)),
                        .epsilon = t->epsilon,
                        .flat = flat_of(t->flat, s->in[0].format.storage == BF16),
                        .flows = flows,
                        .streams = is_beyond_cache(s, &s->out[0])};
    BY_TYPE(s->in[0].format.storage, start, j, stream_of(s));
}

static brasa_status train_grad_run(const step *s)
{
    grad_start(s, true);
    return cuda_started(s);
}

static brasa_status eval_grad_run(const step *s)
{
    grad_start(s, false);
    return cuda_started(s);
}

CUDA_KERNELS(batchnorm_grad) = {
    {"batchnorm_train_grad",
     {.name = "batchnorm_train_grad_cuda",
      .real = F32,
      .formats = channels_formats,
      .parts_in = 2, /* ddst */
      .workspace = grad_workspace,
      .run = train_grad_run}},
    {"batchnorm_eval_grad",
     {.name = "batchnorm_eval_grad_cuda",
      .real = F32,
      .formats = channels_formats,
      .parts_in = 2, /* ddst */
      .workspace = grad_workspace,
      .run = eval_grad_run}},
    CUDA_END,
};
