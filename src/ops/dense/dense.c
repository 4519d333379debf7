/* dense.c - dst = src x wei^T + bia: the fully connected layer.
 *
 * N samples, C inputs, K outputs: src N x C, wei K x C, bia K, dst N x K. Where src is the output of a convolution
 * and views.c took the flatten between away, src is N x c x H x W and wei K x c x H x W, with C = c H W: the same
 * bytes. Each output element is summed by one thread in one order: results do not depend on the number of threads.
 */
#include "ops/dense/dense.h"

#include <math.h>

#ifdef REAL

/* in: src, wei [, bia]; out: dst; item: an element of dst */
static void NAME(dense_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data, *wei = s->in[1].data, *bia = s->nin > 2 ? s->in[2].data : NULL;
    REAL *dst = s->out[0].data;
    const int64_t C = dense_inputs(&s->in[0].shape), K = s->in[1].shape.dim[0];
    const activation act = s->node->act;
    for (int64_t i = begin; i < end; i++) {
        const REAL *x = src + i / K * C, *w = wei + i % K * C;
        REAL sum[8] = {0}; /* eight running sums: the compiler may use vectors without reordering anything */
        int64_t c = 0;
        for (; c + 8 <= C; c += 8)
            for (int j = 0; j < 8; j++)
                sum[j] += x[c + j] * w[c + j];
        for (; c < C; c++)
            sum[0] += x[c] * w[c];
        REAL all = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
        all += bia ? bia[i % K] : 0;
        dst[i] = ACTIVATE(act, all);
    }
}

SPLIT_STEP(NAME(dense), NAME(dense_range), s->out[0].count, (double)s->out[0].count *dense_inputs(&s->in[0].shape))

/* in: wei, ddst; out: dsrc = ddst x wei; item: a row of dsrc */
static void NAME(dense_grad_data_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *wei = s->in[0].data, *ddst = s->in[1].data;
    REAL *dsrc = s->out[0].data;
    const int64_t C = dense_inputs(&s->out[0].shape), K = s->in[0].shape.dim[0];
    for (int64_t n = begin; n < end; n++) {
        REAL *row = dsrc + n * C;
        for (int64_t c = 0; c < C; c++)
            row[c] = 0;
        for (int64_t k = 0; k < K; k++)
            for (int64_t c = 0; c < C; c++)
                row[c] += ddst[n * K + k] * wei[k * C + c];
    }
}

SPLIT_STEP(NAME(dense_grad_data), NAME(dense_grad_data_range), s->out[0].shape.dim[0],
           (double)s->out[0].count * s->in[0].shape.dim[0])

/* in: src, ddst; out: dwei = ddst^T x src [, dbia]; item: a row of dwei */
static void NAME(dense_grad_weights_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[0].data, *ddst = s->in[1].data;
    REAL *dwei = s->out[0].data, *dbia = s->nout > 1 ? s->out[1].data : NULL;
    const int64_t N = s->in[0].shape.dim[0], C = dense_inputs(&s->in[0].shape), K = s->out[0].shape.dim[0];
    for (int64_t k = begin; k < end; k++) {
        REAL *row = dwei + k * C, sum = 0;
        for (int64_t c = 0; c < C; c++)
            row[c] = 0;
        for (int64_t n = 0; n < N; n++) {
            sum += ddst[n * K + k];
            for (int64_t c = 0; c < C; c++)
                row[c] += ddst[n * K + k] * src[n * C + c];
        }
        if (dbia)
            dbia[k] = sum;
    }
}

SPLIT_STEP(NAME(dense_grad_weights), NAME(dense_grad_weights_range), s->out[0].shape.dim[0],
           (double)s->out[0].count * s->in[0].shape.dim[0])

#else

#define REAL_SOURCE "ops/dense/dense.c"
#include "ops/real.h"

static const field fields[] = {
    {"features", FIELD_INT, offsetof(dense_attr, features), NULL, 1, 1 << 28, NULL, true, "outputs"},
    {"bias", FIELD_BOOL, offsetof(dense_attr, bias), "yes", 0, 0, NULL, false, "add a learned constant"},
    {"init", FIELD_WORD, offsetof(dense_attr, init), "dialect", 0, 0, initializer_words, false, "initial weights",
     true},
    {"init_value", FIELD_REAL, offsetof(dense_attr, init_value), "0", 0, 0, NULL, false,
     "every weight, with init=constant", true},
    {0},
};

static int params(const void *attr, const shape *in, int nin, const dialect *d, param_spec *out)
{
    const dense_attr *t = attr;
    (void)nin;
    if (in[0].rank != 2)
        return 0;
    double C = (double)in[0].dim[1], K = t->features;
    out[0] = (param_spec){"weight",     shape_2(t->features, in[0].dim[1]), (initializer_kind)t->init, C, K, false,
                          t->init_value};
    out[1] = (param_spec){"bias", shape_1(t->features), (initializer_kind)d->bias_init, C, K, false};
    return t->bias ? 2 : 1;
}

static brasa_status infer(infer_args *a)
{
    const dense_attr *t = a->attr;
    brasa_status status = infer_rank(a, 0, 2);
    if (status != BRASA_OK)
        return status;
    a->out[0] = shape_2(a->in[0].dim[0], t->features);
    return BRASA_OK;
}

static void grad(grad_args *a)
{
    const int *in = a->n->in;
    if (a->need[0])
        a->din[0] = grad_emit(a, &dense_grad_data_op, 2, (int[]){in[1], a->dout[0]}, 1, in);
    if (!a->need[1] && (a->n->nin < 3 || !a->need[2]))
        return;
    a->din[1] = grad_emit(a, &dense_grad_weights_op, 2, (int[]){in[0], a->dout[0]}, a->n->nin - 1, in + 1);
    if (a->n->nin > 2 && a->din[1] >= 0)
        a->din[2] = a->din[1] + 1; /* outputs of a node are numbered one after the other */
}

static op_cost cost(const graph *g, const node *n)
{
    const shape *x = &g->values[n->in[0]].shape, *y = &g->values[n->out[0]].shape, *w = &g->values[n->in[1]].shape;
    /* 2 N C K whichever of the three products it is: two of the three tensors give all three letters. */
    return (op_cost){2.0 * sqrt((double)shape_count(x) * (double)shape_count(y) * (double)shape_count(w))};
}

static const op_case cases[] = {
    {"1x1", "1"},
    {"1x16", "50"},
    {"3x17", "3"},
    {"2x513", "17"},
    {"5x3", "513"},
    {"4x9", "8 bias=no"},
    {"8x6", "5 init=he_normal"},
    {"19x22", "50"},
    {"128x16", "50"}, /* letter_mlp's first one */
    {"128x70", "10"},
    {"33x130", "150"},                   /* more weights than a small one has */
    {"65536x20000", "40000", CASE_PLAN}, /* 10 GB out */
    {"2x3x4x4", "10", CASE_FAILS},
    {"2x0", "10", CASE_FAILS},
    {0},
};

const op_def dense_op = {
    .name = "dense",
    .help = "fully connected layer",
    .min_in = 1,
    .max_in = 1,
    .attr_size = sizeof(dense_attr),
    .fields = fields,
    .params = params,
    .infer = infer,
    .grad = grad,
    .takes_activation = true,
    .cost = cost,
    .cases = cases,
};
const op_def dense_grad_data_op = {.name = "dense_grad_data", .attr_size = sizeof(dense_attr), .cost = cost};
const op_def dense_grad_weights_op = {
    .name = "dense_grad_weights", .attr_size = sizeof(dense_attr), .fuse = dense_fuse_update, .cost = cost};
const op_def dense_update_op = {.name = "dense_update",
                                .attr_size = sizeof(fused_update_attr),
                                .fuse = dense_fuse_data,
                                .cost = dense_update_cost};

const op_def *const dense_parts[] = {&dense_op, &dense_grad_data_op, &dense_grad_weights_op, &dense_update_op, NULL};
const kernel dense_ref[] = {
    REFERENCE(dense_op, dense),
    REFERENCE(dense_grad_data_op, dense_grad_data),
    REFERENCE(dense_grad_weights_op, dense_grad_weights),
    {0},
};

#endif
