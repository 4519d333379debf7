/* dense_update.c - what a training step does to a dense layer's weights, in one pass over them: their gradient, the
 * update by it, and with few samples the gradient of the data.
 *
 * With few samples a dense layer is its weights: VGG-16's first one has 411 MB of them and computes two operations a
 * weight and sample. A gradient as large as they are costs its room, and two ways through memory, for being read
 * once. So a small part of it at a time is computed into the cache and handed to the optimizer's own kernel, as a
 * step over that part of the weights and slots: the optimizers' equations are written once, in their own files.
 *
 * The node takes the place of the weights' gradient, which stands behind that of the data: what reads the old weights
 * stands before it. The bias keeps its gradient and its update. The gradient of the data is the other reader of the
 * weights in the backward pass: where they come from memory anyway, it is made of each part before it is updated.
 *
 * The weights keep the layout that the forward pass gave them. The reference goes through them as they are stored,
 * whatever the layout is, and reads src and ddst plain.
 */
#include "graph/fuse.h"
#include "ops/dense/dense.h"

#ifdef REAL

/* dbia = the sum of ddst over the samples; item: an output of the layer */
static void NAME(bias_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *ddst = s->in[1].data;
    REAL *dbia = s->out[1 + slots_of(s->node)].data;
    const int64_t N = s->in[1].shape.dim[0], K = s->in[1].shape.dim[1];
    for (int64_t k = begin; k < end; k++)
        dbia[k] = 0;
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = begin; k < end; k++)
            dbia[k] += ddst[n * K + k];
}

/* The gradient of `count` weights from the stored element `first` on. Runs of inputs of one output, which only the
 * plain layout has, are computed at once. */
static void NAME(part_gradient)(const step *s, int64_t first, int64_t count, REAL *dwei)
{
    const arg *wei = &s->in[DENSE_WEI];
    const REAL *src = s->in[0].data, *ddst = s->in[1].data;
    const int64_t N = s->in[1].shape.dim[0], K = s->in[1].shape.dim[1], C = dense_inputs(&wei->shape);
    const bool plain = layout_plain(&wei->layout);
    for (int64_t i = 0, run; i < count; i += run) {
        int64_t k = 0, c = 0;
        const bool padding = !element_at(&wei->layout, &wei->shape, first + i, &k, &c);
        run = !plain ? 1 : C - c < count - i ? C - c : count - i;
        for (int64_t j = 0; j < run; j++)
            dwei[i + j] = 0;
        for (int64_t n = 0; n < N && !padding; n++)
            for (int64_t j = 0; j < run; j++)
                dwei[i + j] += ddst[n * K + k] * src[n * C + c + j];
    }
}

/* dsrc = ddst x wei, weight by weight as they are stored; item: a sample */
static void NAME(data_range)(const step *s, int64_t begin, int64_t end)
{
    const arg *wei = &s->in[DENSE_WEI];
    const REAL *ddst = s->in[1].data, *w = wei->data;
    const int64_t K = s->in[1].shape.dim[1], C = dense_inputs(&wei->shape);
    for (int64_t n = begin; n < end; n++) {
        REAL *dsrc = (REAL *)dense_update_dsrc(s)->data + n * C;
        for (int64_t c = 0; c < C; c++)
            dsrc[c] = 0;
        for (int64_t i = 0; i < wei->count; i++) {
            int64_t k = 0, c = 0;
            if (element_at(&wei->layout, &wei->shape, i, &k, &c))
                dsrc[c] += ddst[n * K + k] * w[i];
        }
    }
}

/* item: PART weights */
static void NAME(update_range)(const step *s, int64_t begin, int64_t end)
{
    _Alignas(64) REAL dwei[PART];
    dense_part part;
    dense_part_init(&part, s);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * PART, left = s->out[0].count - first, count = left < PART ? left : PART;
        NAME(part_gradient)(s, first, count, dwei);
        dense_part_run(&part, first, count, dwei);
    }
}

static brasa_status NAME(dense_update)(const step *s)
{
    const double samples = (double)s->in[1].shape.dim[0];
    dense_update_bias(s);
    if (dense_update_dsrc(s))
        step_for(s, s->in[1].shape.dim[0], samples * (double)s->out[0].count, NAME(data_range));
    step_for(s, (s->out[0].count + PART - 1) / PART, samples * (double)s->out[0].count, NAME(update_range));
    return BRASA_OK;
}

#else

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

bool dense_fuse_update(graph *g, int i)
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

    dense_update_attr *attr = pool_get(&g->pool, 1, sizeof *attr);
    if (!attr) {
        graph_stick(g, fail_memory(g->ctx, sizeof *attr));
        return false;
    }
    attr->update = optimizer;
    int in[DENSE_SLOTS + MAX_SLOTS] = {n.in[0], n.in[1], optimizer.in[0]}, out[2 + MAX_SLOTS], nout = 0;
    for (int k = 2; k < optimizer.nin; k++)
        in[k + 1] = optimizer.in[k];
    for (; nout < optimizer.nout; nout++)
        out[nout] = optimizer.out[nout];
    if (n.nout > 1)
        out[nout++] = n.out[1];
    n.op = &dense_update_op;
    n.attr = attr;
    fuse_remove(g, j);
    return fuse_rewrite(g, i, n, optimizer.nin + 1, in, nout, out);
}

/* The node before, leaving out those that are gone, or -1. */
static int node_before(const graph *g, int i)
{
    do
        i--;
    while (i >= 0 && g->nodes[i].dead);
    return i;
}

/* Fewer weights have kernels of their own, and are in the cache anyway. Nor is there anything to gain without
 * vectors. */
enum { LEAST_WEIGHTS = 8192 };

bool dense_fuse_data(graph *g, int i)
{
    const node n = g->nodes[i];
    const int before = node_before(g, i);
    const shape *ddst = &g->values[n.in[1]].shape;
    if (!(g->fuse & FUSE_UPDATES) || g->real != F32 || g->ctx->isa == ISA_ANY || before < 0 ||
        ddst->dim[0] > DENSE_FEW || shape_count(&g->values[n.in[DENSE_WEI]].shape) < LEAST_WEIGHTS)
        return false;
    const node data = g->nodes[before];
    if (data.op != &dense_grad_data_op || data.in[0] != n.in[DENSE_WEI] || data.in[1] != n.in[1])
        return false;
    int out[3 + MAX_SLOTS], nout = 0;
    for (; nout < n.nout; nout++)
        out[nout] = n.out[nout];
    out[nout++] = data.out[0];
    ((dense_update_attr *)n.attr)->data = true;
    fuse_remove(g, before);
    return fuse_rewrite(g, i, n, n.nin, n.in, nout, out);
}

op_cost dense_update_cost(const graph *g, const node *n)
{
    const double samples = (double)g->values[n->in[1]].shape.dim[0];
    const double products = ((const dense_update_attr *)n->attr)->data ? 2 : 1;
    return (op_cost){2 * products * samples * (double)shape_count(&g->values[n->in[DENSE_WEI]].shape)};
}

/* --- what the kernels share ----------------------------------------------------------------------------------- */

/* The inputs tell how many slots there are. */
static int slots_of(const node *n)
{
    return n->nin - DENSE_SLOTS;
}

/* A kernel that runs over what is stored and keeps nothing can run over a part of it. */
static bool takes_parts(const graph *g, const node *optimizer, const kernel *k)
{
    return k->any_layout && !k->open && !k->bind && !k->workspace && k->isa <= g->ctx->isa &&
           (!k->supports || k->supports(g, optimizer));
}

static brasa_status choose(graph *g, node *n, bool fastest)
{
    node *optimizer = &((dense_update_attr *)n->attr)->update;
    optimizer->kernel = NULL;
    for (const kernel *k = NULL; (k = kernel_next(optimizer->op, g->real, k)) != NULL;)
        if (takes_parts(g, optimizer, k) && !(fastest && optimizer->kernel))
            optimizer->kernel = k;
    return optimizer->kernel ? BRASA_OK : BRASA_NO_KERNEL;
}

brasa_status dense_update_open_fast(graph *g, node *n)
{
    return choose(g, n, true);
}

brasa_status dense_update_open_ref(graph *g, node *n)
{
    return choose(g, n, false);
}

void dense_update_layouts(const graph *g, const node *n, layout *in, layout *out)
{
    const layout wei = g->values[n->in[DENSE_WEI]].layout;
    in[DENSE_WEI] = out[0] = wei;
    for (int k = 0; k < slots_of(n); k++)
        in[DENSE_SLOTS + k] = out[1 + k] = wei;
}

void dense_part_init(dense_part *p, const step *s)
{
    const node *optimizer = &((const dense_update_attr *)s->attr)->update;
    *p = (dense_part){.step = *s, .whole = s};
    p->step.kernel = optimizer->kernel;
    p->step.node = optimizer;
    p->step.attr = optimizer->attr;
    p->step.nin = optimizer->nin;
    p->step.nout = optimizer->nout;
    p->step.in = p->in;
    p->step.out = p->out;
    p->step.workspace = p->step.state = NULL;
    p->step.threads = 1;
    for (int k = 0; k < optimizer->nin; k++)
        p->in[k] = s->in[k == 0 ? DENSE_WEI : k + 1];
    for (int k = 0; k < optimizer->nout; k++)
        p->out[k] = s->out[k];
    p->in[1] = s->out[0]; /* the gradient: of the same kind */
}

static void move_to(arg *a, const arg *whole, int64_t first, int64_t count)
{
    a->data = (char *)whole->data + (size_t)first * dtype_size(whole->type);
    a->count = count;
}

void dense_part_run(dense_part *p, int64_t first, int64_t count, void *gradient)
{
    const step *s = p->whole;
    for (int k = 0; k < p->step.nout; k++) {
        move_to(&p->out[k], &s->out[k], first, count);
        p->in[k == 0 ? 0 : UPDATE_SLOTS + k - 1] = p->out[k];
    }
    p->in[1].data = gradient;
    p->in[1].count = count;
    p->step.kernel->run(&p->step); /* arithmetic: there is nothing to fail */
}

/* --- the reference -------------------------------------------------------------------------------------------- */

/* Elements of a part: little enough for the first cache, and for the stack. */
enum { PART = 2048 };

/* Which output and input of the layer the weight stored at `at` belongs to; false in the padding. */
static bool element_at(const layout *l, const shape *s, int64_t at, int64_t *k, int64_t *c)
{
    int64_t index[MAX_RANK] = {0}, block[MAX_RANK];
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
    bool inside = true;
    *k = index[0];
    *c = 0;
    for (int d = 0; d < s->rank; d++) {
        inside = inside && index[d] < s->dim[d];
        *c = d ? *c * s->dim[d] + index[d] : 0;
    }
    return inside;
}

#define REAL_SOURCE "ops/dense/dense_update.c"
#include "ops/real.h"

void dense_update_bias(const step *s)
{
    const int64_t N = s->in[1].shape.dim[0], K = s->in[1].shape.dim[1];
    if (s->nout - (dense_update_dsrc(s) != NULL) > 1 + slots_of(s->node))
        step_for(s, K, (double)N * (double)K, s->in[1].type == F64 ? bias_range_f64 : bias_range_f32);
}

#define UPDATE_KERNEL(type, function)                                                                                \
    {                                                                                                                \
        .name = "dense_update_ref", .op = &dense_update_op, .real = type, .open = dense_update_open_ref,             \
        .layouts = dense_update_layouts, .run = function                                                             \
    }
const kernel dense_update_ref[] = {
    UPDATE_KERNEL(F32, dense_update_f32),
    UPDATE_KERNEL(F64, dense_update_f64),
    {0},
};

#endif
