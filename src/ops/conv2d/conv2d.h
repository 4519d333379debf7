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
/* The last one and the update of the weights: see conv2d_update.c.
 * in: src, ddst, wei, rate, steps, slots ...; out: wei, slots ... [, dbia] */
extern const op_def conv2d_update_op;

/* Where the update joins the gradient of the weights: at most so many outputs of a channel in all samples, with one
 * tap and with more, at most so many taps, at least so many channels on either side. More outputs have other kernels:
 * Winograd's for 3 x 3, oneDNN's for 1 x 1. The step of resnet50 at batch 1 on two cores of an AMD EPYC (Zen 4), in
 * the slow state of its memory, took 159 ms apart, 154.5 with at most 98 outputs of one tap, 149 with 196. */
enum {
    CONV2D_UPDATE_PIXELS = 196,
    CONV2D_UPDATE_PIXELS_WIDE = 49,
    CONV2D_UPDATE_TAPS = 9,
    CONV2D_UPDATE_CHANNELS = 16,
};
/* The rule of fusion. */
bool conv2d_fuse_update(graph *g, int i);

#endif
