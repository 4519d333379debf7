/* steps.c - steps on a GPU: started together where they may be, recorded into a graph, and timed. */
#include "device/cuda/gpu.h"

#include <stdio.h>

typedef struct recorded {
    cudaGraphExec_t graph; /* NULL after the first run, which loads code and shows errors at their place */
    bool none;             /* there is no memory for one: steps are started one by one, as in the first run */
} recorded;

/* Steps that are started at once. */
enum { MOST_TOGETHER = 512 };

/* Whether two tensors share memory. The samples of a part are as far apart as those of the whole. */
static bool overlap(const arg *a, const arg *b)
{
    const int64_t samples_a = a->shape.rank ? a->shape.dim[0] : 1, samples_b = b->shape.rank ? b->shape.dim[0] : 1;
    const char *x = a->data, *y = b->data;
    return x < y + b->sample * samples_b * (int64_t)dtype_size(b->format.storage) &&
           y < x + a->sample * samples_a * (int64_t)dtype_size(a->format.storage);
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

/* BRASA_OUT_OF_MEMORY: there is no graph, and nothing has run. What the GPU needs for one is taken here, too, and not
 * when it is first started. */
static brasa_status record_graph(cuda_device *c, step *steps, int count, recorded *r)
{
    cudaGraph_t made = NULL;
    cudaError_t error = cudaStreamBeginCapture(c->queue.stream, cudaStreamCaptureModeThreadLocal);
    brasa_status status = cuda_fail(c->queue.ctx, error, "recording a step");
    if (status == BRASA_OK) {
        status = run_each(steps, count);
        error = cudaStreamEndCapture(c->queue.stream, &made);
        if (status == BRASA_OK)
            status = cuda_fail(c->queue.ctx, error, "recording a step");
    }
    if (status == BRASA_OK) {
        error = cudaGraphInstantiate(&r->graph, made, 0);
        if (error != cudaSuccess)
            r->graph = NULL;
        else
            error = cudaGraphUpload(r->graph, c->queue.stream);
        status = cuda_fail(c->queue.ctx, error, "making a graph of a step");
    }
    if (made)
        cudaGraphDestroy(made);
    if (status == BRASA_OK)
        return status;
    if (r->graph)
        cudaGraphExecDestroy(r->graph);
    r->graph = NULL;
    (void)cudaGetLastError(); /* which is kept otherwise: kernels would seem to fail that are started next */
    return status;
}

/* No reason to end a training. Once is enough: other programs of a session have no more memory. */
static void go_without(cuda_device *c, recorded *r)
{
    device *d = &c->device;
    r->none = true;
    if (!c->warned)
        snprintf(d->warning, sizeof d->warning,
                 "%s has no memory left to record steps as graphs: their kernels are started one by one, which takes "
                 "longer; a smaller batch or --mem leaves some",
                 d->name);
    c->warned = true;
}

static brasa_status cuda_run(device *d, step *steps, int count, void **record)
{
    cuda_device *c = gpu_of(d);
    recorded *r = *record;
    if (!r) {
        *record = mem_get(c->queue.ctx, sizeof *r);
        return *record ? run_each(steps, count) : fail_memory(c->queue.ctx, sizeof *r);
    }
    const brasa_status status = r->graph || r->none ? BRASA_OK : record_graph(c, steps, count, r);
    if (status == BRASA_OUT_OF_MEMORY)
        go_without(c, r);
    else if (status != BRASA_OK)
        return status;
    return r->none ? run_each(steps, count)
                   : cuda_fail(c->queue.ctx, cudaGraphLaunch(r->graph, c->queue.stream), "starting a step");
}

static void cuda_forget(device *d, void *record)
{
    cuda_device *c = gpu_of(d);
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
    cuda_device *c = gpu_of(d);
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
    cuda_device *c = gpu_of(d);
    recorded r = {.graph = NULL};
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

void cuda_offer_steps(device *d)
{
    d->run = cuda_run;
    d->forget = cuda_forget;
    d->time = cuda_time;
    d->repeat = cuda_repeat;
}
