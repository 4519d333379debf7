/* concat.h - what the kernels of concat and of its gradient share. */
#ifndef OPS_CONCAT_H
#define OPS_CONCAT_H

#include "ops/op.h"

typedef struct concat_attr {
    int axis;
} concat_attr;

typedef struct slice_attr {
    int axis;
    int64_t start, length;
} slice_attr;

extern const op_def concat_op; /* in: any number;   out: dst */
extern const op_def slice_op;  /* in: src;          out: dst = elements start ... start + length - 1 of the axis */

#endif
