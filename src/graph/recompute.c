/* recompute.c - what can be made again from values that are kept anyway is not kept.
 *
 * A convolution's weight gradient reads the convolution's input once more, long after the forward pass. Where that is
 * the output of batch norm with its activation, batch norm's own gradient keeps its input: the output is let go, and
 * made again right before the weight gradient, with the same bits. In ResNet-50 that is a seventh of the memory of a
 * step. It costs one more pass over memory: worth it where the tensor is large and the reader computes for much longer
 * than that, or where the tensor is so large that a few of its kind are what a step needs most of its memory for.
 */
#include "graph/graph.h"
#include "ops/op.h"

enum {
    LEAST_BYTES = 4 << 20,
    LEAST_FLOPS = 400, /* of the reader for each element: a pass takes as long as about 100 of them (Zen 4) */
    HUGE_BYTES = 128 << 20,
};

typedef struct recompute {
    graph *g;
    bool all;
    int *gradients, *last; /* of each value: nodes of the backward pass that read it, and the last of them */
} recompute;

static void find_readers(recompute *r)
{
    const graph *g = r->g;
    for (int i = 0; i < g->nnodes; i++) {
        for (int k = 0; k < g->nodes[i].nin && g->nodes[i].role != ROLE_FORWARD; k++) {
            r->gradients[g->nodes[i].in[k]]++;
            r->last[g->nodes[i].in[k]] = i;
        }
    }
}

/* Node i is the only one of the backward pass that reads value v, and takes long enough, or v is huge. */
static bool is_worth(const recompute *r, int i, int v)
{
    const graph *g = r->g;
    const node *reader = &g->nodes[i];
    const double count = (double)shape_count(&g->values[v].shape);
    const double bytes = count * (double)dtype_size(g->values[v].type);
    if (r->gradients[v] != 1 || g->values[v].output)
        return false;
    return r->all || bytes >= HUGE_BYTES ||
           (bytes >= LEAST_BYTES && reader->op->cost && reader->op->cost(g, reader).flops >= LEAST_FLOPS * count);
}

/* The node that makes input k of node i again, for that alone, or -1. */
static int make_again(const recompute *r, int i, int k)
{
    graph *g = r->g;
    const int v = g->nodes[i].in[k], maker = g->values[v].kind == VALUE_TEMP ? g->values[v].producer : -1;
    if (g->nodes[i].role != ROLE_GRADIENT || maker < 0 || g->nodes[maker].role != ROLE_FORWARD)
        return -1;
    const node n = g->nodes[maker];
    if (!n.op->again || n.out[0] != v || r->last[n.in[0]] <= i || !is_worth(r, i, v))
        return -1;
    const int again = n.op->again(g, &n);
    if (again >= 0) {
        g->nodes[again].role = ROLE_GRADIENT;
        g->nodes[again].act = n.act;
    }
    return again;
}

brasa_status pass_recompute(graph *g, bool all)
{
    const size_t values = (size_t)g->nvalues + 1;
    recompute r = {.g = g,
                   .all = all,
                   .gradients = pool_get(&g->pool, values, sizeof *r.gradients),
                   .last = pool_get(&g->pool, values, sizeof *r.last)};
    int *order = pool_get(&g->pool, 2 * (size_t)g->nnodes + 1, sizeof *order), count = 0;
    if (!r.gradients || !r.last || !order)
        return fail_memory(g->ctx, values * sizeof *r.last);
    find_readers(&r);
    for (int i = 0, nodes = g->nnodes; i < nodes && g->status == BRASA_OK; i++) {
        const int again = g->nodes[i].nin ? make_again(&r, i, 0) : -1;
        if (again >= 0) {
            g->nodes[i].in[0] = g->nodes[again].out[0];
            order[count++] = again;
        }
        order[count++] = i;
    }
    return g->status == BRASA_OK ? graph_arrange(g, order, count) : g->status;
}
