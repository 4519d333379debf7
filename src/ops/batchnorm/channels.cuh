/* channels.cuh - what the CUDA kernels of batch norm share: threads spread over channels and pixels, and sums for
 * each channel.
 *
 * Channels lie side by side (NHWC, or vectors): a tensor is rows, the pixels of all samples, of C channels. A thread
 * has 4 channels, or 1 where C is no multiple of 4; a block has a slice of 32 of them or fewer, of 16 bits 64 where
 * that makes even slices: a line of the cache. Its lines of threads take the rows in turn. Everything is bound by
 * memory, and there are two passes over it, one for the sums and one for the elements.
 *
 * Where rows are many they are cut into parts. A first launch takes the sums of each part. In a second one every
 * block adds up those of its slice, of all parts, which are few; then it does the elements, from its last row to the
 * first, for the last ones are still in the cache. What it reads there is not needed again soon and is marked so, and
 * what it writes where that is more than the cache holds: both would drive out rows that are still to be read.
 *
 * Where the parts fit into the processors' shared memory, they stay there between the passes, and there is one
 * launch: all blocks run at the same time, and those of a slice wait for each other's sums. Where rows are few a
 * block has its slice whole, and does both in one launch.
 *
 * Sums are taken in float over a few, and in double over those.
 *
 * The output of the forward pass and the gradient that comes to it may be parts (graph/parts.c): their rows are
 * further apart.
 */
#ifndef OPS_BATCHNORM_CHANNELS_CUH
#define OPS_BATCHNORM_CHANNELS_CUH

#include "device/cuda/cuda.cuh"

extern "C" {
#include "ops/batchnorm/batchnorm.h"
}

/* --- elements ------------------------------------------------------------------------------------------------ */

/* The channels of a thread, as they are stored. Four floats are 16 bytes; of 16 bits, 8 bytes a load are enough for
 * the bandwidth, and more channels a thread would be too many registers. */
template <class T, int V> struct alignas(V * sizeof(T)) few {
    T x[V];
};
/* Two in a register: as an array they would take one each. */
template <> struct alignas(8) few<bf16, 4> {
    unsigned pair[2];
};

template <class T, int V> static __device__ __forceinline__ float number(const few<T, V> &x, int v)
{
    return to_float(x.x[v]);
}

template <> __device__ __forceinline__ float number<bf16, 4>(const few<bf16, 4> &x, int v)
{
    return __uint_as_float(v % 2 ? x.pair[v / 2] & 0xffff0000u : x.pair[v / 2] << 16);
}

template <class T, int V> static __device__ __forceinline__ few<T, V> few_of(const float *x)
{
    few<T, V> y;
#pragma unroll
    for (int v = 0; v < V; v++)
        y.x[v] = from_float<T>(x[v]);
    return y;
}

template <> __device__ __forceinline__ few<bf16, 4> few_of<bf16, 4>(const float *x)
{
    const __nv_bfloat162 first = __floats2bfloat162_rn(x[0], x[1]), second = __floats2bfloat162_rn(x[2], x[3]);
    return {{*(const unsigned *)&first, *(const unsigned *)&second}};
}

/* What a thread reads and writes at once, in bits. */
template <int BYTES> struct bits;
template <> struct bits<2> {
    typedef unsigned short type;
};
template <> struct bits<4> {
    typedef unsigned type;
};
template <> struct bits<8> {
    typedef uint2 type;
};
template <> struct bits<16> {
    typedef uint4 type;
};

/* `at` is in bytes. LAST: it is not read again soon, and may leave the cache first. */
template <class T, int V, bool LAST = false>
static __device__ __forceinline__ few<T, V> get(const void *from, int64_t at)
{
    typedef typename bits<V * sizeof(T)>::type word;
    if (!LAST)
        return *(const few<T, V> *)((const char *)from + at);
    few<T, V> x;
    const word w = __ldcs((const word *)((const char *)from + at));
    memcpy(&x, &w, sizeof x);
    return x;
}

/* streams: it may leave the cache first, too. */
template <class T, int V>
static __device__ __forceinline__ void put(void *to, int64_t at, const float *x, bool streams = false)
{
    typename bits<V * sizeof(T)>::type w;
    const few<T, V> y = few_of<T, V>(x);
    memcpy(&w, &y, sizeof w);
    if (streams)
        __stcs((decltype(w) *)((char *)to + at), w);
    else
        *(few<T, V> *)((char *)to + at) = y;
}

/* 1 / sqrt(var + epsilon), from the variance as it is stored: all kernels find the same bits. What a float says of it
 * is made twice as exact by one step of Newton, which is quicker than root and division in double. */
static __device__ __forceinline__ double inverse_of(float var, double epsilon)
{
    const double square = var + epsilon, first = rsqrtf((float)square);
    const double second = first * (1.5 - 0.5 * square * first * first);
    return isnan(second) ? first : second; /* where one of them is infinite */
}

static __device__ __forceinline__ float scale_of(float wei, float var, double epsilon)
{
    return (float)(wei * inverse_of(var, epsilon));
}

/* In one way only, for the gradient computes it again. */
static __device__ __forceinline__ float normalize(float x, float mean, float scale, float shift)
{
    return fmaf(x - mean, scale, shift);
}

/* An activation is flat at and below `low`, at and above `high`; NaN: there is no such bound. So nothing branches on
 * the activation. */
typedef struct bounds {
    float low, high;
} bounds;

static inline bounds bounds_of(activation act)
{
    return {act == ACT_NONE ? NAN : 0.f, act == ACT_RELU6 ? 6.f : NAN};
}

/* --- how work is spread: decided on the host ------------------------------------------------------------------- */

enum {
    SLICE = 64,              /* channels of a block, at most */
    SLICE_BYTES = 128,       /* of a row */
    BLOCK_THREADS = 1024,    /* at most, and those that a processor has at a time: for 64 registers each */
    WHOLE_THREADS = 512,     /* where a block does both passes: these take more registers */
    WHOLE_ROWS = 4096,       /* of all tensors that are read, where a block has its slice whole, ... */
    WHOLE_BYTES = 160 << 10, /* ... and their size: the second pass finds them in the processor's own cache */
    PROBES = 3,
};

/* What the threads of a block share, for each channel of the slice. */
typedef struct room {
    double warp[BLOCK_THREADS / 32][2][SLICE];
    double total[2][SLICE];
    float base[SLICE];
    float mean[SLICE], scale[SLICE], shift[SLICE]; /* (src - mean) * scale + shift */
    float level[SLICE], tilt[SLICE];
} room;

typedef struct spread {
    int64_t rows, C;
    int64_t probe[PROBES]; /* the first elements of rows here and there */
    double share;          /* 1 / rows */
    int each;              /* channels of a thread */
    int lanes;             /* threads side by side; a power of two, up to 32 */
    int threads;           /* of a block: lines of lanes; a multiple of 32 */
    int slices, parts;     /* the grid */
    int chunk;             /* rows of a part; the last one may have fewer */
    bool whole;            /* one launch does it */
    int deep;              /* rows of a thread that stay in shared memory, at most; 0: none do */
    int stash, most_stash; /* the bytes of these, of all threads; those that a block may have */
} spread;

/* The power of two from `least` on, but at most `most`. */
static inline int power_of_two(int64_t least, int most)
{
    int p = 1;
    while (p < least && p < most)
        p *= 2;
    return p;
}

static inline void set_lanes(spread *f, int lanes)
{
    const int64_t width = lanes * f->each;
    f->lanes = lanes;
    f->slices = (int)((f->C + width - 1) / width);
}

/* `type` is that of the elements. */
static inline spread spread_start(const shape *src, dtype type)
{
    const int64_t C = src->dim[1], rows = shape_count(src) / C, line = SLICE_BYTES / (int64_t)dtype_size(type);
    const int slice = C % line ? SLICE / 2 : (int)line;
    spread f = {.rows = rows, .C = C, .share = 1 / (double)rows, .each = C % 4 ? 1 : 4};
    for (int k = 0; k < PROBES; k++)
        f.probe[k] = rows * (3 * k + 2) / 11 * C; /* not where all pictures begin or end */
    set_lanes(&f, power_of_two(C / f.each, slice / f.each));
    return f;
}

/* Blocks with a part of the rows each, as many as the GPU runs at a time. */
static inline spread spread_parts(const shape *src, dtype type, int processors)
{
    spread f = spread_start(src, type);
    f.threads =
        f.slices <= 4 ? BLOCK_THREADS : BLOCK_THREADS / 2; /* many slices share the processors out better so */
    const int64_t lines = f.threads / f.lanes, blocks = (int64_t)processors * (BLOCK_THREADS / f.threads);
    int64_t parts = blocks / f.slices;
    if (parts > f.rows / (2 * lines))
        parts = f.rows / (2 * lines);
    if (parts < 1)
        parts = 1;
    f.chunk = (int)((f.rows + parts - 1) / parts);
    f.parts = (int)((f.rows + f.chunk - 1) / f.chunk);
    return f;
}

/* The same with parts of `tensors` that stay in shared memory: one block for each processor, nearly all of which must
 * have one. deep is 0 where that cannot be. */
static inline spread spread_stashed(const shape *src, dtype type, int tensors, int threads, const cuda_queue *q)
{
    spread f = spread_start(src, type);
    f.threads = threads;
    const int64_t lines = f.threads / f.lanes, parts = q->processors / f.slices;
    if (f.each == 1 || parts < 1 || f.slices > CUDA_MOST_ARRIVALS || 8 * f.slices * parts < 7 * q->processors)
        return f;
    const int64_t chunk = (f.rows + parts - 1) / parts, deep = (chunk + lines - 1) / lines;
    const int64_t bytes = deep * f.threads * f.each * (int64_t)dtype_size(type) * tensors;
    f.most_stash = (int)q->most_shared - (int)sizeof(room);
    if (bytes > f.most_stash)
        return f;
    f.chunk = (int)chunk;
    f.parts = (int)((f.rows + chunk - 1) / chunk);
    f.deep = (int)deep;
    f.stash = (int)bytes;
    return f;
}

/* The same for two passes; `tensors` are read in the first one, of which `stashed` would have to stay, in blocks of
 * `threads`; 0: that cannot be. With few channels the slices are narrower where a block has its slice whole, so that
 * more processors have one.
 */
static inline spread spread_passes(const shape *src, dtype type, int tensors, int stashed, int threads,
                                   const cuda_queue *q)
{
    spread f = spread_start(src, type);
    while (f.lanes > 1 && 2 * f.slices <= q->processors)
        set_lanes(&f, f.lanes / 2);
    const int64_t rows = f.rows * tensors;
    if (rows > WHOLE_ROWS || rows * f.lanes * f.each * (int64_t)sizeof(float) > WHOLE_BYTES) {
        if (stashed)
            f = spread_stashed(src, type, stashed, threads, q);
        return f.deep ? f : spread_parts(src, type, q->processors);
    }
    const int lines = power_of_two((f.rows + 3) / 4, WHOLE_THREADS / f.lanes);
    const int least = f.lanes * f.each > 32 ? f.lanes * f.each : 32; /* each channel has its thread, see own_of */
    f.threads = f.lanes * lines > least ? f.lanes * lines : least;
    f.chunk = (int)f.rows;
    f.parts = 1;
    f.whole = true;
    return f;
}

/* Two numbers for each channel of each part, and one more. */
static inline int64_t spread_workspace(const spread *f)
{
    return f->whole ? 0 : (2 * (int64_t)f->parts + 1) * f->C * (int64_t)sizeof(double);
}

/* Whether a tensor is more than the cache holds. */
static inline bool is_beyond_cache(const step *s, const arg *a)
{
    return a->count * (int64_t)dtype_size(a->format.storage) > queue_of(s)->cache;
}

/* All tensors of the node's size as its output is, everything else plain. */
static inline void channels_formats(const graph *g, const node *n, format *in, format *out)
{
    const shape *s = &g->values[n->out[0]].shape;
    const format f = cuda_format(g, n->out[0]);
    for (int k = 0; k < n->nin; k++)
        if (shape_equal(&g->values[n->in[k]].shape, s))
            in[k] = f;
    for (int k = 0; k < n->nout; k++)
        if (shape_equal(&g->values[n->out[k]].shape, s))
            out[k] = f;
}

/* --- threads --------------------------------------------------------------------------------------------------- */

/* Where the rows of a thread lie in a tensor: the first one; from one to the next; in bytes. */
typedef struct trail {
    int64_t at, step;
} trail;

/* The elements of a thread: V channels of `count` rows. */
typedef struct walk {
    trail all;  /* in every tensor that is no part */
    int count;  /* 0 too where there is no such channel */
    int first;  /* of its channels, within the slice */
    bool leads; /* it is of the first line */
} walk;

static __device__ __forceinline__ int rows_of(const spread &f)
{
    const int64_t left = f.rows - (int64_t)blockIdx.y * f.chunk;
    return left < f.chunk ? (int)left : f.chunk;
}

/* In a tensor whose rows are `pixel` elements apart. backward: from the last row to the first. */
template <class T, int V>
static __device__ __forceinline__ trail trail_of(const spread &f, int64_t pixel, bool backward)
{
    const int lane = threadIdx.x % f.lanes, line = threadIdx.x / f.lanes, lines = blockDim.x / f.lanes;
    const int64_t c = ((int64_t)blockIdx.x * f.lanes + lane) * V, begin = (int64_t)blockIdx.y * f.chunk;
    const int64_t row = begin + (backward ? rows_of(f) - 1 - line : line);
    return {(row * pixel + c) * (int64_t)sizeof(T), (backward ? -lines : lines) * pixel * (int64_t)sizeof(T)};
}

template <class T, int V> static __device__ __forceinline__ walk walk_of(const spread &f, bool backward)
{
    const int lane = threadIdx.x % f.lanes, line = threadIdx.x / f.lanes, lines = blockDim.x / f.lanes;
    const int64_t c = ((int64_t)blockIdx.x * f.lanes + lane) * V;
    const int rows = rows_of(f);
    walk w;
    w.all = trail_of<T, V>(f, f.C, backward);
    w.count = c < f.C && line < rows ? (rows - 1 - line) / lines + 1 : 0;
    w.first = lane * V;
    w.leads = line == 0;
    return w;
}

/* The first threads of a block have one channel each, for what is done once for a channel. */
typedef struct own {
    int64_t c;
    bool mine; /* there is such a channel */
    float wei, bia, mean, var;
} own;

/* Read early: nothing has to wait for it later. */
static __device__ __forceinline__ own own_of(const spread &f, const batchnorm_args &a)
{
    const int width = f.lanes * f.each;
    own o = {.c = (int64_t)blockIdx.x * width + threadIdx.x, .wei = 1};
    o.mine = (int)threadIdx.x < width && o.c < f.C;
    if (o.mine && a.wei) {
        o.wei = ((const float *)a.wei)[o.c];
        o.bia = ((const float *)a.bia)[o.c];
    }
    if (o.mine && a.mean) {
        o.mean = ((const float *)a.mean)[o.c];
        o.var = ((const float *)a.var)[o.c];
    }
    return o;
}

/* --- one launch for all parts ---------------------------------------------------------------------------------- */

/* Where a thread's rows come from: memory, to be read again soon; memory, for the last time; shared memory. */
enum { AGAIN, LAST, STASHED };

/* The first row of this thread in shared memory; the next one is blockDim.x further on. */
template <class T, int V> static __device__ __forceinline__ few<T, V> *stash_of(void)
{
    extern __shared__ uint4 stash[];
    return (few<T, V> *)stash + threadIdx.x;
}

/* Waits for the other parts of the slice, whose sums are in memory then. All blocks run at the same time:
 * start_stashed sees to it. The last one to go on leaves zeros for the next launch. */
static __device__ __forceinline__ void wait_for_parts(unsigned *arrivals, int parts)
{
    unsigned *come = arrivals + 2 * blockIdx.x, *gone = come + 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(come, 1u);
        while (*(volatile unsigned *)come < (unsigned)parts)
            continue;
        __threadfence();
        if (atomicAdd(gone, 1u) == (unsigned)parts - 1) {
            *(volatile unsigned *)come = 0;
            *(volatile unsigned *)gone = 0;
        }
    }
    __syncthreads();
}

/* Starts a kernel all of whose blocks run at the same time; false: they cannot. J has the spread as `f`. What a
 * kernel may have of shared memory is the same for all nodes: it holds for those, too, that were recorded before. */
template <class J> static bool start_stashed(void (*kernel)(const J), const J &j, cudaStream_t stream)
{
    int blocks = 0;
    cudaLaunchAttribute together = {};
    cudaLaunchConfig_t how = {};
    if (!j.f.deep)
        return false;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, j.f.most_stash) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, j.f.threads, (size_t)j.f.stash) !=
            cudaSuccess ||
        blocks < 1) {
        (void)cudaGetLastError(); /* which is kept otherwise */
        return false;
    }
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    how.gridDim = dim3(j.f.slices, j.f.parts);
    how.blockDim = dim3(j.f.threads);
    how.dynamicSmemBytes = (size_t)j.f.stash;
    how.stream = stream;
    how.attrs = &together;
    how.numAttrs = 1;
    (void)cudaLaunchKernelEx(&how, kernel, j); /* cuda_started tells of errors */
    return true;
}

/* --- sums ------------------------------------------------------------------------------------------------------ */

static __device__ __forceinline__ void set_affine(room *r, const own &o, float mean, float var, double epsilon)
{
    r->mean[threadIdx.x] = mean;
    r->scale[threadIdx.x] = scale_of(o.wei, var, epsilon);
    r->shift[threadIdx.x] = o.bia;
}

/* Adds up `rows` of room.warp into room.total, when all threads are here, and waits. */
static __device__ __forceinline__ void total_of(room *r, int rows, int width)
{
    __syncthreads();
    for (int t = threadIdx.x; t < 2 * SLICE; t += blockDim.x) {
        const int which = t / SLICE, c = t % SLICE;
        double sum[4] = {0}; /* four, for one addition need not wait for the other */
        for (int w = 0; w < rows && c < width; w += 4)
#pragma unroll
            for (int k = 0; k < 4; k++)
                sum[k] += w + k < rows ? r->warp[w + k][which][c] : 0;
        r->total[which][c] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    __syncthreads();
}

/* Adds two numbers, of types A and B, for each of V channels over the lines of a block, into room.total, and waits.
 */
template <int V, class A, class B>
static __device__ __forceinline__ void block_sums(int lanes, A *first, B *second, room *r)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int v = 0; v < V; v++) {
        for (int d = 16; d >= lanes; d >>= 1) {
            first[v] += __shfl_xor_sync(0xffffffffu, first[v], d);
            second[v] += __shfl_xor_sync(0xffffffffu, second[v], d);
        }
        if (lane < lanes) {
            r->warp[warp][0][lane * V + v] = first[v];
            r->warp[warp][1][lane * V + v] = second[v];
        }
    }
    total_of(r, blockDim.x / 32, lanes * V);
}

/* The sums of a part, from room.total into the workspace. */
static __device__ __forceinline__ void put_part(double *sums, const spread &f, const own &o, const room *r)
{
    if (!o.mine)
        return;
    double *to = sums + 2 * blockIdx.y * f.C + o.c;
    to[0] = r->total[0][threadIdx.x];
    to[f.C] = r->total[1][threadIdx.x];
}

/* The sums of all parts, from the workspace into room.total. */
static __device__ __forceinline__ void add_parts(const double *sums, const spread &f, room *r)
{
    const int width = f.lanes * f.each, group = threadIdx.x / width, groups = blockDim.x / width;
    const int own = threadIdx.x % width;
    const int64_t c = (int64_t)blockIdx.x * width + own;
    double first = 0, second = 0;
    if (c < f.C) {
#pragma unroll 4
        for (int p = group; p < f.parts; p += groups) {
            first += __ldcg(sums + 2 * p * f.C + c); /* other processors may have written it just now */
            second += __ldcg(sums + (2 * p + 1) * f.C + c);
        }
    }
    if (width < 32) {
        block_sums<1>(width, &first, &second, r);
    } else { /* a warp has no channel twice */
        r->warp[group][0][own] = first;
        r->warp[group][1][own] = second;
        total_of(r, groups, width);
    }
}

#endif
