/* weighted_sum.h - what the kernels of weighted_sum share. */
#ifndef OPS_WEIGHTED_SUM_H
#define OPS_WEIGHTED_SUM_H

#include "core/fields.h"
#include "ops/op.h"

typedef struct weighted_sum_attr {
    reals weights;
} weighted_sum_attr;

typedef struct scale_attr {
    double factor;
} scale_attr;

#endif
