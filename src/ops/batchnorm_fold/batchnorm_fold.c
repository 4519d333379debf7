/* batchnorm_fold.c - the weights and the bias of a convolution with the batch norm behind it made part of them.
 *
 * K output channels, each with its scale = gamma / sqrt(var + epsilon):
 *     out wei = scale wei,   out bia = (bia - mean) scale + beta
 * Weights stay in the layout that they have. Every layout in use has the output channels outermost, whole or in
 * blocks with the rest of the block inside: so the stored weights are outer x turns x block x inner elements, and the
 * channel is that of outer and block.
 */
#include "ops/batchnorm_fold/batchnorm_fold.h"

#include <math.h>

#ifdef REAL

/* All of the weights that a block of output channels has. Adding zero makes +0 of -0: what the input channels pad
 * stays zero in every bit, be the scale negative. */
static void NAME(scale_block)(const walk *w, const REAL *scale, const REAL *wei, REAL *out)
{
    for (int64_t turn = 0; turn < w->turns; turn++) {
        for (int64_t k = 0; k < w->block && w->inner == 1; k++)
            out[k] = wei[k] * scale[k] + 0;
        for (int64_t k = 0; k < w->block && w->inner > 1; k++)
            for (int64_t i = 0; i < w->inner; i++)
                out[k * w->inner + i] = wei[k * w->inner + i] * scale[k] + 0;
        wei += w->block * w->inner;
        out += w->block * w->inner;
    }
}

/* in: wei [, bia] [, gamma, beta], mean, var; out: wei, bia; item: a block of output channels, or one channel */
static void NAME(batchnorm_fold_range)(const step *s, int64_t begin, int64_t end)
{
    const walk w = walk_of(&s->in[0].format.layout, &s->in[0].shape);
    const fold_args a = fold_args_of(s);
    const REAL *wei = s->in[0].data, *bia = a.bia, *gamma = a.gamma, *beta = a.beta, *mean = a.mean, *var = a.var;
    REAL *out = s->out[0].data, *shift = s->out[1].data;
    const int64_t K = s->in[0].shape.dim[0];
    for (int64_t o = begin; o < end; o++) {
        REAL scale[MAX_BLOCK] = {0}; /* what a block pads stays zero */
        for (int64_t k = 0; k < w.block && o * w.block + k < K; k++) {
            const int64_t c = o * w.block + k;
            scale[k] = (REAL)((gamma ? gamma[c] : 1) / sqrt(var[c] + a.epsilon));
            shift[c] = ((bia ? bia[c] : 0) - mean[c]) * scale[k] + (beta ? beta[c] : 0);
        }
        const int64_t first = o * w.turns * w.block * w.inner;
        NAME(scale_block)(&w, scale, wei + first, out + first);
    }
}

static brasa_status NAME(batchnorm_fold)(const step *s)
{
    const walk w = walk_of(&s->in[0].format.layout, &s->in[0].shape);
    step_for(s, w.outer, (double)s->in[0].count, NAME(batchnorm_fold_range));
    return BRASA_OK;
}

#else

enum { MAX_BLOCK = 256 }; /* a block size is a byte */

typedef struct walk {
    int64_t outer, turns, block, inner;
} walk;

/* Whether a layout is of the kind that a walk describes. */
static bool walks(const layout *l)
{
    int blocks = 0;
    for (int b = 0; b < l->nblocks; b++)
        blocks += l->axis[b] == 0;
    return blocks <= 1 && (!l->permuted || l->order[0] == 0);
}

static walk walk_of(const layout *l, const shape *s)
{
    walk w = {.block = 1, .inner = 1};
    for (int b = 0; b < l->nblocks; b++) {
        if (l->axis[b] == 0)
            w = (walk){.block = l->block[b], .inner = 1};
        else
            w.inner *= l->block[b];
    }
    w.outer = (s->dim[0] + w.block - 1) / w.block;
    w.turns = layout_count(l, s) / (w.outer * w.block * w.inner);
    if (w.block == 1) /* whole channels: all of one in one go */
        w = (walk){.outer = w.outer, .turns = 1, .block = 1, .inner = w.turns * w.inner};
    return w;
}

#define REAL_SOURCE "ops/batchnorm_fold/batchnorm_fold.c"
#include "ops/real.h"

/* What the convolution that reads the weights wants; plain where it has no wish. */
static layout wanted_by_reader(const graph *g, int wei)
{
    for (int i = 0; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        if (n->nin == 3 && n->nout == 1 && n->in[1] == wei && n->kernel->formats) {
            format in[3], out[1];
            formats_plain(g, n, in, out);
            n->kernel->formats(g, n, in, out);
            return in[1].layout;
        }
    }
    return (layout){0};
}

/* Weights that have a layout keep it; those of a session that does not train take the convolution's. */
static void formats(const graph *g, const node *n, format *in, format *out)
{
    const value *wei = &g->values[n->in[0]];
    const layout l = wei->settled ? wei->format.layout : wanted_by_reader(g, n->out[0]);
    if (walks(&l))
        in[0].layout = out[0].layout = l;
}

static op_cost cost(const graph *g, const node *n)
{
    return (op_cost){(double)shape_count(&g->values[n->in[0]].shape)};
}

const op_def batchnorm_fold_op = {.name = "batchnorm_fold", .attr_size = sizeof(batchnorm_attr), .cost = cost};

const op_def *const batchnorm_fold_parts[] = {&batchnorm_fold_op, NULL};
const kernel batchnorm_fold_ref[] = {
    REFERENCE_(batchnorm_fold_op, batchnorm_fold, .formats = formats),
    {0},
};

#endif
