/* depthwise_grad.c - the gradients of a depthwise convolution's input and weights, in one pass.
 *
 * N samples, C channels; src and dsrc N x C x H x W, ddst N x C x height x width, wei and dwei C x 1 x R x S, dbia C.
 * Such a convolution does a few operations for each element that it reads: two passes, one for each gradient, take
 * about twice the time of one. Convolution's grad emits it where both gradients are wanted.
 */
#include "ops/depthwise_grad/depthwise_grad.h"

#ifdef REAL

/* One plane: dsrc, and what it adds to the gradient of its kernel. */
static void NAME(depthwise_plane)(const window *y, const window *x, const REAL *src, const REAL *wei,
                                  const REAL *ddst, REAL *dsrc, REAL *dwei)
{
    for (int64_t i = 0; i < y->in * x->in; i++)
        dsrc[i] = 0;
    for (int64_t tap = 0; tap < y->size * x->size; tap++) {
        const int64_t r = tap / x->size, s = tap % x->size;
        const span rows = window_outputs(y, r), columns = window_outputs(x, s);
        double sum = 0;
        for (int64_t oy = rows.lo; oy < rows.hi; oy++) {
            const int64_t iy = oy * y->stride + r * y->dilation - y->before;
            const int64_t first = iy * x->in + s * x->dilation - x->before;
            for (int64_t ox = columns.lo; ox < columns.hi; ox++) {
                const int64_t i = first + ox * x->stride;
                dsrc[i] += wei[tap] * ddst[oy * x->out + ox];
                sum += src[i] * ddst[oy * x->out + ox];
            }
        }
        dwei[tap] += (REAL)sum;
    }
}

/* item: a channel */
static void NAME(depthwise_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const shape *in = &s->in[0].shape, *out = &s->in[2].shape;
    const window_attr *t = &((const conv2d_attr *)s->attr)->window;
    const window y = window_y(t, in, out), x = window_x(t, in, out);
    const int64_t N = in->dim[0], C = in->dim[1], HW = y.in * x.in, P = y.out * x.out, RS = y.size * x.size;
    const REAL *src = s->in[0].data, *wei = s->in[1].data, *ddst = s->in[2].data;
    REAL *dsrc = s->out[0].data, *dwei = s->out[1].data, *dbia = s->nout > 2 ? s->out[2].data : NULL;
    for (int64_t c = begin; c < end; c++) {
        double sum = 0;
        for (int64_t i = c * RS; i < (c + 1) * RS; i++)
            dwei[i] = 0;
        for (int64_t n = 0; n < N; n++) {
            const int64_t plane = n * C + c;
            NAME(depthwise_plane)
            (&y, &x, src + plane * HW, wei + c * RS, ddst + plane * P, dsrc + plane * HW, dwei + c * RS);
            for (int64_t i = plane * P; dbia && i < (plane + 1) * P; i++)
                sum += ddst[i];
        }
        if (dbia)
            dbia[c] = (REAL)sum;
    }
}

SPLIT_STEP(NAME(depthwise_grad), NAME(depthwise_grad_range), s->in[0].shape.dim[1],
           (double)s->in[2].count *shape_span(&s->in[1].shape, 1, 4))

#else

#define REAL_SOURCE "ops/depthwise_grad/depthwise_grad.c"
#include "ops/real.h"

/* Of both, as conv2d counts them. */
static op_cost cost(const graph *g, const node *n)
{
    const shape *wei = &g->values[n->in[1]].shape, *ddst = &g->values[n->in[2]].shape;
    return (op_cost){4.0 * (double)shape_count(ddst) * (double)shape_span(wei, 1, 4)};
}

const op_def depthwise_grad_op = {.name = "depthwise_grad", .attr_size = sizeof(conv2d_attr), .cost = cost};

const op_def *const depthwise_grad_parts[] = {&depthwise_grad_op, NULL};
const kernel depthwise_grad_ref[] = {REFERENCE(depthwise_grad_op, depthwise_grad), {0}};

#endif
