/* moving_average.h - the settings of the node that keeps running statistics.
 *
 *     in:  running, stat, steps done (i64 scalar)
 *     out: running, rewritten
 */
#ifndef OPS_MOVING_AVERAGE_H
#define OPS_MOVING_AVERAGE_H

#include "ops/op.h"

typedef struct moving_average_attr {
    double share; /* of the new value in the running one */
    double scale; /* the new value is scale * stat */
    bool debias;  /* running is the weighted mean of the values seen; what it started with is forgotten */
} moving_average_attr;

#endif
