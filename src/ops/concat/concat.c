/* concat.c - tensors put one behind the other along an axis, and the slices that are its gradient.
 *
 * Seen from the axis every tensor is `outer` rows; a row of the whole is the inputs' rows one after the other.
 */
#include "ops/concat/concat.h"

#include <string.h>

#ifdef REAL

/* item: a row */
static void NAME(concat_range)(const step *s, int64_t begin, int64_t end)
{
    const int axis = ((const concat_attr *)s->attr)->axis;
    const shape *whole = &s->out[0].shape;
    const int64_t row = shape_span(whole, axis, whole->rank);
    int64_t start = 0;
    for (int k = 0; k < s->nin; k++) {
        const REAL *src = s->in[k].data;
        REAL *dst = (REAL *)s->out[0].data + start;
        const int64_t part = shape_span(&s->in[k].shape, axis, whole->rank);
        for (int64_t n = begin; n < end; n++)
            memcpy(dst + n * row, src + n * part, (size_t)part * sizeof(REAL));
        start += part;
    }
}

SPLIT_STEP(NAME(concat), NAME(concat_range), shape_span(&s->out[0].shape, 0, ((const concat_attr *)s->attr)->axis),
           (double)s->out[0].count)

/* item: a row */
static void NAME(slice_range)(const step *s, int64_t begin, int64_t end)
{
    const slice_attr *t = s->attr;
    const shape *whole = &s->in[0].shape;
    const int64_t inner = shape_span(whole, t->axis + 1, whole->rank);
    const int64_t row = whole->dim[t->axis] * inner, part = t->length * inner;
    const REAL *src = (const REAL *)s->in[0].data + t->start * inner;
    REAL *dst = s->out[0].data;
    for (int64_t n = begin; n < end; n++)
        memcpy(dst + n * part, src + n * row, (size_t)part * sizeof(REAL));
}

SPLIT_STEP(NAME(slice), NAME(slice_range), shape_span(&s->out[0].shape, 0, ((const slice_attr *)s->attr)->axis),
           (double)s->out[0].count)

#else

#define REAL_SOURCE "ops/concat/concat.c"
#include "ops/real.h"

/* Axis 0 is left out: it is the batch, and its size is the session's. */
static const field fields[] = {
    {"axis", FIELD_INT, offsetof(concat_attr, axis), "1", 1, MAX_RANK - 1, NULL, true, "1: channels or features"},
    {0},
};

static brasa_status infer(infer_args *a)
{
    const int axis = ((const concat_attr *)a->attr)->axis;
    if (axis >= a->in[0].rank)
        return infer_fail(a, "there is no axis %d", axis);
    a->out[0] = a->in[0];
    for (int k = 1; k < a->nin; k++) {
        shape like = a->in[k];
        if (like.rank == a->in[0].rank)
            like.dim[axis] = a->in[0].dim[axis];
        if (!shape_equal(&like, &a->in[0]))
            return infer_fail(a, "input %d differs from input 1 in more than axis %d", k + 1, axis);
        a->out[0].dim[axis] += a->in[k].dim[axis];
    }
    return BRASA_OK;
}

const op_def slice_op = {.name = "slice", .attr_size = sizeof(slice_attr)};

static void grad(grad_args *a)
{
    slice_attr t = {.axis = ((const concat_attr *)a->n->attr)->axis};
    for (int k = 0; k < a->n->nin; k++) {
        t.length = a->g->values[a->n->in[k]].shape.dim[t.axis];
        if (a->need[k]) {
            int n = emit_like(a->g, &slice_op, a->n->name, &t, 1, a->dout, 1, &a->n->in[k]);
            if (n < 0)
                return;
            a->g->nodes[n].role = ROLE_GRADIENT;
            a->din[k] = a->g->nodes[n].out[0];
        }
        t.start += t.length;
    }
}

static const op_case cases[] = {
    {"1x1x1x1 1x1x1x1", ""},
    {"2x3x8x8 2x17x8x8", ""},
    {"1x513x2x3 1x1x2x3 1x3x2x3", ""},
    {"2x16x5x3 2x32x5x3 2x48x5x3", ""}, /* whole blocks of channels */
    {"2x17x3x5 2x4x3x5 2x16x3x5 2x8x3x5", ""},
    {"3x4 3x5 3x1 3x7", ""},
    {"2x3x4x5 2x3x6x5", "axis=2"},
    {"2x3x4x5 2x3x4x1 2x3x4x2", "3"},
    {"16x128x600x600 16x64x600x600", "", CASE_PLAN},
    {"2x3x8x8 2x3x8x7", "", CASE_FAILS},
    {"2x3x8x8 2x3", "", CASE_FAILS},
    {"2x3 2x3", "axis=2", CASE_FAILS},
    {"2x0 2x3", "", CASE_FAILS},
    {0},
};

const op_def concat_op = {
    .name = "concat",
    .help = "tensors one behind the other along an axis",
    .min_in = 2,
    .attr_size = sizeof(concat_attr),
    .fields = fields,
    .infer = infer,
    .grad = grad,
    .cases = cases,
};

const op_def *const concat_parts[] = {&concat_op, &slice_op, NULL};
const kernel concat_ref[] = {
    REFERENCE(concat_op, concat),
    REFERENCE(slice_op, slice),
    {0},
};

#endif
