/* dropout.h - what the kernels of dropout share. */
#ifndef OPS_DROPOUT_H
#define OPS_DROPOUT_H

#include "core/random.h"
#include "ops/op.h"

#include <math.h>

typedef struct dropout_attr {
    double p;
    int stream; /* not a field: set by lower */
} dropout_attr;

extern const op_def dropout_op; /* in: src, steps done [, samples before these];   out: dst */
/* Its gradient and that of a ReLU before it: see dropout_relu_grad.c. in: dst, ddst; out: dsrc */
extern const op_def dropout_relu_grad_op;
/* The rule of fusion. */
bool dropout_fuse_relu(graph *g, int i);

/* Element i of the batch, in the shape's order, has word i % 4 of group i / 4. */
static inline random_stream dropout_stream(const step *s)
{
    random_stream out = {.seed = s->seed,
                         .purpose = RANDOM_DROPOUT,
                         .stream = (uint32_t)((const dropout_attr *)s->attr)->stream,
                         .step = (uint32_t) * (const int64_t *)s->in[1].data};
    return out;
}

/* Where the tensor begins in that order: behind the samples of earlier parts of the batch. */
static inline int64_t dropout_first(const step *s)
{
    const shape *x = &s->in[0].shape;
    return s->nin > 2 ? *(const int64_t *)s->in[2].data * shape_span(x, 1, x->rank) : 0;
}

/* Kept is what has word >> 8 at or above it: random_unit(word) >= p, in whole numbers. */
static inline uint32_t dropout_limit(const dropout_attr *t)
{
    return (uint32_t)ceil(t->p * 0x1p24);
}

/* Kept elements are multiplied by it; with p = 1 there are none. */
static inline double dropout_factor(const dropout_attr *t)
{
    return t->p < 1 ? 1 / (1 - t->p) : 0;
}

/* Most of it for the random numbers. */
static inline double dropout_work(const step *s)
{
    return (double)s->out[0].count * 10;
}

#endif
