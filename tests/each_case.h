/* each_case.h - goes through the cases of all ops, for the tests that are driven by the registry. After test.h.
 *
 * BRASA_TEST_OP=conv2d,relu takes those ops alone; BRASA_TEST_OP=list tests nothing, and prints the names of all that
 * have cases. BRASA_TEST_SHARE takes some of the cases: see share.h.
 */
#ifndef TEST_EACH_CASE_H
#define TEST_EACH_CASE_H

#include "proof.h"
#include "share.h"
#include "ops/cases.h"

#include <stdlib.h>

typedef void (*case_body)(brasa_context *ctx, const op_def *op, const op_case *c);

/* BRASA_TEST_OP, or NULL: all ops are tested. */
static inline const char *some_ops(void)
{
    const char *list = getenv("BRASA_TEST_OP");
    return list && *list ? list : NULL;
}

/* Whether BRASA_TEST_OP, a list with commas, has the op, or is not set. */
static inline bool is_wanted(const op_def *op)
{
    const char *list = some_ops();
    const size_t length = strlen(op->name);
    if (!list)
        return true;
    if (strcmp(list, "list") == 0) {
        if (op->cases)
            printf("%s\n", op->name);
        return false;
    }
    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strncmp(list, op->name, length) == 0 && (!list[length] || list[length] == ','))
            return true;
    return false;
}

/* Calls body for every case whose flags, as far as `mask` looks at them, are `flags`. */
static inline void each_case(int threads, unsigned mask, unsigned flags, case_body body)
{
    OWNED(brasa_context) *ctx = context_of(threads);
    int turn = 0;
    for (int i = 0; op_at(i); i++) {
        const op_def *op = op_at(i);
        const bool wanted = is_wanted(op);
        for (const op_case *c = op->cases; wanted && c && c->in; c++) {
            if ((c->flags & mask) != flags || !in_share(turn++))
                continue;
            CASE("%s '%s' on %s%s%s", op->name, c->layer, c->in, c->dialect ? ", " : "",
                 c->dialect ? c->dialect : "");
            body(ctx, op, c);
        }
    }
}

/* Ops that a rule does not fit, and why. */
static const struct exemption {
    const char *op, *rule, *reason;
} exemptions[] = {
    {"accuracy", "gradient", "counts: piecewise constant"},
    {"weighted_sum", "shapes", "takes scalars"},
};

static inline bool exempt(const op_def *op, const char *rule)
{
    for (size_t i = 0; i < sizeof exemptions / sizeof exemptions[0]; i++)
        if (strcmp(exemptions[i].op, op->name) == 0 && strcmp(exemptions[i].rule, rule) == 0)
            return true;
    return false;
}

/* A case's graph with something around the layer: inputs that were just computed, so that the layer may overwrite
 * them, and an activation behind it, that may be fused into it. */
static inline brasa_status build_wrapped(graph *g, const op_def *op, const op_case *c, const op_def *act)
{
    int in[CASE_MAX_IN], nin = case_inputs(g, c, in);
    for (int i = 0; i < nin; i++) {
        char name[32];
        snprintf(name, sizeof name, "twice%d", i);
        if (g->values[in[i]].kind == VALUE_PARAM)
            in[i] = graph_apply(g, &add_op, name, NULL, 2, (int[]){in[i], in[i]});
    }
    int y = nin < 0 ? -1 : case_layer(g, op, c, nin, in);
    if (y >= 0 && act && g->values[y].type == g->real)
        y = graph_apply(g, act, "act", NULL, 1, &y);
    case_loss(g, y);
    return g->status;
}

#endif
