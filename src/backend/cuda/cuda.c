/* cuda.c - a GPU: its memory, its queue, and steps recorded into a graph. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/kept.h"
#include "backend/cuda/libraries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- errors and layouts -------------------------------------------------------------------------------------- */

brasa_status cuda_fail(brasa_context *ctx, cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return BRASA_OK;
    return fail(ctx, error == cudaErrorMemoryAllocation ? BRASA_OUT_OF_MEMORY : BRASA_INTERNAL,
                "%s: CUDA says %s (%s)", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

brasa_status cuda_started(const step *s)
{
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? BRASA_OK : cuda_fail(queue_of(s)->ctx, error, s->node->name);
}

brasa_status cuda_counters_open(graph *g, node *n, size_t count)
{
    device *d = g->ctx->device;
    n->state = d->get(d, count * sizeof(unsigned));
    return n->state ? d->clear(d, n->state, count * sizeof(unsigned)) : fail_memory(g->ctx, count * sizeof(unsigned));
}

void cuda_counters_close(brasa_context *ctx, void *state)
{
    ctx->device->put(ctx->device, state);
}

/* With --deterministic, and where nothing is to be timed, the library's own choice stands. */
choosing cuda_choosing(const graph *g)
{
    const char *word = getenv("BRASA_TUNE");
    return g->deterministic || (word && strcmp(word, "off") == 0) ? CHOOSE_FIRST : g->choosing;
}

layout cuda_layout_f32(const graph *g, int v)
{
    const bool pictures = g->values[v].shape.rank == 4 && g->values[v].type == F32;
    return pictures ? (layout){.permuted = 1, .order = {0, 2, 3, 1}} : (layout){0};
}

layout cuda_layout(const graph *g, int v)
{
    const value *x = &g->values[v];
    layout l = cuda_layout_f32(g, v);
    l.bf16 = g->precision == BRASA_BF16 && x->type == F32 && x->shape.rank >= 2 &&
             (x->kind == VALUE_TEMP || x->kind == VALUE_INPUT);
    return l;
}

void cuda_layouts(const graph *g, const node *n, layout *in, layout *out)
{
    for (int k = 0; k < n->nin; k++)
        in[k] = cuda_layout(g, n->in[k]);
    for (int k = 0; k < n->nout; k++)
        out[k] = cuda_layout(g, n->out[k]);
}

void cuda_layouts_elementwise(const graph *g, const node *n, layout *in, layout *out)
{
    const shape *s = &g->values[n->out[0]].shape;
    const layout common = settled_layout(g, n);
    for (int k = 0; k < n->nin + n->nout; k++) {
        const int v = k < n->nin ? n->in[k] : n->out[k - n->nin];
        layout *to = k < n->nin ? &in[k] : &out[k - n->nin];
        if (!shape_equal(&g->values[v].shape, s))
            continue;
        *to = common;
        to->bf16 = cuda_layout(g, v).bf16;
    }
}

/* --- memory -------------------------------------------------------------------------------------------------- */

/* Copies from the host go through pieces of memory that the GPU can read by itself, in turn: as many as the steps
 * that are started ahead need, each of which is fed several tensors, so that none of them waits for a step to be
 * over. */
enum { PIECES = 8, PIECE_BYTES = 2 << 20 };

typedef struct cuda_device {
    device device;
    cuda_queue queue;
    kept kept;
    char *pinned[PIECES];
    cudaEvent_t sent[PIECES]; /* the piece may be written again */
    int next;
    cudaEvent_t begin, end;
    cudaStream_t copies; /* QUEUE_COPIES */
} cuda_device;

static void *cuda_get(device *d, size_t bytes)
{
    void *block = NULL;
    (void)d;
    if (cudaMalloc(&block, bytes ? bytes : 1) != cudaSuccess) {
        (void)cudaGetLastError(); /* which is kept otherwise */
        return NULL;
    }
    return block;
}

static void cuda_put(device *d, void *block)
{
    (void)d;
    cudaFree(block);
}

static uint64_t cuda_free_memory(device *d)
{
    size_t left = 0, total = 0;
    (void)d;
    return cudaMemGetInfo(&left, &total) == cudaSuccess ? left : 0;
}

static brasa_status cuda_copy_in(device *d, void *to, const void *from, size_t bytes)
{
    cuda_device *c = d->data;
    cudaError_t error = cudaSuccess;
    for (size_t at = 0; at < bytes && error == cudaSuccess; at += PIECE_BYTES) {
        const size_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        const int i = c->next;
        c->next = (c->next + 1) % PIECES;
        error = cudaEventSynchronize(c->sent[i]);
        memcpy(c->pinned[i], (const char *)from + at, part);
        if (error == cudaSuccess)
            error = cudaMemcpyAsync((char *)to + at, c->pinned[i], part, cudaMemcpyHostToDevice, c->queue.stream);
        if (error == cudaSuccess)
            error = cudaEventRecord(c->sent[i], c->queue.stream);
    }
    return cuda_fail(c->queue.ctx, error, "a copy to the GPU");
}

static brasa_status cuda_wait(device *d)
{
    cuda_device *c = d->data;
    return cuda_fail(c->queue.ctx, cudaStreamSynchronize(c->queue.stream), "the GPU's work");
}

static brasa_status cuda_copy_out(device *d, void *to, const void *from, size_t bytes)
{
    cuda_device *c = d->data;
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, c->queue.stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(c->queue.stream);
    return cuda_fail(c->queue.ctx, error, "a copy from the GPU");
}

static brasa_status cuda_copy(device *d, void *to, const void *from, size_t bytes)
{
    cuda_device *c = d->data;
    return cuda_fail(c->queue.ctx, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, c->queue.stream),
                     "a copy on the GPU");
}

static brasa_status cuda_clear(device *d, void *to, size_t bytes)
{
    cuda_device *c = d->data;
    return cuda_fail(c->queue.ctx, cudaMemsetAsync(to, 0, bytes, c->queue.stream), "clearing the GPU's memory");
}

/* --- without waiting ----------------------------------------------------------------------------------------- */

/* A mark is an event: the pointer itself. */

static cudaStream_t stream_at(const device *d, device_queue q)
{
    const cuda_device *c = d->data;
    return q == QUEUE_COPIES ? c->copies : c->queue.stream;
}

static void *cuda_get_host(device *d, size_t bytes)
{
    void *block = NULL;
    (void)d;
    if (cudaHostAlloc(&block, bytes ? bytes : 1, cudaHostAllocDefault) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    return block;
}

static void cuda_put_host(device *d, void *block)
{
    (void)d;
    cudaFreeHost(block);
}

static brasa_status cuda_copy_later(device *d, device_queue q, void *to, const void *from, size_t bytes)
{
    cuda_device *c = d->data;
    return cuda_fail(c->queue.ctx, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_at(d, q)),
                     "a copy to or from the GPU");
}

/* Who waits for one leaves the processor to the loader. */
static mark *cuda_mark_new(device *d)
{
    cudaEvent_t event = NULL;
    (void)d;
    if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    return (mark *)event;
}

static void cuda_mark_free(device *d, mark *m)
{
    (void)d;
    cudaEventDestroy((cudaEvent_t)m);
}

static brasa_status cuda_mark_set(device *d, device_queue q, mark *m)
{
    cuda_device *c = d->data;
    return cuda_fail(c->queue.ctx, cudaEventRecord((cudaEvent_t)m, stream_at(d, q)), "marking the GPU's work");
}

static brasa_status cuda_mark_follow(device *d, device_queue q, mark *m)
{
    cuda_device *c = d->data;
    return cuda_fail(c->queue.ctx, cudaStreamWaitEvent(stream_at(d, q), (cudaEvent_t)m, 0),
                     "ordering the GPU's work");
}

static brasa_status cuda_mark_wait(device *d, mark *m)
{
    cuda_device *c = d->data;
    return cuda_fail(c->queue.ctx, cudaEventSynchronize((cudaEvent_t)m), "the GPU's work");
}

/* --- steps --------------------------------------------------------------------------------------------------- */

typedef struct recorded {
    cudaGraphExec_t graph; /* NULL after the first run, which loads code and shows errors at their place */
} recorded;

/* Steps that are started at once. */
enum { MOST_TOGETHER = 512 };

/* Whether two tensors share memory. The samples of a part are as far apart as those of the whole. */
static bool overlap(const arg *a, const arg *b)
{
    const int64_t samples_a = a->shape.rank ? a->shape.dim[0] : 1, samples_b = b->shape.rank ? b->shape.dim[0] : 1;
    const char *x = a->data, *y = b->data;
    return x < y + b->sample * samples_b * (int64_t)dtype_size(b->type) &&
           y < x + a->sample * samples_a * (int64_t)dtype_size(a->type);
}

/* Whether `a` writes something that `b` reads or writes. */
static bool disturbs(const step *a, const step *b)
{
    for (int k = 0; k < a->nout; k++) {
        for (int j = 0; j < b->nin; j++)
            if (overlap(&a->out[k], &b->in[j]))
                return true;
        for (int j = 0; j < b->nout; j++)
            if (overlap(&a->out[k], &b->out[j]))
                return true;
    }
    return false;
}

/* How many steps from the first one on may run together: of its kernel, none in the way of another. That they stand
 * side by side is not enough, for what one has read to its end may be the place that the next one writes to. */
static int together(const step *steps, int count, const step **group)
{
    int n = 1;
    group[0] = &steps[0];
    for (; steps[0].kernel->run_many && n < count && n < MOST_TOGETHER; n++) {
        const step *s = group[n] = &steps[n];
        bool joins = s->kernel == steps[0].kernel;
        for (int i = 0; i < n && joins; i++)
            joins = !disturbs(group[i], s) && !disturbs(s, group[i]);
        if (!joins)
            break;
    }
    return n;
}

static brasa_status run_group(const step *const *group, int count)
{
    return count > 1 ? group[0]->kernel->run_many(group, count) : group[0]->kernel->run(group[0]);
}

static brasa_status run_each(const step *steps, int count)
{
    const step *group[MOST_TOGETHER];
    brasa_status status = BRASA_OK;
    for (int i = 0, n; i < count && status == BRASA_OK; i += n) {
        n = together(steps + i, count - i, group);
        status = run_group(group, n);
    }
    return status;
}

static brasa_status record_graph(cuda_device *c, step *steps, int count, recorded *r)
{
    cudaGraph_t made = NULL;
    cudaError_t error = cudaStreamBeginCapture(c->queue.stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess)
        return cuda_fail(c->queue.ctx, error, "recording a step");
    brasa_status status = run_each(steps, count);
    error = cudaStreamEndCapture(c->queue.stream, &made);
    if (status == BRASA_OK)
        status = cuda_fail(c->queue.ctx, error, "recording a step");
    if (status == BRASA_OK)
        status = cuda_fail(c->queue.ctx, cudaGraphInstantiate(&r->graph, made, 0), "making a graph of a step");
    if (made)
        cudaGraphDestroy(made);
    return status;
}

static brasa_status cuda_run(device *d, step *steps, int count, void **record)
{
    cuda_device *c = d->data;
    recorded *r = *record;
    if (!r) {
        *record = mem_get(c->queue.ctx, sizeof *r);
        return *record ? run_each(steps, count) : fail_memory(c->queue.ctx, sizeof *r);
    }
    brasa_status status = r->graph ? BRASA_OK : record_graph(c, steps, count, r);
    if (status != BRASA_OK)
        return status;
    return cuda_fail(c->queue.ctx, cudaGraphLaunch(r->graph, c->queue.stream), "starting a step");
}

static void cuda_forget(device *d, void *record)
{
    cuda_device *c = d->data;
    recorded *r = record;
    cudaStreamSynchronize(c->queue.stream);
    if (r->graph)
        cudaGraphExecDestroy(r->graph);
    mem_put(c->queue.ctx, r);
}

/* Time passes between two events; the GPU waits before the first one until what follows is queued. */
static cudaError_t begin_clock(cuda_device *c)
{
    cuda_delay(c->queue.stream);
    return cudaEventRecord(c->begin, c->queue.stream);
}

static cudaError_t end_clock(cuda_device *c, double *nanoseconds)
{
    float milliseconds = 0;
    cudaError_t error = cudaEventRecord(c->end, c->queue.stream);
    if (error == cudaSuccess)
        error = cudaEventSynchronize(c->end);
    if (error == cudaSuccess)
        error = cudaEventElapsedTime(&milliseconds, c->begin, c->end);
    *nanoseconds = milliseconds * 1e6;
    return error;
}

static brasa_status cuda_time(device *d, const step *steps, int count, int *ran, int64_t *nanoseconds)
{
    cuda_device *c = d->data;
    const step *group[MOST_TOGETHER];
    double took = 0;
    *ran = together(steps, count, group); /* before the clock: it may take longer than the GPU waits */
    cudaError_t error = begin_clock(c);
    brasa_status status = run_group(group, *ran);
    if (status != BRASA_OK)
        return status;
    if (error == cudaSuccess)
        error = end_clock(c, &took);
    *nanoseconds = (int64_t)took;
    return cuda_fail(c->queue.ctx, error, steps[0].node->name);
}

/* Steps that take less than this are recorded several times in a row. */
enum { SHORT_NANOSECONDS = 200000, RUNS_OF_SHORT = 10 };

static brasa_status cuda_repeat(device *d, const step *s, int times, int64_t *nanoseconds)
{
    cuda_device *c = d->data;
    recorded r = {NULL};
    step runs[RUNS_OF_SHORT];
    int64_t once = 0;
    int ran;
    double took = 0;
    brasa_status status = BRASA_OK;
    for (int i = 0; i < 2 && status == BRASA_OK; i++) /* the first one loads code */
        status = cuda_time(d, s, 1, &ran, &once);
    const int count = once < SHORT_NANOSECONDS ? RUNS_OF_SHORT : 1;
    for (int i = 0; i < count; i++)
        runs[i] = *s;
    if (status == BRASA_OK)
        status = record_graph(c, runs, count, &r);
    for (int i = 0; i < times && status == BRASA_OK; i++) {
        cudaError_t error = begin_clock(c);
        if (error == cudaSuccess)
            error = cudaGraphLaunch(r.graph, c->queue.stream);
        if (error == cudaSuccess)
            error = end_clock(c, &took);
        nanoseconds[i] = (int64_t)(took / count);
        status = cuda_fail(c->queue.ctx, error, s->node->name);
    }
    if (r.graph)
        cudaGraphExecDestroy(r.graph);
    return status;
}

/* --- opening ------------------------------------------------------------------------------------------------- */

static brasa_status cuda_record(device *d, const char *path)
{
    return kept_record(&((cuda_device *)d->data)->kept, path);
}

static brasa_status cuda_recall(device *d, const char *path)
{
    return kept_recall(&((cuda_device *)d->data)->kept, path);
}

static void cuda_close(device *d)
{
    cuda_device *c = d->data;
    brasa_context *ctx = c->queue.ctx;
    if (c->queue.stream)
        cudaStreamSynchronize(c->queue.stream);
    if (c->copies)
        cudaStreamDestroy(c->copies);
    kept_close(&c->kept);
    cudnn_close(&c->queue);
    cublaslt_close(&c->queue);
    for (int i = 0; i < PIECES; i++) {
        if (c->pinned[i])
            cudaFreeHost(c->pinned[i]);
        if (c->sent[i])
            cudaEventDestroy(c->sent[i]);
    }
    if (c->begin)
        cudaEventDestroy(c->begin);
    if (c->end)
        cudaEventDestroy(c->end);
    if (c->queue.arrivals)
        cudaFree(c->queue.arrivals);
    if (c->queue.stream)
        cudaStreamDestroy(c->queue.stream);
    mem_put(ctx, c);
}

/* Why there is no GPU to work with, in words; error is what the first call said. */
static const char *why_none(cudaError_t error)
{
    switch (error) {
    case cudaErrorInsufficientDriver:
        return "the NVIDIA driver is too old for this build, or there is none (nvidia-smi shows which CUDA it is "
               "for)";
    case cudaErrorNoDevice:
        return "no NVIDIA GPU was found (nvidia-smi lists those that the driver sees)";
    default:
        return cudaGetErrorString(error);
    }
}

static void describe(cuda_device *c, const struct cudaDeviceProp *p, int index)
{
    device *d = &c->device;
    int driver = 0;
    cudaDriverGetVersion(&driver);
    snprintf(d->name, sizeof d->name, "cuda:%d %.60s", index, p->name);
    d->memory = p->totalGlobalMem;
    c->queue.index = index;
    c->queue.processors = p->multiProcessorCount;
    c->queue.cache = p->l2CacheSize;
    c->queue.most_shared = p->sharedMemPerBlockOptin;
    c->queue.major = p->major;
    c->queue.minor = p->minor;
    if (cudaDeviceGetPCIBusId(d->address, (int)sizeof d->address, index) != cudaSuccess)
        d->address[0] = '\0';
    snprintf(d->about, sizeof d->about, "driver for CUDA %d.%d", driver / 1000, driver % 1000 / 10);
}

static brasa_status cuda_open(brasa_context *ctx, int index, device **out)
{
    int count = 0;
    struct cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0)
        return fail(ctx, BRASA_NOT_FOUND, "cuda: %s", why_none(error == cudaSuccess ? cudaErrorNoDevice : error));
    if (index >= count)
        return fail(ctx, BRASA_NOT_FOUND, "cuda:%d: this machine has %d GPU%s, numbered from 0", index, count,
                    count == 1 ? "" : "s");
    cuda_device *c = mem_get(ctx, sizeof *c);
    if (!c)
        return fail_memory(ctx, sizeof *c);
    c->queue.ctx = ctx;
    c->queue.kept = &c->kept;
    kept_open(&c->kept, ctx);
    error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&p, index);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&c->queue.stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&c->copies, cudaStreamNonBlocking);
    for (int i = 0; i < PIECES && error == cudaSuccess; i++) {
        error = cudaHostAlloc((void **)&c->pinned[i], PIECE_BYTES, cudaHostAllocDefault);
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&c->sent[i], cudaEventDisableTiming);
    }
    const size_t arrivals = 2 * CUDA_MOST_ARRIVALS * sizeof *c->queue.arrivals;
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&c->queue.arrivals, arrivals);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(c->queue.arrivals, 0, arrivals, c->queue.stream);
    if (error == cudaSuccess)
        error = cudaEventCreate(&c->begin);
    if (error == cudaSuccess)
        error = cudaEventCreate(&c->end);
    c->device = (device){.queue = &c->queue,
                         .data = c,
                         .gather_updates = true,
                         .fuse = FUSE_ACTIVATIONS | FUSE_RESIDUALS | FUSE_FLAT | FUSE_FOLD | FUSE_PARTS |
                                 FUSE_UPDATES | FUSE_POOLS | FUSE_SUMS,
                         .get = cuda_get,
                         .put = cuda_put,
                         .free_memory = cuda_free_memory,
                         .copy_in = cuda_copy_in,
                         .copy_out = cuda_copy_out,
                         .copy = cuda_copy,
                         .clear = cuda_clear,
                         .wait = cuda_wait,
                         .get_host = cuda_get_host,
                         .put_host = cuda_put_host,
                         .copy_later = cuda_copy_later,
                         .mark_new = cuda_mark_new,
                         .mark_free = cuda_mark_free,
                         .mark_set = cuda_mark_set,
                         .mark_follow = cuda_mark_follow,
                         .mark_wait = cuda_mark_wait,
                         .run = cuda_run,
                         .forget = cuda_forget,
                         .time = cuda_time,
                         .repeat = cuda_repeat,
                         .record = cuda_record,
                         .recall = cuda_recall,
                         .close = cuda_close};
    if (error != cudaSuccess) {
        cuda_close(&c->device);
        return cuda_fail(ctx, error, "opening the GPU");
    }
    describe(c, &p, index);
    cudnn_open(&c->queue, &c->device);
    cublaslt_open(&c->queue, &c->device);
    *out = &c->device;
    return BRASA_OK;
}

static int cuda_list(void (*say)(void *user, const char *line), void *user)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        say(user, why_none(error == cudaSuccess ? cudaErrorNoDevice : error));
        return 0;
    }
    for (int i = 0; i < count; i++) {
        struct cudaDeviceProp p;
        char line[200];
        if (cudaGetDeviceProperties(&p, i) != cudaSuccess)
            continue;
        snprintf(line, sizeof line, "cuda:%d %.60s, compute capability %d.%d, %.1f GiB", i, p.name, p.major, p.minor,
                 (double)p.totalGlobalMem / (1 << 30));
        say(user, line);
    }
    return count;
}

/* --- what the library exports ---------------------------------------------------------------------------------- */

#define OP(name)
#define REF(name)
#define WIDE(name)
#define ONEDNN(name)
#define SIMD(name)
#define CUDA(name) extern const backend_kernel name##_cuda[];
#include "ops/ops.def"
#undef CUDA

static const backend_kernel *const lists[] = {
#define CUDA(name) name##_cuda,
#include "ops/ops.def"
    NULL};

BRASA_API const backend brasa_backend;
const backend brasa_backend = {
    .version = BRASA_VERSION, .sizes = BACKEND_SIZES, .kernels = lists, .open = cuda_open, .list = cuda_list};
