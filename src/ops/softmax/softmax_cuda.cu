/* softmax_cuda.cu - softmax and its gradient on an NVIDIA GPU.
 *
 * Probabilities are floats always: in 16 bits they would be wrong in the third digit, and they are few. */
#include "device/cuda/rows.cuh"

template <class T, int ROW>
static __global__ void __launch_bounds__(ROWS_THREADS) softmax_kernel(const T *src, float *dst, int64_t N, int64_t C)
{
    const int lane = threadIdx.x % ROW;
    for (int64_t n = rows_first<ROW>(); n < N; n += rows_step<ROW>()) {
        const T *x = src + n * C;
        float top = -INFINITY, sum = 0;
        for (int64_t c = lane; c < C; c += ROW)
            top = fmaxf(top, to_float(x[c]));
        top = row_max<ROW>(top);
        for (int64_t c = lane; c < C; c += ROW)
            sum += expf(to_float(x[c]) - top);
        sum = row_sum<ROW>(sum);
        for (int64_t c = lane; c < C; c += ROW)
            dst[n * C + c] = expf(to_float(x[c]) - top) / sum;
    }
}

template <class T> static void softmax_start(const step *s)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    ROWS_START(softmax_kernel, T, s, N, C)((const T *)s->in[0].data, (float *)s->out[0].data, N, C);
}

CUDA_RUN(softmax_run, s->in[0].format.storage, softmax_start)

static void softmax_formats(const graph *g, const node *n, format *in, format *out)
{
    (void)out;
    in[0] = rows_stored(g, n->in[0]);
}

template <class T, int ROW>
static __global__ void __launch_bounds__(ROWS_THREADS)
    softmax_grad_kernel(const float *dst, const T *ddst, T *dsrc, int64_t N, int64_t C)
{
    const int lane = threadIdx.x % ROW;
    for (int64_t n = rows_first<ROW>(); n < N; n += rows_step<ROW>()) {
        const int64_t at = n * C;
        float sum = 0;
        for (int64_t c = lane; c < C; c += ROW)
            sum += dst[at + c] * to_float(ddst[at + c]);
        sum = row_sum<ROW>(sum);
        for (int64_t c = lane; c < C; c += ROW)
            dsrc[at + c] = from_float<T>(dst[at + c] * (to_float(ddst[at + c]) - sum));
    }
}

template <class T> static void softmax_grad_start(const step *s)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    ROWS_START(softmax_grad_kernel, T, s, N, C)
    ((const float *)s->in[0].data, (const T *)s->in[1].data, (T *)s->out[0].data, N, C);
}

CUDA_RUN(softmax_grad_run, s->out[0].format.storage, softmax_grad_start)

static void softmax_grad_formats(const graph *g, const node *n, format *in, format *out)
{
    in[1] = out[0] = cuda_format(g, n->out[0]);
}

CUDA_KERNELS(softmax) = {
    CUDA_ROW("softmax", softmax_run, softmax_formats),
    CUDA_ROW("softmax_grad", softmax_grad_run, softmax_grad_formats),
    CUDA_END,
};
