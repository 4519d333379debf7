/* schedule.c - the learning rate of a step: see schedule.h. */
#include "ops/schedule/schedule.h"

#ifndef REAL /* once, before the kernels */

double schedule_rate(const schedule_attr *a, int64_t steps)
{
    return schedule_at(a, steps);
}

#endif
#ifdef REAL

/* in: steps done (i64); out: rate */
static brasa_status NAME(schedule)(const step *s)
{
    *(REAL *)s->out[0].data = (REAL)schedule_rate(s->attr, *(const int64_t *)s->in[0].data);
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/schedule/schedule.c"
#include "ops/real.h"

const char *const schedule_words[] = {
    [SCHEDULE_CONSTANT] = "constant", [SCHEDULE_STEP] = "step", [SCHEDULE_COSINE] = "cosine", NULL};
const char *const schedule_help[] = {[SCHEDULE_CONSTANT] = "the optimizer's rate throughout",
                                     [SCHEDULE_STEP] = "the rate is cut again and again",
                                     [SCHEDULE_COSINE] = "the rate falls along a half cosine"};

const field schedule_fields[] = {
    {"kind", FIELD_WORD, offsetof(schedule_attr, kind), "constant", 0, 0, schedule_words, true,
     "how the rate changes"},
    {"every", FIELD_INT, offsetof(schedule_attr, every), "0", 0, 2147483647, NULL, false, "steps between cuts"},
    {"gamma", FIELD_REAL, offsetof(schedule_attr, gamma), "0.1", 0, 1e6, NULL, false, "the rate's factor at a cut"},
    {"steps", FIELD_INT, offsetof(schedule_attr, steps), "0", 0, 2147483647, NULL, false,
     "steps to the end, warm-up included"},
    {"floor", FIELD_REAL, offsetof(schedule_attr, floor), "0", 0, 1e6, NULL, false, "the rate at the end"},
    {"warmup", FIELD_INT, offsetof(schedule_attr, warmup), "0", 0, 2147483647, NULL, false,
     "steps over which the rate rises to its full size"},
    {0},
};

bool schedule_reads(int kind, int index)
{
    static const int only[] = {[1] = SCHEDULE_STEP, SCHEDULE_STEP, SCHEDULE_COSINE, SCHEDULE_COSINE, 0};
    return !only[index] || only[index] == kind;
}

/* The setting that is given though another kind than the schedule's reads it, or NULL. */
static const char *stray_setting(const schedule_attr *t)
{
    schedule_attr none = {0};
    fields_set_defaults(schedule_fields, &none);
    for (int i = 0; schedule_fields[i].name; i++)
        if (!schedule_reads(t->kind, i) && !fields_equal((const field[]){schedule_fields[i], {0}}, t, &none))
            return schedule_fields[i].name;
    return NULL;
}

static brasa_status infer(infer_args *a)
{
    const schedule_attr *t = a->attr;
    const char *stray = stray_setting(t);
    if (stray)
        return fail(a->g->ctx, BRASA_BAD_ARGUMENT, "schedule %s: it has no setting '%s'", schedule_words[t->kind],
                    stray);
    if (t->kind == SCHEDULE_STEP && t->every < 1)
        return fail(a->g->ctx, BRASA_BAD_ARGUMENT, "schedule step: every is missing: steps between two cuts");
    if (t->kind == SCHEDULE_COSINE && t->steps <= t->warmup)
        return fail(a->g->ctx, BRASA_BAD_ARGUMENT, "schedule cosine: steps must be given, and more than warmup (%d)",
                    t->warmup);
    a->out[0] = (shape){0};
    return BRASA_OK;
}

const op_def schedule_op = {
    .name = "schedule", .attr_size = sizeof(schedule_attr), .fields = schedule_fields, .infer = infer};

const op_def *const schedule_parts[] = {&schedule_op, NULL};
const kernel schedule_ref[] = {REFERENCE(schedule_op, schedule), {0}};

#endif
