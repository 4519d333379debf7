/* avgpool.h - what the kernels of average-pooling share. */
#ifndef OPS_AVGPOOL_H
#define OPS_AVGPOOL_H

#include "ops/window.h"

typedef struct avgpool_attr {
    window_attr window; /* first: attributes are read as a window, too */
    bool count_pad;
} avgpool_attr;

extern const op_def avgpool_op;             /* in: src;    out: dst */
extern const op_def avgpool_grad_op;        /* in: ddst;   out: dsrc */
extern const op_def global_avgpool_op;      /* in: src;    out: dst, N x C x 1 x 1 */
extern const op_def global_avgpool_grad_op; /* in: ddst;   out: dsrc */

/* Pixels under the window of an output along one axis. */
static inline int64_t avgpool_pixels(const avgpool_attr *t, const window *w, int64_t output)
{
    const span inside = window_inputs(w, output);
    if (!t->count_pad)
        return inside.hi - inside.lo;
    const int64_t lo = output * w->stride - w->before, hi = lo + w->size, end = w->in + w->after;
    return (hi < end ? hi : end) - lo;
}

typedef struct pooling {
    const avgpool_attr *attr;
    window y, x;
} pooling;

static inline pooling pooling_of(const step *s, const shape *src, const shape *dst)
{
    const window_attr *t = &((const avgpool_attr *)s->attr)->window;
    return (pooling){.attr = (const avgpool_attr *)s->attr, .y = window_y(t, src, dst), .x = window_x(t, src, dst)};
}

static inline span pooling_rows(const pooling *p, int64_t oy)
{
    return window_inputs(&p->y, oy);
}

static inline span pooling_columns(const pooling *p, int64_t ox)
{
    return window_inputs(&p->x, ox);
}

static inline int64_t pooling_pixels(const pooling *p, int64_t oy, int64_t ox)
{
    return avgpool_pixels(p->attr, &p->y, oy) * avgpool_pixels(p->attr, &p->x, ox);
}

#endif
