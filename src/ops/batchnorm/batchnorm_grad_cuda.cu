/* batchnorm_grad_cuda.cu - the gradient of batch normalization on NVIDIA GPUs. Where dres is wanted the first pass
 * writes it, and the second one reads it in place of all that it was made of. */
#include "ops/batchnorm/channels.cuh"

typedef struct backward {
    batchnorm_args in;
    void *dsrc, *dres;  /* dres may be NULL, ... */
    float *dwei, *dbia; /* ... and these */
    float *sums;        /* of the parts */
    spread f;
    float epsilon;
    activation flat;
    bool flows; /* through mean and var */
} backward;

/* --- the gradient behind the activation ------------------------------------------------------------------------ */

/* What it is made of: dres is that already. */
template <class T> struct slope {
    const T *src, *ddst, *more, *dst; /* more and dst may be NULL */
    activation flat;
};

template <class T> static __device__ __forceinline__ slope<T> slope_first(const backward &j)
{
    return {(const T *)j.in.src, (const T *)j.in.ddst, (const T *)j.in.more, (const T *)j.in.dst, j.flat};
}

template <class T> static __device__ __forceinline__ slope<T> slope_second(const backward &j)
{
    if (j.dres)
        return {(const T *)j.in.src, (const T *)j.dres, NULL, NULL, ACT_NONE};
    return slope_first<T>(j);
}

/* Rows that a thread reads at a time: 32 bytes of each tensor. */
template <class T, int V> struct rows {
    static const int N = V == 1 ? 4 : 8 / sizeof(T);
    few<T, V> src[N], ddst[N], more[N], dst[N];
};

template <class T, int V>
static __device__ __forceinline__ void rows_get(rows<T, V> *to, const slope<T> &g, const walk &w, int k)
{
#pragma unroll
    for (int i = 0; i < rows<T, V>::N; i++) {
        const int64_t at = w.at + (k + i) * w.step;
        if (k + i >= w.count)
            continue;
        to->src[i] = get<V>(g.src, at);
        to->ddst[i] = get<V>(g.ddst, at);
        if (g.more)
            to->more[i] = get<V>(g.more, at);
        if (g.dst)
            to->dst[i] = get<V>(g.dst, at);
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

/* What of ddst passes the activation, of channel v of row i. */
template <class T, int V>
static __device__ __forceinline__ float passes(const slope<T> &g, const rows<T, V> &x, const affine<V> &f, int i,
                                               int v)
{
    float d = to_float(x.ddst[i].x[v]);
    if (g.more)
        d += to_float(x.more[i].x[v]);
    if (g.flat == ACT_NONE)
        return d;
    const float y = g.dst ? to_float(x.dst[i].x[v])
                          : stored<T>(normalize(to_float(x.src[i].x[v]), f.mean[v], f.scale[v], f.shift[v]));
    return y <= 0 || (g.flat == ACT_RELU6 && y >= 6) ? 0.f : d;
}

/* --- two passes ------------------------------------------------------------------------------------------------ */

/* The sums of the gradient and of the gradient times src - mean over the block's part, into room.total; and dres. `x`
 * are the first rows, read before. */
template <class T, int V>
static __device__ __forceinline__ void sum_slopes(const backward &j, const walk &w, rows<T, V> x, room *r)
{
    const slope<T> g = slope_first<T>(j);
    const affine<V> f = affine_get<V>(r, w);
    float sum[V] = {0}, product[V] = {0};
    for (int k = 0; k < w.count; k += x.N) {
#pragma unroll
        for (int i = 0; i < x.N; i++) {
            few<T, V> kept;
            if (k + i >= w.count)
                continue;
#pragma unroll
            for (int v = 0; v < V; v++) {
                float d = passes(g, x, f, i, v);
                kept.x[v] = from_float<T>(d);
                if (j.dres)
                    d = to_float(kept.x[v]); /* which the second pass will find */
                sum[v] += d;
                product[v] = fmaf(d, to_float(x.src[i].x[v]) - f.mean[v], product[v]);
            }
            if (j.dres)
                put<V>((T *)j.dres, w.at + (k + i) * w.step, kept);
        }
        rows_get(&x, g, w, k + x.N);
    }
    block_sums<V>(j.f.lanes, sum, product, r);
}

/* What the sums of a channel say, from room.total. */
static __device__ __forceinline__ void finish_slopes(const backward &j, const own &o, room *r)
{
    if (o.mine) {
        const double sum = r->total[0][threadIdx.x], product = r->total[1][threadIdx.x];
        const float inverse = scale_of(1, o.var, j.epsilon);
        if (blockIdx.y == 0 && j.dwei) {
            j.dwei[o.c] = (float)product * inverse;
            j.dbia[o.c] = (float)sum;
        }
        r->level[threadIdx.x] = j.flows ? (float)(sum * j.f.share) : 0;
        r->tilt[threadIdx.x] = j.flows ? inverse * inverse * (float)(product * j.f.share) : 0;
    }
    __syncthreads();
}

/* dsrc = scale (gradient - level - (src - mean) tilt). It may lie where an input lies. */
template <class T, int V>
static __device__ __forceinline__ void write_slopes(const backward &j, const walk &w, rows<T, V> x, const room *r)
{
    const slope<T> g = slope_second<T>(j);
    const affine<V> f = affine_get<V>(r, w);
    float level[V], tilt[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
        level[v] = r->level[w.first + v];
        tilt[v] = r->tilt[w.first + v];
    }
    for (int k = 0; k < w.count; k += x.N) {
#pragma unroll
        for (int i = 0; i < x.N; i++) {
            few<T, V> made;
            if (k + i >= w.count)
                continue;
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float away = to_float(x.src[i].x[v]) - f.mean[v];
                made.x[v] = from_float<T>(f.scale[v] * (passes(g, x, f, i, v) - level[v] - away * tilt[v]));
            }
            put<V>((T *)j.dsrc, w.at + (k + i) * w.step, made);
        }
        rows_get(&x, g, w, k + x.N);
    }
}

/* --- kernels --------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ void set_own_affine(const backward &j, const own &o, room *r)
{
    if (o.mine)
        set_affine(r, o, o.mean, o.var, j.epsilon);
}

/* A block with its slice whole. */
template <class T, int V> static __global__ void __launch_bounds__(BLOCK_THREADS) grad_whole(const backward j)
{
    __shared__ room r;
    const walk w = walk_of<V>(j.f, false);
    const own o = own_of(j.f, j.in);
    rows<T, V> x;
    rows_get(&x, slope_first<T>(j), w, 0);
    set_own_affine(j, o, &r);
    __syncthreads();
    sum_slopes<T, V>(j, w, x, &r);
    rows_get(&x, slope_second<T>(j), w, 0);
    finish_slopes(j, o, &r);
    write_slopes<T, V>(j, w, x, &r);
}

/* Two launches: the sums of a part, and dres. */
template <class T, int V> static __global__ void __launch_bounds__(BLOCK_THREADS) grad_sums(const backward j)
{
    __shared__ room r;
    const walk w = walk_of<V>(j.f, false);
    const own o = own_of(j.f, j.in);
    rows<T, V> x;
    rows_get(&x, slope_first<T>(j), w, 0);
    set_own_affine(j, o, &r);
    __syncthreads();
    sum_slopes<T, V>(j, w, x, &r);
    put_part(j.sums, j.f, o, &r);
}

/* And the elements of a part. */
template <class T, int V> static __global__ void __launch_bounds__(BLOCK_THREADS) grad_elements(const backward j)
{
    __shared__ room r;
    const walk w = walk_of<V>(j.f, true);
    const own o = own_of(j.f, j.in);
    rows<T, V> x;
    rows_get(&x, slope_second<T>(j), w, 0);
    add_parts(j.sums, j.f, &r);
    set_own_affine(j, o, &r);
    finish_slopes(j, o, &r);
    write_slopes<T, V>(j, w, x, &r);
}

/* --- starting them --------------------------------------------------------------------------------------------- */

template <class T, int V> static void start_few(const backward &j, cudaStream_t stream)
{
    const dim3 grid(j.f.slices, j.f.parts);
    if (j.f.whole) {
        grad_whole<T, V><<<grid, j.f.threads, 0, stream>>>(j);
    } else {
        grad_sums<T, V><<<grid, j.f.threads, 0, stream>>>(j);
        grad_elements<T, V><<<grid, j.f.threads, 0, stream>>>(j);
    }
}

template <class T> static void start(const backward &j, cudaStream_t stream)
{
    if (j.f.each == 4)
        start_few<T, 4>(j, stream);
    else
        start_few<T, 1>(j, stream);
}

static spread grad_spread(const void *attr, const shape *src, int processors)
{
    const batchnorm_attr *t = (const batchnorm_attr *)attr;
    return spread_passes(src, 2 + t->sums + t->reads_dst, processors);
}

static int64_t grad_workspace(const graph *g, const node *n)
{
    const spread f = grad_spread(n->attr, &g->values[n->in[0]].shape, queue_of_graph(g)->processors);
    return spread_workspace(&f);
}

static void grad_start(const step *s, bool flows)
{
    const batchnorm_attr *t = (const batchnorm_attr *)s->attr;
    const backward j = {.in = batchnorm_args_in(s, false, false),
                        .dsrc = s->out[0].data,
                        .dres = t->keeps_dres ? s->out[s->nout - 1].data : NULL,
                        .dwei = t->affine ? (float *)s->out[1].data : NULL,
                        .dbia = t->affine ? (float *)s->out[2].data : NULL,
                        .sums = (float *)s->workspace,
                        .f = grad_spread(t, &s->in[0].shape, queue_of(s)->processors),
                        .epsilon = (float)t->epsilon,
                        .flat = t->flat,
                        .flows = flows};
    BY_TYPE(s->in[0].type, start, j, stream_of(s));
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

extern "C" {
extern const backend_kernel batchnorm_grad_cuda[];
const backend_kernel batchnorm_grad_cuda[] = {
    {"batchnorm_train_grad",
     {.name = "batchnorm_train_grad_cuda",
      .real = F32,
      .layouts = channels_layouts,
      .workspace = grad_workspace,
      .run = train_grad_run}},
    {"batchnorm_eval_grad",
     {.name = "batchnorm_eval_grad_cuda",
      .real = F32,
      .layouts = channels_layouts,
      .workspace = grad_workspace,
      .run = eval_grad_run}},
    CUDA_END,
};
}
