/* cudnn.c - stands in for cuDNN on the software GPU, and computes: handles, errors, and descriptors with their
 * attributes.
 *
 * It takes the graphs that src/device/cuda/cudnn.c makes, and refuses what the library refuses: attributes of
 * another type or number, what is missing, what is changed once it is finalized. What attributes mean is read in
 * cudnn_finish.c, engines are in cudnn_engines.c, and cudnn_run.c computes. */
#include "soft_cudnn.h"

#include <stdarg.h>
#include <stdio.h>

enum { HANDLE_MARK = 0x5f0d0001, DESCRIPTOR_MARK = 0x5f0d0002 };

typedef struct descriptor {
    uint32_t mark;
    body *body;
} descriptor;

static _Thread_local char last_error[400];

cudnnStatus_t soft_refuse(cudnnStatus_t status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}

/* --- handles --------------------------------------------------------------------------------------------------- */

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    static const struct {
        cudnnStatus_t status;
        const char *name;
    } names[] = {
        {CUDNN_STATUS_SUCCESS, "CUDNN_STATUS_SUCCESS"},
        {CUDNN_STATUS_NOT_INITIALIZED, "CUDNN_STATUS_NOT_INITIALIZED"},
        {CUDNN_STATUS_BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
        {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER"},
        {CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER"},
        {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"},
        {CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH"},
        {CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES"},
        {CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE"},
        {CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE"},
        {CUDNN_STATUS_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"},
        {CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN"},
        {CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
        {CUDNN_STATUS_EXECUTION_FAILED, "CUDNN_STATUS_EXECUTION_FAILED"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].status == status)
            return names[i].name;
    return "CUDNN_STATUS_UNKNOWN";
}

/* It can be asked for once. */
void cudnnGetLastErrorString(char *to, size_t size)
{
    if (to && size)
        snprintf(to, size, "%s", last_error);
    last_error[0] = '\0';
}

handle *soft_handle(const void *thing)
{
    const uint32_t mark = HANDLE_MARK;
    return thing && memcmp(thing, &mark, sizeof mark) == 0 ? (handle *)(uintptr_t)thing : NULL;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    handle *h = out ? calloc(1, sizeof *h) : NULL;
    if (!out)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for a handle");
    if (!h)
        return soft_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
    h->mark = HANDLE_MARK;
    *out = (cudnnHandle_t)h;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t thing)
{
    handle *h = soft_handle(thing);
    if (!h)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "this is no handle");
    soft_forget(&h->tasks);
    h->mark = 0;
    free(h);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t thing, cudaStream_t stream)
{
    handle *h = soft_handle(thing);
    if (!h)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "this is no handle");
    h->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* --- attributes ------------------------------------------------------------------------------------------------ */

enum { OPTIONAL, REQUIRED, ANSWERED }; /* the last one is only asked for */

static const struct rule {
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t most;
    int role;
    cudnnBackendDescriptorType_t part; /* of attributes that are descriptors; -1: it depends */
} rules[] = {
#define ROW(of, name, type) CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type
    {ROW(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE), 1, REQUIRED, 0},
    {ROW(TENSOR, TENSOR_DIMENSIONS, INT64), MOST_DIMS, REQUIRED, 0},
    {ROW(TENSOR, TENSOR_STRIDES, INT64), MOST_DIMS, REQUIRED, 0},
    {ROW(TENSOR, TENSOR_UNIQUE_ID, INT64), 1, REQUIRED, 0},
    {ROW(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64), 1, REQUIRED, 0},
    {ROW(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN), 1, OPTIONAL, 0},
    {ROW(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE), 1, REQUIRED, 0},
    {ROW(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE), 1, REQUIRED, 0},
    {ROW(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64), 1, REQUIRED, 0},
    {ROW(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64), MOST_DIMS - 2, REQUIRED, 0},
    {ROW(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64), MOST_DIMS - 2, REQUIRED, 0},
    {ROW(CONVOLUTION, CONVOLUTION_DILATIONS, INT64), MOST_DIMS - 2, REQUIRED, 0},
    {ROW(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64), MOST_DIMS - 2, REQUIRED, 0},
    {ROW(POINTWISE, POINTWISE_MODE, POINTWISE_MODE), 1, REQUIRED, 0},
    {ROW(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE), 1, REQUIRED, 0},
    {ROW(POINTWISE, POINTWISE_NAN_PROPAGATION, NAN_PROPOGATION), 1, OPTIONAL, 0},
    {ROW(POINTWISE, POINTWISE_RELU_LOWER_CLIP, DOUBLE), 1, OPTIONAL, 0},
    {ROW(POINTWISE, POINTWISE_RELU_UPPER_CLIP, DOUBLE), 1, OPTIONAL, 0},
    {ROW(POINTWISE, POINTWISE_RELU_LOWER_CLIP_SLOPE, DOUBLE), 1, OPTIONAL, 0},
#define CONVOLVES(of, names, x, w, y)                                                                                \
    {ROW(of, names##_CONV_DESC, BACKEND_DESCRIPTOR), 1, REQUIRED, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},             \
        {ROW(of, names##_##x, BACKEND_DESCRIPTOR), 1, REQUIRED, CUDNN_BACKEND_TENSOR_DESCRIPTOR},                    \
        {ROW(of, names##_##w, BACKEND_DESCRIPTOR), 1, REQUIRED, CUDNN_BACKEND_TENSOR_DESCRIPTOR},                    \
        {ROW(of, names##_##y, BACKEND_DESCRIPTOR), 1, REQUIRED, CUDNN_BACKEND_TENSOR_DESCRIPTOR},                    \
        {ROW(of, names##_ALPHA, FLOAT), 1, REQUIRED, 0}, {ROW(of, names##_ALPHA, DOUBLE), 1, REQUIRED, 0},           \
        {ROW(of, names##_BETA, FLOAT), 1, REQUIRED, 0},                                                              \
    {                                                                                                                \
        ROW(of, names##_BETA, DOUBLE), 1, REQUIRED, 0                                                                \
    }
    CONVOLVES(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD, X, W, Y),
    CONVOLVES(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA, DX, W, DY),
    CONVOLVES(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER, X, DW, DY),
    {ROW(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR), 1, REQUIRED,
     CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
    {ROW(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR), 1, REQUIRED,
     CUDNN_BACKEND_TENSOR_DESCRIPTOR},
    {ROW(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR), 1, OPTIONAL,
     CUDNN_BACKEND_TENSOR_DESCRIPTOR},
    {ROW(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR), 1, REQUIRED,
     CUDNN_BACKEND_TENSOR_DESCRIPTOR},
    {ROW(OPERATION_POINTWISE, OPERATION_POINTWISE_ALPHA1, FLOAT), 1, OPTIONAL, 0},
    {ROW(OPERATION_POINTWISE, OPERATION_POINTWISE_ALPHA2, FLOAT), 1, OPTIONAL, 0},
    {ROW(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR), MOST_OPERATIONS, REQUIRED,
     (cudnnBackendDescriptorType_t)-1},
    {ROW(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE), 1, REQUIRED, 0},
    {ROW(ENGINE, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR), 1, REQUIRED, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {ROW(ENGINE, ENGINE_GLOBAL_INDEX, INT64), 1, REQUIRED, 0},
    {ROW(ENGINE, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE), 0, ANSWERED, 0},
    {ROW(ENGINE, ENGINE_BEHAVIOR_NOTE, BEHAVIOR_NOTE), 0, ANSWERED, 0},
    {ROW(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR), 1, REQUIRED,
     CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {ROW(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE), 1, REQUIRED, 0},
    {ROW(ENGINEHEUR, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR), 0, ANSWERED, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    {ROW(ENGINECFG, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR), 1, REQUIRED, CUDNN_BACKEND_ENGINE_DESCRIPTOR},
    {ROW(ENGINECFG, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR), MOST_KNOBS, OPTIONAL,
     CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR},
    {ROW(KNOB_CHOICE, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE), 1, REQUIRED, 0},
    {ROW(KNOB_CHOICE, KNOB_CHOICE_KNOB_VALUE, INT64), 1, REQUIRED, 0},
    {ROW(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE), 1, OPTIONAL, 0},
    {ROW(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR), 1, REQUIRED,
     CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    {ROW(EXECUTION_PLAN, EXECUTION_PLAN_WORKSPACE_SIZE, INT64), 1, ANSWERED, 0},
    {ROW(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR), 64, REQUIRED, 0},
    {ROW(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64), 64, REQUIRED, 0},
    {ROW(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR), 1, OPTIONAL, 0},
};
enum { RULES = sizeof rules / sizeof rules[0] };

static size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
        return 8;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return sizeof(void *);
    default: /* floats, and the library's own words */
        return 4;
    }
}

static bool is_known(cudnnBackendDescriptorType_t type)
{
    for (int i = 0; i < RULES; i++)
        if (rules[i].of == type)
            return true;
    return false;
}

/* *rule becomes that of an attribute. */
static cudnnStatus_t find_rule(cudnnBackendDescriptorType_t of, cudnnBackendAttributeName_t name,
                               cudnnBackendAttributeType_t type, const struct rule **rule)
{
    bool known = false;
    for (int i = 0; i < RULES; i++)
        if (rules[i].of == of && rules[i].name == name) {
            *rule = &rules[i];
            if (rules[i].type == type)
                return CUDNN_STATUS_SUCCESS;
            known = true;
        }
    return known ? soft_refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute %d is of another type", (int)name)
                 : soft_refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor of type %d has no attribute %d", (int)of,
                               (int)name);
}

/* --- bodies ---------------------------------------------------------------------------------------------------- */

body *soft_new(cudnnBackendDescriptorType_t type)
{
    body *b = calloc(1, sizeof *b);
    if (b) {
        b->references = 1;
        b->type = type;
    }
    return b;
}

static void drop(attribute *a)
{
    for (int64_t i = 0; i < a->count && a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR; i++)
        soft_release(((body **)a->values)[i]);
    free(a->values);
    *a = (attribute){0};
}

void soft_release(body *b)
{
    if (!b || --b->references)
        return;
    for (int i = 0; i < b->attributes; i++)
        drop(&b->attribute[i]);
    free(b);
}

const attribute *soft_attribute(const body *b, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < b->attributes; i++)
        if (b->attribute[i].name == name)
            return &b->attribute[i];
    return NULL;
}

int64_t soft_int(const body *b, cudnnBackendAttributeName_t name)
{
    const attribute *a = soft_attribute(b, name);
    if (!a)
        return 0;
    const size_t size = size_of(a->type);
    return size == 1 ? *(const bool *)a->values : size == 4 ? *(const int32_t *)a->values : *(int64_t *)a->values;
}

double soft_real(const body *b, cudnnBackendAttributeName_t name, double otherwise)
{
    const attribute *a = soft_attribute(b, name);
    if (!a)
        return otherwise;
    return a->type == CUDNN_TYPE_DOUBLE ? *(const double *)a->values : *(const float *)a->values;
}

const body *soft_body(const body *b, cudnnBackendAttributeName_t name)
{
    const attribute *a = soft_attribute(b, name);
    return a ? *(body *const *)a->values : NULL;
}

bool soft_put(body *b, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              const void *values)
{
    attribute *a = (attribute *)(uintptr_t)soft_attribute(b, name);
    void *copy = malloc((size_t)count * size_of(type));
    if (!copy || (!a && b->attributes == MOST_ATTRIBUTES)) {
        free(copy);
        return false;
    }
    memcpy(copy, values, (size_t)count * size_of(type));
    for (int64_t i = 0; i < count && type == CUDNN_TYPE_BACKEND_DESCRIPTOR; i++)
        ((body **)copy)[i]->references++;
    if (a)
        drop(a);
    else
        a = &b->attribute[b->attributes++];
    *a = (attribute){name, type, count, copy};
    return true;
}

/* --- descriptors ----------------------------------------------------------------------------------------------- */

static descriptor *look(cudnnBackendDescriptor_t thing)
{
    const uint32_t mark = DESCRIPTOR_MARK;
    return thing && memcmp(thing, &mark, sizeof mark) == 0 ? thing : NULL;
}

const body *soft_finished(cudnnBackendDescriptor_t thing, cudnnBackendDescriptorType_t type)
{
    const descriptor *d = look(thing);
    return d && d->body->finished && d->body->type == type ? d->body : NULL;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    if (!out)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for a descriptor");
    if (!is_known(type))
        return soft_refuse(CUDNN_STATUS_NOT_SUPPORTED, "descriptors of type %d are not known", (int)type);
    descriptor *d = calloc(1, sizeof *d);
    if (!d || !(d->body = soft_new(type))) {
        free(d);
        return soft_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
    }
    d->mark = DESCRIPTOR_MARK;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t thing)
{
    descriptor *d = look(thing);
    if (!d)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "this is no descriptor");
    soft_release(d->body);
    d->mark = 0;
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

/* The bodies of some descriptors, which must be finished. */
static cudnnStatus_t take_bodies(const struct rule *rule, int64_t count, const cudnnBackendDescriptor_t *from,
                                 const body **to)
{
    for (int64_t i = 0; i < count; i++) {
        const descriptor *d = look(from[i]);
        if (!d)
            return soft_refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d: this is no descriptor", (int)rule->name);
        if (rule->part != (cudnnBackendDescriptorType_t)-1 && d->body->type != rule->part)
            return soft_refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                               "attribute %d is a descriptor of type %d, not of %d", (int)rule->name, (int)rule->part,
                               (int)d->body->type);
        if (!d->body->finished)
            return soft_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "attribute %d: the descriptor is not finalized",
                               (int)rule->name);
        to[i] = d->body;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t thing, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *from)
{
    const descriptor *d = look(thing);
    const struct rule *rule = NULL;
    if (!d)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "this is no descriptor");
    if (d->body->finished)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d is set when all is finalized", (int)name);
    cudnnStatus_t status = find_rule(d->body->type, name, type, &rule);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (rule->role == ANSWERED)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d cannot be set", (int)name);
    if (!from)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "attribute %d is nowhere", (int)name);
    if (count < 1 || count > rule->most)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d has 1 to %d elements, not %lld", (int)name,
                           (int)rule->most, (long long)count);
    const body *bodies[64];
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        status = take_bodies(rule, count, from, bodies);
        from = bodies;
    } else if (type == CUDNN_TYPE_HANDLE && !soft_handle(*(void *const *)from)) {
        status = soft_refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d is no handle", (int)name);
    }
    if (status == CUDNN_STATUS_SUCCESS && !soft_put(d->body, name, type, count, from))
        status = soft_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
    return status;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t thing)
{
    const descriptor *d = look(thing);
    if (!d)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "this is no descriptor");
    body *b = d->body;
    if (b->finished)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "this is finalized already");
    for (int i = 0; i < RULES; i++)
        if (rules[i].of == b->type && rules[i].role == REQUIRED && !soft_attribute(b, rules[i].name))
            return soft_refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d is missing", (int)rules[i].name);
    const cudnnStatus_t status = soft_finish(b);
    b->finished = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* Makes descriptors of the caller what is asked for. */
static cudnnStatus_t give_body(body *b, cudnnBackendDescriptor_t to)
{
    descriptor *d = look(to);
    if (!b)
        return soft_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
    if (!d || d->body->finished || d->body->type != b->type) {
        soft_release(b);
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor of type %d that is not finalized is wanted",
                           (int)b->type);
    }
    soft_release(d->body);
    d->body = b;
    return CUDNN_STATUS_SUCCESS;
}

/* Descriptor number i of an attribute; *all becomes how many there are. */
static body *part(const body *b, cudnnBackendAttributeName_t name, int64_t i, int64_t *all)
{
    const attribute *a = soft_attribute(b, name);
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
        return soft_result(b, i, all);
    *all = a ? a->count : 0;
    if (i >= *all)
        return NULL;
    body *found = ((body **)a->values)[i];
    found->references++;
    return found;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const thing, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *to)
{
    const descriptor *d = look(thing);
    const struct rule *rule = NULL;
    int64_t answer[MOST_ANSWERS], all = 0;
    if (!d)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "this is no descriptor");
    cudnnStatus_t status = find_rule(d->body->type, name, type, &rule);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (!d->body->finished)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "attribute %d: this is not finalized", (int)name);
    if (room < 0 || (room && !to))
        return soft_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "attribute %d: there is no room", (int)name);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        body *found = part(d->body, name, 0, &all);
        for (int64_t i = 0; i < room && i < all && status == CUDNN_STATUS_SUCCESS; i++) {
            status = give_body(i ? part(d->body, name, i, &all) : found, ((cudnnBackendDescriptor_t *)to)[i]);
            found = i ? found : NULL;
        }
        soft_release(found);
    } else {
        const attribute *a = soft_attribute(d->body, name);
        all = a ? a->count : soft_answer(d->body, name, answer);
        const int64_t some = all < room ? all : room;
        if (some)
            memcpy(to, a ? a->values : answer, (size_t)some * size_of(type));
    }
    if (count)
        *count = all;
    return status;
}
