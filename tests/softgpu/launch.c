/* launch.c - kernels of a program: who they are, what may be asked of them, and how they are started. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file of a program, with its kernels. */
typedef struct fatbin {
    const void *wrapper;
    ptx_module *module;
    bool opened;
    struct fatbin *next;
} fatbin;

static fatbin *fatbins;
static function *functions;

/* --- what programs register, before main ----------------------------------------------------------------------- */

/* These are called by what nvcc puts into a program. */
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
char __cudaInitModule(void **handle); /* where kernels are started without optimization */
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant,
                       int global);
cudaError_t __cudaGetKernel(cudaKernel_t *to, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t dynamic,
                               cudaStream_t s);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t dynamic, cudaStream_t s);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *dynamic, void *s);

void **__cudaRegisterFatBinary(void *wrapper)
{
    fatbin *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    runtime_lock();
    b->wrapper = wrapper;
    b->next = fatbins;
    fatbins = b;
    runtime_unlock();
    return (void **)b;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void __cudaUnregisterFatBinary(void **handle)
{
    fatbin *b = (fatbin *)handle;
    runtime_lock();
    streams_finish();
    for (function **at = &functions; *at;)
        if ((*at)->from == b) {
            function *gone = *at;
            *at = gone->next;
            free(gone->name);
            free(gone);
        } else {
            at = &(*at)->next;
        }
    for (fatbin **at = &fatbins; *at; at = &(*at)->next)
        if (*at == b) {
            *at = b->next;
            break;
        }
    ptx_close(b ? b->module : NULL);
    free(b);
    runtime_unlock();
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *size)
{
    function *f = calloc(1, sizeof *f);
    (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)size;
    if (!f || !(f->name = strdup(name))) {
        free(f);
        return;
    }
    runtime_lock();
    f->host = host;
    f->from = (fatbin *)handle;
    f->next = functions;
    functions = f;
    runtime_unlock();
}

/* Tables that no host function sets. */
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant,
                       int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)ext, (void)size, (void)constant, (void)global;
}

/* --- kernels --------------------------------------------------------------------------------------------------- */

function *function_find(const void *host)
{
    function *f = functions;
    while (f && f->host != host)
        f = f->next;
    return f;
}

static void open_fatbin(fatbin *b)
{
    char why[200] = "";
    b->opened = true;
    char *words = fatbin_words(b->wrapper, why, sizeof why);
    b->module = words ? ptx_open(words, why, sizeof why) : NULL;
    if (!b->module)
        fprintf(stderr, "softgpu: %s\n", why);
}

ptx_kernel *function_kernel(function *f)
{
    char why[400] = "";
    if (!f->from->opened)
        open_fatbin(f->from);
    if (!f->kernel && f->from->module)
        f->kernel = ptx_find(f->from->module, f->name);
    if (!f->kernel || f->kernel->unreadable)
        return NULL;
    if (f->kernel->code)
        return f->kernel;
    if (ptx_read(f->kernel, why, sizeof why))
        return f->kernel;
    fprintf(stderr, "softgpu: %s: %s\n", f->name, why);
    f->kernel->unreadable = true;
    return NULL;
}

/* How many blocks a processor can have at the same time. */
int launch_fits(const ptx_kernel *k, int threads, size_t dynamic)
{
    const int warps = (threads + LANES - 1) / LANES, by_threads = THREADS_OF_PROCESSOR / LANES / (warps ? warps : 1);
    const size_t shared = (size_t)k->shared + dynamic + SHARED_RESERVED;
    const int by_shared = (int)((MOST_SHARED + SHARED_RESERVED) / shared);
    const int fits = by_threads < by_shared ? by_threads : by_shared;
    return fits < BLOCKS_OF_PROCESSOR ? fits : BLOCKS_OF_PROCESSOR;
}

enum { MOST_PARAMS = 32764 }; /* bytes of arguments, since CUDA 12.1 */

static cudaError_t start(function *f, dim3 grid, dim3 block, void **arguments, size_t dynamic, bool together,
                         cudaStream_t s)
{
    char params[MOST_PARAMS];
    ptx_kernel *k = f ? function_kernel(f) : NULL;
    if (runtime_broken() != cudaSuccess)
        return runtime_broken();
    if (!k)
        return f && f->kernel ? cudaErrorInvalidPtx : cudaErrorInvalidDeviceFunction;
    const uint64_t threads = (uint64_t)block.x * block.y * block.z, blocks = (uint64_t)grid.x * grid.y * grid.z;
    if (!threads || threads > MOST_THREADS || block.z > 64 || !blocks || grid.x > INT32_MAX || grid.y > 65535 ||
        grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    if ((int64_t)dynamic > k->most_dynamic || (size_t)k->shared + dynamic > MOST_SHARED)
        return cudaErrorInvalidValue;
    if (k->most_threads && threads > (uint64_t)k->most_threads)
        return cudaErrorLaunchOutOfResources;
    if (together && blocks > (uint64_t)launch_fits(k, (int)threads, dynamic) * (uint64_t)runtime_processors())
        return cudaErrorCooperativeLaunchTooLarge;
    if (k->param_total > (int)sizeof params)
        return cudaErrorInvalidValue;
    memset(params, 0, (size_t)k->param_total);
    for (int i = 0; i < k->params; i++)
        memcpy(params + k->param_at[i], arguments[i], (size_t)k->param_bytes[i]);
    const launch l = {.kernel = k,
                      .grid = {grid.x, grid.y, grid.z},
                      .block = {block.x, block.y, block.z},
                      .dynamic = (int64_t)dynamic,
                      .together = together,
                      .params = params};
    return stream_launch(s, &l);
}

cudaError_t __cudaGetKernel(cudaKernel_t *to, const void *host)
{
    runtime_lock();
    *to = (cudaKernel_t)function_find(host);
    runtime_unlock();
    return *to ? cudaSuccess : told(cudaErrorInvalidDeviceFunction);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t dynamic,
                               cudaStream_t s)
{
    runtime_lock();
    const cudaError_t error = start((function *)kernel, grid, block, arguments, dynamic, false, s);
    runtime_unlock();
    return told(error);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *host, void **arguments)
{
    bool together = false;
    for (unsigned i = 0; i < how->numAttrs; i++) {
        if (how->attrs[i].id != cudaLaunchAttributeCooperative)
            return told(cudaErrorNotSupported);
        together = how->attrs[i].val.cooperative != 0;
    }
    runtime_lock();
    const cudaError_t error = start(function_find(host), how->gridDim, how->blockDim, arguments,
                                    how->dynamicSmemBytes, together, how->stream);
    runtime_unlock();
    return told(error);
}

/* Between <<< >>> and the function that starts the kernel. */
static _Thread_local struct {
    dim3 grid, block;
    size_t dynamic;
    cudaStream_t stream;
} pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t dynamic, cudaStream_t s)
{
    pushed.grid = grid;
    pushed.block = block;
    pushed.dynamic = dynamic;
    pushed.stream = s;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *dynamic, void *s)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *dynamic = pushed.dynamic;
    memcpy(s, &pushed.stream, sizeof pushed.stream);
    return cudaSuccess;
}

/* --- what is asked of kernels ---------------------------------------------------------------------------------- */

static ptx_kernel *kernel_of(const void *host)
{
    function *f = function_find(host);
    return f ? function_kernel(f) : NULL;
}

cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute which, int value)
{
    runtime_lock();
    ptx_kernel *k = kernel_of(host);
    cudaError_t error = k ? cudaSuccess : cudaErrorInvalidDeviceFunction;
    if (k && (which != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || k->shared + value > MOST_SHARED))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        k->most_dynamic = value;
    runtime_unlock();
    return told(error);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *to, const void *host)
{
    runtime_lock();
    const ptx_kernel *k = kernel_of(host);
    memset(to, 0, sizeof *to);
    if (k) {
        to->sharedSizeBytes = (size_t)k->shared;
        to->localSizeBytes = (size_t)k->local;
        to->maxThreadsPerBlock = k->most_threads ? k->most_threads : MOST_THREADS;
        to->maxDynamicSharedSizeBytes = (int)k->most_dynamic;
    }
    runtime_unlock();
    return told(k ? cudaSuccess : cudaErrorNoKernelImageForDevice);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int threads,
                                                                   size_t dynamic, unsigned flags)
{
    (void)flags;
    runtime_lock();
    const ptx_kernel *k = kernel_of(host);
    *blocks =
        k && threads <= MOST_THREADS && (int64_t)dynamic <= k->most_dynamic ? launch_fits(k, threads, dynamic) : 0;
    runtime_unlock();
    return told(k ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
