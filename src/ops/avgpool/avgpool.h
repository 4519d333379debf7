/* avgpool.h - what the kernels of average-pooling share. */
#ifndef OPS_AVGPOOL_H
#define OPS_AVGPOOL_H

#include "ops/window.h"

typedef struct avgpool_attr {
    window_attr window;
    bool count_pad;
} avgpool_attr;

extern const op_def avgpool_op;             /* in: src;    out: dst */
extern const op_def avgpool_grad_op;        /* in: ddst;   out: dsrc */
extern const op_def global_avgpool_op;      /* in: src;    out: dst, N x C x 1 x 1 */
extern const op_def global_avgpool_grad_op; /* in: ddst;   out: dsrc */

static inline double avgpool_work(const avgpool_attr *t, int64_t windows)
{
    return (double)windows * t->window.size.h * t->window.size.w;
}

/* Pixels under the window of an output along one axis. */
static inline int64_t avgpool_pixels(const avgpool_attr *t, const window *w, int64_t output)
{
    const span inside = window_inputs(w, output);
    if (!t->count_pad)
        return inside.hi - inside.lo;
    const int64_t lo = output * w->stride - w->before, hi = lo + w->size, end = w->in + w->after;
    return (hi < end ? hi : end) - lo;
}

#endif
