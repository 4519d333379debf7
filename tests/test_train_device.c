/* test_train_device.c - trainings on a device, as far as it is the host's business: what is in the queue before it is
 * looked at, in which order, and when it is answered. The device is one that does everything as late as it may
 * (fake/cuda.c), with the CPU's reference kernels; a training on the CPU with the same ones says what is right. With
 * BRASA_TEST_DEVICE=cuda it is a real one: see device.h. */
#define _GNU_SOURCE
#include "trainings.h"

#include "device.h"

#include <stdlib.h>

/* Weights differ where nodes were fused otherwise: by rounding. */
#define ROUNDING (device_wanted() ? 5e-3 : 1e-4)

static void start_on(const char *name)
{
    if (!device_wanted()) {
        setenv("BRASA_BACKENDS", TEST_FAKE_FOLDER, 1);
        setenv("BRASA_ISA", "ref", 1);
    }
    start();
    if (brasa_context_use(ctx, name) != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s", brasa_context_error(ctx));
}

/* --- late answers ------------------------------------------------------------------------------------------------
 */

typedef struct watcher {
    heard heard; /* first: listen_to's user */
    int most;    /* answers that were waiting when a step was told */
} watcher;

static void watch_queue(void *user, const train_event *e)
{
    watcher *w = user;
    if (e->kind == TRAIN_STEP && answers_waiting(e->training->unit.answers) > w->most)
        w->most = answers_waiting(e->training->unit.answers);
    listen_to(user, e);
}

TEST(steps_are_started_before_the_last_ones_are_answered)
{
    DEVICE_OR_SKIP();
    train_figures last[2] = {{0}};
    static const char *const devices[] = {"cpu", "cuda"};
    const char *runs[2] = {run_folder("cpu"), run_folder("cuda")};
    for (int i = 0; i < 2; i++) {
        CASE("%s", devices[i]);
        start_on(devices[i]);
        watcher w = {.most = 0};
        train_result r;
        train_options o = plain(&w.heard, runs[i]);
        o.watch = watch_queue;
        CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
        CHECK_INT(w.most, i ? MOST_LATE : 0);
        CHECK_INT(w.heard.count[TRAIN_STEP], 3 * 8);
        CHECK_INT(w.heard.count[TRAIN_SAVED], 4);
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

/* A schedule tells of each step which rate it had. */
TEST(rates)
{
    DEVICE_OR_SKIP();
    double rates[2] = {0};
    static const char *const devices[] = {"cpu", "cuda"};
    for (int i = 0; i < 2; i++) {
        start_on(devices[i]);
        heard l;
        train_result r;
        train_options o = plain(&l, run_folder(i ? "cuda" : "cpu"));
        o.settings.schedule = "cosine";
        CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
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
    train_result r;
    train_options whole = plain(&l, run_folder("whole"));
    CHECK_STATUS(train_run(ctx, &whole, &r), BRASA_OK);
    for (int at = 1; at < 3 * 8; at += 5) {
        CASE("after %d steps", at);
        train_options o = plain(&l, run_folder("stopped"));
        l.stop_at = at;
        CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
        CHECK(r.stopped);
        CHECK(l.count[TRAIN_STEP] >= at && l.count[TRAIN_STEP] <= at + MOST_LATE);
        train_options on = resumed(&l, o.out);
        CHECK_STATUS(train_run(ctx, &on, &r), BRASA_OK);
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
    train_result r;
    train_options o = plain(&l, run_folder("whole")), often = plain(&l, run_folder("often"));
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    often.settings.save_every = 1e-9;
    CHECK_STATUS(train_run(ctx, &often, &r), BRASA_OK);
    CHECK(l.count[TRAIN_SAVED] > 3 * 8 / (MOST_LATE + 1));
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
        train_result r;
        train_options o = plain(&l, run_folder("bad"));
        o.settings.model = in_folder("deep.net");
        write_file(o.settings.model, deep, sizeof deep - 1);
        o.settings.optimizer = "sgd lr=1000000 momentum=0.9";
        o.settings.keep = "last";
        CHECK_STATUS(train_run(ctx, &o, &r), BRASA_WRONG_STATE);
        snprintf(said[i], sizeof said[i], "%.900s", brasa_context_error(ctx));
        CHECK_HAS(said[i], "not finite");
        CHECK(run_has(o.out, CHECKPOINT_FILE) && run_has(o.out, RESULT_FILE));
        stop();
    }
    if (!device_wanted()) /* where rounding decides which step it is */
        CHECK_TEXT(said[1], said[0]);
}

TEST(batches_in_parts)
{
    DEVICE_OR_SKIP();
    start_on("cuda");
    heard l;
    train_result r;
    char path[300];
    train_options o = pictures(&l, run_folder("whole"), picture_net(path, "p.net", ""));
    CHECK_STATUS(train_run(ctx, &o, &r), BRASA_OK);
    const int64_t session = l.session;
    train_options parts = pictures(&l, run_folder("parts"), path);
    parts.settings.mem = session * 3 / 4;
    CHECK_STATUS(train_run(ctx, &parts, &r), BRASA_OK);
    CHECK(l.parts > 1);
    CHECK(most_apart(o.out, parts.out, "b.weight", 10 * 8 * 13 * 13) <= ROUNDING);
    stop();
}
