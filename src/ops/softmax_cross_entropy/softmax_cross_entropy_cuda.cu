/* softmax_cross_entropy_cuda.cu - the loss of logits against labels on an NVIDIA GPU, in one launch.
 *
 * Logits are read as they are stored; probabilities are floats, so that the gradient, which is what they lack of 0 or
 * 1, is right where they are close to it. Exponentials are added up in float, losses and weights in double. */
#include "device/cuda/rows.cuh"

extern "C" {
#include "ops/softmax_cross_entropy/softmax_cross_entropy.h"
}

/* The labels and what they weigh: what all kernels here read. */
typedef struct target {
    const int32_t *labels;
    const float *weights; /* NULL: 1 for every class */
    int64_t N, C;
    double smoothing;
    bool part;
} target;

static target target_of(const step *s, int64_t C)
{
    const loss_attr *t = (const loss_attr *)s->attr;
    target y = {};
    y.labels = (const int32_t *)s->in[1].data;
    y.weights = t->weights ? (const float *)s->in[2].data : NULL;
    y.N = s->in[1].shape.dim[0];
    y.C = C;
    y.smoothing = t->smoothing;
    y.part = t->part;
    return y;
}

/* The weight of a label's class, NaN for a label that is none. */
static __device__ __forceinline__ double label_weight(const target &y, int64_t label)
{
    return label < 0 || label >= y.C ? (double)NAN : y.weights ? (double)y.weights[label] : 1.;
}

/* The sum of the labels' weights, by a whole block. */
static __device__ __forceinline__ double total_weight(const target &y)
{
    double sum = 0;
    for (int64_t n = threadIdx.x; n < y.N; n += blockDim.x)
        sum += label_weight(y, y.labels[n]);
    return block_total(sum);
}

/* What the sum of the losses is divided by. A part without any weight counts nothing, and is not 0 / 0. */
static __device__ __forceinline__ double divisor(const target &y)
{
    const double total = total_weight(y);
    return y.part && total == 0 ? 1. : total;
}

/* --- the loss ------------------------------------------------------------------------------------------------ */

/* dst = softmax of a row; returns what this thread adds to its loss. */
template <class T, int ROW>
static __device__ __forceinline__ double row_loss(const T *src, float *dst, const target &y, int64_t label)
{
    const int lane = threadIdx.x % ROW;
    float top = -INFINITY, sum = 0;
    for (int64_t c = lane; c < y.C; c += ROW)
        top = fmaxf(top, to_float(src[c]));
    top = row_max<ROW>(top);
    for (int64_t c = lane; c < y.C; c += ROW)
        sum += expf(to_float(src[c]) - top);
    sum = row_sum<ROW>(sum);
    const float inverse = (float)(1 / (double)sum);
    for (int64_t c = lane; c < y.C; c += ROW)
        dst[c] = expf(to_float(src[c]) - top) * inverse;

    if (lane != 0 && !(y.smoothing > 0))
        return 0;
    const double log_sum = (double)top + log((double)sum);
    double loss = 0;
    if (lane == 0) {
        const double weight = label_weight(y, label);
        loss = weight != weight ? weight : (1 - y.smoothing) * weight * (log_sum - (double)to_float(src[label]));
    }
    if (y.smoothing > 0) { /* else an infinite logit would count as 0 x infinity */
        double all = 0;
        for (int64_t c = lane; c < y.C; c += ROW)
            all += (y.weights ? (double)y.weights[c] : 1.) * (log_sum - (double)to_float(src[c]));
        loss += y.smoothing / (double)y.C * all;
    }
    return loss;
}

template <class T, int ROW>
static __global__ void __launch_bounds__(ROWS_THREADS)
    loss_kernel(const T *src, float *dst, float *loss, const target y, double *parts, unsigned *counter)
{
    double sum = 0, total;
    for (int64_t n = rows_first<ROW>(); n < y.N; n += rows_step<ROW>())
        sum += row_loss<T, ROW>(src + n * y.C, dst + n * y.C, y, y.labels[n]);
    if (!grid_total(sum, parts, counter, &total))
        return;
    const double by = divisor(y);
    if (threadIdx.x == 0)
        *loss = (float)(total / by);
}

/* in: src (logits), labels [, wei]; out: loss, dst (probabilities); workspace: a sum for each block */
template <class T> static void loss_start(const step *s)
{
    const target y = target_of(s, s->in[0].shape.dim[1]);
    ROWS_START(loss_kernel, T, s, y.N, y.C)
    ((const T *)s->in[0].data, (float *)s->out[1].data, (float *)s->out[0].data, y, (double *)s->workspace,
     (unsigned *)s->state);
}

CUDA_RUN(loss_run, s->in[0].format.storage, loss_start)

static void loss_formats(const graph *g, const node *n, format *in, format *out)
{
    (void)out;
    in[0] = rows_stored(g, n->in[0]);
}

/* --- its gradient -------------------------------------------------------------------------------------------- */

template <class T, int ROW>
static __global__ void __launch_bounds__(ROWS_THREADS)
    loss_grad_kernel(const float *dst, T *dsrc, const float *dloss, const target y)
{
    const int lane = threadIdx.x % ROW;
    const double scale = (double)*dloss / divisor(y), share = y.smoothing / (double)y.C;
    double all = (double)y.C;
    if (y.weights) {
        all = 0;
        for (int64_t c = threadIdx.x; c < y.C; c += blockDim.x)
            all += (double)y.weights[c];
        all = block_total(all);
    }
    for (int64_t n = rows_first<ROW>(); n < y.N; n += rows_step<ROW>()) {
        const int64_t label = y.labels[n], at = n * y.C;
        const double own = (1 - y.smoothing) * label_weight(y, label);
        const float a = (float)(scale * (own + share * all)), b = (float)(scale * share), hit = (float)(scale * own);
        for (int64_t c = lane; c < y.C; c += ROW) {
            const float d = a * dst[at + c] - b * (y.weights ? y.weights[c] : 1.f);
            dsrc[at + c] = from_float<T>(c == label ? d - hit : d);
        }
    }
}

/* in: probabilities, labels [, wei], dloss; out: dsrc. May lie over the probabilities. */
template <class T> static void loss_grad_start(const step *s)
{
    const target y = target_of(s, s->in[0].shape.dim[1]);
    ROWS_START(loss_grad_kernel, T, s, y.N, y.C)
    ((const float *)s->in[0].data, (T *)s->out[0].data, (const float *)s->in[s->nin - 1].data, y);
}

CUDA_RUN(loss_grad_run, s->out[0].format.storage, loss_grad_start)

static void loss_grad_formats(const graph *g, const node *n, format *in, format *out)
{
    (void)in;
    out[0] = cuda_format(g, n->out[0]);
}

/* --- the sum of the labels' weights ---------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(ROWS_THREADS) class_total_kernel(const target y, float *total)
{
    const double sum = total_weight(y);
    if (threadIdx.x == 0)
        *total = (float)sum;
}

/* in: labels, wei; out: scalar */
static brasa_status class_total_run(const step *s)
{
    target y = {};
    y.labels = (const int32_t *)s->in[0].data;
    y.weights = (const float *)s->in[1].data;
    y.N = s->in[0].shape.dim[0];
    y.C = s->in[1].shape.dim[0];
    class_total_kernel<<<1, ROWS_THREADS, 0, stream_of(s)>>>(y, (float *)s->out[0].data);
    return cuda_started(s);
}

CUDA_KERNELS(softmax_cross_entropy) = {
    {"softmax_cross_entropy",
     {.name = "softmax_cross_entropy_cuda",
      .real = F32,
      .formats = loss_formats,
      .open = counter_open,
      .close = cuda_counters_close,
      .workspace = totals_workspace,
      .run = loss_run}},
    CUDA_ROW("softmax_cross_entropy_grad", loss_grad_run, loss_grad_formats),
    CUDA_ROW("class_total", class_total_run, NULL),
    CUDA_END,
};
