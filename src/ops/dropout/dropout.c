/* dropout.c - in training, sets elements to zero with probability p and multiplies the others by 1 / (1 - p).
 *
 * No mask is stored: whether element i is kept is a function of the seed, the layer's stream, the step and i, so the
 * gradient is the same op once more, on ddst. Any part of the tensor can be computed by any thread.
 */
#include "ops/dropout/dropout.h"

#ifdef REAL

/* item: a group of four elements, of which the first may begin before the tensor does */
static void NAME(dropout_range)(const step *s, int64_t begin, int64_t end)
{
    const dropout_attr *t = s->attr;
    const REAL *src = s->in[0].data;
    REAL *dst = s->out[0].data;
    const int64_t count = s->out[0].count;
    /* Looked up, not chosen by a branch, which would be guessed wrong half of the time. */
    const REAL factor[2] = {0, (REAL)dropout_factor(t)};
    const uint32_t limit = dropout_limit(t);
    const random_stream stream = dropout_stream(s);
    const int64_t before = dropout_first(s);
    for (int64_t g = begin; g < end; g++) {
        const random_group random = random_at(&stream, (uint64_t)(before / 4 + g));
        REAL keep[4];
        for (int j = 0; j < 4; j++)
            keep[j] = factor[random.word[j] >> 8 >= limit];
        const int64_t first = 4 * g - before % 4, rest = count - first;
        for (int j = first < 0 ? (int)-first : 0; j < (rest < 4 ? (int)rest : 4); j++)
            dst[first + j] = src[first + j] * keep[j];
    }
}

SPLIT_STEP(NAME(dropout), NAME(dropout_range), (dropout_first(s) % 4 + s->out[0].count + 3) / 4, dropout_work(s))

#else

#define REAL_SOURCE "ops/dropout/dropout.c"
#include "ops/real.h"

static const field fields[] = {
    {"p", FIELD_REAL, offsetof(dropout_attr, p), "0.5", 0, 1, NULL, true, "share of elements set to zero"},
    {0},
};

/* Evaluation keeps everything; training gets the counter as a second input, and a stream of its own. A part of a
 * batch also learns where in the batch it is. */
static void lower(lower_args *a)
{
    dropout_attr t = *(const dropout_attr *)a->n->attr;
    if (!a->g->training || t.p == 0) {
        a->out[0] = a->in[0];
        return;
    }
    t.stream = a->g->streams++;
    const int in[3] = {a->in[0], graph_counter(a->g), a->g->in_parts ? graph_samples(a->g) : -1};
    int n = emit(a->g, a->n->op, a->n->name, &t, a->g->in_parts ? 3 : 2, in);
    if (n >= 0)
        a->out[0] = a->g->nodes[n].out[0];
}

static void grad(grad_args *a)
{
    const int nin = a->n->nin, in[3] = {a->dout[0], a->n->in[1], nin > 2 ? a->n->in[2] : -1};
    a->din[0] = grad_emit(a, a->n->op, nin, in, 1, a->n->in);
}

static const op_case cases[] = {
    {"1x1x1x1", ""},
    {"1x3", "0.25"},
    {"2x3x8x8", "0.5"},
    {"3x17x5x5", "0.2"},
    {"1x513x2x3", "0.9"},
    {"2x20x4x3", "0.4"}, /* in blocks of channels, where groups are whole in all planes, and where they are not */
    {"2x33x7x7", "0.5"},
    {"1x5x1x1", "0.5"},
    {"3x100", "0.3"},
    {"4x10", "0.001"},
    {"7", "0.9999"},
    {"5x7", "1"},                      /* nothing is kept */
    {"16x128x600x600", "", CASE_PLAN}, /* 2.9 GB */
    {"2x0x4x4", "", CASE_FAILS},
    {0},
};

const op_def dropout_op = {
    .name = "dropout",
    .help = "in training, sets a random share of the elements to zero",
    .min_in = 1,
    .max_in = 1,
    .attr_size = sizeof(dropout_attr),
    .fields = fields,
    .infer = infer_same,
    .grad = grad,
    .lower = lower,
    .in_place = 1,
    .elementwise = true,
    .fuse = dropout_fuse_relu,
    .cases = cases,
};

const op_def *const dropout_parts[] = {&dropout_op, &dropout_relu_grad_op, NULL};
const kernel dropout_ref[] = {REFERENCE(dropout_op, dropout), {0}};

#endif
