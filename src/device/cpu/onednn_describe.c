/* onednn_describe.c - tensors and layers in oneDNN's words: see onednn_parts.h. What differs between the versions of
 * the library is here, but for one type. */
#include "device/cpu/onednn_parts.h"

#include <float.h>
#include <string.h>

/* A tensor's description is a struct in version 2 and a handle in version 3; functions take it as MD(d). */
typedef struct desc {
    dnnl_memory_desc_t md;
    bool none; /* there is no such tensor */
} desc;

#if DNNL_VERSION_MAJOR >= 3
#define MD(d) ((d)->none ? NULL : (d)->md)
#else
#define MD(d) ((d)->none ? NULL : &(d)->md)
#endif

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

bool onednn_layout_of(md_pointer md, const shape *s, int groups, layout *out)
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

/* The library's plain ReLU and its clipping make 0 of NaN, which would hide a network that has come apart; with a
 * slope ReLU lets NaN pass. The smallest slope there is makes -0 of all that is finite and negative, as threads take
 * such numbers for zero in a step. Its Winograd knows the plain one only. And no chain of its operations is a ReLU6
 * that lets NaN pass and keeps every bit: clip and minimum drop NaN, 6 - relu(6 - x) rounds. */
bool onednn_fuses_relu(const onednn_layer *l)
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

/* hint: the descriptor of the forward pass, which gradients want. */
static dnnl_status_t make_pd(const onednn_layer *l, dnnl_engine_t engine, const_dnnl_primitive_desc_t hint,
                             dnnl_primitive_desc_t *pd)
{
    descs d;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = describe(l, &d) ? make_attr(onednn_fuses_relu(l), &attr) : dnnl_unimplemented;
    if (status == dnnl_success)
        status = (l->window ? make_convolution : make_inner_product)(l, &d, engine, attr, hint, pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    forget(&d);
    return status;
}

dnnl_status_t onednn_describe(const onednn_layer *l, dnnl_engine_t engine, dnnl_primitive_desc_t *pd)
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
