/* train.c - the epoch loop, and what stands around it: see train.h.
 *
 * A unit is one training: split, session, loaders, checkpoint. A run has one of them, or one for each fold, one after
 * the other, and gives all memory of one back before the next. The order of writing decides what a crash can do:
 * first the epoch's line, then the weights where they are the best so far, then the checkpoint. Whoever resumes
 * from it does again what came after it, with the same bits. */
#define _POSIX_C_SOURCE 200809L
#include "train/train.h"

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

void train_tell(training *t, train_event_kind kind, const train_figures *f, const char *text)
{
    const train_event e = {.kind = kind, .training = t, .figures = f, .text = text};
    if (t->options->watch)
        t->options->watch(t->options->user, &e);
}

/* An alarm is also kept for the unit's record; where there is no memory for it, it is told at least. */
void train_say(training *t, train_event_kind kind, const char *pattern, ...)
{
    char text[ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, pattern);
    vsnprintf(text, sizeof text, pattern, args);
    va_end(args);
    if (kind == TRAIN_ALARM)
        alarms_keep(&t->unit.alarms, &t->unit.pool, "%s", text);
    train_tell(t, kind, NULL, text);
}

static bool stopping(void *user)
{
    const training *t = user;
    return t->options->stop && *t->options->stop;
}

/* --- the epoch loop ------------------------------------------------------------------------------------------ */

brasa_status train_start(training *t, const batch *b)
{
    unit *u = &t->unit;
    brasa_status status = brasa_use(u->session, true, b->size);
    if (status == BRASA_OK)
        status = task_feed(&t->task, u->session, b);
    if (status == BRASA_OK)
        status = brasa_train(u->session);
    return status == BRASA_OK ? pending_add(u->pending, u->session, b) : status;
}

void train_count(training *t, const step_result *a)
{
    train_place *p = &t->unit.place;
    p->done++;
    p->loss += (double)a->loss * a->samples;
    p->right += lround((double)a->accuracy * a->samples);
    p->seen += a->samples;
}

static brasa_status start_next(training *t)
{
    const batch *b;
    brasa_status status = task_next(&t->task, t->unit.train, &b);
    return status == BRASA_OK ? train_start(t, b) : status;
}

brasa_status train_step(training *t, step_result *out)
{
    brasa_status status = start_next(t);
    return status == BRASA_OK ? pending_take(t->unit.pending, out) : status;
}

static train_figures figures_of(const unit *u)
{
    const train_place *p = &u->place;
    return (train_figures){.epoch = p->epoch + 1,
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

/* Counts the steps that were started, until only so many are left whose figures are awaited. */
static brasa_status count_steps(training *t, int left, double *before, float *loss)
{
    unit *u = &t->unit;
    train_place *p = &u->place;
    while (pending_count(u->pending) > left) {
        step_result one;
        brasa_status status = pending_take(u->pending, &one);
        if (status != BRASA_OK)
            return status;
        *loss = one.loss;
        if (!isfinite(*loss))
            return alarms_not_finite(t, (double)*loss);
        const double now = train_clock();
        t->begun = true;
        train_count(t, &one);
        p->seconds += now - *before;
        *before = now;
        gauge_look(&t->gauge, now);
        const train_figures f = figures_of(u);
        train_tell(t, TRAIN_STEP, &f, NULL);
    }
    return BRASA_OK;
}

/* The steps of an epoch that are left. *stopped: the user wished so, and a checkpoint was made. */
static brasa_status train_epoch(training *t, bool *stopped)
{
    unit *u = &t->unit;
    train_place *p = &u->place;
    brasa_status status = loader_seek(u->train, p->epoch, p->done);
    double before = train_clock();
    int64_t started = p->done;
    float loss = 0;
    u->stepped = brasa_session_steps(u->session) - p->done;
    gauge_begin(&t->gauge);
    while (status == BRASA_OK && p->done < u->steps && !*stopped) {
        if (started < u->steps && (status = start_next(t)) == BRASA_OK)
            status = profile_step(t);
        started++;
        alarms_of_device(t);
        if (status == BRASA_OK)
            status = count_steps(t, started < u->steps ? pending_depth(u->pending) : 0, &before, &loss);
        *stopped = stopping(t);
        const double every = t->task.settings.save_every;
        const bool save = *stopped || (every > 0 && train_clock() - u->saved > every);
        if (status == BRASA_OK && save)
            status = count_steps(t, 0, &before, &loss);
        if (status != BRASA_OK)
            return status;
        if ((save || p->done == u->steps) && !session_finite(u->session)) { /* what is kept is good */
            p->done--;
            return alarms_not_finite(t, (double)loss);
        }
        if (save) {
            status = unit_save(t);
            before = train_clock();
        }
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

/* Measures the epoch that was just trained, and puts all of it on record. */
static brasa_status end_epoch(training *t, bool *stopped)
{
    unit *u = &t->unit;
    train_figures f = figures_of(u);
    brasa_status status = BRASA_OK;
    gauge_end(&t->gauge, &f.gpu_memory, &f.gpu_utilization);
    if (u->test) {
        status = task_measure(&t->task, u->session, u->test, u->logits, &u->metrics, stopping, t);
        *stopped = status != BRASA_OK && stopping(t);
        if (*stopped)
            return unit_save(t);
        alarms_of_device(t);
        u->measured = f.epoch;
        f.test_loss = metrics_loss(&u->metrics);
        f.test_accuracy = metrics_top1(&u->metrics);
        f.test_top5 = metrics_top5(&u->metrics);
    }
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
    train_tell(t, TRAIN_EPOCH, &f, NULL);
    alarms_after(t, &f, f.epoch == t->task.settings.epochs || out_of_patience(t));
    status = unit_save(t); /* the alarms, too */
    if (status != BRASA_OK)
        return status;
    if (u->reported != 0 && train_clock() - u->reported < REPORT_EVERY)
        return BRASA_OK;
    u->reported = train_clock();
    return record_page(t);
}

static brasa_status train_epochs(training *t, bool *stopped)
{
    unit *u = &t->unit;
    brasa_status status = BRASA_OK;
    while (status == BRASA_OK && !*stopped && u->place.epoch < t->task.settings.epochs && !out_of_patience(t)) {
        status = train_epoch(t, stopped);
        if (status == BRASA_OK && !*stopped)
            status = end_epoch(t, stopped);
    }
    if (status == BRASA_OK && !*stopped && u->place.epoch < t->task.settings.epochs)
        train_say(t, TRAIN_NOTE, "no epoch since epoch %lld was better: stopped early",
                  (long long)u->place.best_epoch);
    return status;
}

static brasa_status unit_train(training *t, bool *stopped)
{
    brasa_status status = unit_start(t);
    if (status == BRASA_OK)
        train_tell(t, TRAIN_BEGIN, NULL, NULL);
    if (status == BRASA_OK)
        status = train_epochs(t, stopped);
    if (status == BRASA_OK)
        status = profile_end(t);
    return status == BRASA_OK && !*stopped ? unit_finish(t) : status;
}

/* --- the run ------------------------------------------------------------------------------------------------- */

static bool look_on(void *user, int32_t done)
{
    training *t = user;
    t->read = done;
    train_tell(t, TRAIN_READ, NULL, NULL);
    return !stopping(t);
}

/* Every sample in a file is read once before the first step: its bytes make the hash, and what cannot be read shows
 * here and not after hours. */
static brasa_status examine(training *t)
{
    const bool decode = t->task.settings.skip_bad;
    brasa_status status = dataset_identify(t->task.set, decode, look_on, t, &t->data);
    if (status != BRASA_OK && stopping(t))
        return fail(t->task.ctx, BRASA_WRONG_STATE, "stopped before the first step");
    if (status == BRASA_OK && t->data.nbad && !decode)
        return fail(t->task.ctx, BRASA_BAD_FILE, "%s (%d of %d samples cannot be read; --skip-bad leaves them out)",
                    t->data.bad[0].why, (int)t->data.nbad, (int)t->task.set->count);
    for (int32_t i = 0; status == BRASA_OK && i < t->data.nbad; i++)
        train_say(t, TRAIN_NOTE, "left out: %s", t->data.bad[i].why);
    if (status == BRASA_OK && t->task.set->note)
        train_say(t, TRAIN_NOTE, "%s", t->task.set->note);
    return status;
}

/* Settings whose defaults depend on the data. */
static brasa_status settle(training *t)
{
    train_settings *s = &t->task.settings;
    if (!s->folds && !s->split)
        s->split = t->task.set->parts == 2 ? "parts" : "all";
    const bool tests = s->folds || strcmp(s->split, "all") != 0;
    if (!s->keep)
        s->keep = tests ? "best" : "last";
    if (!tests && (strcmp(s->keep, "best") == 0 || s->patience))
        return fail(t->task.ctx, BRASA_BAD_ARGUMENT,
                    "%s: there are no samples to tell which epoch was the best by: give a split or folds",
                    s->patience ? "patience" : "keep");
    return BRASA_OK;
}

static brasa_status begin(training *t)
{
    brasa_status status = settings_complete(t->task.ctx, &t->task.settings);
    if (status == BRASA_OK && !t->needs)
        status = record_check(t);
    if (status == BRASA_OK)
        status = task_open_data(&t->task, t->task.settings.data);
    if (status == BRASA_OK)
        status = settle(t);
    t->model = t->task.settings.model;
    if (status == BRASA_OK)
        status = task_build(&t->task, t->model);
    if (status == BRASA_OK)
        status = task_send_bytes(&t->task);
    const bool look = !t->needs || t->task.settings.skip_bad; /* what is left out is not planned for */
    return status == BRASA_OK && look ? examine(t) : status;
}

/* A run that moves to a device that computes in f32 alone does so from then on; what is given counts. */
static const char *precision_now(const training *t, const train_settings *before)
{
    const char *given = t->options->settings.precision;
    return given ? given : t->task.ctx->device->precisions != 1u << BRASA_F32 ? before->precision : NULL;
}

/* Whether run.json says of a run that goes on what it is now. */
static bool is_recorded(const train_settings *now, const train_settings *before)
{
    const char *precision = before->precision ? before->precision : precision_word(BRASA_F32);
    return now->epochs == before->epochs && now->mem == before->mem && device_same(now->device, before->device) &&
           strcmp(now->precision, precision) == 0;
}

static brasa_status go_on(training *t, run_info *r)
{
    brasa_status status = record_folder(t, t->options->resume);
    if (status == BRASA_OK)
        status = run_read(t->task.ctx, t->folder, r);
    if (status == BRASA_OK)
        status = record_lock(t);
    if (status != BRASA_OK)
        return status;
    t->task.settings = r->settings;
    t->task.classes = r->classes;
    t->task.class_name = r->class_name;
    t->model = r->model;
    t->created = r->created;
    if (t->options->settings.epochs)
        t->task.settings.epochs = t->options->settings.epochs;
    if (t->options->settings.mem)
        t->task.settings.mem = t->options->settings.mem;
    t->task.settings.precision = precision_now(t, &r->settings);
    t->planned = r->settings.epochs;
    if (!r->settings.keep || (!r->settings.split && !r->settings.folds))
        return fail(t->task.ctx, BRASA_BAD_FILE, "%s/" RUN_FILE ": settings are missing", t->folder);
    status = settings_complete(t->task.ctx, &t->task.settings);
    t->recorded = is_recorded(&t->task.settings, &r->settings);
    if (status == BRASA_OK)
        status = task_open_data(&t->task, t->task.settings.data);
    if (status == BRASA_OK)
        status = task_build(&t->task, t->model);
    if (status == BRASA_OK)
        status = task_send_bytes(&t->task);
    if (status == BRASA_OK)
        status = examine(t);
    if (status == BRASA_OK && strcmp(r->hash, t->data.hash) != 0)
        status = fail(t->task.ctx, BRASA_BAD_FILE, "%s: the data are not those that the run began with",
                      t->task.settings.data);
    return status;
}

/* Those of a fold, to those of the run. */
static void add_alarms(training *t, int fold, const alarm_list *l)
{
    for (int i = 0; fold && i < l->count; i++)
        alarms_keep(&t->alarms, &t->task.pool, "fold %d: %s", fold, l->text[i]);
}

/* A unit that is over already counts as it is, unless it has epochs to go. */
static brasa_status read_finished(training *t, int fold, bool *over, run_outcome *out)
{
    pool p = {.ctx = t->task.ctx};
    train_figures *figures;
    int epochs;
    alarm_list alarms = {.count = 0};
    const char *folder = fold ? pool_text(&p, "%s/fold-%02d", t->folder, fold) : t->folder;
    brasa_status status = folder ? run_outcome_read(t->task.ctx, folder, out) : fail_memory(t->task.ctx, 0);
    if (status == BRASA_OK)
        status = run_epochs_read(&p, folder, &figures, &epochs);
    *over = status == BRASA_OK && out->there && !out->failed && epochs >= t->task.settings.epochs;
    if (*over && fold && run_has(folder, CHECKPOINT_FILE)) {
        const char *path = run_path(&p, folder, CHECKPOINT_FILE);
        status = path ? checkpoint_alarms(&p, path, &alarms) : BRASA_OUT_OF_MEMORY;
    }
    add_alarms(t, fold, &alarms);
    pool_free(&p);
    return status;
}

static brasa_status run_unit(training *t, int fold, bool *stopped, fold_result *out)
{
    bool over = false;
    run_outcome before;
    brasa_status status = t->folder ? read_finished(t, fold, &over, &before) : BRASA_OK;
    if (status != BRASA_OK || over) {
        *out = (fold_result){fold, before.accuracy, before.top5, before.loss};
        return status;
    }
    status = unit_open(t, fold);
    if (status == BRASA_OK)
        status = alarms_before(t);
    const bool fresh = !t->folder;
    if (status == BRASA_OK && fresh)
        status = record_create(t);
    if (status == BRASA_OK && !t->recorded)
        status = record_run(t);
    t->recorded = true;
    if (status == BRASA_OK && fresh)
        status = record_unit(t);
    if (status == BRASA_OK)
        status = record_kernels(t);
    if (status == BRASA_OK)
        status = unit_train(t, stopped);
    const metrics *m = &t->unit.metrics;
    *out = (fold_result){fold, metrics_top1(m), metrics_top5(m), metrics_loss(m)};
    add_alarms(t, fold, &t->unit.alarms);
    t->task.upload = NULL;
    unit_close(&t->unit);
    return status;
}

/* The mean and the deviation (of a sample: n - 1) of the folds. */
static void sum_up(const fold_result *folds, int count, train_result *out)
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
    out->units = count;
}

static brasa_status run_units(training *t, train_result *out)
{
    const train_settings *s = &t->task.settings;
    const int first = s->folds && !s->fold ? 1 : (int)s->fold, count = s->folds && !s->fold ? (int)s->folds : 1;
    fold_result *folds = pool_get(&t->task.pool, (size_t)count, sizeof *folds);
    if (!folds)
        return fail_memory(t->task.ctx, (size_t)count * sizeof *folds);
    brasa_status status = BRASA_OK;
    for (int i = 0; i < count && status == BRASA_OK && !out->stopped; i++) {
        status = run_unit(t, first + i, &out->stopped, &folds[i]);
        if (status == BRASA_OK && !out->stopped && s->folds)
            train_say(t, TRAIN_FOLD, "fold %d of %lld: accuracy %.2f %%", first + i, (long long)s->folds,
                      100 * folds[i].accuracy);
    }
    if (status != BRASA_OK || out->stopped)
        return status;
    sum_up(folds, count, out);
    if (s->folds)
        status = record_folds(t, folds, count, out);
    return status == BRASA_OK && s->folds ? record_folds_page(t, folds, count) : status;
}

brasa_status train_plan(brasa_context *ctx, const train_options *o, train_needs *out)
{
    const train_options quiet = {.settings = o->settings, .tuning = o->tuning};
    training t = {.options = &quiet,
                  .needs = out,
                  .lock = -1,
                  .task = {.ctx = ctx, .pool = {.ctx = ctx}, .settings = o->settings}};
    *out = (train_needs){0};
    brasa_status status = begin(&t);
    const train_settings *s = &t.task.settings;
    if (status == BRASA_OK)
        status = unit_plan(&t, s->folds && !s->fold ? 1 : (int)s->fold);
    out->memory = t.unit.memory;
    unit_close(&t.unit);
    dataset_report_free(&t.data);
    task_close(&t.task);
    return status;
}

brasa_status train_run(brasa_context *ctx, const train_options *o, train_result *out)
{
    training t = {.options = o, .lock = -1, .task = {.ctx = ctx, .pool = {.ctx = ctx}, .settings = o->settings}};
    run_info before = {.pool = {.ctx = ctx}};
    *out = (train_result){0};
    gauge_open(&t.gauge, ctx);
    brasa_status status = o->resume ? go_on(&t, &before) : begin(&t);
    if (status == BRASA_OK)
        status = run_units(&t, out);
    if (status != BRASA_OK && !o->resume && !t.begun)
        record_undo(&t);
    if (t.folder)
        snprintf(out->folder, sizeof out->folder, "%s", t.folder);
    unit_close(&t.unit);
    record_unlock(&t);
    gauge_close(&t.gauge);
    dataset_report_free(&t.data);
    task_close(&t.task);
    run_free(&before);
    return status;
}
