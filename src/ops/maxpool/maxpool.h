/* maxpool.h - what the kernels of max-pooling share. Their attributes are a window_attr. */
#ifndef OPS_MAXPOOL_H
#define OPS_MAXPOOL_H

#include "ops/window.h"

extern const op_def maxpool_op;      /* in: src;               out: dst, winner (i32, its place in the input plane) */
extern const op_def maxpool_grad_op; /* in: winner, ddst;      out: dsrc */

/* Rules of fusion (maxpool_fuse.c), for op_def.fuse. */
bool maxpool_fuse(graph *g, int i);
bool maxpool_fuse_grad(graph *g, int i);

#endif
