/* fused_update.c - what the nodes share that compute the gradient of weights and update them by it: see
 * fused_update.h.
 */
#include "ops/fused_update.h"
#include "graph/fuse.h"

/* --- the rule of fusion --------------------------------------------------------------------------------------- */

static bool reads(const node *n, int v)
{
    for (int k = 0; k < n->nin; k++)
        if (n->in[k] == v)
            return true;
    return false;
}

/* Node j can run in node i's place: the rate is there, and nothing in between wants the old weights. */
static bool can_move(const graph *g, int i, int j)
{
    const node *optimizer = &g->nodes[j];
    for (int k = i + 1; k < j; k++)
        if (reads(&g->nodes[k], optimizer->in[0]))
            return false;
    return fuse_producer(g, optimizer->in[2]) < i;
}

bool fused_update_merge(graph *g, int i, const op_def *op)
{
    node n = g->nodes[i];
    const int dwei = n.out[0], j = fuse_only_reader(g, dwei);
    if (!(g->fuse & FUSE_UPDATES) || j < 0)
        return false;
    const node optimizer = g->nodes[j];
    /* With a scale among the inputs the gradients are clipped: all of them are wanted before the first update. */
    if (!optimizer_is(optimizer.op) || optimizer.in[1] != dwei ||
        optimizer.nin != UPDATE_SLOTS + optimizer.nout - 1 || !can_move(g, i, j))
        return false;

    fused_update_attr *attr = pool_get(&g->pool, 1, sizeof *attr);
    if (!attr) {
        graph_stick(g, fail_memory(g->ctx, sizeof *attr));
        return false;
    }
    *attr = (fused_update_attr){.update = optimizer, .layer = n.attr};
    int in[FUSED_SLOTS + MAX_SLOTS] = {n.in[0], n.in[1], optimizer.in[0]}, out[2 + MAX_SLOTS], nout = 0;
    for (int k = 2; k < optimizer.nin; k++)
        in[k + 1] = optimizer.in[k];
    for (; nout < optimizer.nout; nout++)
        out[nout] = optimizer.out[nout];
    if (n.nout > 1)
        out[nout++] = n.out[1];
    n.op = op;
    n.attr = attr;
    n.in = in;
    n.out = out;
    n.nin = optimizer.nin + 1;
    n.nout = nout;
    if (!fuse_has_kernel(g, &n)) /* a device's are for some layers */
        return false;
    fuse_remove(g, j);
    return fuse_rewrite(g, i, n, n.nin, in, nout, out);
}

/* --- what the kernels share ----------------------------------------------------------------------------------- */

/* A kernel that runs over what is stored and keeps nothing can run over a part of it. */
static bool takes_parts(const graph *g, const node *optimizer, const kernel *k)
{
    return k->any_layout && !k->open && !k->bind && !k->workspace && k->isa <= g->ctx->isa &&
           (!k->supports || k->supports(g, optimizer));
}

static brasa_status choose(graph *g, node *n, bool fastest)
{
    node *optimizer = &((fused_update_attr *)n->attr)->update;
    optimizer->kernel = NULL;
    for (const kernel *k = NULL; (k = kernel_next(g->ctx, optimizer->op, g->real, k)) != NULL;)
        if (takes_parts(g, optimizer, k) && !(fastest && optimizer->kernel))
            optimizer->kernel = k;
    return optimizer->kernel ? BRASA_OK : BRASA_NO_KERNEL;
}

brasa_status fused_update_open_fast(graph *g, node *n)
{
    return choose(g, n, true);
}

brasa_status fused_update_open_ref(graph *g, node *n)
{
    return choose(g, n, false);
}

void fused_update_formats(const graph *g, const node *n, format *in, format *out)
{
    const format wei = g->values[n->in[FUSED_WEI]].format;
    in[FUSED_WEI] = out[0] = wei;
    for (int k = 0; k < fused_slots(n); k++)
        in[FUSED_SLOTS + k].layout = out[1 + k].layout = wei.layout;
}

void fused_part_init(fused_part *p, const step *s)
{
    const node *optimizer = &((const fused_update_attr *)s->attr)->update;
    *p = (fused_part){.update = *s, .whole = s};
    p->update.kernel = optimizer->kernel;
    p->update.node = optimizer;
    p->update.attr = optimizer->attr;
    p->update.nin = optimizer->nin;
    p->update.nout = optimizer->nout;
    p->update.in = p->in;
    p->update.out = p->out;
    p->update.workspace = p->update.state = NULL;
    p->update.threads = 1;
    for (int k = 0; k < optimizer->nin; k++)
        p->in[k] = s->in[k == 0 ? FUSED_WEI : k + 1];
    for (int k = 0; k < optimizer->nout; k++)
        p->out[k] = s->out[k];
    p->in[1] = s->out[0]; /* the gradient: of the same kind */
}

static void move_to(arg *a, const arg *whole, int64_t first, int64_t count)
{
    a->data = (char *)whole->data + (size_t)first * dtype_size(whole->format.storage);
    a->count = count;
}

void fused_part_run(fused_part *p, int64_t first, int64_t count, void *gradient)
{
    const step *s = p->whole;
    for (int k = 0; k < p->update.nout; k++) {
        move_to(&p->out[k], &s->out[k], first, count);
        p->in[k == 0 ? 0 : UPDATE_SLOTS + k - 1] = p->out[k];
    }
    p->in[1].data = gradient;
    p->in[1].count = count;
    p->update.kernel->run(&p->update); /* arithmetic: there is nothing to fail */
}

int64_t fused_element(const arg *wei, int64_t at)
{
    const layout *l = &wei->format.layout;
    const shape *s = &wei->shape;
    int64_t index[MAX_RANK] = {0}, block[MAX_RANK], number = 0;
    for (int d = 0; d < MAX_RANK; d++)
        block[d] = 1;
    for (int b = l->nblocks - 1; b >= 0; b--) {
        const int axis = l->axis[b];
        index[axis] += at % l->block[b] * block[axis];
        at /= l->block[b];
        block[axis] *= l->block[b];
    }
    for (int i = s->rank - 1; i >= 0; i--) {
        const int axis = l->permuted ? l->order[i] : i;
        const int64_t size = (s->dim[axis] + block[axis] - 1) / block[axis];
        index[axis] += at % size * block[axis];
        at /= size;
    }
    for (int d = 0; d < s->rank; d++) {
        if (index[d] >= s->dim[d])
            return -1;
        number = number * s->dim[d] + index[d];
    }
    return number;
}
