/* dropout_relu_grad.c - the gradients of a ReLU and of the dropout behind it, in one pass, without random numbers.
 *
 * What dropout wrote tells both: an element that is zero there was dropped, or was zero before, and nothing goes back
 * through it; any other was kept, and multiplied by the factor. So the mask need not be drawn a second time, and
 * dropout may overwrite what it reads. NaN counts as kept, as in relu.c.
 */
#include "graph/fuse.h"
#include "ops/dropout/dropout.h"

#ifdef REAL

/* in: dst of dropout, its ddst; out: dsrc of the ReLU */
static void NAME(dropout_relu_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *dst = s->in[0].data, *ddst = s->in[1].data, factor = (REAL)dropout_factor(s->attr);
    REAL *dsrc = s->out[0].data;
    for (int64_t i = begin; i < end; i++) {
        const REAL d = ddst[i] * factor;
        dsrc[i] = dst[i] <= 0 ? 0 : d;
    }
}

SPLIT_STEP(NAME(dropout_relu_grad), NAME(dropout_relu_grad_range), s->out[0].count, (double)s->out[0].count)

#else

#define REAL_SOURCE "ops/dropout/dropout_relu_grad.c"
#include "ops/wide.h"

/* The dropout of the forward pass that a node is the gradient of, or -1. */
static int forward_of(const graph *g, const node *n)
{
    const dropout_attr *t = n->attr;
    for (int i = 0; i < g->nnodes; i++) {
        const node *f = &g->nodes[i];
        if (f->op == &dropout_op && f->role == ROLE_FORWARD && ((const dropout_attr *)f->attr)->stream == t->stream)
            return i;
    }
    return -1;
}

bool dropout_fuse_relu(graph *g, int i)
{
    const node *n = &g->nodes[i];
    const int j = n->role == ROLE_GRADIENT && g->fuse & FUSE_FLAT ? fuse_only_reader(g, n->out[0]) : -1;
    if (j < 0 || g->nodes[j].op != &relu_grad_op || g->nodes[j].in[1] != n->out[0])
        return false;
    const int f = forward_of(g, n);
    if (f < 0 || g->nodes[f].in[0] != g->nodes[j].in[0])
        return false;
    const int in[2] = {g->nodes[f].out[0], n->in[0]};
    node as = g->nodes[j];
    as.op = &dropout_relu_grad_op;
    as.attr = n->attr;
    fuse_remove(g, i);
    return fuse_rewrite(g, j, as, 2, in, 1, g->nodes[j].out);
}

const op_def dropout_relu_grad_op = {
    .name = "dropout_relu_grad", .attr_size = sizeof(dropout_attr), .in_place = 1u << 1};

const kernel dropout_relu_grad_wide[] = {WIDE(dropout_relu_grad_op, dropout_relu_grad), {0}};

#endif
