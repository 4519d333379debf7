/* exec.h - programs: graphs made ready, and the loop that runs them. */
#ifndef GRAPH_EXEC_H
#define GRAPH_EXEC_H

#include "graph/graph.h"
#include "graph/plan.h"
#include "ops/op.h"

typedef struct program {
    graph graph;
    int64_t batch;
    bool training;
    memory_plan plan;
    step *steps; /* in order; views have none */
    int nsteps;
    int threads;       /* the most that one of them runs on */
    bool *needed;      /* value -> an INPUT that some node reads */
    bool *fed;         /* value -> an INPUT that was fed since the last run */
    const void **from; /* value -> where the whole batch lies, of an INPUT of a part ... */
    bool *stored;      /* ... and whether in the value's layout */
    void *record;      /* the device's own, from its first run on */
    struct program *next;
} program;

/* Makes the steps of a graph that is planned and has its kernels; pointers come with program_link. */
brasa_status program_prepare(program *p);
/* Points every step into the arena: state[] gives the offset of the session's state, from `persistent`. */
brasa_status program_link(program *p, char *persistent, const int64_t *state_offset, char *transient);
/* Frees what the device recorded: before the program is freed. */
void program_forget(program *p);
/* session/run.c: runs all steps in their order. Nothing is allocated, created, locked or decided here. */
brasa_status program_run(program *p);
/* The same with the time of every node taken. */
brasa_status program_run_profiled(program *p);
/* Step i alone, several times in a row, and how long each took. A node reads what those before it left: to be called
 * for all in their order. */
brasa_status program_repeat(program *p, int i, int times, int64_t *nanoseconds);

#endif
