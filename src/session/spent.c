/* spent.c - see spent.h. */
#include "session/spent.h"
#include "core/sort.h"
#include "session/explain_parts.h"

#include <string.h>

int spent_most(const brasa_session *s)
{
    int most = s->update ? s->update->nsteps : 0;
    for (const program *p = s->programs; p; p = p->next)
        most += p->nsteps;
    return most;
}

int spent_add(const program *p, spent *list, int count)
{
    for (int i = 0; i < p->nsteps; i++) {
        const step *s = &p->steps[i];
        if (s->runs)
            list[count++] = (spent){.kernel = s->kernel,
                                    .node = s->node,
                                    .nodes = 1,
                                    .runs = s->runs,
                                    .nanoseconds = (double)s->nanoseconds,
                                    .flops = flops_of(&p->graph, s->node) * (double)s->runs,
                                    .bytes = (double)traffic_of(&p->graph, s->node) * (double)s->runs};
    }
    return count;
}

int spent_add_all(const brasa_session *s, spent *list, int count)
{
    for (const program *p = s->programs; p; p = p->next)
        count = spent_add(p, list, count);
    return s->update ? spent_add(s->update, list, count) : count;
}

int spent_by_kernel(spent *list, int count)
{
    int kernels = 0;
    for (int i = 0; i < count; i++) {
        int at = 0;
        while (at < kernels && strcmp(list[at].kernel->name, list[i].kernel->name) != 0)
            at++;
        if (at == kernels) {
            list[kernels++] = list[i];
            continue;
        }
        list[at].nodes++;
        list[at].runs += list[i].runs;
        list[at].nanoseconds += list[i].nanoseconds;
        list[at].flops += list[i].flops;
        list[at].bytes += list[i].bytes;
    }
    return kernels;
}

static int longest_first(void *user, int64_t a, int64_t b)
{
    const spent *list = user;
    return (list[a].nanoseconds < list[b].nanoseconds) - (list[a].nanoseconds > list[b].nanoseconds);
}

static void swap(void *user, int64_t a, int64_t b)
{
    spent *list = user, kept = list[a];
    list[a] = list[b];
    list[b] = kept;
}

void spent_sort(spent *list, int count)
{
    sort_items(list, count, longest_first, swap);
}
