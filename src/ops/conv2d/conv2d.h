/* conv2d.h - what the kernels of convolution share: the attributes, and the ops of its three products. */
#ifndef OPS_CONV2D_H
#define OPS_CONV2D_H

#include "ops/window.h"

typedef struct conv2d_attr {
    window_attr window;
    int channels, groups;
    bool bias;
    int init;
    double init_value;
} conv2d_attr;

extern const op_def conv2d_op;              /* in: src, wei [, bia]; out: dst */
extern const op_def conv2d_grad_data_op;    /* in: wei, ddst;        out: dsrc */
extern const op_def conv2d_grad_weights_op; /* in: src, ddst;        out: dwei [, dbia] */

#endif
