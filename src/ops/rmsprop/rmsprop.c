/* rmsprop.c - steps divided by the root of a running mean of squared gradients.
 *
 *     v = rho v + (1 - rho) g^2
 *     step = g / (sqrt(v) + epsilon), or g / sqrt(v + epsilon) where the dialect says so
 *     p -= rate step; with momentum m: b = m b + step, p -= rate b
 * Where the dialect's SGD keeps the rate in the velocity, so does b: b = m b + rate step, p -= b. The two differ only
 * when the rate changes.
 */
#include "ops/rmsprop/rmsprop.h"

#include <tgmath.h> /* sqrt is sqrtf where REAL is float */

#ifdef REAL

static void NAME(rmsprop_range)(const step *s, int64_t begin, int64_t end)
{
    const rmsprop_attr *t = s->attr;
    const update u = update_read(s);
    const REAL scale = (REAL)u.scale, wd = (REAL)u.weight_decay, shrink = (REAL)u.shrink;
    const REAL rho = (REAL)t->rho, rest = (REAL)(1 - t->rho), m = (REAL)t->momentum;
    const bool in_root = t->place == EPSILON_INSIDE_ROOT, in_velocity = t->form == SGD_RATE_INSIDE;
    const REAL inner = (REAL)(in_root ? t->epsilon : 0), outer = (REAL)(in_root ? 0 : t->epsilon);
    /* One of the two is the rate, the other is 1. */
    const REAL before = (REAL)(in_velocity ? u.rate : 1), after = (REAL)(in_velocity ? 1 : u.rate);
    REAL *p = s->out[0].data, *v = s->out[1].data, *b = s->nout > 2 ? s->out[2].data : NULL;
    const REAL *dp = s->in[1].data;
    for (int64_t i = begin; i < end; i++) {
        const REAL g = scale * dp[i] + wd * p[i], mean = rho * v[i] + rest * g * g;
        REAL move = before * g / (sqrt(mean + inner) + outer);
        v[i] = mean;
        if (b)
            b[i] = move = m * b[i] + move;
        p[i] = shrink * p[i] - after * move;
    }
}

SPLIT_STEP(NAME(rmsprop), NAME(rmsprop_range), s->out[0].count, (double)s->out[0].count * 10) /* roots are slow */

#else

#define REAL_SOURCE "ops/rmsprop/rmsprop.c"
#include "ops/wide.h"

static const field fields[] = {
    OPTIMIZER_FIELDS,
    {"rho", FIELD_REAL, offsetof(rmsprop_attr, rho), "0", 0, 1, NULL, false, "share of the old mean kept"},
    {"epsilon", FIELD_REAL, offsetof(rmsprop_attr, epsilon), "1e-8", 1e-30, 1e6, NULL, false,
     "keeps the divisor above zero"},
    {"momentum", FIELD_REAL, offsetof(rmsprop_attr, momentum), "0", 0, 1, NULL, false, "share of the last step kept"},
    {0},
};

static void set_defaults(void *attr, const dialect *d)
{
    rmsprop_attr *t = attr;
    t->base.rate = d->rmsprop_rate;
    t->base.decoupled = d->weight_decay == DECAY_DECOUPLED;
    t->rho = d->rmsprop_rho;
    t->epsilon = d->rmsprop_epsilon;
    t->place = d->rmsprop_place;
    t->form = d->sgd;
}

static int slots(const void *attr, const char **names)
{
    names[0] = "square";
    names[1] = "momentum";
    return ((const rmsprop_attr *)attr)->momentum != 0 ? 2 : 1;
}

static const op_def rmsprop_op = {
    .name = "rmsprop", .attr_size = sizeof(rmsprop_attr), .fields = fields, .set_defaults = set_defaults};

const optimizer_def rmsprop_optimizer = {
    .op = &rmsprop_op, .help = "steps divided by the root mean square of recent gradients", .slots = slots};

const op_def *const rmsprop_parts[] = {&rmsprop_op, NULL};
const kernel rmsprop_wide[] = {WIDE(rmsprop_op, rmsprop), {0}};

#endif
