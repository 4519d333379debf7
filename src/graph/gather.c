/* gather.c - nodes side by side that a device can run at once (kernel.run_many).
 *
 * Autodiff emits the update of a parameter where its gradient is complete, so that the gradient need not be kept. A
 * GPU takes longer to start a small update than to do it: there all updates, also those of running statistics, are
 * put off, together, as far as they can be. That is until something changes what they read (the count of steps), or
 * reads what they write; or until the gradients that wait take so much memory that to start an update is nothing
 * beside it: they are made where the last of these is, and the memory is free for the next ones. Likewise all
 * reorders of state, weights on their way into 16 bits, go to the beginning: what is the same until the end of the
 * step may be copied at once.
 *
 * Neither changes a result. It is paid for in memory: gradients live until the updates, copies from the beginning on.
 */
#include "ops/op.h"

/* Of gradients that wait. To read and write what belongs to so many takes a GPU of 2024 some 30 microseconds, and to
 * start a further update two or three. */
enum { MOST_WAITING = 32 << 20 };

typedef struct gathering {
    graph *g;
    int *order; /* the nodes in their new order */
    int count;
    int *late; /* updates that are put off, in their order */
    int nlate;
    int64_t waiting;      /* bytes that these keep alive */
    bool *reads, *writes; /* value -> an update that is put off does */
} gathering;

/* Puts the updates that wait in their place. */
static void flush(gathering *w)
{
    for (int i = 0; i < w->nlate; i++) {
        const node *n = &w->g->nodes[w->late[i]];
        for (int k = 0; k < n->nin; k++)
            w->reads[n->in[k]] = false;
        for (int k = 0; k < n->nout; k++)
            w->writes[n->out[k]] = false;
        w->order[w->count++] = w->late[i];
    }
    w->nlate = 0;
    w->waiting = 0;
}

static void put_off(gathering *w, int i)
{
    const node *n = &w->g->nodes[i];
    for (int k = 0; k < n->nin; k++) {
        const value *v = &w->g->values[n->in[k]];
        w->reads[n->in[k]] = true;
        w->waiting += v->kind == VALUE_TEMP ? format_bytes(&v->format, &v->shape) : 0;
    }
    for (int k = 0; k < n->nout; k++)
        w->writes[n->out[k]] = true;
    w->late[w->nlate++] = i;
}

/* Whether the updates that wait must run before a node. */
static bool needs_updates(const gathering *w, const node *n)
{
    for (int k = 0; k < n->nin; k++)
        if (w->writes[n->in[k]])
            return true;
    for (int k = 0; k < n->nout; k++)
        if (w->reads[n->out[k]] || w->writes[n->out[k]])
            return true;
    return false;
}

/* It writes state alone: parameters and slots, or running statistics. */
static bool is_update(const graph *g, const node *n)
{
    for (int k = 0; k < n->nout; k++)
        if (g->values[n->out[k]].kind == VALUE_TEMP)
            return false;
    return n->kernel->run_many != NULL;
}

/* A reorder of state that nothing has written yet. */
static bool is_copy(const graph *g, const node *n, const bool *written)
{
    const value_kind kind = n->op == &reorder_op ? g->values[n->in[0]].kind : VALUE_TEMP;
    return kind != VALUE_TEMP && kind != VALUE_INPUT && n->kernel->run_many && !written[n->in[0]];
}

brasa_status pass_gather(graph *g)
{
    const size_t nodes = (size_t)g->nnodes + 1, values = (size_t)g->nvalues + 1;
    gathering w = {.g = g,
                   .order = pool_get(&g->pool, nodes, sizeof *w.order),
                   .late = pool_get(&g->pool, nodes, sizeof *w.late),
                   .reads = pool_get(&g->pool, values, sizeof *w.reads),
                   .writes = pool_get(&g->pool, values, sizeof *w.writes)};
    bool *early = pool_get(&g->pool, nodes, sizeof *early), *written = pool_get(&g->pool, values, sizeof *written);
    if (!w.order || !w.late || !w.reads || !w.writes || !early || !written)
        return fail_memory(g->ctx, nodes * sizeof *w.order + values * sizeof *written);

    for (int i = 0; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        early[i] = is_copy(g, n, written);
        if (early[i])
            w.order[w.count++] = i;
        for (int k = 0; k < n->nout; k++)
            written[n->out[k]] = true;
    }
    for (int i = 0; i < g->nnodes; i++) {
        if (early[i])
            continue;
        if (is_update(g, &g->nodes[i])) {
            put_off(&w, i);
            if (w.waiting >= MOST_WAITING)
                flush(&w);
            continue;
        }
        if (needs_updates(&w, &g->nodes[i]))
            flush(&w);
        w.order[w.count++] = i;
    }
    flush(&w);
    return graph_arrange(g, w.order, w.count);
}
