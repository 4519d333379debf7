/* prune.c - drops nodes whose results nobody reads. Walking backwards, one pass is enough. */
#include "graph/graph.h"
#include "ops/op.h"

brasa_status pass_prune(graph *g)
{
    bool *wanted = pool_get(&g->pool, (size_t)g->nvalues + 1, sizeof *wanted);
    if (!wanted)
        return fail_memory(g->ctx, (size_t)g->nvalues * sizeof *wanted);
    /* State is read by the next step. */
    for (int v = 0; v < g->nvalues; v++)
        wanted[v] = g->values[v].output || g->values[v].kind != VALUE_TEMP;
    for (int i = g->nnodes - 1; i >= 0; i--) {
        node *n = &g->nodes[i];
        n->dead = true;
        for (int k = 0; k < n->nout; k++)
            n->dead = n->dead && !wanted[n->out[k]];
        for (int k = 0; !n->dead && k < n->nin; k++)
            wanted[n->in[k]] = true;
    }
    graph_sweep(g);
    return BRASA_OK;
}
