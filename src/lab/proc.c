/* proc.c - see proc.h, and proc(5). */
#define _GNU_SOURCE
#include "lab/proc.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_SIZE = 4096, PATH_SIZE = 64 };

static int open_in(pid_t pid, const char *name)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The file from its start, as a text. False: nothing came. */
static bool read_again(int fd, char *text, size_t size)
{
    const ssize_t got = fd < 0 ? -1 : pread(fd, text, size - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* The number behind `name` in lines such as "VmSwap:     12 kB", or -1. */
static int64_t member(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

static int64_t kilobytes(const char *text, const char *name)
{
    const int64_t value = member(text, name);
    return value < 0 ? -1 : value * 1024;
}

bool proc_open(pid_t pid, proc *out)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    *out = (proc){.pid = pid,
                  .stat = open_in(pid, "stat"),
                  .status = open_in(pid, "status"),
                  .io = open_in(pid, "io"),
                  .rollup = open_in(pid, "smaps_rollup"),
                  .tasks = opendir(path)};
    return out->stat >= 0;
}

void proc_close(proc *p)
{
    const int fds[] = {p->stat, p->status, p->io, p->rollup};
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (p->tasks)
        closedir(p->tasks);
    p->stat = p->status = p->io = p->rollup = -1;
    p->tasks = NULL;
}

/* --- one process --------------------------------------------------------------------------------------------- */

/* "1234 (any name) S 1 ...": the numbers from the fourth field on; the name may hold blanks and parentheses. */
enum {
    PARENT,
    FAULTS = 6,
    CHILD_FAULTS,
    LARGE_FAULTS,
    CHILD_LARGE_FAULTS,
    USER,
    SYSTEM,
    CHILD_USER,
    CHILD_SYSTEM,
    THREADS = 16,
    RSS = 20,
    STAT_NUMBERS
};

static bool split_stat(char *text, char *state, long long number[STAT_NUMBERS])
{
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || !at[2])
        return false;
    *state = at[2];
    at += 3;
    for (int i = 0; i < STAT_NUMBERS; i++)
        number[i] = strtoll(at, &at, 10);
    return true;
}

bool proc_read(const proc *p, proc_figures *out)
{
    char text[STATUS_SIZE];
    long long n[STAT_NUMBERS];
    if (!read_again(p->stat, text, sizeof text) || !split_stat(text, &out->state, n))
        return false;
    out->parent = (pid_t)n[PARENT];
    out->cpu = (double)(n[USER] + n[SYSTEM] + n[CHILD_USER] + n[CHILD_SYSTEM]) / (double)sysconf(_SC_CLK_TCK);
    out->faults = n[FAULTS] + n[CHILD_FAULTS] + n[LARGE_FAULTS] + n[CHILD_LARGE_FAULTS];
    out->rss = n[RSS] * sysconf(_SC_PAGESIZE);
    out->threads = n[THREADS];
    const bool told = read_again(p->status, text, sizeof text);
    out->most_rss = told ? kilobytes(text, "VmHWM:") : -1;
    out->swap = told ? kilobytes(text, "VmSwap:") : -1;
    out->switches =
        told ? member(text, "\nvoluntary_ctxt_switches:") + member(text, "\nnonvoluntary_ctxt_switches:") : -1;
    out->read_bytes = read_again(p->io, text, sizeof text) ? member(text, "\nread_bytes:") : -1;
    return true;
}

/* The file is of the memory that the process had when it was opened: behind a script that becomes another program, it
 * is empty then. */
int64_t proc_pss(proc *p)
{
    char text[STATUS_SIZE];
    if (!read_again(p->rollup, text, sizeof text)) {
        if (p->rollup >= 0)
            close(p->rollup);
        p->rollup = open_in(p->pid, "smaps_rollup");
        if (!read_again(p->rollup, text, sizeof text))
            return -1;
    }
    return kilobytes(text, "\nPss:");
}

int64_t proc_switches(const proc *p)
{
    char text[STATUS_SIZE], path[300];
    int64_t sum = 0;
    if (!p->tasks)
        return -1;
    rewinddir(p->tasks);
    for (struct dirent *e; (e = readdir(p->tasks));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/status", e->d_name);
        const int fd = openat(dirfd(p->tasks), path, O_RDONLY | O_CLOEXEC);
        if (read_again(fd, text, sizeof text))
            sum += member(text, "\nvoluntary_ctxt_switches:") + member(text, "\nnonvoluntary_ctxt_switches:");
        if (fd >= 0)
            close(fd);
    }
    return sum;
}

/* --- all of them --------------------------------------------------------------------------------------------- */

pid_t proc_parent(pid_t pid)
{
    char text[1024], state;
    long long n[STAT_NUMBERS];
    const int fd = open_in(pid, "stat");
    const bool there = read_again(fd, text, sizeof text) && split_stat(text, &state, n);
    if (fd >= 0)
        close(fd);
    return there ? (pid_t)n[PARENT] : 0;
}

int proc_list(DIR *list, pid_t *out, int most)
{
    int count = 0;
    rewinddir(list);
    for (struct dirent *e; count < most && (e = readdir(list));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            out[count++] = (pid_t)strtol(e->d_name, NULL, 10);
    return count;
}

static bool read_once(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool got = read_again(fd, text, size);
    if (fd >= 0)
        close(fd);
    return got;
}

int64_t proc_oom_kills(void)
{
    char text[16384];
    return read_once("/proc/vmstat", text, sizeof text) ? member(text, "\noom_kill ") : -1;
}

/* "cpu  user nice system idle iowait irq softirq steal ..." */
double proc_busy(void)
{
    char text[512];
    long long n[8];
    if (!read_once("/proc/stat", text, sizeof text) || strncmp(text, "cpu ", 4) != 0)
        return NAN;
    char *at = text + 4;
    for (int i = 0; i < 8; i++)
        n[i] = strtoll(at, &at, 10);
    return (double)(n[0] + n[1] + n[2] + n[5] + n[6] + n[7]) / (double)sysconf(_SC_CLK_TCK);
}
