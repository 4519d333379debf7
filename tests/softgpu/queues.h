/* queues.h - what streams, events and graphs are: tasks, and lists of them. */
#ifndef SOFTGPU_QUEUES_H
#define SOFTGPU_QUEUES_H

#include "runtime.h"

#include <pthread.h>

typedef struct task {
    enum { LAUNCH, COPY, SET, CALL, MARK, FOLLOW, GRAPH } kind;
    launch l;
    char *params; /* owned */
    void *to;
    const void *from;
    void *owned; /* what is copied from there, or NULL */
    size_t bytes;
    int value;
    cudaHostFn_t call;
    void *user;
    cudaEvent_t event;
    int64_t turn;
    struct CUstream_st *other; /* FOLLOW: it must have done `upto` tasks */
    uint64_t upto;
    struct CUgraphExec_st *graph;
} task;

typedef struct tasks {
    task *list;
    size_t count, room;
} tasks;

struct CUstream_st {
    tasks todo;
    size_t next;   /* of them, to be done */
    uint64_t done; /* since it began */
    int device;
    bool ended, recording, spoilt, running;
    pthread_t recorder;
    tasks recorded;
    struct CUstream_st *following;
};

struct CUevent_st {
    bool timed, ended;
    int64_t set, passed; /* times */
    struct CUstream_st *where;
    uint64_t upto; /* tasks of that stream: then it has passed */
    double at;     /* seconds */
    int held;      /* tasks that know it */
};

struct CUgraph_st {
    tasks all;
};

struct CUgraphExec_st {
    tasks all;
    int held;
    bool ended;
};

extern struct CUstream_st *streams, plain; /* `plain` is what a NULL means */

/* Takes a copy of its own of what a task needs. */
bool tasks_add(tasks *to, task t);
void tasks_empty(tasks *t);
/* Who has ended, and is known to no task any more, is freed. */
void event_drop(cudaEvent_t e);
void graph_drop(struct CUgraphExec_st *g);
/* Does what there is up to a number of tasks since the stream began; all of it. */
void stream_run_until(struct CUstream_st *s, uint64_t upto);
void stream_finish(struct CUstream_st *s);
/* The number of tasks since it began, with those that are not done. */
uint64_t stream_end(const struct CUstream_st *s);
struct CUstream_st *stream_of(cudaStream_t s);
/* Whether a call may be made for a stream by this thread. */
cudaError_t stream_may_use(const struct CUstream_st *s);
cudaError_t stream_put(cudaStream_t stream, task t);

#endif
