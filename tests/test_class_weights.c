/* test_class_weights.c - what each class counts in the loss, as PyTorch's CrossEntropyLoss(weight, label_smoothing).
 *
 * The numbers are PyTorch's (2.15.0), in double precision, printed with nine digits:
 *     loss = CrossEntropyLoss(weight=w, label_smoothing=e)(logits, labels); loss.backward(); logits.grad
 */
#include "test.h"

enum { N = 5, C = 3 };

static const float logits[N][C] = {
    {0.5f, -1.25f, 2.0f}, {1.5f, 0.25f, -0.75f}, {-0.5f, 0.75f, 1.0f}, {2.0f, -2.0f, 0.5f}, {0.0f, 0.125f, -0.25f}};
static const int32_t labels[N] = {0, 2, 1, 1, 0};

static const struct expected {
    float weights[C];
    double smoothing, loss, gradient[N][C];
} rows[] = {
    {{0.5f, 2.0f, 1.25f},
     0,
     2.391574530,
     {{-0.065854385, 0.002458139, 0.063396246},
      {0.143688068, 0.041167321, -0.184855389},
      {0.035666391, -0.195512064, 0.159845674},
      {0.257763972, -0.315278888, 0.057514916},
      {-0.052526994, 0.031130995, 0.021395999}}},
    {{0.5f, 2.0f, 1.25f},
     0.1,
     2.329933866,
     {{-0.058399210, -0.007839807, 0.066239016},
      {0.141021402, 0.030500654, -0.171522056},
      {0.031662234, -0.178847029, 0.147184794},
      {0.245431156, -0.294122597, 0.048691440},
      {-0.043072709, 0.025133977, 0.017938732}}},
    {{0, 3, 1}, /* a class that does not count */
     0,
     2.580262739,
     {{0, 0, 0},
      {0.102634334, 0.029405229, -0.132039564},
      {0.047767488, -0.261846515, 0.214079027},
      {0.345219605, -0.422248511, 0.077028906},
      {0, 0, 0}}},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* Sample n is the n-th unit vector: the weights of the dense layer are the logits, and their gradients the logits'.
 */
static brasa_graph *network(double smoothing, bool own)
{
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_tensor x = brasa_apply(brasa_input_vector(g, "x", N), "dense %d bias=no name=fc", C);
    brasa_tensor both[] = {x, brasa_labels(g, "label", C)};
    brasa_set_loss(brasa_apply_n(g, both, 2, "softmax_cross_entropy smoothing=%g weights=%s name=loss", smoothing,
                                 own ? "yes" : "no"));
    return g;
}

static brasa_session *open_session(brasa_graph *g, brasa_session_options o)
{
    float wei[C][N], unit[N][N] = {{0}};
    brasa_session *s = NULL;
    o.batch = N;
    o.keep_gradients = true;
    if (brasa_session_new(g, &o, &s) != BRASA_OK) {
        CHECK_TEXT(brasa_graph_error(g), "");
        return NULL;
    }
    for (int n = 0; n < N; n++) {
        unit[n][n] = 1;
        for (int c = 0; c < C; c++)
            wei[c][n] = logits[n][c];
    }
    CHECK_STATUS(brasa_param_set(s, "fc.weight", &wei[0][0], C * N), BRASA_OK);
    CHECK_STATUS(brasa_use(s, true, N), BRASA_OK);
    CHECK_STATUS(brasa_feed(s, "x", unit, sizeof unit), BRASA_OK);
    CHECK_STATUS(brasa_feed(s, "label", labels, sizeof labels), BRASA_OK);
    return s;
}

static void check_row(const struct expected *e, brasa_session *s)
{
    float loss = 0, gradient[C][N];
    CHECK_STATUS(brasa_train(s), BRASA_OK);
    CHECK_STATUS(brasa_fetch(s, "loss", &loss, sizeof loss), BRASA_OK);
    CHECK_STATUS(brasa_fetch(s, "fc.weight.grad", gradient, sizeof gradient), BRASA_OK);
    CHECK_CLOSE(loss, e->loss, 1e-6);
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++)
            CHECK_CLOSE(gradient[c][n], e->gradient[n][c], 1e-7);
}

TEST(as_pytorch)
{
    for (int r = 0; r < ROWS; r++) {
        CASE("%d", r);
        OWNED(brasa_graph) *g =
            network(rows[r].smoothing, r == 1); /* the option also wins over weights of the network */
        brasa_session *s =
            open_session(g, SIZED(brasa_session_options, .class_weights = rows[r].weights, .class_weight_count = C));
        REQUIRE(s);
        check_row(&rows[r], s);
        brasa_session_free(s);
    }
}

/* The same as weights of the network's own, which a file can hold. */
TEST(of_the_network)
{
    OWNED(brasa_graph) *g = network(0, true);
    OWNED(brasa_session) *s = open_session(g, (brasa_session_options){.size = sizeof(brasa_session_options)});
    REQUIRE(s);
    CHECK_STATUS(brasa_param_set(s, "loss.class_weight", rows[0].weights, C), BRASA_OK);
    check_row(&rows[0], s);
}

/* Evaluation computes the same loss; the numbers were copied; and they are no part of what is saved. */
TEST(in_evaluation)
{
    float weights[C] = {0.5f, 2.0f, 1.25f}, loss = 0, unit[N][N] = {{0}};
    brasa_memory plain = {.size = sizeof plain}, m = plain;
    OWNED(brasa_graph) *g = network(0, false);
    brasa_session *without = open_session(g, (brasa_session_options){.size = sizeof(brasa_session_options)});
    brasa_session *s =
        open_session(g, SIZED(brasa_session_options, .class_weights = weights, .class_weight_count = C));
    REQUIRE(s && without);
    memset(weights, 0, sizeof weights);
    for (int n = 0; n < N; n++)
        unit[n][n] = 1;
    CHECK_STATUS(brasa_eval_step(s, &unit[0][0], labels, N, &loss, NULL), BRASA_OK);
    CHECK_CLOSE(loss, rows[0].loss, 1e-6);
    CHECK_STATUS(brasa_session_memory(s, &m), BRASA_OK);
    CHECK_STATUS(brasa_session_memory(without, &plain), BRASA_OK);
    CHECK_INT(m.buffers, plain.buffers);
    brasa_session_free(s);
    brasa_session_free(without);
}

TEST(refused)
{
    static const struct {
        const char *name;
        float weights[C + 1];
        int count;
        const char *says;
    } cases[] = {
        {"too few", {1, 1}, 2, "2 numbers for the 3 classes of 'loss'"},
        {"too many", {1, 1, 1, 1}, 4, "4 numbers for the 3 classes"},
        {"none", {1}, 0, "0 numbers for the 3 classes"},
        {"negative", {1, -1, 1}, 3, "expected numbers of at least 0, got -1 for class 1"},
        {"infinite", {1, 1, INFINITY}, 3, "got inf for class 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CASE("%s", cases[i].name);
        OWNED(brasa_graph) *g = network(0, false);
        brasa_session *s = NULL;
        const brasa_session_options o = {
            .size = sizeof o, .class_weights = cases[i].weights, .class_weight_count = cases[i].count};
        CHECK(brasa_session_new(g, &o, &s) != BRASA_OK);
        CHECK_HAS(brasa_graph_error(g), cases[i].says);
    }
    CASE("a loss without classes");
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_session *s = NULL;
    brasa_tensor both[] = {brasa_dense(brasa_input_vector(g, "x", 2), 2), brasa_input_vector(g, "y", 2)};
    brasa_set_loss(brasa_apply_n(g, both, 2, "mse"));
    const brasa_session_options o = {.size = sizeof o, .class_weights = rows[0].weights, .class_weight_count = C};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_WRONG_STATE);
    CHECK_HAS(brasa_graph_error(g), "no loss of classes");
    brasa_graph_free(g);
}
