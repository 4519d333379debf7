/* test_train.c - trainings from beginning to end: what they learn, what they leave behind, how they go on after a
 * stop, what they warn of, and that they give back all they took. Small networks and drawn data, on one thread. */
#define _GNU_SOURCE
#include "counted.h"

#include "train/record.h"
#include "train/trained.h"

#include <ftw.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)type;
    (void)f;
    return remove(path);
}

static void remove_runs(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* An empty place for a run. The text stays: one for each name. */
static const char *run_folder(const char *name)
{
    static char paths[32][300];
    int i = 0;
    const char *path = in_folder(name);
    while (paths[i][0] && strcmp(paths[i], path) != 0)
        i++;
    if (!paths[0][0])
        atexit(remove_runs);
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return strcpy(paths[i], path);
}

/* What was told, and a wish to stop after so many steps or at the n-th test. */
typedef struct heard {
    int count[TRAIN_FOLD + 1];
    char alarms[4000], notes[2000];
    train_figures last;
    int stop_at;                    /* steps; 0: never */
    int live[8];                    /* blocks of memory at the end of each fold */
    int calls;                      /* of the allocator, when the last step of this epoch was told */
    int greedy;                     /* steps that asked for memory */
    int64_t parts, session, loader; /* as planned: of a batch, and bytes */
    volatile sig_atomic_t stop;
} heard;

static void listen_to(void *user, const train_event *e)
{
    heard *l = user;
    if (e->kind == TRAIN_FOLD)
        l->live[l->count[TRAIN_FOLD] % 8] = memory.live;
    l->count[e->kind]++;
    if (e->kind == TRAIN_STEP && e->training->unit.place.done > 1)
        l->greedy += memory.calls != l->calls;
    l->calls = memory.calls;
    if (e->kind == TRAIN_BEGIN) {
        l->parts = e->training->unit.parts;
        l->session = (int64_t)e->training->unit.memory.total;
        l->loader = e->training->unit.loader_bytes;
    }
    if (e->kind == TRAIN_EPOCH)
        l->last = *e->figures;
    if (e->kind == TRAIN_ALARM)
        strcat(strcat(l->alarms, e->text), "\n");
    if (e->kind == TRAIN_NOTE)
        strcat(strcat(l->notes, e->text), "\n");
    if (e->kind == TRAIN_STEP && l->count[TRAIN_STEP] == l->stop_at)
        l->stop = 1;
}

static const char net_text[] = "input 16\n"
                               "dense 24 name=a\n"
                               "relu\n"
                               "dropout 0.1\n"
                               "classify 26 name=b\n";

static const char *net(void)
{
    static char path[300];
    strcpy(path, in_folder("test.net"));
    write_file(path, net_text, sizeof net_text - 1);
    return path;
}

static train_options plain(heard *l, const char *out)
{
    *l = (heard){0};
    return (train_options){.settings = {.model = "letter_mlp",
                                        .data = "synth:letter,n=520",
                                        .split = "70/30",
                                        .epochs = 3,
                                        .batch = 50,
                                        .optimizer = "sgd lr=0.05 momentum=0.9"},
                           .out = out,
                           .watch = listen_to,
                           .user = l,
                           .stop = &l->stop};
}

static char *file_of(const char *run, const char *name, size_t *bytes)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", run, name);
    return read_file(path, bytes);
}

static bool same_file(const char *a, const char *b, const char *name)
{
    size_t x = 0, y = 0;
    char *first = file_of(a, name, &x), *second = file_of(b, name, &y);
    const bool same = first && second && x == y && memcmp(first, second, x) == 0;
    free(first);
    free(second);
    return same;
}

/* --- figures ------------------------------------------------------------------------------------------------- */

TEST(metrics_count)
{
    start();
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
    const class_metrics zero = metrics_class(&m, 0), six = metrics_class(&m, 6);
    CHECK_INT(zero.samples, 2);
    CHECK_INT(zero.predicted, 4);
    CHECK_CLOSE(zero.precision, 0.5, 0);
    CHECK_CLOSE(zero.recall, 1, 0);
    CHECK(isnan(six.precision) && six.recall == 0);
    metrics_reset(&m);
    CHECK(m.count == 0 && m.confusion[0] == 0);
    REQUIRE(metrics_init(&m, &p, MOST_CONFUSED + 1) == BRASA_OK);
    CHECK(!m.confusion);
    pool_free(&p);
    stop();
}

/* --- what a run leaves behind -------------------------------------------------------------------------------- */

TEST(trains_and_records)
{
    start();
    heard l;
    train_result r, again;
    train_options o = plain(&l, run_folder("a"));
    o.settings.epochs = 12;
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    CHECK_TEXT(r.folder, o.out);
    CHECK(r.accuracy > 0.2); /* of 26 classes */
    CHECK_INT(l.count[TRAIN_EPOCH], 12);
    CHECK_INT(l.count[TRAIN_STEP], 12 * 8);
    CHECK_INT(l.count[TRAIN_SAVED], 13);
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
    train_figures *f;
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
    REQUIRE(trained_open(ctx, o.out, 0, "", 32, &t) == BRASA_OK);
    CHECK_STATUS(split_read(t.task.set, path, &s), BRASA_OK);
    CHECK_STATUS(metrics_init(&m, &q, 26), BRASA_OK);
    CHECK_STATUS(trained_measure(&t, s.test, s.tests, &m), BRASA_OK);
    CHECK_CLOSE(metrics_top1(&m), r.accuracy, 0.01); /* other kernels may see a tie otherwise */
    split_free(&s);
    pool_free(&q);
    trained_close(&t);

    CASE("the same again");
    train_options same = plain(&l, run_folder("b"));
    same.settings.epochs = 12;
    CHECK_STATUS(train_run(ctx, &same, &again), BRASA_OK);
    CHECK(same_file(o.out, same.out, WEIGHTS_FILE));
    CHECK(same_file(o.out, same.out, SPLIT_FILE));
    CASE("another seed");
    train_options other = plain(&l, run_folder("b"));
    other.settings.epochs = 12;
    other.settings.seed = 1;
    CHECK_STATUS(train_run(ctx, &other, &again), BRASA_OK);
    CHECK(!same_file(o.out, other.out, WEIGHTS_FILE));
    CASE("a folder that has a run");
    CHECK_STATUS(train_run(ctx, &other, &again), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "there is a run already");
    stop();
}

/* Every setting comes back from run.json as it was. */
TEST(settings_come_back)
{
    start();
    heard l;
    train_result r;
    train_options o = plain(&l, run_folder("s"));
    o.settings = (train_settings){.model = net(),
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
                                  .mem = INT64_C(1) << 33,
                                  .deterministic = true,
                                  .no_stratify = true,
                                  .no_augment = true};
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    run_info i;
    REQUIRE(run_read(ctx, o.out, &i) == BRASA_OK);
    const train_settings *s = &i.settings;
    CHECK_TEXT(s->model, o.settings.model);
    CHECK_TEXT(s->data, "synth:letter,n=260");
    CHECK_TEXT(s->split, "80/20");
    CHECK_TEXT(s->transform, "");
    CHECK_TEXT(s->dialect, "keras2");
    CHECK_TEXT(s->optimizer, "rmsprop lr=0.001");
    CHECK_TEXT(s->schedule, "cosine warmup=2 steps=28"); /* 208 samples in 7 steps, four times */
    CHECK_TEXT(s->keep, "2");
    CHECK(!s->weights && s->epochs == 4 && s->batch == 33 && s->seed == INT64_C(1) << 61 && s->patience == 9);
    CHECK(s->folds == 0 && s->threads == 1 && s->no_stratify && s->no_augment && !s->no_shuffle && !s->skip_bad);
    CHECK_CLOSE(s->clip_norm, 1.0 / 3, 1e-9);
    CHECK_CLOSE(s->save_every, 0.5, 0);
    CHECK_TEXT(s->freeze, "a.weight");
    CHECK_TEXT(s->class_weights, "balanced");
    CHECK(s->mem == INT64_C(1) << 33 && s->deterministic);
    CHECK_INT(i.classes, 26);
    CHECK_TEXT(i.class_name[25], "Z");
    CHECK_INT(strlen(i.hash), 64);
    CHECK_HAS(i.model, MODEL_FILE);
    CASE("two checkpoints are kept");
    CHECK(!run_has(o.out, "checkpoint-2.safetensors") && run_has(o.out, "checkpoint-3.safetensors") &&
          run_has(o.out, "checkpoint-4.safetensors"));
    run_free(&i);
    stop();
}

/* --- going on ------------------------------------------------------------------------------------------------ */

/* Stopped after any number of steps, as often as wished, a run ends with the same bits. */
TEST(resume_is_exact)
{
    start();
    heard l;
    train_result r;
    const char *whole = run_folder("whole");
    train_options o = plain(&l, whole);
    o.settings.model = net();
    o.settings.optimizer = "adam";
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    const double accuracy = r.accuracy;
    static const int stops[][2] = {{1, 0}, {7, 0}, {8, 0}, {9, 0}, {3, 3}, {8, 8}, {20, 4}, {23, 0}, {24, 0}};
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        CASE("after %d steps, then %d", stops[i][0], stops[i][1]);
        train_options first = plain(&l, run_folder("parts"));
        first.settings = o.settings;
        l.stop_at = stops[i][0];
        CHECK_STATUS(train_run(ctx, &first, &r), BRASA_OK);
        CHECK(r.stopped);
        CHECK(!run_has(first.out, RESULT_FILE));
        for (int turn = stops[i][1] ? 1 : 0; turn >= 0; turn--) {
            train_options next = {.resume = first.out, .watch = listen_to, .user = &l, .stop = &l.stop};
            l = (heard){.stop_at = turn ? stops[i][1] : 0};
            CHECK_STATUS(train_run(ctx, &next, &r), BRASA_OK);
            CHECK(r.stopped == (turn > 0));
        }
        CHECK(same_file(whole, first.out, WEIGHTS_FILE));
        CHECK_CLOSE(r.accuracy, accuracy, 0);
        CHECK_TEXT(l.alarms, "");
    }
    CASE("a run that is over");
    train_options next = {.resume = whole, .watch = listen_to, .user = &l, .stop = &l.stop};
    l = (heard){0};
    CHECK_STATUS(train_run(ctx, &next, &r), BRASA_OK);
    CHECK_INT(l.count[TRAIN_STEP], 0);
    CHECK_CLOSE(r.accuracy, accuracy, 1e-8);
    CASE("more epochs");
    next.settings.epochs = 5;
    l.stop_at = 3;
    CHECK_STATUS(train_run(ctx, &next, &r), BRASA_OK);
    CHECK(r.stopped && !run_has(whole, RESULT_FILE));
    next.settings.epochs = 0;
    l = (heard){0};
    CHECK_STATUS(train_run(ctx, &next, &r), BRASA_OK);
    CHECK_INT(l.count[TRAIN_EPOCH], 2);
    train_options long_one = plain(&l, run_folder("parts"));
    long_one.settings = o.settings;
    long_one.settings.epochs = 5;
    CHECK_STATUS(train_run(ctx, &long_one, &r), BRASA_OK);
    CHECK(same_file(whole, long_one.out, WEIGHTS_FILE));
    stop();
}

/* Changes a file of a run that was stopped; it then must refuse to go on, or say why it goes on otherwise. */
static void spoil(const char *name, const char *find, const char *put, brasa_status expected, const char *said)
{
    heard l;
    train_result r;
    CASE("%s: %s", name, said);
    train_options o = plain(&l, run_folder("spoilt"));
    l.stop_at = 10;
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    size_t bytes = 0;
    char *text = file_of(o.out, name, &bytes), path[500];
    char *at = text ? memmem(text, bytes, find, strlen(find)) : NULL;
    if (CHECK(at && strlen(find) == strlen(put))) {
        memcpy(at, put, strlen(put));
        snprintf(path, sizeof path, "%s/%s", o.out, name);
        write_file(path, text, bytes);
    }
    free(text);
    train_options next = {.resume = o.out, .watch = listen_to, .user = &l, .stop = &l.stop};
    l = (heard){0};
    CHECK_STATUS(train_run(ctx, &next, &r), expected);
    CHECK_HAS(expected == BRASA_OK ? l.alarms : brasa_context_error(ctx), said);
}

TEST(resume_notices_changes)
{
    start();
    spoil(RUN_FILE, "\"batch\":50", "\"batch\":40", BRASA_BAD_FILE, "settings are not those");
    spoil(RUN_FILE, "\"deterministic\":false", "\"deterministic\":true ", BRASA_BAD_FILE, "settings are not those");
    spoil(RUN_FILE, "n=520", "n=521", BRASA_BAD_FILE, "the data are not those that the run began with");
    spoil(RUN_FILE, "\"settings\"", "\"suttings\"", BRASA_BAD_FILE, "not the account of a run");
    spoil(RUN_FILE, "\"epochs\":3", "\"epochs\":x", BRASA_BAD_FILE, "expected a whole number");
    spoil(CHECKPOINT_FILE, "\"threads\":\"1\"", "\"threads\":\"4\"", BRASA_OK, "1 threads now, 4 before");
    spoil(CHECKPOINT_FILE, "dense_", "densx_", BRASA_OK, "other kernels now");
    spoil(CHECKPOINT_FILE, "\"done\"", "\"dona\"", BRASA_BAD_FILE, "its note 'done' is missing");
    spoil(CHECKPOINT_FILE, "\"done\":\"2\"", "\"done\":\"x\"", BRASA_BAD_FILE, "its note 'done' is no number");
    spoil(EPOCHS_FILE, "\"epoch\":1", "\"epoch\":2", BRASA_BAD_FILE, "0 epochs, but the checkpoint was made after 1");
    stop();
}

TEST(resume_drops_a_torn_line)
{
    start();
    heard l;
    train_result r;
    const char *whole = run_folder("whole");
    train_options o = plain(&l, whole);
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    train_options cut = plain(&l, run_folder("torn"));
    l.stop_at = 10;
    CHECK_STATUS(train_run(ctx, &cut, &r), BRASA_OK);
    char path[500];
    snprintf(path, sizeof path, "%s/%s", cut.out, EPOCHS_FILE);
    FILE *f = fopen(path, "a");
    REQUIRE(f);
    fputs("{\"epoch\":2,\"loss\":1}\n{\"epoch\":3,\"lo", f);
    fclose(f);
    train_options next = {.resume = cut.out};
    CHECK_STATUS(train_run(ctx, &next, &r), BRASA_OK);
    CHECK(same_file(whole, cut.out, WEIGHTS_FILE));
    size_t bytes = 0;
    char *text = file_of(cut.out, EPOCHS_FILE, &bytes);
    int lines = 0;
    for (size_t i = 0; text && i < bytes; i++)
        lines += text[i] == '\n';
    CHECK_INT(lines, 3);
    free(text);
    stop();
}

/* --- folds, patience, weights -------------------------------------------------------------------------------- */

TEST(folds)
{
    start();
    heard l;
    train_result r;
    train_options o = plain(&l, run_folder("folds"));
    o.settings.split = NULL;
    o.settings.folds = 4;
    o.settings.epochs = 6;
    o.settings.optimizer = "adam lr=0.02"; /* learns enough to raise no alarm, which would be memory, too */
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    CHECK_INT(r.units, 4);
    CHECK_INT(l.count[TRAIN_FOLD], 4);
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
    train_options one = plain(&l, run_folder("fold"));
    one.settings = o.settings;
    one.settings.fold = 3;
    CHECK_STATUS(train_run(ctx, &one, &r), BRASA_OK);
    char a[500], b[500];
    snprintf(a, sizeof a, "%s/fold-03", o.out);
    snprintf(b, sizeof b, "%s/fold-03", one.out);
    CHECK(same_file(a, b, WEIGHTS_FILE));
    CASE("stopped in the third, and gone on");
    train_options cut = plain(&l, run_folder("fold"));
    cut.settings = o.settings;
    l.stop_at = 2 * 6 * 8 + 5;
    CHECK_STATUS(train_run(ctx, &cut, &r), BRASA_OK);
    CHECK(r.stopped);
    train_options next = {.resume = cut.out, .watch = listen_to, .user = &l};
    l = (heard){0};
    CHECK_STATUS(train_run(ctx, &next, &r), BRASA_OK);
    CHECK_INT(l.count[TRAIN_STEP], 2 * 6 * 8 - 5);
    CHECK_CLOSE(r.accuracy, sum, 1e-8);
    stop();
}

TEST(patience_and_keep)
{
    start();
    heard l;
    train_result r;
    train_options o = plain(&l, run_folder("p"));
    o.settings.epochs = 50;
    o.settings.optimizer = "sgd lr=1e-12"; /* never gets better */
    o.settings.patience = 4;
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    CHECK_INT(l.count[TRAIN_EPOCH], 5);
    CHECK_HAS(l.notes, "no epoch since epoch 1 was better");
    CASE("nothing to tell the best by");
    train_options all = plain(&l, run_folder("p"));
    all.settings.split = "all";
    all.settings.keep = "best";
    CHECK_STATUS(train_run(ctx, &all, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "keep: there are no samples");
    all.settings.keep = "some";
    CHECK_STATUS(train_run(ctx, &all, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "expected best, last or a number");
    all.settings.keep = NULL;
    CHECK_STATUS(train_run(ctx, &all, &r), BRASA_OK);
    CHECK(isnan(r.accuracy) && run_has(all.out, WEIGHTS_FILE));
    stop();
}

/* Weights of another number of classes: all but the head is taken. */
TEST(weights_with_another_head)
{
    start();
    heard l;
    train_result r;
    char weights[500], csv[4000] = "";
    train_options o = plain(&l, run_folder("w"));
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    snprintf(weights, sizeof weights, "%s/%s", o.out, WEIGHTS_FILE);
    for (int i = 0; i < 40; i++)
        sprintf(csv + strlen(csv), "%s,%d,2,3,4,5,6,7,8,9,10,11,12,13,14,15,%d\n", i % 2 ? "no" : "yes", i % 7,
                i % 5);
    const char *file = in_folder("two.csv");
    write_file(file, csv, strlen(csv));
    char spec[400];
    snprintf(spec, sizeof spec, "csv:%s,label=1,header=no", file);
    train_options two = plain(&l, run_folder("v"));
    two.settings.data = spec;
    two.settings.weights = weights;
    two.settings.optimizer = "sgd lr=1e-12";
    two.settings.epochs = 1;
    CHECK_STATUS(train_run(ctx, &two, &r), BRASA_OK);
    CHECK_HAS(l.notes, "4 tensors taken");
    CHECK_HAS(l.notes, "'fc3.weight' (26x22 F32, not 2x22 F32)");
    CASE("no weights of this network");
    two.out = run_folder("v");
    two.settings.model = net();
    CHECK_STATUS(train_run(ctx, &two, &r), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "missing");
    stop();
}

/* All that a run has learned of one parameter; to be freed. */
static float *learned(const char *run, const char *name, int64_t count)
{
    trained t;
    float *data = calloc((size_t)count, sizeof *data);
    CHECK_STATUS(trained_open(ctx, run, 0, NULL, 1, &t), BRASA_OK);
    if (t.session)
        CHECK_STATUS(brasa_param_get(t.session, name, data, count), BRASA_OK);
    trained_close(&t);
    return data;
}

static double most_apart(const char *a, const char *b, const char *name, int64_t count)
{
    float *x = learned(a, name, count), *y = learned(b, name, count);
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)x[i] - (double)y[i]));
    free(x);
    free(y);
    return most;
}

TEST(freeze)
{
    start();
    heard l;
    train_result r;
    char weights[500];
    train_options o = plain(&l, run_folder("w"));
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    snprintf(weights, sizeof weights, "%s/%s", o.out, WEIGHTS_FILE);
    train_options tuned = plain(&l, run_folder("v"));
    tuned.settings.weights = weights;
    tuned.settings.freeze = "fc1.*, fc2.weight";
    CHECK_STATUS(train_run(ctx, &tuned, &r), BRASA_OK);
    CHECK(most_apart(o.out, tuned.out, "fc1.weight", 50 * 16) == 0);
    CHECK(most_apart(o.out, tuned.out, "fc1.bias", 50) == 0);
    CHECK(most_apart(o.out, tuned.out, "fc2.weight", 22 * 50) == 0);
    CHECK(most_apart(o.out, tuned.out, "fc2.bias", 22) > 0);
    CHECK(most_apart(o.out, tuned.out, "fc3.weight", 26 * 22) > 0);
    CASE("no such parameter");
    tuned.settings.freeze = "fx1.*";
    tuned.out = run_folder("v");
    CHECK_STATUS(train_run(ctx, &tuned, &r), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "no parameter is called 'fx1.*'");
    stop();
}

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
    CHECK(l.session + l.loader <= session / 2);
    CHECK_INT(l.greedy, 0);
    CHECK(!same_file(whole, divided, WEIGHTS_FILE)); /* sums of sums are rounded differently */
    CHECK(most_apart(whole, divided, "a.weight", 72) < 1e-6);
    CHECK(most_apart(whole, divided, "b.weight", 10 * 8 * 13 * 13) < 1e-6);
    CHECK(most_apart(whole, divided, "b.bias", 10) < 1e-6);

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
    REQUIRE(trained_open(ctx, o.out, 0, NULL, 1, &t) == BRASA_OK);
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
    }
    CASE("a run that is not there");
    train_result r;
    train_options o = {.resume = in_folder("nothing")};
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "No such file");
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
