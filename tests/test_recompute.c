/* test_recompute.c - which tensors are made again for the backward pass, by their size as it is stored. That they are
 * the same in every bit is test_fuse.c's business. Nothing runs here: the tensors are too large for that. */
#include "test.h"
#include "each_case.h"
#include "ops/batchnorm/batchnorm.h"

/* 16 channels of 1024 x 1024 pixels, 64 MiB in floats, that a cheap convolution reads. */
static void build(brasa_graph *g)
{
    brasa_tensor x = brasa_apply(brasa_input(g, "image", 3, 1024, 1024), "conv 16 1x1 bias=no");
    x = brasa_apply(brasa_relu(brasa_apply(x, "batchnorm")), "conv 16 1x1");
    brasa_apply(brasa_flatten(brasa_global_avgpool(x)), "classify 5");
}

static void keep_gradient(void *user, graph *g, int param, int grad)
{
    (void)user;
    (void)param;
    g->values[grad].output = true;
}

static int count_again(brasa_context *ctx, int32_t precision, int64_t batch)
{
    brasa_graph *from = brasa_graph_new(ctx);
    graph g;
    int count = 0;
    build(from);
    graph_init(&g, ctx);
    g.precision = precision;
    CHECK_STATUS(pass_lower(&g, from, batch, true), BRASA_OK);
    CHECK_STATUS(pass_autodiff(&g, keep_gradient, NULL), BRASA_OK);
    CHECK_STATUS(pass_fuse(&g), BRASA_OK);
    CHECK_STATUS(pass_recompute(&g, false), BRASA_OK);
    for (int i = 0; i < g.nnodes; i++)
        count += g.nodes[i].op == &batchnorm_eval_op && g.nodes[i].role == ROLE_GRADIENT;
    graph_clear(&g);
    brasa_graph_free(from);
    return count;
}

TEST(size_as_stored)
{
    OWNED(brasa_context) *ctx = context_of(1);
    CASE("floats");
    CHECK_INT(count_again(ctx, BRASA_F32, 1), 1);
    CHECK_INT(count_again(ctx, BRASA_TF32, 1), 1);
    CASE("16 bits");
    CHECK_INT(count_again(ctx, BRASA_BF16, 1), 0);
    CHECK_INT(count_again(ctx, BRASA_BF16, 2), 1);
}
