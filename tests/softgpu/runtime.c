/* runtime.c - stands in for CUDA's runtime, where there is no GPU: devices, memory and errors. Kernels run by their
 * PTX (ptx_run.c), so that what is tested is what nvcc made of them, and the host's part is the one that is shipped.
 *
 * SOFTGPU_DEVICES is how many GPUs there are, 1 without it; SOFTGPU_PROCESSORS how many processors each has, and
 * SOFTGPU_MEMORY its bytes of memory, for all of them together. See ptx_run.c for SOFTGPU_SEED, runtime.h for
 * SOFTGPU_ORDER, fatbin.c for SOFTGPU_PTX.
 */
#define _GNU_SOURCE
#include "runtime.h"
#include "memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Thread_local cudaError_t last;
static _Thread_local int device;
static cudaError_t broken;

void runtime_lock(void)
{
    pthread_mutex_lock(&lock);
}

void runtime_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

cudaError_t told(cudaError_t error)
{
    if (error != cudaSuccess)
        last = error;
    return error;
}

cudaError_t runtime_broken(void)
{
    return broken;
}

void runtime_break(cudaError_t error, const char *why)
{
    if (broken == cudaSuccess)
        fprintf(stderr, "softgpu: %s\n", why);
    broken = error;
}

static int setting(const char *name, int otherwise, int most)
{
    const char *word = getenv(name);
    const long value = word ? strtol(word, NULL, 10) : 0;
    return value < 1 ? otherwise : value > most ? most : (int)value;
}

int runtime_device(void)
{
    return device;
}

int runtime_devices(void)
{
    return setting("SOFTGPU_DEVICES", 1, MOST_DEVICES);
}

int runtime_processors(void)
{
    return setting("SOFTGPU_PROCESSORS", PROCESSORS, 1024);
}

/* --- devices --------------------------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = runtime_devices();
    return told(cudaSuccess);
}

cudaError_t cudaGetDevice(int *to)
{
    *to = device;
    return told(cudaSuccess);
}

cudaError_t cudaSetDevice(int to)
{
    const bool there = to >= 0 && to < runtime_devices();
    if (there)
        device = to;
    return told(there ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int *to)
{
    *to = CUDART_VERSION;
    return told(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *to, int which)
{
    enum { CACHE = 8 << 20 };
    if (which < 0 || which >= runtime_devices())
        return told(cudaErrorInvalidDevice);
    memset(to, 0, sizeof *to);
    snprintf(to->name, sizeof to->name, "Software GPU");
    to->totalGlobalMem = memory_total();
    to->major = CAPABILITY;
    to->multiProcessorCount = runtime_processors();
    to->l2CacheSize = CACHE;
    to->warpSize = LANES;
    to->maxThreadsPerBlock = MOST_THREADS;
    to->maxThreadsPerMultiProcessor = THREADS_OF_PROCESSOR;
    to->sharedMemPerBlock = 48 << 10;
    to->sharedMemPerBlockOptin = MOST_SHARED;
    to->sharedMemPerMultiprocessor = MOST_SHARED + SHARED_RESERVED;
    to->cooperativeLaunch = 1;
    return told(cudaSuccess);
}

cudaError_t cudaDeviceGetPCIBusId(char *to, int size, int which)
{
    if (which < 0 || which >= runtime_devices() || size < 13)
        return told(cudaErrorInvalidValue);
    snprintf(to, (size_t)size, "ffff:%02x:00.0", (unsigned)which & 0xff); /* where no real one is */
    return told(cudaSuccess);
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

static cudaError_t get(void **to, size_t bytes, memory_kind kind)
{
    *to = NULL;
    runtime_lock();
    cudaError_t error = stream_forbids() ? cudaErrorStreamCaptureUnsupported : broken;
    if (error == cudaSuccess && !(*to = memory_get(bytes, kind, device)))
        error = cudaErrorMemoryAllocation;
    runtime_unlock();
    return told(error);
}

/* It waits for everything, as CUDA does. */
static cudaError_t put(void *block, memory_kind kind)
{
    if (!block)
        return told(cudaSuccess);
    runtime_lock();
    cudaError_t error = stream_forbids() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
    if (error == cudaSuccess) {
        streams_finish();
        error = memory_put(block, kind) ? broken : cudaErrorInvalidValue;
    }
    runtime_unlock();
    return told(error);
}

cudaError_t cudaMalloc(void **to, size_t bytes)
{
    return get(to, bytes, OF_THE_GPU);
}

cudaError_t cudaFree(void *block)
{
    return put(block, OF_THE_GPU);
}

cudaError_t cudaHostAlloc(void **to, size_t bytes, unsigned flags)
{
    (void)flags;
    return get(to, bytes, OF_THE_HOST);
}

cudaError_t cudaFreeHost(void *block)
{
    return put(block, OF_THE_HOST);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    runtime_lock();
    *total = memory_total();
    *left = *total - memory_used();
    runtime_unlock();
    return told(broken);
}

/* --- errors ---------------------------------------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last;
    last = broken;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

static const struct {
    cudaError_t error;
    const char *name, *words;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorInvalidPtx, "cudaErrorInvalidPtx", "a PTX JIT compilation failed"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "an error without a name here";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return errors[i].words;
    return "another error";
}

/* For the libraries that stand in beside this one: whether bytes are in the GPU's memory. */
int softgpu_owns(const void *at, size_t bytes);
int softgpu_owns(const void *at, size_t bytes)
{
    runtime_lock();
    const memory_block *b = memory_find(at);
    const bool owns = b && b->kind == OF_THE_GPU && memory_has(at, bytes);
    runtime_unlock();
    return owns;
}
