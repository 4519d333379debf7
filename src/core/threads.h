/* threads.h - how many threads there may be, and what state they compute in.
 *
 * There is one pool: OpenMP's, shared with the libraries that use it too. Its size is asked for on each
 * parallel loop (num_threads), never set for the whole process.
 */
#ifndef CORE_THREADS_H
#define CORE_THREADS_H

#include "brasa.h"

/* CPUs this process may use: the affinity mask, cut down to the cgroup's CPU quota, rounded down, and to what OpenMP
 * grants; at least 1. */
int threads_available(void);

/* How many of so many threads a parallel loop of the caller gets: OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS and the
 * parallel regions that it is in may leave fewer. */
int threads_granted(int wanted);

/* Splits items 0 .. items - 1 into one range for each thread and calls range(user, begin, end) in each; with one
 * thread, or one item, in the caller. The only place where work is handed to the pool. */
void threads_for(int threads, int64_t items, void (*range)(void *user, int64_t begin, int64_t end), void *user);

/* Libraries that share the pool ask OpenMP how large it is: sets that for the calling thread, returns what it was. */
int threads_pool(int threads);

/* Denormal numbers cost a hundred cycles each and mean nothing in training. Between these two calls they count
 * as zero in the calling thread and in the pool of `threads`; threads_leave puts everything back. The pool has just
 * so many threads in between, which kernels rely on: oneDNN's wait for each other. Fails where OpenMP gives fewer. */
typedef struct threads_state {
    unsigned saved;
    int pool;
    bool dynamic;
} threads_state;
brasa_status threads_enter(brasa_context *ctx, int threads, threads_state *out);
void threads_leave(threads_state state, int threads);

#endif
