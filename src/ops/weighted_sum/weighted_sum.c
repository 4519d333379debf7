/* weighted_sum.c - several losses made one: the sum of scalars, each times its weight. */
#include "ops/weighted_sum/weighted_sum.h"

#ifdef REAL

static brasa_status NAME(weighted_sum)(const step *s)
{
    const weighted_sum_attr *t = s->attr;
    REAL sum = 0;
    for (int k = 0; k < s->nin; k++)
        sum += (REAL)t->weights.value[k] * *(const REAL *)s->in[k].data;
    *(REAL *)s->out[0].data = sum;
    return BRASA_OK;
}

/* in: src; out: dst = factor src */
static brasa_status NAME(scale)(const step *s)
{
    const REAL *src = s->in[0].data, factor = (REAL)((const scale_attr *)s->attr)->factor;
    REAL *dst = s->out[0].data;
    const int64_t count = s->out[0].count;
    for (int64_t i = 0; i < count; i++)
        dst[i] = factor * src[i];
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/weighted_sum/weighted_sum.c"
#include "ops/real.h"

static const field fields[] = {
    {"weights", FIELD_REALS, offsetof(weighted_sum_attr, weights), NULL, 0, 0, NULL, true,
     "a number for each input, as in 1,0.3,0.3"},
    {0},
};

static brasa_status infer(infer_args *a)
{
    const weighted_sum_attr *t = a->attr;
    if (t->weights.count != a->nin)
        return infer_fail(a, "%d weights for %d inputs", t->weights.count, a->nin);
    for (int k = 0; k < a->nin; k++)
        if (a->in[k].rank != 0)
            return infer_fail(a, "input %d is not a scalar", k + 1);
    a->out[0] = (shape){0};
    return BRASA_OK;
}

static const op_def scale_op = {.name = "scale", .attr_size = sizeof(scale_attr), .in_place = 1u};

static void grad(grad_args *a)
{
    const weighted_sum_attr *t = a->n->attr;
    for (int k = 0; k < a->n->nin; k++) {
        if (!a->need[k])
            continue;
        const scale_attr factor = {t->weights.value[k]};
        int n = emit_like(a->g, &scale_op, a->n->name, &factor, 1, a->dout, 1, &a->n->in[k]);
        if (n < 0)
            return;
        a->g->nodes[n].role = ROLE_GRADIENT;
        a->din[k] = a->g->nodes[n].out[0];
    }
}

static const op_case cases[] = {
    {"scalar", "1"},
    {"scalar scalar", "1,-0.5"},
    {"scalar scalar scalar", "1,0.3,0.3"},
    {"scalar scalar", "1", CASE_FAILS},
    {"scalar", "1,2", CASE_FAILS},
    {"scalar 3", "1,2", CASE_FAILS},
    {0},
};

static const op_def weighted_sum_op = {
    .name = "weighted_sum",
    .help = "several losses made one: the sum of scalars times their weights",
    .min_in = 1,
    .attr_size = sizeof(weighted_sum_attr),
    .fields = fields,
    .infer = infer,
    .grad = grad,
    .cases = cases,
};

const op_def *const weighted_sum_parts[] = {&weighted_sum_op, &scale_op, NULL};
const kernel weighted_sum_ref[] = {
    REFERENCE(weighted_sum_op, weighted_sum),
    ELEMENTWISE(scale_op, scale),
    {0},
};

#endif
