/* cuda.c - GPUs: opening one, what is missing where there is none, and what their kernels share. */
#include "device/cuda/gpu.h"
#include "device/cuda/libraries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- errors -------------------------------------------------------------------------------------------------- */

brasa_status cuda_fail(brasa_context *ctx, cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return BRASA_OK;
    return fail(ctx, error == cudaErrorMemoryAllocation ? BRASA_OUT_OF_MEMORY : BRASA_INTERNAL,
                "%s: CUDA says %s (%s)", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

/* CUDA knows a GPU for each thread, the first one until the thread says otherwise. Whatever else is in the process
 * may say so, too: it is asked each time, which takes some nanoseconds. Where the GPU cannot be had any more, all
 * that is started in its queue fails, and says why. */
void cuda_enter(const cuda_queue *q)
{
    int now = -1;
    if (cudaGetDevice(&now) == cudaSuccess && now == q->index)
        return;
    if (cudaSetDevice(q->index) != cudaSuccess)
        (void)cudaGetLastError(); /* which is kept otherwise */
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

/* --- opening ------------------------------------------------------------------------------------------------- */

static void cuda_close(device *d)
{
    cuda_device *c = gpu_of(d);
    brasa_context *ctx = c->queue.ctx;
    if (c->queue.stream)
        cudaStreamSynchronize(c->queue.stream);
    if (c->copies)
        cudaStreamDestroy(c->copies);
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
        return getenv("CUDA_VISIBLE_DEVICES")
                   ? "no NVIDIA GPU is among those that CUDA_VISIBLE_DEVICES names (nvidia-smi lists all)"
                   : "no NVIDIA GPU was found (nvidia-smi lists those that the driver sees)";
    default:
        return cudaGetErrorString(error);
    }
}

/* Why a GPU that is there cannot be worked with, or "". */
typedef struct refusal {
    char text[200];
} refusal;

/* What is not there is either of the first two to CUDA: the one where a function is asked about, mostly, the other
 * where it is started. */
static void why_no_code(refusal *r, const struct cudaDeviceProp *p, cudaError_t error)
{
    switch (error) {
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
        snprintf(
            r->text, sizeof r->text,
            "this build has no code for compute capability %d.%d: configure with -DCMAKE_CUDA_ARCHITECTURES=%d%d",
            p->major, p->minor, p->major, p->minor);
        break;
    case cudaErrorUnsupportedPtxVersion:
        snprintf(r->text, sizeof r->text,
                 "the driver is too old to compile this build's code for compute capability %d.%d: install a newer "
                 "one, or configure with -DCMAKE_CUDA_ARCHITECTURES=%d%d",
                 p->major, p->minor, p->major, p->minor);
        break;
    case cudaSuccess:
    case cudaErrorMemoryAllocation: /* it is there: opening the GPU tells */
        break;
    default:
        snprintf(r->text, sizeof r->text, "%.190s", cudaGetErrorString(error));
    }
}

static refusal why_not(const struct cudaDeviceProp *p)
{
    enum { LEAST_MAJOR = 8 }; /* Ampere: bf16, and copies that do not pass through registers */
    refusal r = {""};
    if (p->major < LEAST_MAJOR)
        snprintf(r.text, sizeof r.text, "its compute capability is %d.%d, and %d.0 is the least", p->major, p->minor,
                 LEAST_MAJOR);
    else
        why_no_code(&r, p, cuda_has_code());
    (void)cudaGetLastError(); /* which is kept otherwise */
    return r;
}

static void describe(cuda_device *c, const struct cudaDeviceProp *p, int index)
{
    device *d = &c->device;
    int driver = 0;
    cudaDriverGetVersion(&driver);
    snprintf(d->name, sizeof d->name, "cuda:%d %.60s", index, p->name);
    d->memory = p->totalGlobalMem;
    c->queue.processors = p->multiProcessorCount;
    c->queue.cache = p->l2CacheSize;
    c->queue.most_shared = p->sharedMemPerBlockOptin;
    c->queue.major = p->major;
    c->queue.minor = p->minor;
    if (cudaDeviceGetPCIBusId(d->address, (int)sizeof d->address, index) != cudaSuccess) {
        d->address[0] = '\0';
        (void)cudaGetLastError(); /* or the first kernel seems to have failed */
    }
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
    c->queue.index = index;
    error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&p, index);
    const refusal no = error == cudaSuccess ? why_not(&p) : (refusal){""};
    if (*no.text) {
        mem_put(ctx, c);
        return fail(ctx, BRASA_NOT_FOUND, "cuda:%d %.60s: %s", index, p.name, no.text);
    }
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
                         .takes_images = true,
                         .self_tuning = true,
                         .any_threads = true,
                         .telemetry = true,
                         .gather_updates = true,
                         .precisions = 1u << BRASA_F32 | 1u << BRASA_TF32 | 1u << BRASA_BF16,
                         .most_pending = DEVICE_MOST_PENDING,
                         .fuse = FUSE_ACTIVATIONS | FUSE_RESIDUALS | FUSE_FLAT | FUSE_FOLD | FUSE_PARTS |
                                 FUSE_UPDATES | FUSE_POOLS | FUSE_SUMS,
                         .close = cuda_close};
    cuda_offer_memory(&c->device);
    cuda_offer_steps(&c->device);
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
        char line[400];
        if (cudaGetDeviceProperties(&p, i) != cudaSuccess)
            continue;
        refusal no;
        error = cudaSetDevice(i); /* which may be another process's alone */
        if (error == cudaSuccess)
            no = why_not(&p);
        else
            snprintf(no.text, sizeof no.text, "%.190s", cudaGetErrorString(error));
        (void)cudaGetLastError();
        snprintf(line, sizeof line, "cuda:%d %.60s, compute capability %d.%d, %.1f GiB%s%s", i, p.name, p.major,
                 p.minor, (double)p.totalGlobalMem / (1 << 30), *no.text ? ": cannot be used: " : "", no.text);
        say(user, line);
    }
    return count;
}

/* --- what the library exports ---------------------------------------------------------------------------------- */

#define CUDA(all)  all
#define LIST(name) extern const backend_kernel name##_cuda[];
#include "ops/ops.def"

static const backend_kernel *const lists[] = {
#define CUDA(all)  all
#define LIST(name) name##_cuda,
#include "ops/ops.def"
    NULL};

BRASA_API const backend brasa_backend;
const backend brasa_backend = {
    .version = BACKEND_VERSION, .sizes = BACKEND_SIZES, .kernels = lists, .open = cuda_open, .list = cuda_list};
