/* threads.c - affinity, cgroup quota, floating-point state. */
#define _GNU_SOURCE
#include "core/threads.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

static int cpus_by_affinity(void)
{
    /* Large enough for any machine Linux runs on (CONFIG_NR_CPUS is at most 8192). */
    unsigned long mask[8192 / (8 * sizeof(unsigned long))] = {0};
    if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)(void *)mask) == 0) {
        int count = CPU_COUNT_S(sizeof mask, (cpu_set_t *)(void *)mask);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

double threads_quota(const char *cpu_max)
{
    char *end;
    double quota = strtod(cpu_max, &end);
    if (end == cpu_max || quota <= 0) /* "max 100000": no limit */
        return 0;
    double period = strtod(end, NULL);
    return period > 0 ? quota / period : 0;
}

static bool read_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fgets(line, size, file) != NULL;
    fclose(file);
    return ok;
}

/* A limit set on any group from ours up to the root holds, so the smallest one counts. */
static double quota_v2(void)
{
    char group[512] = "", path[640], line[128];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(path, (int)sizeof path, file))
        if (strncmp(path, "0::/", 4) == 0)
            snprintf(group, sizeof group, "%.*s", (int)strcspn(path + 3, "\n"), path + 3);
    if (file)
        fclose(file);

    double least = 0;
    for (;;) {
        size_t length = strlen(group);
        if (length && group[length - 1] == '/')
            group[length - 1] = '\0';
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        double quota = read_line(path, line, (int)sizeof line) ? threads_quota(line) : 0;
        if (quota > 0 && (least == 0 || quota < least))
            least = quota;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static double quota_v1(void)
{
    char quota[64], period[64], both[160];
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, (int)sizeof quota) ||
        !read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, (int)sizeof period))
        return 0;
    snprintf(both, sizeof both, "%s %s", quota, period);
    return threads_quota(both);
}

int threads_available(void)
{
    int cpus = cpus_by_affinity();
    double quota = quota_v2();
    if (quota == 0)
        quota = quota_v1();
    if (quota > 0 && quota < cpus)
        cpus = (int)quota;
    return cpus > 0 ? cpus : 1;
}

#if defined(__x86_64__)

enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };

static unsigned fp_state(void)
{
    return _mm_getcsr();
}

static void fp_set(unsigned state)
{
    _mm_setcsr(state);
}

static unsigned fp_flushing(unsigned state)
{
    return state | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO;
}

#elif defined(__aarch64__)

static unsigned fp_state(void)
{
    unsigned long state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    return (unsigned)state;
}

static void fp_set(unsigned state)
{
    unsigned long wide = state;
    __asm__ volatile("msr fpcr, %0" : : "r"(wide));
}

static unsigned fp_flushing(unsigned state)
{
    return state | 1u << 24;
}

#else /* elsewhere denormals stay: slower at worst */

static unsigned fp_state(void)
{
    return 0;
}

static void fp_set(unsigned state)
{
    (void)state;
}

static unsigned fp_flushing(unsigned state)
{
    return state;
}

#endif

/* The pool's threads get the caller's state on leaving: OpenMP starts them with it. */
static void fp_set_all(unsigned state, int threads)
{
#pragma omp parallel num_threads(threads) if (threads > 1)
    fp_set(state);
}

threads_state threads_enter(int threads)
{
    threads_state s = {fp_state()};
    fp_set_all(fp_flushing(s.saved), threads);
    return s;
}

void threads_leave(threads_state state, int threads)
{
    fp_set_all(state.saved, threads);
}
