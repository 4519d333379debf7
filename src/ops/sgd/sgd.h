/* sgd.h - the attribute of sgd, which all of its kernels read. */
#ifndef OPS_SGD_H
#define OPS_SGD_H

#include "ops/optimizer.h"

typedef struct sgd_attr {
    optimizer_attr base;
    double momentum;
    bool nesterov;
    int form; /* not a field: sgd_form */
} sgd_attr;

#endif
