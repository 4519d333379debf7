/* dropout_cuda.cu - dropout, with the masks that the CPU draws, and its gradients on GPUs.
 *
 * Words are drawn in groups of four, for elements that follow each other in the order of the shape. Where tensors lie
 * so, a thread draws the groups of the elements that it reads. In NHWC the elements of a group are the same channel
 * of four pixels: so a thread takes four pixels of some channels, and draws a group for each channel. Where planes
 * are no multiple of four, or the tensor begins within a group, the four have words of two groups.
 */
#include "device/cuda/elementwise.cuh"
#include "ops/dropout/dropout.h"

enum { THREADS = 128 };

/* What is known before the step, and where the rest will be. */
typedef struct mask {
    random_stream stream; /* its step is not known */
    const int64_t *steps;
    const int64_t *before; /* samples in earlier parts of the batch; NULL: none */
    int64_t sample;        /* elements of a sample */
    uint32_t limit;
    float factor;
} mask;

static mask mask_of(const step *s)
{
    const dropout_attr *t = (const dropout_attr *)s->attr;
    const shape *x = &s->in[0].shape;
    mask m = {};
    m.stream.seed = s->seed;
    m.stream.purpose = RANDOM_DROPOUT;
    m.stream.stream = (uint32_t)t->stream;
    m.steps = (const int64_t *)s->in[1].data;
    m.before = s->nin > 2 ? (const int64_t *)s->in[2].data : NULL;
    m.sample = shape_span(x, 1, x->rank);
    m.limit = dropout_limit(t);
    m.factor = (float)dropout_factor(t);
    return m;
}

static __device__ __forceinline__ random_stream stream_now(const mask *m)
{
    random_stream r = m->stream;
    r.step = (uint32_t)*m->steps;
    return r;
}

/* Where the tensor begins, in elements of the batch. */
static __device__ __forceinline__ int64_t begins_at(const mask *m)
{
    return m->before ? *m->before * m->sample : 0;
}

/* The words of elements i ... i + 3 of the batch. */
static __device__ __forceinline__ random_group words_at(const random_stream *r, uint64_t i)
{
    random_group a = random_at(r, i / 4);
    if (i % 4 == 0)
        return a;
    random_group b = random_at(r, i / 4 + 1);
    if (i & 1) {
        a = random_group{{a.word[1], a.word[2], a.word[3], b.word[0]}};
        b = random_group{{b.word[1], b.word[2], b.word[3], 0}};
    }
    if (i & 2)
        a = random_group{{a.word[2], a.word[3], b.word[0], b.word[1]}};
    return a;
}

template <class T> static __device__ __forceinline__ T dropped(T x, uint32_t word, const mask *m)
{
    return from_float<T>(to_float(x) * (word >> 8 >= m->limit ? m->factor : 0.f));
}

/* --- tensors in the order of their shape ----------------------------------------------------------------------- */

/* item: a pack, of which the last may not be full */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    plain_kernel(const T *src, T *dst, int64_t count, bool aligned, const __grid_constant__ mask m)
{
    enum { N = pack<T>::N };
    const random_stream r = stream_now(&m);
    const int64_t before = begins_at(&m);
    GRID_FOR(i, (count + N - 1) / N)
    {
        const int64_t first = i * N, rest = count - first;
        const bool whole = aligned && rest >= N;
        pack<T> p;
        if (whole)
            p = ((const pack<T> *)src)[i];
        else
#pragma unroll
            for (int j = 0; j < N; j++)
                p.x[j] = j < rest ? src[first + j] : from_float<T>(0.f);
#pragma unroll
        for (int j = 0; j < N; j += 4) {
            const random_group w = words_at(&r, (uint64_t)(before + first + j));
#pragma unroll
            for (int l = 0; l < 4; l++)
                p.x[j + l] = dropped(p.x[j + l], w.word[l], &m);
        }
        if (whole)
            ((pack<T> *)dst)[i] = p;
        else
#pragma unroll
            for (int j = 0; j < N; j++)
                if (j < rest)
                    dst[first + j] = p.x[j];
    }
}

template <class T> static void plain_start(const step *s)
{
    const arg *src = &s->in[0], *dst = &s->out[0];
    const int64_t packs = (dst->count + pack<T>::N - 1) / pack<T>::N;
    plain_kernel<T><<<blocks_for(s, packs, THREADS), THREADS, 0, stream_of(s)>>>(
        (const T *)src->data, (T *)dst->data, dst->count, is_aligned(src, 16) && is_aligned(dst, 16), mask_of(s));
}

/* --- pictures in NHWC ------------------------------------------------------------------------------------------ */

/* W channels of a pixel, read at once */
template <class T, int W> struct alignas(W * sizeof(T)) channels {
    T x[W];
};

/* item: W channels of four pixels of a sample, the channels first; the last pixels of a sample may be fewer */
template <class T, int W>
static __global__ void __launch_bounds__(THREADS)
    pictures_kernel(const channels<T, W> *src, channels<T, W> *dst, int64_t samples, int64_t C, int64_t HW,
                    const __grid_constant__ mask m)
{
    const random_stream r = stream_now(&m);
    const int64_t before = begins_at(&m);
    const uint32_t across = (uint32_t)(C / W), items = across * (uint32_t)((HW + 3) / 4);
    for (int64_t n = blockIdx.y; n < samples; n += gridDim.y) {
        for (uint32_t item = blockIdx.x * THREADS + threadIdx.x; item < items; item += gridDim.x * THREADS) {
            const uint32_t c = item % across, pixel = item / across * 4;
            const int64_t at = (n * HW + pixel) * across + c;
            const int64_t word = before + (n * C + (int64_t)c * W) * HW + pixel;
            channels<T, W> x[4];
#pragma unroll
            for (int l = 0; l < 4; l++)
                if (pixel + l < HW)
                    x[l] = src[at + l * across];
#pragma unroll
            for (int j = 0; j < W; j++) {
                const random_group w = words_at(&r, (uint64_t)(word + j * HW));
#pragma unroll
                for (int l = 0; l < 4; l++)
                    x[l].x[j] = dropped(x[l].x[j], w.word[l], &m);
            }
#pragma unroll
            for (int l = 0; l < 4; l++)
                if (pixel + l < HW)
                    dst[at + l * across] = x[l];
        }
    }
}

template <class T, int W> static void pictures_start(const step *s)
{
    const shape *x = &s->in[0].shape;
    const int64_t N = x->dim[0], C = x->dim[1], HW = shape_span(x, 2, 4);
    const int64_t items = C / W * ((HW + 3) / 4);
    const dim3 blocks((unsigned)((items + THREADS - 1) / THREADS), (unsigned)(N < 65535 ? N : 65535));
    pictures_kernel<T, W><<<blocks, THREADS, 0, stream_of(s)>>>(
        (const channels<T, W> *)s->in[0].data, (channels<T, W> *)s->out[0].data, N, C, HW, mask_of(s));
}

template <class T> static void dropout_start(const step *s)
{
    const arg *src = &s->in[0], *dst = &s->out[0];
    const bool aligned = is_aligned(src, 16) && is_aligned(dst, 16);
    if (!src->format.layout.permuted || src->shape.dim[1] == 1 || shape_span(&src->shape, 2, 4) == 1)
        plain_start<T>(s); /* with one channel or one pixel NHWC is the order of the shape */
    else if (aligned && src->shape.dim[1] % pack<T>::N == 0)
        pictures_start<T, pack<T>::N>(s);
    else
        pictures_start<T, 1>(s);
}

CUDA_RUN(run_dropout, s->out[0].format.storage, dropout_start)

/* --- the gradients of a ReLU and of the dropout behind it ---------------------------------------------------- */

static __device__ float relu_grad(float dst, float ddst, float factor)
{
    return dst <= 0 ? 0.f : ddst * factor;
}

static brasa_status run_relu_grad(const step *s)
{
    return elementwise<2, relu_grad>(s, (float)dropout_factor((const dropout_attr *)s->attr));
}

CUDA_KERNELS(dropout) = {
    CUDA_ROW("dropout", run_dropout, elementwise_formats),
    CUDA_ROW("dropout_relu_grad", run_relu_grad, elementwise_formats),
    CUDA_END,
};
