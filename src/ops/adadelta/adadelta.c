/* adadelta.c - steps in the unit of the parameter: gradients divided by their own root mean square, times that of the
 * steps before.
 *
 *     v = rho v + (1 - rho) g^2
 *     step = g sqrt(d + epsilon) / sqrt(v + epsilon)
 *     d = rho d + (1 - rho) step^2
 *     p -= rate step
 * All frameworks agree on this; they differ in the default rate, by a factor of a thousand.
 */
#include "ops/adadelta/adadelta.h"

#include <tgmath.h> /* sqrt is sqrtf where REAL is float */

#ifdef REAL

static void NAME(adadelta_range)(const step *s, int64_t begin, int64_t end)
{
    const adadelta_attr *t = s->attr;
    const update u = update_read(s);
    const REAL rate = (REAL)u.rate, scale = (REAL)u.scale, wd = (REAL)u.weight_decay, shrink = (REAL)u.shrink;
    const REAL rho = (REAL)t->rho, rest = (REAL)(1 - t->rho), epsilon = (REAL)t->epsilon;
    REAL *p = s->out[0].data, *v = s->out[1].data, *d = s->out[2].data;
    const REAL *dp = s->in[1].data;
    for (int64_t i = begin; i < end; i++) {
        const REAL g = scale * dp[i] + wd * p[i], mean = rho * v[i] + rest * g * g;
        const REAL move = g * sqrt(d[i] + epsilon) / sqrt(mean + epsilon);
        v[i] = mean;
        d[i] = rho * d[i] + rest * move * move;
        p[i] = shrink * p[i] - rate * move;
    }
}

SPLIT_STEP(NAME(adadelta), NAME(adadelta_range), s->out[0].count, (double)s->out[0].count * 10) /* roots are slow */

#else

#define REAL_SOURCE "ops/adadelta/adadelta.c"
#include "ops/wide.h"

static const field fields[] = {
    OPTIMIZER_FIELDS,
    {"rho", FIELD_REAL, offsetof(adadelta_attr, rho), "0", 0, 1, NULL, false, "share of the old means kept"},
    {"epsilon", FIELD_REAL, offsetof(adadelta_attr, epsilon), "1e-8", 1e-30, 1e6, NULL, false,
     "keeps the roots above zero"},
    {0},
};

static void set_defaults(void *attr, const dialect *d)
{
    adadelta_attr *t = attr;
    t->base.rate = d->adadelta_rate;
    t->base.decoupled = d->weight_decay == DECAY_DECOUPLED;
    t->rho = d->adadelta_rho;
    t->epsilon = d->adadelta_epsilon;
}

static int slots(const void *attr, const char **names)
{
    (void)attr;
    names[0] = "square";
    names[1] = "delta";
    return 2;
}

static const op_def adadelta_op = {
    .name = "adadelta", .attr_size = sizeof(adadelta_attr), .fields = fields, .set_defaults = set_defaults};

const optimizer_def adadelta_optimizer = {
    .op = &adadelta_op, .help = "steps scaled by the root mean squares of gradients and steps", .slots = slots};

const op_def *const adadelta_parts[] = {&adadelta_op, NULL};
const kernel adadelta_wide[] = {WIDE(adadelta_op, adadelta), {0}};

#endif
