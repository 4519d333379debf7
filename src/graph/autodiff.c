/* autodiff.c - reverse-mode differentiation that emits nodes.
 *
 * Nodes are visited from the last to the first. Each op's grad hook adds the nodes that turn the gradients of its
 * outputs into those of its inputs; contributions to one value are added up. No list of saved tensors is kept: a
 * gradient node that reads a forward value keeps it alive by reading it.
 */
#include "graph/graph.h"
#include "ops/op.h"

typedef struct tape {
    graph *g;
    bool *needs; /* value depends on a trained parameter */
    int *grad;   /* value -> value of its gradient, or -1 */
    int *first;  /* parameter -> the first node that reads it, or -1 */
} tape;

/* The gradient with respect to the loss itself. */
static int seed_gradient(graph *g)
{
    double one = 1;
    if (g->share >= 0)
        return g->share;
    int n = emit(g, &constant_op, "loss", &one, 0, NULL);
    if (n < 0)
        return -1;
    g->nodes[n].role = ROLE_GRADIENT;
    return g->nodes[n].out[0];
}

/* grad[v] += d, as a node. */
static void accumulate(tape *t, const char *name, int v, int d)
{
    if (d < 0)
        return;
    if (t->grad[v] < 0) {
        t->grad[v] = d;
        return;
    }
    int n = emit(t->g, &add_op, name, NULL, 2, (int[]){t->grad[v], d});
    if (n < 0)
        return;
    t->g->nodes[n].role = ROLE_GRADIENT;
    t->grad[v] = t->g->nodes[n].out[0];
}

static brasa_status differentiate(tape *t, int i)
{
    graph *g = t->g;
    const node n = g->nodes[i];
    if (!n.op->grad)
        return BRASA_OK;
    int dout[MAX_OUT];
    bool reached = false;
    for (int k = 0; k < n.nout; k++) {
        dout[k] = t->grad[n.out[k]];
        reached = reached || dout[k] >= 0;
    }
    if (!reached)
        return BRASA_OK;

    bool *need = pool_get(&g->pool, (size_t)n.nin + 1, sizeof *need);
    int *din = pool_get(&g->pool, (size_t)n.nin + 1, sizeof *din);
    if (!need || !din)
        return fail_memory(g->ctx, 0);
    for (int k = 0; k < n.nin; k++) {
        need[k] = t->needs[n.in[k]];
        din[k] = -1;
    }
    n.op->grad(&(grad_args){.g = g, .n = &n, .dout = dout, .need = need, .din = din});
    for (int k = 0; k < n.nin; k++)
        if (need[k])
            accumulate(t, n.name, n.in[k], din[k]);
    return g->status;
}

static void mark(tape *t)
{
    graph *g = t->g;
    for (int v = 0; v < g->nvalues; v++) {
        t->needs[v] = g->values[v].kind == VALUE_PARAM;
        t->grad[v] = t->first[v] = -1;
    }
    for (int i = 0; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        bool any = false;
        for (int k = 0; k < n->nin; k++) {
            any = any || t->needs[n->in[k]];
            if (t->first[n->in[k]] < 0)
                t->first[n->in[k]] = i;
        }
        for (int k = 0; k < n->nout; k++)
            if (g->values[n->out[k]].kind == VALUE_TEMP)
                t->needs[n->out[k]] = any && n->op->grad;
    }
}

brasa_status pass_autodiff(graph *g, gradient_done done, void *user)
{
    const int forward = g->nnodes, values = g->nvalues;
    if (g->loss < 0)
        return fail(g->ctx, BRASA_WRONG_STATE,
                    "the graph has no loss to train on: end it with classify, or mark one");
    tape t = {.g = g,
              .needs = pool_get(&g->pool, (size_t)values, sizeof *t.needs),
              .grad = pool_get(&g->pool, (size_t)values, sizeof *t.grad),
              .first = pool_get(&g->pool, (size_t)values, sizeof *t.first)};
    if (!t.needs || !t.grad || !t.first)
        return fail_memory(g->ctx, 0);
    mark(&t);
    if (!t.needs[g->loss])
        return fail(g->ctx, BRASA_WRONG_STATE,
                    "the loss does not depend on any parameter: there is nothing to train");
    t.grad[g->loss] = seed_gradient(g);

    for (int i = forward - 1; i >= 0 && g->status == BRASA_OK; i--) {
        brasa_status status = differentiate(&t, i);
        if (status != BRASA_OK)
            return status;
        for (int k = 0; k < g->nodes[i].nin; k++) {
            int v = g->nodes[i].in[k];
            if (g->values[v].kind == VALUE_PARAM && t.first[v] == i && t.grad[v] >= 0) {
                done(user, g, v, t.grad[v]);
                t.first[v] = -1; /* a node may read a parameter twice */
            }
        }
    }
    return g->status;
}
