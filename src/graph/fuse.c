/* fuse.c - a ReLU or ReLU6 right behind a node that can apply it becomes part of that node.
 *
 * Allowed where the activation is the only reader of the node's output: the gradients of these two activations are
 * computed from their outputs, so the value in between is never stored at all.
 */
#include "graph/graph.h"
#include "ops/op.h"

static activation activation_of(const op_def *op)
{
    return op == &relu_op ? ACT_RELU : op == &relu6_op ? ACT_RELU6 : ACT_NONE;
}

brasa_status pass_fuse(graph *g)
{
    int *readers = pool_get(&g->pool, (size_t)g->nvalues + 1, sizeof *readers);
    if (!readers)
        return fail_memory(g->ctx, (size_t)g->nvalues * sizeof *readers);
    for (int i = 0; i < g->nnodes; i++)
        for (int k = 0; k < g->nodes[i].nin; k++)
            readers[g->nodes[i].in[k]]++;

    for (int i = 0; i < g->nnodes; i++) {
        node *act = &g->nodes[i];
        activation kind = activation_of(act->op);
        if (kind == ACT_NONE)
            continue;
        const value *between = &g->values[act->in[0]];
        if (between->producer < 0 || between->output || readers[act->in[0]] != 1)
            continue;
        node *before = &g->nodes[between->producer];
        if (!before->op->takes_activation || before->act != ACT_NONE || before->out[0] != act->in[0])
            continue;
        before->act = kind;
        before->out[0] = act->out[0];
        g->values[act->out[0]].producer = between->producer;
        act->dead = true;
    }
    graph_sweep(g);
    return BRASA_OK;
}
