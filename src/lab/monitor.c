/* monitor.c - see monitor.h. */
#define _GNU_SOURCE
#include "lab/lab.h"
#include "lab/monitor_parts.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Samples of later than FINE seconds are kept once a second. Of a run of less than LEAST_WALL seconds, beginning to
 * watch is most of what watching costs. PAUSE: how much longer than looks the pauses between them are. */
enum { LEAST_WALL = 1, FINE = 600, PAUSE = 1000, LOOK_PAUSE = 500 };

/* The next one comes after `least`, or `pause` times what this one took of a processor, or the last one, if that was
 * less: one that was held up says nothing about the price. What all took together must be a `pause`th of the time,
 * too, but for that nobody waits longer than a second. */
static void pace_done(pace *p, double start, double began, double cost, double pause)
{
    static const double longest = 1;
    const double price = p->cost > 0 && p->cost < cost ? p->cost : cost;
    p->cost = cost;
    p->spent += cost;
    const double owed = start + pause * p->spent - began;
    p->due = began + larger(larger(p->least, pause * price), owed < longest ? owed : longest);
}

/* --- starting ------------------------------------------------------------------------------------------------ */

static brasa_status prepare(monitor *m)
{
    m->listed = pool_get(&m->pool, MOST_LISTED, sizeof *m->listed);
    m->before = pool_get(&m->pool, 2 * MOST_LISTED, sizeof *m->before); /* the second half: those that are new */
    if (!m->listed || !m->before)
        return fail_memory(m->ctx, 3 * MOST_LISTED * sizeof *m->listed);
    if (!(m->all = opendir("/proc")))
        return fail(m->ctx, BRASA_NOT_FOUND, "/proc: %s: without it nothing can be watched", strerror(errno));
    m->nbefore = proc_list(m->all, m->before, MOST_LISTED); /* none of these can belong to it */
    prctl(PR_GET_CHILD_SUBREAPER, &m->reaper);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return BRASA_OK;
}

brasa_status monitor_start(brasa_context *ctx, const monitor_options *o, monitor **out)
{
    monitor *m = *out = mem_get(ctx, sizeof *m);
    if (!m)
        return fail_memory(ctx, sizeof *m);
    *m = (monitor){.ctx = ctx, .pool = {.ctx = ctx}, .options = *o, .self = getpid(), .reaper = -1};
    m->totals = monitor_nothing();
    if (o->gpu)
        m->gpu_pace.cost = gpu_open(&m->gpu);
    energy_open(&m->energy, o->energy_folder ? o->energy_folder : ENERGY_FOLDER);
    return prepare(m);
}

void monitor_follow(monitor *m, pid_t pid)
{
    struct rusage own = {.ru_maxrss = 0};
    getrusage(RUSAGE_SELF, &own);
    m->own_rss = own.ru_maxrss * (int64_t)1024;
    m->first = pid;
    tree_add(m, pid);
    tree_find_new(m);
    m->start = m->last = m->time_last = lab_now();
    m->cpu_before = lab_cpu();
    m->look = m->find = m->switch_ = (pace){.least = 0.1, .due = m->start + 0.02}; /* some are over soon */
    m->gpu_pace = (pace){.least = 0.1, .due = m->start + 0.1, .cost = m->gpu_pace.cost};
    m->pss = (pace){.least = 1, .due = m->start + 0.2};
    energy_read(&m->energy);
    m->energy.joules = 0;
}

void monitor_end(monitor *m)
{
    if (!m)
        return;
    while (m->count)
        tree_drop(m, m->count - 1);
    if (m->reaper >= 0)
        prctl(PR_SET_CHILD_SUBREAPER, m->reaper);
    if (m->all)
        closedir(m->all);
    energy_close(&m->energy);
    gpu_close(&m->gpu);
    pool_free(&m->pool);
    mem_put(m->ctx, m);
}

/* --- looking ------------------------------------------------------------------------------------------------- */

double monitor_due(const monitor *m)
{
    return m->look.due;
}

bool monitor_over(const monitor *m)
{
    return m->over_limit;
}

int64_t monitor_memory(const monitor *m)
{
    return m->rss;
}

/* What one process had is known to the kernel, and was there at once: it counts where RSS of all together does not.
 */
monitor_limit monitor_kept(const monitor *m, int64_t *peak)
{
    *peak = most(m->one - m->shared, m->totals.peak_pss);
    if (m->one <= 0)
        return m->at_most <= m->options.memory ? LIMIT_KEPT : LIMIT_UNKNOWN;
    return *peak > m->options.memory ? LIMIT_PASSED : LIMIT_KEPT;
}

/* A thread that is over takes its number along: what a process has then lost is left out. */
static void read_switches(monitor *m)
{
    for (int i = 0; i < m->count; i++) {
        watched *w = &m->list[i];
        const int64_t now = w->now.threads > 1 ? proc_switches(&w->proc) : w->now.switches;
        if (now > w->switches)
            m->total.switches += now - w->switches;
        if (now >= 0)
            w->switches = now;
    }
}

static void read_pss(monitor *m, store_sample *s)
{
    int64_t sum = 0;
    for (int i = 0; i < m->count && sum >= 0; i++) {
        const int64_t one = m->list[i].now.state == 'Z' ? 0 : proc_pss(&m->list[i].proc);
        proc_figures f;
        if (one >= 0)
            sum += one;
        else if (proc_read(&m->list[i].proc, &f) && f.state != 'Z') /* it lives, and does not tell */
            sum = -1;
    }
    s->pss = sum;
    m->pss_bytes = s->rss;
    if (s->processes == 1 && sum >= 0)
        m->shared = most(s->rss - sum, 0);
    if (s->processes > 1 && sum >= 0) { /* it holds until there are several again */
        m->pss_less = most(s->rss - sum, 0);
        m->pss_processes = s->processes;
        m->pss_most = most(m->pss_most, s->processes);
    }
    m->totals.peak_pss = most(m->totals.peak_pss, sum);
}

/* Runs one of the looks where its time has come. */
static bool due(monitor *m, pace *p, double now, double pause, void (*look)(monitor *m, store_sample *s),
                store_sample *s)
{
    if (now < p->due)
        return false;
    const double before = lab_thread_cpu();
    look(m, s);
    pace_done(p, m->start, now, lab_thread_cpu() - before, pause);
    return true;
}

static void look_new(monitor *m, store_sample *s)
{
    (void)s;
    tree_find_new(m);
}

static void look_switches(monitor *m, store_sample *s)
{
    (void)s;
    read_switches(m);
}

/* Seconds that the kernel, which goes through all pages, will take: as long for a byte as the last time. */
static double expect_pss(const monitor *m, int64_t bytes)
{
    static const double usual = 5e-12; /* seconds for a byte; less with large pages */
    return (double)bytes * (m->pss_bytes > 0 ? m->pss.cost / (double)m->pss_bytes : usual);
}

/* More processes than ever before have most likely just been forked from one that shares all with them, and RSS
 * counts that for each: PSS tells, once they have settled, whatever it costs; but not again and again. */
static bool must_ask(monitor *m, const store_sample *s, double now)
{
    enum { MOST_FORCED = 4 };
    static const double settle = 0.3;
    if (s->processes <= 1 || s->processes <= m->pss_most || m->forced == MOST_FORCED) {
        m->risen = 0;
        return false;
    }
    if (m->risen <= 0)
        m->risen = now;
    const bool must = now - m->risen >= settle;
    m->forced += must;
    return must;
}

/* RSS counts shared pages for each process that has them: over the limit is who is so by PSS as well. What RSS
 * counted too much at the last look at PSS it does not count too much for good: a process that writes to shared pages
 * gets its own. So of several processes PSS is asked for as often as its cost allows, near the limit more often, and
 * at once and then for a twentieth of a processor where they seem to be over it. Of a process alone RSS tells nearly
 * as much. */
static void look_memory(monitor *m, store_sample *s, double now)
{
    enum { URGENT = 20, NEAR = 150, SEVERAL = 250 };
    const int64_t limit = m->options.memory, twice = s->processes == 1                  ? m->shared
                                                     : s->processes == m->pss_processes ? m->pss_less
                                                                                        : 0;
    const bool near = limit && s->rss > limit, much = near && s->rss - twice > limit;
    const double pause = much ? URGENT : near ? NEAR : s->processes > 1 ? SEVERAL : PAUSE;
    if (!much)
        m->pss.due = larger(m->pss.due, m->start + pause * (m->pss.spent + expect_pss(m, s->rss)));
    if ((much && !m->much) || must_ask(m, s, now))
        m->pss.due = 0;
    m->pss.least = much ? 0 : 1;
    const bool fresh = due(m, &m->pss, now, pause, read_pss, s);
    m->much = much;
    m->over_limit = much && fresh && (s->pss < 0 || s->pss > limit);
}

/* What all have together. What RSS counted too much of some processes at the last look at PSS it does of each beside
 * the first one. Before there was such a look all that is sure is what the largest has; the rest is counted with it.
 */
static int64_t memory_of(monitor *m, const store_sample *s)
{
    if (s->processes <= 1)
        return s->rss;
    if (!m->pss_processes) {
        m->uncertain = most(m->uncertain, s->rss);
        return m->largest;
    }
    const int64_t twice = m->pss_less / (m->pss_processes - 1) * (s->processes - 1);
    const int64_t before = most(m->uncertain - twice, 0);
    m->uncertain = 0;
    m->totals.peak_memory = most(m->totals.peak_memory, before);
    return s->pss >= 0 ? s->pss : most(s->rss - twice, m->largest);
}

static bool is_mine(const void *user, pid_t pid)
{
    return tree_has(user, pid);
}

/* While a process comes to a GPU, questions to the driver take long: tens of milliseconds have been seen. */
static bool on_gpu(const monitor *m, const char *phase)
{
    static const char *const before[] = {"import", "build", "load"};
    bool there = m->options.gpu;
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        there &= strcmp(phase, before[i]) != 0;
    return there;
}

static void look_gpu(monitor *m, store_sample *s)
{
    gpu_look(&m->gpu, is_mine, m, lab_now(), strcmp(s->phase, "epoch") == 0);
}

static void count_epochs(monitor *m, const char *phase, double now)
{
    energy_read(&m->energy);
    if (strcmp(phase, "epoch") == 0) {
        m->cpu_epochs += m->total.cpu - m->cpu_last;
        m->energy_epochs += m->energy.joules - m->energy_last;
        m->time_epochs += now - m->time_last;
    }
    m->cpu_last = m->total.cpu;
    m->energy_last = m->energy.joules;
    m->time_last = now;
}

static brasa_status keep(monitor *m, store_sample *s, double now)
{
    if (now - m->start > FINE && now - m->last < 1)
        return BRASA_OK;
    s->at = now - m->start;
    s->cpu = (m->total.cpu - m->sampled.cpu) / (now - m->last);
    s->ctx = m->total.switches - m->sampled.switches;
    s->faults = m->total.faults - m->sampled.faults;
    s->read_bytes = m->total.reads - m->sampled.reads;
    m->sampled = m->total;
    m->last = now;
    store_sample *grown = pool_grow(&m->pool, m->sample, m->samples, &m->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(m->ctx, (size_t)m->samples * sizeof *grown);
    m->sample = grown;
    m->sample[m->samples++] = *s;
    return BRASA_OK;
}

brasa_status monitor_look(monitor *m, const char *phase)
{
    store_sample s = {.pss = -1, .phase = phase, .memory = -1, .gpu_memory = -1, .gpu_busy = NAN, .gpu_power = NAN};
    const double now = lab_now();
    if (now < m->look.due)
        return BRASA_OK;
    due(m, &m->find, now, PAUSE, look_new, &s);
    due(m, &m->look, now, LOOK_PAUSE, tree_read, &s);
    due(m, &m->switch_, now, PAUSE, look_switches, &s);
    look_memory(m, &s, now);
    s.memory = memory_of(m, &s);
    m->several |= s.processes > 1;
    m->totals.peak_memory = most(m->totals.peak_memory, s.memory);
    if (on_gpu(m, phase)) {
        due(m, &m->gpu_pace, now, LOOK_PAUSE, look_gpu, &s);
        s.gpu_memory = m->gpu.now.memory;
        s.gpu_busy = m->gpu.now.busy;
        s.gpu_power = m->gpu.now.power;
    }
    count_epochs(m, phase, now);
    return s.processes ? keep(m, &s, now) : BRASA_OK; /* who is over, and only not waited for yet, uses nothing */
}

monitor_totals monitor_nothing(void)
{
    return (monitor_totals){.peak_rss = -1,
                            .peak_pss = -1,
                            .peak_swap = -1,
                            .peak_memory = -1,
                            .threads_max = -1,
                            .gpu_peak = -1,
                            .gpu_busy = NAN,
                            .gpu_power = NAN,
                            .gpu_energy_j = NAN};
}

/* False: out of memory. */
static bool sum_up_gpu(const monitor *m, pool *p, monitor_totals *out)
{
    if (!m->options.gpu)
        return true;
    const gpu_sums g = gpu_sum_up(&m->gpu);
    out->gpu_peak = g.peak;
    out->gpu_busy = g.busy;
    out->gpu_power = g.power;
    out->gpu_energy_j = g.joules;
    return !g.why || (out->gpu_why = pool_text(p, "%s", g.why));
}

brasa_status monitor_results(monitor *m, pool *p, monitor_totals *out, store_sample **samples, int *count)
{
    const double wall = lab_now() - m->start;
    const bool epochs = m->time_epochs > 0;
    *out = m->totals;
    /* One process alone the kernel has watched all the time. */
    out->peak_memory = m->several ? most(most(out->peak_memory, m->uncertain), m->one) : out->peak_rss;
    out->children = m->seen > 1 ? m->seen - 1 : 0;
    out->cpu_seconds = larger(m->total.cpu, m->reaped.cpu);
    out->cpu_mean = epochs ? m->cpu_epochs / m->time_epochs : out->cpu_seconds / wall;
    out->ctx_switches = most(m->total.switches, m->reaped.switches);
    out->faults = most(m->total.faults, m->reaped.faults);
    out->read_bytes = most(m->total.reads, m->reaped.reads);
    energy_read(&m->energy);
    out->energy_j = !m->energy.packages ? NAN : epochs ? m->energy_epochs : m->energy.joules;
    out->energy_why = m->energy.packages ? NULL : pool_text(p, "%s", m->energy.why);
    out->share = wall < LEAST_WALL ? NAN : (lab_cpu() - m->cpu_before) / wall;
    *count = m->samples;
    *samples = pool_get(p, (size_t)m->samples + 1, sizeof **samples);
    if (!*samples || (!m->energy.packages && !out->energy_why) || !sum_up_gpu(m, p, out))
        return fail_memory(m->ctx, (size_t)m->samples * sizeof **samples);
    if (m->samples)
        memcpy(*samples, m->sample, (size_t)m->samples * sizeof **samples);
    return BRASA_OK;
}
