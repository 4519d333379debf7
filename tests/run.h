/* run.h - a network that learns a made-up task (task.h), on the CPU or on a device. After test.h. */
#ifndef TEST_RUN_H
#define TEST_RUN_H

#include "task.h"

typedef struct run {
    brasa_graph *g;
    brasa_session *s; /* NULL: it failed, and the case with it */
    task t;
} run;

/* A session of its graph. */
static inline void run_session(run *r, const brasa_session_options *o)
{
    if (brasa_session_new(r->g, o, &r->s) != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s", brasa_graph_error(r->g));
}

static inline void run_end(run *r)
{
    brasa_session_free(r->s);
    brasa_graph_free(r->g);
    task_free(&r->t);
}

#endif
