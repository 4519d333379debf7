/* setup.c - what a training is made from: data, network and settings, given or read from a run that is resumed. */
#include "train/checkpoint.h"
#include "train/record.h"

#include "device/device.h"

#include <string.h>

static bool look_on(void *user, int32_t done)
{
    training *t = user;
    train_progress(t, BRASA_ON_READ, done, t->task.set->count, NULL);
    return !t->stopping;
}

/* Every sample in a file is read once before the first step: its bytes make the hash, and what cannot be read shows
 * here and not after hours. */
static brasa_status examine(training *t)
{
    const bool decode = t->task.settings.skip_unreadable;
    brasa_status status = dataset_identify(t->task.set, decode, look_on, t, &t->data);
    if (status != BRASA_OK && t->stopping)
        return fail(t->task.ctx, BRASA_WRONG_STATE, "stopped before the first step");
    if (status == BRASA_OK && t->data.nbad && !decode)
        return fail(t->task.ctx, BRASA_BAD_FILE, "%s (%d of %d samples cannot be read; --skip-bad leaves them out)",
                    t->data.bad[0].why, (int)t->data.nbad, (int)t->task.set->count);
    for (int32_t i = 0; status == BRASA_OK && i < t->data.nbad; i++)
        train_say(t, BRASA_ON_NOTE, "left out: %s", t->data.bad[i].why);
    if (status == BRASA_OK && t->task.set->note)
        train_say(t, BRASA_ON_NOTE, "%s", t->task.set->note);
    return status;
}

/* Settings whose defaults depend on the data. */
static brasa_status settle(training *t)
{
    brasa_trainer_options *s = &t->task.settings;
    if (t->options.train_list)
        s->split = LISTS;
    if (!s->folds && !s->split)
        s->split = t->task.set->parts == 2 ? "parts" : "all";
    const bool tests = t->options.train_list ? t->options.test_count > 0 : s->folds || strcmp(s->split, "all") != 0;
    if (!s->keep)
        s->keep = tests ? "best" : "last";
    if (!tests && (strcmp(s->keep, "best") == 0 || s->patience))
        return fail(t->task.ctx, BRASA_BAD_ARGUMENT,
                    "%s: there are no samples to tell which epoch was the best by: give a split or folds",
                    s->patience ? "patience" : "keep");
    return BRASA_OK;
}

/* Data and network, by t->model. */
static brasa_status open_task(training *t)
{
    task *k = &t->task;
    brasa_status status =
        t->options.dataset ? task_take_data(k, t->options.dataset) : task_open_data(k, k->settings.data);
    if (status == BRASA_OK && !t->before)
        status = settle(t);
    if (status == BRASA_OK)
        status = t->options.graph ? task_take_graph(k, t->options.graph) : task_build(k, t->model);
    return status == BRASA_OK ? task_send_bytes(k) : status;
}

brasa_status train_begin(training *t)
{
    brasa_trainer_options *s = &t->task.settings;
    if (t->options.graph && (!s->model || train_writes(t)))
        s->model = "graph"; /* in words; a run folder has no copy of it */
    if (t->options.dataset)
        s->data = t->options.dataset->spec;
    brasa_status status = settings_complete(t->task.ctx, s);
    if (status == BRASA_OK && t->options.train_list && (s->split || s->folds))
        status = fail(t->task.ctx, BRASA_BAD_ARGUMENT, "train_list, and a split or folds: give one of them");
    if (status == BRASA_OK && !t->needs && t->options.out)
        status = record_check(t);
    t->model = s->model;
    if (status == BRASA_OK)
        status = open_task(t);
    const bool look = !t->needs || s->skip_unreadable; /* what is left out is not planned for */
    return status == BRASA_OK && look ? examine(t) : status;
}

/* A run that moves to a device that computes in f32 alone does so from then on; what is given counts. */
static const char *precision_now(const training *t, const brasa_trainer_options *before)
{
    const char *given = t->options.precision;
    return given ? given : t->task.ctx->device->precisions != 1u << BRASA_F32 ? before->precision : NULL;
}

/* Whether run.json says of a run that goes on what it is now. */
static bool is_recorded(const brasa_trainer_options *now, const brasa_trainer_options *before)
{
    const char *precision = before->precision ? before->precision : precision_word(BRASA_F32);
    return now->epochs == before->epochs && now->memory_limit == before->memory_limit &&
           device_same(now->device, before->device) && strcmp(now->precision, precision) == 0;
}

brasa_status train_resume(training *t)
{
    run_info *r = pool_get(&t->task.pool, 1, sizeof *r);
    if (!r)
        return fail_memory(t->task.ctx, sizeof *r);
    *r = (run_info){.pool = {.ctx = t->task.ctx}};
    t->before = r;
    brasa_status status = record_folder(t, t->options.resume);
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
    if (t->options.epochs)
        t->task.settings.epochs = t->options.epochs;
    if (t->options.memory_limit)
        t->task.settings.memory_limit = t->options.memory_limit;
    t->task.settings.precision = precision_now(t, &r->settings);
    t->planned = r->settings.epochs;
    if (!r->settings.keep || (!r->settings.split && !r->settings.folds))
        return fail(t->task.ctx, BRASA_BAD_FILE, "%s/" RUN_FILE ": settings are missing", t->folder);
    status = settings_complete(t->task.ctx, &t->task.settings);
    t->recorded = is_recorded(&t->task.settings, &r->settings);
    if (status == BRASA_OK)
        status = open_task(t);
    if (status == BRASA_OK)
        status = examine(t);
    if (status == BRASA_OK && strcmp(r->hash, t->data.hash) != 0)
        status = fail(t->task.ctx, BRASA_BAD_FILE, "%s: the data are not those that the run began with",
                      t->task.settings.data);
    return status;
}

void train_add_alarms(training *t, int fold, const alarm_list *l)
{
    for (int i = 0; fold && i < l->count; i++)
        alarms_keep(&t->alarms, &t->task.pool, "fold %d: %s", fold, l->text[i]);
}

brasa_status train_finished(training *t, int fold, bool *over, run_outcome *out)
{
    pool p = {.ctx = t->task.ctx};
    brasa_epoch *figures;
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
    train_add_alarms(t, fold, &alarms);
    pool_free(&p);
    return status;
}
