/* explain_profile.c - where the time of profiled steps went: by kernel and by node, the slowest first.
 *
 * Times are those of nodes that ran one by one, a GPU's by its own clock; what is lost or won between them is not in
 * there. Updates that a GPU starts together were timed together, and each has its share of that. */
#include "train/explain_parts.h"

#include <stdlib.h>
#include <string.h>

/* What nodes of one kernel, or one node, took in a step. */
typedef struct spent {
    const kernel *kernel;
    const node *node; /* of one */
    int nodes;
    double nanoseconds, flops, bytes;
} spent;

static int by_time(const void *a, const void *b)
{
    const double x = ((const spent *)a)->nanoseconds, y = ((const spent *)b)->nanoseconds;
    return (x < y) - (x > y);
}

static bool is_timed(const program *p)
{
    return p->nsteps && p->steps[0].runs;
}

/* The one that was profiled most: the last batch of an epoch may have another size. */
static const program *find_profiled(const brasa_session *s)
{
    const program *best = s->current;
    for (const program *p = s->programs; p; p = p->next)
        if (is_timed(p) && (!is_timed(best) || p->steps[0].runs > best->steps[0].runs))
            best = p;
    return best;
}

static spent spent_of(const program *p, const step *s)
{
    return (spent){.kernel = s->kernel,
                   .node = s->node,
                   .nodes = 1,
                   .nanoseconds = (double)s->nanoseconds / (double)s->runs,
                   .flops = flops_of(&p->graph, s->node),
                   .bytes = (double)traffic_of(&p->graph, s->node)};
}

/* Adds nodes up by kernel, in place; returns how many kernels. */
static int add_up(spent *list, int count)
{
    int kernels = 0;
    for (int i = 0; i < count; i++) {
        int at = 0;
        while (at < kernels && list[at].kernel != list[i].kernel)
            at++;
        if (at == kernels) {
            list[kernels++] = list[i];
            continue;
        }
        list[at].nodes++;
        list[at].nanoseconds += list[i].nanoseconds;
        list[at].flops += list[i].flops;
        list[at].bytes += list[i].bytes;
    }
    qsort(list, (size_t)kernels, sizeof *list, by_time);
    return kernels;
}

static void print_spent(sink *o, const spent *x, double total, const char *what)
{
    const step as_step = {.runs = 1, .nanoseconds = (int64_t)(x->nanoseconds + 0.5)};
    const double ns = x->nanoseconds > 0 ? x->nanoseconds : 1;
    print(o, "%9s %5.1f %% %9.1f %9.1f  %s\n", print_time(&as_step).text, 100 * x->nanoseconds / total, x->flops / ns,
          x->bytes / ns, what);
}

/* What stands in the last column, which begins at LEFT; on two lines where it would not fit into WIDTH. */
static cell node_cell(const spent *x)
{
    enum { LEFT = 41, WIDTH = 100 };
    const step as_step = {.node = x->node, .kernel = x->kernel};
    const cell layer = layer_cell(x->node), name = kernel_cell(&as_step);
    const bool fits = LEFT + strlen(layer.text) + 2 + strlen(name.text) <= WIDTH;
    return fits ? cell_of("%s, %s", layer.text, name.text) : cell_of("%s\n%*s%s", layer.text, LEFT, "", name.text);
}

static void print_lists(sink *o, const program *p, spent *list, const char *place)
{
    double total = 0;
    for (int i = 0; i < p->nsteps; i++) {
        list[i] = spent_of(p, &p->steps[i]);
        total += list[i].nanoseconds;
    }
    const step all = {.runs = 1, .nanoseconds = (int64_t)total};
    print(o, "%s, batch %lld, %s: nodes one by one %s a step, mean of %lld\n",
          p->training ? "training" : "evaluation", (long long)p->batch, place, print_time(&all).text,
          (long long)p->steps[0].runs);
    total = total > 0 ? total : 1;
    const int kernels = add_up(list, p->nsteps);
    print(o, "%9s %7s %9s %9s  %s\n", "time", "share", "GFLOP/s", "GB/s", "kernel, nodes");
    for (int i = 0; i < kernels; i++)
        print_spent(o, &list[i], total, cell_of("%s, %d", list[i].kernel->name, list[i].nodes).text);
    for (int i = 0; i < p->nsteps; i++)
        list[i] = spent_of(p, &p->steps[i]);
    qsort(list, (size_t)p->nsteps, sizeof *list, by_time);
    print(o, "\n%9s %7s %9s %9s  %s\n", "time", "share", "GFLOP/s", "GB/s", "node, kernel");
    for (int i = 0; i < p->nsteps; i++)
        print_spent(o, &list[i], total, node_cell(&list[i]).text);
}

void explain_profile(sink *o, const brasa_session *s)
{
    const program *p = find_profiled(s);
    if (!is_timed(p)) {
        print(o, "no step was profiled\n");
        return;
    }
    const cell threads = cell_of("%d thread%s", s->ctx->threads, s->ctx->threads == 1 ? "" : "s");
    spent *list = mem_get(s->ctx, (size_t)p->nsteps * sizeof *list);
    if (list)
        print_lists(o, p, list, s->ctx->device ? s->ctx->device->name : threads.text);
    o->failed = o->failed || !list;
    mem_put(s->ctx, list);
}
