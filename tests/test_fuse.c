/* test_fuse.c - what the rules of fusion merge, what they must leave alone, and that nothing else changes by it.
 *
 * Every network is compiled plain and fused, and the programs are compared: the loss, every gradient, the running
 * statistics. All rules but folding keep every bit. The nodes tell whether a rule was followed.
 */
#include "test.h"
#include "each_case.h"
#include "task.h"
#include "ops/batchnorm/batchnorm.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dropout/dropout.h"
#include "ops/maxpool/maxpool.h"
#include "session/session.h"

/* --- networks ------------------------------------------------------------------------------------------------- */

/* 20 channels leave some of their last block empty, whatever its size. */
static brasa_tensor start(brasa_graph *g)
{
    return brasa_apply(brasa_input(g, "image", 3, 9, 9), "conv 20 3x3 name=first");
}

static void finish(brasa_tensor x)
{
    brasa_apply(brasa_flatten(brasa_global_avgpool(x)), "classify 5 name=fc");
}

static brasa_tensor conv_bn(brasa_tensor x, const char *conv, const char *bn)
{
    return brasa_apply(brasa_apply(x, "conv 20 %s", conv), "batchnorm %s", bn);
}

static void build_tiny_resnet(brasa_graph *g)
{
    brasa_model_build(g, "tiny_resnet", 0);
}

/* Like MobileNetV2: depthwise, relu6, a sum without an activation. */
static void build_mobile(brasa_graph *g)
{
    brasa_tensor x = start(g);
    brasa_tensor y = brasa_apply(conv_bn(x, "1x1 bias=no", ""), "relu6");
    y = brasa_apply(conv_bn(y, "3x3 pad=1 groups=20 bias=no", ""), "relu6");
    finish(brasa_add(x, conv_bn(y, "1x1 bias=no", "")));
}

/* Two such blocks: the sum of gradients between them is read on both ways back. */
static void build_mobiles(brasa_graph *g)
{
    brasa_tensor x = conv_bn(start(g), "1x1 bias=no", "");
    for (int i = 0; i < 2; i++)
        x = brasa_add(x, conv_bn(brasa_apply(conv_bn(x, "1x1 bias=no", ""), "relu6"), "1x1 bias=no", ""));
    finish(x);
}

/* A sum of gradients goes through two activations: neither batch norm can have it for itself. */
static void build_shared_sum(brasa_graph *g)
{
    brasa_tensor x = start(g), y = brasa_relu(conv_bn(x, "3x3 pad=1", ""));
    y = brasa_add(y, brasa_relu(conv_bn(x, "1x1", "")));
    finish(brasa_add(brasa_apply(y, "conv 20 1x1"), brasa_apply(y, "conv 20 3x3 pad=1")));
}

static void build_relu6_sum(brasa_graph *g)
{
    brasa_tensor x = start(g);
    finish(brasa_apply(brasa_add(conv_bn(x, "3x3 pad=1", ""), x), "relu6"));
}

static void build_not_affine(brasa_graph *g)
{
    brasa_tensor x = brasa_relu(conv_bn(start(g), "3x3 pad=1", "affine=no"));
    finish(brasa_relu(brasa_add(conv_bn(x, "3x3 pad=1", "affine=no"), x)));
}

static void build_frozen(brasa_graph *g)
{
    brasa_tensor x = brasa_relu(conv_bn(start(g), "3x3 pad=1", "frozen"));
    finish(brasa_relu(brasa_add(conv_bn(x, "3x3 pad=1", "frozen affine=no"), x)));
}

/* Vectors: on the reference kernels. */
static void build_vectors(brasa_graph *g)
{
    brasa_tensor x = brasa_apply(brasa_flatten(brasa_input(g, "image", 3, 9, 9)), "dense 7 name=first");
    brasa_tensor y = brasa_relu(brasa_apply(brasa_apply(x, "dense 7"), "batchnorm"));
    y = brasa_relu(brasa_add(brasa_apply(brasa_apply(y, "dense 7"), "batchnorm"), y));
    brasa_apply(y, "classify 5 name=fc");
}

/* Two read what batch norm writes. */
static void build_shared(brasa_graph *g)
{
    brasa_tensor x = start(g), y = conv_bn(x, "3x3 pad=1", "");
    finish(brasa_relu(brasa_add(brasa_relu(y), y)));
}

/* Somebody fetches it. */
static void build_output(brasa_graph *g)
{
    brasa_tensor x = start(g), y = conv_bn(x, "3x3 pad=1", "");
    brasa_output(y, "between");
    finish(brasa_relu(brasa_add(y, x)));
}

/* Two batch norms behind one convolution. */
static void build_shared_conv(brasa_graph *g)
{
    brasa_tensor x = brasa_apply(start(g), "conv 20 1x1 name=second");
    brasa_tensor y = brasa_relu(brasa_apply(x, "batchnorm"));
    finish(brasa_add(y, brasa_apply(x, "batchnorm affine=no")));
}

/* The activation comes before the sum. */
static void build_early_relu(brasa_graph *g)
{
    brasa_tensor x = start(g);
    finish(brasa_add(brasa_relu(conv_bn(x, "3x3 pad=1", "")), x));
}

/* What is added is not there yet when batch norm runs. */
static void build_late_sum(brasa_graph *g)
{
    brasa_tensor x = start(g), y = conv_bn(x, "3x3 pad=1", "");
    finish(brasa_relu(brasa_add(y, brasa_apply(x, "conv 20 1x1 bias=no"))));
}

/* A tensor twice, and three of them. */
static void build_odd_sums(brasa_graph *g)
{
    brasa_tensor x = start(g), y = conv_bn(x, "3x3 pad=1", "");
    x = brasa_add(y, y);
    const brasa_tensor all[] = {conv_bn(x, "1x1", ""), x, y};
    finish(brasa_relu(brasa_apply_n(g, all, 3, "add")));
}

static void build_dropout(brasa_graph *g)
{
    brasa_tensor x = brasa_dropout(brasa_relu(start(g)), 0.25f);
    x = brasa_dropout(brasa_relu(brasa_apply(brasa_flatten(x), "dense 7")), 0.5f);
    brasa_apply(x, "classify 5 name=fc");
}

/* The ReLU is read beside dropout, too; another activation comes before it. */
static void build_odd_dropout(brasa_graph *g)
{
    brasa_tensor x = brasa_relu(start(g)), y = brasa_add(brasa_dropout(x, 0.25f), x);
    finish(brasa_dropout(brasa_apply(y, "relu6"), 0.5f));
}

/* Windows that overlap, with pads, behind a convolution, and whole ones behind batch norm. */
static void build_pools(brasa_graph *g)
{
    brasa_tensor x = brasa_apply(brasa_relu(start(g)), "maxpool 3 stride=2 pad=1");
    x = brasa_apply(brasa_apply(conv_bn(x, "3x3 pad=1", ""), "relu6"), "maxpool 2");
    finish(x);
}

/* Two read what the activation writes. */
static void build_shared_pool(brasa_graph *g)
{
    brasa_tensor x = brasa_relu(start(g));
    finish(brasa_add(brasa_apply(x, "maxpool 3 stride=1 pad=1"), x));
}

/* Somebody fetches it: the gradient can do without, the pooling reads it as it is. */
static void build_pool_output(brasa_graph *g)
{
    brasa_tensor x = brasa_relu(start(g));
    brasa_output(x, "before");
    finish(brasa_apply(x, "maxpool 2"));
}

/* How often a program has what the rules make, and what they take away. */
typedef struct counts {
    int residuals; /* batch norms with a sum in them */
    int flats;     /* gradients of batch norm with that of an activation in them, ... */
    int by_dst;    /* ... of those: that read the activation's output */
    int dres;      /* ... and that write the gradient for somebody else */
    int folds;     /* batch norms in the weights of a convolution */
    int relus;     /* nodes of activations, and of their gradients */
    int drops;     /* gradients of dropout with that of an activation in them */
    int pools;     /* max-poolings with an activation in them */
    int again;     /* outputs of batch norm that are made again for a gradient */
    int sums;      /* gradients of batch norm with a sum of gradients in them */
    int summed;    /* of those made again: with a residual */
} counts;

static const struct network {
    const char *name;
    void (*build)(brasa_graph *g);
    counts training, evaluation;
} networks[] = {
    {"tiny_resnet",
     build_tiny_resnet,
     {2, 5, 2, 2, .again = 3, .sums = 2, .summed = 1},
     {.residuals = 2, .folds = 4}},
    {"mobile", build_mobile, {1, 2, .again = 2}, {.residuals = 1, .folds = 2}},
    {"two mobile blocks",
     build_mobiles,
     {2, 2, 0, 1, .again = 3, .sums = 2, .summed = 1},
     {.residuals = 2, .folds = 3}},
    {"a shared sum", build_shared_sum, {.flats = 2}, {.folds = 1}},
    {"relu6 of a sum", build_relu6_sum, {1, 1, 1, 1, 0, 0}, {.residuals = 1}},
    {"not affine", build_not_affine, {1, 2, 1, 1, .again = 1, .sums = 1}, {.residuals = 1}},
    {"frozen", build_frozen, {1, 2, 1, 1, .again = 1, .sums = 1}, {.residuals = 1}},
    {"vectors", build_vectors, {1, 2, 1, 1, .again = 1, .sums = 1, .summed = 1}, {.residuals = 1}},
    {"shared", build_shared, {.relus = 3, .sums = 1}, {.relus = 1}},
    {"an output", build_output, {0, 1, 1, 1, 0, 0}, {0}},
    {"a shared convolution", build_shared_conv, {1, 1, 0, 0, 0, 0}, {.residuals = 1}},
    {"an early relu", build_early_relu, {.flats = 1}, {0}},
    {"a late sum", build_late_sum, {0, 1, 1, 1, 0, 0}, {.residuals = 1}},
    {"odd sums", build_odd_sums, {0, 1, 1, 1, 0, 0, .sums = 1}, {.folds = 1}},
    {"dropout", build_dropout, {.drops = 2}, {0}},
    {"odd dropout", build_odd_dropout, {.relus = 2}, {0}},
    {"pools", build_pools, {.relus = 2, .pools = 2}, {.pools = 2}},
    {"a shared pool", build_shared_pool, {.relus = 1}, {0}},
    {"an output before a pool", build_pool_output, {.relus = 1}, {0}},
};
enum { NETWORKS = sizeof networks / sizeof networks[0] };

static counts count_nodes(const graph *g)
{
    counts c = {0};
    for (int i = 0; i < g->nnodes; i++) {
        const op_def *op = g->nodes[i].op;
        const batchnorm_attr *t = g->nodes[i].attr;
        const bool forward = op == &batchnorm_train_op || op == &batchnorm_eval_op;
        const bool grad = op == &batchnorm_train_grad_op || op == &batchnorm_eval_grad_op;
        const bool again = forward && g->nodes[i].role == ROLE_GRADIENT;
        c.residuals += forward && !again && t->residual;
        c.flats += grad && t->flat != ACT_NONE;
        c.by_dst += grad && t->reads_dst;
        c.dres += grad && t->keeps_dres;
        c.sums += grad && t->sums;
        c.folds += op == &batchnorm_fold_op;
        c.relus += op == &relu_op || op == &relu6_op || op == &relu_grad_op || op == &relu6_grad_op;
        c.drops += op == &dropout_relu_grad_op;
        c.again += again;
        c.summed += again && t->residual;
        c.pools += op == &maxpool_op && g->nodes[i].act != ACT_NONE;
    }
    return c;
}

static void check_counts(const graph *g, counts want)
{
    const counts got = count_nodes(g);
    CHECK_INT(got.residuals, want.residuals);
    CHECK_INT(got.flats, want.flats);
    CHECK_INT(got.by_dst, want.by_dst);
    CHECK_INT(got.dres, want.dres);
    CHECK_INT(got.folds, want.folds);
    CHECK_INT(got.relus, want.relus);
    CHECK_INT(got.drops, want.drops);
    CHECK_INT(got.pools, want.pools);
    CHECK_INT(got.again, want.again);
    CHECK_INT(got.sums, want.sums);
    CHECK_INT(got.summed, want.summed);
}

/* --- the same numbers ----------------------------------------------------------------------------------------- */

/* What the plain program leaves behind, the fused one does too: the same bits, or as close as `tolerance` asks. */
static void compare(const proof *plain, const proof *fused, double tolerance)
{
    const graph *g = &plain->program.graph;
    int compared = 0;
    for (int v = 0; v < g->nvalues; v++) {
        if (!proof_readable(plain, v))
            continue;
        const char *name = g->values[v].name ? g->values[v].name : "a gradient";
        double most = 0, off = 0;
        CHECK(proof_readable(fused, v));
        for (int64_t i = 0; proof_readable(fused, v) && i < proof_count(plain, v); i++) {
            const double a = proof_get(plain, v, i), b = proof_get(fused, v, i);
            most = fmax(most, fabs(a));
            off = fmax(off, a == b ? 0 : isfinite(a - b) ? fabs(a - b) : INFINITY);
        }
        if (!(off <= tolerance * most))
            test_fail(__FILE__, __LINE__, "%s (%s) is off by %.3g, its largest element is %.3g", name,
                      shape_print(&g->values[v].shape).text, off, most);
        compared++;
    }
    CHECK(compared > 3);
}

static void check_network(brasa_context *ctx, const struct network *n, proof_options o, unsigned fusions, counts want)
{
    proof plain, fused;
    OWNED(brasa_graph) *g = brasa_graph_new(ctx);
    n->build(g);
    CHECK_STATUS(brasa_graph_status(g), BRASA_OK);
    o.batch = 3;
    brasa_status first = proof_make(&plain, g, o);
    CHECK_STATUS(first, BRASA_OK);
    o.fuse = true;
    o.fusions = fusions;
    brasa_status second = proof_make(&fused, g, o);
    CHECK_STATUS(second, BRASA_OK);
    if (first == BRASA_OK && second == BRASA_OK) {
        compare(&plain, &fused, fusions & FUSE_FOLD && o.evaluation ? o.real == F64 ? 1e-13 : 2e-5 : 0);
        check_counts(&fused.program.graph, want);
    }
    proof_free(&plain);
    proof_free(&fused);
}

/* The fastest kernels and the reference ones, in place or not, one thread or several. */
static void check_all(const struct network *n, bool evaluation)
{
    static const proof_options ways[] = {
        {.in_place = true}, {.in_place = true, .kernels = "_ref"}, {.real = F64}, {.in_place = false}};
    for (int threads = 1; threads <= 3; threads++) {
        OWNED(brasa_context) *ctx = context_of(threads);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            proof_options o = ways[w];
            o.evaluation = evaluation;
            o.gradients = !evaluation;
            check_network(ctx, n, o, FUSE_ALL, evaluation ? n->evaluation : n->training);
        }
    }
}

TEST(training)
{
    for (int i = 0; i < NETWORKS; i++) {
        CASE("%s", networks[i].name);
        check_all(&networks[i], false);
    }
}

TEST(evaluation)
{
    for (int i = 0; i < NETWORKS; i++) {
        CASE("%s", networks[i].name);
        check_all(&networks[i], true);
    }
}

/* Each rule can be switched off, and the others still work. */
TEST(switches)
{
    static const struct {
        const char *name;
        unsigned fusions;
        counts training, evaluation;
    } rows[] = {
        {"all but activations", FUSE_ALL & ~FUSE_ACTIVATIONS, {2, 5, 5, 2, 0, 5, .sums = 2}, {2, 0, 0, 0, 4, 5}},
        {"all but sums", FUSE_ALL & ~FUSE_RESIDUALS, {0, 5, 2, 2, .again = 3, .sums = 2}, {.folds = 6}},
        {"all but gradients",
         FUSE_ALL & ~FUSE_FLAT,
         {.residuals = 2, .relus = 5, .again = 3, .summed = 1},
         {.residuals = 2, .folds = 4}},
        {"all but sums of gradients",
         FUSE_ALL & ~FUSE_SUMS,
         {2, 5, 2, 2, .again = 3, .summed = 1},
         {.residuals = 2, .folds = 4}},
        {"all but folding",
         FUSE_ALL & ~FUSE_FOLD,
         {2, 5, 2, 2, .again = 3, .sums = 2, .summed = 1},
         {.residuals = 2}},
        {"activations alone", FUSE_ACTIVATIONS, {.relus = 5, .again = 3}, {0}},
    };
    OWNED(brasa_context) *ctx = context_of(2);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s", rows[r].name);
        check_network(ctx, &networks[0], (proof_options){.gradients = true, .in_place = true}, rows[r].fusions,
                      rows[r].training);
        check_network(ctx, &networks[0], (proof_options){.evaluation = true, .in_place = true}, rows[r].fusions,
                      rows[r].evaluation);
    }
}

/* --- folding -------------------------------------------------------------------------------------------------- */

/* Folds weights of a convolution that lie as `l` says; the values are wei [, bia] [, gamma, beta], mean, var, and the
 * folded wei and bia. */
static brasa_status fold_weights(proof *p, brasa_context *ctx, const layout *l, bool biased, bool affine)
{
    static const char *const names[] = {"wei", "bia", "gamma", "beta", "mean", "var"};
    graph *g = &p->program.graph;
    const shape wei = shape_4(20, 5, 3, 2), each = shape_1(20);
    int in[6], nin = 0;
    *p = (proof){0};
    graph_init(g, ctx);
    for (int k = 0; k < 6; k++) {
        if ((k == 1 && !biased) || ((k == 2 || k == 3) && !affine))
            continue;
        in[nin] = graph_value(g, VALUE_PARAM, F32, k ? &each : &wei, names[k]);
        g->values[in[nin]].start = (initializer){START_UNIFORM, k == 5 ? 0.1 : -1, 1};
        nin++;
    }
    g->values[in[0]].format.layout = *l;
    g->values[in[0]].settled = true;
    const batchnorm_attr attr = {.epsilon = 1e-3, .affine = affine};
    const int like[2] = {in[0], in[nin - 1]};
    const int n = emit_like(g, &batchnorm_fold_op, "fold", &attr, nin, in, 2, like);
    g->values[g->nodes[n].out[0]].output = g->values[g->nodes[n].out[1]].output = true;
    brasa_status status = pass_select(g, NULL);
    if (status == BRASA_OK)
        status = pass_plan(g, true, &p->program.plan);
    if (status == BRASA_OK)
        status = proof_load(p);
    return status == BRASA_OK ? proof_run(p, 255) : status;
}

static double number(const proof *p, const char *name, int64_t i, double otherwise)
{
    const int v = graph_find(&p->program.graph, name);
    return v < 0 ? otherwise : proof_get(p, v, i);
}

static void check_folded(const proof *p, int wei, int bia)
{
    double off = 0;
    for (int64_t c = 0; c < 20; c++) {
        const double scale = number(p, "gamma", c, 1) / sqrt(number(p, "var", c, NAN) + 1e-3);
        const double want = (number(p, "bia", c, 0) - number(p, "mean", c, NAN)) * scale + number(p, "beta", c, 0);
        off = fmax(off, fabs(proof_get(p, bia, c) - want));
        for (int64_t i = c * 30; i < (c + 1) * 30; i++)
            off = fmax(off, fabs(proof_get(p, wei, i) - number(p, "wei", i, NAN) * scale));
    }
    CHECK(off < 1e-5);
    /* In what blocks pad there is nothing but zero bytes. */
    const value *v = &p->program.graph.values[wei];
    const uint32_t *bits = proof_data(p, wei);
    int64_t nonzero = 0;
    for (int64_t i = 0; i < v->bytes / 4; i++)
        nonzero += bits[i] != 0;
    CHECK_INT(nonzero, 20 * 30);
}

TEST(folded_in_every_layout)
{
    static const struct {
        const char *name;
        layout layout;
    } rows[] = {
        {"oihw", {0}},
        {"ohwi", {.permuted = 1, .order = {0, 2, 3, 1}}},
        {"OIhw16i16o", {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}}},
        {"OIhw16o16i", {.nblocks = 2, .axis = {0, 1}, .block = {16, 16}}},
        {"OIhw8i8o", {.nblocks = 2, .axis = {1, 0}, .block = {8, 8}}},
        {"OIhw4i16o4i", {.nblocks = 3, .axis = {1, 0, 1}, .block = {4, 16, 4}}},
        {"Oihw8o", {.nblocks = 1, .axis = {0}, .block = {8}}},
        {"Ohwi16o", {.permuted = 1, .order = {0, 2, 3, 1}, .nblocks = 1, .axis = {0}, .block = {16}}},
        {"hwio", {.permuted = 1, .order = {2, 3, 1, 0}}}, /* not as it lies: by way of a reorder */
    };
    OWNED(brasa_context) *ctx = context_of(2);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        for (int way = 0; way < 4; way++) {
            CASE("%s%s%s", rows[r].name, way & 1 ? ", bias" : "", way & 2 ? ", affine" : "");
            OWNED(proof) p = {0};
            brasa_status status = fold_weights(&p, ctx, &rows[r].layout, way & 1, way & 2);
            CHECK_STATUS(status, BRASA_OK);
            const node *last = &p.program.graph.nodes[p.program.graph.nnodes - 1];
            if (status == BRASA_OK)
                check_folded(&p, last->out[0], last->out[1]);
        }
    }
}

/* --- sessions ------------------------------------------------------------------------------------------------- */

enum { BATCH = 4, STEPS = 3 };

typedef struct results {
    float loss[STEPS], evaluated;
    int folds, reorders; /* in the program that evaluates */
} results;

static results train_and_evaluate(void (*build)(brasa_graph *g), int classes, int pixels, bool no_fusion,
                                  const char *kernels)
{
    results r = {.evaluated = NAN};
    brasa_graph *g = brasa_graph_new(NULL);
    build(g);
    brasa_session *s = NULL;
    brasa_session_options o = {.size = sizeof o,
                               .batch = BATCH,
                               .optimizer = "sgd lr=0.05 momentum=0.9",
                               .no_fusion = no_fusion,
                               .kernels = kernels};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    task t = task_new(classes, pixels, BATCH, 0.3);
    for (int i = 0; s && i < STEPS; i++) {
        task_fill(&t, i * BATCH);
        CHECK_STATUS(brasa_train_step(s, t.images, t.labels, &r.loss[i]), BRASA_OK);
    }
    if (s)
        CHECK_STATUS(brasa_eval_step(s, t.images, t.labels, BATCH, &r.evaluated, NULL), BRASA_OK);
    for (int i = 0; s && i < s->current->graph.nnodes; i++) {
        const op_def *op = s->current->graph.nodes[i].op;
        r.folds += op == &batchnorm_fold_op;
        r.reorders += op == &reorder_op;
    }
    task_free(&t);
    brasa_session_free(s);
    brasa_graph_free(g);
    return r;
}

/* Weights that training laid out are folded as they lie. */
TEST(folded_after_training)
{
    static const struct {
        const char *name, *kernels;
        void (*build)(brasa_graph *g);
        int classes, pixels, folds;
    } rows[] = {
        {"tiny_resnet", NULL, build_tiny_resnet, 10, 3 * 32 * 32, 4},
        {"tiny_resnet on reference kernels", "_ref", build_tiny_resnet, 10, 3 * 32 * 32, 4},
        {"mobile", NULL, build_mobile, 5, 3 * 9 * 9, 2},
        {"mobile on reference kernels", "_ref", build_mobile, 5, 3 * 9 * 9, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        const results plain =
            train_and_evaluate(rows[i].build, rows[i].classes, rows[i].pixels, true, rows[i].kernels);
        const results fused =
            train_and_evaluate(rows[i].build, rows[i].classes, rows[i].pixels, false, rows[i].kernels);
        for (int k = 0; k < STEPS; k++) /* of updates, only the references keep the bits of their gradients */
            CHECK_CLOSE(fused.loss[k], plain.loss[k], rows[i].kernels ? 0 : 1e-5 * fabs((double)plain.loss[k]));
        CHECK(fused.loss[STEPS - 1] != fused.loss[0]);
        CHECK_CLOSE(fused.evaluated, plain.evaluated, 1e-5 * fabs((double)plain.evaluated));
        CHECK(plain.folds == 0 && fused.folds == rows[i].folds);
        CHECK_INT(fused.reorders, plain.reorders);
    }
}
