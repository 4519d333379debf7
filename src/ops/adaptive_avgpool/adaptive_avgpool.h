/* adaptive_avgpool.h - what the kernels of adaptive average-pooling share. */
#ifndef OPS_ADAPTIVE_AVGPOOL_H
#define OPS_ADAPTIVE_AVGPOOL_H

#include "ops/window.h"

extern const op_def adaptive_avgpool_op;      /* in: src;    out: dst */
extern const op_def adaptive_avgpool_grad_op; /* in: ddst;   out: dsrc */

typedef struct axis {
    int64_t in, out;
} axis;

/* The pixels that an output is the mean of. */
static inline span axis_inputs(const axis *a, int64_t output)
{
    return (span){output * a->in / a->out, ((output + 1) * a->in + a->out - 1) / a->out};
}

static inline int64_t span_size(span s)
{
    return s.hi - s.lo;
}

/* A window is about `in / out` pixels high, and never less than one. */
static inline double adaptive_work(const shape *src, const shape *dst)
{
    return (double)shape_count(src) + (double)shape_count(dst);
}

#endif
