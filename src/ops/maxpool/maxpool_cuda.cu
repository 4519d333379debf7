/* maxpool_cuda.cu - max-pooling on a GPU.
 *
 * Forward a thread looks at one window. Backward it has a cell of inputs, as large as the stride where that is 2, and
 * goes over the windows that cover it: what these have won is read once for the whole cell, and each input is written
 * once. With stride 2 a cell begins where a window does, so that it lies in as few as there can be.
 */
#include "ops/window.cuh"

extern "C" {
#include "ops/maxpool/maxpool.h"
}

/* --- forward ---------------------------------------------------------------------------------------------------- */

template <int V> struct best {
    float value[V];
    lanes<int32_t, V> place;
};

/* x wins where it is larger, or NaN. */
template <class T, int V>
static __device__ __forceinline__ void compare(best<V> &b, const lanes<T, V> &seen, int place, bool inside)
{
    float x[V];
    unpack(seen, x);
#pragma unroll
    for (int v = 0; v < V; v++) {
        const bool wins = inside && (x[v] > b.value[v] || x[v] != x[v]);
        b.value[v] = wins ? x[v] : b.value[v];
        b.place.x[v] = wins ? place : b.place.x[v];
    }
}

/* SIZE: of a square window, all of which is on its way at once; 0: any other one. `src` is a plane's first pixel. */
template <class T, int V, int SIZE>
static __device__ __forceinline__ void search(best<V> &b, const T *src, const slide &y, const slide &x, int C, int oy,
                                              int ox)
{
    const places rows = slide_inputs(y, oy), columns = slide_inputs(x, ox);
    const int64_t line = (int64_t)x.in * C;
#pragma unroll
    for (int v = 0; v < V; v++) {
        b.value[v] = -INFINITY;
        b.place.x[v] = rows.lo * x.in + columns.lo; /* should nothing be above -infinity */
    }
    if constexpr (SIZE > 0) {
        const int top = oy * y.stride - y.before, left = ox * x.stride - x.before;
        lanes<T, V> seen[SIZE][SIZE];
#pragma unroll
        for (int r = 0; r < SIZE; r++)
#pragma unroll
            for (int s = 0; s < SIZE; s++) {
                const int iy = top + r, ix = left + s;
                seen[r][s] =
                    fetch<T, V>(src + iy * line + (int64_t)ix * C, iy >= 0 && iy < y.in && ix >= 0 && ix < x.in);
            }
#pragma unroll
        for (int r = 0; r < SIZE; r++)
#pragma unroll
            for (int s = 0; s < SIZE; s++) {
                const int iy = top + r, ix = left + s;
                compare(b, seen[r][s], iy * x.in + ix, iy >= 0 && iy < y.in && ix >= 0 && ix < x.in);
            }
    } else {
        for (int iy = rows.lo; iy < rows.hi; iy++)
            for (int ix = columns.lo; ix < columns.hi; ix++)
                compare(b, fetch<T, V>(src + iy * line + (int64_t)ix * C, true), iy * x.in + ix, true);
    }
}

template <class T, int V, int SIZE>
static __global__ void maxpool_rows(slide y, slide x, int64_t N, int C, activation act, const T *__restrict__ src,
                                    T *__restrict__ dst, int32_t *__restrict__ winner)
{
    const int packs = C / V, item = ROW_ITEM, ox = item / packs, c = (item - ox * packs) * V;
    if (ox >= x.out)
        return;
    EACH_ROW(n, N, oy, y.out)
    {
        const int64_t to = ((n * y.out + oy) * x.out + ox) * C + c;
        best<V> b;
        search<T, V, SIZE>(b, src + n * y.in * x.in * C + c, y, x, C, oy, ox);
#pragma unroll
        for (int v = 0; v < V; v++)
            b.value[v] = activate(b.value[v], act);
        store<T, V>(dst + to, b.value);
        *(lanes<int32_t, V> *)(winner + to) = b.place;
    }
}

template <class T, int V, int SIZE> static void maxpool_launch(const step *s)
{
    const window_attr *t = (const window_attr *)s->attr;
    const shape *in = &s->in[0].shape, *out = &s->out[0].shape;
    const int64_t N = in->dim[0], C = in->dim[1];
    const rows_grid g = rows_for(out->dim[3] * (C / V), out->dim[2], N);
    maxpool_rows<T, V, SIZE><<<g.blocks, g.threads, 0, stream_of(s)>>>(
        slide_y(t, in, out), slide_x(t, in, out), N, (int)C, s->node->act, (const T *)s->in[0].data,
        (T *)s->out[0].data, (int32_t *)s->out[1].data);
}

template <class T> static void maxpool_start(const step *s)
{
    enum { V = pack<T>::N };
    const window_attr *t = (const window_attr *)s->attr;
    const int size = t->size.h == t->size.w ? t->size.h : 0;
    if (s->in[0].shape.dim[1] % V)
        maxpool_launch<T, 1, 0>(s);
    else if (size == 2)
        maxpool_launch<T, V, 2>(s);
    else if (size == 3)
        maxpool_launch<T, V, 3>(s);
    else
        maxpool_launch<T, V, 0>(s);
}

/* in: src; out: dst, winner (i32) */
CUDA_RUN(maxpool_run, s->out[0].format.storage, maxpool_start)

/* --- gradient --------------------------------------------------------------------------------------------------- */

/* How far the first cell of an axis begins before the input. */
template <int CELL> static __host__ __device__ __forceinline__ int cell_shift(const slide &w)
{
    return w.before % CELL;
}

template <int CELL> static inline int64_t cells_of(const slide &w)
{
    return (w.in + cell_shift<CELL>(w) + CELL - 1) / CELL;
}

/* What one window hands to the inputs of the cell at y0, x0 of a plane that is W wide: to the one that won. */
template <class T, int V, int CELL>
static __device__ __forceinline__ void hand_back(float (&sum)[CELL][CELL][V], const lanes<int32_t, V> &winner,
                                                 const lanes<T, V> &ddst, int y0, int x0, int W)
{
    float d[V];
    unpack(ddst, d);
#pragma unroll
    for (int a = 0; a < CELL; a++)
#pragma unroll
        for (int b = 0; b < CELL; b++)
#pragma unroll
            for (int v = 0; v < V; v++)
                if (winner.x[v] == (y0 + a) * W + x0 + b) /* places outside are met by others, and not stored */
                    sum[a][b][v] += d[v];
}

/* WINDOWS: so many along each axis at most cover a cell, and all of them are on their way at once; 0: any number.
 * `winner` and `ddst` are a plane's first pixel. */
template <class T, int V, int CELL, int WINDOWS>
static __device__ __forceinline__ void collect(float (&sum)[CELL][CELL][V], const int32_t *winner, const T *ddst,
                                               const slide &y, const slide &x, int C, int y0, int x0)
{
    const places rows = slide_outputs(y, y0, CELL), columns = slide_outputs(x, x0, CELL);
    const int64_t line = (int64_t)x.out * C;
    if constexpr (WINDOWS > 0) {
        lanes<int32_t, V> won[WINDOWS][WINDOWS];
        lanes<T, V> d[WINDOWS][WINDOWS];
#pragma unroll
        for (int i = 0; i < WINDOWS; i++)
#pragma unroll
            for (int j = 0; j < WINDOWS; j++) {
                const int64_t at = (rows.lo + i) * line + (int64_t)(columns.lo + j) * C;
                const bool inside = rows.lo + i < rows.hi && columns.lo + j < columns.hi;
                won[i][j] = fetch<int32_t, V>(winner + at, inside);
                d[i][j] = fetch<T, V>(ddst + at, inside); /* zeros won by place 0 do no harm */
            }
#pragma unroll
        for (int i = 0; i < WINDOWS; i++)
#pragma unroll
            for (int j = 0; j < WINDOWS; j++)
                hand_back<T, V, CELL>(sum, won[i][j], d[i][j], y0, x0, x.in);
    } else {
        for (int oy = rows.lo; oy < rows.hi; oy++)
#pragma unroll 2
            for (int ox = columns.lo; ox < columns.hi; ox++) {
                const int64_t at = oy * line + (int64_t)ox * C;
                hand_back<T, V, CELL>(sum, fetch<int32_t, V>(winner + at, true), fetch<T, V>(ddst + at, true), y0, x0,
                                      x.in);
            }
    }
}

template <class T, int V, int CELL, int WINDOWS>
static __global__ void maxpool_grad_rows(slide y, slide x, int64_t N, int C, int rows,
                                         const int32_t *__restrict__ winner, const T *__restrict__ ddst,
                                         T *__restrict__ dsrc)
{
    const int packs = C / V, item = ROW_ITEM, cell = item / packs, c = (item - cell * packs) * V;
    const int x0 = cell * CELL - cell_shift<CELL>(x);
    if (x0 >= x.in)
        return;
    EACH_ROW(n, N, row, rows)
    {
        const int y0 = row * CELL - cell_shift<CELL>(y);
        const int64_t from = n * y.out * x.out * C + c;
        float sum[CELL][CELL][V] = {};
        collect<T, V, CELL, WINDOWS>(sum, winner + from, ddst + from, y, x, C, y0, x0);
#pragma unroll
        for (int a = 0; a < CELL; a++)
#pragma unroll
            for (int b = 0; b < CELL; b++)
                if (y0 + a >= 0 && y0 + a < y.in && x0 + b >= 0 && x0 + b < x.in)
                    store<T, V>(dsrc + ((n * y.in + y0 + a) * x.in + x0 + b) * C + c, sum[a][b]);
    }
}

template <class T, int V, int CELL, int WINDOWS> static void maxpool_grad_launch(const step *s)
{
    const window_attr *t = (const window_attr *)s->attr;
    const shape *in = &s->out[0].shape, *out = &s->in[1].shape;
    const int64_t N = in->dim[0], C = in->dim[1];
    const slide y = slide_y(t, in, out), x = slide_x(t, in, out);
    const int64_t rows = cells_of<CELL>(y);
    const rows_grid g = rows_for(cells_of<CELL>(x) * (C / V), rows, N);
    maxpool_grad_rows<T, V, CELL, WINDOWS><<<g.blocks, g.threads, 0, stream_of(s)>>>(
        y, x, N, (int)C, (int)rows, (const int32_t *)s->in[0].data, (const T *)s->in[1].data, (T *)s->out[0].data);
}

template <class T> static void maxpool_grad_start(const step *s)
{
    enum { V = pack<T>::N };
    const window_attr *t = (const window_attr *)s->attr;
    const int stride = t->stride.h == t->stride.w ? t->stride.h : 0;
    const int size = t->size.h > t->size.w ? t->size.h : t->size.w;
    if (s->out[0].shape.dim[1] % V)
        maxpool_grad_launch<T, 1, 1, 0>(s);
    else if (stride == 2 && size <= 2)
        maxpool_grad_launch<T, V, 2, 1>(s);
    else if (stride == 2 && size <= 4)
        maxpool_grad_launch<T, V, 2, 2>(s);
    else if (stride == 1)
        maxpool_grad_launch<T, V, 2, 0>(s);
    else
        maxpool_grad_launch<T, V, 1, 0>(s);
}

/* in: winner (i32), ddst; out: dsrc */
CUDA_RUN(maxpool_grad_run, s->out[0].format.storage, maxpool_grad_start)

CUDA_KERNELS(maxpool) = {
    WINDOW_ROW("maxpool", maxpool_run),
    WINDOW_ROW("maxpool_grad", maxpool_grad_run),
    CUDA_END,
};
