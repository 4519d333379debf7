/* activation.h - kernels and fields of ops that compute each output element from the input element in its place.
 *
 *     FORWARD(sigmoid, 10, , 1 / (1 + exp(-x)))             x: an element of input 0
 *     BACKWARD(sigmoid_grad, 1, , d * y * (1 - y))          y: an element of input 0, d: of input 1, the gradient
 *
 * stand between `#ifdef REAL` and `#else` (ops/real.h). An element counts as `work` simple operations; `declare`
 * declares what the formula takes from s->attr. Both elements are read whatever the formula does with them, so a
 * choice between them is no branch, and the compiler can use vectors.
 */
#ifndef OPS_ACTIVATION_H
#define OPS_ACTIVATION_H

#include "ops/op.h"

#define FORWARD(f, work, declare, ...)                                                                               \
    static void NAME(f##_range)(const step *s, int64_t begin, int64_t end)                                           \
    {                                                                                                                \
        const REAL *src = s->in[0].data;                                                                             \
        REAL *dst = s->out[0].data;                                                                                  \
        declare;                                                                                                     \
        for (int64_t i = begin; i < end; i++) {                                                                      \
            const REAL x = src[i];                                                                                   \
            dst[i] = __VA_ARGS__;                                                                                    \
        }                                                                                                            \
    }                                                                                                                \
    SPLIT_STEP(NAME(f), NAME(f##_range), s->out[0].count, (double)s->out[0].count *(work))

#define BACKWARD(f, work, declare, ...)                                                                              \
    static void NAME(f##_range)(const step *s, int64_t begin, int64_t end)                                           \
    {                                                                                                                \
        const REAL *from = s->in[0].data, *ddst = s->in[1].data;                                                     \
        REAL *dsrc = s->out[0].data;                                                                                 \
        declare;                                                                                                     \
        for (int64_t i = begin; i < end; i++) {                                                                      \
            const REAL y = from[i], d = ddst[i];                                                                     \
            dsrc[i] = __VA_ARGS__;                                                                                   \
        }                                                                                                            \
    }                                                                                                                \
    SPLIT_STEP(NAME(f), NAME(f##_range), s->out[0].count, (double)s->out[0].count *(work))

/* Fields of the op_def. The gradient reads what may be overwritten, where it needs the output only. */
#define ACTIVATION_FIELDS .min_in = 1, .max_in = 1, .infer = infer_same, .in_place = 1, .elementwise = true

#endif
