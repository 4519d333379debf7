/* sgd.c - stochastic gradient descent with momentum m; the two forms of it stand in dialect.h. Both are
 *     v = m v + a g;  p -= b v;  Nesterov: p -= b (a g + m v)
 * with a = 1, b = rate where the rate is outside, and a = -rate, b = -1 where the velocity holds it.
 */
#include "ops/sgd/sgd.h"

#ifdef REAL

static void NAME(sgd_plain_range)(const step *s, int64_t begin, int64_t end)
{
    const update u = update_read(s);
    const REAL rate = (REAL)u.rate, scale = (REAL)u.scale, wd = (REAL)u.weight_decay, shrink = (REAL)u.shrink;
    REAL *p = s->out[0].data;
    const REAL *dp = s->in[1].data;
    for (int64_t i = begin; i < end; i++)
        p[i] = shrink * p[i] - rate * (scale * dp[i] + wd * p[i]);
}

static void NAME(sgd_momentum_range)(const step *s, int64_t begin, int64_t end)
{
    const sgd_attr *t = s->attr;
    const update u = update_read(s);
    const REAL scale = (REAL)u.scale, wd = (REAL)u.weight_decay, shrink = (REAL)u.shrink, m = (REAL)t->momentum;
    const bool inside = t->form == SGD_RATE_INSIDE;
    const REAL a = (REAL)(inside ? -u.rate : 1), b = (REAL)(inside ? -1 : u.rate);
    /* The step is k g + l v. */
    const REAL k = t->nesterov ? a : 0, l = t->nesterov ? m : 1;
    REAL *p = s->out[0].data, *v = s->out[1].data;
    const REAL *dp = s->in[1].data;
    for (int64_t i = begin; i < end; i++) {
        const REAL g = scale * dp[i] + wd * p[i], velocity = m * v[i] + a * g;
        v[i] = velocity;
        p[i] = shrink * p[i] - b * (k * g + l * velocity);
    }
}

SPLIT_STEP(NAME(sgd), s->nout > 1 ? NAME(sgd_momentum_range) : NAME(sgd_plain_range), s->out[0].count,
           (double)s->out[0].count * s->nout)

#else

#define REAL_SOURCE "ops/sgd/sgd.c"
#include "ops/wide.h"

static const field fields[] = {
    OPTIMIZER_FIELDS,
    {"momentum", FIELD_REAL, offsetof(sgd_attr, momentum), "0", 0, 1, NULL, false, "share of the last step kept"},
    {"nesterov", FIELD_BOOL, offsetof(sgd_attr, nesterov), "no", 0, 0, NULL, false, "looks ahead along the momentum"},
    {0},
};

static void set_defaults(void *attr, const dialect *d)
{
    sgd_attr *t = attr;
    t->base.rate = d->sgd_rate;
    t->base.decoupled = d->weight_decay == DECAY_DECOUPLED;
    t->form = d->sgd;
}

static int slots(const void *attr, const char **names)
{
    names[0] = "momentum";
    return ((const sgd_attr *)attr)->momentum != 0;
}

static const op_def sgd_op = {
    .name = "sgd", .attr_size = sizeof(sgd_attr), .fields = fields, .set_defaults = set_defaults};

const optimizer_def sgd_optimizer = {.op = &sgd_op, .help = "gradient descent, with momentum", .slots = slots};

const op_def *const sgd_parts[] = {&sgd_op, NULL};
const kernel sgd_wide[] = {WIDE(sgd_op, sgd), {0}};

#endif
