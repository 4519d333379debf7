/* test_train_limits.c - the limits of trainings: what they warn of, what they refuse, and that they give back all
 * they took. Memory budgets are in test_train_budget.c. */
#define _GNU_SOURCE
#include "trainings.h"

#include <fcntl.h>
#include <sys/file.h>

AROUND_EACH(start, stop)

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

/* 36 rows of the class A, 4 of the class B, which are easily told apart or not at all. */
static const char *two_classes(const char *name, bool apart)
{
    static char spec[400];
    static char text[4000];
    text[0] = '\0';
    for (int i = 0; i < 40; i++) {
        strcat(text, i % 10 ? "A" : "B");
        for (int k = 0; k < 16; k++)
            strcat(text, i % 10 || !apart ? ",0" : ",15");
        strcat(text, "\n");
    }
    const char *file = in_folder(name);
    write_file(file, text, strlen(text));
    snprintf(spec, sizeof spec, "csv:%s,label=1,header=no", file);
    return spec;
}

TEST(class_weights)
{
    heard l;
    brasa_trainer_result r;
    const char *balanced = run_folder("balanced"), *equal = run_folder("equal"), *given = run_folder("given");
    brasa_trainer_options o = plain(&l, balanced);
    o.data = labelled("rare.csv", "ABAA");
    o.split = "all";
    o.class_weights = "balanced";
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    size_t bytes;
    char *text = file_of(balanced, RUN_FILE, &bytes);
    CHECK_HAS(text, "\"class_weights\":\"balanced\""); /* 52 samples, 39 and 13 of each */
    CHECK_HAS(text, "\"class_weights\":[0.66666");
    free(text);
    o.class_weights = "0.666666687,2";
    o.out = given;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(same_file(balanced, given, WEIGHTS_FILE));
    o.class_weights = NULL;
    o.out = equal;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
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
        o.class_weights = wrong[i][0];
        o.out = run_folder("refused");
        CHECK_STATUS(train(ctx, &o, &r), BRASA_BAD_ARGUMENT);
        CHECK_HAS(brasa_context_error(ctx), wrong[i][1]);
    }
}

TEST(alarms)
{
    heard l;
    brasa_trainer_result r;
    CASE("a rate that the dialect makes useless");
    brasa_trainer_options o = plain(&l, run_folder("alarm"));
    o.optimizer = "adadelta";
    o.dialect = "tfkeras";
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_HAS(l.alarms, "Adadelta with a rate of 0.001 (the default of the dialect 'tfkeras' is 0.001)");
    CHECK_HAS(l.alarms, "no better than guessing");
    size_t bytes;
    char *result = file_of(o.out, RESULT_FILE, &bytes);
    CHECK_HAS(result, "Adadelta with a rate");
    free(result);
    o.dialect = "keras2";
    o.out = run_folder("alarm");
    l = (heard){0};
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(!strstr(l.alarms, "Adadelta"));
    CASE("one class only");
    brasa_trainer_options one = plain(&l, run_folder("alarm"));
    one.data = labelled("one.csv", "A");
    one.split = "all";
    CHECK_STATUS(train(ctx, &one, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "there is nothing to learn");
    CHECK(!run_has(one.out, RUN_FILE));
    CASE("a class that is missing from a part");
    brasa_trainer_options missing = plain(&l, run_folder("alarm"));
    missing.data = labelled("many.csv", "BAAAAAAAAAAAA");
    missing.no_shuffle = missing.no_stratify = true;
    missing.split = "99/1"; /* the last of 169, none a B */
    CHECK_STATUS(train(ctx, &missing, &r), BRASA_OK);
    CHECK_HAS(l.alarms, "the class 'B' is not among the samples to test on");
    missing.split = "3/97"; /* five samples train: ABABA */
    missing.out = run_folder("alarm");
    missing.data = labelled("many.csv", "ABABABABABCDD");
    CHECK_STATUS(train(ctx, &missing, &r), BRASA_OK);
    CHECK_HAS(l.alarms, "2 classes, 'C' the first, are not among the samples to train on");
    CASE("after a quarter of the epochs, and at the end");
    brasa_trainer_options slow = plain(&l, run_folder("alarm"));
    slow.optimizer = "sgd lr=1e-12";
    slow.epochs = 12;
    CHECK_STATUS(train(ctx, &slow, &r), BRASA_OK);
    CHECK_INT(l.count[BRASA_ON_WARNING], 2);
    CHECK_HAS(l.alarms, "after epoch 3 the accuracy is ");
    CHECK_HAS(l.alarms, "after epoch 12 the accuracy is ");
    CASE("few samples, all right");
    brasa_trainer_options few = plain(&l, run_folder("alarm"));
    few.data = two_classes("few.csv", true);
    few.split = "80/20"; /* 8 test: 7 A and a B */
    few.optimizer = "adam lr=0.05";
    few.epochs = 20;
    CHECK_STATUS(train(ctx, &few, &r), BRASA_OK);
    CHECK_CLOSE(l.last.test_accuracy, 1, 0);
    CHECK_TEXT(l.alarms, "");
    few.out = run_folder("alarm");
    few.data = two_classes("few.csv", false);
    CHECK_STATUS(train(ctx, &few, &r), BRASA_OK);
    CHECK_HAS(l.alarms, "gives 87.50 %, with luck 93.75 %)");
}

static int count_in(const char *run, const char *name, const char *part)
{
    size_t bytes;
    char *text = file_of(run, name, &bytes);
    int count = 0;
    for (const char *at = text; at && (at = strstr(at, part)); at++)
        count++;
    free(text);
    return count;
}

/* Each stays on record, once, where it belongs, whatever happens to the run. */
TEST(alarms_stay)
{
    heard l;
    brasa_trainer_result r;
    CASE("a run that goes on");
    brasa_trainer_options o = plain(&l, run_folder("stay"));
    o.optimizer = "sgd lr=1e-12";
    o.epochs = 12;
    l.stop_at = 40;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(r.stopped);
    brasa_trainer_options next = resumed(&l, o.out);
    CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    CHECK_INT(count_in(o.out, RESULT_FILE, "after epoch 3 the accuracy is "), 1);
    CHECK_INT(count_in(o.out, RESULT_FILE, "after epoch 12 the accuracy is "), 1);
    CHECK_INT(count_in(o.out, REPORT_FILE, "after epoch 3 the accuracy is "), 1);
    CASE("folds");
    o = plain(&l, run_folder("stay"));
    o.optimizer = "adadelta lr=1e-12";
    o.epochs = 1;
    o.split = NULL;
    o.folds = 2;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    for (int turn = 0; turn < 2; turn++) {
        CHECK_INT(count_in(o.out, "fold-02/" RESULT_FILE, "Adadelta"), 1);
        CHECK_INT(count_in(o.out, "fold-02/" RESULT_FILE, "guessing"), 1);
        CHECK_INT(count_in(o.out, RESULT_FILE, "fold 1: after epoch 1"), 1);
        CHECK_INT(count_in(o.out, RESULT_FILE, "fold 2: after epoch 1"), 1);
        CHECK_INT(count_in(o.out, RESULT_FILE, "Adadelta"), 2);
        CHECK_INT(count_in(o.out, REPORT_FILE, "fold 2: after epoch 1"), 1);
        next.resume = o.out;
        CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    }
    CASE("a run that stops early");
    o = plain(&l, run_folder("stay"));
    o.optimizer = "sgd lr=1e-12";
    o.epochs = 8;
    o.patience = 2;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_INT(l.last.epoch, 3);
    CHECK_HAS(l.alarms, "after epoch 3 the accuracy is ");
}

/* The first labels of an IDX file; its pictures are of 28 x 28. */
static const char *put_digits(const unsigned char *labels, int count)
{
    static char spec[400];
    static unsigned char file[16 + 64 * 784];
    const char *dir = run_folder("digits");
    char path[500];
    mkdir(dir, 0777);
    memcpy(file, "\0\0\x08\x03\0\0\0\0\0\0\0\x1C\0\0\0\x1C", 16);
    file[7] = (unsigned char)count;
    for (int i = 0; i < count * 784; i++)
        file[16 + i] = (unsigned char)(i * 31 % 251);
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", dir);
    write_file(path, file, 16 + (size_t)count * 784);
    memcpy(file, "\0\0\x08\x01\0\0\0\0", 8);
    file[7] = (unsigned char)count;
    memcpy(file + 8, labels, (size_t)count);
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", dir);
    write_file(path, file, 8 + (size_t)count);
    snprintf(spec, sizeof spec, "idx:%s", dir);
    return spec;
}

/* Labels that the network or the run does not have. CIFAR's, which have a range, are in test_data_sets.c. */
TEST(labels_out_of_range)
{
    heard l;
    brasa_trainer_result r;
    char path[300];
    unsigned char labels[40];
    for (int i = 0; i < 40; i++)
        labels[i] = (unsigned char)(i % 3);
    CASE("a stray one in an IDX file");
    labels[7] = 200;
    brasa_trainer_options o = pictures(&l, run_folder("range"), picture_net(path, "plain.net", ""));
    o.data = put_digits(labels, 40);
    o.split = "all";
    CHECK_STATUS(train(ctx, &o, &r), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "byte 15: the label 200, but there are only 4 different ones");
    CASE("one that may be right");
    labels[7] = 5;
    o.data = put_digits(labels, 40);
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_HAS(l.alarms, "2 classes, '3' the first, are not among the samples to train on");
    CASE("other classes than the run's");
    labels[7] = 3;
    trained t;
    CHECK_STATUS(trained_open(ctx, o.out, &(trained_options){.spec = put_digits(labels, 40), .most = 8}, &t),
                 BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "has other classes (4, from '0' on) than the run (6, from '0' on)");
    trained_close(&t);
    CASE("more in a table than the network has");
    static const char fixed[] = "x = input 16\nz = dense $x 4\noutput logits\ny = labels 4\n"
                                "a = accuracy $z $y\noutput accuracy\n"
                                "l = softmax_cross_entropy $z $y\nloss\n";
    brasa_trainer_options table = plain(&l, run_folder("range"));
    table.model = in_folder("fixed.net");
    write_file(table.model, fixed, sizeof fixed - 1);
    table.data = labelled("five.csv", "ABCDE");
    CHECK(train(ctx, &table, &r) != BRASA_OK);
    CHECK_HAS(brasa_context_error(ctx), "fixed.net: has no classify line whose 5 classes could be chosen");
    CASE("fewer in a file of weights");
    brasa_trainer_options few = plain(&l, run_folder("range")), more = plain(&l, run_folder("range2"));
    few.data = labelled("two.csv", "AB");
    CHECK_STATUS(train(ctx, &few, &r), BRASA_OK);
    snprintf(path, sizeof path, "%s/%s", few.out, WEIGHTS_FILE);
    more.weights = path;
    CHECK_STATUS(train(ctx, &more, &r), BRASA_OK);
    CHECK_HAS(l.notes, "'fc3.weight' (2x22 F32, not 26x22 F32)");
}

TEST(numbers_that_are_not_finite)
{
    heard l;
    brasa_trainer_result r;
    static const char deep[] = "input 16\ndense 9 name=a\ndense 9 name=c\ndense 9 name=d\ndense 9 name=e\n"
                               "classify 26 name=b\n"; /* five factors of a rate: too much for a float */
    brasa_trainer_options o = plain(&l, run_folder("nan"));
    o.model = in_folder("deep.net");
    write_file(o.model, deep, sizeof deep - 1);
    o.optimizer = "sgd lr=1000000 momentum=0.9";
    o.keep = "last";
    CHECK_STATUS(train(ctx, &o, &r), BRASA_WRONG_STATE);
    CHECK(strstr(brasa_context_error(ctx), ": the loss is not a number; ") ||
          strstr(brasa_context_error(ctx), ": the loss is infinite; "));
    CHECK_TEXT(l.alarms, ""); /* the error tells it */
    CHECK_HAS(brasa_context_error(ctx), "epoch 1, step ");
    CHECK_HAS(brasa_context_error(ctx), "layer '");
    CASE("in parts, the same layer");
    char said[ERROR_TEXT_SIZE];
    snprintf(said, sizeof said, "%s", strstr(brasa_context_error(ctx), "layer '"));
    *strchr(said, ')') = '\0';
    brasa_trainer_options parts = o;
    parts.out = run_folder("nan-parts");
    parts.memory_limit = l.session + l.loader - 1;
    CHECK_STATUS(train(ctx, &parts, &r), BRASA_WRONG_STATE);
    CHECK(l.parts > 1);
    CHECK_HAS(brasa_context_error(ctx), said);
    run_outcome outcome;
    CHECK_STATUS(run_outcome_read(ctx, o.out, &outcome), BRASA_OK);
    CHECK(outcome.there && outcome.failed);
    CASE("the weights are the last good ones");
    trained t;
    float bias[26];
    REQUIRE(trained_open(ctx, o.out, &(trained_options){.most = 1}, &t) == BRASA_OK);
    CHECK_STATUS(brasa_param_get(t.session, "b.bias", bias, 26), BRASA_OK);
    int bad = 0;
    for (int i = 0; i < 26; i++)
        bad += !(fabsf(bias[i]) < 1);
    CHECK_INT(bad, 0);
    trained_close(&t);
}

/* --- what does not fit, and running out of memory ------------------------------------------------------------ */

TEST(refusals)
{
    static const struct {
        const char *name;
        brasa_trainer_options settings;
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
        {"fold", {.model = "letter_mlp", .data = "synth:letter,n=52", .folds = 3, .fold = 4}, "from 1 to 3"},
        {"transform", {.model = "mnist_cnn", .data = "synth:digits,n=20", .transform = "zoom=3"}, "zoom"},
        {"weights", {.model = "letter_mlp", .data = "synth:letter,n=52", .weights = "/nope"}, "/nope: No such file"},
        {"no tests", {.model = "letter_mlp", .data = "synth:letter,n=52", .split = "all", .patience = 2}, "patience"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        heard l = {0};
        brasa_trainer_result r;
        CASE("%s", rows[i].name);
        brasa_trainer_options o = rows[i].settings;
        o.out = run_folder("refused");
        o.progress = listen_to;
        o.user = &l;
        CHECK(train(ctx, &o, &r) != BRASA_OK);
        CHECK_HAS(brasa_context_error(ctx), rows[i].said);
        CHECK_INT(l.count[BRASA_ON_STEP], 0);
        CHECK(access(o.out, F_OK) != 0);
    }
    CASE("a run that is not there");
    brasa_trainer_result r;
    brasa_trainer_options o = {.resume = in_folder("nothing")};
    CHECK_STATUS(train(ctx, &o, &r), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "No such file");
}

/* A training that does not come to its first step takes its folder back, but nothing that was there before it. */
TEST(nothing_is_left_behind)
{
    heard l;
    brasa_trainer_result r;
    char path[500];
    size_t bytes = 0;
    brasa_trainer_options o = plain(&l, run_folder("left"));
    o.model = net();
    o.weights = "/nope";
    CHECK(train(ctx, &o, &r) != BRASA_OK);
    CHECK(access(o.out, F_OK) != 0 && !r.folder[0]);
    CASE("of a fold");
    o.split = NULL;
    o.folds = 3;
    o.fold = 2;
    CHECK(train(ctx, &o, &r) != BRASA_OK);
    CHECK(access(o.out, F_OK) != 0);
    CASE("a folder that was there");
    mkdir(o.out, 0777);
    snprintf(path, sizeof path, "%s/" SPLIT_FILE "s", o.out);
    write_file(path, "mine", 4);
    CHECK(train(ctx, &o, &r) != BRASA_OK);
    char *mine = read_file(path, &bytes);
    CHECK_TEXT(mine, "mine");
    free(mine);
    remove(path);
    CHECK(train(ctx, &o, &r) != BRASA_OK);
    CHECK_HAS(brasa_context_error(ctx), "/nope");
    CHECK(rmdir(o.out) == 0); /* it was empty, and is again */
    CASE("a run that was there");
    brasa_trainer_options whole = plain(&l, run_folder("left"));
    CHECK_STATUS(train(ctx, &whole, &r), BRASA_OK);
    CHECK(train(ctx, &whole, &r) != BRASA_OK);
    CHECK(run_has(whole.out, RUN_FILE) && run_has(whole.out, CHECKPOINT_FILE) && run_has(whole.out, SPLIT_FILE));
    CASE("a run that another one works at");
    const int lock = open(whole.out, O_RDONLY | O_DIRECTORY);
    CHECK(flock(lock, LOCK_EX) == 0);
    brasa_trainer_options next = {.resume = whole.out};
    CHECK_STATUS(train(ctx, &next, &r), BRASA_WRONG_STATE);
    CHECK(run_has(whole.out, RUN_FILE) && run_has(whole.out, CHECKPOINT_FILE) && run_has(whole.out, SPLIT_FILE));
    close(lock);
}

/* A plan writes nothing, and tells when there is no memory for it. */
TEST(plan_out_of_memory)
{
    for (int n = 1; !tests.failed; n++) {
        start();
        heard l;
        brasa_plan plan = {.size = sizeof plan};
        brasa_trainer_options o = plain(&l, run_folder("plan"));
        o.size = sizeof o;
        o.data = "synth:letter,n=52";
        o.memory_limit = 1000000;
        memory.calls = 0;
        memory.fail_at = n;
        const brasa_status status = brasa_trainer_plan(ctx, &o, &plan);
        const bool over = memory.calls < n;
        CHECK_STATUS(status, over ? BRASA_OK : BRASA_OUT_OF_MEMORY);
        CHECK(access(o.out, F_OK) != 0);
        memory.fail_at = 0;
        stop();
        if (over)
            break;
    }
}

/* mem 0: as much as it needs. The number of allocations, or 0: something failed. */
static int fail_each(int64_t mem)
{
    for (int n = 1; n < 20000; n++) {
        start();
        heard l;
        brasa_trainer_result r;
        brasa_trainer_options o = plain(&l, run_folder("alloc"));
        o.data = "synth:letter,n=52";
        o.epochs = 1;
        o.class_weights = "balanced";
        o.memory_limit = mem;
        memory.calls = 0;
        memory.fail_at = n;
        const brasa_status status = train(ctx, &o, &r);
        const bool over = memory.calls < n;
        if (over) {
            CHECK_STATUS(status, BRASA_OK);
            CHECK((mem != 0) == (l.parts > 1));
        } else if (status != BRASA_OK) { /* what only makes the account shorter may be done without */
            CHECK(l.count[BRASA_ON_STEP] || access(o.out, F_OK) != 0);
            CHECK_STATUS(status, BRASA_OUT_OF_MEMORY);
            CHECK_HAS(brasa_context_error(ctx), "out of memory");
        }
        memory.fail_at = 0;
        stop();
        if (tests.failed) {
            printf("    allocation %d\n", n);
            return 0;
        }
        if (over)
            return n;
    }
    return 0;
}

TEST(each_allocation_fails)
{
    start();
    heard l;
    brasa_trainer_result r;
    brasa_trainer_options o = plain(&l, run_folder("alloc"));
    o.data = "synth:letter,n=52";
    o.epochs = 1;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    stop();
    CASE("a plain training");
    const int plainly = fail_each(0);
    CHECK(plainly > 50);
    CASE("in parts, within a budget");
    CHECK(fail_each(l.session + l.loader - 1) > 2 * plainly); /* plans take memory, too */
}

/* A weights file tells what it is of; without memory for that, a status and a text. */
TEST(weights_file_out_of_memory)
{
    heard l;
    brasa_trainer_result r;
    start();
    brasa_trainer_options o = plain(&l, run_folder("alone"));
    o.data = "synth:letter,n=52";
    o.epochs = 1;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    stop();
    for (int n = 1; n < 20000 && !tests.failed; n++) {
        start();
        trained t;
        char path[400];
        snprintf(path, sizeof path, "%s/" WEIGHTS_FILE, o.out);
        memory.calls = 0;
        memory.fail_at = n;
        const brasa_status status = trained_open(ctx, path, &(trained_options){.most = 1}, &t);
        const bool over = memory.calls < n;
        CHECK_STATUS(status, over ? BRASA_OK : BRASA_OUT_OF_MEMORY);
        CHECK(!over || (t.task.classes == 26 && strcmp(t.task.class_name[25], "Z") == 0));
        memory.fail_at = 0;
        trained_close(&t);
        stop();
        if (over)
            break;
    }
}
