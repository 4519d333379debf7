/* cudnn_finish.c - what descriptors of the library that stands in for cuDNN mean: reads tensors, operations and
 * graphs out of their attributes, and refuses what does not go together. */
#include "soft_cudnn.h"

#define REFUSE_UNLESS(condition, ...)                                                                                \
    do                                                                                                               \
        if (!(condition))                                                                                            \
            return soft_refuse(__VA_ARGS__);                                                                         \
    while (0)

/* --- tensors --------------------------------------------------------------------------------------------------- */

static cudnnStatus_t read_type(int64_t from, soft_type *to)
{
    *to = from == CUDNN_DATA_BFLOAT16 ? SOFT_BF16 : SOFT_F32;
    REFUSE_UNLESS(from == CUDNN_DATA_BFLOAT16 || from == CUDNN_DATA_FLOAT, CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                  "data type %d is not supported", (int)from);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_tensor(body *b)
{
    const attribute *dims = soft_attribute(b, CUDNN_ATTR_TENSOR_DIMENSIONS),
                    *strides = soft_attribute(b, CUDNN_ATTR_TENSOR_STRIDES);
    tensor *t = &b->tensor;
    t->dims = dims->count;
    t->uid = soft_int(b, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    t->alignment = soft_int(b, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    t->inside = soft_int(b, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    REFUSE_UNLESS(strides->count == dims->count, CUDNN_STATUS_BAD_PARAM, "a tensor has %d dimensions and %d strides",
                  (int)dims->count, (int)strides->count);
    for (int64_t i = 0; i < t->dims; i++) {
        t->dim[i] = ((const int64_t *)dims->values)[i];
        t->stride[i] = ((const int64_t *)strides->values)[i];
        REFUSE_UNLESS(t->dim[i] > 0 && t->stride[i] > 0, CUDNN_STATUS_BAD_PARAM,
                      "a tensor's dimension %d is %lld, its stride %lld", (int)i, (long long)t->dim[i],
                      (long long)t->stride[i]);
    }
    const cudnnStatus_t status = read_type(soft_int(b, CUDNN_ATTR_TENSOR_DATA_TYPE), &t->type);
    const int64_t a = t->alignment;
    REFUSE_UNLESS(status != CUDNN_STATUS_SUCCESS || (a >= (int64_t)soft_size(t->type) && (a & (a - 1)) == 0),
                  CUDNN_STATUS_BAD_PARAM, "a tensor is aligned to %lld bytes", (long long)a);
    return status;
}

/* --- what operations do ---------------------------------------------------------------------------------------- */

/* One of a window's lists, as long as it has axes. */
static cudnnStatus_t read_axes(const body *b, cudnnBackendAttributeName_t name, int64_t axes, int64_t least,
                               int64_t *to)
{
    const attribute *a = soft_attribute(b, name);
    REFUSE_UNLESS(a->count == axes, CUDNN_STATUS_BAD_PARAM, "attribute %d has %d elements for %d axes", (int)name,
                  (int)a->count, (int)axes);
    for (int64_t i = 0; i < axes; i++) {
        to[i] = ((const int64_t *)a->values)[i];
        REFUSE_UNLESS(to[i] >= least, CUDNN_STATUS_BAD_PARAM, "attribute %d has element %lld", (int)name,
                      (long long)to[i]);
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_window(body *b)
{
    window *w = &b->window;
    w->axes = soft_int(b, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
    REFUSE_UNLESS(w->axes == PICTURE - 2, CUDNN_STATUS_NOT_SUPPORTED, "a convolution with %d axes is not supported",
                  (int)w->axes);
    w->turned = soft_int(b, CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION;
    REFUSE_UNLESS(soft_int(b, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT,
                  CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "sums are floats");
    cudnnStatus_t status = read_axes(b, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, w->axes, 0, w->before);
    if (status == CUDNN_STATUS_SUCCESS)
        status = read_axes(b, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, w->axes, 0, w->after);
    if (status == CUDNN_STATUS_SUCCESS)
        status = read_axes(b, CUDNN_ATTR_CONVOLUTION_DILATIONS, w->axes, 1, w->dilation);
    if (status == CUDNN_STATUS_SUCCESS)
        status = read_axes(b, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, w->axes, 1, w->stride);
    return status;
}

static cudnnStatus_t finish_pointwise(body *b)
{
    pointwise *p = &b->pointwise;
    p->mode = (cudnnPointwiseMode_t)soft_int(b, CUDNN_ATTR_POINTWISE_MODE);
    p->keeps_nan = soft_int(b, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) == CUDNN_PROPAGATE_NAN;
    p->lower = soft_real(b, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0);
    p->upper = soft_real(b, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, 1e308);
    p->slope = soft_real(b, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0);
    REFUSE_UNLESS(p->mode == CUDNN_POINTWISE_ADD || p->mode == CUDNN_POINTWISE_RELU_FWD, CUDNN_STATUS_NOT_SUPPORTED,
                  "pointwise mode %d is not supported", (int)p->mode);
    REFUSE_UNLESS(soft_int(b, CUDNN_ATTR_POINTWISE_MATH_PREC) == CUDNN_DATA_FLOAT,
                  CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "operations are made in floats");
    REFUSE_UNLESS(p->lower <= p->upper, CUDNN_STATUS_BAD_PARAM, "the lower clip is above the upper one");
    return CUDNN_STATUS_SUCCESS;
}

/* --- operations ------------------------------------------------------------------------------------------------ */

/* Whether x, w and y go together. Groups are told by the weights' channels. */
static cudnnStatus_t check_shapes(const operation *o)
{
    const tensor *x = &o->x, *w = &o->w, *y = &o->y;
    REFUSE_UNLESS(x->dims == PICTURE && w->dims == PICTURE && y->dims == PICTURE, CUDNN_STATUS_BAD_PARAM,
                  "tensors of a convolution of pictures have 4 dimensions");
    REFUSE_UNLESS(x->dim[0] == y->dim[0], CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "%lld pictures become %lld",
                  (long long)x->dim[0], (long long)y->dim[0]);
    REFUSE_UNLESS(w->dim[0] == y->dim[1], CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                  "weights are for %lld channels of %lld", (long long)w->dim[0], (long long)y->dim[1]);
    REFUSE_UNLESS(x->dim[1] % w->dim[1] == 0 && w->dim[0] % (x->dim[1] / w->dim[1]) == 0,
                  CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "weights of %lld channels do not go with %lld",
                  (long long)w->dim[1], (long long)x->dim[1]);
    for (int i = 0; i < 2; i++) {
        const int64_t reach = o->window.dilation[i] * (w->dim[2 + i] - 1) + 1,
                      room = x->dim[2 + i] + o->window.before[i] + o->window.after[i] - reach;
        REFUSE_UNLESS(room >= 0 && room / o->window.stride[i] + 1 == y->dim[2 + i],
                      CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "%lld do not become %lld by a window on %lld",
                      (long long)x->dim[2 + i], (long long)y->dim[2 + i], (long long)reach);
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_convolution(body *b, product what)
{
    static const struct {
        cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
    } all[] = {
        [FORWARD] = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        [DATA] = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        [WEIGHTS] = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    operation *o = &b->operation;
    *o = (operation){.product = what,
                     .window = soft_body(b, all[what].window)->window,
                     .x = soft_body(b, all[what].x)->tensor,
                     .w = soft_body(b, all[what].w)->tensor,
                     .y = soft_body(b, all[what].y)->tensor,
                     .alpha = soft_real(b, all[what].alpha, 1),
                     .beta = soft_real(b, all[what].beta, 0)};
    const tensor *factor = what == FORWARD ? &o->x : &o->y, *other = what == WEIGHTS ? &o->x : &o->w;
    REFUSE_UNLESS(factor->type == other->type, CUDNN_STATUS_BAD_PARAM, "factors are of two types");
    return check_shapes(o);
}

static cudnnStatus_t finish_step(body *b)
{
    const body *w = soft_body(b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    operation *o = &b->operation;
    *o = (operation){.product = POINTWISE,
                     .x = soft_body(b, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)->tensor,
                     .y = soft_body(b, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)->tensor,
                     .alpha = soft_real(b, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1),
                     .beta = soft_real(b, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1),
                     .how = soft_body(b, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)->pointwise,
                     .has_w = w != NULL};
    if (w)
        o->w = w->tensor;
    REFUSE_UNLESS(o->has_w == (o->how.mode == CUDNN_POINTWISE_ADD), CUDNN_STATUS_BAD_PARAM,
                  "pointwise mode %d has %s second factor", (int)o->how.mode, o->has_w ? "a" : "no");
    REFUSE_UNLESS(o->x.dims == o->y.dims && (!w || o->w.dims == o->y.dims), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                  "a pointwise operation has tensors of several dimensions");
    for (int64_t i = 0; i < o->y.dims; i++)
        REFUSE_UNLESS(o->x.dim[i] == o->y.dim[i] && (!w || o->w.dim[i] == 1 || o->w.dim[i] == o->y.dim[i]),
                      CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "dimension %d of a pointwise operation's tensors",
                      (int)i);
    return CUDNN_STATUS_SUCCESS;
}

/* --- graphs ---------------------------------------------------------------------------------------------------- */

static bool same_tensor(const tensor *x, const tensor *y)
{
    bool same = x->dims == y->dims && x->alignment == y->alignment && x->type == y->type && x->inside == y->inside;
    for (int64_t i = 0; i < x->dims && same; i++)
        same = x->dim[i] == y->dim[i] && x->stride[i] == y->stride[i];
    return same;
}

/* Whether one uid is one tensor, and no tensor is made twice, or out of itself. */
static cudnnStatus_t check_uids(const operation *const *ops, int count)
{
    const tensor *all[3 * MOST_OPERATIONS];
    bool made[3 * MOST_OPERATIONS];
    int known = 0;
    for (int i = 0; i < count; i++) {
        const operation *o = ops[i];
        const tensor *const of[] = {&o->x, &o->w, &o->y};
        const int result = o->product == DATA ? 0 : o->product == WEIGHTS ? 1 : 2;
        for (int k = 0; k < 3; k++)
            if (k != 1 || o->product != POINTWISE || o->has_w) {
                made[known] = k == result;
                all[known++] = of[k];
            }
    }
    for (int i = 0; i < known; i++)
        for (int k = 0; k < i; k++)
            if (all[i]->uid == all[k]->uid) {
                REFUSE_UNLESS(same_tensor(all[i], all[k]), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
                              "two tensors have uid %lld", (long long)all[i]->uid);
                REFUSE_UNLESS(!made[i] || !made[k], CUDNN_STATUS_BAD_PARAM, "tensor %lld is made twice",
                              (long long)all[i]->uid);
                REFUSE_UNLESS(all[i]->inside || (!made[i] && !made[k]), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                              "tensor %lld is in memory, and made and used", (long long)all[i]->uid);
            }
    return CUDNN_STATUS_SUCCESS;
}

static const operation *user_of(const operation *const *ops, int count, const tensor *t)
{
    for (int i = 0; i < count; i++)
        if (ops[i]->product == POINTWISE && ops[i]->x.uid == t->uid)
            return ops[i];
    return NULL;
}

static cudnnStatus_t finish_graph(body *b)
{
    const attribute *list = soft_attribute(b, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const operation *ops[MOST_OPERATIONS], *sums = NULL;
    const int count = (int)list->count;
    problem *p = &b->problem;
    for (int i = 0; i < count; i++) {
        const body *o = ((body *const *)list->values)[i];
        REFUSE_UNLESS(o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
                          o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
                          o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ||
                          o->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                      CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor of type %d is no operation",
                      (int)o->type);
        ops[i] = &o->operation;
        REFUSE_UNLESS(ops[i]->product == POINTWISE || !sums, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                      "there are two convolutions");
        sums = ops[i]->product == POINTWISE ? sums : ops[i];
    }
    REFUSE_UNLESS(sums && !sums->window.turned, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "there is no convolution");
    const cudnnStatus_t status = check_uids(ops, count);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    p->sums = *sums;
    const tensor *end = sums->product == FORWARD ? &sums->y : sums->product == DATA ? &sums->x : &sums->w;
    const bool first = sums->product == FORWARD
                           ? sums->x.inside || sums->w.inside
                           : sums->y.inside || (sums->product == DATA ? sums->w : sums->x).inside;
    REFUSE_UNLESS(!first, CUDNN_STATUS_BAD_PARAM, "a factor is virtual, and nothing makes it");
    REFUSE_UNLESS(!end->inside || sums->beta == 0, CUDNN_STATUS_BAD_PARAM, "beta is for what is in memory");
    while (end->inside) {
        const operation *next = user_of(ops, count, end);
        REFUSE_UNLESS(next && p->steps < MOST_STEPS && sums->product == FORWARD,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "nothing uses virtual tensor %lld",
                      (long long)end->uid);
        REFUSE_UNLESS(!next->has_w || !next->w.inside, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                      "a step's second factor is virtual");
        p->step[p->steps++] = *next;
        end = &next->y;
    }
    p->result = *end;
    REFUSE_UNLESS(p->steps + 1 == count, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                  "%d operations are not one after the other", count);
    return CUDNN_STATUS_SUCCESS;
}

/* --- all of them ----------------------------------------------------------------------------------------------- */

/* A pack is of as many addresses as uids. */
static cudnnStatus_t finish_pack(body *b)
{
    const attribute *uids = soft_attribute(b, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                    *data = soft_attribute(b, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const int64_t *uid = uids->values;
    REFUSE_UNLESS(uids->count == data->count, CUDNN_STATUS_BAD_PARAM, "%d addresses have %d uids", (int)data->count,
                  (int)uids->count);
    for (int64_t i = 0; i < uids->count; i++)
        for (int64_t k = 0; k < i; k++)
            REFUSE_UNLESS(uid[i] != uid[k], CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "uid %lld is there twice",
                          (long long)uid[i]);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t soft_finish(body *b)
{
    switch ((int)b->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return finish_tensor(b);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return finish_window(b);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        return finish_pointwise(b);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return finish_convolution(b, FORWARD);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return finish_convolution(b, DATA);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return finish_convolution(b, WEIGHTS);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return finish_step(b);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return finish_graph(b);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return finish_pack(b);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return soft_finish_engine(b);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return soft_finish_config(b);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return soft_finish_plan(b);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        b->problem = soft_body(b, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->problem;
        return CUDNN_STATUS_SUCCESS;
    default: /* a knob's choice */
        return CUDNN_STATUS_SUCCESS;
    }
}
