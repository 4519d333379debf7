/* moving_average.h - the settings of the node that keeps running statistics.
 *
 *     in:  running, stat, steps done (i64 scalar)
 *     out: running, rewritten
 */
#ifndef OPS_MOVING_AVERAGE_H
#define OPS_MOVING_AVERAGE_H

#include "core/on_device.h"
#include "ops/op.h"

#include <math.h>

typedef struct moving_average_attr {
    double share; /* of the new value in the running one */
    double scale; /* the new value is scale * stat */
    bool debias;  /* running is the weighted mean of the values seen; what it started with is forgotten */
} moving_average_attr;

/* The share of the n-th value, from 1. */
static inline ON_DEVICE double moving_average_share(const moving_average_attr *t, int64_t n)
{
    if (!t->debias)
        return t->share;
    /* 1 - (1 - share)^n, without losing a small share to rounding. */
    const double all = -expm1((double)n * log1p(-t->share));
    return t->share == 0 ? 1 / (double)n : t->share / all;
}

#endif
