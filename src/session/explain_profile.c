/* explain_profile.c - where the time of profiled steps went: by kernel and by node, the slowest first.
 *
 * Times are those of nodes that ran one by one, a GPU's by its own clock; what is lost or won between them is not in
 * there. Updates that a GPU starts together were timed together, and each has its share of that. */
#include "session/explain_parts.h"
#include "session/spent.h"

#include <string.h>

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

/* What belongs to a step with the program, and in *steps how many there were: where a batch is in parts, the programs
 * of all parts and the one that updates. */
static int list_nodes(const brasa_session *s, const program *p, spent *list, int64_t *steps)
{
    int count = 0;
    *steps = p->steps[0].runs;
    if (!p->graph.in_parts)
        return spent_add(p, list, 0);
    for (const program *part = s->programs; part; part = part->next)
        if (part->graph.in_parts)
            count = spent_add(part, list, count);
    if (is_timed(s->update))
        *steps = s->update->steps[0].runs;
    return spent_add(s->update, list, count);
}

/* Seconds and so on of a step; `total` is of all. */
static void print_spent(sink *o, const spent *x, double total, int64_t steps, const char *what)
{
    const step as_step = {.runs = 1, .nanoseconds = (int64_t)(x->nanoseconds / (double)steps + 0.5)};
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

static cell batch_cell(const brasa_session *s, const program *p)
{
    return p->graph.in_parts ? cell_of("%lld in micro-batches of %lld", (long long)s->batch, (long long)s->part)
                             : cell_of("%lld", (long long)p->batch);
}

static void print_lists(sink *o, const brasa_session *s, const program *p, spent *list, const char *place)
{
    double total = 0;
    int64_t steps;
    int count = list_nodes(s, p, list, &steps);
    for (int i = 0; i < count; i++)
        total += list[i].nanoseconds;
    const step all = {.runs = 1, .nanoseconds = (int64_t)(total / (double)steps)};
    print(o, "%s, batch %s, %s: nodes one by one %s a step, mean of %lld\n", p->training ? "training" : "evaluation",
          batch_cell(s, p).text, place, print_time(&all).text, (long long)steps);
    total = total > 0 ? total : 1;
    count = spent_by_kernel(list, count);
    spent_sort(list, count);
    print(o, "%9s %7s %9s %9s  %s\n", "time", "share", "GFLOP/s", "GB/s", "kernel, nodes");
    for (int i = 0; i < count; i++)
        print_spent(o, &list[i], total, steps, cell_of("%s, %d", list[i].kernel->name, list[i].nodes).text);
    count = list_nodes(s, p, list, &steps);
    spent_sort(list, count);
    print(o, "\n%9s %7s %9s %9s  %s\n", "time", "share", "GFLOP/s", "GB/s", "node, kernel");
    for (int i = 0; i < count; i++)
        print_spent(o, &list[i], total, steps, node_cell(&list[i]).text);
}

void explain_profile(sink *o, const brasa_session *s)
{
    const program *p = find_profiled(s);
    if (!is_timed(p)) {
        print(o, "no step was profiled\n");
        return;
    }
    spent *list = mem_get(s->ctx, (size_t)spent_most(s) * sizeof *list);
    if (list)
        print_lists(o, s, p, list, s->ctx->device->where);
    o->failed = o->failed || !list;
    mem_put(s->ctx, list);
}
