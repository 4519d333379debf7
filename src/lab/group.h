/* group.h - a control group with a limit of memory for a runner, where this process may make one: version 2, in our
 * own group or the one above it, of which one passes the memory controller on and belongs to us (systemd gives each
 * user such groups). Version 1 has no groups that are known to be a user's own, so that one must be named, as one of
 * version 2 may be: BRASA_CGROUP. The kernel then keeps the limit; elsewhere the monitor does, ten times a second. */
#ifndef LAB_GROUP_H
#define LAB_GROUP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct group {
    char path[640]; /* "": there is none */
    int procs;      /* cgroup.procs: who writes "0" to it is in the group; -1: none */
    int version;    /* 1 or 2; 0: there is none */
} group;

/* bytes 0: none is made. */
group group_make(int64_t bytes);
/* How many of its processes the kernel has ended for want of memory. */
int64_t group_kills(const group *g);
/* The most memory that all in it had at once; -1: the kernel does not tell. */
int64_t group_peak(const group *g);
/* Removes it, when nobody is left in it. */
void group_remove(group *g);

#endif
