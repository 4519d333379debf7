/* onednn.c - see onednn.h: the library's engine, and what a kernel keeps of it and runs. */
#include "device/cpu/onednn_parts.h"
#include "core/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- instructions that it may use, the same for the whole process ---------------------------------------------- */

/* BRASA_ISA holds for the library too, unless its own variable says something. It listens until it computes. */
static void limit_isa(void)
{
    if (isa_available() == ISA_AVX2 && !getenv("DNNL_MAX_CPU_ISA") && !getenv("ONEDNN_MAX_CPU_ISA"))
        (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
}

/* What is missing, by the library's own variable, of what our kernels use. */
static const char *missing_isa(void)
{
    const isa used = isa_available();
    limit_isa();
    const dnnl_cpu_isa_t most = used == ISA_ANY ? dnnl_cpu_isa_all : dnnl_get_effective_cpu_isa();
    if (used != ISA_ANY && (most & dnnl_cpu_isa_avx2) != dnnl_cpu_isa_avx2)
        return " without AVX2";
    return used == ISA_AVX512 && (most & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core ? " with AVX2" : "";
}

/* --- engine and stream, one of each a context ------------------------------------------------------------------ */

typedef struct handles {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} handles;

static brasa_status refuse(brasa_context *ctx, const char *what, dnnl_status_t status)
{
    return fail(ctx, status == dnnl_out_of_memory ? BRASA_OUT_OF_MEMORY : BRASA_NO_KERNEL, "oneDNN: %s: status %d",
                what, (int)status);
}

static void release_handles(brasa_context *ctx, void *data)
{
    handles *h = data;
    if (h->stream)
        dnnl_stream_destroy(h->stream);
    if (h->engine)
        dnnl_engine_destroy(h->engine);
    mem_put(ctx, h);
}

static brasa_status get_handles(brasa_context *ctx, const handles **out)
{
    library *l = &ctx->library[LIBRARY_ONEDNN];
    if (!l->data) {
        handles *h = mem_get(ctx, sizeof *h);
        if (!h)
            return fail_memory(ctx, sizeof *h);
        limit_isa();
        dnnl_status_t status = dnnl_engine_create(&h->engine, dnnl_cpu, 0);
        if (status == dnnl_success)
            status = dnnl_stream_create(&h->stream, h->engine, dnnl_stream_default_flags);
        if (status != dnnl_success) {
            release_handles(ctx, h);
            return refuse(ctx, "no CPU engine", status);
        }
        *l = (library){h, release_handles};
    }
    *out = l->data;
    return BRASA_OK;
}

/* --- what a kernel keeps ---------------------------------------------------------------------------------- */

enum { MAX_ARGS = 6 };

struct onednn {
    dnnl_stream_t stream;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    int nargs;
    dnnl_exec_arg_t arg[MAX_ARGS];
    int place[MAX_ARGS]; /* of an argument: see onednn_places; the scratch space is -1 */
    layout layout[MAX_ARGS];
    int64_t scratch;
    activation act; /* left to do */
    int threads;    /* that it was made for, and must run with */
};

static md_pointer query_md(const onednn *o, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(o->pd, what, 0);
}

/* The library falls back to loops slower than our own reference: those are not taken. */
static bool is_fast(const onednn *o)
{
    const char *name = "";
    dnnl_primitive_desc_query(o->pd, dnnl_query_impl_info_str, 0, &name);
    return strncmp(name, "ref", 3) != 0 && strncmp(name, "simple", 6) != 0;
}

static dnnl_status_t add_arg(onednn *o, dnnl_engine_t engine, int name, dnnl_query_t what, int place)
{
    dnnl_memory_t memory;
    dnnl_status_t status = dnnl_memory_create(&memory, query_md(o, what), engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success) {
        o->place[o->nargs] = place;
        o->arg[o->nargs++] = (dnnl_exec_arg_t){name, memory};
    }
    return status;
}

/* An argument with its layout in Brasa's words. */
static dnnl_status_t add_tensor(onednn *o, dnnl_engine_t engine, int name, dnnl_query_t what, int place,
                                const onednn_tensor *t, int groups)
{
    if (place < 0 || !t->shape)
        return dnnl_success;
    if (!onednn_layout_of(query_md(o, what), t->shape, groups, &o->layout[o->nargs]))
        return dnnl_unimplemented;
    return add_arg(o, engine, name, what, place);
}

static dnnl_status_t add_tensors(onednn *o, dnnl_engine_t engine, const onednn_layer *l, const onednn_places *at)
{
    static const struct {
        int src, wei, bia, dst;
        dnnl_query_t src_md, wei_md, bia_md, dst_md;
    } names[] = {
        [ONEDNN_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, dnnl_query_src_md,
                            dnnl_query_weights_md, dnnl_query_weights_md, dnnl_query_dst_md},
        [ONEDNN_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST,
                         dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_weights_md,
                         dnnl_query_diff_dst_md},
        [ONEDNN_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST,
                            dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_weights_md,
                            dnnl_query_diff_dst_md},
    };
    const int p = l->pass;
    dnnl_status_t status = add_tensor(o, engine, names[p].src, names[p].src_md, at->src, &l->src, 1);
    if (status == dnnl_success)
        status = add_tensor(o, engine, names[p].wei, names[p].wei_md, at->wei, &l->wei, l->groups);
    if (status == dnnl_success)
        status = add_tensor(o, engine, names[p].dst, names[p].dst_md, at->dst, &l->dst, 1);
    if (status == dnnl_success && at->bia >= 0 && l->bia.shape) { /* a vector: plain, whoever chooses */
        md_pointer md = dnnl_primitive_desc_query_md(o->pd, names[p].bia_md, 1);
        dnnl_memory_t memory;
        status = dnnl_memory_create(&memory, md, engine, DNNL_MEMORY_NONE);
        if (status == dnnl_success) {
            o->place[o->nargs] = at->bia;
            o->arg[o->nargs++] = (dnnl_exec_arg_t){names[p].bia, memory};
        }
    }
    return status;
}

/* Layouts of an inner product over flattened blocks, back in four dimensions. The library saw N x F and K x F, with F
 * running over C / b, H, W and the b channels of a block: cutting F into blocks of b is cutting C into them. */
static bool unflatten(onednn *o, const onednn_layer *l, const onednn_places *at)
{
    for (int i = 0; i < o->nargs; i++) {
        layout *x = &o->layout[i];
        if (o->place[i] == at->dst || o->place[i] == at->bia)
            continue;
        if (layout_plain(x))
            *x = layout_in_blocks(1, l->flat);
        else if (o->place[i] == at->src || x->permuted || x->axis[0] != 1 || x->block[0] != l->flat)
            return false;
    }
    return true;
}

/* Winograd's transformed tensors take several times the room of the plain ones, and its weight gradients are summed
 * from one copy a thread. It is refused where that passes both limits: with two threads, in none of our networks. */
enum { SCRATCH_FREE = 256 << 20, SCRATCH_TIMES = 4 };

static int64_t tensor_bytes(const onednn_layer *l)
{
    return (shape_count(l->src.shape) + shape_count(l->wei.shape) + shape_count(l->dst.shape)) *
           (int64_t)sizeof(float);
}

static dnnl_status_t add_scratch(onednn *o, dnnl_engine_t engine, const onednn_layer *l)
{
    o->scratch = (int64_t)dnnl_memory_desc_get_size(query_md(o, dnnl_query_scratchpad_md));
    if (l->winograd && o->scratch > SCRATCH_FREE && o->scratch / SCRATCH_TIMES > tensor_bytes(l))
        return dnnl_unimplemented;
    return o->scratch ? add_arg(o, engine, DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, -1) : dnnl_success;
}

void onednn_close(brasa_context *ctx, void *state)
{
    onednn *o = state;
    for (int i = 0; i < o->nargs; i++)
        dnnl_memory_destroy(o->arg[i].memory);
    if (o->primitive)
        dnnl_primitive_destroy(o->primitive);
    if (o->pd)
        dnnl_primitive_desc_destroy(o->pd);
    mem_put(ctx, o);
}

/* The library sums weight gradients and inner products in an order that depends on the number of threads. Direct
 * convolutions, forward and by the data, came out with the same bits on 1, 2, 3 and 4 of them in all networks that
 * were tried (2.6.3 and 3.2). */
static bool depends_on_threads(const onednn_layer *l)
{
    return l->pass == ONEDNN_WEIGHTS || !l->window;
}

static brasa_status open_as(graph *g, node *n, const handles *h, const onednn_layer *layer,
                            const onednn_places *places)
{
    onednn *o = mem_get(g->ctx, sizeof *o);
    if (!o)
        return fail_memory(g->ctx, sizeof *o);
    o->stream = h->stream;
    o->act = onednn_fuses_relu(layer) ? ACT_NONE : layer->act;
    o->threads = g->deterministic && depends_on_threads(layer) ? 1 : node_threads(g, n);
    const int threads = threads_pool(o->threads); /* the library plans for as many as the pool has now */
    dnnl_status_t status = onednn_describe(layer, h->engine, &o->pd);
    if (status == dnnl_success && !is_fast(o))
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = add_tensors(o, h->engine, layer, places);
    if (status == dnnl_success && layer->flat && !unflatten(o, layer, places))
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = add_scratch(o, h->engine, layer);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&o->primitive, o->pd);
    threads_pool(threads);
    if (status != dnnl_success) {
        onednn_close(g->ctx, o);
        return refuse(g->ctx, n->op->name, status);
    }
    n->state = o;
    return BRASA_OK;
}

/* The layout that the forward pass wants the weights in; false where it has none that Brasa can describe. */
static bool forward_weights(const onednn_layer *l, dnnl_engine_t engine, layout *out)
{
    onednn_layer forward = *l;
    dnnl_primitive_desc_t pd = NULL;
    forward.pass = ONEDNN_FORWARD;
    bool found =
        onednn_describe(&forward, engine, &pd) == dnnl_success &&
        onednn_layout_of(dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), l->wei.shape, l->groups, out);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return found;
}

/* The library chooses the layout of the weights. The data gradient of a dense layer is first asked for in that of the
 * forward pass, which saves a reorder of them in each step: the library's choice may be another, though both are as
 * fast. Where it takes one that Brasa cannot describe, they are plain. */
brasa_status onednn_open(graph *g, node *n, const onednn_layer *layer, const onednn_places *places)
{
    static const layout plain = {0};
    const handles *h = NULL;
    layout shared;
    onednn_layer again = *layer;
    brasa_status status = get_handles(g->ctx, &h);
    if (status != BRASA_OK)
        return status;
    if (layer->pass == ONEDNN_DATA && !layer->window && forward_weights(layer, h->engine, &shared)) {
        again.wei.layout = &shared;
        status = open_as(g, n, h, &again, places);
        if (status != BRASA_NO_KERNEL)
            return status;
    }
    status = open_as(g, n, h, layer, places);
    if (status != BRASA_NO_KERNEL || layer->wei.layout)
        return status;
    again.wei.layout = &plain;
    return open_as(g, n, h, &again, places);
}

void onednn_formats(const graph *g, const node *n, format *in, format *out)
{
    const onednn *o = n->state;
    (void)g;
    for (int i = 0; i < o->nargs; i++) {
        const int place = o->place[i];
        if (place >= 0)
            (place >= ONEDNN_OUT ? &out[place - ONEDNN_OUT] : &in[place])->layout = o->layout[i];
    }
}

int64_t onednn_workspace(const graph *g, const node *n)
{
    (void)g;
    return ((const onednn *)n->state)->scratch;
}

brasa_status onednn_bind(const step *s)
{
    const onednn *o = s->state;
    for (int i = 0; i < o->nargs; i++) {
        const int place = o->place[i];
        void *data = place < 0             ? s->workspace
                     : place >= ONEDNN_OUT ? s->out[place - ONEDNN_OUT].data
                                           : s->in[place].data;
        if (dnnl_memory_set_data_handle(o->arg[i].memory, data) != dnnl_success)
            return BRASA_INTERNAL;
    }
    return BRASA_OK;
}

/* These loops become vectors, where the compiler may use wider ones than every machine has: the kernels need AVX2
 * anyway. */
#ifdef BRASA_SIMD
#define WIDE __attribute__((target("avx2")))
#else
#define WIDE
#endif

WIDE static void relu_range(const step *s, int64_t begin, int64_t end)
{
    float *dst = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dst[i] = ACTIVATE(ACT_RELU, dst[i]);
}

WIDE static void relu6_range(const step *s, int64_t begin, int64_t end)
{
    float *dst = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dst[i] = ACTIVATE(ACT_RELU6, dst[i]);
}

brasa_status onednn_run(const step *s)
{
    const onednn *o = s->state;
    const int threads = threads_pool(o->threads);
    const dnnl_status_t status = dnnl_primitive_execute(o->primitive, o->stream, o->nargs, o->arg);
    threads_pool(threads);
    if (status != dnnl_success)
        return BRASA_INTERNAL;
    if (o->act != ACT_NONE)
        step_for(s, s->out[0].count, (double)s->out[0].count, o->act == ACT_RELU ? relu_range : relu6_range);
    return BRASA_OK;
}

const char *onednn_version(void)
{
    static _Thread_local char text[40];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d%s", v->major, v->minor, v->patch, missing_isa());
    return text;
}
