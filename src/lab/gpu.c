/* gpu.c - see gpu.h. */
#include "lab/gpu.h"

#include "lab/lab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PROCESSES = 128 };
/* What a GPU's memory must have grown by before it is taken for the run's: a CUDA context alone has more. */
static const int64_t least_growth = 64 << 20;
static const double least_epochs = 1; /* seconds */

static void note(gpu *g, const char *why)
{
    if (!g->why[0])
        snprintf(g->why, sizeof g->why, "%s", why);
}

/* What could not be asked for is told by the looks of a run, which may find it. */
static double price_of_look(gpu *g)
{
    double began = 0;
    for (int i = 0; i < 2; i++) {
        began = lab_thread_cpu();
        for (int k = 0; k < g->count; k++) {
            nvml_process list[MOST_PROCESSES];
            int percent;
            double number;
            nvml_processes(g->library, g->all[k], list, MOST_PROCESSES);
            nvml_utilization(g->library, g->all[k], &percent);
            nvml_power(g->library, g->all[k], &number);
            nvml_energy(g->library, g->all[k], &number);
        }
    }
    return lab_thread_cpu() - began;
}

double gpu_open(gpu *g)
{
    *g = (gpu){.chosen = -1, .peak = -1, .metered = true, .now = {-1, NAN, NAN}, .counter = NAN, .last = NAN};
    if (!(g->library = nvml_open(g->why, sizeof g->why)))
        return 0;
    const int count = nvml_count(g->library);
    for (int i = 0; i < count && g->count < MOST_GPUS; i++) {
        uint64_t total;
        nvml_gpu *one = nvml_by_index(g->library, i);
        if (one && nvml_memory(g->library, one, &g->before[g->count], &total))
            g->all[g->count++] = one;
        else
            note(g, nvml_why(g->library));
    }
    if (!g->count)
        note(g, "not readable: the machine has no NVIDIA GPU");
    return price_of_look(g);
}

void gpu_close(gpu *g)
{
    nvml_close(g->library);
    *g = (gpu){.chosen = -1};
}

/* Bytes of the run's processes there; -1: NVML knows none of them. */
static int64_t listed_memory(gpu *g, int index, bool (*mine)(const void *user, pid_t pid), const void *user)
{
    nvml_process list[MOST_PROCESSES];
    int64_t sum = -1;
    int count = nvml_processes(g->library, g->all[index], list, MOST_PROCESSES);
    count = count < MOST_PROCESSES ? count : MOST_PROCESSES;
    for (int i = 0; i < count; i++)
        if (mine(user, (pid_t)list[i].pid))
            sum = (sum < 0 ? 0 : sum) + (int64_t)list[i].bytes;
    return sum;
}

static int64_t grown_memory(gpu *g, int index)
{
    uint64_t used, total;
    if (!nvml_memory(g->library, g->all[index], &used, &total))
        return -1;
    return used > g->before[index] ? (int64_t)(used - g->before[index]) : 0;
}

/* The GPU of the run, once there is one, and its memory there. */
static void find_memory(gpu *g, bool (*mine)(const void *user, pid_t pid), const void *user)
{
    int64_t most = 0;
    int by_list = -1, by_growth = -1;
    g->now.memory = -1;
    for (int i = 0; i < g->count; i++) {
        const int64_t bytes = listed_memory(g, i, mine, user);
        if (bytes > g->now.memory) {
            g->now.memory = bytes;
            by_list = i;
        }
    }
    if (by_list >= 0) {
        g->listed = true;
        g->chosen = by_list;
    }
    if (g->listed) /* it may be over already: then it has none */
        return;
    for (int i = 0; i < g->count; i++) {
        const int64_t bytes = grown_memory(g, i);
        if (bytes > most) {
            most = bytes;
            by_growth = i;
        }
    }
    if (by_growth >= 0 && (g->chosen >= 0 || most >= least_growth)) {
        g->chosen = g->chosen < 0 ? by_growth : g->chosen;
        g->now.memory = grown_memory(g, g->chosen);
    }
}

/* Joules since the last look; NAN: the counter is there again, but was not then, or has begun anew. */
static double energy_since(gpu *g, double seconds)
{
    double counter = NAN, joules = NAN;
    const bool counted = nvml_energy(g->library, g->all[g->chosen], &counter);
    if (counted && counter >= g->counter)
        joules = counter - g->counter;
    else if (!counted && !isnan(g->now.power))
        joules = g->now.power * seconds;
    else if (!counted) {
        note(g, nvml_why(g->library));
        g->metered = false;
        joules = 0;
    }
    g->counter = counted ? counter : NAN;
    return joules;
}

static void add_time(gpu_time *t, const gpu_figures *f, double seconds, double joules)
{
    t->seconds += seconds;
    t->busy += f->busy * seconds;
    t->joules += joules;
}

void gpu_look(gpu *g, bool (*mine)(const void *user, pid_t pid), const void *user, double clock, bool epoch)
{
    int percent;
    if (!g->count)
        return;
    find_memory(g, mine, user);
    g->peak = g->now.memory > g->peak ? g->now.memory : g->peak;
    if (g->chosen < 0)
        return;
    nvml_gpu *one = g->all[g->chosen];
    if (nvml_utilization(g->library, one, &percent))
        g->now.busy = percent / 100.0;
    else
        note(g, nvml_why(g->library));
    if (!nvml_power(g->library, one, &g->now.power)) {
        note(g, nvml_why(g->library));
        g->now.power = NAN;
    }
    const bool first = isnan(g->last); /* nothing counts before the run has come to the GPU */
    const double seconds = first ? 0 : clock - g->last, joules = energy_since(g, seconds);
    if (!first && epoch && g->in_epoch && !isnan(joules)) /* seconds without joules would make the power less */
        add_time(&g->epochs, &g->now, seconds, joules);
    g->last = clock;
    g->in_epoch = epoch;
}

gpu_sums gpu_sum_up(const gpu *g)
{
    const gpu_time *t = &g->epochs;
    gpu_sums sums = {.peak = g->peak, .busy = NAN, .power = NAN, .joules = NAN};
    sums.why = g->why[0] ? g->why : g->chosen < 0 ? "not readable: the run was not seen on any GPU" : NULL;
    if (t->seconds < least_epochs) {
        if (!sums.why)
            sums.why = "not readable: power and how busy it was, in epochs of less than a second together";
        return sums;
    }
    sums.busy = t->busy / t->seconds;
    if (g->metered) {
        sums.joules = t->joules;
        sums.power = t->joules / t->seconds;
    }
    return sums;
}
