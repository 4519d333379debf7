/* window.cuh - for *_cuda.cu: pictures in NHWC, and windows that slide over them.
 *
 * A thread has a few neighbouring channels of a pixel, which it reads and writes at once. A grid goes over the rows
 * of pictures, so that a place is found with one division; where a tensor begins is counted in 64 bits.
 */
#ifndef OPS_WINDOW_CUH
#define OPS_WINDOW_CUH

#include "device/cuda/cuda.cuh"

extern "C" {
#include "ops/window.h"
}

/* --- a few neighbouring elements as they are stored ------------------------------------------------------------ */

template <class T, int V> struct alignas(V * sizeof(T)) lanes {
    T x[V];
};
/* Two to a word: a half of it becomes a float in one instruction. */
template <int V> struct alignas(V * sizeof(bf16)) lanes<bf16, V> {
    uint32_t pair[V / 2];
};
template <> struct lanes<bf16, 1> {
    bf16 x;
};

template <int V> static __device__ __forceinline__ void unpack(const lanes<float, V> &from, float *to)
{
#pragma unroll
    for (int i = 0; i < V; i++)
        to[i] = from.x[i];
}

template <int V> static __device__ __forceinline__ void unpack(const lanes<bf16, V> &from, float *to)
{
#pragma unroll
    for (int i = 0; i < V / 2; i++) {
        to[2 * i] = __uint_as_float(from.pair[i] << 16);
        to[2 * i + 1] = __uint_as_float(from.pair[i] & 0xffff0000u);
    }
}

static __device__ __forceinline__ void unpack(const lanes<bf16, 1> &from, float *to)
{
    to[0] = to_float(from.x);
}

template <int V> static __device__ __forceinline__ void pack_up(const float *from, lanes<float, V> &to)
{
#pragma unroll
    for (int i = 0; i < V; i++)
        to.x[i] = from[i];
}

template <int V> static __device__ __forceinline__ void pack_up(const float *from, lanes<bf16, V> &to)
{
#pragma unroll
    for (int i = 0; i < V / 2; i++) {
        const __nv_bfloat162_raw both = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
        to.pair[i] = (uint32_t)both.y << 16 | both.x;
    }
}

static __device__ __forceinline__ void pack_up(const float *from, lanes<bf16, 1> &to)
{
    to.x = from_float<bf16>(from[0]);
}

/* What is stored at `from`, which is aligned to all of it; zeros where it is not inside. */
template <class T, int V> static __device__ __forceinline__ lanes<T, V> fetch(const T *from, bool inside)
{
    lanes<T, V> got = {};
    if (inside)
        got = *(const lanes<T, V> *)from;
    return got;
}

template <class T, int V> static __device__ __forceinline__ void load(const T *from, float *to)
{
    const lanes<T, V> got = *(const lanes<T, V> *)from;
    unpack(got, to);
}

template <class T, int V> static __device__ __forceinline__ void store(T *to, const float *from)
{
    lanes<T, V> made;
    pack_up(from, made);
    *(lanes<T, V> *)to = made;
}

/* --- activations ------------------------------------------------------------------------------------------------ */

/* What an activation lets through, without a branch: NaN too. */
typedef struct limits {
    float low, high;
} limits;

static __device__ __forceinline__ limits limits_of(activation act)
{
    return limits{act == ACT_NONE ? -INFINITY : 0.f, act == ACT_RELU6 ? 6.f : INFINITY};
}

static __device__ __forceinline__ float limit(float x, const limits &l)
{
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(l.low));
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(l.high));
    return x;
}

/* --- windows ---------------------------------------------------------------------------------------------------- */

/* One axis, as `window` has it. */
typedef struct slide {
    int in, out;
    int size, stride, dilation, before, after;
} slide;

static inline slide slide_y(const window_attr *t, const shape *src, const shape *dst)
{
    return slide{(int)src->dim[2], (int)dst->dim[2], t->size.h,    t->stride.h,
                 t->dilation.h,    t->pad.top,       t->pad.bottom};
}

static inline slide slide_x(const window_attr *t, const shape *src, const shape *dst)
{
    return slide{(int)src->dim[3], (int)dst->dim[3], t->size.w,   t->stride.w,
                 t->dilation.w,    t->pad.left,      t->pad.right};
}

typedef struct places { /* lo, lo + 1, ..., hi - 1 */
    int lo, hi;
} places;

/* The inputs that an output's window covers; dilation is 1. */
static __device__ __forceinline__ places slide_inputs(const slide &w, int output)
{
    const int lo = output * w.stride - w.before, hi = lo + w.size;
    return places{lo > 0 ? lo : 0, hi < w.in ? hi : w.in};
}

/* The outputs whose windows cover one of `count` inputs from `input` on, which is not before the padding. */
static __device__ __forceinline__ places slide_outputs(const slide &w, int input, int count)
{
    const int at = input + w.before, last = (at + count - 1) / w.stride + 1;
    return places{at < w.size ? 0 : (at - w.size) / w.stride + 1, last < w.out ? last : w.out};
}

/* --- rows ------------------------------------------------------------------------------------------------------- */

/* x: the items of a row, one for a thread; y: rows; z: samples. */
typedef struct rows_grid {
    dim3 blocks;
    int threads;
} rows_grid;

static inline rows_grid rows_for(int64_t items, int64_t rows, int64_t samples)
{
    enum { THREADS = 256, MOST = 65535 };
    const int64_t blocks = (items + THREADS - 1) / THREADS, each = (items + blocks - 1) / blocks;
    rows_grid r;
    r.blocks =
        dim3((unsigned)blocks, (unsigned)(rows < MOST ? rows : MOST), (unsigned)(samples < MOST ? samples : MOST));
    r.threads = (int)(each + 31) / 32 * 32;
    return r;
}

#define ROW_ITEM ((int)(blockIdx.x * blockDim.x + threadIdx.x))
#define EACH_ROW(sample, samples, row, rows)                                                                         \
    for (int64_t sample = blockIdx.z; sample < (samples); sample += gridDim.z)                                       \
        for (int row = blockIdx.y; row < (rows); row += gridDim.y)

/* --- hooks of kernels ------------------------------------------------------------------------------------------- */

/* Places within a row, and within a column, are ints. */
static inline bool picture_fits(const shape *s)
{
    return s->rank != 4 || (s->dim[1] <= INT32_MAX / s->dim[3] && s->dim[2] <= INT32_MAX / 2);
}

static inline bool window_fits(const graph *g, const node *n)
{
    bool fits = true;
    for (int k = 0; k < n->nin; k++)
        fits = fits && picture_fits(&g->values[n->in[k]].shape);
    for (int k = 0; k < n->nout; k++)
        fits = fits && picture_fits(&g->values[n->out[k]].shape);
    return fits;
}

/* NHWC, and stored alike whatever a value is: a kernel knows one type. */
static inline format picture_format(const graph *g, int v)
{
    format f = format_plain(g->values[v].type);
    if (g->values[v].shape.rank != 4)
        return f;
    layout *l = &f.layout;
    l->permuted = 1;
    l->order[0] = 0, l->order[1] = 2, l->order[2] = 3, l->order[3] = 1; /* of winners too, which are no floats */
    f.storage = precision_product(g, v);
    return f;
}

static inline void window_formats(const graph *g, const node *n, format *in, format *out)
{
    for (int k = 0; k < n->nin; k++)
        in[k] = picture_format(g, n->in[k]);
    for (int k = 0; k < n->nout; k++)
        out[k] = picture_format(g, n->out[k]);
}

#define WINDOW_ROW(operation, run_hook)                                                                              \
    {                                                                                                                \
        operation,                                                                                                   \
        {                                                                                                            \
            .name = operation "_cuda", .real = F32, .supports = window_fits, .formats = window_formats,              \
            .run = run_hook                                                                                          \
        }                                                                                                            \
    }

#endif
