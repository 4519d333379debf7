/* test_fit.c - what fits a memory budget: the answers are checked against plans made one by one. */
#include "test.h"
#include "train/fit.h"

#define OPTIMIZER "sgd lr=0.01 momentum=0.9"

static brasa_graph *model(const char *name)
{
    brasa_graph *g = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_model_build(g, name, 0), BRASA_OK);
    return g;
}

static brasa_memory plan(brasa_graph *g, int64_t batch, int64_t parts)
{
    brasa_session *s = NULL;
    brasa_memory m = {.size = sizeof m};
    const brasa_session_options o = {
        .size = sizeof o, .batch = batch, .optimizer = OPTIMIZER, .micro_batches = parts, .plan_only = true};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    if (s)
        CHECK_STATUS(brasa_session_memory(s, &m), BRASA_OK);
    brasa_session_free(s);
    return m;
}

/* The fewest parts that fit, by trying all. */
static int64_t fewest_parts(brasa_graph *g, int64_t batch, const fit_budget *b)
{
    for (int64_t parts = 2; parts <= batch; parts++) {
        if (batch % parts)
            continue;
        const brasa_memory m = plan(g, batch, parts);
        if (fit_need(&m, b, batch, parts) <= b->bytes)
            return parts;
    }
    return 0;
}

static void check_fit(const char *name, int64_t batch, fit_budget b)
{
    OWNED(brasa_graph) *g = model(name);
    fit f;
    const brasa_session_options o = {.size = sizeof o, .batch = batch, .optimizer = OPTIMIZER};
    CHECK_STATUS(fit_batch(g, &o, &b, &f), BRASA_OK);
    const brasa_memory whole = plan(g, batch, 1), most = plan(g, f.most ? f.most : 1, 1),
                       more = plan(g, f.most + 1, 1);
    CHECK(memcmp(&f.whole, &whole, sizeof whole) == 0);
    CHECK_INT(f.fits, fit_need(&whole, &b, batch, 1) <= b.bytes);
    if (f.most) {
        CHECK(fit_need(&most, &b, f.most, 1) <= b.bytes);
        CHECK(memcmp(&f.at_most, &most, sizeof most) == 0);
    }
    CHECK(fit_need(&more, &b, f.most + 1, 1) > b.bytes);
    CHECK_INT(f.most >= batch, f.fits);
    if (f.fits)
        CHECK_INT(f.parts, 1);
    else if (!f.why[0])
        CHECK_INT(f.parts, fewest_parts(g, batch, &b));
}

TEST(largest_batch)
{
    static const struct {
        const char *model;
        int64_t batch;
        fit_budget budget;
    } rows[] = {
        {"letter_mlp", 32, {.bytes = 100000}},
        {"letter_mlp", 1, {.bytes = 1000000}},
        {"letter_mlp", 64, {.bytes = 60000}},
        {"letter_mlp", 64, {.bytes = 1000}},
        {"mnist_cnn", 32, {.bytes = 100 << 20}},
        {"mnist_cnn", 100, {.bytes = 24 << 20}},
        {"mnist_cnn", 60, {.bytes = 40 << 20, .beside = 10 << 20, .beside_sample = 28 * 28 * 8}},
        {"mnist_cnn", 60, {.bytes = 30 << 20, .beside_sample = 28 * 28 * 8, .beside_part = 100000}},
        {"tiny_resnet", 200, {.bytes = 50 << 20}},
        {"mobilenet_v2", 16, {.bytes = 500 << 20}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s %lld in %llu", rows[i].model, (long long)rows[i].batch, (unsigned long long)rows[i].budget.bytes);
        check_fit(rows[i].model, rows[i].batch, rows[i].budget);
    }
}

TEST(batch_norm)
{
    OWNED(brasa_graph) *g = model("tiny_resnet");
    fit f;
    CHECK_STATUS(fit_batch(g, &SIZED(brasa_session_options, .batch = 64), &(fit_budget){.bytes = 1 << 20}, &f),
                 BRASA_OK);
    CHECK(!f.fits);
    CHECK_INT(f.parts, 0);
    CHECK_HAS(f.why, "cannot be split into micro-batches: batchnorm");
}

TEST(anything_fits)
{
    OWNED(brasa_graph) *g = model("letter_mlp");
    fit f;
    CHECK_STATUS(fit_batch(g, &(brasa_session_options){.size = sizeof(brasa_session_options)},
                           &(fit_budget){.bytes = UINT64_C(1) << 50}, &f),
                 BRASA_OK);
    CHECK(f.fits);
    CHECK_INT(f.most, FIT_MOST_SAMPLES);
    CHECK_STATUS(fit_batch(g, &SIZED(brasa_session_options, .optimizer = "sdg"), &(fit_budget){.bytes = 1}, &f),
                 BRASA_NOT_FOUND);
}

/* The account of the transient part adds up, with and without parts. */
TEST(account)
{
    static const struct {
        const char *model;
        int64_t parts;
    } rows[] = {{"mnist_cnn", 1}, {"mnist_cnn", 4}, {"tiny_resnet", 1}, {"vgg16", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s %lld", rows[i].model, (long long)rows[i].parts);
        OWNED(brasa_graph) *g = model(rows[i].model);
        const brasa_memory m = plan(g, 8, rows[i].parts);
        CHECK_INT(m.activations + m.gradients + m.workspace, m.transient);
        CHECK(m.activations > 0 && m.activations < m.transient);
        CHECK(m.gradients > 0 && m.gradients < m.transient);
        CHECK(m.workspace < m.transient);
        CHECK_INT(m.weights + m.buffers + m.optimizer + m.accumulated + m.transient + 64, m.total);
        CHECK_INT(m.accumulated > 0, rows[i].parts > 1);
    }
}
