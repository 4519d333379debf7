/* monitor.h - watches a process and all that it starts, from outside: Linux, by /proc.
 *
 * Ten times a second processor time, memory, threads, faults, swap and what was read from disks; context switches,
 * which must be asked of every thread, new processes, for which all numbers must be gone through, and PSS, for which
 * the kernel walks all pages (once a second at most), less often where there is much to look at. A GPU is asked
 * (gpu.h) as often, from the first step on; samples between two answers hold the last one. Each kind of look waits
 * until it costs no more than its share of a processor, 1/1000 to 1/250: about a hundredth together at most.
 * Processes that live shorter than a look away may be missed, but their time, faults and reads count for the parent
 * that waits for them. Sums at the end are the kernel's own, not the samples'.
 *
 * Processes that lose their parent come to us: monitor_start makes this process their reaper (PR_SET_CHILD_SUBREAPER)
 * and monitor_end undoes it. Processes that were children of this one before are left alone.
 */
#ifndef LAB_MONITOR_H
#define LAB_MONITOR_H

#include "lab/store.h"

#include <sys/types.h>

typedef struct monitor monitor;

typedef struct monitor_options {
    int64_t memory;            /* bytes that all may have together; 0: any number */
    const char *energy_folder; /* NULL: the machine's */
    bool gpu;                  /* the process computes on a GPU: it is watched, too */
} monitor_options;

/* Before the process is started: from here on orphans come to us. To be ended whatever came back. */
brasa_status monitor_start(brasa_context *ctx, const monitor_options *o, monitor **out);
/* The process, a child of this one; the clock starts. */
void monitor_follow(monitor *m, pid_t pid);
/* When the next look is due: seconds of lab_now. */
double monitor_due(const monitor *m);
/* A look, where one is due; `phase`, a text that stays, is what the process says that it does since the last one. */
brasa_status monitor_look(monitor *m, const char *phase);
/* Whether all together had more than the limit in the last look. */
bool monitor_over(const monitor *m);
/* The memory of the last look: RSS. */
int64_t monitor_memory(const monitor *m);
/* What is known of the limit at the end, between looks too; *peak: the memory that was seen, at most. */
typedef enum monitor_limit { LIMIT_KEPT, LIMIT_PASSED, LIMIT_UNKNOWN } monitor_limit;
monitor_limit monitor_kept(const monitor *m, int64_t *peak);
/* Sends a signal to all of them, first looking for new ones; how many live. */
int monitor_signal(monitor *m, int signal);
/* Waits for those that are over and ours to wait for. Whether the first one is over, how (as of waitpid). */
bool monitor_reap(monitor *m, int *how);
/* How many are left, those that are over and not waited for included. */
int monitor_left(const monitor *m);

/* Since the start; -1, NAN: unknown. */
typedef struct monitor_totals {
    int64_t peak_rss, peak_pss, peak_swap;
    int64_t peak_memory; /* of all together, with what they share counted once */
    double cpu_seconds, cpu_mean;
    int64_t threads_max;
    int64_t children; /* processes seen beside the first one */
    int64_t ctx_switches, faults, read_bytes;
    double energy_j;
    const char *energy_why; /* NULL: it was read */
    int64_t gpu_peak;
    double gpu_busy, gpu_power, gpu_energy_j; /* as of a store_row */
    const char *gpu_why;                      /* what of it could not be read; NULL: nothing was missing, or wanted */
    double share; /* of a processor that the watching process itself took; NAN: too short a run to tell */
} monitor_totals;
/* Of a process that was never started. */
monitor_totals monitor_nothing(void);
/* Samples and texts are in the pool. */
brasa_status monitor_results(monitor *m, pool *p, monitor_totals *out, store_sample **samples, int *count);
void monitor_end(monitor *m);

#endif
