/* threads.h - how many threads there may be, and what state they compute in.
 *
 * There is one pool: OpenMP's, shared with the libraries that use it too. Its size is asked for on each
 * parallel loop (num_threads), never set for the whole process.
 */
#ifndef CORE_THREADS_H
#define CORE_THREADS_H

/* CPUs this process may use: the affinity mask, cut down to the cgroup's CPU quota, rounded down; at least 1. */
int threads_available(void);

/* Denormal numbers cost a hundred cycles each and mean nothing in training. Between these two calls they count
 * as zero in the calling thread and in the pool of `threads`; threads_leave puts everything back. */
typedef struct threads_state {
    unsigned saved;
} threads_state;
threads_state threads_enter(int threads);
void threads_leave(threads_state state, int threads);

#endif
