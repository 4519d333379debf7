/* cases.h - an op's case, turned into a graph: what the tests prove and what `brasa bench ops` measures.
 *
 * The inputs are parameters, so that their gradients are computed like any other; labels are an input. They carry
 * the shapes that the case states, whatever the batch size of the program made of the graph.
 */
#ifndef OPS_CASES_H
#define OPS_CASES_H

#include "ops/op.h"

enum { CASE_MAX_IN = 16 };

/* Builds the whole case into an empty graph: inputs "x0", "x1", ..., the layer, named as its op, its output "y" and
 * the loss. The error sticks to the graph. */
brasa_status case_build(graph *g, const op_def *op, const op_case *c);

/* The same piece by piece, for those who want something in between. Values, or -1 on error, which sticks. */

/* Makes the inputs; returns how many. in[] has room for CASE_MAX_IN. */
int case_inputs(graph *g, const op_case *c, int *in);
/* Applies the layer; returns its output 0. */
int case_layer(graph *g, const op_def *op, const op_case *c, int nin, const int *in);
/* Names y "y" and makes the loss: y itself where it is a scalar, else its mean squared distance from a buffer
 * "target". A y that is not real has none. */
void case_loss(graph *g, int y);

/* Shapes as in op_case.in: reads the next word of *text and moves past it; false at the end. Sets the rank to -1
 * where the word is no shape, and `labels` to K where it is "labels:K". */
bool case_next_shape(const char **text, shape *out, int *labels);

#endif
