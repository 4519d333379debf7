/* adadelta.h - the attribute of adadelta, which all of its kernels read. */
#ifndef OPS_ADADELTA_H
#define OPS_ADADELTA_H

#include "ops/optimizer.h"

typedef struct adadelta_attr {
    optimizer_attr base;
    double rho, epsilon;
} adadelta_attr;

#endif
