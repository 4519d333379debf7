/* fuse.h - what the rules of fusion work with.
 *
 * A rule belongs to an op (op_def.fuse): it looks at a node and its neighbours and, where it can, makes one node of
 * them. One is rewritten, the others are removed, both with the functions below, which keep the index of producers
 * and readers up to date. A rule that puts a computation in another node's place sees to the order of nodes: what is
 * read is made before that place, and not yet rewritten where it is state; what is made is read behind it.
 */
#ifndef GRAPH_FUSE_H
#define GRAPH_FUSE_H

#include "graph/graph.h"

/* The node that makes a value, or -1 for inputs and state. */
int fuse_producer(const graph *g, int v);
/* The only node that reads a value, which is then wanted nowhere else, or -1. */
int fuse_only_reader(const graph *g, int v);

/* Whether the context's device has a kernel for a node as it would be; it need not be of the graph. */
bool fuse_has_kernel(const graph *g, const node *n);

/* Node i becomes one like `as`, with these inputs and outputs; false when out of memory, which sticks. */
bool fuse_rewrite(graph *g, int i, node as, int nin, const int *in, int nout, const int *out);
void fuse_remove(graph *g, int i);

#endif
