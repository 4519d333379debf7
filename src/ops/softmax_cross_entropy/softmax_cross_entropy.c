/* softmax_cross_entropy.c - softmax and the mean negative log-likelihood of the labels, in one.
 *
 * N rows, C classes, l[n][c] the logarithm of the softmax of row n, y[n] the row's label, w[c] the weight of class c
 * (1 where there are none), e the smoothing:
 *     row n:  -(1 - e) w[y[n]] l[n][y[n]] - e / C  sum over c of w[c] l[n][c]
 *     loss:   sum of the rows / sum over n of w[y[n]]
 * which is PyTorch's CrossEntropyLoss(weight, label_smoothing). A label outside 0 ... C - 1 makes the loss and all
 * gradients NaN, and nothing is read for it. The loss is summed in double, in an order that does not depend on the
 * number of threads.
 */
#include "ops/softmax_cross_entropy/softmax_cross_entropy.h"

#include <tgmath.h> /* exp is expf where REAL is float */

#ifdef REAL

/* The weight of a label's class, NaN for a label that is none. */
static double NAME(label_weight)(const REAL *wei, int64_t C, int64_t label)
{
    return label < 0 || label >= C ? (double)NAN : wei ? wei[label] : 1.0;
}

static double NAME(total_weight)(const REAL *wei, int64_t C, const int32_t *labels, int64_t N)
{
    double sum = 0;
    for (int64_t n = 0; n < N; n++)
        sum += NAME(label_weight)(wei, C, labels[n]);
    return sum;
}

/* What the sum of the losses is divided by. A part without any weight counts nothing, and is not 0 / 0. */
static double NAME(divisor)(const loss_attr *t, const REAL *wei, int64_t C, const int32_t *labels, int64_t N)
{
    const double total = NAME(total_weight)(wei, C, labels, N);
    return t->part && total == 0 ? 1 : total;
}

/* in: labels, wei; out: the sum of the labels' weights */
static brasa_status NAME(class_total)(const step *s)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[1].shape.dim[0];
    *(REAL *)s->out[0].data = (REAL)NAME(total_weight)(s->in[1].data, C, s->in[0].data, N);
    return BRASA_OK;
}

/* dst = softmax of a row; returns the row's share of the loss, not yet divided. */
static double NAME(row_loss)(const REAL *src, REAL *dst, const REAL *wei, int64_t C, int64_t label, double smoothing)
{
    REAL top = src[0];
    for (int64_t c = 1; c < C; c++)
        top = src[c] > top ? src[c] : top;
    double sum = 0;
    for (int64_t c = 0; c < C; c++) {
        dst[c] = exp(src[c] - top);
        sum += dst[c];
    }
    const REAL inverse = (REAL)(1 / sum);
    for (int64_t c = 0; c < C; c++)
        dst[c] *= inverse;

    const double weight = NAME(label_weight)(wei, C, label), log_sum = top + log(sum);
    if (weight != weight)
        return weight;
    double loss = (1 - smoothing) * weight * (log_sum - src[label]);
    if (smoothing > 0) { /* else an infinite logit would count as 0 x infinity */
        double all = 0;
        for (int64_t c = 0; c < C; c++)
            all += (wei ? wei[c] : 1.0) * (log_sum - src[c]);
        loss += smoothing / (double)C * all;
    }
    return loss;
}

/* The rows and the sums of their losses; item: a lane */
static void NAME(softmax_cross_entropy_range)(const step *s, int64_t begin, int64_t end)
{
    const loss_attr *t = s->attr;
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    const REAL *src = s->in[0].data, *wei = t->weights ? s->in[2].data : NULL;
    const int32_t *labels = s->in[1].data;
    REAL *dst = s->out[1].data;
    double *part = s->workspace;
    for (int64_t lane = begin; lane < end; lane++) {
        double sum = 0;
        for (int64_t n = N * lane / LANES; n < N * (lane + 1) / LANES; n++)
            sum += NAME(row_loss)(src + n * C, dst + n * C, wei, C, labels[n], t->smoothing);
        part[lane] = sum;
    }
}

/* in: src (logits), labels [, wei]; out: loss, dst (probabilities); workspace: a sum for each lane */
static brasa_status NAME(softmax_cross_entropy)(const step *s)
{
    const loss_attr *t = s->attr;
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    const double *part = s->workspace;
    step_for(s, LANES, (double)(N * C) * 10, NAME(softmax_cross_entropy_range)); /* exp counts as ten */
    double sum = 0;
    for (int lane = 0; lane < LANES; lane++)
        sum += part[lane];
    sum /= NAME(divisor)(t, t->weights ? s->in[2].data : NULL, C, s->in[1].data, N);
    *(REAL *)s->out[0].data = (REAL)sum;
    return BRASA_OK;
}

/* in: probabilities, labels [, wei], dloss; out: dsrc = dloss / total weight x (a p[c] - e / C w[c] - [c = y] (1 - e)
 * w[y]), where a is the sum of what is taken away, so that a row sums to zero. May lie over the probabilities.
 * item: a row */
static void NAME(softmax_cross_entropy_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const loss_attr *t = s->attr;
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    const REAL *dst = s->in[0].data, *wei = t->weights ? s->in[2].data : NULL;
    const int32_t *labels = s->in[1].data;
    REAL *dsrc = s->out[0].data;
    const double share = t->smoothing / (double)C;
    const double scale = *(const REAL *)s->in[s->nin - 1].data / NAME(divisor)(t, wei, C, labels, N);
    double all = wei ? 0 : (double)C;
    for (int64_t c = 0; wei && c < C; c++)
        all += wei[c];
    for (int64_t n = begin; n < end; n++) {
        const double own = (1 - t->smoothing) * NAME(label_weight)(wei, C, labels[n]);
        const REAL a = (REAL)(scale * (own + share * all)), b = (REAL)(scale * share);
        for (int64_t c = 0; c < C; c++)
            dsrc[n * C + c] = a * dst[n * C + c] - b * (wei ? wei[c] : 1);
        if (own == own) /* a label that is none: a is NaN already */
            dsrc[n * C + labels[n]] -= (REAL)(scale * own);
    }
}

SPLIT_STEP(NAME(softmax_cross_entropy_grad), NAME(softmax_cross_entropy_grad_range), s->out[0].shape.dim[0],
           (double)s->out[0].count)

#else

#define REAL_SOURCE "ops/softmax_cross_entropy/softmax_cross_entropy.c"
#include "ops/real.h"

static const field fields[] = {
    {"smoothing", FIELD_REAL, offsetof(loss_attr, smoothing), "0", 0, 1, NULL, false,
     "share of the target that is spread over all classes"},
    {"weights", FIELD_BOOL, offsetof(loss_attr, weights), "no", 0, 0, NULL, false,
     "a weight for each class, in the buffer class_weight"},
    {0},
};

static int params(const void *attr, const shape *in, int nin, const dialect *d, param_spec *out)
{
    const loss_attr *t = attr;
    (void)nin;
    (void)d;
    if (!t->weights || in[0].rank != 2)
        return 0;
    out[0] = (param_spec){.suffix = "class_weight", .shape = shape_1(in[0].dim[1]), .init = INIT_ONE, .buffer = true};
    return 1;
}

/* The weights that the session was given, as a value; -1 on error. */
static int given_weights(lower_args *a)
{
    graph *g = a->g;
    const constants_attr *given = g->class_weights;
    const shape *src = &g->values[a->in[0]].shape;
    if (src->dim[1] != given->count) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_SHAPE, "class_weights: %lld numbers for the %lld classes of '%s'",
                            (long long)given->count, (long long)src->dim[1], a->n->name));
        return -1;
    }
    int n = emit(g, &constants_op, a->n->name, given, 0, NULL);
    return n < 0 ? -1 : g->nodes[n].out[0];
}

/* The session's weights take the place of those that the loss has itself. */
static void lower_loss(lower_args *a)
{
    graph *g = a->g;
    const int own = a->n->nin > 2 ? a->in[2] : -1, wei = g->class_weights ? given_weights(a) : own;
    const loss_attr t = {((const loss_attr *)a->n->attr)->smoothing, wei >= 0, g->in_parts};
    int n = emit(g, a->n->op, a->n->name, &t, wei >= 0 ? 3 : 2, (int[]){a->in[0], a->in[1], wei});
    for (int k = 0; n >= 0 && k < a->n->nout; k++)
        a->out[k] = g->nodes[n].out[k];
}

/* Without labels there is no loss, but probabilities there are. */
static void lower(lower_args *a)
{
    if (!a->g->inference) {
        lower_loss(a);
        return;
    }
    int n = emit(a->g, &softmax_op, a->n->name, NULL, 1, a->in);
    a->out[1] = n < 0 ? -1 : a->g->nodes[n].out[0];
}

static brasa_status infer(infer_args *a)
{
    brasa_status status = infer_rank(a, 0, 2);
    if (status != BRASA_OK)
        return status;
    if (a->in[1].rank != 1 || a->in[1].dim[0] != a->in[0].dim[0])
        return infer_fail(a, "input 2 must be labels, one for each row of input 1");
    a->nout = 2;
    a->out[0] = (shape){0};
    a->out[1] = a->in[0];
    return BRASA_OK;
}

static const op_def softmax_cross_entropy_grad_op = {
    .name = "softmax_cross_entropy_grad", .attr_size = sizeof(loss_attr), .in_place = 1u};

/* The probabilities may be read by another loss: then there is a second way back. */
static void grad(grad_args *a)
{
    const node *n = a->n;
    int labels = n->in[1], dloss = a->dout[0], probs = n->out[1], dprobs = a->dout[1], dsrc = -1, more = -1;
    if (!a->need[0])
        return;
    if (dloss >= 0 && n->nin > 2)
        dsrc = grad_emit(a, &softmax_cross_entropy_grad_op, 4, (int[]){probs, labels, n->in[2], dloss}, 1, n->in);
    else if (dloss >= 0)
        dsrc = grad_emit(a, &softmax_cross_entropy_grad_op, 3, (int[]){probs, labels, dloss}, 1, n->in);
    if (dprobs >= 0)
        more = grad_emit(a, &softmax_grad_op, 2, (int[]){probs, dprobs}, 1, n->in);
    if (dsrc >= 0 && more >= 0)
        dsrc = grad_emit(a, &add_op, 2, (int[]){dsrc, more}, 1, n->in);
    a->din[0] = dsrc >= 0 ? dsrc : more;
}

static const op_case cases[] = {
    {"1x1 labels:1", ""},
    {"1x10 labels:10", ""},
    {"5x3 labels:3", ""},
    {"70x17 labels:17", ""},
    {"2x513 labels:513", "smoothing=0.1"},
    {"6x10 labels:10", "weights=yes"},
    {"9x17 labels:17", "weights=yes smoothing=0.2"},
    {"4x3 labels:3", "smoothing=1"},
    {"70000x10000 labels:10000", "", CASE_PLAN}, /* 2.8 GB */
    {"2x3x4x4 labels:3", "", CASE_FAILS},
    {"4x10 4", "", CASE_FAILS},
    {"4x10 4x10", "", CASE_FAILS},
    {"4x0 labels:10", "", CASE_FAILS},
    {0},
};

const op_def softmax_cross_entropy_op = {
    .name = "softmax_cross_entropy",
    .alias = "cross_entropy",
    .help = "loss of logits against class labels; second output: probabilities",
    .min_in = 2,
    .max_in = 2,
    .labels = 1u << 1,
    .attr_size = sizeof(loss_attr),
    .fields = fields,
    .params = params,
    .infer = infer,
    .lower = lower,
    .grad = grad,
    .cases = cases,
};

static brasa_status infer_scalar(infer_args *a)
{
    a->out[0] = (shape){0};
    return BRASA_OK;
}

const op_def class_total_op = {.name = "class_total", .infer = infer_scalar};

const op_def *const softmax_cross_entropy_parts[] = {&softmax_cross_entropy_op, &softmax_cross_entropy_grad_op,
                                                     &class_total_op, NULL};
const kernel softmax_cross_entropy_ref[] = {
    REFERENCE_(softmax_cross_entropy_op, softmax_cross_entropy, .workspace = loss_workspace),
    REFERENCE(softmax_cross_entropy_grad_op, softmax_cross_entropy_grad),
    REFERENCE(class_total_op, class_total),
    {0},
};

#endif
