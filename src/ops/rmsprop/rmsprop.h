/* rmsprop.h - the attribute of rmsprop, which all of its kernels read. */
#ifndef OPS_RMSPROP_H
#define OPS_RMSPROP_H

#include "ops/optimizer.h"

typedef struct rmsprop_attr {
    optimizer_attr base;
    double rho, epsilon, momentum;
    int place, form; /* not fields: epsilon_place, sgd_form */
} rmsprop_attr;

#endif
