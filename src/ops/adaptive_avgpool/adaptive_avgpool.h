/* adaptive_avgpool.h - what the kernels of adaptive average-pooling share. */
#ifndef OPS_ADAPTIVE_AVGPOOL_H
#define OPS_ADAPTIVE_AVGPOOL_H

#include "ops/window.h"

extern const op_def adaptive_avgpool_op;      /* in: src;    out: dst */
extern const op_def adaptive_avgpool_grad_op; /* in: ddst;   out: dsrc */

typedef struct axis {
    int64_t in, out;
} axis;

typedef struct pooling {
    axis y, x;
} pooling;

static inline pooling pooling_of(const step *s, const shape *src, const shape *dst)
{
    (void)s;
    return (pooling){{src->dim[2], dst->dim[2]}, {src->dim[3], dst->dim[3]}};
}

/* The pixels that an output is the mean of. */
static inline span axis_inputs(const axis *a, int64_t output)
{
    return (span){output * a->in / a->out, ((output + 1) * a->in + a->out - 1) / a->out};
}

static inline int64_t span_size(span s)
{
    return s.hi - s.lo;
}

static inline span pooling_rows(const pooling *p, int64_t oy)
{
    return axis_inputs(&p->y, oy);
}

static inline span pooling_columns(const pooling *p, int64_t ox)
{
    return axis_inputs(&p->x, ox);
}

static inline int64_t pooling_pixels(const pooling *p, int64_t oy, int64_t ox)
{
    return span_size(pooling_rows(p, oy)) * span_size(pooling_columns(p, ox));
}

/* A window is about `in / out` pixels high, and never less than one. */
static inline double adaptive_work(const shape *src, const shape *dst)
{
    return (double)shape_count(src) + (double)shape_count(dst);
}

#endif
