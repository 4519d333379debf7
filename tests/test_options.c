/* test_options.c - structs of another size than this header's, and NULL in place of anything: a status and a text. */
#include "test.h"

#include <stdlib.h>

enum { MORE = 64 };
static brasa_graph *g;
static brasa_session *s;

static brasa_status take_session(const void *o)
{
    brasa_session *other = NULL;
    const brasa_status status = brasa_session_new(g, o, &other);
    brasa_session_free(other);
    return status;
}

static brasa_status take_tuning(const void *o)
{
    return take_session(&SIZED(brasa_session_options, .tuning = o));
}

static brasa_status take_load(const void *o)
{
    return brasa_session_load(s, "/nowhere", o, NULL);
}

static brasa_status take_context(const void *o)
{
    brasa_context *ctx = NULL;
    const brasa_status status = brasa_context_new(o, &ctx);
    brasa_context_free(ctx);
    return status;
}

static brasa_status give_memory(void *o)
{
    return brasa_session_memory(s, o);
}

static brasa_status give_report(void *o)
{
    return brasa_session_load(s, "/nowhere", NULL, o);
}

static brasa_status give_model(void *o)
{
    return brasa_model_at(0, o) ? BRASA_OK : BRASA_BAD_ARGUMENT;
}

static brasa_status give_param(void *o)
{
    return brasa_graph_param_at(g, 0, o) ? BRASA_OK : BRASA_BAD_ARGUMENT;
}

static brasa_status give_input(void *o)
{
    return brasa_session_input_at(s, 0, o) ? BRASA_OK : BRASA_BAD_ARGUMENT;
}

static brasa_status give_node(void *o)
{
    return brasa_graph_node_at(g, 0, o) ? BRASA_OK : BRASA_BAD_ARGUMENT;
}

#define OPTIONS(type, call)                                                                                          \
    {                                                                                                                \
#type, sizeof(type), call, NULL, BRASA_OK                                                                    \
    }
#define ANSWER(type, call)                                                                                           \
    {                                                                                                                \
#type, sizeof(type), NULL, call, BRASA_OK                                                                    \
    }
static const struct row {
    const char *name;
    size_t size;
    brasa_status (*take)(const void *o);
    brasa_status (*give)(void *o);
    brasa_status good;
} rows[] = {
    OPTIONS(brasa_session_options, take_session),
    OPTIONS(brasa_tuning, take_tuning),
    OPTIONS(brasa_context_options, take_context),
    {"brasa_load_options", sizeof(brasa_load_options), take_load, NULL, BRASA_BAD_FILE},
    {"brasa_load_report", sizeof(brasa_load_report), NULL, give_report, BRASA_BAD_FILE},
    ANSWER(brasa_memory, give_memory),
    ANSWER(brasa_model_info, give_model),
    ANSWER(brasa_value_info, give_param),
    ANSWER(brasa_value_info, give_input),
    ANSWER(brasa_node_info, give_node),
};

/* One call with a struct of this size, in memory that ends with it; its bytes from `from` on are `fill`. */
static void call(const struct row *r, const char *what, size_t size, size_t from, int fill, bool good,
                 const char *says)
{
    CASE("%s %s", r->name, what);
    const size_t bytes = size < sizeof size || size > r->size + MORE ? r->size : size;
    char *o = calloc(1, bytes), *before = calloc(1, bytes);
    REQUIRE(o && before);
    memset(o + (from < bytes ? from : bytes), fill, from < bytes ? bytes - from : 0);
    memcpy(o, &size, sizeof size);
    memcpy(before, o, bytes);
    const brasa_status status = r->take ? r->take(o) : r->give(o);
    CHECK_STATUS(status, good ? r->good : BRASA_BAD_ARGUMENT);
    size_t kept;
    memcpy(&kept, o, sizeof kept);
    CHECK_INT(kept, size);
    if (r->take || !good)
        CHECK(memcmp(o, before, bytes) == 0);
    else
        for (size_t i = r->size; i < bytes; i++)
            CHECK_INT(o[i], 0);
    if (!good && r->take != take_context && r->give != give_model) {
        CHECK_HAS(brasa_graph_error(g), r->name);
        CHECK_HAS(brasa_graph_error(g), says);
    }
    free(o);
    free(before);
}

TEST(sizes)
{
    g = brasa_graph_new(NULL);
    brasa_classify(brasa_dense(brasa_input_vector(g, "x", 4), 5), 3);
    REQUIRE(brasa_session_new(g, NULL, &s) == BRASA_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        char write[80];
        snprintf(write, sizeof write, "%s x = {.size = sizeof x}", r->name);
        call(r, "as it is", r->size, r->size, 0, true, "");
        call(r, "smaller", 2 * sizeof(size_t), r->size, 0, true, "");
        call(r, "only a size", sizeof(size_t), r->size, 0, true, "");
        call(r, "larger", r->size + MORE, r->size, 0, true, "");
        call(r, "larger, with more set", r->size + MORE, r->size + MORE - 1, 1, r->give != NULL, "newer");
        call(r, "no size", 0, r->size, 0, false, write);
        call(r, "no room for the size", sizeof(size_t) - 1, r->size, 0, false, write);
        call(r, "a number that is no size", SIZE_MAX, r->size, 0, false, write);
    }
    brasa_session_free(s);
    brasa_graph_free(g);
    s = NULL;
}

/* What a smaller struct does not have is neither read nor written. */
TEST(beyond_the_size)
{
    g = brasa_graph_new(NULL);
    brasa_classify(brasa_dense(brasa_input_vector(g, "x", 4), 5), 3);
    brasa_session_options o = {.size = offsetof(brasa_session_options, schedule), .batch = 2, .schedule = "nonsense"};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    brasa_memory m = {.size = offsetof(brasa_memory, total), .total = 7};
    CHECK_STATUS(brasa_session_memory(s, &m), BRASA_OK);
    CHECK(m.total == 7 && m.weights > 0);
    brasa_session_free(s);
    brasa_graph_free(g);
}

/* Each returns without a crash; where there is a context, its text says what is missing. */
TEST(nulls)
{
    float x[4] = {0};
    const int32_t label = 0;
    g = brasa_graph_new(NULL);
    brasa_classify(brasa_input_vector(g, "x", 4), 3);
    REQUIRE(brasa_session_new(g, NULL, &s) == BRASA_OK);
#define REFUSED(...)                                                                                                 \
    do {                                                                                                             \
        CASE("%s", #__VA_ARGS__);                                                                                    \
        CHECK_STATUS(__VA_ARGS__, BRASA_BAD_ARGUMENT);                                                               \
    } while (0)
#define TOLD(...)                                                                                                    \
    do {                                                                                                             \
        REFUSED(__VA_ARGS__);                                                                                        \
        CHECK_HAS(brasa_session_error(s), "NULL");                                                                   \
    } while (0)
    TOLD(brasa_session_new(g, NULL, NULL));
    TOLD(brasa_feed(s, NULL, x, sizeof x));
    TOLD(brasa_feed(s, "x", NULL, sizeof x));
    TOLD(brasa_fetch(s, NULL, x, sizeof x));
    TOLD(brasa_fetch(s, "loss", NULL, sizeof x));
    TOLD(brasa_param_get(s, NULL, x, 4));
    TOLD(brasa_param_get(s, "dense1.weight", NULL, 12));
    TOLD(brasa_param_set(s, "dense1.weight", NULL, 12));
    TOLD(brasa_session_memory(s, NULL));
    TOLD(brasa_session_save_tuning(s, NULL));
    TOLD(brasa_session_explain(s, BRASA_EXPLAIN_TEXT, NULL, NULL));
    TOLD(brasa_session_save(s, NULL, BRASA_WEIGHTS));
    TOLD(brasa_session_load(s, NULL, NULL, NULL));
    REFUSED(brasa_train_step(s, NULL, &label, x));
    REFUSED(brasa_context_new(NULL, NULL));
    REFUSED(brasa_context_use(NULL, "cpu"));
    REFUSED(brasa_graph_status(NULL));
    REFUSED(brasa_graph_set_dialect(NULL, "torch"));
    REFUSED(brasa_graph_set_dialect(g, NULL));
    REFUSED(brasa_model_build(NULL, "mnist_cnn", 0));
    REFUSED(brasa_model_build(g, NULL, 0));
    REFUSED(brasa_session_new(NULL, NULL, &(brasa_session *){NULL}));
    REFUSED(brasa_session_prepare(NULL, true, 1));
    REFUSED(brasa_use(NULL, true, 1));
    REFUSED(brasa_feed(NULL, "x", x, sizeof x));
    REFUSED(brasa_train(NULL));
    REFUSED(brasa_evaluate(NULL));
    REFUSED(brasa_fetch(NULL, "loss", x, sizeof x));
    REFUSED(brasa_train_step(NULL, x, &label, x));
    REFUSED(brasa_eval_step(NULL, x, &label, 1, x, x));
    REFUSED(brasa_param_get(NULL, "dense1.weight", x, 12));
    REFUSED(brasa_session_memory(NULL, &(brasa_memory){.size = sizeof(brasa_memory)}));
    REFUSED(brasa_session_save_tuning(NULL, "/nowhere"));
    REFUSED(brasa_session_explain(NULL, 0, NULL, NULL));
    REFUSED(brasa_session_explain(s, 99, (bool (*)(void *, const char *, size_t))abort, NULL));
    REFUSED(brasa_session_save(NULL, "/nowhere", BRASA_WEIGHTS));
    REFUSED(brasa_session_load(NULL, "/nowhere", NULL, NULL));
    brasa_session_free(s);
    brasa_graph_free(g);
}

TEST(nulls_without_a_status)
{
    g = brasa_graph_new(NULL);
    const brasa_tensor in = brasa_input_vector(g, "x", 4), nothing = {NULL, 0};
    brasa_session_profile(NULL, true);
    brasa_graph_scope(NULL, NULL);
    brasa_graph_scope(g, NULL);
    brasa_output(nothing, "y");
    brasa_set_loss(nothing);
    CHECK(brasa_session_steps(NULL) == 0 && brasa_graph_param_total(NULL) == 0 && brasa_context_threads(NULL) == 0);
    CHECK(!brasa_model_at(0, NULL) && !brasa_graph_param_at(NULL, 0, NULL) && !brasa_graph_param_at(g, 0, NULL));
    CHECK(brasa_tensor_shape(nothing, NULL) == -1 && brasa_tensor_shape(in, NULL) == 2);
    CHECK(!brasa_input(NULL, "x", 1, 1, 1).graph && !brasa_labels(NULL, NULL, 0).graph && !brasa_relu(nothing).graph);
    CHECK(!brasa_concat(NULL, NULL, 1).graph && !brasa_add(nothing, nothing).graph);
    CHECK_HAS(brasa_context_error(NULL), "sizeof(brasa_context_options)");
    CHECK_HAS(brasa_graph_error(NULL), "brasa_graph_new");
    CHECK_HAS(brasa_session_error(NULL), "brasa_session_new");
    brasa_graph_free(g);
}

TEST(nulls_while_building)
{
    for (int i = 0; i < 5; i++) {
        CASE("%d", i);
        g = brasa_graph_new(NULL);
        const brasa_tensor x = brasa_input_vector(g, "x", 4);
        const char *none = NULL; /* the compiler would see a literal */
        if (i == 0)
            brasa_input(g, NULL, 1, 1, 1);
        else if (i == 1)
            brasa_labels(g, NULL, 0);
        else if (i == 2)
            brasa_output(x, NULL);
        else if (i == 3)
            brasa_apply(x, none, 0);
        else
            brasa_concat(g, NULL, 2);
        CHECK_STATUS(brasa_graph_status(g), BRASA_BAD_ARGUMENT);
        CHECK(strstr(brasa_graph_error(g), "NULL") || strstr(brasa_graph_error(g), "at least one class"));
        brasa_graph_free(g);
    }
}
