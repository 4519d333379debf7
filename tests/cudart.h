/* cudart.h - what stands in for CUDA's runtime, in a test that has the files that call it: GPUs of which nothing is
 * there but their numbers and a clock. Memory is the host's, copies are made at once, and take no time. What a test
 * says is worked on takes as long as it says, by that clock, which events read; of what is recorded the time alone is
 * kept, and taken again when it is run.
 */
#ifndef TEST_CUDART_H
#define TEST_CUDART_H

#include <cuda_runtime.h>

#include <stdlib.h>
#include <string.h>

enum { GPUS = 2 };

static _Thread_local int cudart_gpu; /* that this thread's calls are for */

static struct {
    int expected;       /* the GPU that all calls should be for */
    int strays;         /* calls that were for another one */
    const char *stray;  /* the last of them */
    int launches;       /* of graphs */
    const char *full;   /* the call for which there is no memory */
    bool busy;          /* the GPUs are other processes' alone */
    int calls, fail_at; /* the call that fails, from 1; 0: none */
    cudaError_t fails;  /* what it says; 0: that it does not know why */
    size_t most;        /* bytes of the largest block that there is memory for; 0: of any */
    size_t left;        /* bytes that are free, so it is said; 0: 1 GB */
    cudaError_t last;
    int live;        /* blocks of memory, streams, events and graphs that were not given back */
    double clock;    /* milliseconds */
    bool recording;  /* what is started */
    bool spoilt;     /* what is recorded will not do */
    double recorded; /* milliseconds of it so far */
    int disturbed;   /* the launch, from 1, that takes ten times as long */
} cudart;

static cudaError_t called(const char *name)
{
    if (cudart.full && strcmp(cudart.full, name) == 0)
        return cudart.last = cudaErrorMemoryAllocation;
    if (++cudart.calls == cudart.fail_at)
        return cudart.last = cudart.fails ? cudart.fails : cudaErrorUnknown;
    if (cudart_gpu != cudart.expected) {
        cudart.strays++;
        cudart.stray = name;
    }
    return cudaSuccess;
}

static cudaError_t made_block(const char *name, void **block, size_t bytes)
{
    const cudaError_t error = called(name);
    if (error != cudaSuccess)
        return error;
    if (posix_memalign(block, 256, bytes) != 0)
        return cudart.last = cudaErrorMemoryAllocation;
    cudart.live++;
    return cudaSuccess;
}

/* A stream, an event or a graph is its time: when it was passed, or how long it takes. */
static cudaError_t made(const char *name, void *handle, double milliseconds)
{
    void *block = NULL;
    const cudaError_t error = made_block(name, &block, sizeof(double));
    if (block)
        *(double *)block = milliseconds;
    *(void **)handle = block;
    return error;
}

static double milliseconds_of(const void *handle)
{
    return *(const double *)handle;
}

static cudaError_t freed(const char *name, void *handle)
{
    cudart.live -= handle != NULL;
    free(handle);
    return called(name);
}

/* For the test: the GPU works so long. */
static inline void cudart_work(double milliseconds)
{
    *(cudart.recording ? &cudart.recorded : &cudart.clock) += milliseconds;
}

/* --- GPUs and errors ------------------------------------------------------------------------------------------- */

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "another";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t last = cudart.last;
    cudart.last = cudaSuccess;
    return last;
}

cudaError_t cudaGetDevice(int *gpu)
{
    *gpu = cudart_gpu;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int gpu)
{
    if (cudart.busy)
        return cudart.last = cudaErrorDevicesUnavailable;
    cudart_gpu = gpu;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = GPUS;
    return cudaSuccess;
}

static int capability = 9; /* of all of them */

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int gpu)
{
    memset(p, 0, sizeof *p);
    p->major = capability;
    p->name[0] = (char)('A' + gpu);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int gpu)
{
    (void)gpu;
    text[0] = '\0';
    return size > 0 ? called(__func__) : cudaErrorInvalidValue;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **block, size_t bytes)
{
    if (cudart.most && bytes > cudart.most)
        return cudart.last = cudaErrorMemoryAllocation;
    return made_block(__func__, block, bytes);
}

cudaError_t cudaFree(void *block)
{
    return freed(__func__, block);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    *left = *total = cudart.left ? cudart.left : 1 << 30;
    return called(__func__);
}

cudaError_t cudaHostAlloc(void **block, size_t bytes, unsigned flags)
{
    (void)flags;
    return made_block(__func__, block, bytes);
}

cudaError_t cudaFreeHost(void *block)
{
    return freed(__func__, block);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    (void)stream;
    memcpy(to, from, bytes);
    return called(__func__);
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(to, byte, bytes);
    return called(__func__);
}

/* --- streams and events ---------------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    return made(__func__, stream, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return freed(__func__, stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return called(__func__);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return called(__func__);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    return made(__func__, event, 0);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return made(__func__, event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return freed(__func__, event);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)stream;
    *(double *)(void *)event = cudart.clock;
    return called(__func__);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return called(__func__);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    *milliseconds = (float)(milliseconds_of(end) - milliseconds_of(begin));
    return called(__func__);
}

/* --- graphs ---------------------------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)stream;
    (void)mode;
    const cudaError_t error = called(__func__);
    cudart.recording = error == cudaSuccess;
    cudart.spoilt = false;
    cudart.recorded = 0;
    return error;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *to)
{
    (void)stream;
    cudart.recording = false;
    if (!cudart.spoilt)
        return made(__func__, to, cudart.recorded);
    *to = NULL;
    return cudart.last = cudaErrorStreamCaptureInvalidated;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t from, unsigned long long flags)
{
    (void)flags;
    return made(__func__, ready, milliseconds_of(from));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t ready, cudaStream_t stream)
{
    (void)ready;
    (void)stream;
    return called(__func__);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream)
{
    (void)stream;
    cudart.launches++;
    cudart_work(milliseconds_of(ready) * (cudart.launches == cudart.disturbed ? 10 : 1));
    return called(__func__);
}

cudaError_t cudaGraphDestroy(cudaGraph_t recorded)
{
    return freed(__func__, recorded);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready)
{
    return freed(__func__, ready);
}

#endif
