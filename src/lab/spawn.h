/* spawn.h - starting a runner: its pipes, its environment. */
#ifndef LAB_SPAWN_H
#define LAB_SPAWN_H

#include "lab/group.h"
#include "lab/process.h"

typedef struct spawned {
    pid_t pid; /* 0: it could not be started, for the reason `error` of errno.h */
    int error;
    int output, errors; /* to read from, without waiting */
} spawned;

/* Fails by what goes wrong here; a program that is not there is spawned.error. */
brasa_status spawn(pool *p, const process_request *r, const group *g, spawned *out);

#endif
