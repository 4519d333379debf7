/* proc.h - what Linux tells about a process in /proc.
 *
 * Files are opened once and read again from their start. A descriptor belongs to its process, not to the number: once
 * the process is gone reading fails, even where another one has got the number since.
 */
#ifndef LAB_PROC_H
#define LAB_PROC_H

#include "core/pool.h"

#include <dirent.h>
#include <sys/types.h>

typedef struct proc {
    pid_t pid;
    int stat, status, io, rollup; /* -1: cannot be read */
    DIR *tasks;
} proc;

/* What was never known is -1. Sums over a process count those of its children that it has waited for. */
typedef struct proc_figures {
    char state; /* 'Z': over, not waited for yet */
    pid_t parent;
    double cpu;                 /* seconds of processor time, children included */
    int64_t faults, read_bytes; /* children included */
    int64_t rss, most_rss, swap, threads;
    int64_t switches; /* of the first thread */
} proc_figures;

/* False: there is no such process any more. To be closed then, too. */
bool proc_open(pid_t pid, proc *out);
void proc_close(proc *p);
/* False: it is gone. */
bool proc_read(const proc *p, proc_figures *out);
/* Its memory, pages that it shares with others divided by their number; walks all its pages. -1: unknown. */
int64_t proc_pss(proc *p);
/* How often its threads were put to sleep or aside, those that live. -1: unknown. */
int64_t proc_switches(const proc *p);

/* The parent of a process, 0: it is gone. */
pid_t proc_parent(pid_t pid);
/* The numbers of all processes, in order, at most `most`; `list` is a handle of /proc. */
int proc_list(DIR *list, pid_t *out, int most);

/* How many processes the kernel has ended for want of memory so far; -1: unknown. */
int64_t proc_oom_kills(void);
/* Seconds of processor time that the whole machine has worked so far, all processors together; NAN: unknown. */
double proc_busy(void);

#endif
