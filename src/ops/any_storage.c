/* any_storage.c - a reference kernel on operands that are stored in another type than its own.
 *
 * What is stored otherwise is loaded into buffers of the kernel's real type in the workspace; the kernel runs on
 * them, and what it wrote is stored. Slow, and right on the first day of a storage type: see core/storage.h.
 */
#include "ops/op.h"

/* node.state of such a node. */
typedef struct any_storage {
    const kernel *kernel; /* the reference, with its own state */
    void *state;
    int64_t *buffer; /* of each input and output: where its buffer begins in the workspace; -1: it has none */
    int64_t bytes;   /* of all buffers: the kernel's own workspace is behind them */
    arg *args;       /* what the kernel is given */
} any_storage;

static void load(const arg *from, arg *to)
{
    const dtype type = from->format.storage;
    storage_load_many(type, from->data, storage_plane(type, from->count), 0, from->count, to->format.storage,
                      to->data);
}

static void store(const arg *from, const arg *to)
{
    const dtype type = to->format.storage;
    storage_store_many(type, to->data, storage_plane(type, to->count), 0, to->count, from->format.storage,
                       from->data);
}

static brasa_status run(const step *s)
{
    const any_storage *a = s->state;
    step inner = *s;
    inner.kernel = a->kernel;
    inner.state = a->state;
    inner.in = a->args;
    inner.out = a->args + s->nin;
    inner.workspace = (char *)s->workspace + a->bytes;
    for (int k = 0; k < s->nin + s->nout; k++) {
        a->args[k] = k < s->nin ? s->in[k] : s->out[k - s->nin];
        if (a->buffer[k] < 0)
            continue;
        a->args[k].format.storage = a->kernel->real;
        a->args[k].data = (char *)s->workspace + a->buffer[k];
        if (k < s->nin)
            load(&s->in[k], &a->args[k]);
    }
    const brasa_status status = a->kernel->run(&inner);
    for (int k = 0; k < s->nout && status == BRASA_OK; k++)
        if (a->buffer[s->nin + k] >= 0)
            store(&inner.out[k], &s->out[k]);
    return status;
}

static int64_t workspace(const graph *g, const node *n)
{
    const any_storage *a = n->state;
    return a->bytes + (a->kernel->workspace ? a->kernel->workspace(g, n) : 0);
}

static void close(brasa_context *ctx, void *state)
{
    const any_storage *a = state;
    if (a->kernel->close)
        a->kernel->close(ctx, a->state);
}

/* The buffer of operand k: state that is rewritten has one as input and as output. */
static int64_t buffer_of(const graph *g, const node *n, any_storage *a, int k)
{
    const int v = k < n->nin ? n->in[k] : n->out[k - n->nin];
    const value *x = &g->values[v];
    const dtype storage = k < n->nin ? input_format(g, n, k).storage : x->format.storage;
    if (!dtype_real(x->type) || storage == a->kernel->real)
        return -1;
    for (int i = 0; k >= n->nin && i < n->nin; i++)
        if (n->in[i] == v)
            return a->buffer[i];
    const int64_t begin = a->bytes;
    a->bytes += (storage_bytes(a->kernel->real, layout_count(&x->format.layout, &x->shape)) + 63) / 64 * 64;
    return begin;
}

brasa_status any_storage_take(graph *g, node *n)
{
    if (!n->kernel->any_storage)
        return BRASA_OK;
    const size_t count = (size_t)(n->nin + n->nout);
    kernel *k = pool_get(&g->pool, 1, sizeof *k);
    any_storage *a = pool_get(&g->pool, 1, sizeof *a);
    int64_t *buffer = pool_get(&g->pool, count, sizeof *buffer);
    arg *args = pool_get(&g->pool, count, sizeof *args);
    if (!k || !a || !buffer || !args)
        return fail_memory(g->ctx, count * sizeof *args);
    *a = (any_storage){.kernel = n->kernel, .state = n->state, .buffer = buffer, .args = args};
    for (int i = 0; i < n->nin + n->nout; i++)
        buffer[i] = buffer_of(g, n, a, i);
    if (!a->bytes)
        return BRASA_OK;
    *k = *n->kernel;
    k->any_storage = false;
    k->parts_in = k->parts_out = 0;
    k->open = NULL;
    k->close = close;
    k->workspace = workspace;
    k->run = run;
    n->kernel = k;
    n->state = a;
    return BRASA_OK;
}
