/* queues.c - what is given to streams, and when it is done: see queues.h.
 *
 * A stream keeps what it is given, and does it when somebody waits. Who changes what is still to be read, or reads
 * what was not waited for, gets wrong numbers here, every time.
 */
#define _GNU_SOURCE
#include "queues.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct CUstream_st *streams, plain;

/* --- lists of tasks -------------------------------------------------------------------------------------------- */

bool tasks_add(tasks *to, task t)
{
    if (to->count == to->room) {
        const size_t room = to->room ? 2 * to->room : 64;
        task *more = realloc(to->list, room * sizeof *more);
        if (!more)
            return false;
        to->list = more;
        to->room = room;
    }
    if (t.params) {
        char *own = malloc((size_t)t.l.kernel->param_total + 1);
        if (!own)
            return false;
        memcpy(own, t.params, (size_t)t.l.kernel->param_total);
        t.l.params = t.params = own;
    }
    if (t.event)
        t.event->held++;
    if (t.graph)
        t.graph->held++;
    to->list[to->count++] = t;
    return true;
}

void event_drop(cudaEvent_t e)
{
    if (e && e->ended && !e->held)
        free(e);
}

void graph_drop(struct CUgraphExec_st *g)
{
    if (g && g->ended && !g->held) {
        tasks_empty(&g->all);
        free(g);
    }
}

static void end_task(task *t)
{
    free(t->params);
    free(t->owned);
    if (t->event) {
        t->event->held--;
        event_drop(t->event);
    }
    if (t->graph) {
        t->graph->held--;
        graph_drop(t->graph);
    }
}

void tasks_empty(tasks *t)
{
    for (size_t i = 0; i < t->count; i++)
        end_task(&t->list[i]);
    free(t->list);
    *t = (tasks){0};
}

/* --- doing them ------------------------------------------------------------------------------------------------ */

static void run_launch(const launch *l)
{
    fault f;
    if (!grid_run(l, &f))
        runtime_break(cudaErrorIllegalAddress, f.text);
}

static void run_task(const task *t)
{
    struct timespec now;
    switch (t->kind) {
    case LAUNCH:
        if (runtime_broken() == cudaSuccess)
            run_launch(&t->l);
        break;
    case COPY:
        memmove(t->to, t->from, t->bytes);
        break;
    case SET:
        memset(t->to, t->value, t->bytes);
        break;
    case CALL:
        if (runtime_broken() == cudaSuccess)
            t->call(t->user);
        break;
    case MARK:
        clock_gettime(CLOCK_MONOTONIC, &now);
        t->event->at = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
        t->event->passed = t->turn;
        break;
    case FOLLOW:
        stream_run_until(t->other, t->upto);
        break;
    case GRAPH:
        for (size_t i = 0; i < t->graph->all.count; i++)
            run_task(&t->graph->all.list[i]);
        break;
    }
}

/* A stream that is running already is one that waits for itself by way of another: CUDA has no such order. */
void stream_run_until(struct CUstream_st *s, uint64_t upto)
{
    if (s->running)
        return;
    s->running = true;
    while (s->done < upto && s->next < s->todo.count) {
        run_task(&s->todo.list[s->next]);
        end_task(&s->todo.list[s->next++]);
        s->done++;
    }
    if (s->next == s->todo.count)
        s->next = s->todo.count = 0;
    s->running = false;
}

uint64_t stream_end(const struct CUstream_st *s)
{
    return s->done + (s->todo.count - s->next);
}

void stream_finish(struct CUstream_st *s)
{
    stream_run_until(s, stream_end(s));
}

void streams_finish(void)
{
    stream_finish(&plain);
    for (struct CUstream_st *s = streams; s; s = s->following)
        stream_finish(s);
}

static bool early(void)
{
    const char *word = getenv("SOFTGPU_ORDER");
    return word && strcmp(word, "early") == 0;
}

struct CUstream_st *stream_of(cudaStream_t s)
{
    return s ? s : &plain;
}

cudaError_t stream_may_use(const struct CUstream_st *s)
{
    if (s->ended)
        return cudaErrorInvalidResourceHandle;
    if (s != &plain && s->device != runtime_device())
        return cudaErrorInvalidResourceHandle;
    return runtime_broken();
}

cudaError_t stream_put(cudaStream_t stream, task t)
{
    struct CUstream_st *s = stream_of(stream);
    cudaError_t error = stream_may_use(s);
    if (error == cudaSuccess && !tasks_add(s->recording ? &s->recorded : &s->todo, t))
        error = cudaErrorMemoryAllocation;
    if (error != cudaSuccess) {
        free(t.owned);
        return error;
    }
    if (early() && !s->recording)
        stream_finish(s);
    return runtime_broken();
}

cudaError_t stream_launch(cudaStream_t s, const launch *l)
{
    /* The pointer is only read until it is copied. */
    task t = {.kind = LAUNCH, .l = *l, .params = (char *)(uintptr_t)l->params};
    t.l.device = s ? s->device : runtime_device();
    return stream_put(s, t);
}
