/* test_dense_update.c - the gradient of a dense layer's weights and their update, in one pass, and the same of
 * convolutions with few pixels: trains as the two do apart, in every layout and with every optimizer, only where
 * nobody else wants the gradient, and without its room.
 */
#include "test.h"
#include "each_case.h"
#include "task.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dense/dense.h"
#include "session/session.h"

static int count_nodes(const graph *g, const op_def *op)
{
    int count = 0;
    for (int i = 0; i < g->nnodes; i++)
        count += g->nodes[i].op == op;
    return count;
}

/* --- training ------------------------------------------------------------------------------------------------- */

enum { BATCH = 5, STEPS = 4, CLASSES = 5, PIXELS = 3 * 9 * 9 };

/* 243 inputs and 70 outputs fill no block of either. */
static void build_mlp(brasa_graph *g)
{
    brasa_tensor x = brasa_flatten(brasa_input(g, "image", 3, 9, 9));
    x = brasa_relu(brasa_apply(x, "dense 70 name=fc1"));
    x = brasa_relu(brasa_apply(x, "dense 33 bias=no name=fc2"));
    brasa_apply(x, "classify 5 name=fc3");
}

/* Weights that take blocks of channels as they come: 4860 of them an output, padded to 32 channels. */
static void build_conv(brasa_graph *g)
{
    brasa_tensor x = brasa_relu(brasa_apply(brasa_input(g, "image", 3, 9, 9), "conv 20 3x3 name=conv"));
    x = brasa_relu(brasa_apply(brasa_flatten(x), "dense 130 name=fc1"));
    brasa_apply(x, "classify 5 name=fc2");
}

/* Four convolutions, whose channels fill no block: 180 outputs of one tap, with the batch, and twice 45 of nine taps.
 * The first one has too few inputs. */
static void build_small_pictures(brasa_graph *g)
{
    brasa_tensor x = brasa_relu(brasa_apply(brasa_input(g, "image", 3, 9, 9), "conv 20 4x4 name=conv1"));
    x = brasa_relu(brasa_apply(x, "conv 70 1x1 name=conv2"));
    x = brasa_relu(brasa_apply(x, "conv 40 3x3 stride=2 pad=1 name=conv3"));
    x = brasa_relu(brasa_apply(x, "conv 17 3x3 pad=1 bias=no name=conv4"));
    x = brasa_relu(brasa_apply(x, "conv 20 2x3 pad=0,2,1,2 dilation=1x2 name=conv5"));
    brasa_apply(brasa_flatten(x), "classify 5 name=fc");
}

/* Convolutions of the input, which have no other gradient: that of the concat is read in its place. */
static void build_branches(brasa_graph *g)
{
    brasa_tensor x = brasa_input(g, "image", 27, 3, 3);
    brasa_tensor a = brasa_apply(x, "conv 16 1x1 name=a"), b = brasa_apply(x, "conv 32 3x3 pad=1 name=b");
    x = brasa_global_avgpool(brasa_concat(g, (brasa_tensor[]){a, b}, 2));
    brasa_apply(brasa_flatten(x), "classify 5 name=fc");
}

/* One step; a session in double is fed with doubles. */
static void train_step(brasa_session *s, const task *t)
{
    static double wide[BATCH * PIXELS];
    const bool doubles = s->options.float64;
    for (int i = 0; i < BATCH * PIXELS; i++)
        wide[i] = t->images[i];
    const size_t bytes = BATCH * PIXELS * (doubles ? sizeof(double) : sizeof(float));
    CHECK_STATUS(brasa_feed(s, "image", doubles ? (const void *)wide : t->images, bytes), BRASA_OK);
    CHECK_STATUS(brasa_feed(s, "label", t->labels, BATCH * sizeof *t->labels), BRASA_OK);
    CHECK_STATUS(brasa_train(s), BRASA_OK);
}

static brasa_session *train(brasa_context *ctx, void (*build)(brasa_graph *g), brasa_session_options o)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_session *s = NULL;
    build(g);
    o.size = sizeof o;
    o.batch = BATCH;
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    task t = task_new(CLASSES, PIXELS, BATCH, 0.3);
    for (int i = 0; s && i < STEPS; i++) {
        task_fill(&t, i * BATCH);
        train_step(s, &t);
    }
    task_free(&t);
    return s;
}

static void forget(brasa_session *s)
{
    OWNED(brasa_graph) *g = s ? (brasa_graph *)s->source : NULL;
    brasa_session_free(s);
}

static double stored(const brasa_session *s, const state *st, int64_t i)
{
    const void *data = session_state_data(s, st);
    return st->type == F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* All that lasts, padding included: the same bits where the tolerance is 0. */
static void compare(const brasa_session *a, const brasa_session *b, double tolerance)
{
    CHECK_INT(a->nstates, b->nstates);
    for (int k = 0; k < a->nstates; k++) {
        const state *st = &a->states[k], *other = session_state(b, st->name);
        if (st->kind == VALUE_COUNTER)
            continue;
        if (!other || other->bytes != st->bytes || !layout_equal(&st->format.layout, &other->format.layout)) {
            test_fail(__FILE__, __LINE__, "%s lies in another layout", st->name);
            continue;
        }
        double most = 0, off = 0;
        for (int64_t i = 0; i < st->bytes / (int64_t)dtype_size(st->type); i++) {
            const double x = stored(a, st, i), y = stored(b, other, i);
            most = fmax(most, fabs(x));
            off = fmax(off, x == y ? 0 : isfinite(x - y) ? fabs(x - y) : INFINITY);
        }
        if (!(off <= tolerance * most) || most == 0)
            test_fail(__FILE__, __LINE__, "%s is off by %.3g, its largest element is %.3g", st->name, off, most);
    }
}

/* Optimizers that divide by the size of a gradient make much of the rounding of a small one. */
#define ROUNDED 2e-3

static void check_training(const char *name, void (*build)(brasa_graph *g), int layers, int convolutions,
                           const char *optimizer)
{
    static const struct {
        const char *name;
        int threads;
        isa isa;
        brasa_session_options options;
        double tolerance;
    } ways[] = {
        {"double", 2, ISA_AVX512, {.float64 = true}, 1e-12},
        {"reference", 3, ISA_AVX512, {.kernels = "_ref"}, 0},
        {"one thread", 1, ISA_AVX512, {0}, ROUNDED},
        {"three threads", 3, ISA_AVX512, {0}, ROUNDED},
        {"AVX2", 2, ISA_AVX2, {0}, ROUNDED},
    };
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        CASE("%s, %s, %s", name, optimizer, ways[w].name);
        OWNED(brasa_context) *ctx = context_of(ways[w].threads);
        if (ctx->isa > ways[w].isa)
            ctx->isa = ways[w].isa;
        brasa_session_options o = ways[w].options;
        o.optimizer = optimizer;
        brasa_session *fused = train(ctx, build, o);
        o.no_fusion = true;
        brasa_session *apart = train(ctx, build, o);
        if (fused && apart) {
            compare(apart, fused, ways[w].tolerance);
            CHECK_INT(count_nodes(&fused->current->graph, &dense_update_op), layers);
            CHECK_INT(count_nodes(&fused->current->graph, &dense_grad_weights_op), 0);
            CHECK_INT(count_nodes(&apart->current->graph, &dense_update_op), 0);
            CHECK_INT(count_nodes(&fused->current->graph, &conv2d_update_op), convolutions);
            CHECK_INT(count_nodes(&apart->current->graph, &conv2d_update_op), 0);
        }
        forget(fused);
        forget(apart);
    }
}

/* Every optimizer there is, and the forms of SGD. */
TEST(trains_as_apart)
{
    static const char *const others[] = {"sgd lr=0.05 momentum=0.9 weight_decay=0.01",
                                         "sgd lr=0.05 momentum=0.9 nesterov decay=0.1"};
    for (int i = 0; optimizer_at(i); i++) {
        check_training("mlp", build_mlp, 3, 0, optimizer_at(i)->op->name);
        check_training("conv", build_conv, 2, 0, optimizer_at(i)->op->name);
    }
    check_training("small pictures", build_small_pictures, 1, 4, "adam epsilon=0.01");
    for (int i = 0; i < 2; i++) {
        check_training("mlp", build_mlp, 3, 0, others[i]);
        check_training("conv", build_conv, 2, 0, others[i]);
        check_training("small pictures", build_small_pictures, 1, 4, others[i]);
    }
}

/* With several samples, whose parts are apart. */
TEST(reads_parts)
{
    const char *optimizer = "sgd lr=0.05 momentum=0.9";
    check_training("branches", build_branches, 1, 2, optimizer);
    brasa_session *s = train(NULL, build_branches, SIZED(brasa_session_options, .optimizer = optimizer));
    int parts = 0;
    for (int i = 0; s && i < s->current->graph.nnodes; i++) {
        const node *n = &s->current->graph.nodes[i];
        parts += n->op == &conv2d_update_op && s->current->graph.values[n->in[1]].whole >= 0;
    }
    CHECK_INT(parts, isa_available() == ISA_ANY ? 0 : 2);
    forget(s);
}

/* A gradient that somebody else wants is computed on its own. */
TEST(left_apart)
{
    static const struct {
        const char *name;
        brasa_session_options options;
        int merged;
    } rows[] = {
        {"as it is", {0}, 3},
        {"clipped", {.clip_norm = 1}, 0},
        {"kept", {.keep_gradients = true}, 0},
        {"without fusion", {.no_fusion = true}, 0},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s", rows[r].name);
        brasa_session *s = train(NULL, build_mlp, rows[r].options);
        if (s) {
            CHECK_INT(count_nodes(&s->current->graph, &dense_update_op), rows[r].merged);
            CHECK_INT(count_nodes(&s->current->graph, &dense_grad_weights_op), 3 - rows[r].merged);
        }
        forget(s);
    }
}

/* How many convolutions of a network of one are updated with their gradient. */
static int merged(const char *layer, int channels, int size, int batch, isa most)
{
    brasa_context *ctx = context_of(1);
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_session *s = NULL;
    ctx->isa = ctx->isa < most ? ctx->isa : most;
    brasa_apply(brasa_flatten(brasa_apply(brasa_input(g, "image", channels, size, size), "%s", layer)), "classify 5");
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .batch = batch, .plan_only = true), &s),
                 BRASA_OK);
    const int count = s ? count_nodes(&s->current->graph, &conv2d_update_op) : -1;
    forget(s);
    brasa_context_free(ctx);
    return count;
}

TEST(convolutions_with_few_pixels)
{
    for (isa i = ISA_ANY; i <= ISA_AVX512; i++) {
        CHECK_INT(merged("conv 16 1x1", 16, 14, 1, i), 1);
        CHECK_INT(merged("conv 16 1x1", 16, 7, 4, i), 1);
        CHECK_INT(merged("conv 16 1x1", 16, 14, 2, i), 0);
        CHECK_INT(merged("conv 16 1x1", 16, 15, 1, i), 0);
        CHECK_INT(merged("conv 16 1x1 stride=2", 16, 28, 1, i), 1);
        CHECK_INT(merged("conv 16 1x1", 15, 7, 1, i), 0);
        CHECK_INT(merged("conv 15 1x1", 16, 7, 1, i), 0);
        CHECK_INT(merged("conv 16 1x1 groups=2", 32, 7, 1, i), 0);
        CHECK_INT(merged("conv 16 3x3 pad=1", 16, 7, 1, i), 1);
        CHECK_INT(merged("conv 16 3x3 pad=1", 16, 7, 2, i), 0);
        CHECK_INT(merged("conv 16 3x3 pad=1", 16, 8, 1, i), 0);
        CHECK_INT(merged("conv 16 4x3 pad=1", 16, 6, 1, i), 0);
    }
}

/* --- one node, in every layout ---------------------------------------------------------------------------------- */

/* Both nodes by hand: values src, ddst, wei, rate, steps and a slot, whose gradient is the next value. */
typedef struct layer {
    int64_t N, K;
    shape src; /* with N = 1 */
    layout wei;
    bool bias;
    bool data; /* its gradient is wanted, too */
} layer;

static const char *const layer_inputs[] = {"src", "ddst", "wei", "rate", "steps", "slot"};

static int build_layer(graph *g, const layer *l)
{
    shape shapes[6] = {l->src, shape_2(l->N, l->K), l->src, {0}, {0}, l->src};
    int v[6];
    shapes[0].dim[0] = l->N;
    shapes[2].dim[0] = shapes[5].dim[0] = l->K;
    for (int k = 0; k < 6; k++) {
        const value_kind kind = k == 4 ? VALUE_COUNTER : VALUE_PARAM;
        v[k] = graph_value(g, kind, k == 4 ? I64 : g->real, &shapes[k], layer_inputs[k]);
        g->values[v[k]].start = (initializer){START_UNIFORM, -1, 1};
    }
    g->values[v[2]].format.layout = l->wei;
    g->values[v[2]].settled = true;
    const shape each = shape_1(l->K);
    const int bia = graph_value(g, VALUE_PARAM, g->real, &each, "bia");
    const op_def *op = sgd_optimizer.op;
    void *attr = pool_get(&g->pool, 1, op->attr_size);
    op->set_defaults(attr, g->dialect);
    CHECK_STATUS(fields_parse(g->ctx, "sgd", op->fields, attr, "lr=0.1 momentum=0.9 weight_decay=0.1"), BRASA_OK);
    const dense_attr dense = {.features = (int)l->K, .bias = l->bias};
    if (l->data) {
        const int data = emit_like(g, &dense_grad_data_op, "fc", &dense, 2, (int[]){v[2], v[1]}, 1, v);
        g->values[g->nodes[data].out[0]].output = true;
    }
    const int n = emit_like(g, &dense_grad_weights_op, "fc", &dense, 2, v, l->bias ? 2 : 1, (int[]){v[2], bia});
    const int *made = g->nodes[n].out;
    if (l->bias)
        g->values[made[1]].output = true;
    emit_into(g, op, "wei", attr, 5, (int[]){v[2], made[0], v[3], v[4], v[5]}, 2, (int[]){v[2], v[5]});
    return made[0];
}

static brasa_status make_layer(proof *p, brasa_context *ctx, const layer *l, dtype real, unsigned fuse,
                               const char *kernels)
{
    graph *g = &p->program.graph;
    *p = (proof){0};
    graph_init(g, ctx);
    g->real = real;
    g->fuse = fuse;
    build_layer(g, l);
    brasa_status status = g->status == BRASA_OK ? pass_fuse(g) : g->status;
    if (status == BRASA_OK)
        status = pass_select(g, kernels);
    if (status == BRASA_OK)
        status = pass_plan(g, true, &p->program.plan);
    if (status == BRASA_OK)
        status = proof_load(p);
    return status == BRASA_OK ? proof_run(p, 255) : status;
}

static void compare_layers(const proof *apart, const proof *fused, double tolerance)
{
    const graph *g = &apart->program.graph;
    for (int v = 0; v < g->nvalues; v++) {
        double most = 0, off = 0;
        if (!proof_readable(apart, v) || g->values[v].kind == VALUE_COUNTER)
            continue;
        for (int64_t i = 0; i < proof_count(apart, v); i++) {
            const double x = proof_get(apart, v, i), y = proof_get(fused, v, i);
            most = fmax(most, fabs(x));
            off = fmax(off, isfinite(x - y) ? fabs(x - y) : INFINITY);
        }
        if (!(off <= tolerance * most))
            test_fail(__FILE__, __LINE__, "value %d is off by %.3g, its largest element is %.3g", v, off, most);
    }
    /* What blocks pad stays zero. */
    const int wei = graph_find(&fused->program.graph, "wei");
    const float *data = proof_data(fused, wei);
    int64_t nonzero = 0;
    for (int64_t i = 0; fused->program.graph.real == F32 && i < fused->program.graph.values[wei].bytes / 4; i++)
        nonzero += data[i] != 0;
    if (fused->program.graph.real == F32)
        CHECK_INT(nonzero, proof_count(fused, wei));
}

static const struct layer_row {
    const char *name;
    layer layer;
    bool fast; /* a kernel with vectors takes it */
} layers[] = {
    {"oi", {1, 70, {2, {1, 64}}, {0}, true}, true},
    {"oi of many samples", {33, 7, {2, {1, 2064}}, {0}, false}, true},
    {"oi of odd rows", {3, 70, {2, {1, 513}}, {0}, true}, true},
    {"io", {5, 1040, {2, {1, 37}}, {.permuted = 1, .order = {1, 0}}, true}, true},
    {"io of odd rows", {5, 70, {2, {1, 37}}, {.permuted = 1, .order = {1, 0}}, true}, true},
    {"io of three", {5, 3, {2, {1, 700}}, {.permuted = 1, .order = {1, 0}}, true}, true},
    {"io of a long odd row", {2, 2071, {2, {1, 9}}, {.permuted = 1, .order = {1, 0}}, true}, true},
    {"OI16i16o", {5, 70, {2, {1, 37}}, {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}}, true}, true},
    {"OI16i32o", {1, 70, {2, {1, 37}}, {.nblocks = 2, .axis = {1, 0}, .block = {16, 32}}, true}, true},
    {"OI16i64o", {9, 130, {2, {1, 137}}, {.nblocks = 2, .axis = {1, 0}, .block = {16, 64}}, false}, true},
    {"OI16o16i", {5, 70, {2, {1, 37}}, {.nblocks = 2, .axis = {0, 1}, .block = {16, 16}}, true}, false},
    {"oihw", {5, 70, {4, {1, 20, 4, 4}}, {0}, true}, true},
    {"oIhw8i", {5, 70, {4, {1, 20, 3, 2}}, {.nblocks = 1, .axis = {1}, .block = {8}}, true}, true},
    {"OIhw16i64o", {9, 70, {4, {1, 20, 3, 3}}, {.nblocks = 2, .axis = {1, 0}, .block = {16, 64}}, true}, true},
    {"ohwi", {5, 70, {4, {1, 20, 3, 3}}, {.permuted = 1, .order = {0, 2, 3, 1}}, true}, false},
    {"OIhw4i16o4i",
     {5, 70, {4, {1, 20, 3, 3}}, {.nblocks = 3, .axis = {1, 0, 1}, .block = {4, 16, 4}}, false},
     false},
    {"oi and data", {3, 70, {2, {1, 513}}, {0}, true, true}, true},
    {"oi and data, long", {1, 5, {2, {1, 2064}}, {0}, false, true}, true},
    {"io and data", {4, 1040, {2, {1, 37}}, {.permuted = 1, .order = {1, 0}}, true, true}, true},
    {"io and data, odd", {2, 2071, {2, {1, 9}}, {.permuted = 1, .order = {1, 0}}, false, true}, true},
    {"OI16i16o and data",
     {4, 1090, {2, {1, 37}}, {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}}, true, true},
     true},
    {"OI16i64o and data",
     {1, 130, {2, {1, 137}}, {.nblocks = 2, .axis = {1, 0}, .block = {16, 64}}, true, true},
     true},
    {"OI16o16i and data",
     {2, 70, {2, {1, 137}}, {.nblocks = 2, .axis = {0, 1}, .block = {16, 16}}, true, true},
     false},
    {"oIhw8i and data", {2, 90, {4, {1, 20, 3, 2}}, {.nblocks = 1, .axis = {1}, .block = {8}}, true, true}, true},
    {"OIhw16i64o and data",
     {3, 70, {4, {1, 20, 3, 3}}, {.nblocks = 2, .axis = {1, 0}, .block = {16, 64}}, true, true},
     true},
};

static void check_layer(brasa_context *ctx, const struct layer_row *row, dtype real, const char *kernels)
{
    proof apart, fused, more;
    ctx->threads = 1;
    brasa_status first = make_layer(&apart, ctx, &row->layer, real, 0, kernels);
    brasa_status second = make_layer(&fused, ctx, &row->layer, real, FUSE_UPDATES, kernels);
    CHECK_STATUS(first, BRASA_OK);
    CHECK_STATUS(second, BRASA_OK);
    if (first == BRASA_OK && second == BRASA_OK) {
        const graph *g = &fused.program.graph;
        const node *last = &g->nodes[g->nnodes - 1];
        compare_layers(&apart, &fused, real == F64 ? 1e-14 : kernels ? 0 : 3e-6);
        CHECK(last->op == &dense_update_op);
        CHECK_INT(count_nodes(g, &dense_grad_data_op), row->layer.data && (real == F64 || ctx->isa == ISA_ANY));
        const bool reference = strcmp(last->kernel->name, "dense_update_ref") == 0;
        CHECK(reference == (!row->fast || real == F64 || kernels || ctx->isa == ISA_ANY));
        for (ctx->threads = 2; ctx->threads <= 5; ctx->threads += 3) {
            CHECK_STATUS(make_layer(&more, ctx, &row->layer, real, FUSE_UPDATES, kernels), BRASA_OK);
            for (int v = 0; v < g->nvalues; v++)
                CHECK(!proof_readable(&fused, v) || proof_same(&fused, &more, v));
            proof_free(&more);
        }
    }
    proof_free(&apart);
    proof_free(&fused);
}

/* The result does not depend on the number of threads either. */
TEST(every_layout)
{
    for (size_t r = 0; r < sizeof layers / sizeof layers[0]; r++) {
        OWNED(brasa_context) *ctx = context_of(1);
        const isa best = ctx->isa;
        CASE("%s, reference", layers[r].name);
        check_layer(ctx, &layers[r], F32, "_ref");
        CASE("%s, double", layers[r].name);
        check_layer(ctx, &layers[r], F64, NULL);
        for (isa i = ISA_ANY; i <= best; i++) {
            CASE("%s, %s", layers[r].name, isa_name(i));
            ctx->isa = i;
            check_layer(ctx, &layers[r], F32, NULL);
        }
    }
}

/* --- the rule ------------------------------------------------------------------------------------------------- */

static void build_as_is(graph *g, int dwei)
{
    (void)g;
    (void)dwei;
}

static void build_fetched(graph *g, int dwei)
{
    g->values[dwei].output = true;
}

static void build_read_twice(graph *g, int dwei)
{
    emit(g, &relu_op, "reader", NULL, 1, &dwei);
}

/* The update comes last, behind another reader of the weights, which must see the old ones. */
static void build_weights_read_between(graph *g, int dwei)
{
    (void)dwei;
    const int wei = graph_find(g, "wei");
    emit(g, &relu_op, "reader", NULL, 1, &wei);
    CHECK_STATUS(graph_arrange(g, (int[]){0, 2, 1}, 3), BRASA_OK);
}

static void build_read_before(graph *g, int dwei)
{
    (void)dwei;
    const int wei = graph_find(g, "wei");
    emit(g, &relu_op, "reader", NULL, 1, &wei);
    CHECK_STATUS(graph_arrange(g, (int[]){2, 0, 1}, 3), BRASA_OK);
}

/* The rate is made behind the gradient. */
static void build_late_rate(graph *g, int dwei)
{
    (void)dwei;
    const int rate = graph_find(g, "rate");
    const int n = emit(g, &relu_op, "late", NULL, 1, &rate);
    g->nodes[1].in[2] = g->nodes[n].out[0];
    CHECK_STATUS(graph_arrange(g, (int[]){0, 2, 1}, 3), BRASA_OK);
}

static int nodes_left(int64_t N, int64_t K, unsigned fuse, const int *order)
{
    brasa_context *ctx = context_of(1);
    graph g;
    graph_init(&g, ctx);
    g.fuse = fuse;
    build_layer(&g, &(layer){N, K, {2, {1, 128}}, {0}, true, true});
    if (order) {
        const int wei = graph_find(&g, "wei");
        emit(&g, &relu_op, "reader", NULL, 1, &wei);
        CHECK_STATUS(graph_arrange(&g, order, 4), BRASA_OK);
    }
    CHECK_STATUS(pass_fuse(&g), BRASA_OK);
    const int left = g.nnodes;
    graph_clear(&g);
    brasa_context_free(ctx);
    return left;
}

/* Gradient of the data, of the weights, and update: one node where there are few samples and many weights. Without
 * vectors there is nothing to gain, and that of the data stays apart. */
TEST(data_joins_where_it_may)
{
    const int apart = isa_available() == ISA_ANY;
    CHECK_INT(nodes_left(DENSE_FEW, 64, FUSE_ALL, NULL), 1 + apart);
    CHECK_INT(nodes_left(DENSE_FEW + 1, 64, FUSE_ALL, NULL), 2);
    CHECK_INT(nodes_left(DENSE_FEW, 63, FUSE_ALL, NULL), 2); /* 8192 weights are not few */
    CHECK_INT(nodes_left(DENSE_FEW, 64, FUSE_ALL & ~FUSE_UPDATES, NULL), 3);
    CHECK_INT(nodes_left(DENSE_FEW, 64, FUSE_ALL, (int[]){0, 3, 1, 2}), 3); /* another reads the weights in between */
    CHECK_INT(nodes_left(DENSE_FEW, 64, FUSE_ALL, (int[]){3, 0, 1, 2}), 2 + apart);
}

TEST(merged_where_it_may_be)
{
    static const struct {
        const char *name;
        void (*change)(graph *g, int dwei);
        unsigned fuse;
        int merged;
    } rows[] = {
        {"as it is", build_as_is, FUSE_ALL, 1},
        {"switched off", build_as_is, FUSE_ALL & ~FUSE_UPDATES, 0},
        {"fetched", build_fetched, FUSE_ALL, 0},
        {"read twice", build_read_twice, FUSE_ALL, 0},
        {"weights read in between", build_weights_read_between, FUSE_ALL, 0},
        {"weights read before", build_read_before, FUSE_ALL, 1},
        {"a rate made later", build_late_rate, FUSE_ALL, 0},
    };
    OWNED(brasa_context) *ctx = context_of(1);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s", rows[r].name);
        OWNED(graph) g = {0};
        graph_init(&g, ctx);
        g.fuse = rows[r].fuse;
        rows[r].change(&g, build_layer(&g, &layers[0].layer));
        CHECK_STATUS(g.status, BRASA_OK);
        CHECK_STATUS(pass_fuse(&g), BRASA_OK);
        CHECK_INT(count_nodes(&g, &dense_update_op), rows[r].merged);
        CHECK_INT(count_nodes(&g, &dense_grad_weights_op), 1 - rows[r].merged);
        CHECK_INT(count_nodes(&g, sgd_optimizer.op), 1 - rows[r].merged);
    }
}

/* --- memory --------------------------------------------------------------------------------------------------- */

static bool add_text(void *user, const char *text, size_t length)
{
    char *all = user;
    const size_t used = strlen(all);
    if (used + length < 65536)
        memcpy(all + used, text, length);
    return true;
}

/* The first dense layer of VGG-16 has 411 MB of weights. With one picture all else is small. */
TEST(no_room_for_the_gradient)
{
    static char text[65536];
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    OWNED(brasa_session) *s = NULL;
    CHECK_STATUS(brasa_model_build(g, "vgg16", 0), BRASA_OK);
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .batch = 1, .plan_only = true), &s), BRASA_OK);
    REQUIRE(s);
    const graph *made = &s->current->graph;
    int64_t largest = 0;
    for (int i = 0; i < made->nnodes; i++)
        for (int k = 0; k < made->nodes[i].nout; k++) {
            const value *v = &made->values[made->nodes[i].out[k]];
            largest = v->kind == VALUE_TEMP && v->bytes > largest ? v->bytes : largest;
        }
    CHECK(largest < 20000000);
    CHECK(s->current->plan.bytes < 400000000); /* the gradient alone would take 411 MB */
    CHECK_STATUS(brasa_session_explain(s, BRASA_EXPLAIN_TEXT, add_text, text), BRASA_OK);
    CHECK_HAS(text, "dense_update classifier.0");
    CHECK(!strstr(text, "dense_grad_weights"));
}
