/* accuracy.h - the attribute of accuracy, which all of its kernels read. */
#ifndef OPS_ACCURACY_H
#define OPS_ACCURACY_H

#include "ops/op.h"

typedef struct accuracy_attr {
    int top;
} accuracy_attr;

#endif
