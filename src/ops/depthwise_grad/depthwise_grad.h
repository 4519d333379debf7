/* depthwise_grad.h - both gradients of a depthwise convolution. Its attributes are a conv2d_attr. */
#ifndef OPS_DEPTHWISE_GRAD_H
#define OPS_DEPTHWISE_GRAD_H

#include "ops/conv2d/conv2d.h"

extern const op_def depthwise_grad_op; /* in: src, wei, ddst; out: dsrc, dwei [, dbia] */

/* Each channel has a kernel of its own, and one output. */
static inline bool depthwise_is(const conv2d_attr *t, const shape *src)
{
    return t->groups == src->dim[1] && t->groups == t->channels;
}

#endif
