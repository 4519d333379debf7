/* optimizer.h - what the update ops have in common.
 *
 * An optimizer is an op whose node rewrites one parameter and the optimizer's memory of it:
 *     in:  parameter, gradient, rate (scalar), steps done (i64 scalar), slots ... [, scale (scalar)]
 *     out: parameter, slots ...
 * The gradient is multiplied by `scale` (clipping) before anything else, where it is given; then weight decay,
 * in the dialect's form (decay_form).
 */
#ifndef OPS_OPTIMIZER_H
#define OPS_OPTIMIZER_H

#include "ops/op.h"

enum { MAX_SLOTS = 2, UPDATE_SLOTS = 4 /* the first slot among the inputs */ };

/* The first member of every optimizer's attribute struct. */
typedef struct optimizer_attr {
    double rate;         /* "lr"; 0 where the dialect has no default and none was given */
    double decay;        /* of the rate: rate / (1 + decay * steps) */
    double weight_decay; /* "weight_decay" */
    bool decoupled;      /* not a field: weight decay acts on the parameter, not on the gradient */
} optimizer_attr;

/* The fields of its first three members, for the field lists of optimizers. */
/* clang-format off */
#define OPTIMIZER_REAL(name, member, positional, help) \
    {name, FIELD_REAL, offsetof(optimizer_attr, member), "0", 0, 1e6, NULL, positional, help}
#define OPTIMIZER_FIELDS                                                                      \
    OPTIMIZER_REAL("lr", rate, true, "learning rate"),                                        \
    OPTIMIZER_REAL("weight_decay", weight_decay, false, "draws the parameters towards zero"), \
    OPTIMIZER_REAL("decay", decay, false, "of the rate in time: lr / (1 + decay * steps)")
/* clang-format on */

typedef struct optimizer_def {
    const op_def *op; /* op->name is the optimizer's name; op->help is NULL, since it is no layer */
    const char *help; /* one line */
    /* Names of the slots that these attributes ask for ("momentum"); returns how many. All have the parameter's shape
     * and start at zero. */
    int (*slots)(const void *attr, const char **names);
    bool (*exists)(const dialect *d); /* NULL: in every dialect */
} optimizer_def;

extern const optimizer_def sgd_optimizer, rmsprop_optimizer, adadelta_optimizer, adam_optimizer, adamw_optimizer;

/* optimizer.c: the optimizers there are, NULL past the last one. */
const optimizer_def *optimizer_at(int index);
/* Whether the op is one of them. */
bool optimizer_is(const op_def *op);

/* What an update's kernel starts from: g = scale x gradient + weight_decay x p; p = shrink x p - ... */
typedef struct update {
    double rate, scale, weight_decay, shrink;
    int64_t steps; /* done before this one */
} update;

static inline double update_scalar(const arg *a)
{
    return a->format.storage == F64 ? *(const double *)a->data : *(const float *)a->data;
}

static inline update update_read(const step *s)
{
    const optimizer_attr *t = (const optimizer_attr *)s->attr;
    const int slots = s->nout - 1;
    const double rate = update_scalar(&s->in[2]);
    const update u = {
        .rate = rate,
        .scale = s->nin > UPDATE_SLOTS + slots ? update_scalar(&s->in[s->nin - 1]) : 1,
        .weight_decay = t->decoupled ? 0 : t->weight_decay,
        .shrink = t->decoupled ? 1 - rate * t->weight_decay : 1,
        .steps = *(const int64_t *)s->in[3].data,
    };
    return u;
}

/* The learning rate as a node: in: steps done; out: the rate of this step. The optimizer's rate and decay are copied
 * in before it is emitted; the rest is what the user wrote ("cosine steps=1000 warmup=100"). */
typedef struct schedule_attr {
    int kind;           /* word: constant, step, cosine; positional */
    int every;          /* step: steps between two cuts */
    double gamma;       /* step: what the rate is multiplied with at a cut */
    int steps;          /* cosine: steps to the end, warm-up included */
    double floor;       /* cosine: the rate at the end */
    int warmup;         /* steps over which the rate rises from rate / warmup to rate, linearly */
    double rate, decay; /* not fields: from the optimizer */
} schedule_attr;
extern const field schedule_fields[];
extern const char *const schedule_words[], *const schedule_help[]; /* by kind; the words end with NULL */
/* schedule.c: whether a schedule of this kind reads the field of this index. */
bool schedule_reads(int kind, int index);
/* schedule.c: the rate of the step after so many others. */
double schedule_rate(const schedule_attr *a, int64_t steps);

/* The global norm of gradients, as a node: in: gradients ...; out: what to multiply them with. */
typedef struct clip_attr {
    double limit;
    int form; /* clip_form */
} clip_attr;

#endif
