/* reshape.c - the same elements under another shape; the first axis, the batch, stays.
 *
 * All of these are views: the plan gives output and input one place in memory, and nothing runs. Only where that
 * cannot be, as with a parameter, the kernel makes a copy.
 */
#include "ops/op.h"

#include <string.h>

#ifdef REAL

static void NAME(view_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data;
    REAL *dst = s->out[0].data;
    memcpy(dst + begin, src + begin, (size_t)(end - begin) * sizeof(REAL));
}

static brasa_status NAME(view)(const step *s)
{
    if (s->in[0].data != s->out[0].data)
        step_for(s, s->out[0].count, (double)s->out[0].count, NAME(view_range));
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/reshape/reshape.c"
#include "ops/real.h"

typedef struct reshape_attr {
    int c, h, w;
} reshape_attr;

static const field fields[] = {
    {"c", FIELD_INT, offsetof(reshape_attr, c), NULL, 1, 1 << 28, NULL, true, "channels or features"},
    {"h", FIELD_INT, offsetof(reshape_attr, h), "0", 0, 1 << 28, NULL, true, "height; 0: the result is N x c"},
    {"w", FIELD_INT, offsetof(reshape_attr, w), "0", 0, 1 << 28, NULL, true, "width"},
    {0},
};

static brasa_status infer_flatten(infer_args *a)
{
    if (a->in[0].rank < 1)
        return infer_fail(a, "a scalar has no batch axis to keep");
    a->out[0] = shape_2(a->in[0].dim[0], shape_span(&a->in[0], 1, a->in[0].rank));
    return BRASA_OK;
}

static brasa_status infer_reshape(infer_args *a)
{
    const reshape_attr *t = a->attr;
    if (a->in[0].rank < 1)
        return infer_fail(a, "a scalar has no batch axis to keep");
    if (!t->h != !t->w)
        return infer_fail(a, "give both h and w, or neither");
    const int64_t N = a->in[0].dim[0];
    a->out[0] = t->h ? shape_4(N, t->c, t->h, t->w) : shape_2(N, t->c);
    if (shape_count(&a->out[0]) != shape_count(&a->in[0]))
        return infer_fail(a, "%s does not hold as many elements", shape_print(&a->out[0]).text);
    return BRASA_OK;
}

static void grad(grad_args *a)
{
    a->din[0] = grad_emit(a, &view_op, 1, a->dout, 1, a->n->in);
}

static const op_case flatten_cases[] = {
    {"1x1x1x1", ""},
    {"2x3x4x5", ""},
    {"1x17x3x3", ""},
    {"1x513x2x1", ""},
    {"3x8", ""},
    {"7", ""},
    {"16x128x600x600", "", CASE_PLAN},
    {"2x0x3x3", "", CASE_FAILS},
    {0},
};

static const op_case reshape_cases[] = {
    {"1x1", "1 1 1"},
    {"2x48", "3 4 4"},
    {"2x3x4x4", "48"},
    {"2x17x6x2", "51 2 2"},
    {"1x513x2x3", "c=27 h=19 w=6"},
    {"16x128x600x600", "256 300 600", CASE_PLAN},
    {"2x48", "3 4 5", CASE_FAILS},
    {"2x0", "3 4 4", CASE_FAILS},
    {"2x48", "c=12 h=4", CASE_FAILS},
    {0},
};

const op_def reshape_op = {
    .name = "reshape",
    .help = "the same elements as N x c x h x w, or as N x c",
    .min_in = 1,
    .max_in = 1,
    .attr_size = sizeof(reshape_attr),
    .fields = fields,
    .infer = infer_reshape,
    .grad = grad,
    .view = true,
    .cases = reshape_cases,
};

static const op_def flatten_op = {
    .name = "flatten",
    .help = "N x everything else",
    .min_in = 1,
    .max_in = 1,
    .infer = infer_flatten,
    .grad = grad,
    .view = true,
    .cases = flatten_cases,
};

/* To the shape of any value that emit_like is given. */
const op_def view_op = {.name = "view", .view = true};

const op_def *const reshape_parts[] = {&reshape_op, &flatten_op, &view_op, NULL};
const kernel reshape_ref[] = {
    REFERENCE(reshape_op, view),
    REFERENCE(flatten_op, view),
    REFERENCE(view_op, view),
    {0},
};

#endif
