/* test_dialects.c - the dialects torch and tfkeras against numbers that PyTorch and Keras made.
 *
 * tests/fixtures/torch/dialect.txt and keras/dialect.txt hold them: defaults, bounds of initial weights, layers,
 * batch norm's outputs and statistics, five steps of every optimizer. The scripts in tests/tools wrote them, and tell
 * their form in dialect_cases.py.
 */
#include "dialect.h"

static void check_optimizer(fixture *f, const char *dialect_name)
{
    char optimizer[128], schedule[128];
    double clip = fixture_real(f);
    fixture_text(f, optimizer, sizeof optimizer);
    fixture_text(f, schedule, sizeof schedule);
    CASE("%s %s%s", optimizer, schedule, clip > 0 ? " clipped" : "");
    trainer r = open_trainer(dialect_name, optimizer, schedule, clip);
    for (int step = 0; step < STEPS; step++) {
        double y[ROWS] = {0};
        CHECK_TEXT(fixture_next(f), "output");
        if (r.s)
            train_and_probe(&r, step, y);
        for (int i = 0; i < ROWS; i++)
            CHECK_CLOSE(y[i], fixture_real(f), exact);
    }
    close_trainer(&r);
}

static void check_layer(fixture *f, const char *dialect_name)
{
    char layer[128];
    int64_t size[6];
    double y[MAX_ELEMENTS] = {0};
    fixture_text(f, layer, sizeof layer);
    fixture_sizes(f, size);
    double tolerance = fixture_real(f);
    CASE("%s on %dx%dx%dx%d", layer, (int)size[0], (int)size[1], (int)size[2], (int)size[3]);
    int64_t count = run_layer(dialect_name, layer, size, y);
    CHECK_TEXT(fixture_next(f), "output");
    for (int64_t i = 0; i < count; i++)
        CHECK_CLOSE(y[i], fixture_real(f), tolerance);
    CHECK(count > 0 && *fixture_word(f) == 0); /* as many numbers as the fixture has */
}

/* The framework's largest draw of many is a little below its bound. */
static void check_init(fixture *f, const char *dialect_name)
{
    char layer[128];
    int64_t size[6];
    fixture_text(f, layer, sizeof layer);
    int rank = fixture_sizes(f, size);
    double bound[2] = {fixture_real(f), fixture_real(f)};
    CASE("initial weights of %s", layer);
    check_bounds(dialect_name, layer, size, rank, bound, 2e-3);
}

static void check_batchnorm(fixture *f, const char *dialect_name)
{
    char layer[128];
    int64_t size[6];
    double y[MAX_ELEMENTS] = {0};
    fixture_text(f, layer, sizeof layer);
    fixture_sizes(f, size);
    CASE("%s", layer);
    normalizer n = open_normalizer(dialect_name, layer, size);
    for (int step = 0; n.s && step <= BATCHNORM_STEPS; step++) {
        bool training = step < BATCHNORM_STEPS;
        run_normalizer(&n, training, training ? step : 0, y);
        CHECK_TEXT(fixture_next(f), "output");
        for (int64_t i = 0; i < n.count; i++)
            CHECK_CLOSE(y[i], fixture_real(f), exact);
        for (int k = 0; training && k < 2; k++) { /* read back as float; the evaluation shows the rest */
            float got[MAX_ELEMENTS];
            CHECK_TEXT(fixture_next(f), k ? "variance" : "mean");
            CHECK_STATUS(brasa_param_get(n.s, k ? "bn.running_var" : "bn.running_mean", got, n.channels), BRASA_OK);
            for (int64_t c = 0; c < n.channels; c++)
                CHECK_CLOSE(got[c], fixture_real(f), 1e-7);
        }
    }
    close_normalizer(&n);
}

static void check_fixture(const char *dialect_name, const char *file)
{
    fixture f;
    if (!CHECK(fixture_open(&f, file)))
        return;
    for (const char *word = fixture_next(&f); word; word = fixture_next(&f)) {
        if (strcmp(word, "default") == 0) {
            const char *name = fixture_word(&f);
            CASE("default %s", name);
            check_default(dialect_name, name, fixture_real(&f));
        } else if (strcmp(word, "init") == 0) {
            check_init(&f, dialect_name);
        } else if (strcmp(word, "layer") == 0) {
            check_layer(&f, dialect_name);
        } else if (strcmp(word, "batchnorm") == 0) {
            check_batchnorm(&f, dialect_name);
        } else if (strcmp(word, "optimizer") == 0) {
            check_optimizer(&f, dialect_name);
        } else if (strcmp(word, "framework") != 0) {
            test_fail(__FILE__, __LINE__, "line '%s' of the fixture is not understood", word);
        }
    }
    fixture_close(&f);
}

TEST(torch)
{
    check_fixture("torch", "torch/dialect.txt");
    CASE("'same' with a stride is refused");
    OWNED(brasa_graph) *g = open_graph("torch");
    brasa_apply(brasa_input(g, "x", 1, 6, 6), "conv 1 3x3 stride=2 pad=same");
    CHECK_STATUS(brasa_graph_status(g), BRASA_BAD_SHAPE);
    CHECK_HAS(brasa_graph_error(g), "same");
}

TEST(tfkeras)
{
    check_fixture("tfkeras", "keras/dialect.txt");
}
