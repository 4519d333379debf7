/* batchnorm_fold_cuda.cu - weights and bias with batch norm made part of them, on NVIDIA GPUs. Output channels are
 * outermost: a block has one. The weights are read as floats, split where they are stored so, and written as the
 * convolution wants them. */
#include "device/cuda/quads.cuh"
#include "ops/batchnorm/channels.cuh"

extern "C" {
#include "ops/batchnorm_fold/batchnorm_fold.h"
}

/* inner: the weights of a channel. */
template <class T>
static __global__ void fold(fold_args a, int64_t inner, int64_t size, const void *wei, int64_t plane, T *out,
                            float *shift)
{
    const float *bia = (const float *)a.bia, *gamma = (const float *)a.gamma, *beta = (const float *)a.beta;
    const int64_t k = blockIdx.x, first = k * inner;
    const float scale = scale_of(gamma ? gamma[k] : 1, ((const float *)a.var)[k], a.epsilon);
    if (threadIdx.x == 0)
        shift[k] = fmaf((bia ? bia[k] : 0) - ((const float *)a.mean)[k], scale, beta ? beta[k] : 0);
    if (inner % 4) {
        const uint16_t *upper = (const uint16_t *)wei;
        for (int64_t i = first + threadIdx.x; i < first + inner; i += blockDim.x) {
            const float x = plane ? __uint_as_float(split_join(upper[i], upper[plane + i])) : ((const float *)wei)[i];
            out[i] = from_float<T>(x * scale);
        }
        return;
    }
    for (int64_t i = first + 4 * threadIdx.x; i < first + inner; i += 4 * blockDim.x) {
        float x[4];
        quad_floats_exact(quad_load_exact(wei, plane, i, size), plane, x);
#pragma unroll
        for (int v = 0; v < 4; v++)
            x[v] *= scale;
        quad_store(out, i, size, x);
    }
}

template <class T> static void start(const step *s)
{
    const int64_t K = s->in[0].shape.dim[0], inner = s->in[0].count / K;
    const int threads = inner >= 512 ? 128 : 32;
    const int64_t size = s->in[0].count, plane = s->in[0].format.storage == SPLIT_F32 ? split_plane(size) : 0;
    fold<T><<<(unsigned)K, threads, 0, stream_of(s)>>>(fold_args_of(s), inner, size, s->in[0].data, plane,
                                                       (T *)s->out[0].data, (float *)s->out[1].data);
}

CUDA_RUN(fold_run, s->out[0].format.storage, start)

/* NHWC of weights has the output channels outermost. */
static void fold_formats(const graph *g, const node *n, format *in, format *out)
{
    const value *wei = &g->values[n->in[0]];
    in[0] = cuda_format_exact(g, n->in[0]);
    if (wei->format.storage == SPLIT_F32 && layout_equal(&wei->format.layout, &in[0].layout))
        in[0] = wei->format;
    out[0] = cuda_format(g, n->out[0]);
}

CUDA_KERNELS(batchnorm_fold) = {
    CUDA_ROW("batchnorm_fold", fold_run, fold_formats),
    CUDA_END,
};
