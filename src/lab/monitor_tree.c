/* monitor_tree.c - which processes belong to a run, what they have together, and how they end: see monitor_parts.h.
 *
 * Sums over the tree (processor time, faults, reads) are those of the processes that live, which hold those of the
 * children that they waited for, and those of the ones that this process waited for. While a child passes from one to
 * the other it may be missing for a look, or be there twice: sums only ever grow here, so such a look shows nothing
 * new.
 */
#define _GNU_SOURCE
#include "lab/monitor_parts.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

bool tree_has(const monitor *m, pid_t pid)
{
    for (int i = 0; i < m->count; i++)
        if (m->list[i].proc.pid == pid)
            return true;
    return false;
}

/* What cannot be opened is gone already; beyond MOST_WATCHED nobody is watched. */
bool tree_add(monitor *m, pid_t pid)
{
    watched *w = &m->list[m->count];
    if (m->count == MOST_WATCHED)
        return false;
    *w = (watched){.switches = 0};
    const bool there = proc_open(pid, &w->proc) && proc_read(&w->proc, &w->now);
    if (!there)
        proc_close(&w->proc);
    m->count += there;
    m->seen += there;
    return there;
}

void tree_drop(monitor *m, int index)
{
    proc_close(&m->list[index].proc);
    m->list[index] = m->list[--m->count];
}

/* Of the processes in `fresh` those whose parent belongs to it, or that came to us; their number is left for a
 * further turn, as a parent may stand behind its child. */
static int add_children(monitor *m, pid_t *fresh, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++) {
        const pid_t parent = proc_parent(fresh[i]);
        if (parent && (parent == m->self || tree_has(m, parent)))
            tree_add(m, fresh[i]);
        else if (parent)
            fresh[left++] = fresh[i];
    }
    return left;
}

/* Goes through the numbers of all processes; only those that were not there at the last time are looked at. */
void tree_find_new(monitor *m)
{
    int fresh = 0, k = 0;
    const int count = proc_list(m->all, m->listed, MOST_LISTED);
    pid_t *list = m->listed, *unknown = m->before + MOST_LISTED;
    for (int i = 0; i < count; i++) {
        while (k < m->nbefore && m->before[k] < list[i])
            k++;
        if ((k == m->nbefore || m->before[k] != list[i]) && list[i] != m->self && !tree_has(m, list[i]))
            unknown[fresh++] = list[i];
    }
    for (int left = fresh, last = -1; left > 0 && left != last;) {
        last = left;
        left = add_children(m, unknown, left);
    }
    memcpy(m->before, list, (size_t)count * sizeof *list);
    m->nbefore = count;
}

void tree_read(monitor *m, store_sample *s)
{
    sums t = m->reaped;
    int64_t most_rss = 0;
    m->largest = 0;
    for (int i = 0; i < m->count;) {
        watched *w = &m->list[i];
        if (!proc_read(&w->proc, &w->now)) {
            tree_drop(m, i);
            continue;
        }
        t.cpu += w->now.cpu;
        t.faults += w->now.faults;
        t.reads += most(w->now.read_bytes, 0);
        s->rss += w->now.rss;
        s->swap += most(w->now.swap, 0);
        s->threads += w->now.state == 'Z' ? 0 : w->now.threads;
        s->processes += w->now.state != 'Z';
        most_rss = most(most_rss, w->now.most_rss);
        m->largest = most(m->largest, w->now.rss);
        i++;
    }
    m->total.cpu = larger(m->total.cpu, t.cpu);
    m->total.faults = most(m->total.faults, t.faults);
    m->total.reads = most(m->total.reads, t.reads);
    m->rss = s->rss;
    if (!s->processes) /* those that are over had something, which nobody knows any more */
        return;
    m->totals.peak_rss = most(m->totals.peak_rss, most(s->rss, most_rss));
    m->one = most(m->one, most_rss);
    m->totals.peak_swap = most(m->totals.peak_swap, s->swap);
    m->totals.threads_max = most(m->totals.threads_max, s->threads);
}

int monitor_left(const monitor *m)
{
    return m->count;
}

/* --- ends ---------------------------------------------------------------------------------------------------- */

int monitor_signal(monitor *m, int signal)
{
    store_sample unused = {.pss = -1};
    tree_find_new(m);
    tree_read(m, &unused);
    int living = 0;
    for (int i = 0; i < m->count; i++)
        if (m->list[i].now.state != 'Z') {
            kill(m->list[i].proc.pid, signal); /* no other process can have its number: it was there just now */
            living++;
        }
    return living;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void count_reaped(monitor *m, const struct rusage *u)
{
    enum { SECTOR = 512 };
    m->reaped.cpu += seconds(u->ru_utime) + seconds(u->ru_stime);
    m->reaped.faults += u->ru_minflt + u->ru_majflt;
    m->reaped.reads += (int64_t)u->ru_inblock * SECTOR;
    m->reaped.switches += u->ru_nvcsw + u->ru_nivcsw;
    /* The largest of its processes, between looks too. A process that was forked from this one was as large as it. */
    const int64_t largest = u->ru_maxrss * (int64_t)1024;
    m->at_most = most(m->at_most, largest);
    if (largest > m->own_rss) {
        m->totals.peak_rss = most(m->totals.peak_rss, largest);
        m->one = most(m->one, largest);
    }
}

bool monitor_reap(monitor *m, int *how)
{
    for (int i = 0; i < m->count;) {
        watched *w = &m->list[i];
        const bool first = w->proc.pid == m->first;
        struct rusage u;
        int ended;
        if ((!first && w->now.parent != m->self) || wait4(w->proc.pid, &ended, WNOHANG, &u) <= 0) {
            i++;
            continue;
        }
        count_reaped(m, &u);
        if (first) {
            m->first_over = true;
            m->first_how = ended;
        }
        tree_drop(m, i);
    }
    *how = m->first_how;
    return m->first_over;
}
