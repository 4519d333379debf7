/* avgpool_cuda.cu - average-pooling on a GPU.
 *
 * A thread makes the means of one window; backward it has an input, and goes over the windows that cover it. Means of
 * whole planes are made by a block for some channels of a sample: its threads share out the pixels.
 */
#include "ops/window.cuh"

extern "C" {
#include "ops/avgpool/avgpool.h"
}

/* --- windows ---------------------------------------------------------------------------------------------------- */

/* Pixels under the window of an output along one axis: avgpool_pixels. */
static __device__ __forceinline__ int pixels(const slide &w, bool count_pad, int output)
{
    const places inside = slide_inputs(w, output);
    const int lo = output * w.stride - w.before, hi = lo + w.size, end = w.in + w.after;
    return count_pad ? (hi < end ? hi : end) - lo : inside.hi - inside.lo;
}

template <class T, int V>
static __global__ void avgpool_rows(slide y, slide x, bool count_pad, int64_t N, int C, const T *__restrict__ src,
                                    T *__restrict__ dst)
{
    const int packs = C / V, item = ROW_ITEM, ox = item / packs, c = (item - ox * packs) * V;
    if (ox >= x.out)
        return;
    const places columns = slide_inputs(x, ox);
    EACH_ROW(n, N, oy, y.out)
    {
        const places rows = slide_inputs(y, oy);
        const T *plane = src + n * y.in * x.in * C + c;
        float sum[V] = {};
        for (int iy = rows.lo; iy < rows.hi; iy++)
#pragma unroll 4
            for (int ix = columns.lo; ix < columns.hi; ix++) {
                float seen[V];
                load<T, V>(plane + ((int64_t)iy * x.in + ix) * C, seen);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += seen[v];
            }
        const float count = (float)((int64_t)pixels(y, count_pad, oy) * pixels(x, count_pad, ox));
#pragma unroll
        for (int v = 0; v < V; v++)
            sum[v] /= count;
        store<T, V>(dst + ((n * y.out + oy) * x.out + ox) * C + c, sum);
    }
}

template <class T, int V>
static __global__ void avgpool_grad_rows(slide y, slide x, bool count_pad, int64_t N, int C,
                                         const T *__restrict__ ddst, T *__restrict__ dsrc)
{
    const int packs = C / V, item = ROW_ITEM, ix = item / packs, c = (item - ix * packs) * V;
    if (ix >= x.in)
        return;
    const places columns = slide_outputs(x, ix, 1);
    EACH_ROW(n, N, iy, y.in)
    {
        const places rows = slide_outputs(y, iy, 1);
        const T *plane = ddst + n * y.out * x.out * C + c;
        float sum[V] = {};
        for (int oy = rows.lo; oy < rows.hi; oy++)
#pragma unroll 2
            for (int ox = columns.lo; ox < columns.hi; ox++) {
                const float count = (float)((int64_t)pixels(y, count_pad, oy) * pixels(x, count_pad, ox));
                float d[V];
                load<T, V>(plane + ((int64_t)oy * x.out + ox) * C, d);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += d[v] / count;
            }
        store<T, V>(dsrc + ((n * y.in + iy) * x.in + ix) * C + c, sum);
    }
}

template <class T, int V> static void avgpool_launch(const step *s)
{
    const avgpool_attr *t = (const avgpool_attr *)s->attr;
    const shape *in = &s->in[0].shape, *out = &s->out[0].shape;
    const int64_t N = in->dim[0], C = in->dim[1];
    const rows_grid g = rows_for(out->dim[3] * (C / V), out->dim[2], N);
    avgpool_rows<T, V><<<g.blocks, g.threads, 0, stream_of(s)>>>(
        slide_y(&t->window, in, out), slide_x(&t->window, in, out), t->count_pad, N, (int)C, (const T *)s->in[0].data,
        (T *)s->out[0].data);
}

BY_WIDTH(avgpool_start, avgpool_launch, s->in[0].shape.dim[1])

template <class T, int V> static void avgpool_grad_launch(const step *s)
{
    const avgpool_attr *t = (const avgpool_attr *)s->attr;
    const shape *in = &s->out[0].shape, *out = &s->in[0].shape;
    const int64_t N = in->dim[0], C = in->dim[1];
    const rows_grid g = rows_for(in->dim[3] * (C / V), in->dim[2], N);
    avgpool_grad_rows<T, V><<<g.blocks, g.threads, 0, stream_of(s)>>>(
        slide_y(&t->window, in, out), slide_x(&t->window, in, out), t->count_pad, N, (int)C, (const T *)s->in[0].data,
        (T *)s->out[0].data);
}

BY_WIDTH(avgpool_grad_start, avgpool_grad_launch, s->out[0].shape.dim[1])

/* --- planes ----------------------------------------------------------------------------------------------------- */

enum { PLANE_THREADS = 256, PLANE_PACKS = 32 };

/* threadIdx.x: a pack of channels, threadIdx.y: where it begins in the plane; blockIdx.x: channels, blockIdx.y:
 * samples. */
template <class T, int V>
static __global__ void planes_mean(int64_t N, int64_t HW, int C, float count, const T *__restrict__ src,
                                   T *__restrict__ dst)
{
    __shared__ float room[PLANE_THREADS * V];
    const int width = blockDim.x * V, first = blockIdx.x * width, c = first + threadIdx.x * V;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int64_t n = blockIdx.y; n < N; n += gridDim.y) {
        float sum[V] = {};
        if (c < C) {
            const T *plane = src + n * HW * C + c;
#pragma unroll 4
            for (int64_t i = threadIdx.y; i < HW; i += blockDim.y) {
                float seen[V];
                load<T, V>(plane + i * C, seen);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += seen[v];
            }
        }
        __syncthreads(); /* those of the sample before are read */
#pragma unroll
        for (int v = 0; v < V; v++)
            room[thread * V + v] = sum[v];
        __syncthreads();
        for (int i = thread; i < width && first + i < C; i += blockDim.x * blockDim.y) {
            float total = 0;
            for (int q = 0; q < (int)blockDim.y; q++)
                total += room[q * width + i];
            dst[n * C + first + i] = from_float<T>(total / count);
        }
    }
}

template <class T, int V> static void planes_launch(const step *s, float count)
{
    const shape *in = &s->in[0].shape;
    const int64_t N = in->dim[0], C = in->dim[1], HW = shape_span(in, 2, 4), packs = C / V;
    const int64_t slices = (packs + PLANE_PACKS - 1) / PLANE_PACKS, width = (packs + slices - 1) / slices;
    const int64_t most = PLANE_THREADS / width, walkers = HW < most ? HW : most;
    planes_mean<T, V>
        <<<dim3((unsigned)slices, (unsigned)(N < 65535 ? N : 65535)), dim3((unsigned)width, (unsigned)walkers), 0,
           stream_of(s)>>>(N, HW, (int)C, count, (const T *)s->in[0].data, (T *)s->out[0].data);
}

template <class T> static void planes_start(const step *s, float count)
{
    enum { V = pack<T>::N };
    if (s->in[0].shape.dim[1] % V)
        planes_launch<T, 1>(s, count);
    else
        planes_launch<T, V>(s, count);
}

template <class T, int V>
static __global__ void planes_grad(int64_t N, int H, int W, int C, const T *__restrict__ ddst, T *__restrict__ dsrc)
{
    const int packs = C / V, item = ROW_ITEM, x = item / packs, c = (item - x * packs) * V;
    const float count = (float)((int64_t)H * W);
    if (x >= W)
        return;
    EACH_ROW(n, N, y, H)
    {
        float part[V];
        load<T, V>(ddst + n * C + c, part);
#pragma unroll
        for (int v = 0; v < V; v++)
            part[v] /= count;
        store<T, V>(dsrc + ((n * H + y) * W + x) * C + c, part);
    }
}

template <class T, int V> static void planes_grad_launch(const step *s)
{
    const shape *in = &s->out[0].shape;
    const rows_grid g = rows_for(in->dim[3] * (in->dim[1] / V), in->dim[2], in->dim[0]);
    planes_grad<T, V><<<g.blocks, g.threads, 0, stream_of(s)>>>(
        in->dim[0], (int)in->dim[2], (int)in->dim[3], (int)in->dim[1], (const T *)s->in[0].data, (T *)s->out[0].data);
}

BY_WIDTH(planes_grad_start, planes_grad_launch, s->out[0].shape.dim[1])

/* --- the ops ---------------------------------------------------------------------------------------------------- */

/* Whether one window covers all of an axis. */
static bool covers(const slide &w)
{
    return w.out == 1 && w.size - w.before >= w.in;
}

static float all_pixels(const slide &w, bool count_pad)
{
    const int end = w.in + w.after;
    return (float)(count_pad ? (w.size - w.before < end ? w.size : end + w.before) : w.in);
}

/* in: src; out: dst */
static brasa_status avgpool_run(const step *s)
{
    const avgpool_attr *t = (const avgpool_attr *)s->attr;
    const slide y = slide_y(&t->window, &s->in[0].shape, &s->out[0].shape);
    const slide x = slide_x(&t->window, &s->in[0].shape, &s->out[0].shape);
    if (covers(y) && covers(x))
        BY_TYPE(s->out[0].format.storage, planes_start, s, all_pixels(y, t->count_pad) * all_pixels(x, t->count_pad));
    else
        BY_TYPE(s->out[0].format.storage, avgpool_start, s);
    return cuda_started(s);
}

/* in: ddst; out: dsrc */
CUDA_RUN(avgpool_grad_run, s->out[0].format.storage, avgpool_grad_start)

/* in: src; out: dst */
static brasa_status global_avgpool_run(const step *s)
{
    BY_TYPE(s->out[0].format.storage, planes_start, s, (float)shape_span(&s->in[0].shape, 2, 4));
    return cuda_started(s);
}

/* in: ddst; out: dsrc */
CUDA_RUN(global_avgpool_grad_run, s->out[0].format.storage, planes_grad_start)

CUDA_KERNELS(avgpool) = {
    WINDOW_ROW("avgpool", avgpool_run),
    WINDOW_ROW("avgpool_grad", avgpool_grad_run),
    WINDOW_ROW("global_avgpool", global_avgpool_run),
    WINDOW_ROW("global_avgpool_grad", global_avgpool_grad_run),
    CUDA_END,
};
