/* threads.c - affinity, cgroup quota, floating-point state. */
#define _GNU_SOURCE
#include "core/threads.h"
#include "core/cgroup.h"

#include <sched.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
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

int threads_available(void)
{
    int cpus = cpus_by_affinity();
    double quota = cgroup_cpus();
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
    fp_set(state);
    if (threads < 2)
        return;
#pragma omp parallel num_threads(threads)
    fp_set(state);
}

void threads_for(int threads, int64_t items, void (*range)(void *user, int64_t begin, int64_t end), void *user)
{
    const int64_t parts = items < threads ? items : threads;
    if (parts <= 1) { /* no parallel region: libgomp would allocate memory for a team of one */
        range(user, 0, items);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int64_t part = 0; part < parts; part++)
        range(user, items * part / parts, items * (part + 1) / parts);
}

int threads_pool(int threads)
{
#ifdef _OPENMP
    int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
#else
    return threads;
#endif
}

threads_state threads_enter(int threads)
{
    threads_state s = {fp_state(), threads_pool(threads)};
    fp_set_all(fp_flushing(s.saved), threads);
    return s;
}

void threads_leave(threads_state state, int threads)
{
    fp_set_all(state.saved, threads);
    threads_pool(state.pool);
}
