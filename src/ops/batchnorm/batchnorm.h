/* batchnorm.h - what the kernels of batch norm share, and what fusing makes of its nodes.
 *
 * Forward, a residual may be added before the activation:   dst = act(norm(src) + res).
 * Backward, ddst may be that of the activation's output: the gradient that goes on is zero where the activation is
 * flat. Where that is told from dst it is one more input; without a residual it is told from norm(src), computed
 * again with the same bits, which saves reading dst. What of the gradient passes is dres, the residual's gradient,
 * written where somebody wants it. Where two gradients meet, ddst is the sum of two inputs.
 */
#ifndef OPS_BATCHNORM_H
#define OPS_BATCHNORM_H

#include "ops/op.h"

typedef struct batchnorm_attr {
    double momentum, epsilon;
    bool affine, frozen;
    /* not fields: the dialect's alone */
    int variance; /* variance_form */
    bool debias;
    /* nor these: what fusing made part of the node */
    bool residual;   /* forward: there is res */
    activation flat; /* gradient: ddst is that of this activation's output */
    bool reads_dst;  /* gradient: there is dst */
    bool sums;       /* gradient: there is more */
    bool keeps_dres; /* gradient: there is dres */
} batchnorm_attr;

/* in: src [, res] [, wei, bia];                    out: dst, mean, var */
extern const op_def batchnorm_train_op;
/* in: src [, res] [, wei, bia], mean, var;         out: dst */
extern const op_def batchnorm_eval_op;
/* in: src, ddst [, more] [, dst] [, wei, bia], mean, var;   out: dsrc [, dwei, dbia] [, dres]
 * more is added to ddst.
 * With the batch's statistics the gradient also flows through mean and var, with running ones it does not. */
extern const op_def batchnorm_train_grad_op, batchnorm_eval_grad_op;
/* in: wei [, bia] of a convolution, [, wei, bia], mean, var of the batch norm behind it; out: wei, bia of both in one
 */
extern const op_def batchnorm_fold_op;

/* Rules of fusion (batchnorm_fuse.c), for op_def.fuse. */
bool batchnorm_fuse(graph *g, int i);
bool batchnorm_fuse_grad(graph *g, int i);

/* The tensors of a step by name, NULL where there is none. */
typedef struct batchnorm_args {
    const void *src, *res, *ddst, *more, *dst, *wei, *bia, *mean, *var;
} batchnorm_args;

/* For kernels of a backend, which knows its ops by their names alone. train: mean and var are no inputs. */
static inline batchnorm_args batchnorm_args_in(const step *s, bool forward, bool train)
{
    const batchnorm_attr *t = (const batchnorm_attr *)s->attr;
    batchnorm_args a = {.src = s->in[0].data};
    int k = 1;
    if (forward && t->residual)
        a.res = s->in[k++].data;
    if (!forward)
        a.ddst = s->in[k++].data;
    if (!forward && t->sums)
        a.more = s->in[k++].data;
    if (!forward && t->reads_dst)
        a.dst = s->in[k++].data;
    if (t->affine) {
        a.wei = s->in[k++].data;
        a.bia = s->in[k++].data;
    }
    if (!train) {
        a.mean = s->in[k++].data;
        a.var = s->in[k++].data;
    }
    return a;
}

static inline batchnorm_args batchnorm_args_of(const step *s)
{
    const bool train = s->node->op == &batchnorm_train_op;
    return batchnorm_args_in(s, train || s->node->op == &batchnorm_eval_op, train);
}

#endif
