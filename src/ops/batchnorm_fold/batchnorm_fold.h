/* batchnorm_fold.h - what its kernels share. */
#ifndef OPS_BATCHNORM_FOLD_H
#define OPS_BATCHNORM_FOLD_H

#include "ops/batchnorm/batchnorm.h"

/* The tensors of a step by name, but for the weights. */
typedef struct fold_args {
    const void *bia, *gamma, *beta, *mean, *var; /* NULL where there is none */
    double epsilon;
} fold_args;

static inline fold_args fold_args_of(const step *s)
{
    const batchnorm_attr *t = (const batchnorm_attr *)s->attr;
    fold_args a = {.mean = s->in[s->nin - 2].data, .var = s->in[s->nin - 1].data, .epsilon = t->epsilon};
    if (t->affine) {
        a.gamma = s->in[s->nin - 4].data;
        a.beta = s->in[s->nin - 3].data;
    }
    if (s->nin == (t->affine ? 6 : 4))
        a.bia = s->in[1].data;
    return a;
}

#endif
