/* adaptive_avgpool_cuda.cu - means that make planes of a given size, on a GPU: a thread makes one output, or backward
 * one input. Which pixels an output is the mean of, and which outputs a pixel is in, is worked out in 64 bits. */
#include "ops/window.cuh"

/* axis_inputs: floor(o in / out) ... ceil((o + 1) in / out) - 1. With `in` and `out` exchanged, the outputs that an
 * input is in. */
static __device__ __forceinline__ places share_of(int from, int to, int i)
{
    return places{(int)((int64_t)i * from / to), (int)(((int64_t)(i + 1) * from + to - 1) / to)};
}

typedef struct planes {
    int H, W, height, width, C;
    int64_t N;
} planes;

template <class T, int V>
static __global__ void adaptive_rows(planes p, const T *__restrict__ src, T *__restrict__ dst)
{
    const int packs = p.C / V, item = ROW_ITEM, ox = item / packs, c = (item - ox * packs) * V;
    if (ox >= p.width)
        return;
    const places columns = share_of(p.W, p.width, ox);
    EACH_ROW(n, p.N, oy, p.height)
    {
        const places rows = share_of(p.H, p.height, oy);
        const T *plane = src + n * p.H * p.W * p.C + c;
        const float count = (float)((int64_t)(rows.hi - rows.lo) * (columns.hi - columns.lo));
        float sum[V] = {};
        for (int iy = rows.lo; iy < rows.hi; iy++)
#pragma unroll 4
            for (int ix = columns.lo; ix < columns.hi; ix++) {
                float seen[V];
                load<T, V>(plane + ((int64_t)iy * p.W + ix) * p.C, seen);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += seen[v];
            }
#pragma unroll
        for (int v = 0; v < V; v++)
            sum[v] /= count;
        store<T, V>(dst + ((n * p.height + oy) * p.width + ox) * p.C + c, sum);
    }
}

template <class T, int V>
static __global__ void adaptive_grad_rows(planes p, const T *__restrict__ ddst, T *__restrict__ dsrc)
{
    const int packs = p.C / V, item = ROW_ITEM, ix = item / packs, c = (item - ix * packs) * V;
    if (ix >= p.W)
        return;
    const places columns = share_of(p.width, p.W, ix);
    EACH_ROW(n, p.N, iy, p.H)
    {
        const places rows = share_of(p.height, p.H, iy);
        const T *plane = ddst + n * p.height * p.width * p.C + c;
        float sum[V] = {};
        for (int oy = rows.lo; oy < rows.hi; oy++) {
            const places high = share_of(p.H, p.height, oy);
            for (int ox = columns.lo; ox < columns.hi; ox++) {
                const places wide = share_of(p.W, p.width, ox);
                const float count = (float)((int64_t)(high.hi - high.lo) * (wide.hi - wide.lo));
                float d[V];
                load<T, V>(plane + ((int64_t)oy * p.width + ox) * p.C, d);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += d[v] / count;
            }
        }
        store<T, V>(dsrc + ((n * p.H + iy) * p.W + ix) * p.C + c, sum);
    }
}

static planes planes_of(const shape *in, const shape *out)
{
    return planes{(int)in->dim[2], (int)in->dim[3], (int)out->dim[2], (int)out->dim[3], (int)in->dim[1], in->dim[0]};
}

template <class T, int V> static void adaptive_launch(const step *s)
{
    const shape *out = &s->out[0].shape;
    const rows_grid g = rows_for(out->dim[3] * (out->dim[1] / V), out->dim[2], out->dim[0]);
    adaptive_rows<T, V><<<g.blocks, g.threads, 0, stream_of(s)>>>(planes_of(&s->in[0].shape, out),
                                                                  (const T *)s->in[0].data, (T *)s->out[0].data);
}

BY_WIDTH(adaptive_start, adaptive_launch, s->in[0].shape.dim[1])

template <class T, int V> static void adaptive_grad_launch(const step *s)
{
    const shape *in = &s->out[0].shape;
    const rows_grid g = rows_for(in->dim[3] * (in->dim[1] / V), in->dim[2], in->dim[0]);
    adaptive_grad_rows<T, V><<<g.blocks, g.threads, 0, stream_of(s)>>>(planes_of(in, &s->in[0].shape),
                                                                       (const T *)s->in[0].data, (T *)s->out[0].data);
}

BY_WIDTH(adaptive_grad_start, adaptive_grad_launch, s->out[0].shape.dim[1])

/* in: src; out: dst */
CUDA_RUN(adaptive_avgpool_run, s->out[0].format.storage, adaptive_start)

/* in: ddst; out: dsrc */
CUDA_RUN(adaptive_avgpool_grad_run, s->out[0].format.storage, adaptive_grad_start)

CUDA_KERNELS(adaptive_avgpool) = {
    WINDOW_ROW("adaptive_avgpool", adaptive_avgpool_run),
    WINDOW_ROW("adaptive_avgpool_grad", adaptive_avgpool_grad_run),
    CUDA_END,
};
