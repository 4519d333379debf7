/* spawn.h - starting a process of the lab: its pipes, its environment.
 *
 * It has a process group of its own, so that Ctrl-C reaches us alone, nothing to read, and dies with us; for those
 * whom it starts itself see guard.h. Variables
 * that set numbers of threads, and those that lead Python to other people's packages, are taken out of its
 * environment.
 */
#ifndef LAB_SPAWN_H
#define LAB_SPAWN_H

#include "core/pool.h"
#include "lab/group.h"

#include <sys/types.h>

typedef struct spawn_request {
    const char *const *argv;        /* ended by NULL; a first one without a slash is looked for in PATH */
    const char *const *environment; /* "NAME=value", ended by NULL, added to it; NULL: nothing */
    const char *folder;             /* to run in; NULL: ours */
    const group *group;             /* to be in; NULL: ours */
    bool together;                  /* its standard error goes with its output */
} spawn_request;

typedef struct spawned {
    pid_t pid; /* 0: it could not be started, for the reason `error` of errno.h */
    int error;
    bool apart;         /* it could not join the group, and runs without */
    int output, errors; /* to read from, without waiting; errors is -1 where they go together */
} spawned;

/* Fails by what goes wrong here; a program that is not there is spawned.error. */
brasa_status spawn(pool *p, const spawn_request *r, spawned *out);

#endif
