/* streams.c - CUDA's calls for streams, copies, events and graphs: see queues.h for when things are done. */
#define _GNU_SOURCE
#include "memory.h"
#include "queues.h"

#include <stdlib.h>
#include <string.h>

/* --- streams --------------------------------------------------------------------------------------------------- */

bool stream_forbids(void)
{
    for (struct CUstream_st *s = streams; s; s = s->following)
        if (s->recording && pthread_equal(s->recorder, pthread_self())) {
            s->spoilt = true;
            return true;
        }
    return false;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *to, unsigned flags)
{
    (void)flags;
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s)
        return told(cudaErrorMemoryAllocation);
    runtime_lock();
    s->device = runtime_device();
    s->following = streams;
    *to = streams = s;
    runtime_unlock();
    return told(cudaSuccess);
}

/* It stays in the list: events may have been set in it. */
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    runtime_lock();
    const bool good = s && !s->ended;
    if (good) {
        stream_finish(s);
        tasks_empty(&s->todo);
        tasks_empty(&s->recorded);
        s->next = 0;
        s->ended = true;
    }
    runtime_unlock();
    return told(good ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    runtime_lock();
    struct CUstream_st *s = stream_of(stream);
    cudaError_t error = s->ended ? cudaErrorInvalidResourceHandle : cudaSuccess;
    if (error == cudaSuccess && (s->recording || stream_forbids())) {
        s->spoilt = true;
        error = cudaErrorStreamCaptureUnsupported;
    }
    if (error == cudaSuccess) {
        stream_finish(s);
        error = runtime_broken();
    }
    runtime_unlock();
    return told(error);
}

cudaError_t cudaDeviceSynchronize(void)
{
    runtime_lock();
    const bool forbidden = stream_forbids();
    if (!forbidden)
        streams_finish();
    runtime_unlock();
    return told(forbidden ? cudaErrorStreamCaptureUnsupported : runtime_broken());
}

static bool is_ours(const void *at, size_t bytes, memory_kind kind)
{
    const memory_block *b = memory_find(at);
    return b && b->kind == kind && memory_has(at, bytes);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (!bytes)
        return told(cudaSuccess);
    runtime_lock();
    const bool to_gpu = is_ours(to, bytes, OF_THE_GPU), from_gpu = is_ours(from, bytes, OF_THE_GPU);
    const bool to_known = to_gpu || is_ours(to, bytes, OF_THE_HOST),
               from_known = from_gpu || is_ours(from, bytes, OF_THE_HOST);
    struct CUstream_st *s = stream_of(stream);
    const bool fits = kind == cudaMemcpyDefault          ? to_known || from_known
                      : kind == cudaMemcpyHostToDevice   ? to_gpu && !from_gpu
                      : kind == cudaMemcpyDeviceToHost   ? from_gpu && !to_gpu
                      : kind == cudaMemcpyDeviceToDevice ? to_gpu && from_gpu
                                                         : false;
    task t = {.kind = COPY, .to = to, .from = from, .bytes = bytes};
    cudaError_t error = fits ? cudaSuccess : cudaErrorInvalidValue;
    /* A block that is shorter than what is copied is not the host's. */
    if (error == cudaSuccess && ((!to_known && memory_find(to)) || (!from_known && memory_find(from))))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && s->recording && (!to_known || !from_known)) {
        s->spoilt = true;
        error = cudaErrorStreamCaptureUnsupported;
    }
    if (error == cudaSuccess && !from_known) { /* the host's plain memory is read at once */
        t.from = t.owned = malloc(bytes);
        if (t.owned)
            memcpy(t.owned, from, bytes);
        else
            error = cudaErrorMemoryAllocation;
    }
    if (error == cudaSuccess)
        error = stream_put(stream, t);
    if (error == cudaSuccess && !to_known) /* and written before the call is over */
        stream_finish(s);
    runtime_unlock();
    return told(error);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s)
{
    runtime_lock();
    cudaError_t error = !bytes || is_ours(to, bytes, OF_THE_GPU) ? cudaSuccess : cudaErrorInvalidValue;
    if (error == cudaSuccess && bytes)
        error = stream_put(s, (task){.kind = SET, .to = to, .value = value, .bytes = bytes});
    runtime_unlock();
    return told(error);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t call, void *user)
{
    runtime_lock();
    const cudaError_t error = stream_put(s, (task){.kind = CALL, .call = call, .user = user});
    runtime_unlock();
    return told(error);
}

/* --- events ---------------------------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *to, unsigned flags)
{
    *to = calloc(1, sizeof **to);
    if (*to)
        (*to)->timed = !(flags & cudaEventDisableTiming);
    return told(*to ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaEventCreate(cudaEvent_t *to)
{
    return cudaEventCreateWithFlags(to, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    runtime_lock();
    const bool good = e && !e->ended;
    if (good) {
        e->ended = true;
        event_drop(e);
    }
    runtime_unlock();
    return told(good ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
    runtime_lock();
    struct CUstream_st *s = stream_of(stream);
    cudaError_t error = e && !e->ended ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && s->recording) { /* not known here */
        s->spoilt = true;
        error = cudaErrorStreamCaptureUnsupported;
    }
    if (error == cudaSuccess) {
        e->where = s;
        e->upto = stream_end(s) + 1;
        error = stream_put(stream, (task){.kind = MARK, .event = e, .turn = ++e->set});
    }
    runtime_unlock();
    return told(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    runtime_lock();
    cudaError_t error = e && !e->ended ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && stream_forbids())
        error = cudaErrorStreamCaptureUnsupported;
    if (error == cudaSuccess && e->where)
        stream_run_until(e->where, e->upto);
    runtime_unlock();
    return told(error == cudaSuccess ? runtime_broken() : error);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    cudaError_t error = cudaSuccess;
    runtime_lock();
    if (!begin || !end || begin->ended || end->ended || !begin->timed || !end->timed || !begin->set || !end->set)
        error = cudaErrorInvalidResourceHandle;
    else if (begin->passed != begin->set || end->passed != end->set)
        error = cudaErrorNotReady;
    else
        *milliseconds = (float)(1e3 * (end->at - begin->at));
    runtime_unlock();
    return told(error);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned flags)
{
    (void)flags;
    runtime_lock();
    struct CUstream_st *s = stream_of(stream);
    cudaError_t error = e && !e->ended ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && s->recording) { /* no event is set within what is recorded */
        s->spoilt = true;
        error = cudaErrorStreamCaptureIsolation;
    }
    if (error == cudaSuccess && e->where && e->where != s)
        error = stream_put(stream, (task){.kind = FOLLOW, .other = e->where, .upto = e->upto});
    runtime_unlock();
    return told(error);
}

/* --- graphs ---------------------------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    runtime_lock();
    cudaError_t error = s && mode == cudaStreamCaptureModeThreadLocal ? stream_may_use(s) : cudaErrorNotSupported;
    if (error == cudaSuccess && s->recording)
        error = cudaErrorIllegalState;
    if (error == cudaSuccess) {
        s->recording = true;
        s->spoilt = false;
        s->recorder = pthread_self();
    }
    runtime_unlock();
    return told(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    runtime_lock();
    const struct CUstream_st *s = stream_of(stream);
    *status = !s->recording ? cudaStreamCaptureStatusNone
              : s->spoilt   ? cudaStreamCaptureStatusInvalidated
                            : cudaStreamCaptureStatusActive;
    runtime_unlock();
    return told(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *to)
{
    runtime_lock();
    *to = NULL;
    cudaError_t error = !s || !s->recording                           ? cudaErrorIllegalState
                        : !pthread_equal(s->recorder, pthread_self()) ? cudaErrorStreamCaptureWrongThread
                        : s->spoilt                                   ? cudaErrorStreamCaptureInvalidated
                                                                      : cudaSuccess;
    if (error == cudaSuccess && !(*to = calloc(1, sizeof **to)))
        error = cudaErrorMemoryAllocation;
    if (*to) {
        (*to)->all = s->recorded;
        s->recorded = (tasks){0};
    }
    if (s && s->recording) {
        tasks_empty(&s->recorded);
        s->recording = s->spoilt = false;
    }
    runtime_unlock();
    return told(error);
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    runtime_lock();
    if (g) {
        tasks_empty(&g->all);
        free(g);
    }
    runtime_unlock();
    return told(g ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *to, cudaGraph_t g, unsigned long long flags)
{
    (void)flags;
    cudaError_t error = cudaSuccess;
    runtime_lock();
    *to = NULL;
    if (stream_forbids())
        error = cudaErrorStreamCaptureUnsupported;
    else if (!(*to = calloc(1, sizeof **to)))
        error = cudaErrorMemoryAllocation;
    for (size_t i = 0; i < g->all.count && error == cudaSuccess; i++)
        if (!tasks_add(&(*to)->all, g->all.list[i]))
            error = cudaErrorMemoryAllocation;
    if (error != cudaSuccess && *to) {
        tasks_empty(&(*to)->all);
        free(*to);
        *to = NULL;
    }
    runtime_unlock();
    return told(error);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t g, cudaStream_t s)
{
    runtime_lock();
    const cudaError_t error = g && !g->ended ? stream_may_use(stream_of(s)) : cudaErrorInvalidValue;
    runtime_unlock();
    return told(error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s)
{
    runtime_lock();
    const cudaError_t error =
        g && !g->ended ? stream_put(s, (task){.kind = GRAPH, .graph = g}) : cudaErrorInvalidValue;
    runtime_unlock();
    return told(error);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    runtime_lock();
    if (g) {
        g->ended = true;
        graph_drop(g);
    }
    runtime_unlock();
    return told(g ? cudaSuccess : cudaErrorInvalidValue);
}
