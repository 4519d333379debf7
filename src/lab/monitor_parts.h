/* monitor_parts.h - what the files of the monitor share: monitor.c looks, monitor_tree.c knows at whom. */
#ifndef LAB_MONITOR_PARTS_H
#define LAB_MONITOR_PARTS_H

#include "lab/energy.h"
#include "lab/gpu.h"
#include "lab/monitor.h"
#include "lab/proc.h"

/* Processes watched, and those of the whole machine. */
enum { MOST_WATCHED = 512, MOST_LISTED = 1 << 16 };

/* A look that is made again and again: not before `due`. */
typedef struct pace {
    double least, due;
    double cost;  /* of the last one; 0: there was none */
    double spent; /* by all */
} pace;

typedef struct watched {
    proc proc;
    proc_figures now;
    int64_t switches; /* of its threads, at the last look at them */
} watched;

/* What only grows. */
typedef struct sums {
    double cpu;
    int64_t faults, reads, switches;
} sums;

struct monitor {
    brasa_context *ctx;
    pool pool;
    monitor_options options;
    pid_t self, first;
    int reaper; /* what it was before */
    DIR *all;
    pid_t *listed, *before; /* processes of the machine: now, at the last look */
    int nbefore;
    int count, seen;
    watched list[MOST_WATCHED];
    double start, last, cpu_before; /* clock; clock of the last sample; own processor time at the start */
    pace look, find, pss, switch_, gpu_pace;
    sums reaped, total, sampled; /* of those waited for; of all; at the last sample */
    bool over_limit, first_over;
    int first_how;
    int64_t rss;
    int64_t pss_bytes;               /* RSS at the last look at PSS */
    int64_t pss_less, pss_processes; /* of several, at the last such look: how much less it was; 0: none */
    int64_t pss_most;                /* processes that it was told of */
    int forced;                      /* looks at PSS because there were more */
    double risen;                    /* when there were; 0: there are not */
    bool several;                    /* there was more than one */
    int64_t largest;                 /* RSS of the largest at the last look */
    int64_t uncertain;               /* RSS of several of whom PSS is not known yet, at most */
    bool much;                       /* more than the limit, as it seems */
    int64_t own_rss;                 /* of this process, at most */
    int64_t one;                     /* the most that one process had, by its own account; 0: nobody looked in time */
    int64_t at_most; /* of those that were over before, which may be our own from before they were others */
    int64_t shared;  /* of a process alone, with others of the machine: what RSS counts too much */
    store_sample *sample;
    int samples, capacity;
    energy energy;
    gpu gpu;
    double energy_epochs, cpu_epochs, time_epochs, cpu_last, energy_last, time_last;
    monitor_totals totals;
};

static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

static inline int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Whether the process belongs to the run. */
bool tree_has(const monitor *m, pid_t pid);
/* False: it is gone, or there are too many. */
bool tree_add(monitor *m, pid_t pid);
void tree_drop(monitor *m, int index);
/* Adds those that were started since the last time. */
void tree_find_new(monitor *m);
/* Reads all of them into the sample, and into the totals; those that are gone are dropped. */
void tree_read(monitor *m, store_sample *s);

#endif
