/* views.c - dense layers read what convolutions write.
 *
 * A flatten asks for N x C H W in the plain order; a convolution writes N x C x H x W in blocks of channels. But a
 * dense layer does not care in which order its inputs come, as long as its weights come in the same. So the flatten
 * before a dense layer goes away: the layer reads N x C x H x W, and its weights become K x C x H x W, the same
 * elements in the same order as K x C H W. What stands between the two and works element by element (dropout) is
 * moved before the flatten first.
 */
#include "graph/graph.h"
#include "ops/dense/dense.h"

/* The only node that reads a value, or -1. */
static int only_reader(const graph *g, int v)
{
    int found = -1;
    for (int i = 0; i < g->nnodes; i++) {
        for (int k = 0; k < g->nodes[i].nin; k++) {
            if (g->nodes[i].in[k] != v)
                continue;
            if (found >= 0)
                return -1;
            found = i;
        }
    }
    return found;
}

static bool flattens(const graph *g, const node *n)
{
    const shape *in = &g->values[n->in[0]].shape, *out = &g->values[n->out[0]].shape;
    return n->op->view && in->rank == 4 && out->rank == 2 && in->dim[0] == out->dim[0];
}

/* view, then element by element, becomes element by element, then view. */
static void swap(graph *g, int view, int after)
{
    const int x = g->nodes[view].in[0], between = g->nodes[view].out[0], y = g->nodes[after].out[0];
    g->values[between].shape = g->values[x].shape; /* now the element-wise node's output */
    node moved = g->nodes[after];
    moved.in[0] = x;
    moved.out[0] = between;
    g->nodes[view].in[0] = between;
    g->nodes[view].out[0] = y;
    g->nodes[after] = g->nodes[view];
    g->nodes[view] = moved;
    g->values[between].producer = view;
    g->values[y].producer = after;
}

/* The dense layer reads the view's source. */
static void absorb(graph *g, int view, int dense)
{
    const int x = g->nodes[view].in[0], wei = g->nodes[dense].in[1];
    const int64_t K = g->values[wei].shape.dim[0];
    g->nodes[dense].in[0] = x;
    g->values[wei].shape = g->values[x].shape;
    g->values[wei].shape.dim[0] = K;
    g->nodes[view].dead = true;
}

brasa_status pass_views(graph *g)
{
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i].dead || !flattens(g, &g->nodes[i]) || g->values[g->nodes[i].out[0]].output)
            continue;
        const int next = only_reader(g, g->nodes[i].out[0]);
        if (next < 0)
            continue;
        const node *n = &g->nodes[next];
        if (n->op == &dense_op && only_reader(g, n->in[1]) == next)
            absorb(g, i, next);
        else if (n->op->elementwise && n->in[0] == g->nodes[i].out[0])
            swap(g, i, next); /* the view now stands at `next`, where this loop will come to it */
    }
    graph_sweep(g);
    return BRASA_OK;
}
