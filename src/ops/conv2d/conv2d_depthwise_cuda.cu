/* conv2d_depthwise_cuda.cu - depthwise convolution on a GPU: 3 x 3 with stride 1 or 2 in strips of
 * rows, all other windows element by element. The ops of a single gradient run in depthwise_grad_cuda.cu. */
#include "ops/depthwise_grad/depthwise_cuda.cuh"

/* --- 3 x 3, stride 1 or 2 --------------------------------------------------------------------------------------- */

enum { NEAR_THREADS = 256, NEAR_BYTES = 8 }; /* of a pack: the kernels of more channels leave no room for its rows */

typedef struct forward {
    slide y, x;
    int64_t N;
    int C;
    int rows, strips; /* outputs of a strip; strips of a sample */
    activation act;
} forward;

/* A strip of outputs down from oy, at ox, ending before `end`. src and dst are the channels of the sample's first
 * pixel. */
template <class T, int V, int STRIDE>
static __device__ __forceinline__ void strip_down(const forward &p, const limits &act, const float (&w)[TAPS][V],
                                                  const float (&bia)[V], const T *src, T *dst, int oy, int end,
                                                  int ox)
{
    enum { ROWS = STRIDE == 1 ? 4 : 2, NEW = ROWS * STRIDE, KEPT = SIZE - STRIDE };
    const int left = ox * STRIDE - p.x.before, top = oy * STRIDE - p.y.before;
    const int reach = (end - 1) * STRIDE - p.y.before + SIZE, bottom = reach < p.y.in ? reach : p.y.in;
    const int64_t line = (int64_t)p.x.in * p.C, out_line = (int64_t)p.x.out * p.C;
    bool inside[SIZE];
    lanes<T, V> seen[KEPT + NEW][SIZE];
#pragma unroll
    for (int s = 0; s < SIZE; s++)
        inside[s] = left + s >= 0 && left + s < p.x.in;
    src += top * line + (int64_t)left * p.C;
    dst += oy * out_line + (int64_t)ox * p.C;
    load_rows<T, V, KEPT, SIZE>(seen, src, line, p.C, top, bottom, inside);
    src += KEPT * line;
    for (int iy = top + KEPT; oy < end; oy += ROWS, iy += NEW, src += NEW * line, dst += ROWS * out_line) {
        load_rows<T, V, NEW, SIZE>(seen + KEPT, src, line, p.C, iy, bottom, inside);
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            float sum[V];
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[v] = bia[v];
#pragma unroll
            for (int tap = 0; tap < TAPS; tap++) {
                float x[V];
                unpack(seen[k * STRIDE + tap / SIZE][tap % SIZE], x);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += w[tap][v] * x[v];
            }
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[v] = limit(sum[v], act);
            if (oy + k < end)
                store<T, V>(dst + k * out_line, sum);
        }
#pragma unroll
        for (int r = 0; r < KEPT; r++)
#pragma unroll
            for (int s = 0; s < SIZE; s++)
                seen[r][s] = seen[NEW + r][s];
    }
}

/* threadIdx.x: a pack of the slice blockIdx.x; threadIdx.y and blockIdx.y: a strip; blockIdx.z: a sample */
template <class T, int V, int STRIDE>
static __global__ void __launch_bounds__(NEAR_THREADS, 2)
    depthwise_near(forward p, weights wei, const float *__restrict__ bias, const T *__restrict__ src,
                   T *__restrict__ dst)
{
    __shared__ __align__(16) float room[TAPS * SLICE_PACKS * V];
    const int width = blockDim.x * V, first = blockIdx.x * width, c = first + threadIdx.x * V;
    const limits act = limits_of(p.act);
    float w[TAPS][V], bia[V] = {};
    stage_weights(wei, first, width, p.C, room);
    if (c >= p.C)
        return;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
        load<float, V>(room + tap * width + threadIdx.x * V, w[tap]);
    if (bias)
        load<float, V>(bias + c, bia);
    for (int64_t n = blockIdx.z; n < p.N; n += gridDim.z)
        for (int strip = blockIdx.y * blockDim.y + threadIdx.y; strip < p.strips; strip += gridDim.y * blockDim.y) {
            const int group = strip / p.x.out, ox = strip - group * p.x.out, oy = group * p.rows;
            const int end = oy + p.rows < p.y.out ? oy + p.rows : p.y.out;
            strip_down<T, V, STRIDE>(p, act, w, bia, src + n * p.y.in * p.x.in * p.C + c,
                                     dst + n * p.y.out * p.x.out * p.C + c, oy, end, ox);
        }
}

/* Long strips read little twice; short ones make more threads: as long as these fill the GPU twice over. */
static void choose_rows(forward *p, int64_t packs, const step *s)
{
    const int64_t wanted = (int64_t)queue_of(s)->processors * 2048, columns = p->N * p->x.out * packs;
    p->rows = 4;
    while (p->rows < p->y.out && columns * ((p->y.out + 2 * p->rows - 1) / (2 * p->rows)) >= wanted)
        p->rows *= 2;
    p->strips = (p->y.out + p->rows - 1) / p->rows * p->x.out;
}

template <class T, int V, int STRIDE> static void near_launch(const step *s, forward p)
{
    const slices k = slices_of(p.C / V);
    const int walkers = NEAR_THREADS / k.width;
    choose_rows(&p, p.C / V, s);
    const int64_t groups = ((int64_t)p.strips + walkers - 1) / walkers;
    const dim3 blocks((unsigned)k.count, (unsigned)(groups < 65535 ? groups : 65535),
                      (unsigned)(p.N < 65535 ? p.N : 65535));
    depthwise_near<T, V, STRIDE><<<blocks, dim3(k.width, walkers), 0, stream_of(s)>>>(
        p, weights_of(&s->in[1]), s->nin > 2 ? (const float *)s->in[2].data : NULL, (const T *)s->in[0].data,
        (T *)s->out[0].data);
}

/* --- any window ------------------------------------------------------------------------------------------------- */

template <class T>
static __global__ void depthwise_far(forward p, weights wei, const float *__restrict__ bias,
                                     const T *__restrict__ src, T *__restrict__ dst)
{
    const int item = ROW_ITEM, ox = item / p.C, c = item - ox * p.C, taps = p.y.size * p.x.size;
    if (ox >= p.x.out)
        return;
    EACH_ROW(n, p.N, oy, p.y.out)
    {
        float sum = bias ? bias[c] : 0.f;
        for (int r = 0; r < p.y.size; r++) {
            const int iy = oy * p.y.stride - p.y.before + r * p.y.dilation;
            for (int k = 0; k < p.x.size && iy >= 0 && iy < p.y.in; k++) {
                const int ix = ox * p.x.stride - p.x.before + k * p.x.dilation;
                if (ix >= 0 && ix < p.x.in)
                    sum += weight_at(wei, (int64_t)c * taps + r * p.x.size + k) *
                           to_float(src[((n * p.y.in + iy) * p.x.in + ix) * p.C + c]);
            }
        }
        dst[((n * p.y.out + oy) * p.x.out + ox) * p.C + c] = from_float<T>(activate(sum, p.act));
    }
}

template <class T> static void far_launch(const step *s, const forward &p)
{
    const rows_grid g = rows_for((int64_t)p.x.out * p.C, p.y.out, p.N);
    depthwise_far<T><<<g.blocks, g.threads, 0, stream_of(s)>>>(p, weights_of(&s->in[1]),
                                                               s->nin > 2 ? (const float *)s->in[2].data : NULL,
                                                               (const T *)s->in[0].data, (T *)s->out[0].data);
}

/* --- the op ----------------------------------------------------------------------------------------------------- */

template <class T> static void forward_start(const step *s)
{
    enum { V = NEAR_BYTES / sizeof(T) };
    const window_attr *t = &((const conv2d_attr *)s->attr)->window;
    const shape *in = &s->in[0].shape, *out = &s->out[0].shape;
    forward p = {slide_y(t, in, out), slide_x(t, in, out), in->dim[0], (int)in->dim[1], 0, 0, s->node->act};
    if (!depthwise_is_near(t, out))
        far_launch<T>(s, p);
    else if (p.C % V)
        t->stride.h == 1 ? near_launch<T, 1, 1>(s, p) : near_launch<T, 1, 2>(s, p);
    else
        t->stride.h == 1 ? near_launch<T, V, 1>(s, p) : near_launch<T, V, 2>(s, p);
}

/* in: src, wei [, bia]; out: dst */
CUDA_RUN(forward_run, s->out[0].format.storage, forward_start)

static void forward_formats(const graph *g, const node *n, format *in, format *out)
{
    in[0] = picture_format(g, n->in[0]);
    in[1] = depthwise_weights(g, n->in[1]);
    out[0] = picture_format(g, n->out[0]);
}

static bool is_depthwise(const graph *g, const node *n, int src)
{
    return depthwise_is((const conv2d_attr *)n->attr, &g->values[src].shape) && window_fits(g, n);
}

static bool supports(const graph *g, const node *n) /* of conv2d, and the gradient of its weights */
{
    return is_depthwise(g, n, n->in[0]);
}

static bool supports_data(const graph *g, const node *n)
{
    return is_depthwise(g, n, n->out[0]);
}

CUDA_KERNELS(conv2d_depthwise) = {
    {"conv2d",
     {.name = "conv2d_depthwise_cuda",
      .real = F32,
      .supports = supports,
      .formats = forward_formats,
      .run = forward_run}},
    {"conv2d_grad_data",
     {.name = "conv2d_grad_data_depthwise_cuda",
      .real = F32,
      .supports = supports_data,
      .formats = depthwise_data_formats,
      .run = depthwise_data_run}},
    {"conv2d_grad_weights",
     {.name = "conv2d_grad_weights_depthwise_cuda",
      .real = F32,
      .supports = supports,
      .formats = depthwise_weights_formats,
      .open = depthwise_open,
      .close = depthwise_close,
      .workspace = depthwise_weights_workspace,
      .run = depthwise_weights_run}},
    CUDA_END,
};
