/* depthwise_grad_cuda.cu - the gradients of a depthwise convolution on a GPU, both in one pass or one alone.
 *
 * 3 x 3 with stride 1 or 2 goes by cells: the stride x stride inputs that begin where the window of an output does,
 * or would, were there more of them. With y + before = stride ky + j, the input in row j of cell ky is seen through
 * tap j + stride i by output ky - i: by so many as fit below 3. So a cell meets a square of outputs, 3 x 3 or 2 x 2,
 * from which both gradients of its inputs are made; going down, one row of it is new.
 *
 * A block keeps the sums of its weights in registers until its share of the strips is done, then adds up those of its
 * threads. Where several blocks have a slice of channels they leave their sums in the workspace, and the last one to
 * come, which a counter tells, adds these up in their order. The counters are the node's own, and zero between runs.
 *
 * All other windows go element by element, and their weights' gradients tap by tap.
 */
#include "ops/depthwise_grad/depthwise_cuda.cuh"

/* What a node is asked for; NULL: not that. */
typedef struct tensors {
    const arg *src, *wei, *ddst;
    const arg *dsrc, *dwei, *dbia;
    const shape *in, *out; /* of src, or dsrc, and of ddst */
} tensors;

static tensors tensors_both(const step *s)
{
    return tensors{&s->in[0],       &s->in[1],      &s->in[2],
                   &s->out[0],      &s->out[1],     s->nout > 2 ? &s->out[2] : NULL,
                   &s->in[0].shape, &s->in[2].shape};
}

static tensors tensors_data(const step *s)
{
    return tensors{NULL, &s->in[0], &s->in[1], &s->out[0], NULL, NULL, &s->out[0].shape, &s->in[1].shape};
}

static tensors tensors_weights(const step *s)
{
    return tensors{&s->in[0],       NULL,           &s->in[1], NULL, &s->out[0], s->nout > 1 ? &s->out[1] : NULL,
                   &s->in[0].shape, &s->in[1].shape};
}

/* Gradients of weights are stored as the session says. */
typedef struct sums_out {
    void *dwei;
    float *dbia;
    bool is_bf16; /* dwei in 16 bits */
} sums_out;

static sums_out sums_out_of(const tensors &a)
{
    return sums_out{a.dwei ? a.dwei->data : NULL, a.dbia ? (float *)a.dbia->data : NULL,
                    a.dwei && a.dwei->format.storage == BF16};
}

/* The tap behind the last one is the bias. */
static __device__ __forceinline__ void store_sum(const sums_out &to, int c, int tap, int taps, float sum)
{
    const int64_t at = (int64_t)c * taps + tap;
    if (tap == taps)
        to.dbia[c] = sum;
    else if (to.is_bf16)
        ((bf16 *)to.dwei)[at] = from_float<bf16>(sum);
    else
        ((float *)to.dwei)[at] = sum;
}

/* --- 3 x 3, stride 1 or 2 --------------------------------------------------------------------------------------- */

enum { MOST_THREADS_NEAR = 512, MANY_SLICES = 6, STRIP = 4, VALUES = TAPS + 1 };

/* What a thread has at a time: so many cells down and across. With stride 1 one cell has much to do with few
 * elements: two side by side read less for it. */
#define CELL_ROWS(stride)    ((stride) == 1 ? 4 : 2)
#define CELLS_ACROSS(stride) ((stride) == 1 ? 2 : 1)

/* The cells of one axis. The first one is where there is an input, or the last that the outputs' first one meets:
 * `first` is also how far before a cell the output stands that is counted there for the bias. */
typedef struct cells {
    int first, count;
} cells;

typedef struct backward {
    slide y, x;
    cells cy, cx;
    int C;
    int lanes;            /* of a pack */
    int rows, columns;    /* cells of a strip; strips side by side */
    int strips;           /* of a sample */
    int64_t all;          /* strips */
    int values;           /* TAPS, or VALUES with a bias; 0: no sums */
    int blocks;           /* for each slice */
    int threads, walkers; /* of a block: most threads; strips at a time */
    slices cut;
} backward;

static cells cells_of(const slide &w)
{
    const int most = (SIZE + w.stride - 1) / w.stride - 1, before = w.before / w.stride;
    const int first = before < most ? before : most;
    const int inputs = (w.in - 1 + w.before) / w.stride, outputs = w.out - 1 + first;
    return cells{first, (inputs > outputs ? inputs : outputs) - first + 1};
}

/* Channels of a thread. */
static int near_lanes(bool is_bf16, const shape *in)
{
    return is_bf16 && in->dim[1] % 2 == 0 ? 2 : 1;
}

static int64_t strips_of(const backward *p, int rows)
{
    return (p->cy.count + rows - 1) / rows * (int64_t)p->columns;
}

/* How the work is shared out: the same when it is planned and when it runs. */
static backward backward_of(const window_attr *t, const shape *in, const shape *out, bool is_bf16, int values,
                            int processors)
{
    const int64_t N = in->dim[0];
    backward p = {};
    p.y = slide_y(t, in, out);
    p.x = slide_x(t, in, out);
    p.cy = cells_of(p.y);
    p.cx = cells_of(p.x);
    p.C = (int)in->dim[1];
    p.values = values;
    p.lanes = near_lanes(is_bf16, in);
    p.cut = slices_of(p.C / p.lanes);
    p.columns = (p.cx.count + CELLS_ACROSS(p.x.stride) - 1) / CELLS_ACROSS(p.x.stride);
    /* 512 threads of a processor, in two blocks where that shares the slices out more evenly */
    const int twice = p.cut.count > MANY_SLICES ? 2 : 1;
    p.threads = MOST_THREADS_NEAR / twice;
    p.walkers = p.threads / p.cut.width;
    /* A strip for each walker, if there are so few; a single block needs nobody to wait for. */
    const int64_t most = (int64_t)processors * twice / p.cut.count, wanted = N * strips_of(&p, STRIP) / p.walkers;
    p.blocks = (int)(wanted <= 2 || most <= 1 ? 1 : wanted < most ? wanted : most);
    p.rows = STRIP;
    while (p.rows < p.cy.count && N * strips_of(&p, 2 * p.rows) >= 16 * (int64_t)p.blocks * p.walkers)
        p.rows *= 2;
    p.strips = (int)strips_of(&p, p.rows);
    p.all = N * p.strips;
    return p;
}

/* Adds what the outputs have that cells count for the bias; meets[-i] is the row of outputs i before that of the
 * cells, whose first one is KEPT columns in. */
template <class T, int V, int CELLS, int MEETS, int SEEN>
static __device__ __forceinline__ void count_bias(const backward &p, const lanes<T, V> (*meets)[SEEN],
                                                  float (&sum)[V])
{
#pragma unroll
    for (int i = 0; i < MEETS; i++)
#pragma unroll
        for (int q = 0; q < SEEN; q++) {
            const int h = MEETS - 1 - q; /* how far before the first cell */
            float d[V];
            unpack(meets[-i][q], d);
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[v] += i == p.cy.first && h <= p.cx.first && p.cx.first < h + CELLS ? d[v] : 0.f;
        }
}

/* The last rows become the first ones of the next cells. */
template <class T, int V, int KEPT, int ROWS, int SEEN>
static __device__ __forceinline__ void keep_rows(lanes<T, V> (&seen)[KEPT + ROWS][SEEN])
{
#pragma unroll
    for (int r = 0; r < KEPT; r++)
#pragma unroll
        for (int q = 0; q < SEEN; q++)
            seen[r][q] = seen[ROWS + r][q];
}

/* A strip of cells down from ky, ending before `end`, at kx and, with stride 1, at the next one. The pointers are the
 * channels of the sample's first pixel; src and dsrc may be NULL. */
template <class T, int V, int STRIDE>
static __device__ __forceinline__ void strip_down(const backward &p, const float (&w)[TAPS][V],
                                                  float (&sum)[VALUES][V], const T *src, const T *ddst, T *dsrc,
                                                  int ky, int end, int kx)
{
    enum { MEETS = (SIZE + STRIDE - 1) / STRIDE, KEPT = MEETS - 1 }; /* outputs that a cell meets along an axis */
    enum { ROWS = CELL_ROWS(STRIDE), CELLS = CELLS_ACROSS(STRIDE), SEEN = CELLS + KEPT, ACROSS = CELLS * STRIDE };
    const int ix = kx * STRIDE - p.x.before, top = ky * STRIDE - p.y.before;
    const int reach = end * STRIDE - p.y.before, bottom = !src ? 0 : reach < p.y.in ? reach : p.y.in;
    const int out_bottom = end < p.y.out ? end : p.y.out;
    const int64_t line = (int64_t)p.x.in * p.C, out_line = (int64_t)p.x.out * p.C;
    const bool write = dsrc;
    bool inside[ACROSS], out_inside[SEEN];
    lanes<T, V> seen[KEPT + ROWS][SEEN]; /* ddst at rows ky - KEPT ..., columns kx - KEPT ... */
#pragma unroll
    for (int l = 0; l < ACROSS; l++)
        inside[l] = ix + l >= 0 && ix + l < p.x.in;
#pragma unroll
    for (int q = 0; q < SEEN; q++)
        out_inside[q] = kx - KEPT + q >= 0 && kx - KEPT + q < p.x.out;
    src += top * line + (int64_t)ix * p.C;
    dsrc += top * line + (int64_t)ix * p.C;
    ddst += (ky - KEPT) * out_line + (int64_t)(kx - KEPT) * p.C;
    load_rows<T, V, KEPT, SEEN>(seen, ddst, out_line, p.C, ky - KEPT, out_bottom, out_inside);
    ddst += KEPT * out_line;
    for (int iy = top; ky < end; ky += ROWS, iy += ROWS * STRIDE) {
        lanes<T, V> here[ROWS * STRIDE][ACROSS];
        load_rows<T, V, ROWS, SEEN>(seen + KEPT, ddst, out_line, p.C, ky, out_bottom, out_inside);
        load_rows<T, V, ROWS * STRIDE, ACROSS>(here, src, line, p.C, iy, bottom, inside);
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            if (ky + k >= end)
                break;
            float x[STRIDE][ACROSS][V], dx[STRIDE][ACROSS][V] = {};
#pragma unroll
            for (int j = 0; j < STRIDE; j++)
#pragma unroll
                for (int l = 0; l < ACROSS; l++)
                    unpack(here[k * STRIDE + j][l], x[j][l]);
#pragma unroll
            for (int i = 0; i < MEETS; i++)
#pragma unroll
                for (int q = 0; q < SEEN; q++) {
                    float d[V];
                    unpack(seen[KEPT + k - i][q], d);
#pragma unroll
                    for (int tap_y = STRIDE * i; tap_y < STRIDE * (i + 1) && tap_y < SIZE; tap_y++)
#pragma unroll
                        for (int l = 0; l < ACROSS; l++) {
                            const int tap_x = l + STRIDE * (KEPT - q), tap = tap_y * SIZE + tap_x;
                            if (tap_x < 0 || tap_x >= SIZE)
                                continue;
#pragma unroll
                            for (int v = 0; v < V; v++) {
                                dx[tap_y % STRIDE][l][v] += w[tap][v] * d[v];
                                sum[tap][v] += x[tap_y % STRIDE][l][v] * d[v];
                            }
                        }
                }
            if (p.values == VALUES)
                count_bias<T, V, CELLS, MEETS, SEEN>(p, &seen[KEPT + k], sum[TAPS]);
#pragma unroll
            for (int j = 0; j < STRIDE; j++)
#pragma unroll
                for (int l = 0; l < ACROSS; l++)
                    if (write && inside[l] && iy + k * STRIDE + j >= 0 && iy + k * STRIDE + j < p.y.in)
                        store<T, V>(dsrc + (k * STRIDE + j) * line + l * p.C, dx[j][l]);
        }
        keep_rows<T, V, KEPT, ROWS, SEEN>(seen);
        src += ROWS * STRIDE * line;
        dsrc += ROWS * STRIDE * line;
        ddst += ROWS * out_line;
    }
}

/* What other blocks have just written: not from the processor's own cache. */
template <int V> static __device__ __forceinline__ void load_fresh(const float *from, float *to)
{
    if constexpr (V == 2) {
        const float2 both = __ldcg((const float2 *)from);
        to[0] = both.x;
        to[1] = both.y;
    } else {
        to[0] = __ldcg(from);
    }
}

/* The sums of a slice from those of its blocks, by the one that came last: groups of threads take blocks in turn, and
 * the groups are added in their order. A unit is a pack's sum for one tap. */
template <int V>
static __device__ void finish_slice(const backward &p, const float *parts, const sums_out &to, float *room)
{
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    const int units = p.values * blockDim.x, width = blockDim.x * V, first = blockIdx.x * width;
    const int groups = threads / units > 1 ? threads / units : 1;
    for (int i = thread; i < units * groups; i += threads) {
        const int unit = i % units;
        float sum[V] = {};
#pragma unroll 8
        for (int b = i / units; b < p.blocks; b += groups) {
            float part[V];
            load_fresh<V>(parts + ((int64_t)b * units + unit) * V, part);
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[v] += part[v];
        }
        store<float, V>(room + i * V, sum);
    }
    __syncthreads();
    for (int i = thread; i < units * V; i += threads) {
        const int c = first + i % width;
        float sum = 0;
        for (int g = 0; g < groups; g++)
            sum += room[g * units * V + i];
        if (c < p.C)
            store_sum(to, c, i / width, TAPS, sum);
    }
}

/* What the threads of a block have summed up, in `room`; then of all blocks. */
template <int V>
static __device__ void add_up(const backward &p, const float (&sum)[VALUES][V], float *parts, unsigned *counters,
                              const sums_out &to, float *room)
{
    __shared__ bool last;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    const int width = blockDim.x * V, first = blockIdx.x * width, values = p.values * width;
    float *mine = room + threadIdx.y * values + threadIdx.x * V;
    __syncthreads(); /* the weights that lay there are in registers */
#pragma unroll
    for (int tap = 0; tap < VALUES; tap++)
        if (tap < p.values)
            store<float, V>(mine + tap * width, sum[tap]);
    __syncthreads();
    parts += (int64_t)blockIdx.x * p.blocks * values;
    for (int i = thread; i < values; i += threads) {
        const int c = first + i % width;
        float total = 0;
        for (int q = 0; q < (int)blockDim.y; q++)
            total += room[q * values + i];
        if (p.blocks > 1)
            parts[(int64_t)blockIdx.y * values + i] = total;
        else if (c < p.C)
            store_sum(to, c, i / width, TAPS, total);
    }
    if (p.blocks == 1)
        return;
    __threadfence();
    __syncthreads();
    if (thread == 0) {
        last = atomicAdd(&counters[blockIdx.x], 1u) == (unsigned)p.blocks - 1;
        if (last)
            counters[blockIdx.x] = 0; /* for the next run */
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    finish_slice<V>(p, parts, to, room);
}

/* threadIdx.x: a pack of the slice blockIdx.x; threadIdx.y and blockIdx.y: strips */
template <class T, int V, int STRIDE>
static __global__ void __launch_bounds__(MOST_THREADS_NEAR)
    depthwise_grad_near(backward p, weights wei, const T *__restrict__ src, const T *__restrict__ ddst,
                        T *__restrict__ dsrc, float *parts, unsigned *counters, sums_out to)
{
    __shared__ __align__(16) float room[MOST_THREADS_NEAR * VALUES * V];
    const int width = blockDim.x * V, first = blockIdx.x * width, c = first + threadIdx.x * V;
    const int64_t HW = (int64_t)p.y.in * p.x.in * p.C, P = (int64_t)p.y.out * p.x.out * p.C;
    float w[TAPS][V] = {}, sum[VALUES][V] = {};
    if (wei.data) {
        stage_weights(wei, first, width, p.C, room);
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
            load<float, V>(room + tap * width + threadIdx.x * V, w[tap]);
    }
    const unsigned walkers = gridDim.y * blockDim.y;
    for (unsigned i = blockIdx.y * blockDim.y + threadIdx.y; i < p.all && c < p.C; i += walkers) {
        const unsigned n = i / (unsigned)p.strips, strip = i - n * p.strips, group = strip / (unsigned)p.columns;
        const int ky = p.cy.first + (int)group * p.rows, bottom = p.cy.first + p.cy.count;
        const int end = ky + p.rows < bottom ? ky + p.rows : bottom;
        const int kx = p.cx.first + (int)(strip - group * p.columns) * CELLS_ACROSS(STRIDE);
        strip_down<T, V, STRIDE>(p, w, sum, src ? src + n * HW + c : NULL, ddst + n * P + c,
                                 dsrc ? dsrc + n * HW + c : NULL, ky, end, kx);
    }
    if (p.values)
        add_up<V>(p, sum, parts, counters, to, room);
}

template <class T, int V, int STRIDE> static void near_launch(const step *s, const tensors &a, const backward &p)
{
    depthwise_grad_near<T, V, STRIDE><<<dim3(p.cut.count, p.blocks), dim3(p.cut.width, p.walkers), 0, stream_of(s)>>>(
        p, a.wei ? weights_of(a.wei) : weights{}, a.src ? (const T *)a.src->data : NULL, (const T *)a.ddst->data,
        a.dsrc ? (T *)a.dsrc->data : NULL, (float *)s->workspace, (unsigned *)s->state, sums_out_of(a));
}

/* --- any window ------------------------------------------------------------------------------------------------- */

/* The output that tap `tap` of which sees `input`; false: there is none. */
static __device__ __forceinline__ bool output_at(const slide &w, int input, int tap, int *output)
{
    const int at = input + w.before - tap * w.dilation;
    *output = at / w.stride;
    return at >= 0 && at % w.stride == 0 && *output < w.out;
}

template <class T>
static __global__ void depthwise_data_far(slide y, slide x, int64_t N, int C, weights wei, const T *__restrict__ ddst,
                                          T *__restrict__ dsrc)
{
    const int item = ROW_ITEM, ix = item / C, c = item - ix * C, taps = y.size * x.size;
    if (ix >= x.in)
        return;
    EACH_ROW(n, N, iy, y.in)
    {
        float sum = 0;
        for (int r = 0; r < y.size; r++) {
            int oy, ox;
            if (!output_at(y, iy, r, &oy))
                continue;
            for (int k = 0; k < x.size; k++)
                if (output_at(x, ix, k, &ox))
                    sum += weight_at(wei, (int64_t)c * taps + r * x.size + k) *
                           to_float(ddst[((n * y.out + oy) * x.out + ox) * C + c]);
        }
        dsrc[((n * y.in + iy) * x.in + ix) * C + c] = from_float<T>(sum);
    }
}

enum { FAR_CHANNELS = 32, FAR_ROWS = 16 };

/* The sum of one row of outputs under one tap, or of the outputs alone; src is NULL then. */
template <class T>
static __device__ __forceinline__ float row_sum(const slide &x, int C, int tap, const T *src, const T *ddst)
{
    float sum = 0;
    for (int ox = 0; ox < x.out; ox++) {
        const int ix = ox * x.stride - x.before + tap * x.dilation;
        const float d = to_float(ddst[(int64_t)ox * C]);
        if (!src)
            sum += d;
        else if (ix >= 0 && ix < x.in)
            sum += d * to_float(src[(int64_t)ix * C]);
    }
    return sum;
}

/* threadIdx.x and blockIdx.x: a channel; blockIdx.y: taps, the bias being the last one; threadIdx.y: rows of ddst */
template <class T>
static __global__ void depthwise_weights_far(slide y, slide x, int64_t N, int C, int values,
                                             const T *__restrict__ src, const T *__restrict__ ddst, sums_out to)
{
    __shared__ float room[FAR_ROWS][FAR_CHANNELS];
    const int c = blockIdx.x * FAR_CHANNELS + threadIdx.x, taps = y.size * x.size;
    for (int tap = blockIdx.y; tap < values; tap += gridDim.y) {
        float sum = 0;
        for (int64_t row = threadIdx.y; row < N * y.out && c < C; row += FAR_ROWS) {
            const int64_t n = row / y.out;
            const int iy = (int)(row - n * y.out) * y.stride - y.before + tap / x.size * y.dilation;
            const T *d = ddst + row * x.out * C + c;
            if (tap == taps)
                sum += row_sum(x, C, 0, (const T *)NULL, d);
            else if (iy >= 0 && iy < y.in)
                sum += row_sum(x, C, tap % x.size, src + (n * y.in + iy) * x.in * C + c, d);
        }
        room[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && c < C) {
            for (int q = 1; q < FAR_ROWS; q++)
                sum += room[q][threadIdx.x];
            store_sum(to, c, tap, taps, sum);
        }
        __syncthreads();
    }
}

template <class T> static void far_launch(const step *s, const tensors &a, const slide &y, const slide &x)
{
    const int64_t N = a.in->dim[0], C = a.in->dim[1];
    if (a.dsrc) {
        const rows_grid g = rows_for((int64_t)x.in * C, y.in, N);
        depthwise_data_far<T><<<g.blocks, g.threads, 0, stream_of(s)>>>(y, x, N, (int)C, weights_of(a.wei),
                                                                        (const T *)a.ddst->data, (T *)a.dsrc->data);
    }
    if (a.dwei) {
        const int values = y.size * x.size + (a.dbia != NULL);
        const dim3 blocks((unsigned)((C + FAR_CHANNELS - 1) / FAR_CHANNELS), values < 65535 ? values : 65535);
        depthwise_weights_far<T><<<blocks, dim3(FAR_CHANNELS, FAR_ROWS), 0, stream_of(s)>>>(
            y, x, N, (int)C, values, (const T *)a.src->data, (const T *)a.ddst->data, sums_out_of(a));
    }
}

/* --- the ops ---------------------------------------------------------------------------------------------------- */

/* Whether a window goes by cells: their strips are counted in 32 bits. */
static bool is_near(const window_attr *t, const shape *in, const shape *out)
{
    return depthwise_is_near(t, in) && depthwise_is_near(t, out) &&
           in->dim[0] <= INT32_MAX / 4 / shape_span(in, 2, 4) && in->dim[0] <= INT32_MAX / 4 / shape_span(out, 2, 4);
}

template <class T> static void grad_start(const step *s, const tensors &a)
{
    const window_attr *t = &((const conv2d_attr *)s->attr)->window;
    if (!is_near(t, a.in, a.out)) {
        far_launch<T>(s, a, slide_y(t, a.in, a.out), slide_x(t, a.in, a.out));
        return;
    }
    const int values = a.dwei ? TAPS + (a.dbia != NULL) : 0;
    const backward p = backward_of(t, a.in, a.out, sizeof(T) == 2, values, queue_of(s)->processors);
    if (p.lanes == 1)
        t->stride.h == 1 ? near_launch<T, 1, 1>(s, a, p) : near_launch<T, 1, 2>(s, a, p);
    else if constexpr (sizeof(T) == 2)
        t->stride.h == 1 ? near_launch<T, 2, 1>(s, a, p) : near_launch<T, 2, 2>(s, a, p);
}

/* in: src, wei, ddst; out: dsrc, dwei [, dbia] */
static brasa_status both_run(const step *s)
{
    BY_TYPE(s->in[2].format.storage, grad_start, s, tensors_both(s));
    return cuda_started(s);
}

/* in: wei, ddst; out: dsrc */
brasa_status depthwise_data_run(const step *s)
{
    BY_TYPE(s->in[1].format.storage, grad_start, s, tensors_data(s));
    return cuda_started(s);
}

/* in: src, ddst; out: dwei [, dbia] */
brasa_status depthwise_weights_run(const step *s)
{
    BY_TYPE(s->in[1].format.storage, grad_start, s, tensors_weights(s));
    return cuda_started(s);
}

/* What the blocks of all slices leave behind. */
static int64_t parts_bytes(const graph *g, const node *n, const shape *in, const shape *out, bool bias)
{
    const window_attr *t = &((const conv2d_attr *)n->attr)->window;
    if (!is_near(t, in, out))
        return 0;
    const bool is_bf16 = g->precision == BRASA_BF16; /* as the pictures are */
    const backward p = backward_of(t, in, out, is_bf16, TAPS + bias, queue_of_graph(g)->processors);
    const int64_t sums = (int64_t)p.values * p.cut.width * p.lanes * p.cut.count;
    return p.blocks > 1 ? p.blocks * sums * (int64_t)sizeof(float) : 0;
}

static int64_t both_workspace(const graph *g, const node *n)
{
    return parts_bytes(g, n, &g->values[n->in[0]].shape, &g->values[n->in[2]].shape, n->nout > 2);
}

int64_t depthwise_weights_workspace(const graph *g, const node *n)
{
    return parts_bytes(g, n, &g->values[n->in[0]].shape, &g->values[n->in[1]].shape, n->nout > 1);
}

/* The counters, one for each slice. They cannot lie in the workspace, which is others' between runs. */
brasa_status depthwise_open(graph *g, node *n)
{
    device *d = g->ctx->device;
    const shape *in = &g->values[n->in[0]].shape;
    const int lanes = near_lanes(g->precision == BRASA_BF16, in);
    const size_t bytes = (size_t)slices_of(in->dim[1] / lanes).count * sizeof(unsigned);
    n->state = d->get(d, bytes);
    return n->state ? d->clear(d, n->state, bytes) : fail_memory(g->ctx, bytes);
}

void depthwise_close(brasa_context *ctx, void *state)
{
    ctx->device->put(ctx->device, state);
}

static void both_formats(const graph *g, const node *n, format *in, format *out)
{
    in[0] = picture_format(g, n->in[0]);
    in[1] = depthwise_weights(g, n->in[1]);
    in[2] = picture_format(g, n->in[2]);
    out[0] = picture_format(g, n->out[0]);
    out[1] = cuda_format(g, n->out[1]);
}

void depthwise_data_formats(const graph *g, const node *n, format *in, format *out)
{
    in[0] = depthwise_weights(g, n->in[0]);
    in[1] = picture_format(g, n->in[1]);
    out[0] = picture_format(g, n->out[0]);
}

void depthwise_weights_formats(const graph *g, const node *n, format *in, format *out)
{
    in[0] = picture_format(g, n->in[0]);
    in[1] = picture_format(g, n->in[1]);
    out[0] = cuda_format(g, n->out[0]);
}

CUDA_KERNELS(depthwise_grad) = {
    {"depthwise_grad",
     {.name = "depthwise_grad_cuda",
      .real = F32,
      .supports = window_fits,
      .formats = both_formats,
      .open = depthwise_open,
      .close = depthwise_close,
      .workspace = both_workspace,
      .run = both_run}},
    CUDA_END,
};
