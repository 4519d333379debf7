/* onednn.c - see onednn.h. The only file that includes the library, and that knows which version it is. */
#include "backend/cpu/onednn.h"
#include "core/threads.h"

#include <float.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

/* A tensor's description is a struct in version 2 and a handle in version 3; functions take it as MD(d). */
typedef struct desc {
    dnnl_memory_desc_t md;
    bool none; /* there is no such tensor */
} desc;

#if DNNL_VERSION_MAJOR >= 3
#define MD(d) ((d)->none ? NULL : (d)->md)
typedef const_dnnl_memory_desc_t md_pointer;
#else
#define MD(d) ((d)->none ? NULL : &(d)->md)
typedef const dnnl_memory_desc_t *md_pointer;
#endif

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

/* --- descriptions of tensors ------------------------------------------------------------------------------ */

/* The layouts that both sides know. Ours are of the shape that Brasa has: weights of a grouped convolution have no
 * axis for the groups, so those stand with the library's tag for the shape that has one. */
static const struct known {
    int rank;
    bool grouped;
    layout layout;
    dnnl_format_tag_t tag;
} known[] = {
    {1, false, {0}, dnnl_a},
    {2, false, {0}, dnnl_ab},
    {4, false, {0}, dnnl_abcd},
    {4, false, {.permuted = 1, .order = {0, 2, 3, 1}}, dnnl_acdb},
    {4, false, {.nblocks = 1, .axis = {1}, .block = {16}}, dnnl_aBcd16b},
    {4, false, {.nblocks = 1, .axis = {1}, .block = {8}}, dnnl_aBcd8b},
    {4, false, {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}}, dnnl_ABcd16b16a},
    {4, false, {.nblocks = 2, .axis = {0, 1}, .block = {16, 16}}, dnnl_ABcd16a16b},
    {4,
     false,
     {.permuted = 1, .order = {1, 0, 2, 3}, .nblocks = 2, .axis = {0, 1}, .block = {16, 16}},
     dnnl_BAcd16a16b},
    {4, false, {.nblocks = 2, .axis = {1, 0}, .block = {8, 8}}, dnnl_ABcd8b8a},
    {4, false, {.nblocks = 2, .axis = {0, 1}, .block = {8, 8}}, dnnl_ABcd8a8b},
    {4, false, {.nblocks = 1, .axis = {0}, .block = {16}}, dnnl_Abcd16a},
    {4, false, {.nblocks = 1, .axis = {0}, .block = {8}}, dnnl_Abcd8a},
    {4, false, {.permuted = 1, .order = {0, 2, 3, 1}, .nblocks = 1, .axis = {0}, .block = {16}}, dnnl_Acdb16a},
    {4, false, {.permuted = 1, .order = {0, 2, 3, 1}, .nblocks = 1, .axis = {0}, .block = {8}}, dnnl_Acdb8a},
    {2, false, {.permuted = 1, .order = {1, 0}}, dnnl_ba},
    {2, false, {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}}, dnnl_AB16b16a},
    {2, false, {.nblocks = 2, .axis = {1, 0}, .block = {16, 32}}, dnnl_AB16b32a},
    {2, false, {.nblocks = 2, .axis = {1, 0}, .block = {16, 64}}, dnnl_AB16b64a},
    {4, true, {0}, dnnl_abcde},
    {4, true, {.nblocks = 1, .axis = {0}, .block = {16}}, dnnl_Abcde16a}, /* depthwise */
    {4, true, {.nblocks = 1, .axis = {0}, .block = {8}}, dnnl_Abcde8a},
    {4, true, {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}}, dnnl_aBCde16c16b},
    {4, true, {.nblocks = 2, .axis = {0, 1}, .block = {16, 16}}, dnnl_aBCde16b16c},
    {4, true, {.nblocks = 2, .axis = {1, 0}, .block = {8, 8}}, dnnl_aBCde8c8b},
    {4, true, {.nblocks = 2, .axis = {0, 1}, .block = {8, 8}}, dnnl_aBCde8b8c},
};
enum { KNOWN = sizeof known / sizeof known[0] };

static dnnl_status_t desc_init(desc *d, int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_tag(&d->md, rank, dims, dnnl_f32, tag);
#else
    return dnnl_memory_desc_init_by_tag(&d->md, rank, dims, dnnl_f32, tag);
#endif
}

/* The library's shape: groups become an axis. */
static int library_dims(const shape *s, int64_t groups, dnnl_dims_t dims)
{
    if (groups == 1) {
        memcpy(dims, s->dim, (size_t)s->rank * sizeof dims[0]);
        return s->rank;
    }
    dims[0] = groups;
    dims[1] = s->dim[0] / groups;
    memcpy(dims + 2, s->dim + 1, (size_t)(s->rank - 1) * sizeof dims[0]);
    return s->rank + 1;
}

/* A blocked layout of grouped weights means the same on both sides only where no block reaches over two groups. */
static bool describes(const struct known *k, const shape *s, int64_t groups)
{
    if (k->rank != s->rank || k->grouped != (groups > 1))
        return false;
    if (!k->grouped || k->layout.nblocks == 0)
        return true;
    const int64_t each = s->dim[0] / groups;
    return k->layout.nblocks == 1 ? each == 1 : each % k->layout.block[0] == 0;
}

static bool desc_make(desc *d, const onednn_tensor *t, int groups)
{
    dnnl_dims_t dims;
    memset(d, 0, sizeof *d);
    d->none = !t->shape;
    if (d->none)
        return true;
    const int rank = library_dims(t->shape, groups, dims);
    if (!t->layout)
        return desc_init(d, rank, dims, dnnl_format_tag_any) == dnnl_success;
    for (int i = 0; i < KNOWN; i++)
        if (describes(&known[i], t->shape, groups) && layout_equal(&known[i].layout, t->layout))
            return desc_init(d, rank, dims, known[i].tag) == dnnl_success;
    return false;
}

static void desc_free(desc *d)
{
#if DNNL_VERSION_MAJOR >= 3
    if (d->md)
        dnnl_memory_desc_destroy(d->md);
#endif
    memset(d, 0, sizeof *d);
}

/* The layout that a description stands for; false where Brasa has no word for it. */
static bool layout_of(md_pointer md, const shape *s, int groups, layout *out)
{
    for (int i = 0; i < KNOWN; i++) {
        desc d;
        const onednn_tensor t = {s, &known[i].layout};
        if (!describes(&known[i], s, groups))
            continue;
        bool same = desc_make(&d, &t, groups) && dnnl_memory_desc_equal(MD(&d), md);
        desc_free(&d);
        if (same) {
            *out = known[i].layout;
            return true;
        }
    }
    return false;
}

/* --- primitive descriptors -------------------------------------------------------------------------------- */

typedef struct descs {
    desc src, wei, bia, dst;
} descs;

static bool describe(const onednn_layer *l, descs *d)
{
    memset(d, 0, sizeof *d);
    bool src = desc_make(&d->src, &l->src, 1), wei = desc_make(&d->wei, &l->wei, l->groups);
    bool bia = desc_make(&d->bia, &l->bia, 1), dst = desc_make(&d->dst, &l->dst, 1);
    return src && wei && bia && dst;
}

static void forget(descs *d)
{
    desc_free(&d->src);
    desc_free(&d->wei);
    desc_free(&d->bia);
    desc_free(&d->dst);
}

typedef struct window_dims {
    dnnl_dims_t stride, dilation, before, after;
} window_dims;

static window_dims window_of(const onednn_layer *l)
{
    return (window_dims){.stride = {l->stride.h, l->stride.w},
                         .dilation = {l->dilation.h - 1, l->dilation.w - 1},
                         .before = {l->pad.top, l->pad.left},
                         .after = {l->pad.bottom, l->pad.right}};
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t make_convolution(const onednn_layer *l, const descs *d, dnnl_engine_t engine,
                                      const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint,
                                      dnnl_primitive_desc_t *pd)
{
    const dnnl_alg_kind_t algorithm = l->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
    const window_dims w = window_of(l);
    switch (l->pass) {
    case ONEDNN_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(pd, engine, dnnl_forward_training, algorithm,
                                                              MD(&d->src), MD(&d->wei), MD(&d->bia), MD(&d->dst),
                                                              w.stride, w.dilation, w.before, w.after, attr);
    case ONEDNN_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(pd, engine, algorithm, MD(&d->src), MD(&d->wei),
                                                                    MD(&d->dst), w.stride, w.dilation, w.before,
                                                                    w.after, hint, attr);
    case ONEDNN_WEIGHTS:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            pd, engine, algorithm, MD(&d->src), MD(&d->wei), MD(&d->bia), MD(&d->dst), w.stride, w.dilation, w.before,
            w.after, hint, attr);
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t make_inner_product(const onednn_layer *l, const descs *d, dnnl_engine_t engine,
                                        const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint,
                                        dnnl_primitive_desc_t *pd)
{
    switch (l->pass) {
    case ONEDNN_FORWARD:
        return dnnl_inner_product_forward_primitive_desc_create(pd, engine, dnnl_forward_training, MD(&d->src),
                                                                MD(&d->wei), MD(&d->bia), MD(&d->dst), attr);
    case ONEDNN_DATA:
        return dnnl_inner_product_backward_data_primitive_desc_create(pd, engine, MD(&d->src), MD(&d->wei),
                                                                      MD(&d->dst), hint, attr);
    case ONEDNN_WEIGHTS:
        return dnnl_inner_product_backward_weights_primitive_desc_create(pd, engine, MD(&d->src), MD(&d->wei),
                                                                         MD(&d->bia), MD(&d->dst), hint, attr);
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t append_relu(dnnl_post_ops_t ops, float slope)
{
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, slope, 0);
}

#else

static dnnl_status_t make_convolution(const onednn_layer *l, const descs *d, dnnl_engine_t engine,
                                      const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint,
                                      dnnl_primitive_desc_t *pd)
{
    const dnnl_alg_kind_t algorithm = l->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
    const window_dims w = window_of(l);
    dnnl_convolution_desc_t op;
    dnnl_status_t status = dnnl_invalid_arguments;
    switch (l->pass) {
    case ONEDNN_FORWARD:
        status = dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, algorithm, MD(&d->src),
                                                            MD(&d->wei), MD(&d->bia), MD(&d->dst), w.stride,
                                                            w.dilation, w.before, w.after);
        break;
    case ONEDNN_DATA:
        status = dnnl_dilated_convolution_backward_data_desc_init(
            &op, algorithm, MD(&d->src), MD(&d->wei), MD(&d->dst), w.stride, w.dilation, w.before, w.after);
        break;
    case ONEDNN_WEIGHTS:
        status =
            dnnl_dilated_convolution_backward_weights_desc_init(&op, algorithm, MD(&d->src), MD(&d->wei), MD(&d->bia),
                                                                MD(&d->dst), w.stride, w.dilation, w.before, w.after);
        break;
    }
    return status == dnnl_success ? dnnl_primitive_desc_create(pd, &op, attr, engine, hint) : status;
}

static dnnl_status_t make_inner_product(const onednn_layer *l, const descs *d, dnnl_engine_t engine,
                                        const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint,
                                        dnnl_primitive_desc_t *pd)
{
    dnnl_inner_product_desc_t op;
    dnnl_status_t status = dnnl_invalid_arguments;
    switch (l->pass) {
    case ONEDNN_FORWARD:
        status = dnnl_inner_product_forward_desc_init(&op, dnnl_forward_training, MD(&d->src), MD(&d->wei),
                                                      MD(&d->bia), MD(&d->dst));
        break;
    case ONEDNN_DATA:
        status = dnnl_inner_product_backward_data_desc_init(&op, MD(&d->src), MD(&d->wei), MD(&d->dst));
        break;
    case ONEDNN_WEIGHTS:
        status =
            dnnl_inner_product_backward_weights_desc_init(&op, MD(&d->src), MD(&d->wei), MD(&d->bia), MD(&d->dst));
        break;
    }
    return status == dnnl_success ? dnnl_primitive_desc_create(pd, &op, attr, engine, hint) : status;
}

static dnnl_status_t append_relu(dnnl_post_ops_t ops, float slope)
{
    return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, slope, 0);
}

#endif

/* Whether the library applies the activation; else it is a pass of its own. The library's plain ReLU and its clipping
 * make 0 of NaN, which would hide a network that has come apart; with a slope ReLU lets NaN pass. The smallest slope
 * there is makes -0 of all that is finite and negative, as threads take such numbers for zero in a step. Its
 * Winograd knows the plain one only. And no chain of its operations is a ReLU6 that lets NaN pass and keeps every
 * bit: clip and minimum drop NaN, 6 - relu(6 - x) rounds. */
static bool fuses_relu(const onednn_layer *l)
{
    return l->act == ACT_RELU && !l->winograd;
}

/* Scratch space is the caller's. */
static dnnl_status_t make_attr(bool relu, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (status != dnnl_success || !relu)
        return status;
    status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success)
        status = append_relu(ops, FLT_TRUE_MIN);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*out, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return status;
}

/* A layer's primitive descriptor. Gradients want that of the forward pass as a hint. */
static dnnl_status_t make_pd(const onednn_layer *l, dnnl_engine_t engine, const_dnnl_primitive_desc_t hint,
                             dnnl_primitive_desc_t *pd)
{
    descs d;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = describe(l, &d) ? make_attr(fuses_relu(l), &attr) : dnnl_unimplemented;
    if (status == dnnl_success)
        status = (l->window ? make_convolution : make_inner_product)(l, &d, engine, attr, hint, pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    forget(&d);
    return status;
}

static dnnl_status_t make_pd_with_hint(const onednn_layer *l, dnnl_engine_t engine, dnnl_primitive_desc_t *pd)
{
    if (l->pass == ONEDNN_FORWARD)
        return make_pd(l, engine, NULL, pd);
    onednn_layer forward = *l;
    dnnl_primitive_desc_t hint = NULL;
    forward.pass = ONEDNN_FORWARD;
    forward.wei.layout = NULL;
    dnnl_status_t status = make_pd(&forward, engine, NULL, &hint);
    if (status == dnnl_success)
        status = make_pd(l, engine, hint, pd);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    return status;
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
    if (!layout_of(query_md(o, what), t->shape, groups, &o->layout[o->nargs]))
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
    o->act = fuses_relu(layer) ? ACT_NONE : layer->act;
    o->threads = g->deterministic && depends_on_threads(layer) ? 1 : node_threads(g, n);
    const int threads = threads_pool(o->threads); /* the library plans for as many as the pool has now */
    dnnl_status_t status = make_pd_with_hint(layer, h->engine, &o->pd);
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
    bool found = make_pd(&forward, engine, NULL, &pd) == dnnl_success &&
                 layout_of(dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), l->wei.shape, l->groups, out);
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

void onednn_layouts(const graph *g, const node *n, layout *in, layout *out)
{
    const onednn *o = n->state;
    (void)g;
    for (int i = 0; i < o->nargs; i++) {
        const int place = o->place[i];
        if (place >= 0)
            *(place >= ONEDNN_OUT ? &out[place - ONEDNN_OUT] : &in[place]) = o->layout[i];
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

#define TEXT_(x)      #x
#define TEXT(x)       TEXT_(x)
#define DOTS(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

const char *onednn_version(void)
{
    return DOTS(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
}
