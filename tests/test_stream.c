/* test_stream.c - tensors so large that kernels write them past the caches.
 *
 * A network runs on two samples that are equal, and on one of them alone, whose tensors are not huge: there the same
 * kernels write through the caches. Everything must come out the same, for each of the two samples; so must what is
 * a mean over all, and gradients with respect to what there is twice are half as large.
 */
#include "test.h"
#include "each_case.h"
#include "device/cpu/cpu.h"

/* --- networks ------------------------------------------------------------------------------------------------- */

static int layer(graph *g, const char *op, const char *settings, int nin, const int *in)
{
    return case_layer(g, op_find(op), &(op_case){.layer = settings}, nin, in);
}

static int build_norm(graph *g, const int *in)
{
    return layer(g, "relu", "", 1, (int[]){layer(g, "batchnorm", "", 1, in)});
}

/* With a sum and an activation behind it, as in ResNet: its gradient writes two tensors. */
static int build_residual(graph *g, const int *in)
{
    const int x = layer(g, "add", "", 2, (int[]){layer(g, "batchnorm", "", 1, in), in[1]});
    return layer(g, "relu", "", 1, &x);
}

/* As in MobileNet; what batch norm makes is made again for the gradient. */
static int build_depthwise(graph *g, const int *in)
{
    return layer(g, "conv2d", "272 3x3 groups=272 pad=1", 1, (int[]){build_norm(g, in)});
}

static int build_depthwise_apart(graph *g, const int *in)
{
    return layer(g, "conv2d", "72 3x3 groups=72 pad=1 stride=2", 1, in);
}

static int build_maxpool(graph *g, const int *in)
{
    return layer(g, "maxpool", "3 stride=1 pad=1", 1, in);
}

static int build_strassen(graph *g, const int *in)
{
    return layer(g, "conv2d", "128 1x1", 1, in);
}

static int build_stride2(graph *g, const int *in)
{
    return layer(g, "conv2d", "256 3x3 stride=2 pad=1", 1, in);
}

static int build_stride2_data(graph *g, const int *in)
{
    return layer(g, "conv2d", "64 3x3 stride=2 pad=1", 1, in);
}

/* Pictures of 522 x 522 end in parts of tiles, which are not streamed. */
static int build_winograd(graph *g, const int *in)
{
    return layer(g, "relu", "", 1, (int[]){layer(g, "conv2d", "16 3x3 pad=1", 1, in)});
}

static int build_winograd8(graph *g, const int *in)
{
    return layer(g, "conv2d", "16 5x5 pad=2", 1, in);
}

enum { MOST_KERNELS = 4 };

/* One sample of each input; the kernels to prefer; and those that must be seen to write something huge. */
static const struct network {
    const char *name, *in;
    int (*build)(graph *g, const int *in);
    const char *prefer;
    bool evaluation;
    const char *streams[MOST_KERNELS];
} networks[] = {
    {"batchnorm, evaluation", "20x420x420", build_norm, NULL, true, {"batchnorm_eval_a"}},
    {"a sum", "20x420x420 20x420x420", build_residual, NULL, false, {"batchnorm_train_a", "batchnorm_grad_a"}},
    {"depthwise",
     "272x125x125",
     build_depthwise,
     NULL,
     false,
     {"batchnorm_train_a", "batchnorm_eval_a", "batchnorm_grad_a", "depthwise_grad_a"}},
    {"depthwise, apart", "72x244x244", build_depthwise_apart, NULL, false, {"depthwise_grad_a"}},
    {"maxpool", "20x420x420", build_maxpool, NULL, false, {"maxpool_a", "maxpool_grad_a"}},
    {"strassen", "128x184x184", build_strassen, "strassen", false, {"conv2d_strassen", "data_strassen"}},
    {"stride2", "32x260x260", build_stride2, "stride2", false, {"conv2d_stride2"}},
    {"stride2, by the data", "64x260x260", build_stride2_data, "stride2", false, {"data_stride2"}},
    {"winograd", "16x522x522", build_winograd, "winograd_a", false, {"conv2d_winograd", "data_winograd"}},
    {"winograd8", "16x520x520", build_winograd8, "winograd8", false, {"conv2d_winograd8", "data_winograd8"}},
};
enum { NETWORKS = sizeof networks / sizeof networks[0] };

/* --- two samples, and one ------------------------------------------------------------------------------------- */

static brasa_status compile(proof *p, brasa_context *ctx, const struct network *n, int samples)
{
    graph g;
    char shapes[200] = "";
    int in[CASE_MAX_IN];
    const char *text = n->in;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        snprintf(shapes + strlen(shapes), sizeof shapes - strlen(shapes), " %dx%.*s", samples, length, text);
        text += length + (text[length] == ' ');
    }
    graph_init(&g, ctx);
    case_inputs(&g, &(op_case){.in = shapes}, in);
    case_loss(&g, n->build(&g, in));
    CHECK_STATUS(g.status, BRASA_OK);
    brasa_status status = proof_compile(
        p, &g,
        (proof_options){
            .evaluation = n->evaluation, .gradients = !n->evaluation, .fuse = true, .kernels = n->prefer});
    graph_clear(&g);
    return status == BRASA_OK ? proof_load(p) : status;
}

/* Whether a kernel of that name writes something huge. */
static bool streams(const proof *p, const char *name)
{
    for (int i = 0; i < p->program.nsteps; i++) {
        const step *s = &p->program.steps[i];
        for (int k = 0; k < s->nout; k++)
            if (strstr(s->kernel->name, name) && is_huge(&s->out[k]))
                return true;
    }
    return false;
}

/* What there is twice starts the same for both. One sample is stored behind the other. */
static void copy_start(const proof *one, const proof *two)
{
    for (int v = 0; v < one->program.graph.nvalues; v++) {
        const value *x = &one->program.graph.values[v], *y = &two->program.graph.values[v];
        if (x->state >= 0 && y->bytes == 2 * x->bytes)
            for (int n = 0; n < 2; n++)
                memcpy(two->start + two->state_offset[v] + n * x->bytes, one->start + one->state_offset[v],
                       (size_t)x->bytes);
    }
}

static void compare(const proof *one, const proof *two, const char *name, int v, float times)
{
    const value *x = &one->program.graph.values[v], *y = &two->program.graph.values[v];
    const int64_t count = x->bytes / (int64_t)sizeof(float);
    const float *want = proof_data(one, v), *got = proof_data(two, v);
    float most = 1e-30f, off = 0;
    CHECK(layout_equal(&x->format.layout, &y->format.layout) && y->bytes % x->bytes == 0);
    for (int64_t n = 0; n < y->bytes / x->bytes; n++, got += count)
        for (int64_t i = 0; i < count; i++) {
            const float d = fabsf(times * got[i] - want[i]);
            most = fmaxf(most, fabsf(want[i]));
            off = d <= off ? off : isfinite(d) ? d : INFINITY;
        }
    if (!(off <= 1e-4f * most))
        test_fail(__FILE__, __LINE__, "%s is off by %.3g of %.3g", name, (double)off, (double)most);
}

static void compare_all(const proof *one, const proof *two)
{
    const graph *g = &one->program.graph;
    compare(one, two, "the output", graph_find(g, "y"), 1);
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind == VALUE_PARAM && one->grad[v] >= 0)
            compare(one, two, g->values[v].name, one->grad[v], proof_count(two, v) > proof_count(one, v) ? 2 : 1);
        else if (g->values[v].state >= 0)
            compare(one, two, g->values[v].name, v, 1);
    }
}

TEST(same_as_one)
{
    for (int i = 0; i < NETWORKS; i++) {
        const struct network *n = &networks[i];
        proof one, two;
        CASE("%s", n->name);
        if (isa_available() == ISA_ANY)
            SKIP("needs AVX2");
        OWNED(brasa_context) *ctx = context_of(2);
        const brasa_status first = compile(&one, ctx, n, 1), second = compile(&two, ctx, n, 2);
        CHECK_STATUS(first, BRASA_OK);
        CHECK_STATUS(second, BRASA_OK);
        if (first == BRASA_OK && second == BRASA_OK) {
            copy_start(&one, &two);
            CHECK_STATUS(proof_run(&one, 255), BRASA_OK);
            CHECK_STATUS(proof_run(&two, 255), BRASA_OK);
            compare_all(&one, &two);
            for (int k = 0; k < MOST_KERNELS && n->streams[k]; k++)
                if (!streams(&two, n->streams[k]) || streams(&one, n->streams[k]))
                    test_fail(__FILE__, __LINE__, "%s does not stream, or does so for one sample", n->streams[k]);
        }
        proof_free(&one);
        proof_free(&two);
    }
}
