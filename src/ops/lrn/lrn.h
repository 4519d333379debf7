/* lrn.h - what the kernels of local response normalization share. */
#ifndef OPS_LRN_H
#define OPS_LRN_H

#include "ops/op.h"

typedef struct lrn_attr {
    int size;
    double alpha, beta, k;
    bool divide;
} lrn_attr;

extern const op_def lrn_op;      /* in: src;         out: dst */
extern const op_def lrn_grad_op; /* in: src, ddst;   out: dsrc */

typedef struct lrn {
    int64_t N, C, HW, below, above;
    double alpha, beta, k; /* alpha' */
} lrn;

static inline lrn lrn_of(const lrn_attr *t, const shape *src)
{
    return (lrn){
        .N = src->dim[0],
        .C = src->dim[1],
        .HW = shape_span(src, 2, 4),
        .below = t->size / 2,
        .above = (t->size - 1) / 2,
        .alpha = t->divide ? t->alpha / t->size : t->alpha,
        .beta = t->beta,
        .k = t->k,
    };
}

/* The squares and a power, which counts as ten. */
static inline double lrn_work(const lrn *v)
{
    return (double)(v->N * v->C * v->HW) * (2.0 * (double)(v->below + 1 + v->above) + 10);
}

#endif
