/* recompute.c - what can be made again from values that are kept anyway is not kept.
 *
 * A convolution's weight gradient reads the convolution's input once more, long after the forward pass. Where that is
 * the output of batch norm with its activation, batch norm's own gradient keeps its input: the output is let go, and
 * made again right before the first node of the backward pass that reads it, with the same bits. A residual that is
 * added is kept then: of the blocks of a ResNet every second one's output can be made again. In ResNet-50 both are a
 * quarter of the memory of a step.
 *
 * It costs one more pass over memory: worth it where the tensor is large and its reader computes for much longer than
 * that, or where the tensor is so large that a few of its kind are what a step needs most of its memory for.
 */
#include "graph/graph.h"
#include "ops/op.h"

enum {
    LEAST_BYTES = 4 << 20,
    LEAST_FLOPS = 400, /* of the reader for each element: a pass takes as long as about 100 of them (Zen 4). On tensor
                          cores it is some 650, by 790 TFLOP/s and 4.8 TB/s (H200): there room is bought with time */
    HUGE_BYTES = 64 << 20,
};

typedef struct recompute {
    graph *g;
    bool all;
    struct history {
        int gradients, first,
            last;    /* nodes of the backward pass that read the value; the first and the last of them */
        bool needed; /* something is made again from it */
        int again;   /* the value that takes its place in the backward pass, or -1 */
    } * of;          /* by value */
} recompute;

static void find_readers(recompute *r)
{
    const graph *g = r->g;
    for (int v = 0; v < g->nvalues; v++)
        r->of[v].again = -1;
    for (int i = 0; i < g->nnodes; i++) {
        for (int k = 0; k < g->nodes[i].nin && g->nodes[i].role != ROLE_FORWARD; k++) {
            struct history *h = &r->of[g->nodes[i].in[k]];
            h->first = h->gradients++ ? h->first : i;
            h->last = i;
        }
    }
}

/* The first reader of value v in the backward pass is its only one and takes long enough, or v is huge. */
static bool is_worth(const recompute *r, int v)
{
    const graph *g = r->g;
    const node *reader = &g->nodes[r->of[v].first];
    const double count = (double)shape_count(&g->values[v].shape);
    /* layouts are chosen later: with BRASA_BF16 a device stores what batch norm makes in 16 bits */
    const double bytes = count * (double)dtype_size(g->precision == BRASA_BF16 ? BF16 : g->values[v].type);
    return r->all || bytes >= HUGE_BYTES ||
           (r->of[v].gradients == 1 && bytes >= LEAST_BYTES && reader->op->cost &&
            reader->op->cost(g, reader).flops >= LEAST_FLOPS * count);
}

/* What value v is made of is there anyway when it is read again: what is as large as v, that is. */
static bool is_there(const recompute *r, const node *maker, int v)
{
    const graph *g = r->g;
    for (int k = 0; k < maker->nin; k++) {
        const struct history *h = &r->of[maker->in[k]];
        if (shape_equal(&g->values[maker->in[k]].shape, &g->values[v].shape) &&
            (h->again >= 0 || h->last <= r->of[v].first))
            return false;
    }
    return true;
}

/* The node that makes value v again, before the first that reads it in the backward pass, or -1. */
static int make_again(recompute *r, int v)
{
    graph *g = r->g;
    const int maker = g->values[v].kind == VALUE_TEMP ? g->values[v].producer : -1;
    if (maker < 0 || g->nodes[maker].role != ROLE_FORWARD || g->values[v].output || r->of[v].needed)
        return -1;
    const node n = g->nodes[maker];
    if (!n.op->again || n.out[0] != v || !is_there(r, &n, v) || !is_worth(r, v))
        return -1;
    const int again = n.op->again(g, &n);
    if (again < 0)
        return -1;
    g->nodes[again].role = ROLE_GRADIENT;
    g->nodes[again].act = n.act;
    r->of[v].again = g->nodes[again].out[0];
    for (int k = 0; k < n.nin; k++)
        r->of[n.in[k]].needed = true;
    return again;
}

brasa_status pass_recompute(graph *g, bool all)
{
    const size_t values = (size_t)g->nvalues + 1;
    recompute r = {.g = g, .all = all, .of = pool_get(&g->pool, values, sizeof *r.of)};
    int *order = pool_get(&g->pool, 2 * (size_t)g->nnodes + 1, sizeof *order), count = 0;
    if (!r.of || !order)
        return fail_memory(g->ctx, values * sizeof *r.of);
    find_readers(&r);
    for (int i = 0, nodes = g->nnodes; i < nodes && g->status == BRASA_OK; i++) {
        for (int k = 0; k < g->nodes[i].nin && g->nodes[i].role != ROLE_FORWARD; k++) {
            const int v = g->nodes[i].in[k], again = r.of[v].first == i && r.of[v].again < 0 ? make_again(&r, v) : -1;
            if (again >= 0)
                order[count++] = again;
            if (r.of[v].again >= 0)
                g->nodes[i].in[k] = r.of[v].again;
        }
        order[count++] = i;
    }
    return g->status == BRASA_OK ? graph_arrange(g, order, count) : g->status;
}
