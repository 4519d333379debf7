/* cudnn_parts.h - what cudnn_engines.c and cudnn_trial.c share: the engines that are timed for a problem. */
#ifndef DEVICE_CUDA_CUDNN_PARTS_H
#define DEVICE_CUDA_CUDNN_PARTS_H

#include "device/cuda/cudnn.h"

enum {
    CUDNN_MOST_LISTED = 256, /* of the heuristics: the best come first, but those without tensor cores far behind */
    CUDNN_MOST_TAKEN = 10,   /* of these, for each way, to be timed */
};

typedef struct race {
    cuda_queue *queue;
    cudnn *lib;
    const cudnn_problem *problem;
    cudnn_set graph[CUDNN_MOST_WAYS]; /* of all plans of a way; the winner takes its own along */
    int count;
    cudnn_plan *plan[CUDNN_MOST_WAYS * CUDNN_MOST_TAKEN];
    device_way found[CUDNN_MOST_WAYS];
    float cost[CUDNN_MOST_WAYS];     /* of the best of each way */
    int64_t seen[CUDNN_MOST_LISTED]; /* engines of the way that is gathered, each once */
    int nseen;
    bool without;         /* the run that goes on was begun without an engine: none could be run */
    bool starved;         /* of the host's memory: an engine that is not looked at might have won */
    brasa_status stopped; /* BRASA_OK: nobody has */
    bool lacking;         /* so might one that was looked at, but was not timed for want of memory */
} race;

/* cudnn_trial.c: the number of the plan that costs least, its workspace included; where none could be timed, of the
 * first one of the first way for which there was no room, or -1. Sets r->lacking and r->stopped where it is so. */
int cudnn_race(race *r);

#endif
