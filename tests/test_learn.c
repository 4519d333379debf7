/* test_learn.c - networks learn, and what they learned is what evaluation sees. */
#include "test.h"
#include "task.h"
#include "session/session.h"

/* --- networks --------------------------------------------------------------------------------------------------- */

/* Networks as small as these gain little from a second thread, and lose much where the machine is busy. */
/* Dropout twice and batch norm, as small as it can be. */
static brasa_graph *dropout_net(brasa_context *ctx, int classes)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_tensor x = brasa_input(g, "image", 1, 8, 8);
    x = brasa_relu(brasa_batchnorm(brasa_conv2d(x, 8, 3, BRASA_SAME)));
    x = brasa_dropout(brasa_maxpool(x, 2), 0.1f);
    x = brasa_dropout(brasa_relu(brasa_dense(brasa_flatten(x), 64)), 0.3f);
    brasa_classify(x, classes);
    return g;
}

static brasa_graph *plain_net(brasa_context *ctx, const char *name, int classes)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_graph_set_dialect(g, name);
    brasa_tensor x = brasa_input(g, "image", 1, 8, 8);
    x = brasa_relu(brasa_conv2d(x, 6, 3, BRASA_VALID));
    x = brasa_relu(brasa_dense(brasa_flatten(x), 24));
    brasa_classify(x, classes);
    return g;
}

static brasa_session *session_of(brasa_graph *g, brasa_session_options o)
{
    brasa_session *s = NULL;
    brasa_status status = brasa_session_new(g, &o, &s);
    if (status != BRASA_OK)
        test_fail(__FILE__, __LINE__, "no session: %s", brasa_graph_error(g));
    return s;
}

/* --- training and evaluation agree ------------------------------------------------------------------------------ */

/* Trains on samples 0, 1, ...; returns the accuracy in training mode over the last `counted` steps. */
static double train_steps(brasa_session *s, task *t, int steps, int counted)
{
    double sum = 0;
    for (int i = 0; i < steps; i++) {
        float accuracy = 0;
        task_fill(t, i * t->batch);
        CHECK_STATUS(brasa_train_step(s, t->images, t->labels, NULL), BRASA_OK);
        CHECK_STATUS(brasa_fetch(s, "accuracy", &accuracy, sizeof accuracy), BRASA_OK);
        sum += i >= steps - counted ? (double)accuracy / counted : 0;
    }
    return sum;
}

/* On samples that training has not seen. */
static double evaluate(brasa_session *s, task *t, int batches, double *loss)
{
    double sum = 0;
    *loss = 0;
    for (int i = 0; i < batches; i++) {
        float accuracy = 0, part = 0;
        task_fill(t, 1000000 + i * t->batch);
        CHECK_STATUS(brasa_eval_step(s, t->images, t->labels, t->batch, &part, &accuracy), BRASA_OK);
        sum += (double)accuracy / batches;
        *loss += (double)part / batches;
    }
    return sum;
}

static void check_agreement(brasa_graph *g, task *t, const char *optimizer)
{
    double loss;
    brasa_session_options o = {
        .size = sizeof o, .batch = t->batch, .optimizer = optimizer, .schedule = "cosine steps=200", .seed = 1};
    OWNED(brasa_session) *s = session_of(g, o);
    if (s) {
        double before = evaluate(s, t, 10, &loss);
        double trained = train_steps(s, t, 200, 50), evaluated = evaluate(s, t, 50, &loss);
        CHECK(before < 0.5);
        CHECK(trained > 0.8 && evaluated > 0.8); /* chance is 0.1 */
        CHECK_CLOSE(evaluated, trained, 0.05);
        CHECK_INT(brasa_session_steps(s), 200);
    }
}

TEST(evaluation_agrees_with_training)
{
    CASE("batch norm and dropout");
    OWNED(brasa_context) *ctx = context_of(1);
    brasa_graph *g = dropout_net(ctx, 10);
    task small = task_new(10, 64, 32, 0.25);
    check_agreement(g, &small, "adam lr=0.003");
    task_free(&small);
    brasa_graph_free(g);

    CASE("tiny_resnet");
    task t = task_new(10, 3 * 32 * 32, 10, 0.5);
    g = brasa_graph_new(ctx);
    CHECK_STATUS(brasa_model_build(g, "tiny_resnet", 0), BRASA_OK);
    check_agreement(g, &t, "sgd lr=0.02 momentum=0.9");
    task_free(&t);
    brasa_graph_free(g);
}

/* --- every optimizer -------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *settings; /* rates that suit the task, whatever the dialect's default is */
} rates[] = {
    {"sgd", "lr=0.05"},
    {"sgd", "lr=0.02 momentum=0.9"},
    {"sgd", "lr=0.02 momentum=0.9 nesterov weight_decay=1e-4 decay=1e-3"},
    {"rmsprop", "lr=0.003"},
    {"adadelta", "lr=1"},
    {"adam", "lr=0.005"},
    {"adamw", "lr=0.005"},
};
enum { RATES = sizeof rates / sizeof rates[0] };

static void check_falls(const char *name, const char *optimizer, const char *schedule, double clip_norm)
{
    enum { STEPS = 60 };
    task t = task_new(5, 64, 16, 0.2);
    OWNED(brasa_context) *ctx = context_of(1);
    OWNED(brasa_graph) *g = plain_net(ctx, name, 5);
    brasa_session_options o = {.size = sizeof o,
                               .batch = 16,
                               .optimizer = optimizer,
                               .schedule = schedule,
                               .clip_norm = clip_norm,
                               .seed = 3};
    OWNED(brasa_session) *s = session_of(g, o);
    double first = 0, last = 0;
    for (int i = 0; s && i < STEPS; i++) {
        float loss = NAN;
        task_fill(&t, i * t.batch);
        CHECK_STATUS(brasa_train_step(s, t.images, t.labels, &loss), BRASA_OK);
        first += i < 5 ? (double)loss / 5 : 0;
        last += i >= STEPS - 5 ? (double)loss / 5 : 0;
    }
    if (!(last < 0.5 * first))
        test_fail(__FILE__, __LINE__, "the loss went from %.3f to %.3f", first, last);
    task_free(&t);
}

TEST(loss_falls)
{
    for (int d = 0; dialect_at(d); d++) {
        for (int r = 0; r < RATES; r++) {
            const optimizer_def *found = NULL;
            for (int i = 0; optimizer_at(i); i++)
                if (strcmp(optimizer_at(i)->op->name, rates[r].name) == 0)
                    found = optimizer_at(i);
            REQUIRE(found);
            if (found->exists && !found->exists(dialect_at(d)))
                continue;
            char text[128];
            snprintf(text, sizeof text, "%s %s", rates[r].name, rates[r].settings);
            CASE("%s, %s", dialect_at(d)->name, text);
            check_falls(dialect_at(d)->name, text, NULL, 0);
        }
    }
    CASE("clipped");
    check_falls("torch", "sgd lr=0.05 momentum=0.9", NULL, 1.0);
    CASE("cosine");
    check_falls("torch", "adam lr=0.005", "cosine steps=60 warmup=5", 0);
    CASE("step");
    check_falls("torch", "adam lr=0.01", "step every=30 gamma=0.1", 0);
}

TEST(every_optimizer_has_a_row)
{
    for (int i = 0; optimizer_at(i); i++) {
        int rows = 0;
        for (int r = 0; r < RATES; r++)
            rows += strcmp(rates[r].name, optimizer_at(i)->op->name) == 0;
        CASE("%s", optimizer_at(i)->op->name);
        CHECK(rows > 0);
    }
}

/* --- what was learned can be carried over ----------------------------------------------------------------------- */

static void copy_params(brasa_graph *g, brasa_session *from, brasa_session *to)
{
    brasa_value_info info = {.size = sizeof info};
    for (int i = 0; brasa_graph_param_at(g, i, &info); i++) {
        int64_t count = 1;
        for (int d = 0; d < info.rank; d++)
            count *= info.shape[d];
        float *data = malloc((size_t)count * sizeof *data);
        CHECK_STATUS(brasa_param_get(from, info.name, data, count), BRASA_OK);
        CHECK_STATUS(brasa_param_set(to, info.name, data, count), BRASA_OK);
        free(data);
    }
}

TEST(restored_parameters)
{
    task t = task_new(10, 64, 32, 0.25);
    OWNED(brasa_context) *ctx = context_of(1);
    OWNED(brasa_graph) *g = dropout_net(ctx, 10);
    brasa_session *trained =
        session_of(g, SIZED(brasa_session_options, .batch = 32, .optimizer = "adam lr=0.003", .seed = 1));
    brasa_session *fresh =
        session_of(g, SIZED(brasa_session_options, .inference = false, .optimizer = "sgd lr=1", .seed = 2));
    REQUIRE(trained && fresh);
    double loss, other_loss, copied_loss;
    train_steps(trained, &t, 30, 1);
    double accuracy = evaluate(trained, &t, 4, &loss);
    evaluate(fresh, &t, 4, &other_loss);
    CHECK(other_loss != loss);
    copy_params(g, trained, fresh);
    CHECK_CLOSE(evaluate(fresh, &t, 4, &copied_loss), accuracy, 0);
    CHECK_CLOSE(copied_loss, loss, 0);
    brasa_session_free(trained);
    brasa_session_free(fresh);
    task_free(&t);
}

/* --- the last, smaller batch ------------------------------------------------------------------------------------ */

static brasa_status train_on(brasa_session *s, const task *t, int count, float *loss)
{
    brasa_status status = brasa_use(s, true, count);
    if (status == BRASA_OK)
        status = brasa_feed(s, "image", t->images, (size_t)(count * t->pixels) * sizeof *t->images);
    if (status == BRASA_OK)
        status = brasa_feed(s, "label", t->labels, (size_t)count * sizeof *t->labels);
    if (status == BRASA_OK)
        status = brasa_train(s);
    return status == BRASA_OK ? brasa_fetch(s, "loss", loss, sizeof *loss) : status;
}

TEST(smaller_batch)
{
    task t = task_new(10, 64, 7, 0.25);
    OWNED(brasa_context) *ctx = context_of(1);
    OWNED(brasa_graph) *g = dropout_net(ctx, 10);
    brasa_session_options o = {.size = sizeof o, .batch = 32, .optimizer = "sgd lr=0.05 momentum=0.9", .seed = 4};
    OWNED(brasa_session) *large = session_of(g, o);
    o.batch = 7;
    OWNED(brasa_session) *small = session_of(g, o);
    REQUIRE(large && small);
    CHECK_STATUS(brasa_session_prepare(large, true, 7), BRASA_OK);
    for (int i = 0; i < 3; i++) { /* the same samples, dropout and updates, whatever the session was made for */
        float a = NAN, b = NAN;
        task_fill(&t, i * 7);
        CHECK_STATUS(train_on(large, &t, 7, &a), BRASA_OK);
        CHECK_STATUS(brasa_train_step(small, t.images, t.labels, &b), BRASA_OK);
        CHECK_CLOSE(a, b, 0);
    }

    /* Evaluation of seven is the mean of the seven alone. */
    float together = NAN, alone = NAN;
    double sum = 0;
    CHECK_STATUS(brasa_eval_step(large, t.images, t.labels, 7, &together, NULL), BRASA_OK);
    for (int i = 0; i < 7; i++) {
        CHECK_STATUS(brasa_eval_step(large, t.images + i * t.pixels, t.labels + i, 1, &alone, NULL), BRASA_OK);
        sum += (double)alone / 7;
    }
    CHECK_CLOSE(together, sum, 1e-5);

    /* And the first size still works. */
    OWNED(task) full = task_new(10, 64, 32, 0.25);
    task_fill(&full, 0);
    CHECK_STATUS(brasa_train_step(large, full.images, full.labels, &alone), BRASA_OK);
    CHECK(isfinite(alone));
    CHECK_INT(brasa_session_steps(large), 4);
    task_free(&t);
}
