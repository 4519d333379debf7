/* guard.h - what the lab has started ends with it, also where it is killed (kill -9) and can end nothing itself.
 *
 * The kernel ends a runner whose parent dies (spawn.h), but nobody whom that runner has started. So a small process
 * of ours waits for the lab's end. Where that comes without a word it ends everybody with the lab's mark in the
 * environment, GUARDED_BY_BRASA, which programs inherit from whoever starts them, in sessions of their own, too.
 */
#ifndef LAB_GUARD_H
#define LAB_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct guard {
    pid_t pid;
    int end; /* of a pipe: it is closed when the lab is over */
} guard;

/* To be called while there is one thread, and nothing is open that the guard must not hold. False: errno says why. */
bool guard_start(guard *out);
/* All is well, and nobody need be ended. */
void guard_end(guard *g);

#endif
