/* test_train_budget.c - trainings and evaluations within a memory budget: batches in parts, and refusals with
 * numbers. */
#define _GNU_SOURCE
#include "trainings.h"

AROUND_EACH(start, stop)

TEST(batch_in_parts)
{
    heard l;
    brasa_trainer_result r;
    const char *whole = run_folder("whole"), *divided = run_folder("divided"), *cut = run_folder("cut");
    char path[300];
    const char *model = picture_net(path, "plain.net", "");
    brasa_trainer_options o = pictures(&l, whole, model);
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_INT(l.parts, 1);
    const int64_t session = l.session, all = l.session + l.loader;

    CASE("a budget that is large enough changes nothing");
    brasa_trainer_options enough = pictures(&l, run_folder("enough"), model);
    enough.memory_limit = all;
    CHECK_STATUS(train(ctx, &enough, &r), BRASA_OK);
    CHECK(l.parts == 1 && l.session == session && l.session + l.loader <= all);
    CHECK(same_file(whole, enough.out, WEIGHTS_FILE));

    CASE("pictures that are kept give way first");
    brasa_trainer_options less = pictures(&l, run_folder("less"), model);
    less.memory_limit = all - 28 * 28 * 50;
    CHECK_STATUS(train(ctx, &less, &r), BRASA_OK);
    CHECK(l.parts == 1 && l.session == session && l.session + l.loader <= less.memory_limit);
    CHECK(same_file(whole, less.out, WEIGHTS_FILE));

    CASE("parts");
    brasa_trainer_options parts = pictures(&l, divided, model);
    parts.memory_limit = session / 2;
    CHECK_STATUS(train(ctx, &parts, &r), BRASA_OK);
    CHECK(l.parts > 2 && 48 % l.parts == 0);
    CHECK(l.at_once > 48 / l.parts && l.at_once <= 48); /* evaluation needs less */
    CHECK(l.session + l.loader <= session / 2);
    CHECK_INT(l.greedy, 0);
    CHECK(!same_file(whole, divided, WEIGHTS_FILE)); /* sums of sums are rounded differently */
    CHECK(most_apart(whole, divided, "a.weight", 72) < 1e-6);
    CHECK(most_apart(whole, divided, "b.weight", 10 * 8 * 13 * 13) < 1e-6);
    CHECK(most_apart(whole, divided, "b.bias", 10) < 1e-6);

    CASE("the kernels of the update are on record");
    for (int i = 0; i < 2; i++) {
        size_t bytes = 0;
        char *record = file_of(i ? divided : whole, RUN_FILE, &bytes);
        const char *kernels = record ? strstr(record, "\"kernels\":[") : NULL;
        CHECK_HAS(kernels, "\"sgd_");
        CHECK_HAS(kernels, "\"conv2d_");
        free(record);
    }

    CASE("stopped in between");
    brasa_trainer_options first = pictures(&l, cut, model);
    first.memory_limit = session / 2;
    l.stop_at = 3;
    CHECK_STATUS(train(ctx, &first, &r), BRASA_OK);
    brasa_trainer_options next = resumed(&l, cut);
    CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    CHECK(l.parts > 2);
    CHECK(same_file(divided, cut, WEIGHTS_FILE));
}

/* The parts of a run that goes on are those of its checkpoint while they fit, whatever the budget is then. */
TEST(another_budget_later)
{
    heard l;
    brasa_trainer_result r;
    const char *whole = run_folder("whole"), *cut = run_folder("cut");
    char path[300];
    brasa_trainer_options o = pictures(&l, whole, picture_net(path, "plain.net", ""));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    const int64_t all = l.session + l.loader;
    o.memory_limit = l.session / 2;
    o.out = run_folder("whole");
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    const int64_t parts = l.parts, session = l.session;
    o.out = cut;
    for (int more = 1; more >= 0; more--) {
        CASE("%s memory", more ? "more" : "less");
        run_folder("cut");
        l = (heard){.stop_at = 3};
        CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
        brasa_trainer_options next = resumed(&l, cut);
        next.memory_limit = more ? all : session;
        CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
        CHECK(l.session + l.loader <= next.memory_limit);
        CHECK(more ? l.parts == parts : l.parts > parts);
        CHECK(same_file(whole, cut, WEIGHTS_FILE) == (more == 1));
        CHECK(most_apart(whole, cut, "b.weight", 10 * 8 * 13 * 13) < 1e-6);
        CHECK((strstr(l.alarms, "micro-batches now, ") == NULL) == (more == 1));
        run_info i;
        REQUIRE(run_read(ctx, cut, &i) == BRASA_OK);
        CHECK_INT(i.settings.memory_limit, next.memory_limit);
        run_free(&i);
    }
}

/* What is refused says which batch fits: that one does, and none that is larger. */
TEST(memory_refusals)
{
    heard l;
    brasa_trainer_result r;
    char path[300];
    brasa_trainer_options o = pictures(&l, run_folder("m"), picture_net(path, "norm.net", "batchnorm name=n\n"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    brasa_trainer_options tight = o;
    const int64_t whole = l.session;
    tight.memory_limit = whole / 2;
    tight.out = run_folder("m");
    l = (heard){0};
    CHECK_STATUS(train(ctx, &tight, &r), BRASA_BAD_ARGUMENT);
    double needs = 0, loading = 0, budget = 0, with = 0;
    int most = 0;
    const char *numbers = strstr(brasa_context_error(ctx), " needs ");
    CHECK(numbers && sscanf(numbers,
                            " needs %lf MB at batch 48, %lf KB of them for the loader: does not fit %lf MB; the "
                            "largest batch that fits is %d, with %lf MB",
                            &needs, &loading, &budget, &most, &with) == 5);
    CHECK_CLOSE(budget, (double)tight.memory_limit / 1e6, 0.0051);
    CHECK(needs > budget && with <= budget && loading > 0 && most < 48);
    CHECK_CLOSE(needs, (double)whole / 1e6 + loading / 1e3, 0.02);
    CHECK_HAS(brasa_context_error(ctx),
              "cannot be split into micro-batches: batchnorm_train 'n' computes with the whole of it");
    CHECK(l.count[BRASA_ON_STEP] == 0 && !run_has(tight.out, RUN_FILE));
    const char *said = strstr(brasa_context_error(ctx), "the largest batch that fits is ");
    REQUIRE(said);
    tight.batch = atoi(said + strlen("the largest batch that fits is "));
    CHECK(tight.batch > 1 && tight.batch < 48);
    CASE("the largest");
    CHECK_STATUS(train(ctx, &tight, &r), BRASA_OK);
    CHECK(l.session + l.loader <= tight.memory_limit);
    CASE("one more");
    tight.batch++;
    tight.out = run_folder("m");
    CHECK_STATUS(train(ctx, &tight, &r), BRASA_BAD_ARGUMENT);
    CASE("parts would need more than the whole");
    brasa_trainer_options few = plain(&l, run_folder("m"));
    few.batch = 2;
    CHECK_STATUS(train(ctx, &few, &r), BRASA_OK);
    few.memory_limit = l.session + l.loader - 1;
    few.out = run_folder("m");
    CHECK_STATUS(train(ctx, &few, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "the largest batch that fits is 1, ");
    CHECK_HAS(brasa_context_error(ctx), "micro-batches do not fit either");
    CASE("nothing fits");
    brasa_trainer_options none = pictures(&l, run_folder("m"), picture_net(path, "plain.net", ""));
    none.memory_limit = 10000;
    CHECK_STATUS(train(ctx, &none, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "not even one sample fits");
}

/* Evaluation within a budget takes as many samples at once as fit, and tells the same. */
TEST(evaluation_within_a_budget)
{
    heard l;
    brasa_trainer_result r;
    char path[300];
    pool p = {.ctx = ctx};
    metrics m;
    double loss = 0;
    static int32_t list[130];
    for (int i = 0; i < 130; i++)
        list[i] = i;
    brasa_trainer_options o = pictures(&l, run_folder("e"), picture_net(path, "norm.net", "batchnorm name=n\n"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    REQUIRE(metrics_init(&m, &p, 10) == BRASA_OK);
    int64_t mem = 0, need = 0;
    for (int i = 0; i < 3; i++) {
        CASE("%s", i == 0 ? "no budget" : i == 1 ? "just enough" : "less");
        trained t;
        brasa_memory session = {.size = sizeof session};
        REQUIRE(trained_open(ctx, o.out, &(trained_options){.spec = "", .most = 48, .mem = mem}, &t) == BRASA_OK);
        CHECK(i == 2 ? t.task.settings.batch < 48 && t.task.settings.batch > 1 : t.task.settings.batch == 48);
        CHECK_STATUS(trained_measure(&t, list, 130, &m), BRASA_OK);
        CHECK_INT(m.count, 130);
        loss = i ? loss : metrics_loss(&m);
        CHECK_CLOSE(metrics_loss(&m), loss, 1e-6);
        CHECK_STATUS(brasa_session_memory(t.session, &session), BRASA_OK);
        need = (int64_t)session.total + 2 * t.task.settings.batch * (28 * 28 * 4 + 8);
        CHECK(!mem || need <= mem);
        mem = i ? need - 100 : need + 10000; /* what feeder and loader hold beside batches */
        trained_close(&t);
    }
    CASE("nothing fits");
    trained t;
    CHECK_STATUS(trained_open(ctx, o.out, &(trained_options){.spec = "", .most = 48, .mem = 10000}, &t),
                 BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), " MB at batch 48: not even one sample fits 10.0 KB");
    trained_close(&t);
    pool_free(&p);
}
