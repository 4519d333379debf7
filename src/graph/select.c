/* select.c - a kernel for every node, a format for every value.
 *
 * First the kernels: a node takes the first of its list that supports it, and pays. Then the formats, node by node in
 * order: where the graph has a tuner, it may know a faster kernel now (tune.h); the kernel says in which formats it
 * reads and writes, and as all are chosen it may look at what its readers want. A value keeps the format its producer
 * writes; where a reader wants another, a reorder node is placed before it, once for all readers that want the same.
 * Weights have no producer: they take the layout of the first kernel that reads them and keep it for the whole run,
 * with their gradients and the optimizer's slots. So do inputs, and whoever feeds them writes it. Weights that this
 * kernel reads as BF16 are kept as SPLIT_F32: readers of BF16 read its first plane in place.
 */
#include "graph/tune.h"

#include <string.h>

brasa_status select_try(graph *g, node *n, const kernel *k)
{
    if (k->isa > g->ctx->isa || (k->supports && !k->supports(g, n)))
        return BRASA_NO_KERNEL;
    n->kernel = k;
    return k->open ? k->open(g, n) : BRASA_OK;
}

/* Gives a node its kernel: the first of its list that takes it, or one whose name contains `only` where there is one.
 */
static brasa_status choose(graph *g, node *n, const char *only)
{
    const op_def *op = n->op;
    for (int pass = only ? 0 : 1; pass < 2; pass++) {
        for (const kernel *k = kernel_next(g->ctx, op, g->real, NULL); k; k = kernel_next(g->ctx, op, g->real, k)) {
            if (pass == 0 ? only && !strstr(k->name, only) : k->pays && !k->pays(g, n))
                continue;
            brasa_status status = select_try(g, n, k);
            if (status != BRASA_NO_KERNEL)
                return status;
        }
    }
    return fail(g->ctx, BRASA_NO_KERNEL, "%s '%s': this build has no kernel for it in %s", op->name, n->name,
                dtype_name(g->real));
}

brasa_status select_first(graph *g, node *n)
{
    return choose(g, n, NULL);
}

/* Kernels that take some layouts only know now, when those of the inputs are settled, whether the node is for them.
 */
static brasa_status confirm(graph *g, node *n, const char *only)
{
    if (!n->kernel->supports || n->kernel->supports(g, n))
        return BRASA_OK;
    node_close(g, n);
    return choose(g, n, only);
}

/* The fastest kernel, where that is known. */
static brasa_status tune(graph *g, int i)
{
    node *n = &g->nodes[i];
    const kernel *first = n->kernel, *best = NULL;
    brasa_status status = tuner_choose(g->tuner, g, i, &best);
    if (status != BRASA_OK || !best || best == first)
        return status;
    node_close(g, n);
    status = select_try(g, n, best);
    if (status != BRASA_NO_KERNEL)
        return status;
    n->choice = NULL; /* made with another version, say */
    return choose(g, n, NULL);
}

/* For a kernel that takes any storage: inputs as they are stored, outputs as the precision says. */
static void keep_storage(const graph *g, const node *n, format *in, format *out)
{
    for (int k = 0; k < n->nin; k++)
        in[k].storage = g->values[n->in[k]].format.storage;
    for (int k = 0; k < n->nout; k++) {
        const value *v = &g->values[n->out[k]];
        out[k].storage = v->settled ? v->format.storage : precision_storage(g, n->out[k]);
    }
}

void select_formats(const graph *g, const node *n, format *in, format *out)
{
    formats_plain(g, n, in, out);
    if (n->kernel->any_storage)
        keep_storage(g, n, in, out);
    if (n->kernel->formats) {
        n->kernel->formats(g, n, in, out);
        return;
    }
    if (!n->kernel->any_layout)
        return;
    const shape *s = &g->values[n->out[0]].shape;
    const layout common = settled_layout(g, n);
    for (int k = 0; k < n->nin; k++)
        if (shape_equal(&g->values[n->in[k]].shape, s))
            in[k].layout = common;
    for (int k = 0; k < n->nout; k++)
        if (shape_equal(&g->values[n->out[k]].shape, s))
            out[k].layout = common;
}

typedef struct selection {
    graph *g;
    int *order; /* the nodes in their new order, reorders included */
    int count, capacity;
    struct reordered { /* reorders made so far */
        int from, to;
    } * made;
    int nmade, made_capacity;
} selection;

static brasa_status add_node(selection *s, int n)
{
    int *grown = pool_grow(&s->g->pool, s->order, s->count, &s->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(s->g->ctx, sizeof *grown);
    s->order = grown;
    s->order[s->count++] = n;
    return BRASA_OK;
}

/* Whether what is stored as `have` is `wanted`, too, read in its place. */
static bool can_view(dtype have, dtype wanted)
{
    return have != wanted && storage_view(have) == wanted;
}

/* The value `v` in another format: one made before, or a new reorder node's output; -1 on error. */
static int reordered(selection *s, int v, const format *f, const char *name, node_role role)
{
    graph *g = s->g;
    for (int i = 0; i < s->nmade; i++)
        if (s->made[i].from == v && format_equal(&g->values[s->made[i].to].format, f))
            return s->made[i].to;
    int n = emit_like(g, &reorder_op, name, NULL, 1, &v, 1, &v);
    struct reordered *grown = pool_grow(&g->pool, s->made, s->nmade, &s->made_capacity, sizeof *grown);
    if (n < 0 || !grown || add_node(s, n) != BRASA_OK)
        return -1;
    int out = g->nodes[n].out[0];
    g->nodes[n].role = role;
    g->nodes[n].views = can_view(g->values[v].format.storage, f->storage);
    g->values[out].format = *f;
    g->values[out].settled = true;
    if (choose(g, &g->nodes[n], NULL) != BRASA_OK || any_storage_take(g, &g->nodes[n]) != BRASA_OK)
        return -1;
    s->made = grown;
    s->made[s->nmade++] = (struct reordered){v, out};
    return out;
}

/* Pictures are fed one by one, so they must lie one after the other; other inputs stay plain. */
static bool may_take(const value *v, const layout *l)
{
    const bool pictures = v->type == F32 && v->batched && v->shape.rank == 4;
    return v->kind != VALUE_INPUT || (pictures && layout_keeps_samples(l));
}

/* How a value is kept that nothing has read yet, where its first reader asks for `f`. */
static format first_format(const value *v, const format *f)
{
    return may_take(v, &f->layout) ? (format){precision_kept(v, f->storage), f->layout} : format_plain(v->type);
}

/* Whether input k of a node can be read as it lies. */
static bool reads_in_place(node *n, int k, const format *have, const format *wanted)
{
    if (format_equal(have, wanted))
        return true;
    if (k >= 32 || !can_view(have->storage, wanted->storage) || !layout_equal(&have->layout, &wanted->layout))
        return false;
    n->views |= 1u << k;
    return true;
}

static brasa_status settle(selection *s, int i)
{
    graph *g = s->g;
    const int nin = g->nodes[i].nin, nout = g->nodes[i].nout;
    format *in = pool_get(&g->pool, (size_t)(nin + nout) + 1, sizeof *in), *out = in + nin;
    if (!in)
        return fail_memory(g->ctx, (size_t)(nin + nout) * sizeof *in);
    select_formats(g, &g->nodes[i], in, out);
    for (int k = 0; k < nin; k++) {
        int v = g->nodes[i].in[k];
        if (!g->values[v].settled) { /* state, and inputs that nobody has read yet */
            g->values[v].format = first_format(&g->values[v], &in[k]);
            g->values[v].settled = true;
        }
        if (reads_in_place(&g->nodes[i], k, &g->values[v].format, &in[k]))
            continue;
        int moved = reordered(s, v, &in[k], g->nodes[i].name, g->nodes[i].role);
        if (moved < 0)
            return g->status != BRASA_OK ? g->status : fail_memory(g->ctx, sizeof(node));
        g->nodes[i].in[k] = moved;
    }
    for (int k = 0; k < nout; k++) {
        value *v = &g->values[g->nodes[i].out[k]];
        if (v->settled && !format_equal(&v->format, &out[k])) /* state that is rewritten */
            return fail(g->ctx, BRASA_INTERNAL, "%s '%s': the kernel %s writes a format that its state does not have",
                        g->nodes[i].op->name, g->nodes[i].name, g->nodes[i].kernel->name);
        v->format = out[k];
        v->settled = true;
    }
    const brasa_status status = any_storage_take(g, &g->nodes[i]);
    return status == BRASA_OK ? add_node(s, i) : status;
}

/* For who looks on while kernels are timed. */
static void mark_node(const graph *g, int i)
{
    if (g->tuner) {
        g->tuner->node = i;
        g->tuner->nodes = g->nnodes;
    }
}

brasa_status pass_select(graph *g, const char *only)
{
    selection s = {.g = g};
    const int count = g->nnodes;
    brasa_status status = BRASA_OK;
    for (int i = 0; i < count && status == BRASA_OK; i++) {
        mark_node(g, i);
        status = choose(g, &g->nodes[i], only);
    }
    for (int i = 0; i < count && status == BRASA_OK; i++) {
        mark_node(g, i);
        status = confirm(g, &g->nodes[i], only);
        if (status == BRASA_OK && g->tuner && !only)
            status = tune(g, i);
        if (status == BRASA_OK)
            status = settle(&s, i);
    }
    return status == BRASA_OK ? graph_arrange(g, s.order, s.count) : status;
}
