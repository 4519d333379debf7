/* cudnn.c - opens cuDNN, and makes its descriptors: see cudnn.h. */
#define _GNU_SOURCE
#include "device/cuda/cudnn.h"
#include "device/cuda/libraries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* --- the library ----------------------------------------------------------------------------------------------- */

enum { OLDEST = 90000 };

static bool take(void *file, const char *name, void *to)
{
    void *function = dlsym(file, name);
    memcpy(to, &function, sizeof function);
    return function != NULL;
}

static bool take_functions(cudnn *c, void *file)
{
    bool all = true;
#define FUNCTION(name) all = take(file, "cudnn" #name, &c->name) && all;
    CUDNN_FUNCTIONS(FUNCTION)
#undef FUNCTION
    return all;
}

static const char *start_cudnn(void *user, void *file)
{
    cuda_queue *q = user;
    cudnn *c = q->cudnn;
    if (!take_functions(c, file))
        return "cuDNN is too old";
    c->version = c->GetVersion();
    if (c->version < OLDEST)
        return "cuDNN is older than 9";
    cudnnStatus_t status = c->Create(&c->handle);
    const bool made = status == CUDNN_STATUS_SUCCESS;
    if (made)
        status = c->SetStream(c->handle, q->stream);
    if (made && status != CUDNN_STATUS_SUCCESS)
        c->Destroy(c->handle);
    return status == CUDNN_STATUS_SUCCESS ? NULL : c->GetErrorString(status);
}

static void name_machine(cudnn *c, const char *device_name)
{
    const char *gpu = strchr(device_name, ' '); /* behind "cuda:0" */
    const int v = (int)c->version;
    snprintf(c->machine, sizeof c->machine, "%.80s, cuDNN %d.%d.%d", gpu ? gpu + 1 : device_name, v / 10000,
             v / 100 % 100, v % 100);
}

void cudnn_open(cuda_queue *q, device *d)
{
    char cost[100];
    const char *why = NULL;
    q->cudnn = mem_get(q->ctx, sizeof *q->cudnn);
    if (q->cudnn && library_find("libcudnn.so.9", start_cudnn, q, &why)) {
        q->cudnn->ctx = q->ctx;
        name_machine(q->cudnn, d->name);
        add_words(d->about, sizeof d->about, ", ", strstr(q->cudnn->machine, "cuDNN"));
        return;
    }
    mem_put(q->ctx, q->cudnn);
    q->cudnn = NULL;
    snprintf(cost, sizeof cost, "convolutions are many times slower (pip install nvidia-cudnn-cu%d)",
             CUDART_VERSION / 1000);
    library_missing(d, why, "no cuDNN 9", cost);
}

/* The library stays loaded: it has threads and handlers of its own. */
void cudnn_close(cuda_queue *q)
{
    cudnn *c = q->cudnn;
    if (!c)
        return;
    c->Destroy(c->handle);
    mem_put(q->ctx, c);
    q->cudnn = NULL;
}

static bool is_want_of_memory(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

cudnnStatus_t cudnn_heard(cudnn *c, cudnnStatus_t status)
{
    c->starved = c->starved || is_want_of_memory(status);
    return status;
}

brasa_status cudnn_fail(cudnn *c, cudnnStatus_t status, const char *what)
{
    char words[400] = "";
    if (status == CUDNN_STATUS_SUCCESS)
        return BRASA_OK;
    c->GetLastErrorString(words, sizeof words);
    words[sizeof words - 1] = '\0';
    return fail(c->ctx, is_want_of_memory(status) ? BRASA_OUT_OF_MEMORY : BRASA_INTERNAL, "%s: cuDNN says %s%s%s",
                what, c->GetErrorString(status), *words ? ": " : "", words);
}

/* --- descriptors ----------------------------------------------------------------------------------------------- */

descriptor cudnn_make(cudnn_set *s, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;
    if (s->status == CUDNN_STATUS_SUCCESS && s->count == CUDNN_MOST_DESCRIPTORS)
        s->status = CUDNN_STATUS_INTERNAL_ERROR;
    if (s->status == CUDNN_STATUS_SUCCESS)
        s->status = cudnn_heard(s->lib, s->lib->BackendCreateDescriptor(type, &d));
    if (s->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    return s->made[s->count++] = d;
}

void cudnn_put(cudnn_set *s, descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
               int64_t count, const void *from)
{
    if (s->status == CUDNN_STATUS_SUCCESS)
        s->status = cudnn_heard(s->lib, s->lib->BackendSetAttribute(d, name, type, count, from));
}

void cudnn_put_one(cudnn_set *s, descriptor d, cudnnBackendAttributeName_t name, descriptor from)
{
    cudnn_put(s, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &from);
}

int64_t cudnn_get(const cudnn_set *s, descriptor d, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t count, void *to)
{
    int64_t got = 0;
    if (s->status != CUDNN_STATUS_SUCCESS ||
        cudnn_heard(s->lib, s->lib->BackendGetAttribute(d, name, type, count, &got, to)) != CUDNN_STATUS_SUCCESS)
        return -1;
    return got;
}

void cudnn_finish(cudnn_set *s, descriptor d)
{
    if (s->status == CUDNN_STATUS_SUCCESS)
        s->status = cudnn_heard(s->lib, s->lib->BackendFinalize(d));
}

void cudnn_free(cudnn_set *s)
{
    while (s->count)
        s->lib->BackendDestroyDescriptor(s->made[--s->count]);
}

descriptor cudnn_tensor(cudnn_set *s, int64_t uid, cudnnDataType_t type, const shape *like, bool inside)
{
    const int64_t *n = like->dim, alignment = 16;
    const int64_t strides[4] = {n[1] * n[2] * n[3], 1, n[3] * n[1], n[1]};
    descriptor d = cudnn_make(s, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnn_put(s, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    cudnn_put(s, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, n);
    cudnn_put(s, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    cudnn_put(s, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    cudnn_put(s, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (inside)
        cudnn_put(s, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside);
    cudnn_finish(s, d);
    return d;
}

static descriptor pointwise_start(cudnn_set *s, cudnnPointwiseMode_t mode)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    descriptor d = cudnn_make(s, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnn_put(s, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    cudnn_put(s, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    return d;
}

/* The operation of a finished pointwise descriptor; b may be NULL. */
static descriptor pointwise_end(cudnn_set *s, descriptor how, descriptor x, descriptor b, descriptor y)
{
    const float one = 1;
    descriptor d = cudnn_make(s, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    cudnn_put_one(s, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    cudnn_put_one(s, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        cudnn_put_one(s, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    cudnn_put_one(s, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    cudnn_put(s, d, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one);
    cudnn_put(s, d, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one);
    cudnn_finish(s, d);
    return d;
}

descriptor cudnn_add(cudnn_set *s, descriptor x, descriptor b, descriptor y)
{
    descriptor how = pointwise_start(s, CUDNN_POINTWISE_ADD);
    cudnn_finish(s, how);
    return pointwise_end(s, how, x, b, y);
}

descriptor cudnn_relu(cudnn_set *s, descriptor x, descriptor y)
{
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    const double zero = 0;
    descriptor how = pointwise_start(s, CUDNN_POINTWISE_RELU_FWD);
    cudnn_put(s, how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    cudnn_put(s, how, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 1, &zero);
    cudnn_put(s, how, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1, &zero);
    cudnn_finish(s, how);
    return pointwise_end(s, how, x, NULL, y);
}

descriptor cudnn_operations(cudnn_set *s, const descriptor *ops, int count)
{
    descriptor d = cudnn_make(s, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnn_put(s, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, ops);
    cudnn_put(s, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->lib->handle);
    cudnn_finish(s, d);
    return d;
}
