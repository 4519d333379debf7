/* parity_updates.c - what an update makes of the parameters: see parity.h. */
#include "lab/parity_parts.h"

#include "lab/results.h"

#include <math.h>
#include <string.h>

static const double UPDATE_CEILING = 0.3;

static brasa_status read_start(comparison *c, const char *name, start *out)
{
    const tensor_entry *t = safetensors_find(c->weights, name);
    if (!t || !t->type->decode || t->type->whole || shape_count(&t->shape) < 1)
        return fail(c->pool.ctx, BRASA_BAD_FILE, "%s: there is no '%s' in it", c->weights->path, name);
    float piece[PIECE];
    const int64_t all = shape_count(&t->shape);
    double sum = 0, squares = 0;
    for (int64_t first = 0; first < all; first += PIECE) {
        const int some = all - first < PIECE ? (int)(all - first) : PIECE;
        brasa_status status = safetensors_read_floats(c->weights, t, first, some, piece);
        if (status != BRASA_OK)
            return status;
        for (int i = 0; i < some; i++) {
            sum += (double)piece[i];
            squares += (double)piece[i] * (double)piece[i];
        }
    }
    *out = (start){.name = name,
                   .count = (double)all,
                   .mean = sum / (double)all,
                   .rms = sqrt(squares / (double)all),
                   .group = t->shape.rank > 1 ? WEIGHTS : VECTORS};
    return BRASA_OK;
}

/* Read once, as they may be hundreds of megabytes. */
static brasa_status find_start(comparison *c, const char *name, start *out)
{
    for (int i = 0; i < c->nstarts; i++)
        if (strcmp(c->starts[i].name, name) == 0) {
            *out = c->starts[i];
            return BRASA_OK;
        }
    start *grown = pool_grow(&c->pool, c->starts, c->nstarts, &c->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(c->pool.ctx, sizeof *grown);
    c->starts = grown;
    brasa_status status = read_start(c, name, out);
    if (status == BRASA_OK)
        grown[c->nstarts++] = *out;
    return status;
}

static const double NO_NUMBER = 1e9; /* off by more than anything, and yet in a median */

/* How far a tensor's change is off, as a share of the change; what may be rounding is left out. */
static double off_by(const lab_line *a, const lab_line *b, const start *s)
{
    const double change = fmax(fabs(a->mean - s->mean), fabs(a->rms - s->rms));
    const double noise = 3e-7 * s->rms / sqrt(s->count) + 1e-12;
    const double difference = fmax(fabs(a->mean - b->mean), fabs(a->rms - b->rms));
    if (!isfinite(difference))
        return NO_NUMBER;
    return difference <= noise ? 0 : (difference - noise) / (change + noise);
}

typedef struct changes {
    double *off[GROUPS];
    int count[GROUPS], capacity[GROUPS];
    const lab_line *first[GROUPS], *theirs[GROUPS]; /* the first that is off by more than the limit */
} changes;

/* How far the median of a group's changes may be off after this step. */
static double limit_of(const comparison *c, int64_t step, int group)
{
    const double shaken = c->shaken[step ? LATER : FIRST][group];
    if (step && c->rounding > c->limits->loss)
        return INFINITY;
    return fmax(c->limits->update[group], fmin(NOISE * shaken, UPDATE_CEILING));
}

static brasa_status add_change(comparison *c, changes *x, const lab_line *a, const lab_line *b)
{
    start s;
    brasa_status status = find_start(c, a->name, &s);
    if (status != BRASA_OK)
        return status;
    const int group = s.group;
    double *grown = pool_grow(&c->pool, x->off[group], x->count[group], &x->capacity[group], sizeof *grown);
    if (!grown)
        return fail_memory(c->pool.ctx, sizeof *grown);
    x->off[group] = grown;
    const double off = grown[x->count[group]++] = off_by(a, b, &s);
    if (off > limit_of(c, a->step, group) && !x->first[group]) {
        x->first[group] = a;
        x->theirs[group] = b;
    }
    return BRASA_OK;
}

static double median_of(const changes *x, int group)
{
    return x->count[group] ? spread_of(x->off[group], x->count[group]).median : 0;
}

brasa_status parity_find_shaken(comparison *c)
{
    changes x[UPDATES] = {0};
    for (int i = 0; i < c->ours.count; i++) {
        const lab_line *shaken = &c->ours.lines[i];
        lab_line plain = *shaken;
        plain.event = LINE_PARAM;
        const lab_line *a =
            shaken->event == LINE_NOISE_PARAM && shaken->name ? parity_find(&c->ours, i, &plain) : NULL;
        brasa_status status = a ? add_change(c, &x[a->step ? LATER : FIRST], a, shaken) : BRASA_OK;
        if (status != BRASA_OK)
            return status;
    }
    for (int u = 0; u < UPDATES; u++)
        for (int g = 0; g < GROUPS; g++)
            c->shaken[u][g] = median_of(&x[u], g);
    return BRASA_OK;
}

static bool judge_changes(comparison *c, changes *x, int64_t step)
{
    double limit[GROUPS];
    for (int g = 0; g < GROUPS; g++)
        limit[g] = limit_of(c, step, g);
    for (int g = 0; g < GROUPS; g++) {
        const double off = median_of(x, g);
        const lab_line *a = x->first[g], *b = x->theirs[g];
        if (off > limit[g] && a)
            return parity_say(
                c, PARITY_DIFFERENT,
                "the optimizer's equation or its settings: all agrees up to the update of step %lld, then '%s' "
                "has mean %.9g and rms %.9g, not %.9g and %.9g (half of the %s change by %.2g %% too much or "
                "too little, or more)",
                (long long)a->step + 1, a->name, b->mean, b->rms, a->mean, a->rms,
                g == WEIGHTS ? "weights" : "biases", 100 * off);
        if (!isfinite(limit[g]))
            continue;
        c->update = fmax(c->update, off);
        if (off > c->limits->update[g])
            c->beyond[step ? LATER : FIRST] = fmax(c->beyond[step ? LATER : FIRST], limit[g]);
    }
    return true;
}

brasa_status parity_compare_params(comparison *c, int i, int *next, bool *go_on)
{
    changes x = {0};
    const int64_t step = c->ours.lines[i].step;
    for (*next = i; *next < c->ours.count; ++*next) {
        const lab_line *a = &c->ours.lines[*next], *b;
        if (a->event != LINE_PARAM || a->step != step)
            break;
        if (!a->name || !(b = parity_find(&c->theirs, *next, a))) {
            *go_on = parity_say(c, PARITY_FAILED, "it did not tell of the parameter '%s' after step %lld",
                                a->name ? a->name : "", (long long)step + 1);
            return BRASA_OK;
        }
        brasa_status status = add_change(c, &x, a, b);
        if (status != BRASA_OK)
            return status;
    }
    *go_on = judge_changes(c, &x, step);
    return BRASA_OK;
}
