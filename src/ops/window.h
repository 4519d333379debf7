/* window.h - sliding windows: the arithmetic that convolution and pooling share.
 *
 * A window of `size` taps, `dilation` apart, moves by `stride` over an axis that is padded at both ends. Positions
 * are 64 bits wide; the ranges of the fields keep every product far below that.
 */
#ifndef OPS_WINDOW_H
#define OPS_WINDOW_H

#include "ops/op.h"

enum { MAX_WINDOW = 32768 }; /* of sizes, strides and dilations: the product of two fits an int */

typedef struct window_attr {
    pair size, stride, dilation;
    pads pad;
    bool ceil; /* a last window that is not whole counts too, if it starts in the input or in the padding before it */
} window_attr;

/* Completes 'same' padding as the dialect means it and sets output 0, N x channels x height x width. Fails where the
 * output would be empty. Input 0 has 4 dimensions. */
brasa_status window_infer(infer_args *a, window_attr *t, int64_t channels);

/* The same for pooling: dilation is 1, a stride of 0 becomes the size, and no window may lie in the padding alone. */
brasa_status window_infer_pool(infer_args *a, window_attr *t);

/* Taps of so many windows. */
static inline double window_taps(const window_attr *t, int64_t windows)
{
    return (double)windows * t->size.h * t->size.w;
}

/* One axis: tap t of output o sees input o * stride - before + t * dilation. */
typedef struct window {
    int64_t in, out;
    int64_t size, stride, dilation, before, after;
} window;

/* The height and the width of a window over src that gives dst, both N x C x H x W. */
static inline window window_y(const window_attr *t, const shape *src, const shape *dst)
{
    const window y = {src->dim[2], dst->dim[2], t->size.h, t->stride.h, t->dilation.h, t->pad.top, t->pad.bottom};
    return y;
}

static inline window window_x(const window_attr *t, const shape *src, const shape *dst)
{
    const window x = {src->dim[3], dst->dim[3], t->size.w, t->stride.w, t->dilation.w, t->pad.left, t->pad.right};
    return x;
}

typedef struct span { /* lo, lo + 1, ..., hi - 1; empty where lo = hi */
    int64_t lo, hi;
} span;

/* The outputs whose tap lies in the input, not in the padding. */
static inline span window_outputs(const window *w, int64_t tap)
{
    const int64_t at = tap * w->dilation - w->before; /* of output 0 */
    if (at >= 0 && at + (w->out - 1) * w->stride < w->in)
        return (span){0, w->out}; /* the usual case, without a division */
    int64_t lo = at < 0 ? (-at + w->stride - 1) / w->stride : 0;
    int64_t hi = at < w->in ? (w->in - at + w->stride - 1) / w->stride : 0;
    hi = hi < w->out ? hi : w->out;
    return (span){lo < hi ? lo : hi, hi};
}

/* The inputs that an output's window covers; dilation is 1. */
static inline span window_inputs(const window *w, int64_t output)
{
    const int64_t lo = output * w->stride - w->before, hi = lo + w->size;
    return (span){lo > 0 ? lo : 0, hi < w->in ? hi : w->in};
}

#endif
