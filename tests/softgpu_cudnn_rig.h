/* softgpu_cudnn_rig.h - what the tests of the library that stands in for cuDNN share: the library, and a convolution
 * that is described to it. Include it after test.h. */
#ifndef TEST_SOFTGPU_CUDNN_RIG_H
#define TEST_SOFTGPU_CUDNN_RIG_H

#include "softgpu_rig.h"

#include <cudnn_graph.h>

/* --- the library ----------------------------------------------------------------------------------------------- */

#define FUNCTIONS(F)                                                                                                 \
    F(GetVersion)                                                                                                    \
    F(GetErrorString)                                                                                                \
    F(GetLastErrorString)                                                                                            \
    F(Create)                                                                                                        \
    F(Destroy)                                                                                                       \
    F(SetStream)                                                                                                     \
    F(BackendCreateDescriptor)                                                                                       \
    F(BackendDestroyDescriptor)                                                                                      \
    F(BackendSetAttribute)                                                                                           \
    F(BackendGetAttribute)                                                                                           \
    F(BackendFinalize)                                                                                               \
    F(BackendExecute)

enum { MOST_DESCRIPTORS = 256 };

static struct {
    void *file;
    cudnnHandle_t handle;
    int count; /* of descriptors that are there */
    cudnnBackendDescriptor_t made[MOST_DESCRIPTORS];
#define FUNCTION(name) __typeof__(&cudnn##name) name;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
} dnn;

typedef cudnnBackendDescriptor_t descriptor;

static inline bool dnn_open(void)
{
    bool good = dnn.file || (dnn.file = rig_open(TEST_SOFT_CUDNN));
#define FUNCTION(name) good = good && rig_take(dnn.file, "cudnn" #name, &dnn.name);
    FUNCTIONS(FUNCTION)
#undef FUNCTION
    return good && (dnn.handle || dnn.Create(&dnn.handle) == CUDNN_STATUS_SUCCESS) &&
           dnn.SetStream(dnn.handle, NULL) == CUDNN_STATUS_SUCCESS;
}

static inline descriptor dnn_make(cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;
    CHECK_INT(dnn.BackendCreateDescriptor(type, &d), 0);
    if (dnn.count < MOST_DESCRIPTORS)
        dnn.made[dnn.count++] = d;
    return d;
}

/* Ends all of them. */
static inline void dnn_clear(void)
{
    while (dnn.count)
        CHECK_INT(dnn.BackendDestroyDescriptor(dnn.made[--dnn.count]), 0);
}

static inline void dnn_begin(void)
{
    CHECK(dnn_open());
}

AROUND_EACH(dnn_begin, dnn_clear)

/* The library's last words, where it refused something. */
static inline const char *dnn_words(void)
{
    static char words[200];
    dnn.GetLastErrorString(words, sizeof words);
    return words;
}

static inline void dnn_put(descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           int64_t count, const void *from)
{
    const cudnnStatus_t status = dnn.BackendSetAttribute(d, name, type, count, from);
    if (status != CUDNN_STATUS_SUCCESS)
        test_fail(__FILE__, __LINE__, "attribute %d: %s", (int)name, dnn_words());
}

#define DNN_PUT(d, name, type, value) dnn_put(d, CUDNN_ATTR_##name, CUDNN_TYPE_##type, 1, &(value))

static inline descriptor dnn_finish(descriptor d)
{
    if (dnn.BackendFinalize(d) != CUDNN_STATUS_SUCCESS)
        test_fail(__FILE__, __LINE__, "%s", dnn_words());
    return d;
}

/* --- a convolution --------------------------------------------------------------------------------------------- */

typedef enum layout { NHWC, NCHW, WIDE } layout; /* WIDE: NHWC, with room for more channels behind each pixel's */
typedef enum what { FORWARD, DATA, WEIGHTS } what;
enum { X = 1, WEI, Y, BIAS, SUMS, ALL }; /* uids */

typedef struct shape_of {
    int n, c, h, w, k, r, s;
    int stride[2], before[2], after[2], dilation[2], groups;
    layout layout;
    soft_type type;
} shape_of;

/* A tensor as it lies in memory. */
typedef struct lying {
    int64_t dim[4], stride[4], count;
    soft_type type;
    void *at;
} lying;

static inline lying lie(int64_t n, int64_t c, int64_t h, int64_t w, layout l, soft_type type)
{
    const int64_t line = l == WIDE ? c + 5 : c;
    lying t = {.dim = {n, c, h, w}, .type = type, .count = n * line * h * w};
    const int64_t strides[2][4] = {{h * w * line, 1, w * line, line}, {c * h * w, h * w, w, 1}};
    memcpy(t.stride, strides[l == NCHW], sizeof t.stride);
    return t;
}

static inline int64_t at_of(const lying *t, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return n * t->stride[0] + c * t->stride[1] + h * t->stride[2] + w * t->stride[3];
}

static inline int out_size(const shape_of *s, int axis)
{
    const int size = axis ? s->w : s->h, taps = axis ? s->s : s->r;
    return (size + s->before[axis] + s->after[axis] - s->dilation[axis] * (taps - 1) - 1) / s->stride[axis] + 1;
}

static inline descriptor make_tensor_with(int64_t uid, const lying *t, bool inside, int64_t alignment)
{
    const cudnnDataType_t type = t->type == SOFT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    descriptor d = dnn_make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    DNN_PUT(d, TENSOR_DATA_TYPE, DATA_TYPE, type);
    dnn_put(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t->dim);
    dnn_put(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t->stride);
    DNN_PUT(d, TENSOR_UNIQUE_ID, INT64, uid);
    DNN_PUT(d, TENSOR_BYTE_ALIGNMENT, INT64, alignment);
    if (inside)
        DNN_PUT(d, TENSOR_IS_VIRTUAL, BOOLEAN, inside);
    return d;
}

static inline descriptor make_tensor(int64_t uid, const lying *t, bool inside)
{
    return dnn_finish(make_tensor_with(uid, t, inside, 16));
}

/* Not finished yet, and without some attribute. */
static inline descriptor make_window(const shape_of *s, int without)
{
    const int64_t axes = 2, stride[] = {s->stride[0], s->stride[1]}, before[] = {s->before[0], s->before[1]},
                  after[] = {s->after[0], s->after[1]}, dilation[] = {s->dilation[0], s->dilation[1]};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendAttributeType_t type;
        int64_t count;
        const void *from;
    } all[] = {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type},
               {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
               {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes},
               {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before},
               {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after},
               {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation},
               {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride}};
    descriptor d = dnn_make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    for (int i = 0; i < 7; i++)
        if (i != without)
            dnn_put(d, all[i].name, all[i].type, all[i].count, all[i].from);
    return d;
}

/* Not finished yet. */
static inline descriptor make_convolution(what of, descriptor window, descriptor x, descriptor w, descriptor y,
                                          float alpha, float beta)
{
    descriptor d = dnn_make(of == FORWARD ? CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
                            : of == DATA  ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                                          : CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
#define PUT_ALL(names, x_, w_, y_)                                                                                   \
    do {                                                                                                             \
        DNN_PUT(d, OPERATION_CONVOLUTION_##names##_CONV_DESC, BACKEND_DESCRIPTOR, window);                           \
        DNN_PUT(d, OPERATION_CONVOLUTION_##names##_##x_, BACKEND_DESCRIPTOR, x);                                     \
        DNN_PUT(d, OPERATION_CONVOLUTION_##names##_##w_, BACKEND_DESCRIPTOR, w);                                     \
        DNN_PUT(d, OPERATION_CONVOLUTION_##names##_##y_, BACKEND_DESCRIPTOR, y);                                     \
        DNN_PUT(d, OPERATION_CONVOLUTION_##names##_ALPHA, FLOAT, alpha);                                             \
        DNN_PUT(d, OPERATION_CONVOLUTION_##names##_BETA, FLOAT, beta);                                               \
    } while (0)
    if (of == FORWARD)
        PUT_ALL(FORWARD, X, W, Y);
    else if (of == DATA)
        PUT_ALL(BWD_DATA, DX, W, DY);
    else
        PUT_ALL(BWD_FILTER, X, DW, DY);
#undef PUT_ALL
    return d;
}

/* What is not said of relu is left out. */
typedef struct clip {
    bool nan;
    double lower, upper, slope;
} clip;

/* Adds b, or activates where there is none. */
static inline descriptor make_step(descriptor x, descriptor b, descriptor y, const clip *c)
{
    const cudnnPointwiseMode_t mode = b ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    descriptor how = dnn_make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
               d = dnn_make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    DNN_PUT(how, POINTWISE_MODE, POINTWISE_MODE, mode);
    DNN_PUT(how, POINTWISE_MATH_PREC, DATA_TYPE, type);
    if (c && c->nan)
        DNN_PUT(how, POINTWISE_NAN_PROPAGATION, NAN_PROPOGATION, nan);
    if (c && c->lower != 0)
        DNN_PUT(how, POINTWISE_RELU_LOWER_CLIP, DOUBLE, c->lower);
    if (c && c->upper != 0)
        DNN_PUT(how, POINTWISE_RELU_UPPER_CLIP, DOUBLE, c->upper);
    if (c && c->slope != 0)
        DNN_PUT(how, POINTWISE_RELU_LOWER_CLIP_SLOPE, DOUBLE, c->slope);
    dnn_finish(how);
    DNN_PUT(d, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, how);
    DNN_PUT(d, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, x);
    if (b)
        DNN_PUT(d, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, b);
    DNN_PUT(d, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, y);
    return dnn_finish(d);
}

/* Not finished yet. */
static inline descriptor make_graph(const descriptor *ops, int count)
{
    descriptor d = dnn_make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    dnn_put(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, ops);
    DNN_PUT(d, OPERATIONGRAPH_HANDLE, HANDLE, dnn.handle);
    return d;
}

/* --- engines --------------------------------------------------------------------------------------------------- */

enum { MOST_LISTED = 24 };

/* The configurations that a mode lists for a graph. */
static inline int list_configs(descriptor graph, cudnnBackendHeurMode_t mode, descriptor to[MOST_LISTED])
{
    int64_t count = 0, again = 0;
    descriptor h = dnn_make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    DNN_PUT(h, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, graph);
    DNN_PUT(h, ENGINEHEUR_MODE, HEUR_MODE, mode);
    dnn_finish(h);
    CHECK_INT(
        dnn.BackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, NULL), 0);
    for (int64_t i = 0; i < count; i++)
        to[i] = dnn_make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CHECK_INT(
        dnn.BackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &again, to),
        0);
    CHECK_INT(again, count);
    return (int)count;
}

static inline int64_t index_of(descriptor config)
{
    int64_t count = 0, index = -1;
    descriptor engine = dnn_make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    CHECK_INT(dnn.BackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                      &engine),
              0);
    CHECK_INT(dnn.BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &index),
              0);
    return index;
}

/* Not finished yet. */
static inline descriptor make_plan(descriptor config)
{
    descriptor d = dnn_make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    DNN_PUT(d, EXECUTION_PLAN_HANDLE, HANDLE, dnn.handle);
    DNN_PUT(d, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, config);
    return d;
}

static inline int64_t workspace_of(descriptor plan)
{
    int64_t count = 0, bytes = -1;
    CHECK_INT(
        dnn.BackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
        0);
    return bytes;
}

static inline descriptor make_pack(int64_t count, const int64_t *uids, void *const *data, void *workspace)
{
    descriptor d = dnn_make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    dnn_put(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids);
    dnn_put(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data);
    DNN_PUT(d, VARIANT_PACK_WORKSPACE, VOID_PTR, workspace);
    return dnn_finish(d);
}

/* What the engines of cudnn_engines.c are. */
enum { PLAIN, CORES, SPLIT, VARIES, COMPILED, ROUNDED, CARELESS, TILES, UNRECORDABLE, UNPLANNED };

#endif
