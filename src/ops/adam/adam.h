/* adam.h - the attribute of adam, which all of its kernels read. */
#ifndef OPS_ADAM_H
#define OPS_ADAM_H

#include "ops/optimizer.h"

typedef struct adam_attr {
    optimizer_attr base;
    double beta1, beta2, epsilon;
    int form; /* not a field: adam_form */
} adam_attr;

#endif
