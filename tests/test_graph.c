/* test_graph.c - what the builder refuses and how it says so; what a session promises about feeding, fetching, modes
 * and options. */
#include "test.h"

#include <stdlib.h>

/* --- the builder ------------------------------------------------------------------------------------------------ */

static brasa_tensor image_input(brasa_graph *g)
{
    return brasa_input(g, "image", 3, 8, 8);
}

/* The graph holds this error, with these words in it; and it stays, whatever comes after. */
static void check_error(brasa_graph *g, brasa_status status, const char *const *words)
{
    CHECK_STATUS(brasa_graph_status(g), status);
    for (; *words; words++)
        CHECK_HAS(brasa_graph_error(g), *words);
    char before[1024];
    snprintf(before, sizeof before, "%s", brasa_graph_error(g));
    brasa_tensor y = brasa_relu(brasa_dense(brasa_flatten(brasa_input(g, "later", 1, 2, 2)), -5));
    brasa_apply_n(g, &y, 1, "nonsense");
    int64_t dims[6];
    CHECK_INT(brasa_tensor_shape(y, dims), -1);
    brasa_session *s = (brasa_session *)(void *)before; /* anything but NULL */
    CHECK_STATUS(brasa_session_new(g, NULL, &s), status);
    CHECK(s == NULL);
    CHECK_TEXT(brasa_graph_error(g), before);
    brasa_graph_free(g);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(layers_refused)
{
    static const struct {
        const char *layer;
        brasa_status status;
        const char *words[4];
    } rows[] = {
        {"conv 8 9x9 name=stem", BRASA_BAD_SHAPE, {"conv2d", "'stem'", "1x3x8x8"}},
        {"conv 8 3x3 groups=2 name=g", BRASA_BAD_SHAPE, {"conv2d", "'g'", "1x3x8x8"}},
        {"dense 10 name=fc", BRASA_BAD_SHAPE, {"dense", "'fc'", "flatten", "1x3x8x8"}},
        {"reshape 7 name=r", BRASA_BAD_SHAPE, {"reshape", "'r'", "1x3x8x8"}},
        {"rleu", BRASA_NOT_FOUND, {"rleu", "did you mean 'relu'"}},
        {"conv2 8 3", BRASA_NOT_FOUND, {"conv2", "did you mean 'conv"}},
        {"xyzzy", BRASA_NOT_FOUND, {"xyzzy"}},
        {"", BRASA_NOT_FOUND, {"''"}},
        {"conv 8 3x3 strid=2", BRASA_BAD_ARGUMENT, {"conv2d", "strid", "did you mean 'stride'"}},
        {"conv 8", BRASA_BAD_ARGUMENT, {"conv2d", "kernel"}},
        {"conv 0 3", BRASA_BAD_ARGUMENT, {"conv2d", "channels", "'0'"}},
        {"conv 8 3 pad=-1", BRASA_BAD_ARGUMENT, {"conv2d", "pad", "'-1'"}},
        {"conv 8 3 stride=2 stride=2", BRASA_BAD_ARGUMENT, {"conv2d", "stride", "twice"}},
        {"conv 8 3 4 5 6 7", BRASA_BAD_ARGUMENT, {"conv2d", "'4'"}},
        {"conv 1e99 3", BRASA_BAD_ARGUMENT, {"conv2d", "1e99"}},
        {"dropout 1.5", BRASA_BAD_ARGUMENT, {"dropout", "1.5"}},
        {"dropout nan", BRASA_BAD_ARGUMENT, {"dropout", "nan"}},
        {"add", BRASA_BAD_ARGUMENT, {"add", "2"}},
        {"concat", BRASA_BAD_ARGUMENT, {"concat", "2"}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("'%s'", rows[r].layer);
        brasa_graph *g = brasa_graph_new(NULL);
        brasa_apply(image_input(g), "%s", rows[r].layer);
        const char *words[5] = {rows[r].words[0], rows[r].words[1], rows[r].words[2], rows[r].words[3], NULL};
        check_error(g, rows[r].status, words);
    }
}

TEST(texts_too_long)
{
    char text[2000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_apply(image_input(g), "%s", text);
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("too long", "aaaa"));
    text[300] = '\0';
    g = brasa_graph_new(NULL);
    brasa_apply(image_input(g), "relu name=%s", text);
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("too long"));
    g = brasa_graph_new(NULL);
    brasa_apply(image_input(g), "conv %s", text);
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("too long"));
}

TEST(arity)
{
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_tensor x = image_input(g);
    brasa_apply_n(g, (brasa_tensor[]){x, x}, 2, "relu");
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("relu", "1", "got 2"));
    g = brasa_graph_new(NULL);
    image_input(g);
    brasa_apply_n(g, NULL, 0, "relu");
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("relu", "got 0"));
}

TEST(tensors_of_another_graph)
{
    brasa_graph *a = brasa_graph_new(NULL), *b = brasa_graph_new(NULL);
    brasa_tensor x = image_input(a), y = image_input(b);
    brasa_add(x, y);
    CHECK_STATUS(brasa_graph_status(b), BRASA_OK);
    check_error(a, BRASA_BAD_ARGUMENT, WORDS("input 2", "another graph"));
    brasa_relu((brasa_tensor){b, 99});
    check_error(b, BRASA_BAD_ARGUMENT, WORDS("99"));
    brasa_relu((brasa_tensor){NULL, 0}); /* nowhere to put an error, and nothing happens */
    int64_t dims[6];
    CHECK_INT(brasa_tensor_shape((brasa_tensor){NULL, 0}, dims), -1);
}

TEST(names_taken)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_apply(brasa_apply(image_input(g), "conv 3 3 name=a"), "conv 3 3 name=a");
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("'a.weight'", "taken"));
    g = brasa_graph_new(NULL);
    image_input(g);
    image_input(g);
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("'image'", "taken"));
    g = brasa_graph_new(NULL);
    brasa_tensor x = brasa_relu(image_input(g));
    brasa_output(x, "out");
    brasa_output(brasa_relu(x), "out");
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("'out'"));
    g = brasa_graph_new(NULL);
    brasa_graph_scope(g, "left/");
    x = brasa_apply(image_input(g), "conv 3 3 name=a");
    brasa_graph_scope(g, "right/");
    brasa_apply(x, "conv 3 3 name=a");
    CHECK_STATUS(brasa_graph_status(g), BRASA_OK);
    brasa_value_info info = {.size = sizeof info};
    CHECK(brasa_graph_param_at(g, 2, &info));
    CHECK_TEXT(info.name, "right/a.weight");
    CHECK(!brasa_graph_param_at(g, 4, &info));
}

TEST(inputs_and_losses_refused)
{
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_input(g, "image", 3, 0, 8);
    check_error(g, BRASA_BAD_SHAPE, WORDS("'image'", "1x3x0x8"));
    g = brasa_graph_new(NULL);
    brasa_input_vector(g, "features", -1);
    check_error(g, BRASA_BAD_SHAPE, WORDS("'features'", "-1"));
    g = brasa_graph_new(NULL);
    brasa_labels(g, "label", 0);
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("'label'", "class"));
    g = brasa_graph_new(NULL);
    brasa_set_loss(image_input(g));
    check_error(g, BRASA_BAD_SHAPE, WORDS("scalar", "1x3x8x8"));
    g = brasa_graph_new(NULL);
    brasa_classify(brasa_flatten(image_input(g)), 0);
    check_error(g, BRASA_BAD_ARGUMENT, WORDS("'0'"));
}

TEST(dialects_refused)
{
    brasa_graph *g = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_graph_set_dialect(g, "keras"), BRASA_NOT_FOUND);
    check_error(g, BRASA_NOT_FOUND, WORDS("'keras'", "did you mean 'keras2'"));
    g = brasa_graph_new(NULL);
    brasa_relu(image_input(g));
    CHECK_STATUS(brasa_graph_set_dialect(g, "caffe"), BRASA_WRONG_STATE);
    check_error(g, BRASA_WRONG_STATE, WORDS("before"));
}

TEST(null_is_freed)
{
    brasa_graph_free(NULL);
    brasa_session_free(NULL);
    brasa_context_free(NULL);
}

TEST(shapes)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    int64_t dims[6];
    brasa_tensor x = brasa_conv2d(image_input(g), 5, 3, BRASA_VALID);
    CHECK_INT(brasa_tensor_shape(x, dims), 4);
    CHECK(dims[0] == 1 && dims[1] == 5 && dims[2] == 6 && dims[3] == 6);
    x = brasa_conv2d(x, 7, 3, BRASA_SAME);
    CHECK_INT(brasa_tensor_shape(brasa_flatten(brasa_avgpool(x, 2)), dims), 2);
    CHECK(dims[0] == 1 && dims[1] == 7 * 9);
    CHECK_INT(brasa_graph_param_total(g), 5 * 27 + 5 + 7 * 45 + 7);
}

/* --- sessions --------------------------------------------------------------------------------------------------- */

enum { N = 4, PIXELS = 3 * 8 * 8, CLASSES = 5 };

static brasa_graph *small_net(brasa_context *ctx, bool noisy)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_tensor x = brasa_relu(brasa_apply(image_input(g), "conv 6 3 pad=same name=conv"));
    if (noisy)
        x = brasa_dropout(brasa_relu(brasa_apply(x, "batchnorm name=bn")), 0.3f);
    x = brasa_relu(brasa_add(x, brasa_apply(x, "conv 6 3 pad=same name=side")));
    brasa_apply(brasa_flatten(brasa_maxpool(x, 2)), "classify %d name=fc", CLASSES);
    CHECK_STATUS(brasa_graph_status(g), BRASA_OK);
    return g;
}

static brasa_session *session_of(brasa_graph *g, brasa_session_options o)
{
    brasa_session *s = NULL;
    if (brasa_session_new(g, &o, &s) != BRASA_OK)
        test_fail(__FILE__, __LINE__, "no session: %s", brasa_graph_error(g));
    return s;
}

static float images[8 * PIXELS];
static int32_t labels[8];

static void fill(int shift)
{
    for (int i = 0; i < 8 * PIXELS; i++)
        images[i] = (float)((i * 7919 + shift * 104729) % 2001 - 1000) / 1000;
    for (int i = 0; i < 8; i++)
        labels[i] = (i + shift) % CLASSES;
}

/* A machine with a gigabyte. */
static void *alloc_little(void *user, size_t bytes)
{
    (void)user;
    return bytes < 1u << 30 ? malloc(bytes) : NULL;
}

static void release(void *user, void *block)
{
    (void)user;
    free(block);
}

TEST(options_refused)
{
    static const struct {
        brasa_session_options o;
        brasa_status status;
        const char *word;
    } rows[] = {
        {{.batch = -1}, BRASA_BAD_ARGUMENT, "batch"},
        {{.batch = INT64_MAX}, BRASA_BAD_ARGUMENT, "batch"},
        {{.batch = 1 << 30}, BRASA_OUT_OF_MEMORY, "bytes"},
        {{.optimizer = "sdg lr=1"}, BRASA_NOT_FOUND, "did you mean 'sgd'"},
        {{.optimizer = ""}, BRASA_NOT_FOUND, "optimizer"},
        {{.optimizer = "sgd lr=x"}, BRASA_BAD_ARGUMENT, "lr"},
        {{.optimizer = "sgd lr=-1"}, BRASA_BAD_ARGUMENT, "lr"},
        {{.optimizer = "sgd lr=1 moment=0.9"}, BRASA_BAD_ARGUMENT, "did you mean 'momentum'"},
        {{.schedule = "cosin steps=5"}, BRASA_BAD_ARGUMENT, "cosine"},
        {{.schedule = "cosine"}, BRASA_BAD_ARGUMENT, "steps"},
        {{.schedule = "constant every=10"}, BRASA_BAD_ARGUMENT, "schedule constant: it has no setting 'every'"},
        {{.schedule = "cosine steps=9 gamma=0.5"}, BRASA_BAD_ARGUMENT, "'gamma'"},
        {{.schedule = "step every=9 steps=10"}, BRASA_BAD_ARGUMENT, "'steps'"},
        {{.schedule = "warmup=5 floor=0.1"}, BRASA_BAD_ARGUMENT, "'floor'"},
        {{.clip_norm = -1}, BRASA_BAD_ARGUMENT, "clip_norm"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s", rows[r].word);
        OWNED(brasa_context) *ctx = NULL;
        CHECK_STATUS(
            brasa_context_new(&SIZED(brasa_context_options, .alloc = alloc_little, .release = release), &ctx),
            BRASA_OK);
        OWNED(brasa_graph) *g = small_net(ctx, false);
        brasa_session *s = NULL;
        brasa_session_options o = rows[r].o;
        o.size = sizeof o;
        if (!o.optimizer)
            o.optimizer = "sgd lr=0.1";
        CHECK_STATUS(brasa_session_new(g, &o, &s), rows[r].status);
        CHECK(s == NULL);
        CHECK_HAS(brasa_graph_error(g), rows[r].word);
        CHECK_STATUS(brasa_graph_status(g), BRASA_OK); /* the graph is still good */
    }
}

TEST(nothing_to_train)
{
    brasa_session *s = NULL;
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_output(brasa_relu(image_input(g)), "out");
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .optimizer = "sgd lr=1"), &s), BRASA_WRONG_STATE);
    CHECK_HAS(brasa_graph_error(g), "loss");
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .inference = true), &s), BRASA_OK);
    brasa_session_free(s);
    brasa_tensor y = brasa_relu(image_input(g));
    (void)y;
    brasa_graph_free(g);

    g = brasa_graph_new(NULL);
    brasa_tensor x = image_input(g), both[] = {x, brasa_relu(x)};
    brasa_set_loss(brasa_apply_n(g, both, 2, "mse"));
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .optimizer = "sgd lr=1"), &s), BRASA_WRONG_STATE);
    CHECK_HAS(brasa_graph_error(g), "parameter");
}

TEST(feeding_and_fetching)
{
    OWNED(brasa_graph) *g = small_net(NULL, false);
    OWNED(brasa_session) *s = session_of(g, SIZED(brasa_session_options, .batch = N, .optimizer = "sgd lr=0.1"));
    REQUIRE(s);
    float loss = 0, many[N * CLASSES];
    fill(0);
    CHECK_STATUS(brasa_train(s), BRASA_WRONG_STATE);
    CHECK_HAS(brasa_session_error(s), "not fed");
    CHECK_STATUS(brasa_feed(s, "picture", images, sizeof images), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_session_error(s), "'picture'");
    CHECK_STATUS(brasa_feed(s, "conv.weight", images, sizeof images), BRASA_NOT_FOUND);
    CHECK_STATUS(brasa_feed(s, "image", images, sizeof images), BRASA_BAD_SHAPE);
    CHECK_HAS(brasa_session_error(s), "4x3x8x8");
    CHECK_STATUS(brasa_feed(s, "image", images, N * PIXELS * sizeof(float)), BRASA_OK);
    CHECK_STATUS(brasa_train(s), BRASA_WRONG_STATE);
    CHECK_HAS(brasa_session_error(s), "'label'");
    labels[2] = CLASSES;
    CHECK_STATUS(brasa_feed(s, "label", labels, N * sizeof(int32_t)), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_session_error(s), "sample 2");
    CHECK_HAS(brasa_session_error(s), "label 5");
    labels[2] = -1;
    CHECK_STATUS(brasa_feed(s, "label", labels, N * sizeof(int32_t)), BRASA_BAD_ARGUMENT);
    fill(0);
    CHECK_STATUS(brasa_feed(s, "label", labels, N * sizeof(int32_t)), BRASA_OK);
    CHECK_STATUS(brasa_evaluate(s), BRASA_WRONG_STATE);
    CHECK_STATUS(brasa_train(s), BRASA_OK);
    CHECK_STATUS(brasa_train(s), BRASA_WRONG_STATE); /* a step consumes what was fed */

    CHECK_STATUS(brasa_fetch(s, "loss", &loss, sizeof loss), BRASA_OK);
    CHECK(isfinite(loss) && loss > 0);
    CHECK_STATUS(brasa_fetch(s, "logits", many, sizeof many), BRASA_OK);
    CHECK_STATUS(brasa_fetch(s, "probs", many, sizeof many), BRASA_OK);
    CHECK_CLOSE(many[0] + many[1] + many[2] + many[3] + many[4], 1, 1e-5);
    CHECK_STATUS(brasa_fetch(s, "loss", many, sizeof many), BRASA_BAD_SHAPE);
    CHECK_STATUS(brasa_fetch(s, "lost", &loss, sizeof loss), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_session_error(s), "'lost'");
    CHECK_STATUS(brasa_fetch(s, "image", many, sizeof many), BRASA_NOT_FOUND);
    CHECK_STATUS(brasa_fetch(s, "conv.weight.grad", many, sizeof many), BRASA_NOT_FOUND);
    CHECK_STATUS(brasa_param_get(s, "conv.weigth", many, 1), BRASA_NOT_FOUND);
    CHECK_STATUS(brasa_param_get(s, "conv.weight", many, 1), BRASA_BAD_SHAPE);
    CHECK_HAS(brasa_session_error(s), "6x3x3x3");
    CHECK_STATUS(brasa_param_set(s, "conv.bias", many, 7), BRASA_BAD_SHAPE);
    CHECK_STATUS(brasa_use(s, true, 0), BRASA_BAD_ARGUMENT);
}

/* All programs of a session share one transient memory: what one was fed, or left behind, is not for ever. */
TEST(stale_memory_is_not_handed_out)
{
    OWNED(brasa_graph) *g = small_net(NULL, true);
    OWNED(brasa_session) *s = session_of(g, SIZED(brasa_session_options, .batch = N, .optimizer = "sgd lr=0.1"));
    REQUIRE(s);
    float loss, before;
    fill(0);
    CASE("fetched before the first step");
    CHECK_STATUS(brasa_fetch(s, "loss", &loss, sizeof loss), BRASA_WRONG_STATE);
    CASE("fed, then another program ran");
    CHECK_STATUS(brasa_feed(s, "image", images, N * PIXELS * sizeof(float)), BRASA_OK);
    CHECK_STATUS(brasa_feed(s, "label", labels, N * sizeof(int32_t)), BRASA_OK);
    CHECK_STATUS(brasa_eval_step(s, images, labels, 8, &loss, NULL), BRASA_OK);
    CHECK_STATUS(brasa_use(s, true, N), BRASA_OK);
    CHECK_STATUS(brasa_train(s), BRASA_WRONG_STATE);
    CASE("fetched from a program that did not run");
    CHECK_STATUS(brasa_fetch(s, "loss", &loss, sizeof loss), BRASA_WRONG_STATE);
    CASE("fed, then the memory grew");
    CHECK_STATUS(brasa_feed(s, "image", images, N * PIXELS * sizeof(float)), BRASA_OK);
    CHECK_STATUS(brasa_feed(s, "label", labels, N * sizeof(int32_t)), BRASA_OK);
    CHECK_STATUS(brasa_session_prepare(s, true, 200), BRASA_OK);
    CHECK_STATUS(brasa_train(s), BRASA_WRONG_STATE);
    CASE("fetched after the next batch was fed");
    CHECK_STATUS(brasa_train_step(s, images, labels, &before), BRASA_OK);
    CHECK_STATUS(brasa_feed(s, "image", images, N * PIXELS * sizeof(float)), BRASA_OK);
    CHECK_STATUS(brasa_fetch(s, "loss", &loss, sizeof loss), BRASA_WRONG_STATE);
}

static void train_three(brasa_graph *g, brasa_session_options o, float losses[3], float *weights)
{
    o.batch = N;
    o.optimizer = "sgd lr=0.1 momentum=0.9";
    OWNED(brasa_session) *s = session_of(g, o);
    for (int i = 0; s && i < 3; i++) {
        fill(i);
        CHECK_STATUS(brasa_train_step(s, images, labels, &losses[i]), BRASA_OK);
    }
    if (s)
        CHECK_STATUS(brasa_param_get(s, "conv.weight", weights, 6 * 27), BRASA_OK);
}

/* On the reference kernels: fused, a faster one may sum in another order. */
TEST(plain_plans_give_the_same_bits)
{
    OWNED(brasa_graph) *g = small_net(NULL, true);
    float losses[3], weights[6 * 27], plain_losses[3], plain_weights[6 * 27];
    brasa_session_options o = {.size = sizeof o, .no_fusion = true, .no_inplace = true, .kernels = "_ref"};
    train_three(g, o, plain_losses, plain_weights);
    for (int way = 0; way < 3; way++) {
        CASE("fusion %s, in place %s", way == 1 ? "off" : "on", way == 2 ? "off" : "on");
        o.no_fusion = way == 1;
        o.no_inplace = way == 2;
        train_three(g, o, losses, weights);
        CHECK(memcmp(losses, plain_losses, sizeof losses) == 0);
        CHECK(memcmp(weights, plain_weights, sizeof weights) == 0);
    }
}

/* Two sessions on one graph do not see each other. */
TEST(sessions_share_a_graph)
{
    OWNED(brasa_graph) *g = small_net(NULL, true);
    float alone[3], beside[3], weights[6 * 27], loss;
    train_three(g, (brasa_session_options){.size = sizeof(brasa_session_options)}, alone, weights);
    OWNED(brasa_session) *other =
        session_of(g, SIZED(brasa_session_options, .batch = 8, .optimizer = "adam", .seed = 77));
    REQUIRE(other);
    fill(5);
    CHECK_STATUS(brasa_train_step(other, images, labels, &loss), BRASA_OK);
    train_three(g, (brasa_session_options){.size = sizeof(brasa_session_options)}, beside, weights);
    CHECK(memcmp(alone, beside, sizeof alone) == 0);
    CHECK_INT(brasa_session_steps(other), 1);
}

TEST(evaluation_and_training)
{
    for (int noisy = 0; noisy < 2; noisy++) {
        CASE(noisy ? "with dropout and batch norm they differ" : "without dropout and batch norm they agree");
        OWNED(brasa_graph) *g = small_net(NULL, noisy);
        OWNED(brasa_session) *s = session_of(g, SIZED(brasa_session_options, .batch = N, .optimizer = "sgd lr=0.1"));
        REQUIRE(s);
        float evaluated, again, trained, after;
        fill(1);
        CHECK_STATUS(brasa_eval_step(s, images, labels, N, &evaluated, NULL), BRASA_OK);
        CHECK_STATUS(brasa_eval_step(s, images, labels, N, &again, NULL), BRASA_OK);
        CHECK(evaluated == again); /* evaluation leaves no trace */
        CHECK_STATUS(brasa_train_step(s, images, labels, &trained), BRASA_OK);
        CHECK((evaluated == trained) == !noisy);
        CHECK_STATUS(brasa_eval_step(s, images, labels, N, &after, NULL), BRASA_OK);
        CHECK(after != evaluated);
        CHECK_INT(brasa_session_steps(s), 1);
    }
}

TEST(inference)
{
    OWNED(brasa_graph) *g = small_net(NULL, true);
    OWNED(brasa_session) *s = session_of(g, SIZED(brasa_session_options, .batch = N, .inference = true, .seed = 3));
    OWNED(brasa_session) *full =
        session_of(g, SIZED(brasa_session_options, .batch = N, .optimizer = "adam", .seed = 3));
    REQUIRE(s && full);
    float mine[N * CLASSES], theirs[N * CLASSES], loss;
    fill(2);
    CHECK_STATUS(brasa_train_step(s, images, labels, &loss), BRASA_WRONG_STATE);
    CHECK_HAS(brasa_session_error(s), "inference");
    CHECK_STATUS(brasa_use(s, false, N), BRASA_OK);
    CHECK_STATUS(brasa_feed(s, "image", images, N * PIXELS * sizeof(float)), BRASA_OK);
    CHECK_STATUS(brasa_evaluate(s), BRASA_OK); /* no labels asked for */
    CHECK_STATUS(brasa_fetch(s, "logits", mine, sizeof mine), BRASA_OK);
    CHECK_STATUS(brasa_eval_step(full, images, labels, N, &loss, NULL), BRASA_OK);
    CHECK_STATUS(brasa_fetch(full, "logits", theirs, sizeof theirs), BRASA_OK);
    CHECK(memcmp(mine, theirs, sizeof mine) == 0);
    brasa_memory small = {.size = sizeof small}, large = small;
    CHECK_STATUS(brasa_session_memory(s, &small), BRASA_OK);
    CHECK_STATUS(brasa_session_memory(full, &large), BRASA_OK);
    CHECK(small.total < large.total && small.weights == large.weights);
    CHECK(small.transient >= small.lower_bound);
}

TEST(double_precision)
{
    OWNED(brasa_graph) *g = small_net(NULL, true);
    OWNED(brasa_session) *s = session_of(
        g, SIZED(brasa_session_options, .batch = N, .optimizer = "sgd lr=0.1 momentum=0.9", .float64 = true));
    REQUIRE(s);
    float losses[3], weights[6 * 27];
    train_three(g, (brasa_session_options){.size = sizeof(brasa_session_options)}, losses, weights);
    for (int i = 0; i < 3; i++) {
        double wide[N * PIXELS], loss = NAN;
        fill(i);
        for (int k = 0; k < N * PIXELS; k++)
            wide[k] = images[k];
        CHECK_STATUS(brasa_feed(s, "image", wide, sizeof wide), BRASA_OK);
        CHECK_STATUS(brasa_feed(s, "label", labels, N * sizeof(int32_t)), BRASA_OK);
        CHECK_STATUS(brasa_train(s), BRASA_OK);
        CHECK_STATUS(brasa_fetch(s, "loss", &loss, sizeof loss), BRASA_OK);
        CHECK_CLOSE(losses[i], loss, 1e-5);
    }
    float one;
    CHECK_STATUS(brasa_train_step(s, images, labels, &one), BRASA_WRONG_STATE);
}

/* A step of plain SGD at rate 1 is the gradient itself. */
TEST(kept_gradients)
{
    OWNED(brasa_graph) *g = small_net(NULL, false);
    brasa_session *s =
        session_of(g, SIZED(brasa_session_options, .batch = N, .optimizer = "sgd lr=1", .keep_gradients = true));
    REQUIRE(s);
    enum { COUNT = 6 * 27 };
    float before[COUNT], after[COUNT], grad[COUNT], largest = 0;
    fill(3);
    CHECK_STATUS(brasa_param_get(s, "conv.weight", before, COUNT), BRASA_OK);
    CHECK_STATUS(brasa_train_step(s, images, labels, NULL), BRASA_OK);
    CHECK_STATUS(brasa_fetch(s, "conv.weight.grad", grad, sizeof grad), BRASA_OK);
    CHECK_STATUS(brasa_param_get(s, "conv.weight", after, COUNT), BRASA_OK);
    for (int i = 0; i < COUNT; i++) {
        CHECK_CLOSE(before[i] - after[i], grad[i], 1e-6);
        largest = fabsf(grad[i]) > largest ? fabsf(grad[i]) : largest;
    }
    CHECK(largest > 1e-4f);
    brasa_session_free(s);
}

/* --- what a review found ---------------------------------------------------------------------------------------- */

/* Labels are numbers of classes: only what wants labels takes them, and only as many classes as it tells apart. */
TEST(labels_are_no_numbers)
{
    static const char *const layers[] = {"relu", "flatten", "reshape 1", "dense 3", "dropout 0.5"};
    for (int i = 0; i < 5; i++) {
        CASE("%s", layers[i]);
        OWNED(brasa_graph) *g = brasa_graph_new(NULL);
        brasa_apply(brasa_labels(g, "label", 10), "%s", layers[i]);
        CHECK_STATUS(brasa_graph_status(g), BRASA_BAD_ARGUMENT);
        CHECK_HAS(brasa_graph_error(g), "labels");
    }
    CASE("more classes than logits");
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_tensor in[] = {brasa_input_vector(g, "x", 10), brasa_labels(g, "label", 11)};
    brasa_apply_n(g, in, 2, "softmax_cross_entropy");
    CHECK_STATUS(brasa_graph_status(g), BRASA_BAD_SHAPE);
    brasa_graph_free(g);
}

TEST(names_of_the_library_are_refused)
{
    static const char *const names[] = {"steps", "fc1.weight.grad", "fc1.weight/momentum"};
    for (int i = 0; i < 3; i++) {
        CASE("%s", names[i]);
        OWNED(brasa_graph) *g = brasa_graph_new(NULL);
        brasa_input_vector(g, names[i], 4);
        CHECK_STATUS(brasa_graph_status(g), BRASA_BAD_ARGUMENT);
        brasa_graph_free(g);
        g = brasa_graph_new(NULL);
        brasa_output(brasa_relu(brasa_input_vector(g, "x", 4)), names[i]);
        CHECK_STATUS(brasa_graph_status(g), BRASA_BAD_ARGUMENT);
    }
}

TEST(inference_gives_probabilities)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_classify(brasa_input_vector(g, "x", 4), 3);
    OWNED(brasa_session) *s = NULL;
    REQUIRE(brasa_session_new(g, &SIZED(brasa_session_options, .inference = true), &s) == BRASA_OK);
    const float x[4] = {1, 2, 3, 4};
    float probs[3];
    CHECK_STATUS(brasa_feed(s, "x", x, sizeof x), BRASA_OK);
    CHECK_STATUS(brasa_evaluate(s), BRASA_OK);
    CHECK_STATUS(brasa_fetch(s, "probs", probs, sizeof probs), BRASA_OK);
    CHECK_CLOSE(probs[0] + probs[1] + probs[2], 1, 1e-6);
    float loss;
    CHECK_STATUS(brasa_fetch(s, "loss", &loss, sizeof loss), BRASA_NOT_FOUND);
}

TEST(steps_feed_one_input_alone)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_tensor two[] = {brasa_input_vector(g, "a", 4), brasa_input_vector(g, "b", 4)};
    brasa_classify(brasa_apply_n(g, two, 2, "add"), 3);
    brasa_session *s = NULL;
    REQUIRE(brasa_session_new(g, NULL, &s) == BRASA_OK);
    const float x[4] = {0};
    const int32_t label = 1;
    CHECK_STATUS(brasa_train_step(s, x, &label, NULL), BRASA_WRONG_STATE);
    brasa_session_free(s);
    brasa_graph_free(g);
    g = brasa_graph_new(NULL);
    brasa_classify(brasa_input_vector(g, "a", 4), 3);
    REQUIRE(brasa_session_new(g, NULL, &s) == BRASA_OK);
    CHECK_STATUS(brasa_train_step(s, x, NULL, NULL), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_train_step(s, NULL, &label, NULL), BRASA_BAD_ARGUMENT);
    brasa_session_free(s);
}

/* In evaluation dropout is nothing: what goes in and what comes out are one value with two names. */
TEST(outputs_around_dropout_are_both_there)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_tensor x = brasa_dense(brasa_input_vector(g, "x", 4), 3);
    brasa_output(x, "before");
    x = brasa_dropout(x, 0.5f);
    brasa_output(x, "after");
    brasa_classify(x, 2);
    OWNED(brasa_session) *s = NULL;
    REQUIRE(brasa_session_new(g, NULL, &s) == BRASA_OK);
    const float in[4] = {1, -2, 3, 4};
    const int32_t label = 1;
    float before[3], after[3];
    CHECK_STATUS(brasa_eval_step(s, in, &label, 1, NULL, NULL), BRASA_OK);
    CHECK_STATUS(brasa_fetch(s, "before", before, sizeof before), BRASA_OK);
    CHECK_STATUS(brasa_fetch(s, "after", after, sizeof after), BRASA_OK);
    CHECK(memcmp(before, after, sizeof before) == 0 && before[0] != 0);
}

TEST(graphs_keep_their_own_errors)
{
    OWNED(brasa_context) *ctx = context_of(0);
    brasa_graph *a = brasa_graph_new(ctx), *b = brasa_graph_new(ctx);
    brasa_conv2d(brasa_input(a, "x", 1, 2, 2), 4, 5, BRASA_VALID);
    brasa_dense(brasa_input(b, "x", 1, 2, 2), 4);
    CHECK_HAS(brasa_graph_error(a), "conv2d");
    CHECK_HAS(brasa_graph_error(b), "dense");
    brasa_session *s;
    CHECK_STATUS(brasa_session_new(a, NULL, &s), BRASA_BAD_SHAPE);
    CHECK_HAS(brasa_context_error(ctx), "conv2d");
    brasa_graph_free(a);
    brasa_graph_free(b);
}

TEST(plans_without_memory)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_model_build(g, "mnist_cnn", 0), BRASA_OK);
    brasa_session *s = NULL;
    brasa_memory m = {.size = sizeof m}, same = m;
    REQUIRE(brasa_session_new(g, &SIZED(brasa_session_options, .batch = 1 << 20, .plan_only = true), &s) == BRASA_OK);
    CHECK_STATUS(brasa_session_memory(s, &m), BRASA_OK);
    CHECK(m.transient > UINT64_C(100) << 30 && m.lower_bound <= m.transient);
    float w[10];
    CHECK_STATUS(brasa_param_get(s, "fc2.bias", w, 10), BRASA_WRONG_STATE);
    CHECK_STATUS(brasa_train_step(s, w, (int32_t[1]){0}, NULL), BRASA_WRONG_STATE);
    brasa_session_free(s);
    REQUIRE(brasa_session_new(g, &SIZED(brasa_session_options, .batch = 4, .plan_only = true), &s) == BRASA_OK);
    CHECK_STATUS(brasa_session_memory(s, &m), BRASA_OK);
    brasa_session_free(s);
    REQUIRE(brasa_session_new(g, &SIZED(brasa_session_options, .batch = 4), &s) == BRASA_OK);
    CHECK_STATUS(brasa_session_memory(s, &same), BRASA_OK);
    CHECK(memcmp(&m, &same, sizeof m) == 0);
    brasa_session_free(s);
}

TEST(too_many_threads_are_refused)
{
    brasa_context *ctx = NULL;
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = 200000), &ctx), BRASA_BAD_ARGUMENT);
    CHECK(!ctx);
}

TEST(sizes_beyond_any_machine)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_apply(brasa_input(g, "x", 16, 32768, 32768), "conv 268435456 32768x32768");
    CHECK_STATUS(brasa_graph_status(g), BRASA_BAD_SHAPE);
}
