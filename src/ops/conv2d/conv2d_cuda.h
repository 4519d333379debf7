/* conv2d_cuda.h - what the kernels of convolution on NVIDIA GPUs share: layouts, and the work on the bias, which
 * cuDNN leaves to us. Functions are in conv2d_cuda.cu. */
#ifndef OPS_CONV2D_CUDA_H
#define OPS_CONV2D_CUDA_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "ops/conv2d/conv2d.h"

/* For kernel.formats of all three products: pictures as NHWC, weights as OHWI, in 16 bits with BRASA_BF16; the bias
 * and its gradient are floats. */
void conv2d_cuda_formats(const graph *g, const node *n, format *in, format *out);

/* Starts dst = act(dst + bia) in place, on a matrix of rows (pixels) of channels. bia may be NULL. */
void conv2d_cuda_finish(const cuda_queue *q, void *dst, dtype type, const float *bia, int64_t rows, int64_t channels,
                        activation act);

/* Starts dbia = the sums over the rows of ddst. The workspace has as many bytes as the first function says. */
int64_t conv2d_cuda_bias_bytes(const cuda_queue *q, int64_t rows, int64_t channels);
void conv2d_cuda_bias_grad(const cuda_queue *q, const void *ddst, dtype type, float *dbia, int64_t rows,
                           int64_t channels, void *workspace);

/* Starts rounding the bias to 16 bits. */
void conv2d_cuda_round(const cuda_queue *q, const float *from, int64_t count, void *to);

/* Starts filling memory with small numbers, to time engines on. */
void conv2d_cuda_fill(const cuda_queue *q, void *to, dtype type, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
