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
#include "ops/batchnorm/batchnorm.h"
#include "ops/moving_average/moving_average.h"

#include <math.h>

#ifdef REAL

/* What a channel's elements are multiplied with and shifted by. */
typedef struct NAME(affine) {
    REAL mean, scale, shift;
} NAME(affine);

/* From mean and var as they are stored, so that the gradient finds the same bits. */
static NAME(affine) NAME(affine_of)(const norm *v, const batchnorm_args *a, int64_t c, REAL mean, REAL var)
{
    const REAL *wei = a->wei, *bia = a->bia;
    return (NAME(affine)){mean, (REAL)((wei ? wei[c] : 1) / sqrt(var + v->epsilon)), bia ? bia[c] : 0};
}

/* The mean of (x - shift)^power over one channel. */
static double NAME(moment)(const norm *v, int64_t c, const REAL *x, double shift, int power)
{
    double sum[4] = {0}; /* four running sums: the compiler may use vectors without reordering anything */
    for (int64_t n = 0; n < v->N; n++) {
        const int64_t first = (n * v->C + c) * v->HW, end = first + v->HW;
        int64_t i = first;
        for (; i + 4 <= end; i += 4)
            for (int j = 0; j < 4; j++)
                sum[j] += (x[i + j] - shift) * (power == 2 ? x[i + j] - shift : 1);
        for (; i < end; i++)
            sum[0] += (x[i] - shift) * (power == 2 ? x[i] - shift : 1);
    }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) / (double)v->count;
}

/* dst = act((src - mean) * scale + shift [+ res]) over one channel. */
static void NAME(normalize)(const norm *v, int64_t c, const batchnorm_args *a, REAL *dst, NAME(affine) f,
                            activation act)
{
    const REAL *src = a->src, *res = a->res;
    for (int64_t n = 0; n < v->N; n++) {
        const int64_t first = (n * v->C + c) * v->HW;
        for (int64_t i = first; i < first + v->HW; i++) {
            REAL y = (src[i] - f.mean) * f.scale + f.shift;
            if (res)
                y += res[i];
            dst[i] = ACTIVATE(act, y);
        }
    }
}

/* item: a channel, here and below */
static void NAME(batchnorm_train_range)(const step *s, int64_t begin, int64_t end)
{
    const batchnorm_args a = batchnorm_args_of(s);
    const norm v = norm_of(s->attr, &s->in[0].shape);
    REAL *dst = s->out[0].data, *mean = s->out[1].data, *var = s->out[2].data;
    for (int64_t c = begin; c < end; c++) {
        const double m = NAME(moment)(&v, c, a.src, 0, 1);
        mean[c] = (REAL)m;
        var[c] = (REAL)NAME(moment)(&v, c, a.src, m, 2);
        NAME(normalize)(&v, c, &a, dst, NAME(affine_of)(&v, &a, c, mean[c], var[c]), s->node->act);
    }
}

SPLIT_STEP(NAME(batchnorm_train), NAME(batchnorm_train_range), s->in[0].shape.dim[1], (double)s->in[0].count * 7)

static void NAME(batchnorm_eval_range)(const step *s, int64_t begin, int64_t end)
{
    const batchnorm_args a = batchnorm_args_of(s);
    const norm v = norm_of(s->attr, &s->in[0].shape);
    const REAL *mean = a.mean, *var = a.var;
    for (int64_t c = begin; c < end; c++)
        NAME(normalize)(&v, c, &a, s->out[0].data, NAME(affine_of)(&v, &a, c, mean[c], var[c]), s->node->act);
}

SPLIT_STEP(NAME(batchnorm_eval), NAME(batchnorm_eval_range), s->in[0].shape.dim[1], (double)s->in[0].count * 3)

/* A channel's gradient. */
typedef struct NAME(slope) {
    const REAL *src, *ddst, *more, *dst;
    NAME(affine) f;
    activation flat;
} NAME(slope);

/* What of ddst passes the activation, elements first .. first + count - 1: ddst itself, or in `tile`. There are no
 * branches in the loops, so that the compiler can use vectors. */
static const REAL *NAME(passes)(NAME(slope) g, int64_t first, int64_t count, REAL *tile)
{
    const REAL *src = g.src + first, *ddst = g.ddst + first, *more = g.more ? g.more + first : NULL, *y = src;
    const REAL low = g.flat == ACT_NONE ? (REAL)NAN : 0;   /* nothing is below NaN, ... */
    const REAL high = g.flat == ACT_RELU6 ? 6 : (REAL)NAN; /* ... or above it */
    if (g.flat == ACT_NONE && !more)
        return ddst;
    if (g.flat != ACT_NONE) {
        for (int64_t i = 0; i < count && !g.dst; i++)
            tile[i] = (src[i] - g.f.mean) * g.f.scale + g.f.shift;
        y = g.dst ? g.dst + first : tile;
    }
    for (int64_t i = 0; i < count; i++) {
        const REAL d = more ? ddst[i] + more[i] : ddst[i];
        tile[i] = ((y[i] <= low) | (y[i] >= high)) ? 0 : d;
    }
    return tile;
}

/* Adds to sum[] the gradient of so many elements, to product[] the gradient times src - mean. */
static void NAME(add_slopes)(const REAL *d, const REAL *src, double mean, int64_t count, double sum[4],
                             double product[4])
{
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (int j = 0; j < 4; j++) {
            sum[j] += d[i + j];
            product[j] += d[i + j] * (src[i + j] - mean);
        }
    }
    for (; i < count; i++) {
        sum[0] += d[i];
        product[0] += d[i] * (src[i] - mean);
    }
}

/* Of a channel: the sum of the gradient, and of the gradient times src - mean. */
static void NAME(slope_sums)(const norm *v, int64_t c, NAME(slope) g, double sums[2])
{
    double sum[4] = {0}, product[4] = {0};
    REAL tile[TILE];
    for (int64_t n = 0; n < v->N; n++) {
        for (int64_t i = 0; i < v->HW; i += TILE) {
            const int64_t first = (n * v->C + c) * v->HW + i, count = v->HW - i < TILE ? v->HW - i : TILE;
            const REAL *d = NAME(passes)(g, first, count, tile);
            NAME(add_slopes)(d, g.src + first, g.f.mean, count, sum, product);
        }
    }
    sums[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    sums[1] = (product[0] + product[1]) + (product[2] + product[3]);
}

/* dsrc = scale (gradient - level - (src - mean) tilt), and dres, the gradient as it is */
static void NAME(write_slopes)(const norm *v, int64_t c, NAME(slope) g, REAL level, REAL tilt, REAL *dsrc, REAL *dres)
{
    REAL tile[TILE];
    for (int64_t n = 0; n < v->N; n++) {
        for (int64_t i = 0; i < v->HW; i += TILE) {
            const int64_t first = (n * v->C + c) * v->HW + i, count = v->HW - i < TILE ? v->HW - i : TILE;
            const REAL *d = NAME(passes)(g, first, count, tile), *src = g.src + first;
            for (int64_t j = 0; j < count && dres; j++)
                dres[first + j] = d[j];
            for (int64_t j = 0; j < count; j++)
                dsrc[first + j] = g.f.scale * (d[j] - level - (src[j] - g.f.mean) * tilt);
        }
    }
}

static void NAME(batchnorm_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const batchnorm_attr *t = s->attr;
    const batchnorm_args a = batchnorm_args_of(s);
    const norm v = norm_of(t, &s->in[0].shape);
    const REAL *mean = a.mean, *var = a.var;
    const double n = (double)v.count;
    for (int64_t c = begin; c < end; c++) {
        const NAME(slope) g = {a.src, a.ddst, a.more, a.dst, NAME(affine_of)(&v, &a, c, mean[c], var[c]), t->flat};
        const double inverse = 1 / sqrt(var[c] + v.epsilon);
        double sums[2];
        NAME(slope_sums)(&v, c, g, sums);
        if (t->affine) {
            ((REAL *)s->out[1].data)[c] = (REAL)(sums[1] * inverse);
            ((REAL *)s->out[2].data)[c] = (REAL)sums[0];
        }
        if (s->node->op == &batchnorm_eval_grad_op)
            sums[0] = sums[1] = 0; /* nothing flows through mean and var */
        NAME(write_slopes)
        (&v, c, g, (REAL)(sums[0] / n), (REAL)(inverse * inverse * sums[1] / n), s->out[0].data,
         t->keeps_dres ? s->out[s->nout - 1].data : NULL);
    }
}

SPLIT_STEP(NAME(batchnorm_grad), NAME(batchnorm_grad_range), s->in[0].shape.dim[1], (double)s->in[0].count * 9)

#else

enum { TILE = 512 };

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

/* Inputs and outputs as the kernel has them; mean and var are what the forward node computed or read. */
static void emit_grad(grad_args *a, const op_def *op, int mean, int var)
{
    const bool affine = ((const batchnorm_attr *)a->n->attr)->affine;
    int in[6] = {a->n->in[0], a->dout[0]}, nin = 2;
    if (affine) {
        in[nin++] = a->n->in[1];
        in[nin++] = a->n->in[2];
    }
    in[nin++] = mean;
    in[nin++] = var;
    const int nout = affine ? 3 : 1, dsrc = grad_emit(a, op, nin, in, nout, a->n->in);
    for (int k = 0; dsrc >= 0 && k < nout; k++)
        a->din[k] = dsrc + k; /* outputs of a node are numbered one after the other */
}

static void grad_train(grad_args *a)
{
    emit_grad(a, &batchnorm_train_grad_op, a->n->out[1], a->n->out[2]);
}

static void grad_eval(grad_args *a)
{
    const int nin = a->n->nin;
    emit_grad(a, &batchnorm_eval_grad_op, a->n->in[nin - 2], a->n->in[nin - 1]);
}

/* Evaluation with the statistics that are there. */
static int again(graph *g, const node *n)
{
    const batchnorm_attr *t = n->attr;
    const bool train = n->op == &batchnorm_train_op;
    int in[6], nin = 0;
    for (; nin < n->nin; nin++)
        in[nin] = n->in[nin];
    for (int k = 1; train && k <= 2; k++)
        in[nin++] = n->out[k];
    return emit_like(g, &batchnorm_eval_op, n->name, t, nin, in, 1, n->in);
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
    {"3x32x3x5", ""}, /* blocks that are full: it may be a part of another tensor */
    {"3x32x3x5", "frozen"},
    {"1x513x2x2", "", 0, 1e-4},
    /* so many pixels that the kernels of GPUs cut them into parts */
    {"1x68x65x65", "", CASE_NO_GRAD},
    {"1x68x65x65", "frozen", CASE_NO_GRAD},
    {"1x128x65x65", "", CASE_NO_GRAD},
    {"2x5x48x47", "", CASE_NO_GRAD},
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
    {"2x0x4x4", "", CASE_FAILS},
    {"2x3x0x4", "", CASE_FAILS},
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

/* All may work in place, over whatever has the size of output 0: a channel's sums are taken before its first element
 * is written. */
const op_def batchnorm_train_op = {
    .name = "batchnorm_train",
    .attr_size = sizeof(batchnorm_attr),
    .infer = infer_train,
    .grad = grad_train,
    .in_place = 3,
    .mixes_samples = true,
    .takes_activation = true,
    .fuse = batchnorm_fuse,
    .again = again,
    .cost = cost,
};
const op_def batchnorm_eval_op = {
    .name = "batchnorm_eval",
    .attr_size = sizeof(batchnorm_attr),
    .infer = infer_same,
    .grad = grad_eval,
    .in_place = 3,
    .takes_activation = true,
    .fuse = batchnorm_fuse,
    .again = again,
    .cost = cost,
};
const op_def batchnorm_train_grad_op = {
    .name = "batchnorm_train_grad",
    .attr_size = sizeof(batchnorm_attr),
    .in_place = 15,
    .fuse = batchnorm_fuse_grad,
    .cost = cost,
};
const op_def batchnorm_eval_grad_op = {
    .name = "batchnorm_eval_grad",
    .attr_size = sizeof(batchnorm_attr),
    .in_place = 15,
    .fuse = batchnorm_fuse_grad,
    .cost = cost,
};

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
