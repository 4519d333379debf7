/* threads.h - how many threads there may be, and what state they compute in.
 *
 * There is one pool: OpenMP's, shared with the libraries that use it too. Its size is asked for on each
 * parallel loop (num_threads), never set for the whole process.
 */
#ifndef CORE_THREADS_H
#define CORE_THREADS_H

#include <stdint.h>

/* CPUs this process may use: the affinity mask, cut down to the cgroup's CPU quota, rounded down; at least 1. */
int threads_available(void);

/* Splits items 0 .. items - 1 into one range for each thread and calls range(user, begin, end) in each; with one
 * thread, or one item, in the caller. The only place where work is handed to the pool. */
void threads_for(int threads, int64_t items, void (*range)(void *user, int64_t begin, int64_t end), void *user);

/* Libraries that share the pool ask OpenMP how large it is: sets that for the calling thread, returns what it was. */
int threads_pool(int threads);

/* Denormal numbers cost a hundred cycles each and mean nothing in training. Between these two calls they count
 * as zero in the calling thread and in the pool of `threads`; threads_leave puts everything back. */
typedef struct threads_state {
    unsigned saved;
    int pool;
} threads_state;
threads_state threads_enter(int threads); /* also sets the pool's size */
void threads_leave(threads_state state, int threads);

#endif
