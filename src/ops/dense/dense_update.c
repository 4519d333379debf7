/* dense_update.c - what a training step does to a dense layer's weights, in one pass over them: their gradient, the
 * update by it (see fused_update.h), and with few samples the gradient of the data.
 *
 * With few samples a dense layer is its weights: VGG-16's first one has 411 MB of them and computes two operations a
 * weight and sample. The gradient of the data is the other reader of the weights in the backward pass: where they
 * come from memory anyway, it is made of each part before it is updated.
 *
 * The reference goes through the weights as they are stored, whatever the layout is, and reads src and ddst plain.
 */
#include "graph/fuse.h"
#include "ops/dense/dense.h"

#ifdef REAL

/* dbia = the sum of ddst over the samples; item: an output of the layer */
static void NAME(bias_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *ddst = s->in[1].data;
    REAL *dbia = s->out[1 + fused_slots(s->node)].data;
    const int64_t N = s->in[1].shape.dim[0], K = s->in[1].shape.dim[1];
    for (int64_t k = begin; k < end; k++)
        dbia[k] = 0;
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = begin; k < end; k++)
            dbia[k] += ddst[n * K + k];
}

/* The gradient of `count` weights from the stored element `first` on. Runs of inputs of one output, which only the
 * plain layout has, are computed at once. */
static void NAME(part_gradient)(const step *s, int64_t first, int64_t count, REAL *dwei)
{
    const arg *wei = &s->in[FUSED_WEI];
    const REAL *src = s->in[0].data, *ddst = s->in[1].data;
    const int64_t N = s->in[1].shape.dim[0], K = s->in[1].shape.dim[1], C = dense_inputs(&wei->shape);
    const bool plain = layout_plain(&wei->format.layout);
    for (int64_t i = 0, run; i < count; i += run) {
        const int64_t at = fused_element(wei, first + i), k = at / C, c = at % C;
        const bool padding = at < 0;
        run = !plain ? 1 : C - c < count - i ? C - c : count - i;
        for (int64_t j = 0; j < run; j++)
            dwei[i + j] = 0;
        for (int64_t n = 0; n < N && !padding; n++)
            for (int64_t j = 0; j < run; j++)
                dwei[i + j] += ddst[n * K + k] * src[n * C + c + j];
    }
}

/* dsrc = ddst x wei, weight by weight as they are stored; item: a sample */
static void NAME(data_range)(const step *s, int64_t begin, int64_t end)
{
    const arg *wei = &s->in[FUSED_WEI];
    const REAL *ddst = s->in[1].data, *w = wei->data;
    const int64_t K = s->in[1].shape.dim[1], C = dense_inputs(&wei->shape);
    for (int64_t n = begin; n < end; n++) {
        REAL *dsrc = (REAL *)dense_update_dsrc(s)->data + n * C;
        for (int64_t c = 0; c < C; c++)
            dsrc[c] = 0;
        for (int64_t i = 0; i < wei->count; i++) {
            const int64_t at = fused_element(wei, i);
            if (at >= 0)
                dsrc[at % C] += ddst[n * K + at / C] * w[i];
        }
    }
}

/* item: PART weights */
static void NAME(update_range)(const step *s, int64_t begin, int64_t end)
{
    _Alignas(64) REAL dwei[PART];
    fused_part part;
    fused_part_init(&part, s);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * PART, left = s->out[0].count - first, count = left < PART ? left : PART;
        NAME(part_gradient)(s, first, count, dwei);
        fused_part_run(&part, first, count, dwei);
    }
}

static brasa_status NAME(dense_update)(const step *s)
{
    const double samples = (double)s->in[1].shape.dim[0];
    dense_update_bias(s);
    if (dense_update_dsrc(s))
        step_for(s, s->in[1].shape.dim[0], samples * (double)s->out[0].count, NAME(data_range));
    step_for(s, (s->out[0].count + PART - 1) / PART, samples * (double)s->out[0].count, NAME(update_range));
    return BRASA_OK;
}

#else

/* --- the rule of fusion --------------------------------------------------------------------------------------- */

bool dense_fuse_update(graph *g, int i)
{
    return fused_update_merge(g, i, &dense_update_op);
}

/* The node before, leaving out those that are gone, or -1. */
static int node_before(const graph *g, int i)
{
    do
        i--;
    while (i >= 0 && g->nodes[i].dead);
    return i;
}

/* Fewer weights have kernels of their own, and are in the cache anyway. Nor is there anything to gain without
 * vectors. */
enum { LEAST_WEIGHTS = 8192 };

bool dense_fuse_data(graph *g, int i)
{
    const node n = g->nodes[i];
    const int before = node_before(g, i);
    const shape *ddst = &g->values[n.in[1]].shape;
    if (!(g->fuse & FUSE_UPDATES) || g->real != F32 || g->ctx->isa == ISA_ANY || before < 0 ||
        ddst->dim[0] > DENSE_FEW || shape_count(&g->values[n.in[FUSED_WEI]].shape) < LEAST_WEIGHTS)
        return false;
    const node data = g->nodes[before];
    if (data.op != &dense_grad_data_op || data.in[0] != n.in[FUSED_WEI] || data.in[1] != n.in[1])
        return false;
    int out[3 + MAX_SLOTS], nout = 0;
    for (; nout < n.nout; nout++)
        out[nout] = n.out[nout];
    out[nout++] = data.out[0];
    node both = n;
    both.out = out;
    both.nout = nout;
    ((fused_update_attr *)n.attr)->data = true;
    if (!fuse_has_kernel(g, &both)) {
        ((fused_update_attr *)n.attr)->data = false;
        return false;
    }
    fuse_remove(g, before);
    return fuse_rewrite(g, i, n, n.nin, n.in, nout, out);
}

op_cost dense_update_cost(const graph *g, const node *n)
{
    const double samples = (double)g->values[n->in[1]].shape.dim[0];
    const double products = ((const fused_update_attr *)n->attr)->data ? 2 : 1;
    return (op_cost){2 * products * samples * (double)shape_count(&g->values[n->in[FUSED_WEI]].shape)};
}

/* --- the reference -------------------------------------------------------------------------------------------- */

/* Elements of a part: little enough for the first cache, and for the stack. */
enum { PART = 2048 };

#define REAL_SOURCE "ops/dense/dense_update.c"
#include "ops/real.h"

void dense_update_bias(const step *s)
{
    const int64_t N = s->in[1].shape.dim[0], K = s->in[1].shape.dim[1];
    if (s->nout - (dense_update_dsrc(s) != NULL) > 1 + fused_slots(s->node))
        step_for(s, K, (double)N * (double)K, s->in[1].format.storage == F64 ? bias_range_f64 : bias_range_f32);
}

const kernel dense_update_ref[] = {
    REFERENCE_(dense_update_op, dense_update, .open = fused_update_open_ref, .formats = fused_update_formats),
    {0},
};

#endif
