/* test_train.c - trainings from beginning to end: what they learn, what they leave behind, and how they go on after a
 * stop. What they refuse and warn of is in test_train_limits.c. */
#define _GNU_SOURCE
#include "trainings.h"

AROUND_EACH(start, stop)

/* --- figures ------------------------------------------------------------------------------------------------- */

TEST(metrics_count)
{
    pool p = {.ctx = ctx};
    metrics m;
    REQUIRE(metrics_init(&m, &p, 7) == BRASA_OK);
    CHECK(isnan(metrics_top1(&m)));
    static const float logits[4][7] = {
        {5, 4, 3, 2, 1, 0, -1}, {5, 4, 3, 2, 1, 0, -1}, {5, 4, 3, 2, 1, 0, -1}, {0, 0, 0, 0, 0, 0, 0}};
    static const int32_t labels[4] = {0, 4, 6, 0};
    metrics_add(&m, &logits[0][0], labels, 4);
    CHECK_INT(m.count, 4);
    CHECK_INT(m.top1, 2);
    CHECK_INT(m.top5, 3);
    double sum = 0;
    for (int k = 0; k < 7; k++)
        sum += exp(5.0 - k);
    CHECK_CLOSE(metrics_loss(&m), (3 * log1p(sum - 1) - 5 - 1 + 1 + log(7)) / 4, 1e-12);
    brasa_metrics given = metrics_figures(&m, 0);
    const class_metrics zero = metrics_class(&given, 0), six = metrics_class(&given, 6);
    CHECK_INT(zero.samples, 2);
    CHECK_INT(zero.predicted, 4);
    CHECK_CLOSE(zero.precision, 0.5, 0);
    CHECK_CLOSE(zero.recall, 1, 0);
    CHECK(isnan(six.precision) && six.recall == 0);
    metrics_reset(&m);
    CHECK(m.count == 0 && m.confusion[0] == 0);
    static const float broken[2][7] = {{NAN, NAN, NAN, NAN, NAN, NAN, NAN}, {0, NAN, 0, 0, 9, 0, 0}};
    static const int32_t truths[2] = {0, 4};
    metrics_add(&m, &broken[0][0], truths, 2);
    CHECK(m.count == 2 && m.top1 == 0 && m.top5 == 0 && isnan(metrics_loss(&m)));
    given = metrics_figures(&m, 0);
    CHECK(metrics_class(&given, 0).right == 0 && metrics_class(&given, 4).right == 0);
    REQUIRE(metrics_init(&m, &p, MOST_CONFUSED + 1) == BRASA_OK);
    CHECK(!m.confusion);
    pool_free(&p);
}

/* --- what a run leaves behind -------------------------------------------------------------------------------- */

TEST(trains_and_records)
{
    heard l;
    brasa_trainer_result r, again;
    brasa_trainer_options o = plain(&l, run_folder("a"));
    o.epochs = 12;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_TEXT(r.folder, o.out);
    CHECK(r.accuracy > 0.2); /* of 26 classes */
    CHECK_INT(l.count[BRASA_ON_EPOCH], 12);
    CHECK_INT(l.count[BRASA_ON_STEP], 12 * 8);
    CHECK_INT(l.count[BRASA_ON_SAVE], 13);
    CHECK_TEXT(l.alarms, "");
    CHECK_INT(l.greedy, 0);
    static const char *const files[] = {RUN_FILE,     EPOCHS_FILE, SPLIT_FILE, CHECKPOINT_FILE,
                                        WEIGHTS_FILE, RESULT_FILE, REPORT_FILE};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        CASE("%s", files[i]);
        CHECK(run_has(o.out, files[i]));
    }
    CASE("what was written is what was told");
    pool p = {.ctx = ctx};
    brasa_epoch *f;
    int epochs;
    run_outcome outcome;
    CHECK_STATUS(run_epochs_read(&p, o.out, &f, &epochs), BRASA_OK);
    CHECK_INT(epochs, 12);
    CHECK_CLOSE(f[11].test_accuracy, l.last.test_accuracy, 1e-8);
    CHECK_CLOSE(f[11].loss, l.last.loss, 1e-8);
    CHECK_STATUS(run_outcome_read(ctx, o.out, &outcome), BRASA_OK);
    CHECK(outcome.there && !outcome.failed);
    CHECK_CLOSE(outcome.accuracy, r.accuracy, 1e-8);
    double best = 0;
    for (int i = 0; i < epochs; i++)
        best = fmax(best, f[i].test_accuracy);
    CHECK_CLOSE(r.accuracy, best, 1e-8);
    pool_free(&p);

    CASE("the weights that were kept give the result");
    trained t;
    metrics m;
    split s = {0};
    char path[500];
    pool q = {.ctx = ctx};
    snprintf(path, sizeof path, "%s/%s", o.out, SPLIT_FILE);
    REQUIRE(trained_open(ctx, o.out, &(trained_options){.spec = "", .most = 32}, &t) == BRASA_OK);
    CHECK_STATUS(split_read(t.task.set, path, &s), BRASA_OK);
    CHECK_STATUS(metrics_init(&m, &q, 26), BRASA_OK);
    CHECK_STATUS(trained_measure(&t, s.test, s.tests, &m), BRASA_OK);
    CHECK_CLOSE(metrics_top1(&m), r.accuracy, 0.01); /* other kernels may see a tie otherwise */
    split_free(&s);
    pool_free(&q);
    trained_close(&t);

    CASE("the same again");
    brasa_trainer_options same = plain(&l, run_folder("b"));
    same.epochs = 12;
    CHECK_STATUS(train(ctx, &same, &again), BRASA_OK);
    CHECK(same_file(o.out, same.out, WEIGHTS_FILE));
    CHECK(same_file(o.out, same.out, SPLIT_FILE));
    CASE("another seed");
    brasa_trainer_options other = plain(&l, run_folder("b"));
    other.epochs = 12;
    other.seed = 1;
    CHECK_STATUS(train(ctx, &other, &again), BRASA_OK);
    CHECK(!same_file(o.out, other.out, WEIGHTS_FILE));
    CASE("a folder that has a run");
    CHECK_STATUS(train(ctx, &other, &again), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "there is a run already");
}

/* Every setting comes back from run.json as it was. */
TEST(settings_come_back)
{
    heard l;
    brasa_trainer_result r;
    brasa_trainer_options o = plain(&l, run_folder("s"));
    o = (brasa_trainer_options){.out = o.out,
                                .model = net(),
                                .data = "synth:letter,n=260",
                                .split = "80/20",
                                .dialect = "keras2",
                                .optimizer = "rmsprop lr=0.001",
                                .schedule = "cosine warmup=2",
                                .keep = "2",
                                .epochs = 4,
                                .batch = 33,
                                .seed = INT64_C(1) << 61,
                                .patience = 9,
                                .clip_norm = 1.0 / 3,
                                .save_every = 0.5,
                                .freeze = "a.weight",
                                .class_weights = "balanced",
                                .memory_limit = INT64_C(1) << 33,
                                .deterministic = true,
                                .no_stratify = true,
                                .no_augment = true};
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    run_info i;
    REQUIRE(run_read(ctx, o.out, &i) == BRASA_OK);
    const brasa_trainer_options *s = &i.settings;
    CHECK_TEXT(s->model, o.model);
    CHECK_TEXT(s->data, "synth:letter,n=260");
    CHECK_TEXT(s->split, "80/20");
    CHECK_TEXT(s->transform, "");
    CHECK_TEXT(s->dialect, "keras2");
    CHECK_TEXT(s->optimizer, "rmsprop lr=0.001");
    CHECK_TEXT(s->schedule, "cosine warmup=2");
    CHECK_TEXT(s->keep, "2");
    CHECK(!s->weights && s->epochs == 4 && s->batch == 33 && s->seed == INT64_C(1) << 61 && s->patience == 9);
    CHECK(s->folds == 0 && s->threads == 1 && s->no_stratify && s->no_augment && !s->no_shuffle &&
          !s->skip_unreadable);
    CHECK_CLOSE(s->clip_norm, 1.0 / 3, 1e-9);
    CHECK_CLOSE(s->save_every, 0.5, 0);
    CHECK_TEXT(s->freeze, "a.weight");
    CHECK_TEXT(s->class_weights, "balanced");
    CHECK(s->memory_limit == INT64_C(1) << 33 && s->deterministic);
    CHECK_INT(i.classes, 26);
    CHECK_TEXT(i.class_name[25], "Z");
    CHECK_INT(strlen(i.hash), 64);
    CHECK_HAS(i.model, MODEL_FILE);
    CASE("two checkpoints are kept");
    CHECK(!run_has(o.out, "checkpoint-2.safetensors") && run_has(o.out, "checkpoint-3.safetensors") &&
          run_has(o.out, "checkpoint-4.safetensors"));
    run_free(&i);
}

/* --- going on ------------------------------------------------------------------------------------------------ */

/* Stopped after any number of steps, as often as wished, a run ends with the same bits. */
TEST(resume_is_exact)
{
    heard l;
    brasa_trainer_result r;
    const char *whole = run_folder("whole");
    brasa_trainer_options o = plain(&l, whole);
    o.model = net();
    o.optimizer = "adam";
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    const double accuracy = r.accuracy;
    static const int stops[][2] = {{1, 0}, {7, 0}, {8, 0}, {9, 0}, {3, 3}, {8, 8}, {20, 4}, {23, 0}, {24, 0}};
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        CASE("after %d steps, then %d", stops[i][0], stops[i][1]);
        brasa_trainer_options first = plain(&l, run_folder("parts"));
        first.model = o.model;
        first.optimizer = o.optimizer;
        l.stop_at = stops[i][0];
        CHECK_STATUS(train(ctx, &first, &r), BRASA_OK);
        CHECK(r.stopped);
        CHECK(!run_has(first.out, RESULT_FILE));
        for (int turn = stops[i][1] ? 1 : 0; turn >= 0; turn--) {
            brasa_trainer_options next = resumed(&l, first.out);
            l.stop_at = turn ? stops[i][1] : 0;
            CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
            CHECK(r.stopped == (turn > 0));
        }
        CHECK(same_file(whole, first.out, WEIGHTS_FILE));
        CHECK_CLOSE(r.accuracy, accuracy, 0);
        CHECK_TEXT(l.alarms, "");
    }
    CASE("a run that is over");
    brasa_trainer_options next = resumed(&l, whole);
    CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    CHECK_INT(l.count[BRASA_ON_STEP], 0);
    CHECK_CLOSE(r.accuracy, accuracy, 1e-8);
    CASE("more epochs");
    next.epochs = 5;
    l.stop_at = 3;
    CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    CHECK(r.stopped && !run_has(whole, RESULT_FILE));
    next.epochs = 0;
    l = (heard){0};
    CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    CHECK_INT(l.count[BRASA_ON_EPOCH], 2);
    brasa_trainer_options long_one = plain(&l, run_folder("parts"));
    long_one.model = o.model;
    long_one.optimizer = o.optimizer;
    long_one.epochs = 5;
    CHECK_STATUS(train(ctx, &long_one, &r), BRASA_OK);
    CHECK(same_file(whole, long_one.out, WEIGHTS_FILE));
}

/* Changes a file of a run that was stopped; it then must refuse to go on, or say why it goes on otherwise. */
static void spoil(const char *name, const char *find, const char *put, brasa_status expected, const char *said)
{
    heard l;
    brasa_trainer_result r;
    CASE("%s: %s", name, said);
    brasa_trainer_options o = plain(&l, run_folder("spoilt"));
    l.stop_at = 10;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    size_t bytes = 0;
    char *text = file_of(o.out, name, &bytes), path[500];
    char *at = text ? memmem(text, bytes, find, strlen(find)) : NULL;
    if (CHECK(at && strlen(find) == strlen(put))) {
        memcpy(at, put, strlen(put));
        snprintf(path, sizeof path, "%s/%s", o.out, name);
        write_file(path, text, bytes);
    }
    free(text);
    brasa_trainer_options next = resumed(&l, o.out);
    CHECK_STATUS(train(ctx, &next, &r), expected);
    CHECK_HAS(expected == BRASA_OK ? l.alarms : brasa_context_error(ctx), said);
}

TEST(resume_notices_changes)
{
    spoil(RUN_FILE, "\"batch\":50", "\"batch\":40", BRASA_BAD_FILE, "settings are not those");
    spoil(RUN_FILE, "\"deterministic\":false", "\"deterministic\":true ", BRASA_BAD_FILE, "settings are not those");
    spoil(RUN_FILE, "n=520", "n=521", BRASA_BAD_FILE, "the data are not those that the run began with");
    spoil(RUN_FILE, "\"settings\"", "\"suttings\"", BRASA_BAD_FILE, "not the account of a run");
    spoil(RUN_FILE, "\"epochs\":3", "\"epochs\":x", BRASA_BAD_FILE, "expected a whole number");
    spoil(CHECKPOINT_FILE, "\"threads\":\"1\"", "\"threads\":\"4\"", BRASA_OK, "1 threads now, 4 before");
    spoil(CHECKPOINT_FILE, "\"parts\":\"1\"", "\"parts\":\"7\"", BRASA_BAD_FILE,
          "7 micro-batches of a batch of 50 samples");
    spoil(CHECKPOINT_FILE, "\"parts\":\"1\"", "\"parts\":\"x\"", BRASA_BAD_FILE,
          "x micro-batches of a batch of 50 samples");
    spoil(CHECKPOINT_FILE, "\"kernels\":", "\"kernals\":", BRASA_OK, "other kernels now");
    spoil(CHECKPOINT_FILE, "\"done\"", "\"dona\"", BRASA_BAD_FILE, "its note 'done' is missing");
    spoil(CHECKPOINT_FILE, "\"done\":\"2\"", "\"done\":\"x\"", BRASA_BAD_FILE, "its note 'done' is no number");
    spoil(EPOCHS_FILE, "\"epoch\":1", "\"epoch\":2", BRASA_BAD_FILE, "0 epochs, but the checkpoint was made after 1");
}

/* The rate of each epoch's last step is on record, and stays there when the run goes on. */
TEST(learning_rates)
{
    heard l;
    brasa_trainer_result r;
    brasa_trainer_options o = plain(&l, run_folder("rates"));
    o.schedule = "step every=8 gamma=0.5"; /* an epoch has 8 steps */
    l.stop_at = 13;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    brasa_trainer_options next = resumed(&l, o.out);
    CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    CHECK_CLOSE(l.last.learning_rate, 0.0125, 1e-12);
    pool p = {.ctx = ctx};
    brasa_epoch *f;
    int epochs;
    CHECK_STATUS(run_epochs_read(&p, o.out, &f, &epochs), BRASA_OK);
    REQUIRE(epochs == 3);
    for (int i = 0; i < 3; i++)
        CHECK_CLOSE(f[i].learning_rate, 0.05 / (1 << i), 1e-12);
    pool_free(&p);
    size_t bytes;
    char *page = file_of(o.out, REPORT_FILE, &bytes);
    CHECK_HAS(page, ">Learning rate</figcaption>");
    CHECK_HAS(page, ">0.0125<");
    free(page);
}

/* It ends with the last epoch of each fold, and of a run that goes on to a later end. */
TEST(cosine_ends_with_the_last_epoch)
{
    heard l;
    brasa_trainer_result r;
    brasa_trainer_options o = plain(&l, run_folder("cosine"));
    o.schedule = "cosine";
    o.epochs = 2;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_CLOSE(l.last.learning_rate, 0.05 * (1 + cos(acos(-1) * 15 / 16)) / 2, 1e-12);
    brasa_trainer_options next = resumed(&l, o.out);
    next.epochs = 4;
    CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    CHECK_CLOSE(l.last.learning_rate, 0.05 * (1 + cos(acos(-1) * 31 / 32)) / 2, 1e-12);
    CHECK_HAS(l.alarms, "the cosine ends with epoch 4 now, 2 before");
    size_t bytes;
    char *text = file_of(o.out, RUN_FILE, &bytes);
    CHECK_HAS(text, "\"schedule\":\"cosine\"");
    free(text);
    CASE("folds with 1 step and with 2");
    brasa_trainer_options folds = plain(&l, run_folder("cosine"));
    folds.schedule = "cosine";
    folds.data = "synth:letter,n=100";
    folds.split = NULL;
    folds.folds = 3;
    folds.no_stratify = true;
    folds.batch = 66;
    folds.epochs = 1;
    CHECK_STATUS(train(ctx, &folds, &r), BRASA_OK);
    CHECK_CLOSE(l.last.learning_rate, 0.025, 1e-12);
}

TEST(resume_drops_a_torn_line)
{
    heard l;
    brasa_trainer_result r;
    const char *whole = run_folder("whole");
    brasa_trainer_options o = plain(&l, whole);
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    brasa_trainer_options cut = plain(&l, run_folder("torn"));
    l.stop_at = 10;
    CHECK_STATUS(train(ctx, &cut, &r), BRASA_OK);
    char path[500];
    snprintf(path, sizeof path, "%s/%s", cut.out, EPOCHS_FILE);
    FILE *f = fopen(path, "a");
    REQUIRE(f);
    fputs("{\"epoch\":2,\"loss\":1}\n{\"epoch\":3,\"lo", f);
    fclose(f);
    brasa_trainer_options next = {.resume = cut.out};
    CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    CHECK(same_file(whole, cut.out, WEIGHTS_FILE));
    size_t bytes = 0;
    char *text = file_of(cut.out, EPOCHS_FILE, &bytes);
    int lines = 0;
    for (size_t i = 0; text && i < bytes; i++)
        lines += text[i] == '\n';
    CHECK_INT(lines, 3);
    free(text);
}

/* Samples are split in their order; those that train are shuffled in each epoch all the same, by the seed. */
TEST(no_shuffle_is_for_the_split)
{
    heard l;
    brasa_trainer_result r;
    const char *runs[] = {run_folder("first"), run_folder("seed-1"), run_folder("seed-2")};
    char model[300], weights[400];
    strcpy(model, in_folder("still.net"));
    static const char text[] = "input 16\nclassify 26 name=b\n";
    write_file(model, text, sizeof text - 1);
    snprintf(weights, sizeof weights, "%s/" WEIGHTS_FILE, runs[0]);
    for (int seed = 0; seed < 3; seed++) {
        brasa_trainer_options o = plain(&l, runs[seed]);
        o.model = model;
        o.no_shuffle = o.no_stratify = true;
        o.weights = seed ? weights : NULL;
        o.seed = seed;
        o.keep = "last";
        CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    }
    CHECK(same_file(runs[1], runs[2], SPLIT_FILE));
    CHECK(!same_file(runs[1], runs[2], WEIGHTS_FILE));
}

/* --- folds, patience, weights -------------------------------------------------------------------------------- */

TEST(folds)
{
    heard l;
    brasa_trainer_result r;
    brasa_trainer_options o = plain(&l, run_folder("folds"));
    o.split = NULL;
    o.folds = 4;
    o.epochs = 6;
    o.optimizer = "adam lr=0.02"; /* learns enough to raise no alarm, which would be memory, too */
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_INT(r.folds, 4);
    CHECK_INT(l.count[BRASA_ON_FOLD], 4);
    CHECK_TEXT(l.alarms, "");
    double sum = 0, square = 0;
    for (int k = 1; k <= 4; k++) {
        char fold[500];
        run_outcome one;
        snprintf(fold, sizeof fold, "%s/fold-%02d", o.out, k);
        CHECK_STATUS(run_outcome_read(ctx, fold, &one), BRASA_OK);
        sum += one.accuracy / 4;
        square += one.accuracy * one.accuracy;
    }
    CHECK_CLOSE(r.accuracy, sum, 1e-8);
    CHECK_CLOSE(r.spread, sqrt((square - 4 * sum * sum) / 3), 1e-7);
    CASE("memory is given back after each");
    for (int k = 1; k < 4; k++)
        CHECK_INT(l.live[k], l.live[0]);
    CASE("one alone is the same as in the row");
    brasa_trainer_options one = o;
    one.out = run_folder("fold");
    l = (heard){0};
    one.fold = 3;
    CHECK_STATUS(train(ctx, &one, &r), BRASA_OK);
    char a[500], b[500];
    snprintf(a, sizeof a, "%s/fold-03", o.out);
    snprintf(b, sizeof b, "%s/fold-03", one.out);
    CHECK(same_file(a, b, WEIGHTS_FILE));
    CASE("stopped in the third, and gone on");
    brasa_trainer_options cut = o;
    cut.out = run_folder("fold");
    l = (heard){0};
    l.stop_at = 2 * 6 * 8 + 5;
    CHECK_STATUS(train(ctx, &cut, &r), BRASA_OK);
    CHECK(r.stopped);
    brasa_trainer_options next = resumed(&l, cut.out);
    CHECK_STATUS(train(ctx, &next, &r), BRASA_OK);
    CHECK_INT(l.count[BRASA_ON_STEP], 2 * 6 * 8 - 5);
    CHECK_CLOSE(r.accuracy, sum, 1e-8);
}

TEST(patience_and_keep)
{
    heard l;
    brasa_trainer_result r;
    brasa_trainer_options o = plain(&l, run_folder("p"));
    o.epochs = 50;
    o.optimizer = "sgd lr=1e-12"; /* never gets better */
    o.patience = 4;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_INT(l.count[BRASA_ON_EPOCH], 5);
    CHECK_HAS(l.notes, "no epoch since epoch 1 was better");
    CASE("nothing to tell the best by");
    brasa_trainer_options all = plain(&l, run_folder("p"));
    all.split = "all";
    all.keep = "best";
    CHECK_STATUS(train(ctx, &all, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "keep: there are no samples");
    all.keep = "some";
    CHECK_STATUS(train(ctx, &all, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "expected best, last or a number");
    all.keep = NULL;
    CHECK_STATUS(train(ctx, &all, &r), BRASA_OK);
    CHECK(isnan(r.accuracy) && run_has(all.out, WEIGHTS_FILE));
}

/* Weights of another number of classes: all but the head is taken. */
TEST(weights_with_another_head)
{
    heard l;
    brasa_trainer_result r;
    char weights[500], csv[4000] = "";
    brasa_trainer_options o = plain(&l, run_folder("w"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    snprintf(weights, sizeof weights, "%s/%s", o.out, WEIGHTS_FILE);
    for (int i = 0; i < 40; i++)
        sprintf(csv + strlen(csv), "%s,%d,2,3,4,5,6,7,8,9,10,11,12,13,14,15,%d\n", i % 2 ? "no" : "yes", i % 7,
                i % 5);
    const char *file = in_folder("two.csv");
    write_file(file, csv, strlen(csv));
    char spec[400];
    snprintf(spec, sizeof spec, "csv:%s,label=1,header=no", file);
    brasa_trainer_options two = plain(&l, run_folder("v"));
    two.data = spec;
    two.weights = weights;
    two.optimizer = "sgd lr=1e-12";
    two.epochs = 1;
    CHECK_STATUS(train(ctx, &two, &r), BRASA_OK);
    CHECK_HAS(l.notes, "4 tensors taken");
    CHECK_HAS(l.notes, "'fc3.weight' (26x22 F32, not 2x22 F32)");
    CASE("no weights of this network");
    two.out = run_folder("v");
    two.model = net();
    CHECK_STATUS(train(ctx, &two, &r), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "missing");
}

TEST(freeze)
{
    heard l;
    brasa_trainer_result r;
    char weights[500];
    brasa_trainer_options o = plain(&l, run_folder("w"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    snprintf(weights, sizeof weights, "%s/%s", o.out, WEIGHTS_FILE);
    brasa_trainer_options tuned = plain(&l, run_folder("v"));
    tuned.weights = weights;
    tuned.freeze = "fc1.*, fc2.weight";
    CHECK_STATUS(train(ctx, &tuned, &r), BRASA_OK);
    CHECK(most_apart(o.out, tuned.out, "fc1.weight", 50 * 16) == 0);
    CHECK(most_apart(o.out, tuned.out, "fc1.bias", 50) == 0);
    CHECK(most_apart(o.out, tuned.out, "fc2.weight", 22 * 50) == 0);
    CHECK(most_apart(o.out, tuned.out, "fc2.bias", 22) > 0);
    CHECK(most_apart(o.out, tuned.out, "fc3.weight", 26 * 22) > 0);
    CASE("no such parameter");
    tuned.freeze = "fx1.*";
    tuned.out = run_folder("v");
    CHECK_STATUS(train(ctx, &tuned, &r), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "no parameter is called 'fx1.*'");
}
