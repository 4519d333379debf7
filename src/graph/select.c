/* select.c - a kernel for every node: the first of its list that supports it. */
#include "graph/graph.h"
#include "ops/op.h"

#include <string.h>

static bool runs(const kernel *k, const graph *g, const node *n)
{
    return !k->supports || k->supports(g, n);
}

brasa_status pass_select(graph *g, const char *only)
{
    for (int i = 0; i < g->nnodes; i++) {
        node *n = &g->nodes[i];
        const kernel *best = NULL;
        for (const kernel *k = kernel_next(n->op, g->real, NULL); k; k = kernel_next(n->op, g->real, k)) {
            if (!runs(k, g, n))
                continue;
            if (!best)
                best = k;
            if (only && strstr(k->name, only)) {
                best = k;
                break;
            }
        }
        if (!best)
            return fail(g->ctx, BRASA_NO_KERNEL, "%s '%s': this build has no kernel for it in %s", n->op->name,
                        n->name, dtype_name(g->real));
        n->kernel = best;
    }
    return BRASA_OK;
}
