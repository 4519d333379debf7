/* test_train_device.c - trainings on a device, as far as it is the host's business: what is in the queue before it is
 * looked at, in which order, and when it is answered. See train_device.h; pictures are in test_train_pictures.c. */
#define _GNU_SOURCE
#include "train_device.h"

#include <pthread.h>

/* --- late answers ---------------------------------------------------------------------------------------------- */

typedef struct watcher {
    heard heard; /* first: listen_to's user */
    int most;    /* answers that were waiting when a step was told */
} watcher;

static bool watch_queue(void *user, const brasa_progress *p)
{
    watcher *w = user;
    if (p->event == BRASA_ON_STEP && pending_count(p->trainer->unit.pending) > w->most)
        w->most = pending_count(p->trainer->unit.pending);
    return listen_to(user, p);
}

TEST(steps_are_started_before_the_last_ones_are_answered)
{
    DEVICE_OR_SKIP();
    brasa_epoch last[2] = {{0}};
    static const char *const devices[] = {"cpu", "cuda"};
    const char *runs[2] = {run_folder("cpu"), run_folder("cuda")};
    for (int i = 0; i < 2; i++) {
        CASE("%s", devices[i]);
        start_on(devices[i]);
        watcher w = {.most = 0};
        brasa_trainer_result r;
        brasa_trainer_options o = plain(&w.heard, runs[i]);
        o.progress = watch_queue;
        CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
        CHECK_INT(w.most, i ? DEVICE_MOST_PENDING : 0);
        CHECK_INT(w.heard.count[BRASA_ON_STEP], 3 * 8);
        CHECK_INT(w.heard.count[BRASA_ON_SAVE], 4);
        if (!device_wanted()) /* a real one makes its record of a program's second run */
            CHECK_INT(w.heard.greedy, 0);
        last[i] = w.heard.last;
        stop();
    }
    CASE("the same figures");
    CHECK_CLOSE(last[1].loss, last[0].loss, ROUNDING);
    CHECK_CLOSE(last[1].accuracy, last[0].accuracy, 0.01);
    CHECK_CLOSE(last[1].test_loss, last[0].test_loss, ROUNDING);
    CHECK(last[1].learning_rate == last[0].learning_rate);
    start_on("cpu");
    CHECK(most_apart(runs[0], runs[1], "fc3.weight", 26 * 22) <= ROUNDING);
    stop();
}

/* As a GPU does that has no memory left to record a step. */
TEST(warnings_are_told_once)
{
    HOST_OR_SKIP();
    heard l;
    brasa_trainer_result r;
    setenv("FAKE_CUDA_WARNING", "it takes longer", 1);
    start_on("cuda");
    brasa_trainer_options o = plain(&l, run_folder("warned"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_HAS(l.notes, "it takes longer");
    CHECK(!strstr(strstr(l.notes, "longer") + 1, "longer"));
    stop();
    unsetenv("FAKE_CUDA_WARNING");
}

/* A schedule tells of each step which rate it had. */
TEST(rates)
{
    DEVICE_OR_SKIP();
    double rates[2] = {0};
    static const char *const devices[] = {"cpu", "cuda"};
    for (int i = 0; i < 2; i++) {
        start_on(devices[i]);
        heard l;
        brasa_trainer_result r;
        brasa_trainer_options o = plain(&l, run_folder(i ? "cuda" : "cpu"));
        o.schedule = "cosine";
        CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
        rates[i] = l.last.learning_rate;
        stop();
    }
    CHECK(rates[0] == rates[1] && rates[0] > 0);
}

TEST(stopped_and_gone_on)
{
    DEVICE_OR_SKIP();
    start_on("cuda");
    heard l;
    brasa_trainer_result r;
    brasa_trainer_options whole = plain(&l, run_folder("whole"));
    CHECK_STATUS(train(ctx, &whole, &r), BRASA_OK);
    for (int at = 1; at < 3 * 8; at += 5) {
        CASE("after %d steps", at);
        brasa_trainer_options o = plain(&l, run_folder("stopped"));
        l.stop_at = at;
        CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
        CHECK(r.stopped);
        CHECK(l.count[BRASA_ON_STEP] >= at && l.count[BRASA_ON_STEP] <= at + DEVICE_MOST_PENDING);
        brasa_trainer_options on = resumed(&l, o.out);
        CHECK_STATUS(train(ctx, &on, &r), BRASA_OK);
        CHECK(!r.stopped);
        CHECK(same_file(whole.out, o.out, WEIGHTS_FILE));
        CHECK(same_file(whole.out, o.out, CHECKPOINT_FILE));
    }
    stop();
}

/* What is kept was counted: no step is in the checkpoint that is not in its figures. */
TEST(saved_after_each_step)
{
    DEVICE_OR_SKIP();
    start_on("cuda");
    heard l;
    brasa_trainer_result r;
    brasa_trainer_options o = plain(&l, run_folder("whole")), often = plain(&l, run_folder("often"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    often.save_every = 1e-9;
    CHECK_STATUS(train(ctx, &often, &r), BRASA_OK);
    CHECK(l.count[BRASA_ON_SAVE] > 3 * 8 / (DEVICE_MOST_PENDING + 1));
    CHECK(same_file(o.out, often.out, WEIGHTS_FILE));
    stop();
}

/* Told some steps later, but of the same step and the same node, and nothing bad is on file. */
TEST(numbers_that_are_not_finite)
{
    DEVICE_OR_SKIP();
    static const char deep[] = "input 16\ndense 9 name=a\ndense 9 name=c\ndense 9 name=d\ndense 9 name=e\n"
                               "classify 26 name=b\n"; /* as in test_train_limits.c */
    char said[2][1000] = {""};
    static const char *const devices[] = {"cpu", "cuda"};
    for (int i = 0; i < 2; i++) {
        CASE("%s", devices[i]);
        start_on(devices[i]);
        heard l;
        brasa_trainer_result r;
        brasa_trainer_options o = plain(&l, run_folder("bad"));
        o.model = in_folder("deep.net");
        write_file(o.model, deep, sizeof deep - 1);
        o.optimizer = "sgd lr=1000000 momentum=0.9";
        o.keep = "last";
        CHECK_STATUS(train(ctx, &o, &r), BRASA_WRONG_STATE);
        snprintf(said[i], sizeof said[i], "%.900s", brasa_context_error(ctx));
        CHECK_HAS(said[i], "not finite");
        CHECK(run_has(o.out, CHECKPOINT_FILE) && run_has(o.out, RESULT_FILE));
        stop();
    }
    if (!device_wanted()) /* where rounding decides which step it is */
        CHECK_TEXT(said[1], said[0]);
}

/* Of 5 channels, 3 from the second one on, in 2 samples of 2 x 2 pixels: what lies between is another's. */
TEST(parts_that_are_not_finite)
{
    DEVICE_OR_SKIP();
    enum { WHOLE = 2 * 5 * 4 };
    static const char *const devices[] = {"cpu", "cuda"};
    for (int i = 0; i < 4; i++) {
        const bool pixels = i & 1;
        CASE("%s, %s", devices[i / 2], pixels ? "channels side by side" : "plain");
        start_on(devices[i / 2]);
        char *whole = tensors_get(ctx, WHOLE * sizeof(float));
        REQUIRE(whole);
        const arg part = {.data = whole + (pixels ? 1 : 4) * sizeof(float),
                          .shape = shape_4(2, 3, 2, 2),
                          .count = 2 * 3 * 4,
                          .sample = 5 * 4,
                          .pixel = 5,
                          .format.storage = F32,
                          .format.layout = {.permuted = pixels, .order = {0, 2, 3, 1}}};
        for (int bad = 0; bad < WHOLE; bad++) {
            float values[WHOLE] = {0};
            const int channel = pixels ? bad % 5 : bad % 20 / 4;
            bool finite = false;
            values[bad] = INFINITY;
            CHECK_STATUS(device_copy_in(ctx, whole, values, sizeof values), BRASA_OK);
            CHECK_STATUS(output_finite(ctx, &part, &finite), BRASA_OK);
            CHECK(finite == (channel < 1 || channel > 3));
        }
        tensors_put(ctx, whole);
        stop();
    }
}

TEST(batches_in_parts)
{
    DEVICE_OR_SKIP();
    start_on("cuda");
    heard l;
    brasa_trainer_result r;
    char path[300];
    brasa_trainer_options o = pictures(&l, run_folder("whole"), picture_net(path, "p.net", ""));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    const int64_t session = l.session;
    brasa_trainer_options parts = pictures(&l, run_folder("parts"), path);
    parts.memory_limit = session * 3 / 4;
    CHECK_STATUS(train(ctx, &parts, &r), BRASA_OK);
    CHECK(l.parts > 1);
    CHECK(most_apart(o.out, parts.out, "b.weight", 10 * 8 * 13 * 13) <= ROUNDING);
    stop();
}

typedef struct evaluation {
    pending *pending;
    int most; /* of them that were waiting when a batch was about to begin */
} evaluation;

static bool watch_evaluation(void *user, int64_t done, int64_t total)
{
    evaluation *e = user;
    CHECK(done < total);
    const int waiting = pending_count(e->pending);
    e->most = waiting > e->most ? waiting : e->most;
    return true;
}

/* One batch after the other, each waited for. */
static void measure_slowly(trained *t, loader *l, metrics *m)
{
    static float logits[50 * 26];
    metrics_reset(m);
    CHECK_STATUS(loader_seek(l, 0, 0), BRASA_OK);
    for (int64_t i = 0; i < loader_steps(l); i++) {
        const batch *b = NULL;
        CHECK_STATUS(task_next(&t->task, l, &b), BRASA_OK);
        if (!b)
            return;
        CHECK_STATUS(brasa_use(t->session, false, b->size), BRASA_OK);
        CHECK_STATUS(task_feed(&t->task, t->session, b), BRASA_OK);
        CHECK_STATUS(brasa_evaluate(t->session), BRASA_OK);
        CHECK_STATUS(brasa_fetch(t->session, "logits", logits, (size_t)b->size * 26 * sizeof *logits), BRASA_OK);
        metrics_add(m, logits, b->labels, b->size);
    }
}

static void measure_twice(const char *run, const char *precision)
{
    trained t;
    pool p = {.ctx = ctx};
    metrics late, slow;
    feeder *feed = NULL;
    loader *load = NULL;
    evaluation e = {.pending = NULL};
    int32_t list[520];
    for (int32_t i = 0; i < 520; i++)
        list[i] = i;
    CHECK_STATUS(trained_open(ctx, run, &(trained_options){.spec = "", .most = 50, .precision = precision}, &t),
                 BRASA_OK);
    const feeder_options f = task_feeding(&t.task, t.session);
    CHECK_STATUS(feeder_new(ctx, &f, &feed), BRASA_OK);
    CHECK_STATUS(loader_new(feed, &(loader_options){.list = list, .count = 520, .batch = 50}, &load), BRASA_OK);
    CHECK_STATUS(pending_new(ctx, 50, 26, &e.pending), BRASA_OK);
    CHECK_STATUS(metrics_init(&late, &p, 26), BRASA_OK);
    CHECK_STATUS(metrics_init(&slow, &p, 26), BRASA_OK);
    CHECK_STATUS(task_measure(&t.task, t.session, load, e.pending, &late, watch_evaluation, &e), BRASA_OK);
    measure_slowly(&t, load, &slow);
    CHECK_INT(e.most, DEVICE_MOST_PENDING);
    CHECK_INT(pending_count(e.pending), 0);
    CHECK_INT(late.count, 520);
    CHECK(late.loss == slow.loss && late.top1 == slow.top1 && late.top5 == slow.top5);
    CHECK(memcmp(late.confusion, slow.confusion, 26 * 26 * sizeof *late.confusion) == 0);
    pending_free(e.pending);
    loader_free(load);
    feeder_free(feed);
    pool_free(&p);
    trained_close(&t);
}

/* What is counted is the same, in 16 bits, too. */
TEST(batches_are_evaluated_before_the_last_ones_are_counted)
{
    DEVICE_OR_SKIP();
    start_on("cuda");
    heard l;
    brasa_trainer_result r;
    brasa_trainer_options o = plain(&l, run_folder("measured"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    for (const device_row *row = device_wanted_rows(); row->name; row++) {
        CASE("%s", row->name);
        measure_twice(o.out, device_wanted() ? row->name : NULL);
    }
    stop();
}

/* Of the updates in a step that was profiled. */
typedef struct updates {
    heard heard; /* first: listen_to's user */
    int nodes;
    int64_t nanoseconds, least;
    char text[4000];
} updates;

static bool watch_updates(void *user, const brasa_progress *p)
{
    updates *u = user;
    if (p->event == BRASA_ON_PROFILE) {
        const program *of = session_program(p->trainer->unit.session, true, 50);
        for (int i = 0; i < of->nsteps; i++) {
            const step *s = &of->steps[i];
            const int64_t time = s->runs ? s->nanoseconds / s->runs : 0;
            if (strncmp(s->kernel->name, "sgd", 3) != 0)
                continue;
            u->least = u->nodes == 0 || time < u->least ? time : u->least;
            u->nodes++;
            u->nanoseconds += time;
        }
        snprintf(u->text, sizeof u->text, "%s", p->text);
    }
    return listen_to(user, p);
}

/* What a step starts together is timed together, and each node has its share of it by what it reads and writes. */
TEST(updates_are_timed_as_they_run)
{
    DEVICE_OR_SKIP();
    start_on("cuda");
    updates u = {.nodes = 0};
    brasa_trainer_result r;
    brasa_trainer_options o = plain(&u.heard, run_folder("profiled"));
    o.progress = watch_updates;
    o.profile = 4;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(u.nodes >= 4);
    CHECK_HAS(u.text, "sgd");
    if (!device_wanted()) { /* whose launches take a microsecond each; shares are cut to whole nanoseconds */
        CHECK(u.nanoseconds > 1000 - u.nodes && u.nanoseconds <= 1000);
        CHECK(u.least < 1000 / u.nodes);
    }
    stop();
}

/* --- threads --------------------------------------------------------------------------------------------------- */

typedef struct errand {
    brasa_graph *graph;
    double loss; /* of the last of some steps: the first ones are recorded, then replayed */
} errand;

static void *train_some(void *user)
{
    errand *e = user;
    brasa_session *s = NULL;
    const float x[2 * 4] = {1, 2, 3, 4, -1, 0, 2, 1};
    const int32_t labels[2] = {1, 2};
    float loss = NAN;
    const brasa_session_options o = {.size = sizeof o, .batch = 2, .optimizer = "sgd lr=0.1", .seed = 5};
    brasa_status status = brasa_session_new(e->graph, &o, &s);
    for (int i = 0; i < 4 && status == BRASA_OK; i++)
        status = brasa_train_step(s, x, labels, &loss);
    CHECK_STATUS(status, BRASA_OK);
    brasa_session_free(s);
    e->loss = (double)loss;
    return NULL;
}

/* What is on a GPU is the same from every thread, and when another GPU was opened last, where there is one. */
TEST(threads_and_gpus)
{
    DEVICE_OR_SKIP();
    start_on("cuda");
    brasa_context *other = NULL;
    pthread_t thread;
    errand here = {.graph = brasa_graph_new(ctx)}, there = here;
    brasa_classify(brasa_relu(brasa_dense(brasa_input_vector(here.graph, "x", 4), 8)), 3);
    train_some(&here);
    CHECK_STATUS(brasa_context_new(NULL, &other), BRASA_OK);
    CHECK(brasa_context_use(other, "cuda:1") == BRASA_OK || strstr(brasa_context_error(other), "numbered from 0"));
    REQUIRE(pthread_create(&thread, NULL, train_some, &there) == 0);
    pthread_join(thread, NULL);
    CHECK(isfinite(here.loss) && here.loss == there.loss);
    there.loss = NAN;
    train_some(&there);
    CHECK(here.loss == there.loss);
    brasa_graph_free(here.graph);
    brasa_context_free(other);
    stop();
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

enum { WIDE = 512, ROWS_TRAINED = 2, ROWS_EVALUATED = 4096, ROWS_TOO_MANY = 4 * ROWS_EVALUATED };

static void make_wide(brasa_graph *g)
{
    brasa_classify(brasa_relu(brasa_apply(brasa_input_vector(g, "x", WIDE), "dense %d name=wide", WIDE)), 3);
}

static void check_weights(brasa_session *s, const float *expected)
{
    static float now[WIDE * WIDE];
    CHECK_STATUS(brasa_param_get(s, "wide.weight", now, WIDE * WIDE), BRASA_OK);
    CHECK(memcmp(now, expected, sizeof now) == 0);
}

/* A program that needs more memory than those before fits where a plan says so: beside its own allocation there is no
 * room for theirs. One that does not fit changes nothing. */
TEST(a_larger_program_takes_the_place_of_smaller_ones)
{
    HOST_OR_SKIP();
    static float x[ROWS_TRAINED * WIDE], before[WIDE * WIDE];
    const int32_t labels[ROWS_TRAINED] = {0, 2};
    const brasa_session_options o = {.size = sizeof o, .batch = ROWS_TRAINED, .optimizer = "sgd lr=0.1"};
    brasa_session_options plan = o;
    brasa_memory m = {.size = sizeof m};
    brasa_session *s = NULL;
    char bytes[40];
    float loss = 0, last = 0;
    plan.plan_only = true;
    start_on("cuda");
    brasa_graph *g = brasa_graph_new(ctx);
    make_wide(g);
    REQUIRE(brasa_session_new(g, &plan, &s) == BRASA_OK);
    CHECK_STATUS(brasa_session_prepare(s, false, ROWS_EVALUATED), BRASA_OK);
    CHECK_STATUS(brasa_session_memory(s, &m), BRASA_OK);
    brasa_session_free(s);
    brasa_graph_free(g);
    stop();
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)m.total + 64 * 1024);
    setenv("FAKE_CUDA_MEMORY", bytes, 1);
    start_on("cuda");
    g = brasa_graph_new(ctx);
    make_wide(g);
    REQUIRE(brasa_session_new(g, &o, &s) == BRASA_OK);
    for (int i = 0; i < ROWS_TRAINED * WIDE; i++)
        x[i] = (float)(i % 7) / 7;
    CHECK_STATUS(brasa_train_step(s, x, labels, &loss), BRASA_OK);
    CHECK_STATUS(brasa_param_get(s, "wide.weight", before, WIDE * WIDE), BRASA_OK);
    CASE("a larger one");
    CHECK_STATUS(brasa_session_prepare(s, false, ROWS_EVALUATED), BRASA_OK);
    check_weights(s, before);
    CASE("one that is too large");
    CHECK_STATUS(brasa_session_prepare(s, false, ROWS_TOO_MANY), BRASA_OUT_OF_MEMORY);
    CHECK_HAS(brasa_session_error(s), "out of memory: cuda:0");
    check_weights(s, before);
    CHECK_STATUS(brasa_train_step(s, x, labels, &last), BRASA_OK);
    CHECK(last < loss);
    brasa_session_free(s);
    brasa_graph_free(g);
    stop();
    unsetenv("FAKE_CUDA_MEMORY");
}

/* The same where others take the memory while the session is without it: it says so, and when there is memory again,
 * whichever program asks for it, all programs have theirs. */
static void *(*get_of_device)(device *d, size_t bytes);
static size_t wanted_last;

static void *get_nothing(device *d, size_t bytes)
{
    (void)d;
    wanted_last = bytes;
    return NULL;
}

TEST(others_take_the_memory)
{
    static float x[ROWS_TRAINED * WIDE], before[WIDE * WIDE];
    const int32_t labels[ROWS_TRAINED] = {0, 2};
    const brasa_session_options o = {.size = sizeof o, .batch = ROWS_TRAINED, .optimizer = "sgd lr=0.1"};
    for (int known = 0; known < 2; known++) {
        HOST_OR_SKIP();
        CASE("%s", known ? "a program that is there asks" : "a new one asks");
        brasa_session *s = NULL;
        float loss = 0, last = 0;
        start_on("cuda");
        device *d = ctx->device;
        brasa_graph *g = brasa_graph_new(ctx);
        make_wide(g);
        REQUIRE(brasa_session_new(g, &o, &s) == BRASA_OK);
        for (int i = 0; i < ROWS_TRAINED * WIDE; i++)
            x[i] = (float)(i % 7) / 7;
        CHECK_STATUS(brasa_session_prepare(s, false, ROWS_EVALUATED), BRASA_OK);
        CHECK_STATUS(brasa_train_step(s, x, labels, &loss), BRASA_OK);
        CHECK_STATUS(brasa_param_get(s, "wide.weight", before, WIDE * WIDE), BRASA_OK);
        get_of_device = d->get;
        d->get = get_nothing;
        CHECK_STATUS(brasa_session_prepare(s, false, ROWS_TOO_MANY), BRASA_OUT_OF_MEMORY);
        const size_t all = wanted_last; /* what it had */
        CHECK_STATUS(brasa_fetch(s, "loss", &last, sizeof last), BRASA_OUT_OF_MEMORY);
        CHECK_STATUS(brasa_train(s), BRASA_OUT_OF_MEMORY);
        CHECK_STATUS(brasa_train_step(s, x, labels, &last), BRASA_OUT_OF_MEMORY);
        CHECK_STATUS(brasa_session_save(s, "/nowhere/weights", BRASA_WEIGHTS), BRASA_OUT_OF_MEMORY);
        CHECK_HAS(brasa_session_error(s), "others have taken what this session had of cuda:0");
        CHECK_STATUS(brasa_session_prepare(s, !known, 1), BRASA_OUT_OF_MEMORY);
        CHECK_INT(wanted_last, all);
        d->get = get_of_device;
        CHECK_STATUS(known ? brasa_session_prepare(s, true, ROWS_TRAINED) : brasa_session_prepare(s, true, 1),
                     BRASA_OK);
        check_weights(s, before);
        CHECK_STATUS(brasa_fetch(s, "loss", &last, sizeof last), BRASA_WRONG_STATE); /* it went with the memory */
        CHECK_STATUS(brasa_train(s), BRASA_WRONG_STATE);
        CHECK_STATUS(brasa_train_step(s, x, labels, &last), BRASA_OK);
        CHECK(last < loss);
        brasa_session_free(s);
        brasa_graph_free(g);
        stop();
    }
}

/* Libraries that are named are taken: without this a test that names stand-ins would pass without them. */
TEST(named_libraries_are_there)
{
    DEVICE_ONLY();
    const char *const named[] = {getenv("BRASA_CUDNN"), getenv("BRASA_CUBLASLT")};
    for (int i = 0; i < 2; i++)
        if (!named[i] || strcmp(named[i], "off") == 0)
            SKIP("the environment names no libraries");
    CHECK_TEXT(device_context()->device->missing, "");
}

/* --- engines of a device's libraries --------------------------------------------------------------------------- */

/* How a session chooses kernels: 't' by the clock, 'c' by a cache, 'r' by a record. */
static const char *asked(const brasa_session *s)
{
    static char words[4];
    const tuner *t = s->tuner;
    snprintf(words, sizeof words, "%s%s%s", t->measure ? "t" : "", t->cache ? "c" : "", t->recorded ? "r" : "");
    return words;
}

/* A run that goes on asks its record alone: what others have timed since then is not what it began with. Who only
 * plans times nothing. */
TEST(who_chooses_engines)
{
    DEVICE_OR_SKIP();
    static const char said[] = "brasa choices 1\ncuda\tx\ty\n";
    char record[300];
    snprintf(record, sizeof record, "%s", in_folder("record.txt"));
    write_file(record, said, strlen(said));
    const brasa_tuning begins = SIZED(brasa_tuning, .measure = true, .cache = "/nowhere/cache"),
                       no_times = SIZED(brasa_tuning, .cache = "/nowhere/cache", .record = record),
                       goes_on = SIZED(brasa_tuning, .record = record), first = {.size = sizeof first};
    const struct {
        const char *what;
        const brasa_tuning *tuning;
        bool plan_only, deterministic;
        const char *expected;
        const char *tune; /* BRASA_TUNE */
    } rows[] = {
        {"begins", &begins, false, false, "tc"},
        {"nothing is to be timed", &no_times, false, false, "cr"},
        {"goes on", &goes_on, false, false, "r"},
        {"the first", &first, false, false, ""},
        {"nothing is said", NULL, false, false, "tc"},
        {"nothing is said, and nothing is to be timed", NULL, false, false, "", "off"},
        {"begins, and must not depend on threads", &begins, false, true, ""},
        {"nothing is said but that", NULL, false, true, ""},
        {"a plan of one that begins", &begins, true, false, "c"},
        {"a plan of one that goes on", &goes_on, true, false, "r"},
        {"a plan of the first", &first, true, false, ""},
        {"a plan of which nothing is said", NULL, true, false, "c"},
    };
    const char *word = getenv("BRASA_TUNE");
    char *before = word ? strdup(word) : NULL;
    setenv("BRASA_CACHE", folder, 1);
    start_on("cuda");
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_classify(brasa_dense(brasa_input_vector(g, "x", 4), 5), 3);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        const brasa_session_options o = {.size = sizeof o,
                                         .batch = 2,
                                         .optimizer = "sgd lr=1",
                                         .tuning = rows[i].tuning,
                                         .plan_only = rows[i].plan_only,
                                         .deterministic = rows[i].deterministic};
        brasa_session *s = NULL;
        setenv("BRASA_TUNE", rows[i].tune ? rows[i].tune : "on", 1);
        CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
        CHECK_TEXT(s ? asked(s) : "none", rows[i].expected);
        brasa_session_free(s);
    }
    brasa_graph_free(g);
    stop();
    unsetenv("BRASA_CACHE");
    if (before)
        setenv("BRASA_TUNE", before, 1);
    else
        unsetenv("BRASA_TUNE");
    free(before);
}

typedef struct chooser {
    heard heard; /* first: listen_to's user */
    char asked[4];
} chooser;

static bool watch_choosing(void *user, const brasa_progress *p)
{
    if (p->event == BRASA_ON_STEP)
        snprintf(((chooser *)user)->asked, 4, "%s", asked(p->trainer->unit.session));
    return listen_to(user, p);
}

/* What would be forgotten is not timed, as on the CPU: the next run would choose otherwise. */
TEST(engines_that_cannot_be_kept_are_not_timed)
{
    HOST_OR_SKIP();
    char kept[300];
    snprintf(kept, sizeof kept, "%s", in_folder("kernels.txt"));
    const struct {
        const char *what;
        brasa_tuning tuning;
        const char *expected;
    } rows[] = {
        {"kept", {.measure = true, .cache = kept}, "tc"},
        {"nowhere to keep them", {.measure = true}, ""},
        {"a folder that cannot be written", {.measure = true, .cache = "/proc/nowhere/kernels.txt"}, "c"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        start_on("cuda");
        chooser c = {.asked = "-"};
        brasa_trainer_result r;
        brasa_trainer_options o = plain(&c.heard, run_folder(i == 0 ? "kept" : i == 1 ? "nowhere" : "unwritable"));
        o.progress = watch_choosing;
        o.tuning = &rows[i].tuning;
        CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
        CHECK_TEXT(c.asked, rows[i].expected);
        stop();
    }
}

/* --- what the GPU says of itself ------------------------------------------------------------------------------- */

static void check_record(const char *run, const char *file, const char *text)
{
    size_t bytes = 0;
    char *all = file_of(run, file, &bytes);
    if (!all || !memmem(all, bytes, text, strlen(text)))
        test_fail(__FILE__, __LINE__, "%s has no %s: %.*s", file, text, all ? (int)bytes : 0, all);
    free(all);
}

TEST(figures_of_the_gpu)
{
    HOST_OR_SKIP();
    heard l;
    brasa_trainer_result r;
    start_on("cuda");
    brasa_trainer_options o = plain(&l, run_folder("figures"));
    CASE("read");
    setenv("BRASA_NVML", TEST_FAKE_FOLDER "/libnvidia-ml.so.1", 1);
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_CLOSE(l.last.gpu_memory, 12.0 * (1 << 30), 0);
    CHECK_CLOSE(l.last.gpu_utilization, 37, 0);
    check_record(o.out, EPOCHS_FILE, "\"gpu_memory_bytes\":12884901888");
    check_record(o.out, EPOCHS_FILE, "\"gpu_utilization\":37");
    check_record(o.out, REPORT_FILE, "GPU utilization");
    pool p = {.ctx = ctx};
    brasa_epoch *f;
    int epochs;
    CHECK_STATUS(run_epochs_read(&p, o.out, &f, &epochs), BRASA_OK);
    CHECK(epochs == 3 && f[2].gpu_utilization == 37);
    pool_free(&p);
    CASE("memory alone");
    setenv("FAKE_NVML_FAILS", "utilization", 1);
    o = plain(&l, run_folder("memory"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_CLOSE(l.last.gpu_memory, 12.0 * (1 << 30), 0);
    CHECK(isnan(l.last.gpu_utilization));
    check_record(o.out, REPORT_FILE, "not readable: NVML says of the utilization: Not Supported");
    CASE("utilization alone");
    setenv("FAKE_NVML_FAILS", "memory", 1);
    o = plain(&l, run_folder("busy"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(isnan(l.last.gpu_memory));
    CHECK_CLOSE(l.last.gpu_utilization, 37, 0);
    unsetenv("FAKE_NVML_FAILS");
    CASE("not readable");
    setenv("BRASA_NVML", "off", 1);
    o = plain(&l, run_folder("none"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(isnan(l.last.gpu_memory) && isnan(l.last.gpu_utilization));
    check_record(o.out, RUN_FILE, "not readable: BRASA_NVML is off");
    check_record(o.out, REPORT_FILE, "not readable: BRASA_NVML is off");
    stop();
    CASE("nothing of it on the CPU");
    start_on("cpu");
    o = plain(&l, run_folder("cpu"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    size_t bytes = 0;
    char *all = file_of(o.out, EPOCHS_FILE, &bytes);
    CHECK(all && !memmem(all, bytes, "gpu", 3));
    free(all);
    stop();
}
