/* gpu.h - what a run does with a GPU, from outside: memory of its processes, how busy the GPU is, power, energy.
 *
 * NVML tells (core/nvml.h). The GPU of a run is the one in whose memory one of its processes is; where NVML's numbers
 * of processes are not ours, as in some containers, the one whose memory has grown most since the start, and the
 * growth counts as the run's. Power and how busy it is are of all that runs there, so that they mean something for
 * one run only on a GPU that does nothing else. */
#ifndef LAB_GPU_H
#define LAB_GPU_H

#include "core/nvml.h"

#include <sys/types.h>

enum { MOST_GPUS = 16 };

/* NAN, -1: not read. */
typedef struct gpu_figures {
    int64_t memory;
    double busy;  /* 0 ... 1 */
    double power; /* watts */
} gpu_figures;

/* Of the time between two looks at an epoch. What was seen is taken to hold since the look before; energy is the
 * counter's or, where there is none, that of the power that was seen. */
typedef struct gpu_time {
    double seconds, busy, joules;
} gpu_time;

typedef struct gpu {
    nvml *library; /* NULL: it cannot be read */
    nvml_gpu *all[MOST_GPUS];
    uint64_t before[MOST_GPUS]; /* bytes in use at the start */
    int count;
    int chosen;   /* of all; -1: the run has no memory on any yet */
    bool listed;  /* its processes are known by their numbers */
    bool metered; /* the energy could always be read, or told by the power */
    gpu_figures now;
    int64_t peak;
    gpu_time epochs;
    bool in_epoch;        /* at the last look */
    double counter, last; /* joules and clock of the last look; NAN: none yet */
    char why[160];        /* what could not be read: "not readable: ..."; "": nothing is missing */
} gpu;

/* Busy, power and joules are of the epochs as far as they were between two looks, and NAN where that is less than a
 * second together: the driver's figures are means of up to a second. */
typedef struct gpu_sums {
    int64_t peak;
    double busy, power, joules;
    const char *why; /* what is missing; NULL: nothing. Lives as long as the gpu */
} gpu_sums;

/* Gives what a look takes of a processor, in seconds; the first one, which may load things, is made here. */
double gpu_open(gpu *g);
/* Brings g->now up to date. `mine` tells which processes are the run's, `clock` is in seconds, `epoch`: the run is
 * in one. */
void gpu_look(gpu *g, bool (*mine)(const void *user, pid_t pid), const void *user, double clock, bool epoch);
gpu_sums gpu_sum_up(const gpu *g);
void gpu_close(gpu *g);

#endif
