/* dense_cuda.h - what the kernels of the fully connected layer on NVIDIA GPUs share. C and C++ read it.
 *
 * All of them take the matrices in one order: sources and weights of rank 4 (see graph/views.c) as NHWC and OHWI, so
 * that a row of each is the inputs of a sample and the weights of an output, in the same order. With BRASA_BF16 the
 * matrices are read and written in 16 bits.
 */
#ifndef OPS_DENSE_CUDA_H
#define OPS_DENSE_CUDA_H

#include "device/cuda/cuda.h"

/* The most samples that kernels for few are made for. */
enum { DENSE_CUDA_FEW = 8 };

/* N samples, C inputs, K outputs: src N x C, wei K x C, bia K, dst N x K. */
typedef struct dense_sizes {
    int64_t N, C, K;
} dense_sizes;

/* From those of src and dst, or of their gradients. */
static inline dense_sizes dense_sizes_of(const shape *src, const shape *dst)
{
    dense_sizes d;
    d.N = src->dim[0];
    d.C = shape_span(src, 1, src->rank);
    d.K = dst->dim[1];
    return d;
}

#ifdef __cplusplus
extern "C" {
#endif

/* kernel.formats of dense, and of its gradients; the bias is floats. */
void dense_cuda_formats(const graph *g, const node *n, format *in, format *out);
void dense_cuda_formats_gradient(const graph *g, const node *n, format *in, format *out);

/* The gradient of so many rows of the weights from `first` on; the step's first inputs are src and ddst. */
void dense_cuda_weight_rows(const step *s, int64_t first, int64_t rows, void *to);

/* dense_update_cublaslt.c: the kernel of the optimizer whose work a node of dense_update does, or NULL. */
const kernel *dense_update_cuda_optimizer(const graph *g, const node *n);
/* dense_update_cublaslt.c: kernel.formats of dense_update. */
void dense_update_cuda_formats(const graph *g, const node *n, format *in, format *out);

/* What a library's product leaves to be done. dst = act(dst + bia); bia may be NULL. */
void dense_cuda_finish(cudaStream_t stream, void *dst, dtype type, int64_t N, int64_t K, const float *bia,
                       activation act);
/* dbia = the sum of ddst over the samples. */
void dense_cuda_bias_gradient(cudaStream_t stream, const void *ddst, dtype type, int64_t N, int64_t K, float *dbia);

#ifdef __cplusplus
}
#endif

#endif
