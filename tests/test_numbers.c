/* test_numbers.c - single numbers where rules meet: NaN, infinity, and what lies beyond the clip of relu6.
 */
#include "test.h"
#include "each_case.h"

/* A layer on one input with these elements; the proof ran. */
static bool run_layer(brasa_context *ctx, graph *g, proof *p, const char *word, const op_case *c, const double *x,
                      int64_t count)
{
    graph_init(g, ctx);
    CHECK_STATUS(case_build(g, op_find(word), c), BRASA_OK);
    brasa_status status = proof_make(p, g, (proof_options){.gradients = true, .fuse = true, .in_place = true});
    CHECK_STATUS(status, BRASA_OK);
    if (status != BRASA_OK)
        return false;
    int x0 = graph_find(&p->program.graph, "x0");
    for (int64_t i = 0; i < count; i++)
        proof_set_start(p, x0, i, x[i]);
    CHECK_STATUS(proof_run(p, 255), BRASA_OK);
    return true;
}

static void check_layer(const char *word, const op_case *c, const double *x, int64_t count, const double *y,
                        int64_t results)
{
    graph g;
    proof p;
    OWNED(brasa_context) *ctx = context_of(1);
    CASE("%s '%s'", word, c->layer);
    if (run_layer(ctx, &g, &p, word, c, x, count)) {
        int out = graph_find(&p.program.graph, "y");
        CHECK_INT(proof_count(&p, out), results);
        for (int64_t i = 0; i < results; i++) {
            double got = proof_get(&p, out, i);
            if (isnan(y[i]) ? !isnan(got) : got != y[i])
                test_fail(__FILE__, __LINE__, "element %d is %g, expected %g", (int)i, got, y[i]);
        }
    }
    proof_free(&p);
    graph_clear(&g);
}

TEST(nan_passes)
{
    const double x[] = {-1, NAN, 2, 0, 7, -INFINITY};
    const double relu[] = {0, NAN, 2, 0, 7, 0}, relu6[] = {0, NAN, 2, 0, 6, 0};
    check_layer("relu", &(op_case){"1x6", ""}, x, 6, relu, 6);
    check_layer("relu6", &(op_case){"1x6", ""}, x, 6, relu6, 6);
    const double image[] = {1, 2, 3, 4, NAN, 0, 0, 0, 5, 6, -7, 8, 1, 1, 1, NAN};
    const double pooled[] = {NAN, 4, 6, NAN};
    check_layer("maxpool", &(op_case){"1x1x4x4", "2"}, image, 16, pooled, 4);
    const double lowest[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    check_layer("maxpool", &(op_case){"1x1x2x2", "2"}, lowest, 4, lowest, 1);
}

/* The same inside the kernels that an activation was fused into. */
TEST(nan_passes_when_fused)
{
    static const struct {
        const char *word, *in, *layer;
    } rows[] = {
        {"dense", "2x3", "4"},
        {"conv2d", "2x3x4x4", "4 3"},
        {"conv2d", "1x32x24x24", "32 3x3 pad=1"}, /* for Winograd's algorithm */
        {"add", "2x3 2x3", ""},
        {"batchnorm", "2x3x4x4", ""},
    };
    OWNED(brasa_context) *ctx = context_of(1);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const op_def *op = op_find(rows[r].word), *const acts[] = {&relu_op, &relu6_op};
        for (int a = 0; a < 2; a++) {
            OWNED(graph) g = {0};
            OWNED(proof) p = {0};
            CASE("%s and %s", rows[r].word, acts[a]->name);
            graph_init(&g, ctx);
            CHECK_STATUS(build_wrapped(&g, op, &(op_case){rows[r].in, rows[r].layer}, acts[a]), BRASA_OK);
            CHECK_STATUS(proof_make(&p, &g, (proof_options){.fuse = true, .in_place = true}), BRASA_OK);
            int x0 = graph_find(&p.program.graph, "x0"), y = graph_find(&p.program.graph, "y");
            CHECK(!isnan(proof_get(&p, y, 0)));
            for (int64_t i = 0, count = proof_count(&p, x0); i < count; i++)
                proof_set_start(&p, x0, i, NAN);
            CHECK_STATUS(proof_run(&p, 60), BRASA_OK);
            CHECK(isnan(proof_get(&p, y, 0)));
        }
    }
}

/* However far below zero: nothing of it comes through. */
TEST(nothing_negative_passes_when_fused)
{
    static const char *const rows[][3] = {
        {"dense", "4x64", "32"},
        {"conv2d", "2x16x6x6", "16 3 pad=1"},
        {"conv2d", "2x16x6x6", "16 3 pad=1 groups=16"},
        {"conv2d", "1x32x24x24", "32 3x3 pad=1"}, /* for Winograd's algorithm */
    };
    OWNED(brasa_context) *ctx = context_of(2);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        OWNED(graph) g = {0};
        OWNED(proof) p = {0};
        CASE("%s %s", rows[r][0], rows[r][2]);
        graph_init(&g, ctx);
        CHECK_STATUS(build_wrapped(&g, op_find(rows[r][0]), &(op_case){rows[r][1], rows[r][2]}, &relu_op), BRASA_OK);
        CHECK_STATUS(proof_make(&p, &g, (proof_options){.fuse = true, .in_place = true}), BRASA_OK);
        int x0 = graph_find(&p.program.graph, "x0"), y = graph_find(&p.program.graph, "y");
        for (int64_t i = 0, count = proof_count(&p, x0); i < count; i++)
            proof_set_start(&p, x0, i, i % 3 ? 1e35 : -1e35);
        CHECK_STATUS(proof_run(&p, 60), BRASA_OK);
        int64_t negative = 0, zero = 0;
        for (int64_t i = 0, count = proof_count(&p, y); i < count; i++) {
            negative += !(proof_get(&p, y, i) >= 0);
            zero += proof_get(&p, y, i) == 0;
        }
        CHECK_INT(negative, 0);
        CHECK(zero > 0);
    }
}

TEST(relu6_gradient_above_six)
{
    const double x[] = {-1, 3, 6.5, 5.5};
    graph g;
    proof p;
    OWNED(brasa_context) *ctx = context_of(1);
    if (run_layer(ctx, &g, &p, "relu6", &(op_case){"1x4", ""}, x, 4)) {
        int dx = p.grad[graph_find(&p.program.graph, "x0")];
        CHECK(proof_get(&p, dx, 0) == 0 && proof_get(&p, dx, 2) == 0);
        CHECK(proof_get(&p, dx, 1) > 0 && proof_get(&p, dx, 3) > 0); /* the target lies below 1 */
    }
    proof_free(&p);
    graph_clear(&g);
}
