/* dense.h - what the kernels of the fully connected layer share. */
#ifndef OPS_DENSE_H
#define OPS_DENSE_H

#include "ops/fused_update.h"

typedef struct dense_attr {
    int features;
    bool bias;
    int init;
    double init_value;
} dense_attr;

extern const op_def dense_op;              /* in: src, wei [, bia]; out: dst */
extern const op_def dense_grad_data_op;    /* in: wei, ddst;        out: dsrc */
extern const op_def dense_grad_weights_op; /* in: src, ddst;        out: dwei [, dbia] */
/* The last one and the update of the weights, and with few samples the gradient of the data: see dense_update.c.
 * in: src, ddst, wei, rate, steps, slots ...; out: wei, slots ... [, dbia] [, dsrc] */
extern const op_def dense_update_op;

/* Inputs of a sample: all but the first axis. */
static inline int64_t dense_inputs(const shape *src)
{
    return shape_span(src, 1, src->rank);
}

/* --- dense_update.c --------------------------------------------------------------------------------------------- */

/* At most so many samples have all in one pass: with more the time goes into products, not into memory. The step of
 * alexnet took 46.8 ms apart and 33.8 so with one sample, 63 and 51 with two, 71 and 68 with four, 105 and 122 with
 * eight, on two cores of an AMD EPYC (Zen 4). */
enum { DENSE_FEW = 4 };

/* The rules of fusion: the update joins the gradient of the weights, that of the data joins both. */
bool dense_fuse_update(graph *g, int i);
bool dense_fuse_data(graph *g, int i);
op_cost dense_update_cost(const graph *g, const node *n);

/* The gradient of the data among a step's outputs, or NULL. */
static inline const arg *dense_update_dsrc(const step *s)
{
    return ((const fused_update_attr *)s->attr)->data ? &s->out[s->nout - 1] : NULL;
}

/* dbia = the sum of ddst over the samples, where the layer has a bias. */
void dense_update_bias(const step *s);

#endif
