/* dense.h - what the kernels of the fully connected layer share. */
#ifndef OPS_DENSE_H
#define OPS_DENSE_H

#include "ops/optimizer.h"

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

/* Of dense_update: the optimizer's node that it does the work of, as it was. open gives it its kernel. */
typedef struct dense_update_attr {
    node update;
    bool data; /* dsrc is computed, too: the last output */
} dense_update_attr;

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
    return ((const dense_update_attr *)s->attr)->data ? &s->out[s->nout - 1] : NULL;
}

enum { DENSE_WEI = 2, DENSE_SLOTS = UPDATE_SLOTS + 1 }; /* among the inputs of dense_update */

/* For kernel.open: takes the fastest kernel of the optimizer, or its reference. */
brasa_status dense_update_open_fast(graph *g, node *n);
brasa_status dense_update_open_ref(graph *g, node *n);
/* For kernel.layouts: wei and slots as the weights lie; all others stay plain. */
void dense_update_layouts(const graph *g, const node *n, layout *in, layout *out);

/* dbia = the sum of ddst over the samples, where the layer has a bias. */
void dense_update_bias(const step *s);

/* A step of the optimizer over a part of the weights, for one thread. */
typedef struct dense_part {
    step step;
    arg in[UPDATE_SLOTS + MAX_SLOTS], out[1 + MAX_SLOTS];
    const step *whole;
} dense_part;

void dense_part_init(dense_part *p, const step *s);
/* Updates `count` weights from the `first` one on, as they are stored, by their gradient. */
void dense_part_run(dense_part *p, int64_t first, int64_t count, void *gradient);

#endif
