/* test_networks.c - the studies' networks: how many parameters they have, and that these are those of the framework
 * they come from: names, shapes and order, as it listed them for the fixtures of parity.h. */
#define _GNU_SOURCE /* parity.h */
#include "parity.h"
#include "session/session.h"

static const struct count {
    const char *model;
    int classes;
    int64_t params;
} counts[] = {
    {"alexnet", 1000, 61100840},
    {"alexnet", 3, 57016131},
    {"alexnet_caffe", 1000, 60965224},
    {"alexnet_v2", 1000, 50303912},
    {"vgg16", 1000, 138357544},
    {"vgg16", 3, 134272835},
    {"resnet18", 1000, 11689512},
    {"resnet18", 3, 11178051},
    {"resnet50", 1000, 25557032},
    {"resnet50", 3, 23514179},
    {"mobilenet_v2", 1000, 3504872},
    {"mobilenet_v2", 3, 2227715},
    {"googlenet", 1000, 6624904},
    {"googlenet", 3, 5602979},
    {"googlenet_aux", 1000, 13004888},
    {"googlenet_caffe", 1000, 6998552},
    {"googlenet_caffe_aux", 1000, 13378280},
};
enum { COUNTS = sizeof counts / sizeof counts[0] };

TEST(parameters)
{
    for (int i = 0; i < COUNTS; i++) {
        const struct count *c = &counts[i];
        CASE("%s, %d classes", c->model, c->classes);
        OWNED(brasa_graph) *g = brasa_graph_new(NULL);
        CHECK_STATUS(brasa_model_build(g, c->model, c->classes), BRASA_OK);
        CHECK_INT(brasa_graph_param_total(g), c->params);
    }
}

/* What every classifier has, of the size that was asked for. */
static void check_ends(graph *g, const brasa_model_info *info)
{
    static const char *const names[] = {"image", "label", "logits", "probs", "loss", "accuracy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int v = graph_find(g, names[i]);
        if (v < 0) {
            test_fail(__FILE__, __LINE__, "there is no %s", names[i]);
            continue;
        }
        const value *x = &g->values[v];
        CHECK(x->kind == VALUE_INPUT || x->output);
        if (i == 0)
            for (int k = 0; k < 3; k++)
                CHECK_INT(x->shape.dim[k + 1], info->input[k]);
        else if (i == 1)
            CHECK_INT(x->classes, 7);
        else if (i < 4)
            CHECK_INT(x->shape.dim[1], 7);
        else
            CHECK_INT(x->shape.rank, 0);
    }
    CHECK_INT(g->loss, graph_find(g, "loss"));
}

TEST(ends)
{
    brasa_model_info info = {.size = sizeof info};
    for (int m = 0; brasa_model_at(m, &info); m++) {
        if (info.input[1] < 200)
            continue;
        CASE("%s", info.name);
        CHECK_INT(info.classes, 1000);
        OWNED(brasa_graph) *g = brasa_graph_new(NULL);
        CHECK_STATUS(brasa_model_build(g, info.name, 7), BRASA_OK);
        check_ends(g, &info);
    }
}

/* Parameter or buffer `index` of the graph is the fixture's. */
static void check_tensor(const brasa_graph *g, int index, const tensor *t, bool trainable)
{
    brasa_value_info info = {.size = sizeof info};
    if (!CHECK(brasa_graph_param_at(g, index, &info)))
        return;
    CHECK_TEXT(info.name, t->name);
    CHECK(info.trainable == trainable);
    CHECK_INT(info.rank, t->rank);
    for (int k = 0; k < t->rank && k < info.rank; k++)
        CHECK_INT(info.shape[k], t->shape[k]);
}

TEST(names)
{
    static network n;
    for (int i = 0; i < COUNTS; i++) {
        if (counts[i].classes != 1000)
            continue;
        CASE("%s", counts[i].model);
        read_network(counts[i].model, &n);
        OWNED(brasa_graph) *g = brasa_graph_new(NULL);
        CHECK_STATUS(brasa_model_build(g, n.name, n.classes), BRASA_OK);
        for (int k = 0; k < n.nparams; k++)
            check_tensor(g, k, &n.params[k], true);
        for (int k = 0; k < n.nbuffers; k++)
            check_tensor(g, n.nparams + k, &n.buffers[k], false);
        brasa_value_info more = {.size = sizeof more};
        CHECK(!brasa_graph_param_at(g, n.nparams + n.nbuffers, &more));
    }
}

/* Auxiliary heads are for training: inference leaves them out. */
static int nodes_named(const graph *g, const char *start)
{
    int count = 0;
    for (int i = 0; i < g->nnodes; i++)
        count += strncmp(g->nodes[i].name, start, strlen(start)) == 0;
    return count;
}

TEST(heads)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    OWNED(brasa_session) *s = NULL;
    CHECK_STATUS(brasa_model_build(g, "googlenet_aux", 0), BRASA_OK);
    CHECK(nodes_named(g, "aux1.") > 5);
    CHECK(nodes_named(g, "aux2.") > 5);
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .inference = true), &s), BRASA_OK);
    REQUIRE(s);
    CHECK(nodes_named(&s->current->graph, "inception5b.") > 5);
    CHECK_INT(nodes_named(&s->current->graph, "aux"), 0);
}
