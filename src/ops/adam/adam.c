/* adam.c - Adam, and AdamW, which is Adam with decoupled weight decay in every dialect.
 *
 *     m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
 *     p -= step m / (root sqrt(v) + epsilon)
 * Both start at zero, which step t corrects with c1 = 1 - b1^t and c2 = 1 - b2^t:
 *     corrected:    step = rate / c1,           root = 1 / sqrt(c2)
 *     epsilon hat:  step = rate sqrt(c2) / c1,  root = 1
 * The corrections are computed in double: 1 - b2^t loses half of a float's digits.
 */
#include "ops/adam/adam.h"

#include <tgmath.h> /* sqrt is sqrtf where REAL is float */

#ifdef REAL

static void NAME(adam_range)(const step *s, int64_t begin, int64_t end)
{
    const adam_attr *t = s->attr;
    const update u = update_read(s);
    const double c1 = 1 - pow(t->beta1, (double)u.steps + 1), c2 = 1 - pow(t->beta2, (double)u.steps + 1);
    const bool corrected = t->form == ADAM_CORRECTED;
    const REAL size = (REAL)(corrected ? u.rate / c1 : u.rate * sqrt(c2) / c1);
    const REAL root = (REAL)(corrected ? 1 / sqrt(c2) : 1), epsilon = (REAL)t->epsilon;
    const REAL scale = (REAL)u.scale, wd = (REAL)u.weight_decay, shrink = (REAL)u.shrink;
    const REAL b1 = (REAL)t->beta1, rest1 = (REAL)(1 - t->beta1);
    const REAL b2 = (REAL)t->beta2, rest2 = (REAL)(1 - t->beta2);
    REAL *p = s->out[0].data, *m = s->out[1].data, *v = s->out[2].data;
    const REAL *dp = s->in[1].data;
    for (int64_t i = begin; i < end; i++) {
        const REAL g = scale * dp[i] + wd * p[i];
        const REAL mean = b1 * m[i] + rest1 * g, square = b2 * v[i] + rest2 * g * g;
        m[i] = mean;
        v[i] = square;
        p[i] = shrink * p[i] - size * mean / (root * sqrt(square) + epsilon);
    }
}

SPLIT_STEP(NAME(adam), NAME(adam_range), s->out[0].count, (double)s->out[0].count * 10) /* roots are slow */

#else

#define REAL_SOURCE "ops/adam/adam.c"
#include "ops/wide.h"

static const field fields[] = {
    OPTIMIZER_FIELDS,
    {"beta1", FIELD_REAL, offsetof(adam_attr, beta1), "0.9", 0, 0.999999, NULL, false, "share of the old mean kept"},
    {"beta2", FIELD_REAL, offsetof(adam_attr, beta2), "0.999", 0, 0.999999, NULL, false, "of the old mean square"},
    {"epsilon", FIELD_REAL, offsetof(adam_attr, epsilon), "1e-8", 1e-30, 1e6, NULL, false,
     "keeps the divisor above zero"},
    {0},
};

static void adam_defaults(void *attr, const dialect *d)
{
    adam_attr *t = attr;
    t->base.rate = d->adam_rate;
    t->base.decoupled = d->weight_decay == DECAY_DECOUPLED;
    t->epsilon = d->adam_epsilon;
    t->form = d->adam;
}

static void adamw_defaults(void *attr, const dialect *d)
{
    adam_attr *t = attr;
    adam_defaults(attr, d);
    t->base.decoupled = true;
    t->base.weight_decay = d->adamw_decay;
}

static int slots(const void *attr, const char **names)
{
    (void)attr;
    names[0] = "mean";
    names[1] = "square";
    return 2;
}

static bool adamw_exists(const dialect *d)
{
    return d->adamw;
}

static const op_def adam_op = {
    .name = "adam", .attr_size = sizeof(adam_attr), .fields = fields, .set_defaults = adam_defaults};
static const op_def adamw_op = {
    .name = "adamw", .attr_size = sizeof(adam_attr), .fields = fields, .set_defaults = adamw_defaults};

const optimizer_def adam_optimizer = {
    .op = &adam_op, .help = "running means of gradients and their squares", .slots = slots};
const optimizer_def adamw_optimizer = {.op = &adamw_op,
                                       .help = "Adam, with weight decay kept apart from the gradient",
                                       .slots = slots,
                                       .exists = adamw_exists};

const op_def *const adam_parts[] = {&adam_op, &adamw_op, NULL};
const kernel adam_wide[] = {
    WIDE(adam_op, adam),
    WIDE(adamw_op, adam),
    {0},
};

#endif
