/* dialect.c - the one table of differences between frameworks.
 *
 * Sources: PyTorch 2 documentation of torch.optim, torch.nn and their code; TensorFlow 2 / Keras 3 code of
 * keras.optimizers and keras.layers; stand-alone Keras 2.3.1 code of keras/optimizers.py and keras/layers; Caffe 1.0
 * code of src/caffe/solvers and src/caffe/layers. torch and tfkeras are checked against numbers those frameworks
 * computed (tests/fixtures), keras2 and caffe against their equations in double precision (tests/test_equations.c).
 */
#include "graph/dialect.h"

#include <string.h>

const char *const initializer_words[] = {
    [INIT_ZERO] = "zero",
    [INIT_ONE] = "one",
    [INIT_HE_UNIFORM] = "he_uniform",
    [INIT_HE_NORMAL] = "he_normal",
    [INIT_GLOROT_UNIFORM] = "glorot_uniform",
    [INIT_GLOROT_NORMAL] = "glorot_normal",
    [INIT_FAN_IN_UNIFORM] = "fan_in_uniform",
    [INIT_CAFFE_XAVIER] = "caffe_xavier",
    [INIT_CONSTANT] = "constant",
    [INIT_DIALECT] = "dialect",
    NULL,
};

static const dialect dialects[] = {
    {
        .name = "torch",
        .summary = "PyTorch 2",
        .sgd = SGD_RATE_OUTSIDE,
        .sgd_rate = 0.001,
        .rmsprop_rate = 0.01,
        .rmsprop_rho = 0.99,
        .rmsprop_epsilon = 1e-8,
        .rmsprop_place = EPSILON_OUTSIDE_ROOT,
        .adadelta_rate = 1.0,
        .adadelta_rho = 0.9,
        .adadelta_epsilon = 1e-6,
        .adam_rate = 0.001,
        .adam_epsilon = 1e-8,
        .adam = ADAM_CORRECTED,
        .adamw = true,
        .adamw_decay = 0.01,
        .weight_decay = DECAY_L2,
        .clip = CLIP_TORCH,
        .weight_init = INIT_FAN_IN_UNIFORM,
        .bias_init = INIT_FAN_IN_UNIFORM,
        .batchnorm_momentum = 0.1,
        .batchnorm_epsilon = 1e-5,
        .batchnorm_variance = VARIANCE_UNBIASED,
        .lrn_size = 5,
        .lrn_alpha = 1e-4,
        .lrn_beta = 0.75,
        .lrn_k = 1.0,
        .lrn_divide = true,
        .same = SAME_EVEN,
        .avgpool_counts_padding = true,
    },
    {
        .name = "tfkeras",
        .summary = "TensorFlow 2 with Keras 3",
        .sgd = SGD_RATE_INSIDE,
        .sgd_rate = 0.01,
        .rmsprop_rate = 0.001,
        .rmsprop_rho = 0.9,
        .rmsprop_epsilon = 1e-7,
        .rmsprop_place = EPSILON_INSIDE_ROOT,
        .adadelta_rate = 0.001,
        .adadelta_rho = 0.95,
        .adadelta_epsilon = 1e-7,
        .adam_rate = 0.001,
        .adam_epsilon = 1e-7,
        .adam = ADAM_EPSILON_HAT,
        .adamw = true,
        .adamw_decay = 0.004,
        .weight_decay = DECAY_DECOUPLED,
        .clip = CLIP_EXACT,
        .weight_init = INIT_GLOROT_UNIFORM,
        .bias_init = INIT_ZERO,
        .truncated_normal = true,
        .batchnorm_momentum = 0.01,
        .batchnorm_epsilon = 1e-3,
        .batchnorm_variance = VARIANCE_BIASED,
        .lrn_size = 11,
        .lrn_alpha = 1.0,
        .lrn_beta = 0.5,
        .lrn_k = 1.0,
        .lrn_divide = false,
        .same = SAME_CEIL,
        .avgpool_counts_padding = false,
    },
    {
        .name = "keras2",
        .summary = "stand-alone Keras up to 2.3",
        .sgd = SGD_RATE_INSIDE,
        .sgd_rate = 0.01,
        .rmsprop_rate = 0.001,
        .rmsprop_rho = 0.9,
        .rmsprop_epsilon = 1e-7,
        .rmsprop_place = EPSILON_OUTSIDE_ROOT,
        .adadelta_rate = 1.0,
        .adadelta_rho = 0.95,
        .adadelta_epsilon = 1e-7,
        .adam_rate = 0.001,
        .adam_epsilon = 1e-7,
        .adam = ADAM_EPSILON_HAT,
        .adamw = false,
        .weight_decay = DECAY_L2, /* a regularizer l2(x) of Keras 2 is a decay of 2 x */
        .clip = CLIP_EXACT,
        .weight_init = INIT_GLOROT_UNIFORM,
        .bias_init = INIT_ZERO,
        .truncated_normal = true,
        .batchnorm_momentum = 0.01,
        .batchnorm_epsilon = 1e-3,
        .batchnorm_variance = VARIANCE_UNBIASED_EPSILON,
        .lrn_size = 11, /* Keras 2 has no LRN layer: TensorFlow's function, which its users called */
        .lrn_alpha = 1.0,
        .lrn_beta = 0.5,
        .lrn_k = 1.0,
        .lrn_divide = false,
        .same = SAME_CEIL,
        .avgpool_counts_padding = false,
    },
    {
        .name = "caffe",
        .summary = "Caffe 1.0",
        .sgd = SGD_RATE_INSIDE,
        .sgd_rate = 0,
        .rmsprop_rate = 0,
        .rmsprop_rho = 0.99,
        .rmsprop_epsilon = 1e-8,
        .rmsprop_place = EPSILON_OUTSIDE_ROOT,
        .adadelta_rate = 1.0, /* Caffe's examples set it; rho is its `momentum` */
        .adadelta_rho = 0.95,
        .adadelta_epsilon = 1e-8,
        .adam_rate = 0,
        .adam_epsilon = 1e-8,
        .adam = ADAM_EPSILON_HAT,
        .adamw = false,
        .weight_decay = DECAY_L2,
        .clip = CLIP_EXACT,
        .weight_init = INIT_CAFFE_XAVIER,
        .bias_init = INIT_ZERO,
        .batchnorm_momentum = 0.001,
        .batchnorm_epsilon = 1e-5,
        .batchnorm_variance = VARIANCE_UNBIASED,
        .batchnorm_debias = true,
        .lrn_size = 5,
        .lrn_alpha = 1.0,
        .lrn_beta = 0.75,
        .lrn_k = 1.0,
        .lrn_divide = true,
        .same = SAME_MIRROR,
        .avgpool_counts_padding = true,
    },
};

enum { DIALECTS = sizeof dialects / sizeof dialects[0] };

static const char *const sgd_words[] = {"v=mv+g,p-=rate*v", "v=mv-rate*g,p+=v", NULL};
static const char *const place_words[] = {"sqrt(v)+e", "sqrt(v+e)", NULL};
static const char *const adam_words[] = {"corrected", "epsilon_hat", NULL};
static const char *const decay_words[] = {"g+=decay*p", "p-=rate*decay*p", NULL};
static const char *const clip_words[] = {"limit/(norm+1e-6)", "limit/norm", NULL};
static const char *const variance_words[] = {"n", "n-1", "n-1-e", NULL};
static const char *const same_words[] = {"even,stride_1", "ceil(in/stride)", "mirror", NULL};

/* clang-format off */
#define ROW(type, member, help)    {#member, type, offsetof(dialect, member), "", 0, 0, NULL, false, help}
#define WORDS(member, words, help) {#member, FIELD_WORD, offsetof(dialect, member), "", 0, 0, words, false, help}
/* clang-format on */

const field dialect_fields[] = {
    WORDS(sgd, sgd_words, "SGD with momentum m: does the velocity v hold the rate?"),
    ROW(FIELD_REAL, sgd_rate, "SGD: default learning rate (0: must be given)"),
    ROW(FIELD_REAL, rmsprop_rate, "RMSprop: default learning rate"),
    ROW(FIELD_REAL, rmsprop_rho, "RMSprop: share of the old mean square"),
    ROW(FIELD_REAL, rmsprop_epsilon, "RMSprop: epsilon"),
    WORDS(rmsprop_place, place_words, "RMSprop: where epsilon stands"),
    ROW(FIELD_REAL, adadelta_rate, "Adadelta: default learning rate"),
    ROW(FIELD_REAL, adadelta_rho, "Adadelta: share of the old mean square"),
    ROW(FIELD_REAL, adadelta_epsilon, "Adadelta: epsilon"),
    ROW(FIELD_REAL, adam_rate, "Adam, AdamW: default learning rate"),
    ROW(FIELD_REAL, adam_epsilon, "Adam, AdamW: epsilon"),
    WORDS(adam, adam_words, "Adam, AdamW: epsilon added to the corrected root, or to the raw one"),
    ROW(FIELD_BOOL, adamw, "AdamW exists"),
    ROW(FIELD_REAL, adamw_decay, "AdamW: default weight decay"),
    WORDS(weight_decay, decay_words, "Weight decay of optimizers other than AdamW"),
    WORDS(clip, clip_words, "Clipping by global norm: the scale, at most 1"),
    WORDS(weight_init, initializer_words, "Initial weights of convolution and dense layers"),
    WORDS(bias_init, initializer_words, "Initial biases"),
    ROW(FIELD_BOOL, truncated_normal, "he_normal, glorot_normal: cut at two deviations (of a wider normal)"),
    ROW(FIELD_REAL, batchnorm_momentum, "Batch norm: share of the new value in the running one"),
    ROW(FIELD_REAL, batchnorm_epsilon, "Batch norm: epsilon"),
    WORDS(batchnorm_variance, variance_words, "Batch norm: divisor of the running variance (e: epsilon)"),
    ROW(FIELD_BOOL, batchnorm_debias, "Batch norm: running values corrected for their start"),
    ROW(FIELD_INT, lrn_size, "LRN: default window"),
    ROW(FIELD_REAL, lrn_alpha, "LRN: default alpha"),
    ROW(FIELD_REAL, lrn_beta, "LRN: default beta"),
    ROW(FIELD_REAL, lrn_k, "LRN: default k"),
    ROW(FIELD_BOOL, lrn_divide, "LRN: alpha is divided by the window"),
    WORDS(same, same_words, "'same' padding"),
    ROW(FIELD_BOOL, avgpool_counts_padding, "Average pooling counts the padding in its divisor"),
    {0},
};

const dialect *dialect_at(int index)
{
    return index >= 0 && index < DIALECTS ? &dialects[index] : NULL;
}

const dialect *dialect_find(const char *name)
{
    for (int i = 0; i < DIALECTS; i++)
        if (strcmp(dialects[i].name, name) == 0)
            return &dialects[i];
    return NULL;
}
