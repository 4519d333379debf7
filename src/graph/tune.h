/* tune.h - kernels of nodes chosen by the clock.
 *
 * Where several kernels support a node, each runs a few times on made-up numbers, in turns because machines change
 * their speed, and the fastest is taken: tune.c decides, tune_time.c measures. The problem of a choice is the node:
 * op, shapes, attributes, layouts. Where the graph's tuner asks nothing, a node takes the first kernel of its list.
 */
#ifndef GRAPH_TUNE_H
#define GRAPH_TUNE_H

#include "ops/op.h"
#include "tune/tuner.h"

/* --- tune.c ---------------------------------------------------------------------------------------------------- */

/* "AMD EPYC 9B14 25/17/1, avx512, brasa 0.1.0, times 3, oneDNN 2.6.3, 2 threads" */
const char *tuner_machine(pool *p);

/* The best kernel for node i, whose own is the first of its list that takes it, with the layouts of its inputs
 * settled. Sets the node's choice; *best is NULL where there is none, or nobody knows. */
brasa_status tuner_choose(tuner *t, graph *g, int i, const kernel **best);

/* --- tune_time.c ------------------------------------------------------------------------------------------------ */

/* Sets nanoseconds of the kernels that c names, on node i; `usual` are the formats of its inputs and outputs that
 * cost nothing. BRASA_NO_KERNEL: there is not room enough. */
brasa_status tuner_measure(tuner *t, graph *g, int i, const format *usual, choice *c);

/* --- select.c -------------------------------------------------------------------------------------------------- */

/* Gives a node a kernel; BRASA_NO_KERNEL where that does not take it. */
brasa_status select_try(graph *g, node *n, const kernel *k);
/* The first kernel of its list that takes a node. */
brasa_status select_first(graph *g, node *n);
/* The formats that the kernel of a node works in: fills in[] and out[]. */
void select_formats(const graph *g, const node *n, format *in, format *out);

#endif
