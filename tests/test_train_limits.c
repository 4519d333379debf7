/* test_train_limits.c - the limits of trainings: a memory budget, what they warn of, what they refuse, and that they
 * give back all they took. */
#define _GNU_SOURCE
#include "trainings.h"

#include <fcntl.h>
#include <sys/file.h>

/* --- memory -------------------------------------------------------------------------------------------------- */

static const char *picture_net(char path[300], const char *name, const char *norm)
{
    char text[300];
    snprintf(text, sizeof text,
             "input 1 28 28\nconv 8 3x3 name=a\n%srelu\nmaxpool 2\nflatten\ndropout 0.2\nclassify 10 name=b\n", norm);
    strcpy(path, in_folder(name));
    write_file(path, text, strlen(text));
    return path;
}

/* 91 samples: a batch of 48 and one of 43, which 4 parts of 12 do not divide. */
static train_options pictures(heard *l, const char *out, const char *model)
{
    train_options o = plain(l, out);
    o.settings.model = model;
    o.settings.data = "synth:digits,n=130";
    o.settings.batch = 48;
    return o;
}

TEST(batch_in_parts)
{
    start();
    heard l;
    train_result r;
    const char *whole = run_folder("whole"), *divided = run_folder("divided"), *cut = run_folder("cut");
    char path[300];
    const char *model = picture_net(path, "plain.net", "");
    train_options o = pictures(&l, whole, model);
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    CHECK_INT(l.parts, 1);
    const int64_t session = l.session, all = l.session + l.loader;

    CASE("a budget that is large enough changes nothing");
    train_options enough = pictures(&l, run_folder("enough"), model);
    enough.settings.mem = all;
    CHECK_STATUS(train_run(ctx, &enough, &r), BRASA_OK);
    CHECK(l.parts == 1 && l.session == session && l.session + l.loader <= all);
    CHECK(same_file(whole, enough.out, WEIGHTS_FILE));

    CASE("pictures that are kept give way first");
    train_options less = pictures(&l, run_folder("less"), model);
    less.settings.mem = all - 28 * 28 * 50;
    CHECK_STATUS(train_run(ctx, &less, &r), BRASA_OK);
    CHECK(l.parts == 1 && l.session == session && l.session + l.loader <= less.settings.mem);
    CHECK(same_file(whole, less.out, WEIGHTS_FILE));

    CASE("parts");
    train_options parts = pictures(&l, divided, model);
    parts.settings.mem = session / 2;
    CHECK_STATUS(train_run(ctx, &parts, &r), BRASA_OK);
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
    train_options first = pictures(&l, cut, model);
    first.settings.mem = session / 2;
    l.stop_at = 3;
    CHECK_STATUS(train_run(ctx, &first, &r), BRASA_OK);
    train_options next = {.resume = cut, .watch = listen_to, .user = &l};
    l = (heard){0};
    CHECK_STATUS(train_run(ctx, &next, &r), BRASA_OK);
    CHECK(l.parts > 2);
    CHECK(same_file(divided, cut, WEIGHTS_FILE));
    stop();
}

/* The parts of a run that goes on are those of its checkpoint while they fit, whatever the budget is then. */
TEST(another_budget_later)
{
    start();
    heard l;
    train_result r;
    const char *whole = run_folder("whole"), *cut = run_folder("cut");
    char path[300];
    train_options o = pictures(&l, whole, picture_net(path, "plain.net", ""));
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    const int64_t all = l.session + l.loader;
    o.settings.mem = l.session / 2;
    o.out = run_folder("whole");
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    const int64_t parts = l.parts, session = l.session;
    o.out = cut;
    for (int more = 1; more >= 0; more--) {
        CASE("%s memory", more ? "more" : "less");
        run_folder("cut");
        l = (heard){.stop_at = 3};
        CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
        train_options next = {.resume = cut, .watch = listen_to, .user = &l};
        next.settings.mem = more ? all : session;
        l = (heard){0};
        CHECK_STATUS(train_run(ctx, &next, &r), BRASA_OK);
        CHECK(l.session + l.loader <= next.settings.mem);
        CHECK(more ? l.parts == parts : l.parts > parts);
        CHECK(same_file(whole, cut, WEIGHTS_FILE) == (more == 1));
        CHECK(most_apart(whole, cut, "b.weight", 10 * 8 * 13 * 13) < 1e-6);
        CHECK((strstr(l.alarms, "parts now, ") == NULL) == (more == 1));
        run_info i;
        REQUIRE(run_read(ctx, cut, &i) == BRASA_OK);
        CHECK_INT(i.settings.mem, next.settings.mem);
        run_free(&i);
    }
    stop();
}

/* What is refused says which batch fits: that one does, and none that is larger. */
TEST(memory_refusals)
{
    start();
    heard l;
    train_result r;
    char path[300];
    train_options o = pictures(&l, run_folder("m"), picture_net(path, "norm.net", "batchnorm name=n\n"));
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    train_options tight = o;
    tight.settings.mem = l.session / 2;
    tight.out = run_folder("m");
    l = (heard){0};
    CHECK_STATUS(train_run(ctx, &tight, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), " MB at batch 48, ");
    CHECK_HAS(brasa_context_error(ctx),
              "cannot be split into parts: batchnorm_train 'n' computes with the whole of it");
    CHECK(l.count[TRAIN_STEP] == 0 && !run_has(tight.out, RUN_FILE));
    const char *said = strstr(brasa_context_error(ctx), "the largest batch that fits is ");
    REQUIRE(said);
    tight.settings.batch = atoi(said + strlen("the largest batch that fits is "));
    CHECK(tight.settings.batch > 1 && tight.settings.batch < 48);
    CASE("the largest");
    CHECK_STATUS(train_run(ctx, &tight, &r), BRASA_OK);
    CHECK(l.session + l.loader <= tight.settings.mem);
    CASE("one more");
    tight.settings.batch++;
    tight.out = run_folder("m");
    CHECK_STATUS(train_run(ctx, &tight, &r), BRASA_BAD_ARGUMENT);
    CASE("parts would need more than the whole");
    train_options few = plain(&l, run_folder("m"));
    few.settings.batch = 2;
    CHECK_STATUS(train_run(ctx, &few, &r), BRASA_OK);
    few.settings.mem = l.session + l.loader - 1;
    few.out = run_folder("m");
    CHECK_STATUS(train_run(ctx, &few, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "the largest batch that fits is 1, ");
    CHECK_HAS(brasa_context_error(ctx), "in parts it does not fit either");
    CASE("nothing fits");
    train_options none = pictures(&l, run_folder("m"), picture_net(path, "plain.net", ""));
    none.settings.mem = 10000;
    CHECK_STATUS(train_run(ctx, &none, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "not even one sample fits");
    stop();
}

/* Evaluation within a budget takes as many samples at once as fit, and tells the same. */
TEST(evaluation_within_a_budget)
{
    start();
    heard l;
    train_result r;
    char path[300];
    pool p = {.ctx = ctx};
    metrics m;
    double loss = 0;
    static int32_t list[130];
    for (int i = 0; i < 130; i++)
        list[i] = i;
    train_options o = pictures(&l, run_folder("e"), picture_net(path, "norm.net", "batchnorm name=n\n"));
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    REQUIRE(metrics_init(&m, &p, 10) == BRASA_OK);
    int64_t mem = 0, need = 0;
    for (int i = 0; i < 3; i++) {
        CASE("%s", i == 0 ? "no budget" : i == 1 ? "just enough" : "less");
        trained t;
        brasa_memory session = {0};
        REQUIRE(trained_open(ctx, o.out, 0, "", 48, mem, &t) == BRASA_OK);
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
    CHECK_STATUS(trained_open(ctx, o.out, 0, "", 48, 10000, &t), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), " MB at batch 48: not even one sample fits 0.0 MB");
    trained_close(&t);
    pool_free(&p);
    stop();
}

/* --- alarms -------------------------------------------------------------------------------------------------- */

/* Letters with only the classes of `labels`, each in turn, of 13 samples a class. */
static const char *labelled(const char *name, const char *labels)
{
    static char spec[400];
    static char text[8000];
    text[0] = '\0';
    for (int i = 0; i < 13 * (int)strlen(labels); i++) {
        sprintf(text + strlen(text), "%c", labels[i % (int)strlen(labels)]);
        for (int k = 0; k < 16; k++)
            sprintf(text + strlen(text), ",%d", (i * 7 + k * 3) % 16);
        strcat(text, "\n");
    }
    const char *file = in_folder(name);
    write_file(file, text, strlen(text));
    snprintf(spec, sizeof spec, "csv:%s,label=1,header=no", file);
    return spec;
}

TEST(class_weights)
{
    start();
    heard l;
    train_result r;
    const char *balanced = run_folder("balanced"), *equal = run_folder("equal"), *given = run_folder("given");
    train_options o = plain(&l, balanced);
    o.settings.data = labelled("rare.csv", "ABAA");
    o.settings.split = "all";
    o.settings.class_weights = "balanced";
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    size_t bytes;
    char *text = file_of(balanced, RUN_FILE, &bytes);
    CHECK_HAS(text, "\"class_weights\":\"balanced\""); /* 52 samples, 39 and 13 of each */
    CHECK_HAS(text, "\"class_weights\":[0.66666");
    free(text);
    o.settings.class_weights = "0.666666687,2";
    o.out = given;
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    CHECK(same_file(balanced, given, WEIGHTS_FILE));
    o.settings.class_weights = NULL;
    o.out = equal;
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    CHECK(!same_file(balanced, equal, WEIGHTS_FILE));
    static const char *const wrong[][2] = {{"1,2,3", "2 classes, but 3 numbers"},
                                           {"1", "2 classes, but 1 numbers"},
                                           {"1,x", "expected 'balanced', or a number above 0 for each of the 2"},
                                           {"1,", "got '1,'"},
                                           {"0,1", "got '0,1'"},
                                           {"1,-2", "got"},
                                           {"nan,1", "got"},
                                           {"1 2", "got '1 2'"},
                                           {"balance", "got 'balance'"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CASE("%s", wrong[i][0]);
        o.settings.class_weights = wrong[i][0];
        o.out = run_folder("refused");
        CHECK_STATUS(train_run(ctx, &o, &r), BRASA_BAD_ARGUMENT);
        CHECK_HAS(brasa_context_error(ctx), wrong[i][1]);
    }
    stop();
}

TEST(alarms)
{
    start();
    heard l;
    train_result r;
    CASE("a rate that the dialect makes useless");
    train_options o = plain(&l, run_folder("alarm"));
    o.settings.optimizer = "adadelta";
    o.settings.dialect = "tfkeras";
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    CHECK_HAS(l.alarms, "Adadelta with a rate of 0.001 (the default of the dialect 'tfkeras' is 0.001)");
    CHECK_HAS(l.alarms, "no better than guessing");
    size_t bytes;
    char *result = file_of(o.out, RESULT_FILE, &bytes);
    CHECK_HAS(result, "Adadelta with a rate");
    free(result);
    o.settings.dialect = "keras2";
    o.out = run_folder("alarm");
    l = (heard){0};
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    CHECK(!strstr(l.alarms, "Adadelta"));
    CASE("one class only");
    train_options one = plain(&l, run_folder("alarm"));
    one.settings.data = labelled("one.csv", "A");
    one.settings.split = "all";
    CHECK_STATUS(train_run(ctx, &one, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "there is nothing to learn");
    CHECK(!run_has(one.out, RUN_FILE));
    CASE("a class that is missing from a part");
    train_options missing = plain(&l, run_folder("alarm"));
    missing.settings.data = labelled("many.csv", "BAAAAAAAAAAAA");
    missing.settings.no_shuffle = missing.settings.no_stratify = true;
    missing.settings.split = "99/1"; /* the last of 169, none a B */
    CHECK_STATUS(train_run(ctx, &missing, &r), BRASA_OK);
    CHECK_HAS(l.alarms, "the class 'B' is not among the samples to test on");
    stop();
}

TEST(numbers_that_are_not_finite)
{
    start();
    heard l;
    train_result r;
    static const char deep[] = "input 16\ndense 9 name=a\ndense 9 name=c\ndense 9 name=d\ndense 9 name=e\n"
                               "classify 26 name=b\n"; /* five factors of a rate: too much for a float */
    train_options o = plain(&l, run_folder("nan"));
    o.settings.model = in_folder("deep.net");
    write_file(o.settings.model, deep, sizeof deep - 1);
    o.settings.optimizer = "sgd lr=1000000 momentum=0.9";
    o.settings.keep = "last";
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_WRONG_STATE);
    CHECK_HAS(brasa_context_error(ctx), ": the loss is ");
    CHECK_HAS(brasa_context_error(ctx), "epoch 1, step ");
    CHECK_HAS(brasa_context_error(ctx), "layer '");
    CASE("in parts, the same layer");
    char said[ERROR_TEXT_SIZE];
    snprintf(said, sizeof said, "%s", strstr(brasa_context_error(ctx), "layer '"));
    *strchr(said, ')') = '\0';
    train_options parts = o;
    parts.out = run_folder("nan-parts");
    parts.settings.mem = l.session + l.loader - 1;
    CHECK_STATUS(train_run(ctx, &parts, &r), BRASA_WRONG_STATE);
    CHECK(l.parts > 1);
    CHECK_HAS(brasa_context_error(ctx), said);
    run_outcome outcome;
    CHECK_STATUS(run_outcome_read(ctx, o.out, &outcome), BRASA_OK);
    CHECK(outcome.there && outcome.failed);
    CASE("the weights are the last good ones");
    trained t;
    float bias[26];
    REQUIRE(trained_open(ctx, o.out, 0, NULL, 1, 0, &t) == BRASA_OK);
    CHECK_STATUS(brasa_param_get(t.session, "b.bias", bias, 26), BRASA_OK);
    int bad = 0;
    for (int i = 0; i < 26; i++)
        bad += !(fabsf(bias[i]) < 1);
    CHECK_INT(bad, 0);
    trained_close(&t);
    stop();
}

/* --- what does not fit, and running out of memory ------------------------------------------------------------ */

TEST(refusals)
{
    static const struct {
        const char *name;
        train_settings settings;
        const char *said;
    } rows[] = {
        {"shapes", {.model = "mnist_cnn", .data = "synth:letter,n=52"}, "mnist_cnn takes 1x28x28"},
        {"no model", {.model = "nope", .data = "synth:letter,n=52"}, "there is no model"},
        {"no source", {.model = "letter_mlp", .data = "nope:x"}, "nope"},
        {"no optimizer", {.model = "letter_mlp", .data = "synth:letter,n=52", .optimizer = "sdg"}, "sgd"},
        {"no dialect", {.model = "letter_mlp", .data = "synth:letter,n=52", .dialect = "x"}, "dialect"},
        {"no split", {.model = "letter_mlp", .data = "synth:letter,n=52", .split = "7/7"}, "split"},
        {"both", {.model = "letter_mlp", .data = "synth:letter,n=52", .split = "all", .folds = 3}, "give one"},
        {"folds", {.model = "letter_mlp", .data = "synth:letter,n=52", .folds = 1}, "from 2 to 1000"},
        {"fold", {.model = "letter_mlp", .data = "synth:letter,n=52", .folds = 3, .fold = 4}, "from 0 to 3"},
        {"transform", {.model = "mnist_cnn", .data = "synth:digits,n=20", .transform = "zoom=3"}, "zoom"},
        {"weights", {.model = "letter_mlp", .data = "synth:letter,n=52", .weights = "/nope"}, "/nope: No such file"},
        {"no tests", {.model = "letter_mlp", .data = "synth:letter,n=52", .split = "all", .patience = 2}, "patience"},
    };
    start();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        heard l = {0};
        train_result r;
        CASE("%s", rows[i].name);
        train_options o = {
            .settings = rows[i].settings, .out = run_folder("refused"), .watch = listen_to, .user = &l};
        CHECK(train_run(ctx, &o, &r) != BRASA_OK);
        CHECK_HAS(brasa_context_error(ctx), rows[i].said);
        CHECK_INT(l.count[TRAIN_STEP], 0);
        CHECK(access(o.out, F_OK) != 0);
    }
    CASE("a run that is not there");
    train_result r;
    train_options o = {.resume = in_folder("nothing")};
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "No such file");
    stop();
}

/* A training that does not come to its first step takes its folder back, but nothing that was there before it. */
TEST(nothing_is_left_behind)
{
    start();
    heard l;
    train_result r;
    char path[500];
    size_t bytes = 0;
    train_options o = plain(&l, run_folder("left"));
    o.settings.model = net();
    o.settings.weights = "/nope";
    CHECK(train_run(ctx, &o, &r) != BRASA_OK);
    CHECK(access(o.out, F_OK) != 0 && !r.folder[0]);
    CASE("of a fold");
    o.settings.split = NULL;
    o.settings.folds = 3;
    o.settings.fold = 2;
    CHECK(train_run(ctx, &o, &r) != BRASA_OK);
    CHECK(access(o.out, F_OK) != 0);
    CASE("a folder that was there");
    mkdir(o.out, 0777);
    snprintf(path, sizeof path, "%s/" SPLIT_FILE "s", o.out);
    write_file(path, "mine", 4);
    CHECK(train_run(ctx, &o, &r) != BRASA_OK);
    char *mine = read_file(path, &bytes);
    CHECK_TEXT(mine, "mine");
    free(mine);
    remove(path);
    CHECK(rmdir(o.out) == 0); /* all else is gone */
    CASE("a run that was there");
    train_options whole = plain(&l, run_folder("left"));
    CHECK_STATUS(train_run(ctx, &whole, &r), BRASA_OK);
    CHECK(train_run(ctx, &whole, &r) != BRASA_OK);
    CHECK(run_has(whole.out, RUN_FILE) && run_has(whole.out, CHECKPOINT_FILE) && run_has(whole.out, SPLIT_FILE));
    CASE("a run that another one works at");
    const int lock = open(whole.out, O_RDONLY | O_DIRECTORY);
    CHECK(flock(lock, LOCK_EX) == 0);
    CHECK_STATUS(train_run(ctx, &whole, &r), BRASA_WRONG_STATE);
    CHECK(run_has(whole.out, RUN_FILE) && run_has(whole.out, CHECKPOINT_FILE) && run_has(whole.out, SPLIT_FILE));
    close(lock);
    stop();
}

TEST(each_allocation_fails)
{
    int needed = 0;
    for (int n = 1; n < 4000 && !needed; n++) {
        start();
        heard l;
        train_result r;
        train_options o = plain(&l, run_folder("alloc"));
        o.settings.data = "synth:letter,n=52";
        o.settings.epochs = 1;
        o.settings.class_weights = "balanced";
        memory.calls = 0;
        memory.fail_at = n;
        const brasa_status status = train_run(ctx, &o, &r);
        if (memory.calls < n) {
            CHECK_STATUS(status, BRASA_OK);
            needed = n;
        } else if (status != BRASA_OK) { /* what only makes the account shorter may be done without */
            CHECK(l.count[TRAIN_STEP] || access(o.out, F_OK) != 0);
            CHECK_STATUS(status, BRASA_OUT_OF_MEMORY);
            CHECK_HAS(brasa_context_error(ctx), "out of memory");
        }
        memory.fail_at = 0;
        stop();
        if (tests.failed) {
            printf("    allocation %d\n", n);
            return;
        }
    }
    CHECK(needed > 50);
}
