/* dialect.h - whose formulas and defaults a network follows.
 *
 * Frameworks disagree on equations, on defaults and even on what a setting means, and published comparisons were
 * misled by it (MNIST at 82 % instead of 99 % because one Adadelta starts at a rate of 0.001 and another at 1).
 * All the differences that Brasa knows are the fields of this struct; `brasa dialects` prints them.
 */
#ifndef GRAPH_DIALECT_H
#define GRAPH_DIALECT_H

#include "core/fields.h"

typedef enum sgd_form {
    SGD_RATE_OUTSIDE, /* v = m v + g;     p -= rate v;   Nesterov: p -= rate (g + m v) */
    SGD_RATE_INSIDE,  /* v = m v - rate g; p += v;       Nesterov: p += m v - rate g */
} sgd_form;

typedef enum epsilon_place {
    EPSILON_OUTSIDE_ROOT, /* g / (sqrt(v) + e) */
    EPSILON_INSIDE_ROOT,  /* g / sqrt(v + e) */
} epsilon_place;

typedef enum adam_form {
    ADAM_CORRECTED,   /* rate m' / (sqrt(v') + e), m' and v' corrected for the start at zero */
    ADAM_EPSILON_HAT, /* rate sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + e): e grows as t does */
} adam_form;

typedef enum decay_form {
    DECAY_L2,        /* g += decay p, before anything else */
    DECAY_DECOUPLED, /* p -= rate decay p, beside what the gradient does */
} decay_form;

typedef enum clip_form {
    CLIP_TORCH, /* scale = min(1, limit / (norm + 1e-6)) */
    CLIP_EXACT, /* scale = min(1, limit / norm) */
} clip_form;

typedef enum initializer_kind {
    INIT_ZERO,
    INIT_ONE,
    INIT_HE_UNIFORM,     /* +- sqrt(6 / fan_in) */
    INIT_HE_NORMAL,      /* deviation sqrt(2 / fan_in) */
    INIT_GLOROT_UNIFORM, /* +- sqrt(6 / (fan_in + fan_out)) */
    INIT_GLOROT_NORMAL,  /* deviation sqrt(2 / (fan_in + fan_out)) */
    INIT_FAN_IN_UNIFORM, /* +- 1 / sqrt(fan_in): PyTorch's kaiming_uniform(a = sqrt(5)), for weight and bias */
    INIT_CAFFE_XAVIER,   /* +- sqrt(3 / fan_in) */
    INIT_CONSTANT,       /* the number that the layer is given as init_value */
    INIT_DIALECT,        /* what the dialect says for a weight */
} initializer_kind;
extern const char *const initializer_words[]; /* by initializer_kind, NULL-terminated */

typedef enum variance_form {
    VARIANCE_BIASED,           /* the running variance takes sum / n */
    VARIANCE_UNBIASED,         /* sum / (n - 1) */
    VARIANCE_UNBIASED_EPSILON, /* sum / (n - 1 - epsilon) */
} variance_form;

typedef enum same_form {
    SAME_EVEN,   /* stride 1 only; d (k - 1) pixels in all, the odd one at the end */
    SAME_CEIL,   /* output = ceil(input / stride); the odd pixel at the end */
    SAME_MIRROR, /* d (k - 1) / 2 on both sides, rounded down */
} same_form;

typedef struct dialect {
    const char *name, *summary;

    int sgd;
    double sgd_rate; /* 0: the framework has no default, so one must be given */
    double rmsprop_rate, rmsprop_rho, rmsprop_epsilon;
    int rmsprop_place;
    double adadelta_rate, adadelta_rho, adadelta_epsilon;
    double adam_rate, adam_epsilon;
    int adam;
    bool adamw; /* false: the framework has none */
    double adamw_decay;
    int weight_decay; /* of every optimizer but AdamW, whose name says that it is decoupled */
    int clip;

    int weight_init, bias_init;
    bool truncated_normal; /* he_normal and glorot_normal are cut at two deviations, and wider before that */

    double batchnorm_momentum; /* the share of the new value in the running one */
    double batchnorm_epsilon;
    int batchnorm_variance;
    bool batchnorm_debias; /* the running value is a mean of what was seen, not a decaying start value */

    int lrn_size;
    double lrn_alpha, lrn_beta, lrn_k;
    bool lrn_divide; /* alpha is divided by the window's size */

    int same;
    bool avgpool_counts_padding;
} dialect;

/* By name, or NULL; and by index, NULL past the last one. */
const dialect *dialect_find(const char *name);
const dialect *dialect_at(int index);
/* The fields with a sentence each, for printing. */
extern const field dialect_fields[];

#endif
