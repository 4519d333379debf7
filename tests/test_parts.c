/* test_parts.c - concatenated tensors in their place: where they are, where they must not be, and that nothing else
 * changes by it.
 *
 * Every network is compiled with and without the pass and run: the loss, every gradient, the running statistics and
 * what is fetched are the same in every bit. How many concats and slices are left tells whether the rules were
 * followed.
 */
#define _GNU_SOURCE /* readlink, setenv */
#include "test.h"
#include "device.h"
#include "each_case.h"
#include "graph/plan.h"
#include "ops/batchnorm/batchnorm.h"
#include "ops/concat/concat.h"

/* --- networks ------------------------------------------------------------------------------------------------- */

static brasa_tensor start(brasa_graph *g)
{
    return brasa_apply(brasa_input(g, "image", 3, 7, 7), "conv 16 3x3 name=first");
}

static void finish(brasa_tensor x)
{
    brasa_apply(brasa_flatten(brasa_global_avgpool(x)), "classify 5 name=fc");
}

/* Convolution, batch norm, ReLU; and without batch norm. */
static brasa_tensor norm(brasa_tensor x, int channels, const char *settings)
{
    return brasa_relu(brasa_apply(brasa_apply(x, "conv %d %s bias=no", channels, settings), "batchnorm"));
}

static brasa_tensor bare(brasa_tensor x, int channels, const char *settings)
{
    return brasa_relu(brasa_apply(x, "conv %d %s", channels, settings));
}

typedef brasa_tensor (*layer)(brasa_tensor x, int channels, const char *settings);

static brasa_tensor module(brasa_tensor x, layer conv)
{
    const brasa_tensor branch[] = {conv(x, 16, "1"), conv(conv(x, 20, "1"), 48, "3 pad=1"),
                                   conv(conv(x, 16, "1"), 32, "5 pad=2"),
                                   conv(brasa_apply(x, "maxpool 3 stride=1 pad=1"), 16, "1")};
    return brasa_concat(x.graph, branch, 4);
}

static void build_googlenet(brasa_graph *g)
{
    finish(module(brasa_apply(module(start(g), norm), "maxpool 3 stride=2 ceil"), norm));
}

static void build_caffe(brasa_graph *g)
{
    finish(module(brasa_apply(module(start(g), bare), "maxpool 3 stride=2 ceil"), bare));
}

/* Convolutions whose own kernels write to where a part is, and read there: of stride 2, and of 1 x 1. */
static void build_stride2(brasa_graph *g)
{
    brasa_tensor x = bare(brasa_input(g, "image", 3, 24, 24), 64, "3 pad=1");
    brasa_tensor a = bare(x, 64, "3 stride=2 pad=1"), b = bare(x, 128, "3 stride=2 pad=1");
    finish(brasa_add(brasa_concat(g, (brasa_tensor[]){a, b}, 2), bare(x, 192, "3 stride=2 pad=1")));
}

static void build_strassen(brasa_graph *g)
{
    brasa_tensor x = bare(brasa_input(g, "image", 3, 14, 14), 128, "3 pad=1");
    brasa_tensor a = bare(x, 128, "1"), b = bare(a, 256, "1");
    finish(brasa_concat(g, (brasa_tensor[]){a, b}, 2));
}

/* Nothing between a convolution and the concat: its gradients read slices. */
static void build_linear(brasa_graph *g)
{
    brasa_tensor x = start(g);
    finish(brasa_concat(g, (brasa_tensor[]){brasa_apply(x, "conv 16 1"), norm(x, 32, "1")}, 2));
}

/* 20 channels fill no block: 16 begin where no block does. */
static void build_odd(brasa_graph *g)
{
    brasa_tensor x = start(g);
    finish(brasa_concat(g, (brasa_tensor[]){norm(x, 20, "1"), norm(x, 16, "1")}, 2));
}

/* Somebody fetches a branch, or the whole. */
static void build_fetched_branch(brasa_graph *g)
{
    brasa_tensor x = start(g), y = norm(x, 16, "1");
    brasa_output(y, "branch");
    finish(brasa_concat(g, (brasa_tensor[]){y, norm(x, 16, "1")}, 2));
}

static void build_fetched_whole(brasa_graph *g)
{
    brasa_tensor x = start(g), y = brasa_concat(g, (brasa_tensor[]){norm(x, 32, "1"), norm(x, 16, "1")}, 2);
    brasa_output(y, "whole");
    finish(y);
}

/* A tensor twice in one concat, and in two of them. */
static void build_twice(brasa_graph *g)
{
    brasa_tensor x = norm(start(g), 16, "1");
    finish(brasa_concat(g, (brasa_tensor[]){x, x}, 2));
}

static void build_shared(brasa_graph *g)
{
    brasa_tensor x = start(g), a = norm(x, 16, "1"), b = norm(x, 16, "1"), c = norm(x, 16, "1");
    brasa_tensor ab = brasa_concat(g, (brasa_tensor[]){a, b}, 2), bc = brasa_concat(g, (brasa_tensor[]){b, c}, 2);
    finish(brasa_add(ab, bc));
}

/* As in DenseNet, a whole in a larger one. */
static void build_nested(brasa_graph *g)
{
    brasa_tensor x = start(g);
    x = brasa_concat(g, (brasa_tensor[]){norm(x, 16, "1"), norm(x, 32, "1")}, 2);
    finish(brasa_concat(g, (brasa_tensor[]){x, norm(x, 16, "1")}, 2));
}

/* What reads a branch and the whole may write over it, were it not a part; the gradient meets others. */
static void build_read_between(brasa_graph *g)
{
    brasa_tensor x = start(g), y = norm(x, 16, "1"), z = brasa_apply(y, "tanh");
    x = brasa_concat(g, (brasa_tensor[]){y, norm(brasa_add(z, x), 16, "1")}, 2);
    finish(brasa_relu(brasa_add(x, brasa_apply(x, "sigmoid"))));
}

/* The gradient of a sum in batch norm reads what batch norm wrote. */
static void build_residual(brasa_graph *g)
{
    brasa_tensor x = start(g);
    brasa_tensor y = brasa_apply(brasa_apply(x, "conv 16 3 pad=1 bias=no"), "batchnorm");
    finish(brasa_concat(g, (brasa_tensor[]){brasa_relu(brasa_add(y, x)), norm(x, 16, "1")}, 2));
}

/* The input and a view have no place of their own to choose. */
static void build_views(brasa_graph *g)
{
    brasa_tensor x = brasa_input(g, "image", 16, 4, 4), y = brasa_apply(norm(x, 16, "1"), "reshape 16 2 8");
    y = brasa_apply(y, "reshape 16 4 4");
    finish(brasa_concat(g, (brasa_tensor[]){x, y, norm(x, 16, "1")}, 3));
}

/* Vectors, and another axis. */
static void build_vectors(brasa_graph *g)
{
    brasa_tensor x = brasa_flatten(brasa_input(g, "image", 3, 7, 7));
    brasa_tensor a = brasa_relu(brasa_apply(x, "dense 32 name=a")), b = brasa_relu(brasa_apply(x, "dense 16 name=b"));
    brasa_apply(brasa_concat(g, (brasa_tensor[]){a, b}, 2), "classify 5 name=fc");
}

static void build_rows(brasa_graph *g)
{
    brasa_tensor x = start(g);
    finish(brasa_apply_n(g, (brasa_tensor[]){norm(x, 16, "1"), norm(x, 16, "1")}, 2, "concat axis=2"));
}

/* What is left of a program. */
typedef struct left {
    int concats, slices, read; /* read: parts that no node writes */
} left;

static const struct network {
    const char *name;
    void (*build)(brasa_graph *g);
    left one, three, inferred; /* of a training step of one sample and of three, and of three in evaluation */
    const char *kernels;       /* to prefer */
} networks[] = {
    {"GoogLeNet", build_googlenet, {0, 0, 8}, {0, 0, 8}, {1, 0, 0}},
    {"GoogLeNet without batch norm", build_caffe, {0, 0, 8}, {2, 0, 16}, {2, 0, 0}},
    {"stride 2", build_stride2, {0, 0, 2}, {0, 0, 2}, {0, 0, 0}, "stride2"},
    {"1 x 1", build_strassen, {0, 0, 2}, {1, 1, 1}, {0, 0, 0}, "strassen"},
    {"linear", build_linear, {0, 0, 2}, {1, 1, 1}, {1, 0, 0}},
    {"odd channels", build_odd, {1, 2, 0}, {1, 2, 0}, {1, 0, 0}},
    {"a fetched branch", build_fetched_branch, {1, 0, 2}, {1, 0, 2}, {1, 0, 0}},
    {"a fetched whole", build_fetched_whole, {0, 0, 2}, {0, 0, 2}, {1, 0, 0}},
    {"twice the same", build_twice, {1, 0, 2}, {1, 0, 2}, {1, 0, 0}},
    {"two concats", build_shared, {1, 0, 4}, {2, 0, 4}, {2, 0, 0}},
    {"nested", build_nested, {1, 0, 4}, {1, 1, 3}, {2, 0, 0}},
    {"read in between", build_read_between, {0, 0, 2}, {1, 0, 2}, {1, 0, 0}},
    {"a sum", build_residual, {0, 0, 2}, {0, 0, 2}, {1, 0, 0}},
    {"views", build_views, {1, 1, 1}, {1, 1, 1}, {1, 0, 0}},
    {"vectors", build_vectors, {0, 0, 2}, {1, 0, 4}, {1, 0, 0}},
    {"another axis", build_rows, {1, 2, 0}, {1, 2, 0}, {1, 0, 0}},
};
enum { NETWORKS = sizeof networks / sizeof networks[0] };

static left count_left(const graph *g)
{
    left c = {0};
    for (int i = 0; i < g->nnodes; i++) {
        c.concats += g->nodes[i].op == &concat_op;
        c.slices += g->nodes[i].op == &slice_op;
    }
    for (int v = 0; v < g->nvalues; v++)
        c.read += g->values[v].whole >= 0 && g->values[v].producer < 0;
    return c;
}

/* --- the same bits -------------------------------------------------------------------------------------------- */

static void compare(const proof *copied, const proof *placed)
{
    int compared = 0;
    for (int v = 0; v < copied->program.graph.nvalues; v++) {
        if (!proof_readable(copied, v))
            continue;
        CHECK(proof_readable(placed, v) && proof_same(copied, placed, v));
        compared++;
    }
    CHECK(compared > 3);
}

/* `want` NULL: the kernels decide. */
static void check_network(brasa_context *ctx, const struct network *n, proof_options o, const left *want)
{
    proof copied, placed;
    OWNED(brasa_graph) *g = brasa_graph_new(ctx);
    n->build(g);
    CHECK_STATUS(brasa_graph_status(g), BRASA_OK);
    o.fuse = true;
    o.fusions = FUSE_ALL & ~FUSE_PARTS;
    const brasa_status first = proof_make(&copied, g, o);
    o.fusions = FUSE_ALL;
    const brasa_status second = proof_make(&placed, g, o);
    CHECK_STATUS(first, BRASA_OK);
    CHECK_STATUS(second, BRASA_OK);
    if (first == BRASA_OK && second == BRASA_OK) {
        compare(&copied, &placed);
        const left got = count_left(&placed.program.graph);
        CHECK_INT(count_left(&copied.program.graph).read, 0);
        if (want) {
            CHECK_INT(got.concats, want->concats);
            CHECK_INT(got.slices, want->slices);
            CHECK_INT(got.read, want->read);
        }
    }
    proof_free(&copied);
    proof_free(&placed);
}

/* The kernels decide what is left, but for GoogLeNet's: every branch ends with batch norm. */
static void same_bits_on_device(void)
{
    OWNED(brasa_context) *ctx = context_of(1);
    for (const device_row *row = device_wanted_rows(); row->name; row++)
        for (int i = 0; i < NETWORKS; i++)
            for (int batch = 1; batch <= 3; batch += 2) {
                CASE("%s in %s, batch %d", networks[i].name, row->name, batch);
                const left none = {.read = 8};
                proof_options o = {
                    .on = device_context(), .precision = row->precision, .in_place = true, .batch = batch};
                o.gradients = true;
                check_network(ctx, &networks[i], o, networks[i].build == build_googlenet ? &none : NULL);
                o.evaluation = true;
                o.gradients = false;
                check_network(ctx, &networks[i], o, NULL);
            }
}

/* In blocks of channels, and on the reference kernels; in place or not, with one thread or several. */
TEST(same_bits)
{
    DEVICE_OR_SKIP();
    if (device_wanted()) {
        same_bits_on_device();
        return;
    }
    static const proof_options ways[] = {
        {.in_place = true}, {.in_place = true, .kernels = "_ref"}, {.in_place = false}, {.real = F64}};
    for (int i = 0; i < NETWORKS; i++) {
        const struct network *n = &networks[i];
        for (int batch = 1; batch <= 3; batch += 2) {
            for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
                CASE("%s, batch %d, way %d", n->name, batch, (int)w);
                OWNED(brasa_context) *ctx = context_of(1 + (int)w);
                const bool blocks = isa_available() >= ISA_AVX2 && !ways[w].kernels && ways[w].real == F32;
                proof_options o = ways[w];
                o.batch = batch;
                o.kernels = blocks ? n->kernels : o.kernels;
                o.gradients = true;
                check_network(ctx, n, o, blocks ? batch == 3 ? &n->three : NULL : batch == 1 ? &n->one : NULL);
                o.evaluation = true;
                o.gradients = false;
                check_network(ctx, n, o, batch == 1 || !blocks ? NULL : &n->inferred);
            }
        }
    }
}

/* --- channels side by side ------------------------------------------------------------------------------------ */

static void keep_gradient(void *user, graph *g, int param, int grad)
{
    (void)user;
    (void)param;
    g->values[grad].output = true;
}

/* As a GPU has it: pictures as NHWC, in 16 bits or not; batch norm alone, as its kernels there do, writes its output
 * to where a part is and reads the gradient of it there. */
static void pretend_device(graph *g, bool half)
{
    const format pictures = {half ? BF16 : F32, {.permuted = 1, .order = {0, 2, 3, 1}}};
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].kind == VALUE_TEMP && g->values[v].shape.rank == 4)
            g->values[v].format = pictures;
    for (int i = 0; i < g->nnodes; i++) {
        node *n = &g->nodes[i];
        kernel *k = pool_get(&g->pool, 1, sizeof *k);
        *k = *n->kernel;
        k->parts_out = n->op == &batchnorm_train_op ? 1 : 0;
        k->parts_in = n->op == &batchnorm_train_grad_op ? 2 : 0;
        n->kernel = k;
    }
}

static void check_pixels(void (*build)(brasa_graph *g), bool half, left want)
{
    OWNED(brasa_context) *ctx = context_of(1);
    OWNED(brasa_graph) *from = brasa_graph_new(ctx);
    memory_plan plan;
    OWNED(graph) g = {0};
    build(from);
    graph_init(&g, ctx);
    CHECK_STATUS(pass_lower(&g, from, 1, true), BRASA_OK);
    CHECK_STATUS(pass_autodiff(&g, keep_gradient, NULL), BRASA_OK);
    CHECK_STATUS(pass_fuse(&g), BRASA_OK);
    CHECK_STATUS(pass_prune(&g), BRASA_OK);
    CHECK_STATUS(pass_select(&g, "_ref"), BRASA_OK);
    pretend_device(&g, half);
    CHECK_STATUS(pass_parts(&g), BRASA_OK);
    CHECK_STATUS(pass_plan(&g, true, &plan), BRASA_OK);
    const left got = count_left(&g);
    CHECK_INT(got.concats, want.concats);
    CHECK_INT(got.slices, want.slices);
    CHECK_INT(got.read, want.read);
    for (int v = 0; v < g.nvalues; v++) {
        const value *part = &g.values[v], *whole = part->whole < 0 ? part : &g.values[part->whole];
        CHECK_INT(part->offset, whole->offset + part->first * (half ? 2 : 4) * (part->whole >= 0));
        CHECK(part->whole < 0 || part->first + part->shape.dim[1] <= whole->shape.dim[1]);
    }
}

/* A part begins where 16 bytes do: 20 channels in floats, not in 16 bits. */
TEST(pixels)
{
    HOST_OR_SKIP();
    const left all = {.read = 8}, both = {.read = 2}, none = {.concats = 1, .slices = 2};
    for (int half = 0; half < 2; half++) {
        CASE("GoogLeNet in %d bits", half ? 16 : 32);
        check_pixels(build_googlenet, half, all);
        CASE("odd channels in %d bits", half ? 16 : 32);
        check_pixels(build_odd, half, half ? none : both);
        CASE("no batch norm in %d bits", half ? 16 : 32);
        check_pixels(build_strassen, half, none);
    }
}
