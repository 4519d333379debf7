/* gelu.h - what the kernels of gelu share. */
#ifndef OPS_GELU_H
#define OPS_GELU_H

#include "ops/op.h"

#define HALF_ROOT     0.70710678118654752440 /* 1 / sqrt(2) */
#define NORMAL_HEIGHT 0.39894228040143267794 /* 1 / sqrt(2 pi) */
#define TANH_SLOPE    0.79788456080286535588 /* sqrt(2 / pi) */
#define TANH_CUBE     0.044715

typedef struct gelu_attr {
    int approximate;
} gelu_attr;

enum { APPROXIMATE_NONE, APPROXIMATE_TANH };

#endif
