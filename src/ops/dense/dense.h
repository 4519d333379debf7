/* dense.h - what the kernels of the fully connected layer share. */
#ifndef OPS_DENSE_H
#define OPS_DENSE_H

#include "ops/op.h"

typedef struct dense_attr {
    int features;
    bool bias;
    int init;
    double init_value;
} dense_attr;

extern const op_def dense_op;              /* in: src, wei [, bia]; out: dst */
extern const op_def dense_grad_data_op;    /* in: wei, ddst;        out: dsrc */
extern const op_def dense_grad_weights_op; /* in: src, ddst;        out: dwei [, dbia] */

/* Inputs of a sample: all but the first axis. */
static inline int64_t dense_inputs(const shape *src)
{
    return shape_span(src, 1, src->rank);
}

#endif
