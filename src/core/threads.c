/* threads.c - affinity, cgroup quota, OpenMP's limits, floating-point state. */
#define _GNU_SOURCE
#include "core/threads.h"
#include "core/cgroup.h"
#include "core/context.h"

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
    return cpus > 0 ? threads_granted(cpus) : 1;
}

int threads_granted(int wanted)
{
#ifdef _OPENMP
    if (omp_get_active_level() >= omp_get_max_active_levels())
        return 1;
    int granted = omp_get_thread_limit();
    for (int level = 1; level <= omp_get_level(); level++) /* all threads around this one may ask for as many */
        granted /= omp_get_team_size(level);
    return granted < 1 ? 1 : granted < wanted ? granted : wanted;
#else
    return wanted;
#endif
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

/* The pool's threads get the caller's state on leaving: OpenMP starts them with it. Returns how many there are. */
static int fp_set_all(unsigned state, int threads)
{
    int team = 0;
    fp_set(state);
    if (threads < 2)
        return threads;
#pragma omp parallel num_threads(threads) reduction(+ : team)
    {
        fp_set(state);
        team++;
    }
#ifdef _OPENMP
    return team;
#else
    return threads; /* whatever is asked for runs in one */
#endif
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

/* Whether OpenMP may give fewer threads where the machine is busy; returns what it was. */
static bool set_dynamic(bool dynamic)
{
#ifdef _OPENMP
    const bool before = omp_get_dynamic();
    omp_set_dynamic(dynamic);
    return before;
#else
    return dynamic;
#endif
}

brasa_status threads_enter(brasa_context *ctx, int threads, threads_state *out)
{
    *out = (threads_state){.saved = fp_state(), .pool = threads_pool(threads), .dynamic = set_dynamic(false)};
    const int team = fp_set_all(fp_flushing(out->saved), threads);
    if (team >= threads)
        return BRASA_OK;
    threads_leave(*out, threads);
    return fail(ctx, BRASA_WRONG_STATE,
                "OpenMP gives %d of %d threads here: inside a parallel region, make the context there, or for one "
                "thread",
                team, threads);
}

void threads_leave(threads_state state, int threads)
{
    fp_set_all(state.saved, threads);
    set_dynamic(state.dynamic);
    threads_pool(state.pool);
}
