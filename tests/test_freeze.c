/* test_freeze.c - frozen parameters stay as they are, the others train as if nothing had happened, and the way back
 * ends where nothing before is trained. */
#include "test.h"
#include "task.h"
#include "session/session.h"

enum { BATCH = 6, CLASSES = 5, PIXELS = 2 * 8 * 8 };

static const char *const names[] = {"features.a.weight", "features.a.bias", "features.b.weight",
                                    "features.b.bias",   "head.weight",     "head.bias"};
enum { NAMES = sizeof names / sizeof names[0] };
static const int64_t counts[NAMES] = {6 * 2 * 3 * 3, 6, 4 * 6 * 3 * 3, 4, CLASSES * 4 * 4 * 4, CLASSES};
enum { MOST = CLASSES * 4 * 4 * 4 };

static brasa_graph *network(void)
{
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_tensor x = brasa_input(g, "image", 2, 8, 8);
    brasa_graph_scope(g, "features.");
    x = brasa_relu(brasa_apply(x, "conv 6 3x3 name=a"));
    x = brasa_relu(brasa_apply(x, "conv 4 3x3 name=b"));
    brasa_graph_scope(g, "");
    brasa_apply(brasa_flatten(x), "classify %d name=head", CLASSES);
    return g;
}

typedef struct trained {
    brasa_graph *graph;
    brasa_session *session;
    float before[NAMES][MOST], after[NAMES][MOST];
} trained;

static void read_all(brasa_session *s, float to[NAMES][MOST])
{
    for (int i = 0; i < NAMES; i++)
        CHECK_STATUS(brasa_param_get(s, names[i], to[i], counts[i]), BRASA_OK);
}

/* Some steps with this list of names frozen. */
static bool train(trained *t, const char *freeze, int steps)
{
    *t = (trained){.graph = network()};
    const brasa_session_options o = {
        .size = sizeof o, .batch = BATCH, .optimizer = "sgd lr=0.1 momentum=0.9", .seed = 3, .freeze = freeze};
    if (brasa_session_new(t->graph, &o, &t->session) != BRASA_OK) {
        CHECK_TEXT(brasa_graph_error(t->graph), "");
        return false;
    }
    read_all(t->session, t->before);
    task data = task_new(CLASSES, PIXELS, BATCH, 0.3);
    for (int i = 0; i < steps; i++) {
        task_fill(&data, i * BATCH);
        CHECK_STATUS(brasa_train_step(t->session, data.images, data.labels, NULL), BRASA_OK);
    }
    task_free(&data);
    read_all(t->session, t->after);
    return true;
}

static void end(trained *t)
{
    brasa_session_free(t->session);
    brasa_graph_free(t->graph);
}

static bool moved(const trained *t, int i)
{
    return memcmp(t->before[i], t->after[i], (size_t)counts[i] * sizeof(float)) != 0;
}

static int nodes_with(const brasa_session *s, const char *op)
{
    const graph *g = &s->programs->graph;
    int count = 0;
    for (int i = 0; i < g->nnodes; i++)
        count += strstr(g->nodes[i].op->name, op) != NULL;
    return count;
}

TEST(stay_as_they_are)
{
    static const struct {
        const char *list;
        unsigned frozen;   /* bit i: names[i] */
        int data, weights; /* gradients of convolutions that are left: by the data, by the weights */
    } rows[] = {
        {NULL, 0, 1, 2},
        {"features.a.*", 3, 0, 1},
        {"features.*", 15, 0, 0},
        {" features.a.weight,features.a.bias , features.b.*", 15, 0, 0},
        {"*.weight", 1 + 4 + 16, 1, 2},
        {"features.?.bias", 2 + 8, 1, 2},
        {"features.b.weight", 4, 1, 2},
        {"h*d.weight", 16, 1, 2},
        {"f*.b*.*a*", 8, 1, 2}, /* not the first ".b" of features.a.bias */
    };
    static trained whole, t;
    REQUIRE(train(&whole, NULL, 1));
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("'%s'", rows[r].list ? rows[r].list : "");
        REQUIRE(train(&t, rows[r].list, 1));
        for (int i = 0; i < NAMES; i++) {
            char slot[64];
            float velocity[MOST];
            const bool frozen = rows[r].frozen >> i & 1;
            snprintf(slot, sizeof slot, "%s/momentum", names[i]);
            CHECK_INT(moved(&t, i), !frozen);
            CHECK_INT(brasa_param_get(t.session, slot, velocity, counts[i]) == BRASA_OK, !frozen);
            /* One step from the same weights: what is trained goes where it would go anyway. */
            for (int64_t k = 0; k < counts[i] && !frozen; k++)
                CHECK_CLOSE(t.after[i][k], whole.after[i][k], 1e-7);
        }
        CHECK_INT(nodes_with(t.session, "conv2d_grad_data"), rows[r].data);
        CHECK_INT(nodes_with(t.session, "conv2d_grad_weights"), rows[r].weights);
        end(&t);
    }
    end(&whole);
}

TEST(more_steps)
{
    static trained t;
    REQUIRE(train(&t, "features.*", 5));
    for (int i = 0; i < NAMES; i++)
        CHECK_INT(moved(&t, i), i >= 4);
    end(&t);
}

/* They cost no gradients and no slots, and are parameters all the same. */
TEST(memory)
{
    static trained whole, t;
    brasa_memory a = {.size = sizeof a}, b = a;
    REQUIRE(train(&whole, NULL, 0) && train(&t, "features.*", 0));
    CHECK_STATUS(brasa_session_memory(whole.session, &a), BRASA_OK);
    CHECK_STATUS(brasa_session_memory(t.session, &b), BRASA_OK);
    CHECK_INT(b.weights, a.weights);
    CHECK_INT(b.buffers, a.buffers);
    CHECK(b.optimizer < a.optimizer);
    CHECK(b.transient < a.transient);
    end(&whole);
    end(&t);
}

TEST(refused)
{
    static const struct {
        const char *list, *says;
    } rows[] = {
        {"featurs.*", "no parameter is called 'featurs.*'; the nearest is 'features.a.weight'"},
        {"head.wieght", "the nearest is 'head.weight'"},
        {"features.a.*, hed.bias", "no parameter is called 'hed.bias'; the nearest is 'head."},
        {"head", "the nearest is 'head.weight'"},
        {"*", "nothing to train"},
        {"********************************x", "no parameter is called '*****"}, /* in no time */
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        OWNED(brasa_graph) *g = network();
        brasa_session *s = NULL;
        CASE("'%s'", rows[r].list);
        CHECK(brasa_session_new(g, &SIZED(brasa_session_options, .freeze = rows[r].list), &s) != BRASA_OK);
        CHECK_HAS(brasa_graph_error(g), rows[r].says);
    }
}
