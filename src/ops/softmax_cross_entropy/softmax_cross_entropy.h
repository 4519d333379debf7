/* softmax_cross_entropy.h - what the kernels of the loss share. */
#ifndef OPS_SOFTMAX_CROSS_ENTROPY_H
#define OPS_SOFTMAX_CROSS_ENTROPY_H

#include "ops/op.h"

typedef struct loss_attr {
    double smoothing;
    bool weights;
    bool part; /* not a field: of a part of a batch, whose labels may all have the weight 0 */
} loss_attr;

enum { LANES = 64 }; /* parts of the batch with a sum each: fixed, so that the result is too */

/* For kernel.workspace: a sum in double for each lane. */
static inline int64_t loss_workspace(const graph *g, const node *n)
{
    (void)g;
    (void)n;
    return LANES * (int64_t)sizeof(double);
}

#endif
