/* fuse.c - makes one node of several: by the rule for activations, and by the rules that ops bring along.
 *
 * A ReLU or ReLU6 right behind a node that can apply it becomes part of that node. Allowed where the activation is
 * the only reader of the node's output: the gradients of these two activations are computed from their outputs, so
 * the value in between is never stored at all. Then every op with a rule of its own tries it.
 *
 * The index: a value knows its producer; how many inputs it is, and the sum of the numbers of those nodes, stand in
 * graph.readers. Where there is one reader the sum is its number.
 */
#include "graph/fuse.h"
#include "ops/op.h"

#include <string.h>

struct readers {
    int count;
    int64_t sum;
};

int fuse_producer(const graph *g, int v)
{
    return g->values[v].kind == VALUE_TEMP ? g->values[v].producer : -1;
}

int fuse_only_reader(const graph *g, int v)
{
    const struct readers *r = &g->readers[v];
    return r->count == 1 && !g->values[v].output ? (int)r->sum : -1;
}

bool fuse_has_kernel(const graph *g, const node *n)
{
    for (const kernel *k = NULL; (k = kernel_next(g->ctx, n->op, g->real, k)) != NULL;)
        if (k->isa <= g->ctx->isa && (!k->supports || k->supports(g, n)))
            return true;
    return false;
}

/* Adds the inputs of node i to the index, or takes them out of it. */
static void count_reads(graph *g, int i, int sign)
{
    for (int k = 0; k < g->nodes[i].nin; k++) {
        struct readers *r = &g->readers[g->nodes[i].in[k]];
        r->count += sign;
        r->sum += sign * i;
    }
}

bool fuse_rewrite(graph *g, int i, node as, int nin, const int *in, int nout, const int *out)
{
    int *ids = pool_get(&g->pool, (size_t)(nin + nout), sizeof *ids);
    if (!ids) {
        graph_stick(g, fail_memory(g->ctx, (size_t)(nin + nout) * sizeof *ids));
        return false;
    }
    memcpy(ids, in, (size_t)nin * sizeof *in);
    memcpy(ids + nin, out, (size_t)nout * sizeof *out);
    count_reads(g, i, -1);
    as.in = ids;
    as.out = ids + nin;
    as.nin = nin;
    as.nout = nout;
    g->nodes[i] = as;
    count_reads(g, i, 1);
    for (int k = 0; k < nout; k++)
        if (g->values[out[k]].kind == VALUE_TEMP)
            g->values[out[k]].producer = i;
    return true;
}

void fuse_remove(graph *g, int i)
{
    count_reads(g, i, -1);
    g->nodes[i].nin = 0;
    g->nodes[i].dead = true;
}

static activation activation_of(const op_def *op)
{
    return op == &relu_op ? ACT_RELU : op == &relu6_op ? ACT_RELU6 : ACT_NONE;
}

static void fuse_activation(graph *g, int i)
{
    const node *act = &g->nodes[i];
    const activation kind = activation_of(act->op);
    const int before = kind == ACT_NONE || fuse_only_reader(g, act->in[0]) != i ? -1 : fuse_producer(g, act->in[0]);
    if (before < 0)
        return;
    node *n = &g->nodes[before];
    if (!n->op->takes_activation || n->act != ACT_NONE || n->out[0] != act->in[0])
        return;
    n->act = kind;
    n->out[0] = act->out[0];
    g->values[act->out[0]].producer = before;
    fuse_remove(g, i);
}

brasa_status pass_fuse(graph *g)
{
    /* Rules may add values, at most as many as nodes have outputs. */
    const size_t most = (size_t)g->nvalues + (size_t)g->nnodes * MAX_OUT;
    g->readers = pool_get(&g->pool, most, sizeof *g->readers);
    if (!g->readers)
        return fail_memory(g->ctx, most * sizeof *g->readers);
    for (int i = 0; i < g->nnodes; i++)
        count_reads(g, i, 1);
    for (int i = 0; i < g->nnodes && g->fuse & FUSE_ACTIVATIONS; i++)
        fuse_activation(g, i);
    for (int i = 0; i < g->nnodes && g->status == BRASA_OK; i++)
        while (!g->nodes[i].dead && g->nodes[i].op->fuse && g->nodes[i].op->fuse(g, i))
            continue;
    g->readers = NULL;
    graph_sweep(g);
    return g->status;
}
