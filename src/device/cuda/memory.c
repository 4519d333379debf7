/* memory.c - a GPU's memory, copies to it and from it, and events in its streams. */
#include "device/cuda/gpu.h"

#include <string.h>

static void *cuda_get(device *d, size_t bytes)
{
    void *block = NULL;
    (void)gpu_of(d);
    if (cudaMalloc(&block, bytes ? bytes : 1) != cudaSuccess) {
        (void)cudaGetLastError(); /* which is kept otherwise */
        return NULL;
    }
    return block;
}

static void cuda_put(device *d, void *block)
{
    (void)gpu_of(d);
    cudaFree(block);
}

static uint64_t cuda_free_memory(device *d)
{
    size_t left = 0, total = 0;
    (void)gpu_of(d);
    return cudaMemGetInfo(&left, &total) == cudaSuccess ? left : 0;
}

static brasa_status cuda_copy_in(device *d, void *to, const void *from, size_t bytes)
{
    cuda_device *c = gpu_of(d);
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
    cuda_device *c = gpu_of(d);
    return cuda_fail(c->queue.ctx, cudaStreamSynchronize(c->queue.stream), "the GPU's work");
}

static brasa_status cuda_copy_out(device *d, void *to, const void *from, size_t bytes)
{
    cuda_device *c = gpu_of(d);
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, c->queue.stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(c->queue.stream);
    return cuda_fail(c->queue.ctx, error, "a copy from the GPU");
}

static brasa_status cuda_copy(device *d, void *to, const void *from, size_t bytes)
{
    cuda_device *c = gpu_of(d);
    return cuda_fail(c->queue.ctx, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, c->queue.stream),
                     "a copy on the GPU");
}

static brasa_status cuda_clear(device *d, void *to, size_t bytes)
{
    cuda_device *c = gpu_of(d);
    return cuda_fail(c->queue.ctx, cudaMemsetAsync(to, 0, bytes, c->queue.stream), "clearing the GPU's memory");
}

/* --- without waiting ----------------------------------------------------------------------------------------- */

/* A device_event is CUDA's event: the pointer itself. */

static cudaStream_t stream_at(const device *d, device_stream q)
{
    const cuda_device *c = d->data;
    return q == STREAM_COPIES ? c->copies : c->queue.stream;
}

static void *cuda_get_pinned(device *d, size_t bytes)
{
    void *block = NULL;
    (void)gpu_of(d);
    if (cudaHostAlloc(&block, bytes ? bytes : 1, cudaHostAllocDefault) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    memset(block, 0, bytes);
    return block;
}

static void cuda_put_pinned(device *d, void *block)
{
    (void)gpu_of(d);
    cudaFreeHost(block);
}

static brasa_status cuda_copy_async(device *d, device_stream q, void *to, const void *from, size_t bytes)
{
    cuda_device *c = gpu_of(d);
    return cuda_fail(c->queue.ctx, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_at(d, q)),
                     "a copy to or from the GPU");
}

/* Who waits for one leaves the processor to the loader. */
static device_event *cuda_event_new(device *d)
{
    cudaEvent_t event = NULL;
    (void)gpu_of(d);
    if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    return (device_event *)event;
}

static void cuda_event_free(device *d, device_event *m)
{
    (void)gpu_of(d);
    cudaEventDestroy((cudaEvent_t)m);
}

static brasa_status cuda_event_record(device *d, device_stream q, device_event *m)
{
    cuda_device *c = gpu_of(d);
    return cuda_fail(c->queue.ctx, cudaEventRecord((cudaEvent_t)m, stream_at(d, q)), "marking the GPU's work");
}

static brasa_status cuda_stream_wait(device *d, device_stream q, device_event *m)
{
    cuda_device *c = gpu_of(d);
    return cuda_fail(c->queue.ctx, cudaStreamWaitEvent(stream_at(d, q), (cudaEvent_t)m, 0),
                     "ordering the GPU's work");
}

static brasa_status cuda_event_wait(device *d, device_event *m)
{
    cuda_device *c = gpu_of(d);
    return cuda_fail(c->queue.ctx, cudaEventSynchronize((cudaEvent_t)m), "the GPU's work");
}

void cuda_offer_memory(device *d)
{
    d->get = cuda_get;
    d->put = cuda_put;
    d->free_memory = cuda_free_memory;
    d->copy_in = cuda_copy_in;
    d->copy_out = cuda_copy_out;
    d->copy = cuda_copy;
    d->clear = cuda_clear;
    d->wait = cuda_wait;
    d->get_pinned = cuda_get_pinned;
    d->put_pinned = cuda_put_pinned;
    d->copy_async = cuda_copy_async;
    d->event_new = cuda_event_new;
    d->event_free = cuda_event_free;
    d->event_record = cuda_event_record;
    d->stream_wait = cuda_stream_wait;
    d->event_wait = cuda_event_wait;
}
