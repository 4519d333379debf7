/* test_layout_networks.c - layouts in the studies' networks: what is reordered in a step, and what is not.
 *
 * Programs are planned, not run. With oneDNN activations stay in blocks of channels from the input to the loss, and
 * only weights are reordered: where a data gradient wants them otherwise, once.
 */
#include "test.h"
#include "session/session.h"

static const char *const models[] = {"alexnet", "vgg16", "resnet50", "mobilenet_v2", "googlenet", "googlenet_caffe"};
enum { MODELS = sizeof models / sizeof models[0] };

/* How often a program reorders what. */
typedef struct reorders {
    int inputs, activations, weights;
    int most; /* of one weight */
} reorders;

static reorders count_reorders(const graph *g)
{
    reorders r = {0};
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i].op != &reorder_op)
            continue;
        const int v = g->nodes[i].in[0];
        int same = 0;
        for (int k = 0; k <= i; k++)
            same += g->nodes[k].op == &reorder_op && g->nodes[k].in[0] == v;
        r.inputs += g->values[v].kind == VALUE_INPUT;
        r.weights += g->values[v].kind == VALUE_PARAM;
        r.activations += g->values[v].kind != VALUE_INPUT && g->values[v].kind != VALUE_PARAM;
        r.most = g->values[v].kind == VALUE_PARAM && same > r.most ? same : r.most;
    }
    return r;
}

static int count_ops(const graph *g, const char *name)
{
    int count = 0;
    for (int i = 0; i < g->nnodes; i++)
        count += strcmp(g->nodes[i].op->name, name) == 0;
    return count;
}

/* The plan of a network; NULL where there is none. */
static brasa_session *plan(brasa_graph *g, const char *model, int64_t batch, bool inference)
{
    brasa_session *s = NULL;
    CHECK_STATUS(brasa_model_build(g, model, 0), BRASA_OK);
    CHECK_STATUS(brasa_session_new(
                     g, &SIZED(brasa_session_options, .batch = batch, .inference = inference, .plan_only = true), &s),
                 BRASA_OK);
    return s;
}

/* Whether what is claimed here holds for this build and machine: with AVX2
 * AlexNet's first layer has a kernel in the plain order only. */
static bool claimed(const char *model)
{
    return library_onednn() && isa_available() >= (strcmp(model, "alexnet") == 0 ? ISA_AVX512 : ISA_AVX2);
}

static void check_model(const char *model, int64_t batch, bool inference)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    OWNED(brasa_session) *s = plan(g, model, batch, inference);
    if (s) {
        const graph *made = &s->current->graph;
        const reorders r = count_reorders(made);
        CHECK_INT(r.inputs, 0);
        CHECK_INT(r.activations, 0); /* nor weights that batch norm was folded into, which are not state */
        CHECK(r.most <= 1);
        CHECK(r.weights <= (inference ? 0 : count_ops(made, "conv2d_grad_data")));
    }
}

TEST(reorders)
{
    if (!claimed("vgg16"))
        SKIP("needs oneDNN and AVX2");
    for (int m = 0; m < MODELS; m++) {
        for (int way = 0; way < 4 && claimed(models[m]); way++) {
            const int64_t batch = way & 1 ? 32 : 2;
            CASE("%s, batch %d, %s", models[m], (int)batch, way & 2 ? "inference" : "training");
            check_model(models[m], batch, way & 2);
        }
    }
}

/* What is left of the concats of GoogLeNet, and of their gradients. oneDNN's convolutions write only whole tensors,
 * where there is more than one sample: their outputs are copied, in the eight blocks that have a branch of 1 x 1
 * with fewer channels or other pictures than our kernels take. */
TEST(concats)
{
    static const struct {
        const char *model;
        int64_t batch;
        bool inference;
        int concats;
    } rows[] = {
        {"googlenet", 32, false, 0},          {"googlenet_aux", 32, false, 0},
        {"googlenet", 1, false, 0},           {"googlenet", 1, true, 0},
        {"googlenet_caffe", 1, true, 0},      {"googlenet_caffe", 1, false, 0},
        {"googlenet_caffe_aux", 1, false, 0}, {"googlenet", 32, true, 8},
        {"googlenet_caffe", 32, false, 8},
    };
    if (!claimed("googlenet"))
        SKIP("needs oneDNN and AVX2");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s, batch %d, %s", rows[r].model, (int)rows[r].batch, rows[r].inference ? "inference" : "training");
        OWNED(brasa_graph) *g = brasa_graph_new(NULL);
        OWNED(brasa_session) *s = plan(g, rows[r].model, rows[r].batch, rows[r].inference);
        if (s) {
            CHECK_INT(count_ops(&s->current->graph, "concat"), rows[r].concats);
            CHECK_INT(count_ops(&s->current->graph, "slice"), 0);
        }
    }
}
