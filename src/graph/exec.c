/* exec.c - programs made ready to run, and their nodes by the clock. */
#define _POSIX_C_SOURCE 200809L
#include "graph/exec.h"
#include "device/device.h"
#include "core/threads.h"

#include <time.h>

static brasa_status make_step(program *p, int i)
{
    graph *g = &p->graph;
    const node *n = &g->nodes[i];
    arg *args = pool_get(&g->pool, (size_t)(n->nin + n->nout) + 1, sizeof *args);
    if (!args)
        return fail_memory(g->ctx, (size_t)(n->nin + n->nout) * sizeof *args);
    for (int k = 0; k < n->nin + n->nout; k++) {
        const value *v = &g->values[k < n->nin ? n->in[k] : n->out[k - n->nin]];
        const value *whole = v->whole < 0 ? v : &g->values[v->whole];
        args[k] = (arg){.shape = v->shape,
                        .count = layout_count(&v->format.layout, &v->shape),
                        .sample = layout_count(&whole->format.layout, &whole->shape) /
                                  (v->shape.rank ? v->shape.dim[0] : 1),
                        .pixel = v->shape.rank > 1 ? whole->shape.dim[1] : 1,
                        .format = k < n->nin ? input_format(g, n, k) : v->format};
    }
    p->steps[p->nsteps++] = (step){
        .kernel = n->kernel,
        .node = n,
        .attr = n->attr,
        .nin = n->nin,
        .nout = n->nout,
        .in = args,
        .out = args + n->nin,
        .state = n->state,
        .threads = node_threads(g, n),
        .seed = g->seed,
        .queue = g->ctx->device->queue,
    };
    if (p->steps[p->nsteps - 1].threads > p->threads)
        p->threads = p->steps[p->nsteps - 1].threads;
    return BRASA_OK;
}

brasa_status program_prepare(program *p)
{
    graph *g = &p->graph;
    p->steps = pool_get(&g->pool, (size_t)g->nnodes + 1, sizeof *p->steps);
    p->fed = pool_get(&g->pool, (size_t)g->nvalues + 1, sizeof *p->fed);
    p->from = pool_get(&g->pool, (size_t)g->nvalues + 1, sizeof *p->from);
    p->stored = pool_get(&g->pool, (size_t)g->nvalues + 1, sizeof *p->stored);
    p->needed = pool_get(&g->pool, (size_t)g->nvalues + 1, sizeof *p->needed);
    p->threads = 1;
    if (!p->steps || !p->fed || !p->from || !p->stored || !p->needed)
        return fail_memory(g->ctx, (size_t)g->nnodes * sizeof *p->steps);
    for (int i = 0; i < g->nnodes; i++)
        for (int k = 0; k < g->nodes[i].nin; k++)
            p->needed[g->nodes[i].in[k]] = g->values[g->nodes[i].in[k]].kind == VALUE_INPUT;
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i].op->view && p->plan.in_place[i])
            continue; /* the same bytes under another shape */
        brasa_status status = make_step(p, i);
        if (status != BRASA_OK)
            return status;
    }
    return BRASA_OK;
}

brasa_status program_link(program *p, char *persistent, const int64_t *state_offset, char *transient)
{
    const graph *g = &p->graph;
    program_forget(p);
    for (int i = 0; i < p->nsteps; i++) {
        step *s = &p->steps[i];
        for (int k = 0; k < s->nin + s->nout; k++) {
            const value *v = &g->values[k < s->nin ? s->node->in[k] : s->node->out[k - s->nin]];
            arg *a = k < s->nin ? &s->in[k] : &s->out[k - s->nin];
            a->data = v->state >= 0 ? persistent + state_offset[v->state] : transient + v->offset;
        }
        int64_t scratch = p->plan.workspace[s->node - g->nodes];
        s->workspace = scratch < 0 ? NULL : transient + scratch;
        brasa_status status = s->kernel->bind ? s->kernel->bind(s) : BRASA_OK;
        if (status != BRASA_OK)
            return status;
    }
    return BRASA_OK;
}

void program_forget(program *p)
{
    if (p->record)
        p->graph.ctx->device->forget(p->graph.ctx->device, p->record);
    p->record = NULL;
}

static int64_t now_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Runs a step, and those that the device runs together with it, and takes their time: by the device's clock, if it
 * has one. */
static brasa_status run_timed(const program *p, const step *steps, int count, int *ran, int64_t *nanoseconds)
{
    device *d = p->graph.ctx->device;
    if (d->time)
        return d->time(d, steps, count, ran, nanoseconds);
    *ran = 1;
    const int64_t start = now_nanoseconds();
    brasa_status status = steps->kernel->run(steps);
    *nanoseconds = now_nanoseconds() - start;
    return status;
}

brasa_status program_repeat(program *p, int i, int times, int64_t *nanoseconds)
{
    device *d = p->graph.ctx->device;
    if (d->repeat && times > 1)
        return d->repeat(d, &p->steps[i], times, nanoseconds);
    threads_state saved;
    brasa_status status = threads_enter(p->graph.ctx, p->threads, &saved);
    if (status != BRASA_OK)
        return status;
    for (int t = 0; t < times && status == BRASA_OK; t++)
        status = run_timed(p, &p->steps[i], 1, &(int){0}, &nanoseconds[t]);
    threads_leave(saved, p->threads);
    return status;
}

/* Elements that a step reads and writes: what the time of small steps goes by. */
static double elements_of(const step *s)
{
    double sum = 0;
    for (int k = 0; k < s->nin + s->nout; k++)
        sum += (double)(k < s->nin ? s->in[k].count : s->out[k - s->nin].count);
    return sum;
}

/* Each of the steps that ran together gets its share of their time. */
static void note_time(step *steps, int count, int64_t nanoseconds)
{
    double all = 0, before = 0;
    int64_t given = 0;
    for (int i = 0; i < count; i++)
        all += elements_of(&steps[i]);
    for (int i = 0; i < count; i++) {
        step *s = &steps[i];
        before += elements_of(s);
        const int64_t until = i == count - 1 ? nanoseconds : (int64_t)((double)nanoseconds * before / all);
        const int64_t time = until - given;
        given = until;
        s->nanoseconds += time;
        s->fastest = s->runs == 0 || time < s->fastest ? time : s->fastest;
        s->runs++;
    }
}

brasa_status program_run_profiled(program *p)
{
    threads_state saved;
    brasa_status status = threads_enter(p->graph.ctx, p->threads, &saved);
    if (status != BRASA_OK)
        return status;
    for (int i = 0, ran = 1; i < p->nsteps && status == BRASA_OK; i += ran) {
        int64_t time = 0;
        status = run_timed(p, &p->steps[i], p->nsteps - i, &ran, &time);
        if (status == BRASA_OK)
            note_time(&p->steps[i], ran, time);
    }
    threads_leave(saved, p->threads);
    return status;
}
