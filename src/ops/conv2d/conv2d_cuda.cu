/* conv2d_cuda.cu - convolution in our own kernels: the fallback for machines without cuDNN, and what cuDNN leaves to
 * us.
 *
 * Each of the three products is a product of two matrices, of which one is gathered from a picture while it is read:
 *     forward   rows: output pixels (n, y, x);  columns: output channels;  summed over taps (r, s, c)
 *     data      rows: input pixels;             columns: input channels;   summed over (r, s, output channel)
 *     weights   rows: output channels;          columns: taps;             summed over output pixels
 * for each group by itself. A block makes a tile of 64 x 64 results; 256 threads read 16 steps of the sum at a time
 * into shared memory and add up 4 x 4 results each. What a step of the sum stands for (a tap, a pixel) is worked out
 * by 16 threads for all, without divisions: they walk on from step to step.
 *
 * Pictures have few weights and many pixels: the sums of the third product are cut into parts, which go to the
 * workspace and are added up in their order. Every sum has a fixed order.
 *
 * Coordinates fit 32 bits, offsets have 64. Padding counts as zeros, as in the reference, and so do in the second
 * product the taps that no output has: where a weight is infinite that makes NaN, which the reference has not. */
#include "device/cuda/cuda.cuh"
#include "ops/conv2d/conv2d_cuda.h"

enum { TILE = 64, DEEP = 16, THREADS = 256, PITCH = TILE + 4 };

typedef struct axis {
    int in, out, size, stride, dilation, before;
} axis;

/* N samples, C input channels, K output channels; in each of G groups `depth` and `width` of them. */
typedef struct conv {
    int64_t N, C, K, G, depth, width;
    int64_t inputs, outputs; /* pixels of all samples */
    int64_t taps;
    axis y, x;
} conv;

/* A step of the sum in forward and data: where a tap looks, from the pixel's place; a channel of its group, -1 past
 * the end; and where its weights begin. */
typedef struct tap {
    int y, x;
    int64_t channel, weights;
} tap;

/* The same in weights: where a pixel's window begins; the sample's first pixel, -1 past the end. */
typedef struct place {
    int y, x;
    int64_t sample;
} place;

typedef float tile[DEEP][PITCH];

static __host__ __device__ int64_t tiles(int64_t count)
{
    return (count + TILE - 1) / TILE;
}

/* --- what the products share ----------------------------------------------------------------------------------- */

/* A walk over (r, s, channel), the channel fastest. */
typedef struct walk {
    int r, s;
    int64_t channel;
} walk;

static __device__ __forceinline__ void walk_on(walk *w, int64_t channels, int columns, int64_t by)
{
    w->channel += by;
    while (w->channel >= channels) {
        w->channel -= channels;
        if (++w->s == columns) {
            w->s = 0;
            w->r++;
        }
    }
}

/* Adds DEEP products to the thread's 4 x 4 sums. */
static __device__ __forceinline__ void multiply(const tile a, const tile b, float sum[4][4])
{
    const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
#pragma unroll
    for (int d = 0; d < DEEP; d++) {
        const float4 u = *(const float4 *)&a[d][row], v = *(const float4 *)&b[d][column];
        const float left[4] = {u.x, u.y, u.z, u.w}, right[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                sum[i][k] += left[i] * right[k];
    }
}

/* A pixel of a picture of these sizes, by its number in the batch. */
static __device__ __forceinline__ place place_of(int64_t pixel, int height, int width)
{
    const int64_t size = (int64_t)height * width, n = pixel / size, rest = pixel - n * size;
    place p;
    p.sample = n;
    p.y = (int)(rest / width);
    p.x = (int)(rest - (int64_t)p.y * width);
    return p;
}

/* --- forward --------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ void put_tap(const conv *v, const walk *w, tap *to)
{
    to->y = w->r * v->y.dilation;
    to->x = w->s * v->x.dilation;
    to->channel = w->r < v->y.size ? w->channel : -1;
}

/* item: a tile of dst; those of the same pixels one after the other */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    forward(conv v, const T *src, const T *wei, const float *bia, T *dst, activation act)
{
    __shared__ __align__(16) tile a, b;
    __shared__ tap steps[DEEP];
    const int turn = threadIdx.x % DEEP, first = threadIdx.x / DEEP; /* loads: a step, and every 16th row */
    const int64_t wide = tiles(v.width), high = tiles(v.outputs);
    for (int64_t item = blockIdx.x; item < wide * high * v.G; item += gridDim.x) {
        const int64_t k0 = item % wide * TILE, m0 = item / wide % high * TILE, group = item / wide / high;
        const T *pictures = src + group * v.depth, *weights = wei + group * v.width * v.taps;
        float sum[4][4] = {};
        place rows[4];
        walk w = {0, 0, 0};
        for (int i = 0; i < 4; i++) {
            const int64_t m = m0 + first + 16 * i;
            rows[i] = place_of(m, v.y.out, v.x.out);
            rows[i].sample = m < v.outputs ? rows[i].sample * v.y.in * v.x.in : -1;
            rows[i].y = rows[i].y * v.y.stride - v.y.before;
            rows[i].x = rows[i].x * v.x.stride - v.x.before;
        }
        if (threadIdx.x < DEEP) {
            walk_on(&w, v.depth, v.x.size, threadIdx.x);
            put_tap(&v, &w, &steps[threadIdx.x]);
        }
        __syncthreads();
        for (int64_t t0 = 0; t0 < v.taps; t0 += DEEP) {
            const tap t = steps[turn];
            for (int i = 0; i < 4; i++) {
                const int y = rows[i].y + t.y, x = rows[i].x + t.x;
                const int64_t k = k0 + first + 16 * i;
                const bool inside =
                    t.channel >= 0 && rows[i].sample >= 0 && y >= 0 && y < v.y.in && x >= 0 && x < v.x.in;
                a[turn][first + 16 * i] =
                    inside ? to_float(pictures[(rows[i].sample + (int64_t)y * v.x.in + x) * v.C + t.channel]) : 0.f;
                b[turn][first + 16 * i] =
                    t.channel >= 0 && k < v.width ? to_float(weights[k * v.taps + t0 + turn]) : 0.f;
            }
            __syncthreads();
            if (threadIdx.x < DEEP) {
                walk_on(&w, v.depth, v.x.size, DEEP);
                put_tap(&v, &w, &steps[threadIdx.x]);
            }
            multiply(a, b, sum);
            __syncthreads();
        }
        const int64_t m = m0 + threadIdx.x / 16 * 4, k = k0 + threadIdx.x % 16 * 4;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                if (m + i < v.outputs && k + j < v.width) {
                    const int64_t channel = group * v.width + k + j;
                    const float y = sum[i][j] + (bia ? bia[channel] : 0.f);
                    dst[(m + i) * v.K + channel] = from_float<T>(activate(y, act));
                }
    }
}

/* --- the gradient of the data ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ void put_back_tap(const conv *v, const walk *w, tap *to)
{
    to->y = -w->r * v->y.dilation;
    to->x = -w->s * v->x.dilation;
    to->channel = w->r < v->y.size ? w->channel : -1;
    to->weights = w->channel * v->taps + ((int64_t)w->r * v->x.size + w->s) * v->depth;
}

/* The output whose window begins there, or -1. */
static __device__ __forceinline__ int output_at(const axis *a, int at)
{
    if (at < 0)
        return -1;
    const int output = a->stride == 1 ? at : at / a->stride;
    return output < a->out && output * a->stride == at ? output : -1;
}

/* item: a tile of dsrc; those of the same pixels one after the other */
template <class T>
static __global__ void __launch_bounds__(THREADS) data(conv v, const T *wei, const T *ddst, T *dsrc)
{
    __shared__ __align__(16) tile a, b;
    __shared__ tap steps[DEEP];
    const int turn = threadIdx.x % DEEP, first = threadIdx.x / DEEP;  /* loads of ddst: a step, every 16th row */
    const int column = threadIdx.x % TILE, deep = threadIdx.x / TILE; /* of weights: a channel, every 4th step */
    const int64_t wide = tiles(v.depth), high = tiles(v.inputs), sums = v.width * v.y.size * v.x.size;
    for (int64_t item = blockIdx.x; item < wide * high * v.G; item += gridDim.x) {
        const int64_t c0 = item % wide * TILE, m0 = item / wide % high * TILE, group = item / wide / high;
        const T *gradients = ddst + group * v.width, *weights = wei + group * v.width * v.taps;
        float sum[4][4] = {};
        place rows[4];
        walk w = {0, 0, 0};
        for (int i = 0; i < 4; i++) {
            const int64_t m = m0 + first + 16 * i;
            rows[i] = place_of(m, v.y.in, v.x.in);
            rows[i].sample = m < v.inputs ? rows[i].sample * v.y.out * v.x.out : -1;
            rows[i].y += v.y.before;
            rows[i].x += v.x.before;
        }
        if (threadIdx.x < DEEP) {
            walk_on(&w, v.width, v.x.size, threadIdx.x);
            put_back_tap(&v, &w, &steps[threadIdx.x]);
        }
        __syncthreads();
        for (int64_t t0 = 0; t0 < sums; t0 += DEEP) {
            const tap t = steps[turn];
            for (int i = 0; i < 4; i++) {
                const int y = output_at(&v.y, rows[i].y + t.y), x = output_at(&v.x, rows[i].x + t.x);
                const bool inside = t.channel >= 0 && rows[i].sample >= 0 && y >= 0 && x >= 0;
                a[turn][first + 16 * i] =
                    inside ? to_float(gradients[(rows[i].sample + (int64_t)y * v.x.out + x) * v.K + t.channel]) : 0.f;
            }
            for (int i = 0; i < 4; i++) {
                const tap *u = &steps[deep + 4 * i];
                b[deep + 4 * i][column] =
                    u->channel >= 0 && c0 + column < v.depth ? to_float(weights[u->weights + c0 + column]) : 0.f;
            }
            __syncthreads();
            if (threadIdx.x < DEEP) {
                walk_on(&w, v.width, v.x.size, DEEP);
                put_back_tap(&v, &w, &steps[threadIdx.x]);
            }
            multiply(a, b, sum);
            __syncthreads();
        }
        const int64_t m = m0 + threadIdx.x / 16 * 4, c = c0 + threadIdx.x % 16 * 4;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                if (m + i < v.inputs && c + j < v.depth)
                    dsrc[(m + i) * v.C + group * v.depth + c + j] = from_float<T>(sum[i][j]);
    }
}

/* --- the gradient of the weights ------------------------------------------------------------------------------- */

/* A walk over output pixels. */
static __device__ __forceinline__ void pixel_on(place *p, const conv *v, int by)
{
    p->x += by;
    while (p->x >= v->x.out) {
        p->x -= v->x.out;
        if (++p->y == v->y.out) {
            p->y = 0;
            p->sample++;
        }
    }
}

static __device__ __forceinline__ void put_place(const conv *v, const place *p, place *to)
{
    to->y = p->y * v->y.stride - v->y.before;
    to->x = p->x * v->x.stride - v->x.before;
    to->sample = p->sample * v->y.in * v->x.in;
}

/* item: a tile of dwei, of one part of the pixels: `part` of them. The sums of a part go to `parts`, all weights of
 * the first part, then those of the next; where that is NULL, there is one part, and dwei takes them. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    weights(conv v, const T *src, const T *ddst, T *dwei, float *parts, int64_t part)
{
    __shared__ __align__(16) tile a, b;
    __shared__ place steps[DEEP];
    const int column = threadIdx.x % TILE, deep = threadIdx.x / TILE; /* loads: a channel or tap, every 4th step */
    const int64_t high = tiles(v.width), wide = tiles(v.taps), cuts = (v.outputs + part - 1) / part;
    for (int64_t item = blockIdx.x; item < wide * high * v.G * cuts; item += gridDim.x) {
        const int64_t t0 = item % wide * TILE, k0 = item / wide % high * TILE, group = item / wide / high % v.G;
        const int64_t cut = item / wide / high / v.G, begin = cut * part;
        const int64_t end = begin + part < v.outputs ? begin + part : v.outputs;
        const int64_t t = t0 + column, spot = t / v.depth; /* this thread's tap */
        const int y = (int)(spot / v.x.size) * v.y.dilation, x = (int)(spot % v.x.size) * v.x.dilation;
        const T *pictures = src + group * v.depth + t % v.depth, *gradients = ddst + group * v.width + k0 + column;
        float sum[4][4] = {};
        place p = {0, 0, 0};
        if (threadIdx.x < DEEP) {
            p = place_of(begin, v.y.out, v.x.out);
            pixel_on(&p, &v, threadIdx.x);
            put_place(&v, &p, &steps[threadIdx.x]);
        }
        __syncthreads();
        for (int64_t m0 = begin; m0 < end; m0 += DEEP) {
            for (int i = 0; i < 4; i++) {
                const int64_t m = m0 + deep + 4 * i;
                const place at = steps[deep + 4 * i];
                const int row = at.y + y, line = at.x + x;
                const bool inside = m < end && t < v.taps && row >= 0 && row < v.y.in && line >= 0 && line < v.x.in;
                a[deep + 4 * i][column] = m < end && k0 + column < v.width ? to_float(gradients[m * v.K]) : 0.f;
                b[deep + 4 * i][column] =
                    inside ? to_float(pictures[(at.sample + (int64_t)row * v.x.in + line) * v.C]) : 0.f;
            }
            __syncthreads();
            if (threadIdx.x < DEEP) {
                pixel_on(&p, &v, DEEP);
                put_place(&v, &p, &steps[threadIdx.x]);
            }
            multiply(a, b, sum);
            __syncthreads();
        }
        const int64_t k = k0 + threadIdx.x / 16 * 4, c = t0 + threadIdx.x % 16 * 4;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                if (k + i < v.width && c + j < v.taps) {
                    const int64_t at = (group * v.width + k + i) * v.taps + c + j;
                    if (parts)
                        parts[cut * v.K * v.taps + at] = sum[i][j];
                    else
                        dwei[at] = from_float<T>(sum[i][j]);
                }
    }
}

template <class T> static __global__ void add_parts(const float *parts, int64_t cuts, int64_t count, T *dwei)
{
    GRID_FOR(i, count)
    {
        float sum = 0;
        for (int64_t cut = 0; cut < cuts; cut++)
            sum += parts[cut * count + i];
        dwei[i] = from_float<T>(sum);
    }
}

/* --- the bias -------------------------------------------------------------------------------------------------- */

/* V elements, floats in registers. */
template <class T, int V> static __device__ __forceinline__ void load(const T *from, float to[V])
{
    if constexpr (V == 1) {
        to[0] = to_float(*from);
    } else {
        const pack<T> p = *(const pack<T> *)from;
#pragma unroll
        for (int i = 0; i < V; i++)
            to[i] = to_float(p.x[i]);
    }
}

template <class T, int V> static __device__ __forceinline__ void store(T *to, const float from[V])
{
    if constexpr (V == 1) {
        *to = from_float<T>(from[0]);
    } else {
        pack<T> p;
#pragma unroll
        for (int i = 0; i < V; i++)
            p.x[i] = from_float<T>(from[i]);
        *(pack<T> *)to = p;
    }
}

/* dst = act(dst + bia), V channels at a time. From one of them to a thread's next are `pitch`, a multiple of a row:
 * the channels stay the same, and so does what the thread holds of the bias. */
template <class T, int V>
static __global__ void __launch_bounds__(THREADS)
    finish(T *dst, int64_t count, int64_t pitch, int64_t row, const float *bia, activation act)
{
    enum { AT_ONCE = 4 };
    int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    float b[V], f[AT_ONCE][V];
    if (i >= pitch)
        return;
#pragma unroll
    for (int k = 0; k < V; k++)
        b[k] = bia ? bia[i % row * V + k] : 0.f;
    for (; i < count; i += AT_ONCE * pitch) {
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (i + u * pitch < count)
                load<T, V>(dst + (i + u * pitch) * V, f[u]);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (i + u * pitch < count) {
#pragma unroll
                for (int k = 0; k < V; k++)
                    f[u][k] = activate(f[u][k] + b[k], act);
                store<T, V>(dst + (i + u * pitch) * V, f[u]);
            }
    }
}

template <class T, int V>
static void start_finish(const cuda_queue *q, void *dst, const float *bia, int64_t rows, int64_t channels,
                         activation act)
{
    const int64_t row = channels / V, count = rows * row, most = (int64_t)q->processors * 8;
    int64_t blocks = (count + THREADS * 4 - 1) / (THREADS * 4);
    blocks = blocks < most ? blocks : most;
    blocks = blocks * THREADS < row ? (row + THREADS - 1) / THREADS : blocks;
    finish<T, V>
        <<<(unsigned)blocks, THREADS, 0, q->stream>>>((T *)dst, count, blocks * THREADS / row * row, row, bia, act);
}

template <class T> static bool in_packs(const void *at, int64_t channels)
{
    return channels % pack<T>::N == 0 && (uintptr_t)at % sizeof(pack<T>) == 0;
}

void conv2d_cuda_finish(const cuda_queue *q, void *dst, dtype type, const float *bia, int64_t rows, int64_t channels,
                        activation act)
{
    if (type == BF16 && in_packs<bf16>(dst, channels))
        start_finish<bf16, pack<bf16>::N>(q, dst, bia, rows, channels, act);
    else if (type == BF16)
        start_finish<bf16, 1>(q, dst, bia, rows, channels, act);
    else if (in_packs<float>(dst, channels))
        start_finish<float, pack<float>::N>(q, dst, bia, rows, channels, act);
    else
        start_finish<float, 1>(q, dst, bia, rows, channels, act);
}

static __global__ void __launch_bounds__(THREADS) round_all(const float *from, int64_t count, bf16 *to)
{
    GRID_FOR(i, count)
    to[i] = from_float<bf16>(from[i]);
}

void conv2d_cuda_round(const cuda_queue *q, const float *from, int64_t count, void *to)
{
    const int64_t wanted = (count + THREADS - 1) / THREADS, most = (int64_t)q->processors * 8;
    round_all<<<(unsigned)(wanted < most ? wanted : most), THREADS, 0, q->stream>>>(from, count, (bf16 *)to);
}

/* The sums of columns over `cut` rows each: to[cut number][column]. `lanes`, a power of two, threads stand side by
 * side with V columns each; the others take every so many-th row, and add up what they have in pairs. */
template <class T, int V>
static __global__ void __launch_bounds__(THREADS)
    column_sums(const T *from, int64_t rows, int64_t columns, int64_t cut, int lanes, float *to)
{
    __shared__ float room[THREADS][V + (V > 1)]; /* odd: neighbours in other banks */
    const int lane = threadIdx.x % lanes, first = threadIdx.x / lanes, height = THREADS / lanes;
    const int64_t column = (blockIdx.x * (int64_t)lanes + lane) * V, begin = blockIdx.y * cut;
    const int64_t end = begin + cut < rows ? begin + cut : rows;
    float sum[V] = {};
    if (column < columns) {
#pragma unroll 4
        for (int64_t r = begin + first; r < end; r += height) {
            float f[V];
            load<T, V>(from + r * columns + column, f);
#pragma unroll
            for (int k = 0; k < V; k++)
                sum[k] += f[k];
        }
    }
#pragma unroll
    for (int k = 0; k < V; k++)
        room[threadIdx.x][k] = sum[k];
    for (int half = height / 2; half; half /= 2) {
        __syncthreads();
        if (first < half) {
#pragma unroll
            for (int k = 0; k < V; k++)
                room[threadIdx.x][k] += room[threadIdx.x + half * lanes][k];
        }
    }
    if (first == 0 && column < columns) {
#pragma unroll
        for (int k = 0; k < V; k++)
            to[blockIdx.y * columns + column + k] = room[lane][k];
    }
}

template <class T, int V>
static void start_sums(const cuda_queue *q, const void *from, int64_t rows, int64_t columns, int64_t cuts, float *to)
{
    int lanes = 1;
    while (lanes < 32 && lanes * V < columns)
        lanes *= 2;
    const dim3 grid((unsigned)((columns + lanes * V - 1) / (lanes * V)), (unsigned)cuts);
    column_sums<T, V>
        <<<grid, THREADS, 0, q->stream>>>((const T *)from, rows, columns, (rows + cuts - 1) / cuts, lanes, to);
}

template <class T>
static void start_sums_of(const cuda_queue *q, const void *from, int64_t rows, int64_t columns, int64_t cuts,
                          float *to)
{
    if (in_packs<T>(from, columns))
        start_sums<T, pack<T>::N>(q, from, rows, columns, cuts, to);
    else
        start_sums<T, 1>(q, from, rows, columns, cuts, to);
}

/* Into how many parts the rows are cut: enough for all processors, none of them small. */
static int64_t bias_cuts(const cuda_queue *q, int64_t rows, int64_t channels)
{
    const int64_t beside = (channels + 127) / 128, wanted = (4 * (int64_t)q->processors + beside - 1) / beside;
    const int64_t most = (rows + 63) / 64;
    return wanted < most ? wanted : most;
}

int64_t conv2d_cuda_bias_bytes(const cuda_queue *q, int64_t rows, int64_t channels)
{
    const int64_t cuts = bias_cuts(q, rows, channels);
    return cuts > 1 ? cuts * channels * (int64_t)sizeof(float) : 0;
}

void conv2d_cuda_bias_grad(const cuda_queue *q, const void *ddst, dtype type, float *dbia, int64_t rows,
                           int64_t channels, void *workspace)
{
    const int64_t cuts = bias_cuts(q, rows, channels);
    float *to = cuts > 1 ? (float *)workspace : dbia;
    if (type == BF16)
        start_sums_of<bf16>(q, ddst, rows, channels, cuts, to);
    else
        start_sums_of<float>(q, ddst, rows, channels, cuts, to);
    if (cuts > 1)
        start_sums_of<float>(q, to, cuts, channels, 1, dbia);
}

/* --- numbers to time engines on -------------------------------------------------------------------------------- */

template <class T> static __global__ void fill(T *to, int64_t count)
{
    GRID_FOR(i, count)
    {
        unsigned h = (unsigned)i * 2654435761u;
        h ^= h >> 15;
        h *= 2246822519u;
        h ^= h >> 13;
        to[i] = from_float<T>((float)(h & 0xffff) / 65536.f - 0.5f);
    }
}

void conv2d_cuda_fill(const cuda_queue *q, void *to, dtype type, int64_t count)
{
    const int64_t wanted = (count + THREADS - 1) / THREADS, most = (int64_t)q->processors * 32;
    const unsigned blocks = (unsigned)(wanted < most ? wanted : most);
    if (type == BF16)
        fill<bf16><<<blocks, THREADS, 0, q->stream>>>((bf16 *)to, count);
    else
        fill<float><<<blocks, THREADS, 0, q->stream>>>((float *)to, count);
}

/* --- steps ----------------------------------------------------------------------------------------------------- */

void conv2d_cuda_formats(const graph *g, const node *n, format *in, format *out)
{
    for (int k = 0; k < n->nin + n->nout; k++) {
        const int v = k < n->nin ? n->in[k] : n->out[k - n->nin];
        *(k < n->nin ? &in[k] : &out[k - n->nin]) = cuda_format_product(g, v);
    }
}

static axis axis_of(const window w)
{
    axis a = {(int)w.in, (int)w.out, (int)w.size, (int)w.stride, (int)w.dilation, (int)w.before};
    return a;
}

static conv conv_of(const conv2d_attr *t, const shape *src, const shape *dst)
{
    conv v;
    v.N = src->dim[0];
    v.C = src->dim[1];
    v.K = dst->dim[1];
    v.G = t->groups;
    v.depth = v.C / v.G;
    v.width = v.K / v.G;
    v.inputs = v.N * shape_span(src, 2, 4);
    v.outputs = v.N * shape_span(dst, 2, 4);
    v.y = axis_of(window_y(&t->window, src, dst));
    v.x = axis_of(window_x(&t->window, src, dst));
    v.taps = v.depth * v.y.size * v.x.size;
    return v;
}

/* Blocks for so many tiles: a block goes on to a further one where there are more than the GPU can have at a time. */
static unsigned blocks_of(const cuda_queue *q, int64_t items)
{
    const int64_t most = (int64_t)q->processors * 64;
    return (unsigned)(items < most ? items : most);
}

template <class T> static void start_forward(const step *s)
{
    const conv v = conv_of((const conv2d_attr *)s->attr, &s->in[0].shape, &s->out[0].shape);
    const unsigned blocks = blocks_of(queue_of(s), tiles(v.outputs) * tiles(v.width) * v.G);
    const float *bia = s->nin > 2 ? (const float *)s->in[2].data : NULL;
    forward<T><<<blocks, THREADS, 0, stream_of(s)>>>(v, (const T *)s->in[0].data, (const T *)s->in[1].data, bia,
                                                     (T *)s->out[0].data, s->node->act);
}

CUDA_RUN(run_forward, s->out[0].format.storage, start_forward)

template <class T> static void start_data(const step *s)
{
    const conv v = conv_of((const conv2d_attr *)s->attr, &s->out[0].shape, &s->in[1].shape);
    const unsigned blocks = blocks_of(queue_of(s), tiles(v.inputs) * tiles(v.depth) * v.G);
    data<T><<<blocks, THREADS, 0, stream_of(s)>>>(v, (const T *)s->in[0].data, (const T *)s->in[1].data,
                                                  (T *)s->out[0].data);
}

CUDA_RUN(run_data, s->out[0].format.storage, start_data)

/* Pixels of a part of the weights' gradient: so few that a sum of floats stays good and all processors have work, as
 * long as the parts fit into memory. */
static int64_t part_pixels(const cuda_queue *q, const conv *v)
{
    enum { FEWEST = 64, MOST = 16384 };
    const int64_t room = (INT64_C(256) << 20) / (v->K * v->taps * (int64_t)sizeof(float));
    const int64_t items = tiles(v->width) * tiles(v->taps) * v->G,
                  wanted = (4 * (int64_t)q->processors + items - 1) / items;
    const int64_t least = (v->outputs + MOST - 1) / MOST, most = (v->outputs + FEWEST - 1) / FEWEST;
    int64_t cuts = wanted > least ? wanted : least;
    cuts = cuts < most ? cuts : most;
    cuts = cuts < room ? cuts : room > 1 ? room : 1;
    return ((v->outputs + cuts - 1) / cuts + DEEP - 1) / DEEP * DEEP;
}

/* Floats of the parts; 0: there is one, which needs no room. */
static int64_t parts_floats(const conv *v, int64_t part)
{
    const int64_t cuts = (v->outputs + part - 1) / part;
    return cuts > 1 ? cuts * v->K * v->taps : 0;
}

/* Of both products one after the other. */
static int64_t weights_workspace(const graph *g, const node *n)
{
    const cuda_queue *q = queue_of_graph(g);
    const conv v = conv_of((const conv2d_attr *)n->attr, &g->values[n->in[0]].shape, &g->values[n->in[1]].shape);
    const int64_t parts = parts_floats(&v, part_pixels(q, &v)) * (int64_t)sizeof(float);
    const int64_t bias = n->nout > 1 ? conv2d_cuda_bias_bytes(q, v.outputs, v.K) : 0;
    return parts > bias ? parts : bias;
}

template <class T> static void start_weights(const step *s)
{
    const cuda_queue *q = queue_of(s);
    const conv v = conv_of((const conv2d_attr *)s->attr, &s->in[0].shape, &s->in[1].shape);
    const int64_t part = part_pixels(q, &v), cuts = (v.outputs + part - 1) / part, count = v.K * v.taps;
    const unsigned blocks = blocks_of(q, tiles(v.width) * tiles(v.taps) * v.G * cuts);
    float *parts = cuts > 1 ? (float *)s->workspace : NULL;
    T *dwei = (T *)s->out[0].data;
    weights<T>
        <<<blocks, THREADS, 0, q->stream>>>(v, (const T *)s->in[0].data, (const T *)s->in[1].data, dwei, parts, part);
    if (parts)
        add_parts<T><<<blocks_for(s, count, THREADS), THREADS, 0, q->stream>>>(parts, cuts, count, dwei);
    if (s->nout > 1)
        conv2d_cuda_bias_grad(q, s->in[1].data, s->in[1].format.storage, (float *)s->out[1].data, v.outputs, v.K,
                              s->workspace);
}

CUDA_RUN(run_weights, s->out[0].format.storage, start_weights)

/* Coordinates of 32 bits: every picture that there is. */
static bool fits(const graph *g, int src, const conv2d_attr *t)
{
    const int64_t most = INT64_C(1) << 30, *dim = g->values[src].shape.dim;
    const pads *p = &t->window.pad;
    return dim[2] + p->top + p->bottom < most && dim[3] + p->left + p->right < most;
}

static bool supports(const graph *g, const node *n)
{
    return fits(g, n->in[0], (const conv2d_attr *)n->attr);
}

static bool supports_data(const graph *g, const node *n)
{
    return fits(g, n->out[0], (const conv2d_attr *)n->attr);
}

CUDA_KERNELS(conv2d) = {
    {"conv2d",
     {.name = "conv2d_cuda", .real = F32, .supports = supports, .formats = conv2d_cuda_formats, .run = run_forward}},
    {"conv2d_grad_data",
     {.name = "conv2d_grad_data_cuda",
      .real = F32,
      .supports = supports_data,
      .formats = conv2d_cuda_formats,
      .run = run_data}},
    {"conv2d_grad_weights",
     {.name = "conv2d_grad_weights_cuda",
      .real = F32,
      .supports = supports,
      .formats = conv2d_cuda_formats,
      .workspace = weights_workspace,
      .run = run_weights}},
    CUDA_END,
};
