/* train.c - the epoch loop, and what stands around it: see train.h.
 *
 * A unit is one training: split, session, loaders, checkpoint. A run has one of them, or one for each fold, one after
 * the other, and gives all memory of one back before the next. The order of writing decides what a crash can do:
 * first the epoch's line, then the weights where they are the best so far, then the checkpoint. Whoever resumes
 * from it does again what came after it, with the same bits. */
#define _POSIX_C_SOURCE 200809L
#include "train/train.h"
#include "core/options.h"

#include "device/device.h"
#include "train/checkpoint.h"
#include "train/profile.h"
#include "train/record.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { REPORT_EVERY = 10 }; /* seconds between two reports, at least */

double train_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* --- telling ------------------------------------------------------------------------------------------------- */

static void call_back(training *t, const brasa_progress *p)
{
    if (t->options.progress && !t->options.progress(t->options.user, p))
        t->stopping = true;
}

void train_tell(training *t, int32_t event, const brasa_epoch *f, const char *text)
{
    call_back(t,
              &SIZED(brasa_progress, .event = event, .fold = t->unit.fold, .trainer = t, .epoch = f, .text = text));
}

void train_progress(training *t, int32_t event, int64_t done, int64_t total, const brasa_epoch *f)
{
    call_back(t, &SIZED(brasa_progress, .event = event, .fold = t->unit.fold, .trainer = t, .epoch = f, .done = done,
                        .total = total));
}

/* A warning is also kept for the unit's record; where there is no memory for it, it is told at least. */
void train_say(training *t, int32_t event, const char *pattern, ...)
{
    char text[ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, pattern);
    vsnprintf(text, sizeof text, pattern, args);
    va_end(args);
    if (event == BRASA_ON_WARNING)
        alarms_keep(&t->unit.alarms, &t->unit.pool, "%s", text);
    train_tell(t, event, NULL, text);
}

bool train_writes(const training *t)
{
    return t->options.out || t->options.resume;
}

/* --- the epoch loop ------------------------------------------------------------------------------------------ */

static brasa_status train_feed(training *t, const batch *b)
{
    brasa_status status = brasa_use(t->unit.session, true, b->size);
    return status == BRASA_OK ? task_feed(&t->task, t->unit.session, b) : status;
}

brasa_status train_feed_next(training *t, const batch **out)
{
    brasa_status status = task_next(&t->task, t->unit.train, out);
    return status == BRASA_OK ? train_feed(t, *out) : status;
}

static void count_step(training *t, const step_result *a)
{
    train_place *p = &t->unit.place;
    p->done++;
    p->loss += (double)a->loss * a->samples;
    p->right += lround((double)a->accuracy * a->samples);
    p->seen += a->samples;
}

static brasa_epoch figures_of(const unit *u)
{
    const train_place *p = &u->place;
    return (brasa_epoch){.size = sizeof(brasa_epoch),
                         .epoch = p->epoch + 1,
                         .steps = p->done,
                         .samples = p->seen,
                         .loss = p->loss / (double)p->seen,
                         .accuracy = (double)p->right / (double)p->seen,
                         .test_loss = NAN,
                         .test_accuracy = NAN,
                         .test_top5 = NAN,
                         .seconds = p->seconds,
                         .images_per_second = (double)p->seen / p->seconds,
                         .learning_rate = schedule_rate(&u->session->schedule, u->stepped + p->done - 1),
                         .gpu_memory = NAN,
                         .gpu_utilization = NAN};
}

/* Counts the steps that were started, until only so many are left whose results are pending. */
static brasa_status count_steps(training *t, int left)
{
    unit *u = &t->unit;
    while (pending_count(u->pending) > left) {
        step_result one;
        brasa_status status = pending_take(u->pending, &one);
        if (status != BRASA_OK)
            return status;
        u->loss = one.loss;
        if (!isfinite(one.loss) && !t->options.allow_not_finite)
            return alarms_not_finite(t, (double)one.loss);
        const double now = train_clock();
        t->begun = true;
        count_step(t, &one);
        u->place.seconds += now - u->counted;
        u->counted = now;
        gauge_look(&t->gauge, now);
        const brasa_epoch f = figures_of(u);
        train_progress(t, BRASA_ON_STEP, u->place.done, u->steps, &f);
    }
    return BRASA_OK;
}

/* What is decided by a clock, a signal or a number that only this process has. With several processes they will agree
 * on it here: all else in a training depends on data and settings alone. */
typedef struct control {
    bool stop, save;
} control;

static control decide(const training *t)
{
    const double every = t->task.settings.save_every;
    const bool stop = t->stopping;
    return (control){.stop = stop, .save = stop || (every > 0 && train_clock() - t->unit.saved > every)};
}

/* After a step was started: counts those that are done, and saves where it is time to. */
static brasa_status end_step(training *t, bool last)
{
    unit *u = &t->unit;
    alarms_of_device(t);
    brasa_status status = count_steps(t, last || !u->stepping ? 0 : pending_depth(u->pending));
    u->stepping = true; /* the first one is awaited, so that it can be told how long it took */
    const control c = decide(t);
    t->stopped = c.stop;
    if (status == BRASA_OK && c.save)
        status = count_steps(t, 0);
    if (status != BRASA_OK)
        return status;
    const bool check = (c.save || u->place.done == u->steps) && !t->options.allow_not_finite;
    if (check && !session_finite(u->session)) { /* what is kept is good */
        u->place.done--;
        return alarms_not_finite(t, (double)u->loss);
    }
    if (c.save) {
        status = unit_save(t);
        u->counted = train_clock();
    }
    return status;
}

/* The steps of an epoch that are left. */
static brasa_status train_epoch(training *t)
{
    unit *u = &t->unit;
    int64_t left = u->steps - u->place.done;
    u->counted = train_clock();
    brasa_status status = loader_seek(u->train, u->place.epoch, u->place.done);
    u->stepped = brasa_session_steps(u->session) - u->place.done;
    gauge_begin(&t->gauge);
    for (; left > 0 && status == BRASA_OK && !t->stopped; left--) {
        const batch *b;
        if ((status = train_feed_next(t, &b)) == BRASA_OK)
            status = session_step(u->session, true, NULL, NULL);
        if (status == BRASA_OK)
            status = pending_add(u->pending, u->session, b);
        if (status == BRASA_OK)
            status = profile_step(t);
        if (status == BRASA_OK)
            status = end_step(t, left == 1);
    }
    return status;
}

/* Whether the last epochs brought nothing. */
static bool out_of_patience(const training *t)
{
    const int64_t patience = t->task.settings.patience;
    const train_place *p = &t->unit.place;
    return patience > 0 && p->best_epoch && p->done == 0 && p->epoch - p->best_epoch >= patience;
}

typedef struct looker {
    training *trainer;
    const brasa_epoch *figures;
} looker;

static bool look_on(void *user, int64_t done, int64_t total)
{
    const looker *l = user;
    train_progress(l->trainer, BRASA_ON_TEST, done, total, l->figures);
    return !l->trainer->stopping;
}

/* Measures the epoch on the test samples; stopped in between, it will be measured when the run is resumed. */
static brasa_status measure(training *t, brasa_epoch *f)
{
    unit *u = &t->unit;
    if (!u->test)
        return BRASA_OK;
    const brasa_status status =
        task_measure(&t->task, u->session, u->test, u->logits, &u->metrics, look_on, &(looker){t, f});
    t->stopped = status != BRASA_OK && t->stopping;
    if (t->stopped)
        return unit_save(t);
    alarms_of_device(t);
    u->measured = f->epoch;
    f->test_loss = metrics_loss(&u->metrics);
    f->test_accuracy = metrics_top1(&u->metrics);
    f->test_top5 = metrics_top5(&u->metrics);
    return status;
}

/* Measures the epoch that was just trained, and puts all of it on record. */
static brasa_status end_epoch(training *t)
{
    unit *u = &t->unit;
    brasa_epoch f = figures_of(u);
    gauge_end(&t->gauge, &f.gpu_memory, &f.gpu_utilization);
    brasa_status status = measure(t, &f);
    if (t->stopped)
        return status;
    if (status == BRASA_OK)
        status = record_epoch(t, &f);
    if (status == BRASA_OK && u->test && (!u->place.best_epoch || f.test_accuracy > u->place.best)) {
        u->place.best = f.test_accuracy;
        u->place.best_epoch = f.epoch;
        if (strcmp(t->task.settings.keep, "best") == 0)
            status = unit_save_weights(t);
    }
    if (status != BRASA_OK)
        return status;
    u->place = (train_place){.epoch = f.epoch, .best = u->place.best, .best_epoch = u->place.best_epoch};
    train_tell(t, BRASA_ON_EPOCH, &f, NULL);
    alarms_after(t, &f, f.epoch == t->task.settings.epochs || out_of_patience(t));
    status = unit_save(t); /* the alarms, too */
    if (status != BRASA_OK)
        return status;
    if (u->reported != 0 && train_clock() - u->reported < REPORT_EVERY)
        return BRASA_OK;
    u->reported = train_clock();
    return record_page(t);
}

/* Steps on the first batch: caches, clocks and a device's records are as they will be. */
static brasa_status warm_up(training *t)
{
    unit *u = &t->unit;
    const batch *b;
    brasa_status status = task_next(&t->task, u->train, &b);
    for (int64_t i = 0; i < t->options.warm_up && status == BRASA_OK && !t->stopping; i++) {
        if ((status = train_feed(t, b)) == BRASA_OK)
            status = session_step(u->session, true, NULL, NULL);
        if (status == BRASA_OK)
            status = session_wait(u->session);
        if (status == BRASA_OK)
            train_progress(t, BRASA_ON_WARM_UP, i + 1, t->options.warm_up, NULL);
    }
    return status;
}

/* Everything that stands before the first step: data, session and loaders, the files of a run that begins, the state
 * of one that goes on. */
static brasa_status begin_unit(training *t, int fold)
{
    const bool fresh = !t->folder && train_writes(t);
    brasa_status status = unit_open(t, fold);
    if (status == BRASA_OK)
        status = alarms_before(t);
    if (status == BRASA_OK && fresh)
        status = record_create(t);
    if (status == BRASA_OK && !t->recorded && train_writes(t))
        status = record_run(t);
    t->recorded = true;
    if (status == BRASA_OK && fresh)
        status = record_unit(t);
    if (status == BRASA_OK && train_writes(t))
        status = record_kernels(t);
    if (status == BRASA_OK)
        status = unit_start(t);
    if (status == BRASA_OK)
        train_tell(t, BRASA_ON_BEGIN, NULL, NULL);
    return status == BRASA_OK && t->options.warm_up ? warm_up(t) : status;
}

static brasa_status end_unit(training *t)
{
    const train_place *p = &t->unit.place;
    if (!t->stopped && p->epoch < t->task.settings.epochs)
        train_say(t, BRASA_ON_NOTE, "no epoch since epoch %lld was better: stopped early", (long long)p->best_epoch);
    const brasa_status status = profile_end(t);
    return status == BRASA_OK && !t->stopped ? unit_finish(t) : status;
}

/* One training: the whole run, or a fold of it. */
static brasa_status run_unit(training *t, int fold, fold_result *out)
{
    const train_place *p = &t->unit.place;
    bool over = false;
    run_outcome before;
    brasa_status status = t->folder ? train_finished(t, fold, &over, &before) : BRASA_OK;
    if (status != BRASA_OK || over) {
        *out = (fold_result){fold, before.accuracy, before.top5, before.loss};
        return status;
    }
    status = begin_unit(t, fold);
    while (status == BRASA_OK && !t->stopped && p->epoch < t->task.settings.epochs && !out_of_patience(t)) {
        status = train_epoch(t);
        if (status == BRASA_OK && !t->stopped)
            status = end_epoch(t);
    }
    if (status == BRASA_OK)
        status = end_unit(t);
    const metrics *m = &t->unit.metrics;
    *out = (fold_result){fold, metrics_top1(m), metrics_top5(m), metrics_loss(m)};
    train_add_alarms(t, fold, &t->unit.alarms);
    if (fold) /* the last one stays, for the caller, where there are no others */
        unit_close(t);
    return status;
}

/* The mean and the deviation (of a sample: n - 1) of the folds. */
static void sum_up(const fold_result *folds, int count, brasa_trainer_result *out)
{
    double sum = 0, loss = 0, square = 0;
    for (int i = 0; i < count; i++) {
        sum += folds[i].accuracy;
        loss += folds[i].loss;
    }
    out->accuracy = sum / count;
    out->loss = loss / count;
    for (int i = 0; i < count; i++)
        square += (folds[i].accuracy - out->accuracy) * (folds[i].accuracy - out->accuracy);
    out->spread = count > 1 ? sqrt(square / (count - 1)) : 0;
    out->folds = count;
}

static brasa_status record_all_folds(training *t, const fold_result *folds, int count, const brasa_trainer_result *r)
{
    brasa_status status = record_folds(t, folds, count, r);
    return status == BRASA_OK ? record_folds_page(t, folds, count) : status;
}

/* Data, network and settings; of a run that is resumed, those in its folder. Then the number of units, and the first.
 */
static brasa_status begin_run(training *t, int *first, int *count, fold_result **folds)
{
    const brasa_trainer_options *s = &t->task.settings;
    brasa_status status = BRASA_OK;
    if (t->ran)
        return fail(t->task.ctx, BRASA_WRONG_STATE, "this trainer has run: make another one, with `resume`");
    t->ran = true;
    gauge_open(&t->gauge, t->task.ctx);
    status = t->options.resume ? train_resume(t) : train_begin(t);
    const bool many = s->folds && !s->fold;
    *first = many ? 1 : (int)s->fold;
    *count = many ? (int)s->folds : 1;
    *folds = status == BRASA_OK ? pool_get(&t->task.pool, (size_t)*count, sizeof **folds) : NULL;
    return status == BRASA_OK && !*folds ? fail_memory(t->task.ctx, (size_t)*count * sizeof **folds) : status;
}

/* What a run came to, or why it failed, for the caller. */
static brasa_status end_run(training *t, brasa_status status, const brasa_trainer_result *r,
                            brasa_trainer_result *out)
{
    if (status != BRASA_OK && !t->options.resume && !t->begun)
        record_undo(t);
    record_unlock(t);
    gauge_close(&t->gauge);
    brasa_trainer_result mine = *r;
    mine.stopped = t->stopped;
    snprintf(mine.folder, sizeof mine.folder, "%s", t->folder ? t->folder : "");
    const brasa_status given =
        out ? options_give(t->task.ctx, out, &mine, sizeof mine, "brasa_trainer_result") : BRASA_OK;
    return status == BRASA_OK ? given : status;
}

brasa_status brasa_trainer_run(brasa_trainer *t, brasa_trainer_result *out)
{
    brasa_trainer_result r = {.size = sizeof r};
    fold_result *folds = NULL;
    int first = 0, count = 0, done = 0;
    if (!t)
        return BRASA_BAD_ARGUMENT;
    const brasa_trainer_options *s = &t->task.settings;
    brasa_status status = begin_run(t, &first, &count, &folds);
    for (; status == BRASA_OK && done < count && !t->stopped; done++) {
        status = run_unit(t, first + done, &folds[done]);
        if (status == BRASA_OK && !t->stopped && s->folds)
            train_say(t, BRASA_ON_FOLD, "fold %d of %lld: accuracy %.2f %%", first + done, (long long)s->folds,
                      100 * folds[done].accuracy);
    }
    if (status == BRASA_OK && !t->stopped) {
        sum_up(folds, count, &r);
        status = s->folds && train_writes(t) ? record_all_folds(t, folds, count, &r) : BRASA_OK;
    }
    return end_run(t, status, &r, out);
}
