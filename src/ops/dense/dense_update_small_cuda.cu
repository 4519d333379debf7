/* dense_update_small_cuda.cu - what a step of training by SGD does to a dense layer's weights, with few samples, on
 * NVIDIA GPUs and in 16 bits: the gradient of the data, that of the weights and the update, in one pass over them.
 *
 * All is bound by memory: of a weight, both planes and the velocity are read and written, 12 bytes, and nothing else.
 * The gradient of the data is made of the first plane, as it was before, which is what the forward pass reads;
 * the gradient of the weights is not rounded, as it is not stored. N samples, C inputs, K outputs.
 */
#include "ops/dense/dense_few.cuh"
#include "ops/sgd/sgd_rule.cuh"
#include "ops/update_now.cuh"

extern "C" {
#include "ops/dense/dense.h"
}

/* Smaller layers' gradients are better updated together with all others. */
enum { LEAST_WEIGHTS = 1 << 20 };
enum { P = 8, TILE = 32 * P, AHEAD = 2 }; /* weights of a lane, 16 bytes of each tensor; of a warp; rows at once */

typedef struct tensors {
    const bf16 *src, *ddst;
    uint16_t *wei, *velocity; /* velocity may be NULL */
    float *dbia;              /* or NULL */
    bf16 *dsrc;
    int64_t plane;
} tensors;

/* P weights of a row, on their way. */
typedef struct eight {
    uint4 upper, lower, velocity;
} eight;

static __device__ __forceinline__ eight load_eight(const tensors &t, int64_t at)
{
    eight e;
    e.upper = *(const uint4 *)(t.wei + at);
    e.lower = *(const uint4 *)(t.wei + t.plane + at);
    e.velocity = t.velocity ? *(const uint4 *)(t.velocity + at) : make_uint4(0, 0, 0, 0);
    return e;
}

static __device__ __forceinline__ unsigned word_at(const uint4 &x, int i)
{
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

static __device__ __forceinline__ void set_word(uint4 &x, int i, unsigned to)
{
    (i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w) = to;
}

/* Two weights by their gradients, words of each tensor. */
static __device__ __forceinline__ void update_two(const rule &r, const float *gradient, unsigned &upper,
                                                  unsigned &lower, unsigned &velocity)
{
    unsigned u = 0, l = 0, v = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int shift = 16 * i;
        float w = __uint_as_float(split_join((uint16_t)(upper >> shift), (uint16_t)(lower >> shift)));
        float speed = __uint_as_float((velocity >> shift & 0xffffu) << 16);
        rule_apply(r, gradient[i], &w, &speed, NULL);
        const uint32_t whole = split_whole(__float_as_uint(w));
        u |= (uint32_t)split_upper(whole) << shift;
        l |= (uint32_t)split_lower(whole) << shift;
        v |= (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(speed)) << shift;
    }
    upper = u;
    lower = l;
    velocity = v;
}

/* What one row of weights adds to the gradients of the data, and its update. */
template <int N, bool DATA>
static __device__ __forceinline__ void do_row(const rule &r, const tensors &t, int64_t at, eight e,
                                              const float (&ddst)[N], const float (&src)[N][P], float (&sum)[N][P])
{
#pragma unroll
    for (int i = 0; i < P / 2; i++) {
        unsigned upper = word_at(e.upper, i), lower = word_at(e.lower, i), velocity = word_at(e.velocity, i);
        float w[2], gradient[2] = {0, 0};
        take_apart(upper, w);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                if (DATA)
                    sum[n][2 * i + j] += ddst[n] * w[j];
                gradient[j] += ddst[n] * src[n][2 * i + j];
            }
        update_two(r, gradient, upper, lower, velocity);
        set_word(e.upper, i, upper);
        set_word(e.lower, i, lower);
        set_word(e.velocity, i, velocity);
    }
    *(uint4 *)(t.wei + at) = e.upper;
    *(uint4 *)(t.wei + t.plane + at) = e.lower;
    if (t.velocity)
        *(uint4 *)(t.velocity + at) = e.velocity;
}

/* A warp takes every eighth row of the block's part. */
template <int N, bool DATA>
static __global__ void __launch_bounds__(THREADS, 2)
    update_rows(tensors t, dense_sizes d, split s, part_sums sums, const __grid_constant__ sgd_attr attr,
                update_source from)
{
    __shared__ __align__(16) float row[MOST_ROWS][N];
    __shared__ rule made;
    const int64_t tile = blockIdx.x % s.tiles, first = blockIdx.x / s.tiles * s.rows;
    const int rows = (int)(d.K - first < s.rows ? d.K - first : s.rows);
    const int64_t c = tile * TILE + threadIdx.x % 32 * P;
    if (threadIdx.x == 0)
        made = rule_make(attr, update_now(attr.base, from));
    lay_ddst(t.ddst, d, first, rows, row); /* ends with a barrier */
    const rule r = made;
    if (t.dbia && tile == 0 && (int)threadIdx.x < rows) {
        float all = 0;
        for (int n = 0; n < N; n++)
            all += row[threadIdx.x][n];
        t.dbia[first + threadIdx.x] = all;
    }
    float src[N][P] = {}, sum[N][P] = {};
#pragma unroll
    for (int n = 0; n < N; n++)
        if (n < d.N && c < d.C)
            load(t.src + n * d.C + c, src[n]);
    const int end = c < d.C ? rows : 0;
    const int64_t start = first * d.C + c;
    int k = threadIdx.x / 32;
    for (; k + (AHEAD - 1) * WARPS < end; k += AHEAD * WARPS) {
        eight e[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            e[j] = load_eight(t, start + (k + j * WARPS) * d.C);
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            do_row<N, DATA>(r, t, start + (k + j * WARPS) * d.C, e[j], row[k + j * WARPS], src, sum);
    }
    for (; k < end; k += WARPS)
        do_row<N, DATA>(r, t, start + k * d.C, load_eight(t, start + k * d.C), row[k], src, sum);
    if constexpr (DATA) {
        __shared__ warp_parts<N, P> warps;
        add_parts(sum, warps, t.dsrc, d, s, sums);
    }
}

/* --- starting it ----------------------------------------------------------------------------------------------- */

static split split_of(const cuda_queue *q, const dense_sizes *d)
{
    return split_for(q, d, TILE, 32, MOST_ROWS, 4);
}

template <int N, bool DATA> static void start(const step *s, const tensors &t, const dense_sizes &d)
{
    const split p = split_of(queue_of(s), &d);
    const part_sums sums = {(float *)s->workspace, (unsigned *)s->state};
    const fused_update_attr *a = (const fused_update_attr *)s->attr;
    update_source from = {};
    from.rate = (const float *)s->in[FUSED_WEI + 1].data;
    from.steps = (const int64_t *)s->in[FUSED_WEI + 2].data;
    update_rows<N, DATA><<<(unsigned)(p.tiles * p.parts), THREADS, 0, stream_of(s)>>>(
        t, d, p, sums, *(const sgd_attr *)a->update.attr, from);
}

/* in: src, ddst, wei, rate, steps [, velocity]; out: wei [, velocity] [, dbia] [, dsrc] */
static brasa_status run(const step *s)
{
    const dense_sizes d = dense_sizes_of(&s->in[0].shape, &s->in[1].shape);
    const arg *dsrc = dense_update_dsrc(s);
    const int slots = fused_slots(s->node), dbia = 1 + slots;
    tensors t = {};
    t.src = (const bf16 *)s->in[0].data;
    t.ddst = (const bf16 *)s->in[1].data;
    t.wei = (uint16_t *)s->out[0].data;
    t.velocity = slots ? (uint16_t *)s->out[1].data : NULL;
    t.dbia = s->nout - (dsrc ? 1 : 0) > dbia ? (float *)s->out[dbia].data : NULL;
    t.dsrc = dsrc ? (bf16 *)dsrc->data : NULL;
    t.plane = split_plane(s->out[0].count);
    if (d.N <= 1)
        dsrc ? start<1, true>(s, t, d) : start<1, false>(s, t, d);
    else if (d.N <= 2)
        dsrc ? start<2, true>(s, t, d) : start<2, false>(s, t, d);
    else if (d.N <= 4)
        dsrc ? start<4, true>(s, t, d) : start<4, false>(s, t, d);
    else
        start<FEW, false>(s, t, d);
    return cuda_started(s);
}

/* --- the kernel ------------------------------------------------------------------------------------------------ */

static dense_sizes sizes_of(const graph *g, const node *n)
{
    return dense_sizes_of(&g->values[n->in[0]].shape, &g->values[n->in[1]].shape);
}

static bool supports(const graph *g, const node *n)
{
    const fused_update_attr *a = (const fused_update_attr *)n->attr;
    const dense_sizes d = sizes_of(g, n);
    const value *wei = &g->values[n->in[FUSED_WEI]];
    return g->precision == BRASA_BF16 && strcmp(a->update.op->name, "sgd") == 0 && d.N <= (a->data ? 4 : FEW) &&
           d.C % P == 0 && d.K * d.C >= LEAST_WEIGHTS && (!wei->settled || wei->format.storage == SPLIT_F32) &&
           dense_update_cuda_optimizer(g, n) != NULL;
}

static brasa_status open(graph *g, node *n)
{
    const dense_sizes d = sizes_of(g, n);
    const split s = split_of(queue_of_graph(g), &d);
    return ((const fused_update_attr *)n->attr)->data ? part_sums_open(g, n, &s) : BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    const dense_sizes d = sizes_of(g, n);
    const split s = split_of(queue_of_graph(g), &d);
    return ((const fused_update_attr *)n->attr)->data ? part_sums_bytes(&d, &s) : 0;
}

CUDA_KERNELS(dense_update_small) = {
    {"dense_update",
     {.name = "dense_update_small_cuda",
      .real = F32,
      .supports = supports,
      .formats = dense_update_cuda_formats,
      .open = open,
      .close = cuda_counters_close,
      .workspace = workspace,
      .run = run}},
    CUDA_END,
};
