/* batchnorm.c - batch normalization.
 *
 * N samples, C channels of HW pixels (1 for vectors): src and dst N x C x HW; everything else C.
 *     dst = (src - mean) / sqrt(var + epsilon) * wei + bia
 * In training mean and var (the biased variance) are those of the batch, and running ones are kept beside; evaluation
 * uses the running ones. The user's node stands for either: lowering puts batchnorm_train, with the nodes that keep
 * the running statistics, or batchnorm_eval in its place. Frameworks differ in the running part only; the dialect
 * says how. Sums are taken in double, and the variance around the mean in a second pass, so that no mean is too
 * large.
 */
#include "ops/moving_average/moving_average.h"

#include <math.h>

#ifdef REAL

/* Sum over one channel of (x - shift) * (y - y_shift), or of x - shift where y is NULL. */
static double NAME(channel_sum)(const norm *v, int64_t c, const REAL *x, double x_shift, const REAL *y,
                                double y_shift)
{
    double sum[4] = {0}; /* four running sums: the compiler may use vectors without reordering anything */
    for (int64_t n = 0; n < v->N; n++) {
        const int64_t first = (n * v->C + c) * v->HW, end = first + v->HW;
        int64_t i = first;
        for (; i + 4 <= end; i += 4)
            for (int j = 0; j < 4; j++)
                sum[j] += (x[i + j] - x_shift) * (y ? y[i + j] - y_shift : 1);
        for (; i < end; i++)
            sum[0] += (x[i] - x_shift) * (y ? y[i] - y_shift : 1);
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* dst = (src - mean) * scale + shift over one channel. */
static void NAME(normalize)(const norm *v, int64_t c, const REAL *src, REAL *dst, REAL mean, REAL scale, REAL shift,
                            activation act)
{
    for (int64_t n = 0; n < v->N; n++) {
        const int64_t first = (n * v->C + c) * v->HW;
        for (int64_t i = first; i < first + v->HW; i++) {
            const REAL y = (src[i] - mean) * scale + shift;
            dst[i] = ACTIVATE(act, y);
        }
    }
}

/* in: src [, wei, bia]; out: dst, mean, var; item: a channel, here and below */
static void NAME(batchnorm_train_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data, *wei = s->nin > 1 ? s->in[1].data : NULL, *bia = wei ? s->in[2].data : NULL;
    REAL *dst = s->out[0].data, *mean = s->out[1].data, *var = s->out[2].data;
    const norm v = norm_of(s->attr, &s->in[0].shape);
    for (int64_t c = begin; c < end; c++) {
        const double m = NAME(channel_sum)(&v, c, src, 0, NULL, 0) / (double)v.count;
        const double square = NAME(channel_sum)(&v, c, src, m, src, m) / (double)v.count;
        const double scale = (wei ? wei[c] : 1) / sqrt(square + v.epsilon);
        mean[c] = (REAL)m;
        var[c] = (REAL)square;
        NAME(normalize)(&v, c, src, dst, (REAL)m, (REAL)scale, bia ? bia[c] : 0, s->node->act);
    }
}

static brasa_status NAME(batchnorm_train)(const step *s)
{
    step_for(s, s->in[0].shape.dim[1], (double)s->in[0].count * 7, NAME(batchnorm_train_range));
    return BRASA_OK;
}

/* in: src [, wei, bia], mean, var; out: dst */
static void NAME(batchnorm_eval_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data, *wei = s->nin > 3 ? s->in[1].data : NULL, *bia = wei ? s->in[2].data : NULL;
    const REAL *mean = s->in[s->nin - 2].data, *var = s->in[s->nin - 1].data;
    REAL *dst = s->out[0].data;
    const norm v = norm_of(s->attr, &s->in[0].shape);
    for (int64_t c = begin; c < end; c++) {
        const double scale = (wei ? wei[c] : 1) / sqrt(var[c] + v.epsilon);
        NAME(normalize)(&v, c, src, dst, mean[c], (REAL)scale, bia ? bia[c] : 0, s->node->act);
    }
}

static brasa_status NAME(batchnorm_eval)(const step *s)
{
    step_for(s, s->in[0].shape.dim[1], (double)s->in[0].count * 3, NAME(batchnorm_eval_range));
    return BRASA_OK;
}

/* Of both: with the batch's statistics the gradient also flows through mean and var, with running ones it does not.
 * in: src, ddst [, wei], mean, var; out: dsrc [, dwei, dbia] */
static void NAME(batchnorm_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data, *ddst = s->in[1].data, *wei = s->nin > 4 ? s->in[2].data : NULL;
    const REAL *mean = s->in[s->nin - 2].data, *var = s->in[s->nin - 1].data;
    REAL *dsrc = s->out[0].data;
    const norm v = norm_of(s->attr, &s->in[0].shape);
    const bool flows = s->node->op == &batchnorm_train_grad_op;
    for (int64_t c = begin; c < end; c++) {
        const double inverse = 1 / sqrt(var[c] + v.epsilon);
        const double sum = NAME(channel_sum)(&v, c, ddst, 0, NULL, 0);
        const double product = NAME(channel_sum)(&v, c, ddst, 0, src, mean[c]) * inverse;
        if (s->nout > 1) {
            ((REAL *)s->out[1].data)[c] = (REAL)product;
            ((REAL *)s->out[2].data)[c] = (REAL)sum;
        }
        /* dsrc = scale (ddst - sum / n - (src - mean) inverse product / n) */
        const REAL scale = (REAL)((wei ? wei[c] : 1) * inverse), shift = flows ? (REAL)(sum / (double)v.count) : 0;
        const REAL slope = flows ? (REAL)(inverse * product / (double)v.count) : 0, m = mean[c];
        for (int64_t n = 0; n < v.N; n++) {
            const int64_t first = (n * v.C + c) * v.HW;
            for (int64_t i = first; i < first + v.HW; i++)
                dsrc[i] = scale * (ddst[i] - shift - (src[i] - m) * slope);
        }
    }
}

static brasa_status NAME(batchnorm_grad)(const step *s)
{
    step_for(s, s->in[0].shape.dim[1], (double)s->in[0].count * 9, NAME(batchnorm_grad_range));
    return BRASA_OK;
}

#else

typedef struct batchnorm_attr {
    double momentum, epsilon;
    bool affine, frozen;
    int variance; /* variance_form; this and the next are not fields: the dialect's alone */
    bool debias;
} batchnorm_attr;

typedef struct norm {
    int64_t N, C, HW;
    int64_t count; /* values a channel: N * HW */
    double epsilon;
} norm;

static norm norm_of(const batchnorm_attr *t, const shape *src)
{
    const int64_t N = src->dim[0], HW = shape_span(src, 2, src->rank);
    return (norm){.N = N, .C = src->dim[1], .HW = HW, .count = N * HW, .epsilon = t->epsilon};
}

static const op_def batchnorm_train_grad_op;

#define REAL_SOURCE "ops/batchnorm/batchnorm.c"
#include "ops/real.h"

#define AT(member) offsetof(batchnorm_attr, member)
static const field fields[] = {
    {"momentum", FIELD_REAL, AT(momentum), "", 0, 1, NULL, false, "share of the new value in the running one"},
    {"epsilon", FIELD_REAL, AT(epsilon), "", 0, 1e15, NULL, false, "added to the variance"},
    {"affine", FIELD_BOOL, AT(affine), "yes", 0, 0, NULL, false, "with a learned factor and a learned constant"},
    {"frozen", FIELD_BOOL, AT(frozen), "no", 0, 0, NULL, false, "train with the running statistics, as they are"},
    {0},
};
#undef AT

static void set_defaults(void *attr, const dialect *d)
{
    batchnorm_attr *t = attr;
    t->momentum = d->batchnorm_momentum;
    t->epsilon = d->batchnorm_epsilon;
    t->variance = d->batchnorm_variance;
    t->debias = d->batchnorm_debias;
}

static int params(const void *attr, const shape *in, int nin, const dialect *d, param_spec *out)
{
    const batchnorm_attr *t = attr;
    (void)nin;
    (void)d;
    if (in[0].rank != 2 && in[0].rank != 4)
        return 0;
    const shape s = shape_1(in[0].dim[1]);
    int count = 0;
    if (t->affine) {
        out[count++] = (param_spec){.suffix = "weight", .shape = s, .init = INIT_ONE};
        out[count++] = (param_spec){.suffix = "bias", .shape = s, .init = INIT_ZERO};
    }
    out[count++] = (param_spec){.suffix = "running_mean", .shape = s, .init = INIT_ZERO, .buffer = true};
    out[count++] = (param_spec){.suffix = "running_var", .shape = s, .init = INIT_ONE, .buffer = true};
    return count;
}

static brasa_status infer(infer_args *a)
{
    if (a->in[0].rank != 2 && a->in[0].rank != 4)
        return infer_fail(a, "the input must be N x C x H x W or N x C");
    return infer_same(a);
}

static brasa_status infer_train(infer_args *a)
{
    const norm v = norm_of(a->attr, &a->in[0]);
    if (v.count < 2)
        return infer_fail(a, "training needs more than one value a channel: make the batch larger");
    a->nout = 3;
    a->out[0] = a->in[0];
    a->out[1] = a->out[2] = shape_1(v.C);
    return BRASA_OK;
}

static const op_def batchnorm_train_op, batchnorm_eval_op;

/* What the biased variance of n values is multiplied with on its way into the running one. */
static double variance_scale(const batchnorm_attr *t, double n)
{
    const double divisor = t->variance == VARIANCE_BIASED     ? n
                           : t->variance == VARIANCE_UNBIASED ? n - 1
                                                              : n - 1 - t->epsilon;
    return divisor > 0 ? n / divisor : 1;
}

static void keep_running(lower_args *a, int running, int stat, double scale)
{
    const batchnorm_attr *t = a->n->attr;
    const moving_average_attr attr = {.share = t->momentum, .scale = scale, .debias = t->debias};
    const int in[] = {running, stat, graph_counter(a->g)};
    int n = emit_into(a->g, &moving_average_op, a->n->name, &attr, 3, in, 1, &running);
    if (n >= 0)
        a->g->nodes[n].role = ROLE_UPDATE;
}

static void lower(lower_args *a)
{
    const batchnorm_attr *t = a->n->attr;
    const int nin = a->n->nin;
    const bool train = a->g->training && !t->frozen;
    const int n =
        emit(a->g, train ? &batchnorm_train_op : &batchnorm_eval_op, a->n->name, t, train ? nin - 2 : nin, a->in);
    if (n < 0)
        return;
    const int *out = a->g->nodes[n].out;
    a->out[0] = out[0];
    if (!train)
        return;
    const norm v = norm_of(t, &a->g->values[a->in[0]].shape);
    keep_running(a, a->in[nin - 2], out[1], 1);
    keep_running(a, a->in[nin - 1], out[2], variance_scale(t, (double)v.count));
}

static const op_def batchnorm_eval_grad_op;

/* Inputs and outputs as the kernel has them; mean and var are what the forward node computed or read. */
static void emit_grad(grad_args *a, const op_def *op, bool affine, int mean, int var)
{
    int in[5] = {a->n->in[0], a->dout[0]}, nin = 2;
    if (affine)
        in[nin++] = a->n->in[1];
    in[nin++] = mean;
    in[nin++] = var;
    const int nout = affine ? 3 : 1, dsrc = grad_emit(a, op, nin, in, nout, a->n->in);
    for (int k = 0; dsrc >= 0 && k < nout; k++)
        a->din[k] = dsrc + k; /* outputs of a node are numbered one after the other */
}

static void grad_train(grad_args *a)
{
    emit_grad(a, &batchnorm_train_grad_op, a->n->nin == 3, a->n->out[1], a->n->out[2]);
}

static void grad_eval(grad_args *a)
{
    const int nin = a->n->nin;
    emit_grad(a, &batchnorm_eval_grad_op, nin == 5, a->n->in[nin - 2], a->n->in[nin - 1]);
}

/* Two passes for the statistics or sums, and one for the elements. */
static op_cost cost(const graph *g, const node *n)
{
    const double count = (double)shape_count(&g->values[n->in[0]].shape);
    return (op_cost){count * (n->op == &batchnorm_eval_op ? 3 : n->op == &batchnorm_train_op ? 7 : 9)};
}

static const op_case cases[] = {
    {"1x1x2x3", ""},
    {"1x3x5x7", ""},
    {"4x3x4x4", ""},
    {"2x17x3x3", ""},
    {"1x513x2x2", "", 0, 1e-4},
    {"8x5", ""},
    {"5x513", "", 0, 1e-4},
    {"4x3x4x4", "affine=no"},
    {"6x5", "affine=no momentum=0.5 epsilon=0.1"},
    {"4x3x4x4", "frozen"},
    {"3x4", "frozen affine=no epsilon=0.5"},
    {"1x3", "frozen"}, /* one value a channel is enough then */
    {"4x3x4x4", "", 0, 0, "tfkeras"},
    {"4x3x4x4", "", 0, 0, "keras2"},
    {"4x3x4x4", "", 0, 0, "caffe"},
    {"16x128x600x600", "", CASE_PLAN}, /* 2.9 GB */
    {"1000000x1000000x1000x1000", "", CASE_FAILS | CASE_PLAN},
    {"1x3", "", CASE_FAILS | CASE_PLAN}, /* one value a channel: refused when the program is made */
    {"1x3x1x1", "", CASE_FAILS | CASE_PLAN},
    {"12", "", CASE_FAILS},
    {0},
};

const op_def batchnorm_op = {
    .name = "batchnorm",
    .help = "batch normalization, with running statistics for evaluation",
    .min_in = 1,
    .max_in = 1,
    .attr_size = sizeof(batchnorm_attr),
    .fields = fields,
    .set_defaults = set_defaults,
    .params = params,
    .infer = infer,
    .lower = lower,
    .cases = cases,
};

/* All may work in place: a channel's sums are taken before its first element is written. */
static const op_def batchnorm_train_op = {
    .name = "batchnorm_train",
    .attr_size = sizeof(batchnorm_attr),
    .infer = infer_train,
    .grad = grad_train,
    .in_place = 1,
    .takes_activation = true,
    .cost = cost,
};
static const op_def batchnorm_eval_op = {
    .name = "batchnorm_eval",
    .attr_size = sizeof(batchnorm_attr),
    .infer = infer_same,
    .grad = grad_eval,
    .in_place = 1,
    .takes_activation = true,
    .cost = cost,
};
static const op_def batchnorm_train_grad_op = {
    .name = "batchnorm_train_grad", .attr_size = sizeof(batchnorm_attr), .in_place = 3, .cost = cost};
static const op_def batchnorm_eval_grad_op = {
    .name = "batchnorm_eval_grad", .attr_size = sizeof(batchnorm_attr), .in_place = 3, .cost = cost};

const op_def *const batchnorm_parts[] = {&batchnorm_op,      &batchnorm_train_op,     &batchnorm_train_grad_op,
                                         &batchnorm_eval_op, &batchnorm_eval_grad_op, NULL};
const kernel batchnorm_ref[] = {
    REFERENCE(batchnorm_train_op, batchnorm_train),
    REFERENCE(batchnorm_train_grad_op, batchnorm_grad),
    REFERENCE(batchnorm_eval_op, batchnorm_eval),
    REFERENCE(batchnorm_eval_grad_op, batchnorm_grad),
    {0},
};

#endif
