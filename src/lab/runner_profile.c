/* runner_profile.c - which kernels take the time of a training step: see runner.h. */
#include "lab/runner.h"

#include "core/sort.h"
#include "train/session.h"

#include <string.h>

typedef struct kernel_time {
    const char *name;
    int64_t nanoseconds, calls;
} kernel_time;

typedef struct kernel_times {
    pool *pool;
    kernel_time *list;
    int count, capacity;
} kernel_times;

static brasa_status add_step(kernel_times *t, const step *s)
{
    int i = 0;
    while (i < t->count && strcmp(t->list[i].name, s->kernel->name) != 0)
        i++;
    if (i == t->count) {
        kernel_time *grown = pool_grow(t->pool, t->list, t->count, &t->capacity, sizeof *grown);
        if (!grown)
            return fail_memory(t->pool->ctx, (size_t)t->count * sizeof *grown);
        t->list = grown;
        t->list[t->count++] = (kernel_time){.name = s->kernel->name};
    }
    t->list[i].nanoseconds += s->nanoseconds;
    t->list[i].calls += s->runs;
    return BRASA_OK;
}

static int longest_first(void *user, int64_t a, int64_t b)
{
    const kernel_time *list = user;
    return (list[a].nanoseconds < list[b].nanoseconds) - (list[a].nanoseconds > list[b].nanoseconds);
}

static void swap(void *user, int64_t a, int64_t b)
{
    kernel_time *list = user, kept = list[a];
    list[a] = list[b];
    list[b] = kept;
}

static void tell(runner *r, const kernel_times *t, int64_t steps)
{
    double all = 0;
    for (int i = 0; i < t->count; i++)
        all += 1e-9 * (double)t->list[i].nanoseconds;
    runner_begin(r, "profile");
    json_int(&r->lines, "steps", steps);
    json_exact(&r->lines, "seconds", all);
    runner_end(r);
    for (int i = 0; i < t->count; i++) {
        runner_begin(r, "function");
        json_text(&r->lines, "name", t->list[i].name);
        json_exact(&r->lines, "seconds", 1e-9 * (double)t->list[i].nanoseconds);
        json_int(&r->lines, "calls", t->list[i].calls);
        runner_end(r);
    }
}

brasa_status runner_tell_profile(runner *r, const brasa_session *s, int64_t steps)
{
    pool p = {.ctx = r->ctx};
    kernel_times t = {.pool = &p};
    brasa_status status = BRASA_OK;
    for (const program *g = s->programs; g && status == BRASA_OK; g = g->next)
        for (int i = 0; i < g->nsteps && status == BRASA_OK; i++)
            if (g->steps[i].runs)
                status = add_step(&t, &g->steps[i]);
    if (status == BRASA_OK) {
        sort_items(t.list, t.count, longest_first, swap);
        tell(r, &t, steps);
    }
    pool_free(&p);
    return status;
}
