/* spent.h - where the time of profiled steps went, by node or by kernel: see brasa_session_profile. */
#ifndef SESSION_SPENT_H
#define SESSION_SPENT_H

#include "session/session.h"

/* What one node, or all nodes of a kernel, took and did in all steps that were profiled. */
typedef struct spent {
    const kernel *kernel;
    const node *node; /* of one */
    int nodes;
    int64_t runs; /* of all of them */
    double nanoseconds, flops, bytes;
} spent;

/* Nodes of all programs, that of the updates included: the most that can have been profiled. */
int spent_most(const brasa_session *s);
/* Adds the profiled nodes of a program behind `count`; returns how many there are then. */
int spent_add(const program *p, spent *list, int count);
/* The same of all programs of a session. */
int spent_add_all(const brasa_session *s, spent *list, int count);
/* Adds nodes up by their kernels' names, in place; returns how many kernels. */
int spent_by_kernel(spent *list, int count);
/* The longest first. */
void spent_sort(spent *list, int count);

#endif
