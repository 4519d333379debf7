/* test_batch_parts.c - a batch computed in parts gives what the whole batch gives: weights, loss, accuracy. */
#include "test.h"
#include "task.h"

enum { BATCH = 12, CLASSES = 10, PIXELS = 28 * 28 };

/* Dropout over elements that are no multiples of four, in blocks of channels and not; two convolutions; both kinds of
 * dense layer. */
static brasa_graph *network(brasa_context *ctx)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_tensor x = brasa_input(g, "image", 1, 28, 28);
    x = brasa_apply(brasa_relu(brasa_apply(x, "conv 7 3x3 stride=3 name=a")), "dropout 0.2");
    x = brasa_dropout(brasa_maxpool(brasa_relu(brasa_apply(x, "conv 18 3x3 pad=1 name=b")), 3), 0.25f);
    x = brasa_dropout(brasa_relu(brasa_apply(brasa_flatten(x), "dense 23 name=c")), 0.5f);
    brasa_apply(x, "classify %d name=d", CLASSES);
    return g;
}

typedef struct result {
    int64_t count;
    float *params;
    double loss, accuracy;
    brasa_memory memory;
} result;

static void read_params(brasa_graph *g, brasa_session *s, result *r)
{
    brasa_value_info p = {.size = sizeof p};
    r->params = calloc((size_t)brasa_graph_param_total(g), sizeof *r->params);
    for (int32_t i = 0; brasa_graph_param_at(g, i, &p) && p.trainable; i++) {
        int64_t count = 1;
        for (int d = 0; d < p.rank; d++)
            count *= p.shape[d];
        CHECK_STATUS(brasa_param_get(s, p.name, r->params + r->count, count), BRASA_OK);
        r->count += count;
    }
}

/* A step on these samples, in the session's type. */
static void train_on(brasa_session *s, const task *t, bool float64)
{
    const size_t count = (size_t)(t->batch * PIXELS);
    double *wide = calloc(count, sizeof *wide);
    for (size_t i = 0; wide && i < count; i++)
        wide[i] = t->images[i];
    CHECK_STATUS(brasa_feed(s, "image", float64 ? (void *)wide : t->images, count * (float64 ? 8 : 4)), BRASA_OK);
    CHECK_STATUS(brasa_feed(s, "label", t->labels, (size_t)t->batch * sizeof *t->labels), BRASA_OK);
    CHECK_STATUS(brasa_train(s), BRASA_OK); /* reads what was fed */
    free(wide);
}

static double fetch(brasa_session *s, const char *name, bool float64)
{
    float narrow = 0;
    double wide = 0;
    CHECK_STATUS(brasa_fetch(s, name, float64 ? (void *)&wide : &narrow, float64 ? 8 : 4), BRASA_OK);
    return float64 ? wide : (double)narrow;
}

/* Steps of these sizes; then what the weights are, and the last step's loss and accuracy. */
static result train_sizes(brasa_graph *g, brasa_session_options o, const int *sizes, int steps)
{
    result r = {.memory.size = sizeof r.memory};
    brasa_session *s = NULL;
    o.size = sizeof o;
    o.batch = BATCH;
    o.seed = 5;
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    for (int i = 0; s && i < steps; i++) {
        OWNED(task) t = task_new(CLASSES, PIXELS, sizes[i], 0.5);
        task_fill(&t, i * BATCH);
        CHECK_STATUS(brasa_use(s, true, sizes[i]), BRASA_OK);
        train_on(s, &t, o.float64);
        r.loss = fetch(s, "loss", o.float64);
        r.accuracy = fetch(s, "accuracy", o.float64);
    }
    if (s) {
        CHECK_INT(brasa_session_steps(s), steps);
        CHECK_STATUS(brasa_session_memory(s, &r.memory), BRASA_OK);
        read_params(g, s, &r);
    }
    brasa_session_free(s);
    return r;
}

static double difference(const result *a, const result *b)
{
    double most = a->count == b->count && a->count > 0 ? 0 : INFINITY;
    for (int64_t i = 0; i < a->count && i < b->count; i++) {
        const double d = fabs((double)a->params[i] - b->params[i]);
        most = d <= most ? most : d; /* NaN stays */
    }
    return most;
}

static void compare(const char *name, brasa_session_options o, int64_t parts, const int *sizes, int steps)
{
    OWNED(brasa_context) *ctx = context_of(2);
    OWNED(brasa_graph) *g = network(ctx);
    result whole = train_sizes(g, o, sizes, steps);
    o.micro_batches = parts;
    result split = train_sizes(g, o, sizes, steps);
    const double most = difference(&whole, &split);
    if (!(most <= 1e-6))
        printf("    %s: the weights differ by %g\n", name, most);
    CHECK(most <= 1e-6);
    CHECK_CLOSE(split.loss, whole.loss, 2e-6);
    CHECK_CLOSE(split.accuracy, whole.accuracy, 1e-6);
    CHECK_INT(split.memory.weights, whole.memory.weights);
    CHECK_INT(split.memory.optimizer, whole.memory.optimizer);
    CHECK_INT(whole.memory.accumulated, 0);
    CHECK(split.memory.accumulated > 0 && (o.freeze || split.memory.accumulated >= whole.memory.weights));
    CHECK(split.memory.transient < whole.memory.transient);
    free(whole.params);
    free(split.params);
}

TEST(same_as_the_whole_batch)
{
    static const int sizes[] = {BATCH, BATCH, BATCH};
    static const float weights[CLASSES] = {0, 1, 2.5f, 0.5f, 0, 3, 1, 0, 1, 0.25f};
    static const struct {
        const char *name;
        int64_t parts;
        brasa_session_options o;
    } rows[] = {
        {"2", 2, {.optimizer = "sgd lr=0.1 momentum=0.9"}},
        {"3", 3, {.optimizer = "sgd lr=0.1 momentum=0.9"}},
        {"12", 12, {.optimizer = "sgd lr=0.1 momentum=0.9"}},
        {"clipped", 4, {.optimizer = "sgd lr=0.1", .clip_norm = 0.5}},
        {"schedule", 4, {.optimizer = "sgd lr=0.1 weight_decay=0.01", .schedule = "step every=2 gamma=0.1"}},
        {"frozen", 4, {.optimizer = "sgd lr=0.1", .freeze = "a.*"}},
        {"plain", 3, {.optimizer = "sgd lr=0.1", .no_fusion = true, .no_inplace = true}},
        {"reference", 3, {.optimizer = "sgd lr=0.1", .kernels = "_ref"}},
        {"classes", 3, {.optimizer = "sgd lr=0.1", .class_weights = weights, .class_weight_count = CLASSES}},
        /* parts whose labels all have the weight 0 */
        {"no weight", 12, {.optimizer = "sgd lr=0.1", .class_weights = weights, .class_weight_count = CLASSES}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s", rows[r].name);
        compare(rows[r].name, rows[r].o, rows[r].parts, sizes, 3);
    }
}

/* Optimizers that divide by the size of the gradients blow the rounding of small ones up: in double nothing is left.
 */
TEST(adaptive_optimizers)
{
    static const char *const optimizers[] = {"adam", "adamw", "adadelta", "rmsprop"};
    static const int sizes[] = {BATCH, 5, BATCH};
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
        CASE("%s", optimizers[i]);
        compare(optimizers[i], SIZED(brasa_session_options, .optimizer = optimizers[i], .float64 = true), 3, sizes,
                3);
    }
}

/* Smaller batches, such as the last of an epoch: parts of the same size, and what is left. */
TEST(other_sizes)
{
    static const int sizes[] = {BATCH, 8, 7, 3, 1, BATCH};
    compare("other sizes", SIZED(brasa_session_options, .optimizer = "sgd lr=0.1 momentum=0.9"), 3, sizes, 6);
}

TEST(train_step)
{
    OWNED(brasa_graph) *g = network(NULL);
    brasa_session *s[2] = {NULL, NULL};
    float loss[2][3], logits[BATCH * CLASSES];
    OWNED(task) t = task_new(CLASSES, PIXELS, BATCH, 0.5);
    for (int k = 0; k < 2; k++) {
        const brasa_session_options o = {.size = sizeof o,
                                         .batch = BATCH,
                                         .optimizer = "sgd lr=0.1",
                                         .keep_gradients = true,
                                         .micro_batches = k ? 4 : 0};
        REQUIRE(brasa_session_new(g, &o, &s[k]) == BRASA_OK);
        for (int i = 0; i < 3; i++) {
            task_fill(&t, i * BATCH);
            CHECK_STATUS(brasa_train_step(s[k], t.images, t.labels, &loss[k][i]), BRASA_OK);
        }
    }
    for (int i = 0; i < 3; i++)
        CHECK_CLOSE(loss[1][i], loss[0][i], 2e-6);
    float a[CLASSES], b[CLASSES];
    CHECK_STATUS(brasa_fetch(s[0], "d.bias.grad", a, sizeof a), BRASA_OK);
    CHECK_STATUS(brasa_fetch(s[1], "d.bias.grad", b, sizeof b), BRASA_OK);
    for (int c = 0; c < CLASSES; c++)
        CHECK_CLOSE(b[c], a[c], 1e-6);

    CHECK_STATUS(brasa_fetch(s[1], "logits", logits, sizeof logits), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_session_error(s[1]), "only scalars");
    CHECK_STATUS(brasa_fetch(s[1], "losses", logits, 4), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_session_error(s[1]), "no output 'losses'");
    /* Evaluation is not cut. */
    CHECK_STATUS(brasa_eval_step(s[1], t.images, t.labels, BATCH, &loss[1][0], NULL), BRASA_OK);
    CHECK_STATUS(brasa_eval_step(s[0], t.images, t.labels, BATCH, &loss[0][0], NULL), BRASA_OK);
    CHECK_CLOSE(loss[1][0], loss[0][0], 2e-6);
    CHECK_STATUS(brasa_fetch(s[1], "logits", logits, sizeof logits), BRASA_OK);
    brasa_session_free(s[0]);
    brasa_session_free(s[1]);
}

/* The sums are gone after a step: they are no part of a checkpoint, which a session without parts can go on from. */
TEST(checkpoint)
{
    const char *path = "test_batch_parts.safetensors";
    OWNED(brasa_graph) *g = network(NULL);
    brasa_session *s = NULL, *other = NULL;
    brasa_load_report report = {.size = sizeof report};
    task t = task_new(CLASSES, PIXELS, BATCH, 0.5);
    task_fill(&t, 0);
    const brasa_session_options o = {.size = sizeof o, .batch = BATCH, .optimizer = "adam", .micro_batches = 3};
    REQUIRE(brasa_session_new(g, &o, &s) == BRASA_OK);
    CHECK_STATUS(brasa_train_step(s, t.images, t.labels, NULL), BRASA_OK);
    CHECK_STATUS(brasa_session_save(s, path, BRASA_CHECKPOINT), BRASA_OK);
    REQUIRE(brasa_session_new(g, &SIZED(brasa_session_options, .batch = BATCH, .optimizer = "adam"), &other) ==
            BRASA_OK);
    const brasa_load_options all = {.size = sizeof all, .what = BRASA_CHECKPOINT};
    CHECK_STATUS(brasa_session_load(other, path, &all, &report), BRASA_OK);
    CHECK_STATUS(brasa_session_load(s, path, &all, &report), BRASA_OK);
    CHECK_INT(brasa_session_steps(other), 1);
    float sum[CLASSES * 23];
    CHECK_STATUS(brasa_param_get(s, "d.weight/gradient", sum, CLASSES * 23), BRASA_NOT_FOUND);
    remove(path);
    brasa_session_free(s);
    brasa_session_free(other);
    task_free(&t);
}

/* A mean over elements, and several losses in one. */
TEST(other_losses)
{
    static const float x[6 * 3] = {1, 2, 3, -1, 0, 1, 2, 2, -2, 0.5f, 1, 1, 3, -3, 0, 1, 1, 2};
    static const float y[6 * 2] = {1, 0, 0, 1, 1, 1, 2, 0, -1, 1, 0.5f, 0};
    static const int32_t labels[6] = {0, 1, 1, 0, 1, 1};
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_tensor out = brasa_apply(brasa_input_vector(g, "x", 3), "dense 2 name=fc");
    brasa_tensor squares = brasa_apply_n(g, (brasa_tensor[]){out, brasa_input_vector(g, "y", 2)}, 2, "mse");
    brasa_tensor classes =
        brasa_apply_n(g, (brasa_tensor[]){out, brasa_labels(g, "label", 2)}, 2, "softmax_cross_entropy");
    brasa_output(squares, "squares");
    brasa_set_loss(brasa_apply_n(g, (brasa_tensor[]){squares, classes}, 2, "weighted_sum 1,0.3"));
    float loss[2], part[2], wei[2][6];
    for (int k = 0; k < 2; k++) {
        OWNED(brasa_session) *s = NULL;
        const brasa_session_options o = {
            .size = sizeof o, .batch = 6, .optimizer = "sgd lr=0.1", .micro_batches = k ? 3 : 1};
        REQUIRE(brasa_session_new(g, &o, &s) == BRASA_OK);
        CHECK_STATUS(brasa_feed(s, "x", x, sizeof x), BRASA_OK);
        CHECK_STATUS(brasa_feed(s, "y", y, sizeof y), BRASA_OK);
        CHECK_STATUS(brasa_feed(s, "label", labels, sizeof labels), BRASA_OK);
        CHECK_STATUS(brasa_train(s), BRASA_OK);
        CHECK_STATUS(brasa_fetch(s, "loss", &loss[k], sizeof loss[k]), BRASA_OK);
        CHECK_STATUS(brasa_fetch(s, "squares", &part[k], sizeof part[k]), BRASA_OK);
        CHECK_STATUS(brasa_param_get(s, "fc.weight", wei[k], 6), BRASA_OK);
        CHECK_STATUS(brasa_train(s), BRASA_WRONG_STATE); /* nothing was fed */
    }
    CHECK_CLOSE(loss[1], loss[0], 1e-6);
    CHECK_CLOSE(part[1], part[0], 1e-6);
    for (int i = 0; i < 6; i++)
        CHECK_CLOSE(wei[1][i], wei[0][i], 1e-7);
}

static void refuse(brasa_graph *g, brasa_session_options o, const char *says)
{
    brasa_session *s = NULL;
    CHECK(brasa_session_new(g, &o, &s) != BRASA_OK);
    CHECK_HAS(brasa_graph_error(g), says);
    brasa_graph_free(g);
}

static bool keep_text(void *user, const char *text, size_t length)
{
    char *to = user;
    strncat(to, text, length);
    return true;
}

/* A step's time is that of its parts, which are not all as large, and of the update behind them, counted once. */
TEST(profile)
{
    static char text[1 << 16];
    OWNED(brasa_context) *ctx = context_of(1);
    brasa_session *s = NULL;
    OWNED(brasa_graph) *g = network(ctx);
    const brasa_session_options o = {
        .size = sizeof o, .batch = BATCH, .micro_batches = 3, .kernels = "_ref", .optimizer = "sgd lr=0.1"};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    task t = task_new(CLASSES, PIXELS, BATCH - 1, 0.5);
    task_fill(&t, 0);
    if (s) {
        CHECK_STATUS(brasa_use(s, true, BATCH - 1), BRASA_OK);
        for (int i = 0; i < 2; i++) { /* the first time is forgotten */
            brasa_session_profile(s, true);
            for (int k = 0; k < 2; k++)
                train_on(s, &t, false);
        }
        CHECK_STATUS(brasa_session_explain(s, BRASA_EXPLAIN_PROFILE, keep_text, text), BRASA_OK);
    }
    CHECK_HAS(text, "training, batch 11 in micro-batches of 4, 1 thread: ");
    CHECK_HAS(text, "a step, mean of 2\n");
    CHECK_HAS(text, "  sgd_ref, 8\n");     /* weights and biases of four layers */
    CHECK_HAS(text, "  maxpool_ref, 2\n"); /* of parts of four samples and of three */
    brasa_session_free(s);
    task_free(&t);
}

TEST(refused)
{
    CASE("batch norm");
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_model_build(g, "tiny_resnet", 0);
    refuse(g, SIZED(brasa_session_options, .batch = 4, .micro_batches = 2), "computes with the whole of it");
    CASE("no multiple");
    refuse(network(NULL), SIZED(brasa_session_options, .batch = 10, .micro_batches = 3),
           "10 cannot be split into 3 equal micro-batches");
    CASE("negative");
    refuse(network(NULL), SIZED(brasa_session_options, .batch = 10, .micro_batches = -1), "micro_batches");
    CASE("weights that differ");
    g = brasa_graph_new(NULL);
    brasa_tensor x = brasa_dense(brasa_input_vector(g, "x", 3), 2);
    brasa_tensor both[] = {x, brasa_labels(g, "label", 2)}, losses[2];
    losses[0] = brasa_apply_n(g, both, 2, "softmax_cross_entropy weights=yes");
    losses[1] = brasa_apply_n(g, both, 2, "softmax_cross_entropy");
    brasa_set_loss(brasa_apply_n(g, losses, 2, "weighted_sum 1,1"));
    refuse(g, SIZED(brasa_session_options, .batch = 4, .micro_batches = 2), "losses weigh classes differently");
}
