/* cpu.h - what the kernels of the CPU agree on. */
#ifndef DEVICE_CPU_CPU_H
#define DEVICE_CPU_CPU_H

#include "ops/op.h"

/* kernels.c: the kernels of all ops, as device.kernels. */
extern const kernel *const cpu_kernels[];

/* device.c: the CPU as a context's device. */
brasa_status cpu_open(brasa_context *ctx, struct device **out);

/* The layout of activations, N x C x H x W: blocks of channels as wide as the vectors, for the whole network.
 * Pictures of up to three channels, and everything of another rank, stay plain. */
layout cpu_activation_layout(const brasa_context *ctx, const shape *s);

/* The layout of a convolution's weights, K x C x R x S, that direct kernels read in the forward pass: blocks of
 * inputs x outputs, the outputs inside, as wide as the vectors that the context works with. */
layout cpu_weight_layout(const brasa_context *ctx);

/* For kernel.formats: all tensors of a node as cpu_activation_layout says. */
void cpu_formats(const graph *g, const node *n, format *in, format *out);
/* For kernel.supports: input 0 is N x C x H x W with enough channels to be laid out in blocks. */
bool cpu_is_blocked(const graph *g, const node *n);

/* Tensors of so many bytes are in no cache any more when the next node reads them: kernels write them past all. */
enum { STREAM_LEAST = 32 << 20 };
static inline bool is_huge(const arg *a)
{
    return a->count * (int64_t)dtype_size(a->format.storage) >= STREAM_LEAST;
}

#endif
