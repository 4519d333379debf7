/* accuracy.c - the share of rows whose label is among the `top` largest logits. A metric: it has no gradient.
 *
 * A row counts if fewer than `top` classes have a larger logit than its label, so ties count for the label. NaN
 * counts as larger than everything, and a label that is NaN or is no class never counts: a diverged network scores 0.
 */
#include "ops/accuracy/accuracy.h"

#include <math.h>

#ifndef REAL /* once, before the kernels */

enum { LANES = 64 }; /* parts of the batch that are counted by themselves */

#endif
#ifdef REAL

static bool NAME(hit)(const REAL *row, int64_t C, int64_t label, int top)
{
    if (label < 0 || label >= C || isnan(row[label]))
        return false;
    int64_t larger = 0;
    for (int64_t c = 0; c < C; c++)
        larger += !(row[c] <= row[label]);
    return larger < top;
}

/* item: a lane */
static void NAME(accuracy_range)(const step *s, int64_t begin, int64_t end)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    const REAL *src = s->in[0].data;
    const int32_t *labels = s->in[1].data;
    const int top = ((const accuracy_attr *)s->attr)->top;
    int64_t *hits = s->workspace;
    for (int64_t lane = begin; lane < end; lane++) {
        hits[lane] = 0;
        for (int64_t n = N * lane / LANES; n < N * (lane + 1) / LANES; n++)
            hits[lane] += NAME(hit)(src + n * C, C, labels[n], top);
    }
}

/* in: logits N x C, labels N; out: scalar; workspace: the hits of each lane */
static brasa_status NAME(accuracy)(const step *s)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1], *part = s->workspace;
    step_for(s, LANES, (double)(N * C), NAME(accuracy_range));
    int64_t hits = 0;
    for (int lane = 0; lane < LANES; lane++)
        hits += part[lane];
    *(REAL *)s->out[0].data = (REAL)hits / (REAL)N;
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/accuracy/accuracy.c"
#include "ops/real.h"

static const field fields[] = {
    {"top", FIELD_INT, offsetof(accuracy_attr, top), "1", 1, 1 << 28, NULL, true,
     "a label among so many largest counts"},
    {0},
};

/* Without labels there is none. */
static void lower(lower_args *a)
{
    if (!a->g->inference)
        lower_copy(a);
}

static brasa_status infer(infer_args *a)
{
    brasa_status status = infer_rank(a, 0, 2);
    if (status != BRASA_OK)
        return status;
    if (a->in[1].rank != 1 || a->in[1].dim[0] != a->in[0].dim[0])
        return infer_fail(a, "input 2 must be labels, one for each row of input 1");
    a->out[0] = (shape){0};
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    (void)g;
    (void)n;
    return LANES * (int64_t)sizeof(int64_t);
}

static const op_case cases[] = {
    {"1x1 labels:1", "", CASE_NO_GRAD},
    {"1x10 labels:10", "", CASE_NO_GRAD},
    {"70x3 labels:3", "", CASE_NO_GRAD},
    {"64x17 labels:17", "5", CASE_NO_GRAD},
    {"9x513 labels:513", "top=100", CASE_NO_GRAD},
    {"70000x10000 labels:10000", "", CASE_PLAN | CASE_NO_GRAD},
    {"2x3x4x4 labels:3", "", CASE_FAILS},
    {"4x10 4", "", CASE_FAILS},
    {"4x0 labels:10", "", CASE_FAILS},
    {0},
};

const op_def accuracy_op = {
    .name = "accuracy",
    .help = "metric: share of rows whose label is among the largest logits",
    .min_in = 2,
    .max_in = 2,
    .labels = 1u << 1,
    .attr_size = sizeof(accuracy_attr),
    .fields = fields,
    .infer = infer,
    .lower = lower,
    .cases = cases,
};

const op_def *const accuracy_parts[] = {&accuracy_op, NULL};
const kernel accuracy_ref[] = {
    REFERENCE_(accuracy_op, accuracy, .workspace = workspace),
    {0},
};

#endif
