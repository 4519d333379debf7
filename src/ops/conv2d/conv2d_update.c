/* conv2d_update.c - the gradient of a convolution's weights and the update by it, in one node: see fused_update.h.
 *
 * With few pixels a convolution is its weights, as a dense layer is with few samples: at batch 1, three fifths of
 * ResNet-50's weights see 49 outputs each, and an update can take as long as the products of their gradient.
 *
 * The reference computes the whole gradient by that of conv2d_grad_weights, in its workspace, and updates the weights
 * part by part as they are stored, whatever their layout is.
 */
#include "ops/conv2d/conv2d.h"
#include "ops/fused_update.h"

#ifdef REAL

/* item: PART weights */
static void NAME(update_range)(const step *s, int64_t begin, int64_t end)
{
    _Alignas(64) REAL dwei[PART];
    const arg *wei = &s->in[FUSED_WEI];
    const REAL *whole = s->workspace;
    fused_part part;
    fused_part_init(&part, s);
    for (int64_t first = begin * PART; first < end * PART && first < wei->count; first += PART) {
        const int64_t left = wei->count - first, count = left < PART ? left : PART;
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = fused_element(wei, first + i);
            dwei[i] = at < 0 ? 0 : whole[at];
        }
        fused_part_run(&part, first, count, dwei);
    }
}

static brasa_status NAME(conv2d_update)(const step *s)
{
    const int slots = fused_slots(s->node);
    arg out[2] = {s->out[0]};
    out[0].data = s->workspace;
    out[0].format.layout = (layout){0};
    if (s->nout > 1 + slots)
        out[1] = s->out[1 + slots];
    step gradient = *s;
    gradient.kernel = gradient_kernel(s->in[0].format.storage);
    gradient.attr = ((const fused_update_attr *)s->attr)->layer;
    gradient.out = out;
    gradient.nout = s->nout - slots;
    gradient.kernel->run(&gradient); /* arithmetic: there is nothing to fail */
    step_for(s, (s->out[0].count + PART - 1) / PART, (double)s->out[0].count, NAME(update_range));
    return BRASA_OK;
}

#else

/* Elements of a part: little enough for the first cache, and for the stack. */
enum { PART = 2048 };

/* The reference is the last one. */
static const kernel *gradient_kernel(dtype real)
{
    const kernel *last = NULL;
    for (const kernel *k = NULL; (k = kernel_next(NULL, &conv2d_grad_weights_op, real, k)) != NULL;)
        last = k;
    return last;
}

#define REAL_SOURCE "ops/conv2d/conv2d_update.c"
#include "ops/real.h"

bool conv2d_fuse_update(graph *g, int i)
{
    const node *n = &g->nodes[i];
    const conv2d_attr *t = n->attr;
    const shape *src = &g->values[n->in[0]].shape, *dst = &g->values[n->in[1]].shape;
    const int64_t taps = t->window.size.h * t->window.size.w, pixels = dst->dim[0] * shape_span(dst, 2, 4);
    return t->groups == 1 && src->dim[1] >= CONV2D_UPDATE_CHANNELS && dst->dim[1] >= CONV2D_UPDATE_CHANNELS &&
           taps <= CONV2D_UPDATE_TAPS && pixels <= (taps == 1 ? CONV2D_UPDATE_PIXELS : CONV2D_UPDATE_PIXELS_WIDE) &&
           fused_update_merge(g, i, &conv2d_update_op);
}

static int64_t workspace(const graph *g, const node *n)
{
    return shape_count(&g->values[n->in[FUSED_WEI]].shape) * (int64_t)dtype_size(g->real);
}

const kernel conv2d_update_ref[] = {
    REFERENCE_(conv2d_update_op, conv2d_update, .open = fused_update_open_ref, .formats = fused_update_formats,
               .workspace = workspace),
    {0},
};

#endif
