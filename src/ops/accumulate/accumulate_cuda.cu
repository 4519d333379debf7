/* accumulate_cuda.cu - sums over the parts of a batch, and what they come to, on GPUs.
 *
 * Sums are state, floats always; what is added to them may be in 16 bits. A mean is made of sums and of scalars only.
 */
#include "device/cuda/elementwise.cuh"

enum { THREADS = 256 };

/* What an element of a sum becomes; of the first part it is not what it was. */
static __device__ __forceinline__ float added(float sum, float x, float factor, bool first)
{
    return first ? factor * x : sum + factor * x;
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    accumulate_kernel(float *sum, const T *src, const int64_t *before, const float *by, int64_t fours, int64_t count)
{
    const bool first = *before == 0;
    const float factor = by ? *by : 1.f;
    GRID_FOR(i, fours)
    {
        const four<T> x = ((const four<T> *)src)[i];
        four<float> y = {};
        if (!first)
            y = ((const four<float> *)sum)[i];
#pragma unroll
        for (int j = 0; j < 4; j++)
            y.x[j] = added(y.x[j], to_float(x.x[j]), factor, first);
        ((four<float> *)sum)[i] = y;
    }
    GRID_FOR(i, count - 4 * fours)
    {
        const int64_t at = 4 * fours + i;
        sum[at] = added(first ? 0.f : sum[at], to_float(src[at]), factor, first);
    }
}

template <class T> static void accumulate_start(const step *s)
{
    const arg *src = &s->in[1], *sum = &s->out[0];
    const int64_t fours = is_aligned(src, 4 * sizeof(T)) && is_aligned(sum, 16) ? sum->count / 4 : 0;
    const int64_t rest = sum->count - 4 * fours;
    accumulate_kernel<T><<<blocks_for(s, fours > rest ? fours : rest, THREADS), THREADS, 0, stream_of(s)>>>(
        (float *)sum->data, (const T *)src->data, (const int64_t *)s->in[2].data,
        s->nin > 3 ? (const float *)s->in[3].data : NULL, fours, sum->count);
}

CUDA_RUN(run_accumulate, s->in[1].format.storage, accumulate_start)

/* One of `whole` and `real` is given. */
static __global__ void __launch_bounds__(THREADS)
    mean_kernel(const float *sum, const int64_t *whole, const float *real, float *dst, int64_t count)
{
    const float divisor = whole ? (float)*whole : *real;
    GRID_FOR(i, count)
    {
        dst[i] = sum[i] / divisor;
    }
}

static brasa_status run_mean(const step *s)
{
    const arg *by = &s->in[1], *dst = &s->out[0];
    mean_kernel<<<blocks_for(s, dst->count, THREADS), THREADS, 0, stream_of(s)>>>(
        (const float *)s->in[0].data, by->format.storage == I64 ? (const int64_t *)by->data : NULL,
        by->format.storage == I64 ? NULL : (const float *)by->data, (float *)dst->data, dst->count);
    return cuda_started(s);
}

CUDA_KERNELS(accumulate) = {
    CUDA_ROW("accumulate", run_accumulate, cuda_formats_elementwise),
    CUDA_ROW("mean", run_mean, cuda_formats_elementwise),
    CUDA_END,
};
