/* unit.c - one training of a run: split, session and loaders; its checkpoints; its beginning and its end. */
#define _POSIX_C_SOURCE 200809L
#include "device/device.h"
#include "core/hash.h"
#include "core/numeric.h"
#include "core/replace.h"
#include "train/checkpoint.h"
#include "train/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_KERNELS = 256 };

/* --- a unit: from settings to something that can train ------------------------------------------------------- */

static split_options split_wish(const training *t, int fold)
{
    const brasa_trainer_options *s = &t->task.settings;
    return (split_options){.kind = SPLIT_FOLDS,
                           .folds = (int)s->folds,
                           .fold = fold - 1,
                           .no_stratify = s->no_stratify,
                           .no_shuffle = s->no_shuffle,
                           .seed = (uint64_t)s->seed};
}

bool unit_has_checkpoint(const unit *u)
{
    return u->folder && run_has(u->folder, CHECKPOINT_FILE);
}

/* The caller's lists. */
static brasa_status take_list(training *t, const char *name, const int32_t *from, int32_t count, int32_t **to)
{
    const int32_t all = t->task.set->count;
    for (int32_t i = 0; i < count; i++)
        if (from[i] < 0 || from[i] >= all)
            return fail(t->task.ctx, BRASA_BAD_ARGUMENT, "%s[%d] is %d: samples of %s have numbers from 0 to %d",
                        name, (int)i, (int)from[i], t->task.settings.data, (int)all - 1);
    if (!(*to = mem_get(t->task.ctx, (size_t)count * sizeof **to + 1)))
        return fail_memory(t->task.ctx, (size_t)count * sizeof **to);
    if (count)
        memcpy(*to, from, (size_t)count * sizeof **to);
    return BRASA_OK;
}

static brasa_status take_lists(training *t)
{
    const brasa_trainer_options *o = &t->options;
    split *s = &t->unit.split;
    *s = (split){.ctx = t->task.ctx};
    brasa_status status = take_list(t, "train_list", o->train_list, o->train_count, &s->train);
    if (status == BRASA_OK)
        status = take_list(t, "test_list", o->test_list, o->test_count, &s->test);
    s->trains = status == BRASA_OK ? o->train_count : 0;
    s->tests = status == BRASA_OK ? o->test_count : 0;
    return status;
}

/* A unit that goes on has its lists on file. */
static brasa_status make_split(training *t)
{
    unit *u = &t->unit;
    split_options o = split_wish(t, u->fold);
    brasa_status status = BRASA_OK;
    if (unit_has_checkpoint(u)) {
        status = split_read(t->task.set, u->lists, &u->split);
    } else if (t->options.train_list) {
        status = take_lists(t);
    } else {
        if (!u->fold)
            status = split_parse(t->task.ctx, t->task.settings.split, &o);
        if (status == BRASA_OK)
            status = split_make(t->task.set, &o, &u->split);
    }
    if (status != BRASA_OK)
        return status;
    const bool tests = u->split.tests > 0;
    split_drop(&u->split, &t->data);
    if (u->split.trains == 0 || (tests && u->split.tests == 0))
        return fail(t->task.ctx, BRASA_BAD_ARGUMENT, "%s: no sample is left to %s on: %d of %d cannot be read",
                    t->task.settings.data, u->split.trains ? "test" : "train", (int)t->data.nbad,
                    (int)t->task.set->count);
    return BRASA_OK;
}

/* A cosine that does not say when it ends, ends with the last epoch: of this unit, as folds may differ in their
 * steps. The settings keep what the user said, so that a run that goes on to a later end gets a longer one. */
static brasa_status settle_schedule(training *t)
{
    const brasa_trainer_options *s = &t->task.settings;
    unit *u = &t->unit;
    u->schedule = s->schedule;
    if (settings_schedule_ends(s))
        u->schedule = pool_text(&u->pool, "%s steps=%lld", s->schedule, (long long)(s->epochs * u->steps));
    return u->schedule ? BRASA_OK : fail_memory(t->task.ctx, 0);
}

/* The programs that `count` samples in batches of `most` need. */
static brasa_status prepare_sizes(brasa_session *s, bool train, int64_t count, int64_t most)
{
    brasa_status status = BRASA_OK;
    if (count >= most)
        status = brasa_session_prepare(s, train, most);
    if (status == BRASA_OK && count % most)
        status = brasa_session_prepare(s, train, count % most);
    return status;
}

/* Of the kernels of all steps of all programs, in their order, and of a device's libraries. SUMS is raised when a
 * kernel adds up in another order under its old name: who goes on with a run is told that digits will differ. */
static uint64_t digest_kernels(const brasa_session *s)
{
    enum { SUMS = 2 };
    const unsigned char sums = SUMS;
    const char *about = s->ctx->device->about;
    uint64_t hash = hash_bytes(hash_bytes(HASH_START, &sums, sizeof sums), about, strlen(about));
    for (const program *p = s->programs; p; p = p->next)
        for (int i = 0; i < p->nsteps; i++)
            hash = hash_bytes(hash, p->steps[i].kernel->name, strlen(p->steps[i].kernel->name) + 1);
    return hash;
}

static brasa_status list_kernels(unit *u)
{
    const char *names[MOST_KERNELS];
    const int count = session_kernels(u->session, names, MOST_KERNELS);
    size_t length = 1;
    for (int i = 0; i < count; i++)
        length += strlen(names[i]) + 1;
    char *text = pool_get(&u->pool, length, 1);
    if (!text)
        return fail_memory(u->pool.ctx, length);
    for (int i = 0; i < count; i++)
        strcat(strcat(text, i ? " " : ""), names[i]);
    u->kernels = text;
    u->choices = pool_text(&u->pool, "%016llx", (unsigned long long)digest_kernels(u->session));
    return u->choices ? BRASA_OK : fail_memory(u->pool.ctx, 0);
}

/* --- kernels by the clock ------------------------------------------------------------------------------------ */

static bool look_on(void *user, int64_t done, int64_t total, const char *note)
{
    training *t = user;
    if (note) {
        train_tell(t, BRASA_ON_NOTE, NULL, note);
    } else if (t->timed != done + 1) { /* one that takes long is told again */
        t->timed = done + 1;
        train_progress(t, BRASA_ON_TUNE, done, total, NULL);
    }
    return !t->stopping;
}

/* Whether kernels may be timed: where others will find the choice. What is decided only for this run would be decided
 * otherwise in the next. */
static bool may_time(training *t, const brasa_tuning *given)
{
    if (!given || !given->measure || t->task.settings.deterministic)
        return false;
    if (!train_writes(t))
        return true;
    if (!given->cache)
        return false;
    const bool kept = choices_writable(t->task.ctx, given->cache);
    if (!kept && !t->folder) /* once: when the run begins */
        train_say(t, BRASA_ON_NOTE, "%s cannot be written: kernels are not timed, so that runs repeat", given->cache);
    return kept;
}

/* Whether the unit's kernels are decided: it has a checkpoint and, where libraries choose, a record that is of such a
 * device; one that comes from elsewhere has not. */
static brasa_status is_decided(training *t, const char *record, bool *decided)
{
    const unit *u = &t->unit;
    *decided = unit_has_checkpoint(u);
    if (!*decided || !t->task.ctx->device->self_tuning)
        return BRASA_OK;
    const brasa_status status = session_tuned_here(t->task.ctx, record, decided);
    if (status == BRASA_OK && !*decided && !t->needs)
        train_say(t, BRASA_ON_NOTE,
                  "%s says nothing of this device: kernels are chosen anew, and the result may differ", record);
    return status;
}

/* How the unit's kernels are chosen; *tuned false: the first that fit. The run's record stands. What it does not know
 * is decided once. */
static brasa_status tuning_wish(training *t, brasa_tuning *out, bool *tuned)
{
    const brasa_tuning *given = t->task.settings.no_tune ? NULL : t->options.tuning;
    const char *record = t->folder ? run_path(&t->unit.pool, t->folder, CHOICES_FILE) : NULL;
    bool decided = false;
    brasa_status status = t->folder && !record ? BRASA_OUT_OF_MEMORY : is_decided(t, record, &decided);
    if (status != BRASA_OK)
        return status;
    *out = SIZED(brasa_tuning, .measure = !decided && may_time(t, given),
                 .cache = given && !decided ? given->cache : NULL, .record = record,
                 .memory_limit = (uint64_t)t->task.settings.memory_limit, .watch = look_on, .user = t);
    *tuned = out->measure || out->cache ||
             (t->folder && (run_has(t->folder, CHOICES_FILE) || run_has(t->folder, "engines.txt")));
    return BRASA_OK;
}

static brasa_session_options session_wish(const training *t)
{
    const unit *u = &t->unit;
    const brasa_trainer_options *s = &t->task.settings;
    int32_t precision = BRASA_F32;
    (void)precision_read(t->task.ctx, s->precision, &precision); /* settings_complete has read it, too */
    return SIZED(brasa_session_options, .batch = u->split.trains < s->batch ? u->split.trains : s->batch,
                 .optimizer = s->optimizer, .schedule = u->schedule, .clip_norm = s->clip_norm,
                 .seed = (uint64_t)s->seed, .freeze = s->freeze, .class_weights = u->class_weights,
                 .class_weight_count = u->class_weights ? t->task.classes : 0, .deterministic = s->deterministic,
                 .precision = precision, .plan_only = t->needs != NULL);
}

static brasa_status make_programs(training *t, const brasa_session_options *o)
{
    unit *u = &t->unit;
    brasa_session_free(u->session);
    u->session = NULL;
    brasa_status status = brasa_session_new(t->task.graph, o, &u->session);
    if (status == BRASA_OK)
        status = prepare_sizes(u->session, true, u->split.trains, t->task.settings.batch);
    if (status == BRASA_OK)
        status = prepare_sizes(u->session, false, u->split.tests, u->at_once);
    if (status == BRASA_OK)
        status = list_kernels(u);
    if (status == BRASA_OK)
        u->memory = session_memory(u->session);
    return status;
}

/* Whether pictures on their way, if there are any, fit beside the session, and what the device's libraries want. */
static bool has_room(const training *t)
{
    const upload_options o = unit_upload(t, false);
    return t->task.graph->pictures ? upload_fits(t->task.ctx, &o) : fit_device_has(t->task.ctx, 0);
}

/* A device with memory of its own, and no budget of the user's, is just tried: its memory is there or not, and
 * planning costs time. False: there is not enough of it for the batch as a whole, or something is wrong. */
static bool fits_device(training *t, brasa_session_options *o, brasa_status *status)
{
    unit *u = &t->unit;
    if (t->task.ctx->device->host_memory || t->needs || t->task.settings.memory_limit || o->micro_batches > 1)
        return false;
    o->micro_batches = u->parts = 1;
    u->at_once = t->task.settings.batch;
    *status = make_programs(t, o);
    if (*status == BRASA_OK && has_room(t))
        return true;
    if (*status != BRASA_OK && *status != BRASA_OUT_OF_MEMORY)
        return false;
    brasa_session_free(u->session);
    u->session = NULL;
    o->micro_batches = 0;
    *status = BRASA_OK;
    return false;
}

/* Parts are those of the first kernels that fit, so that they are the same when the run goes on. Should the fastest
 * need more memory than there is, the first ones do it, and the run's record knows nothing of the others. */
static brasa_status make_session(training *t)
{
    static const brasa_tuning first_ones = {.size = sizeof first_ones, .measure = false};
    unit *u = &t->unit;
    brasa_session_options o = session_wish(t);
    brasa_tuning tuning = {.size = sizeof tuning};
    bool tuned = false;
    brasa_status status = BRASA_OK;
    if (unit_has_checkpoint(u))
        status = checkpoint_parts(t->task.ctx, u->checkpoint, o.batch, &o.micro_batches);
    if (status == BRASA_OK)
        status = tuning_wish(t, &tuning, &tuned);
    o.tuning = &tuning;
    if (status == BRASA_OK && fits_device(t, &o, &status))
        return BRASA_OK;
    o.tuning = &first_ones;
    u->budget = (int64_t)fit_budget_bytes(t->task.ctx, t->task.settings.memory_limit);
    if (status == BRASA_OK)
        status = unit_split_batch(t, &o);
    u->parts = o.micro_batches;
    if (status == BRASA_OK)
        status = unit_evaluate_at_once(t, &o, &u->at_once);
    o.tuning = tuned ? &tuning : &first_ones;
    if (status == BRASA_OK)
        status = make_programs(t, &o);
    const bool fits = status == BRASA_OK && !unit_over_budget(t);
    if (fits || !tuned || (status != BRASA_OK && (status != BRASA_OUT_OF_MEMORY || t->task.ctx->device->host_memory)))
        return status;
    o.tuning = &first_ones;
    return make_programs(t, &o);
}

static brasa_status make_loader(training *t, bool train, loader **out)
{
    unit *u = &t->unit;
    const loader_options o = unit_loading(t, train, train ? t->task.settings.batch : u->at_once);
    return o.count ? loader_new(u->feeder, &o, out) : BRASA_OK;
}

/* Should the device have less memory by now than it had, pictures come anew in each epoch. */
static brasa_status make_upload(training *t)
{
    unit *u = &t->unit;
    if (!t->task.graph->pictures)
        return BRASA_OK;
    const upload_options most = unit_upload(t, true), least = unit_upload(t, false);
    brasa_status status = u->stay_bytes ? upload_new(t->task.ctx, &most, &u->upload) : BRASA_OUT_OF_MEMORY;
    if (status == BRASA_OUT_OF_MEMORY && u->stay_bytes)
        unit_come_anew(t);
    if (status == BRASA_OUT_OF_MEMORY)
        status = upload_new(t->task.ctx, &least, &u->upload);
    t->task.upload = u->upload;
    if (status == BRASA_OK && u->stay_bytes)
        train_say(t, BRASA_ON_NOTE, "after the first epoch all %d pictures stay on %s, as bytes, %s",
                  (int)t->task.set->count, t->task.ctx->device->name, numeric_bytes((double)u->stay_bytes).text);
    return status;
}

static brasa_status furnish(training *t)
{
    unit *u = &t->unit;
    brasa_status status = make_upload(t);
    const feeder_options f = unit_feeding(t, u->kept_bytes);
    if (status == BRASA_OK)
        status = feeder_new(t->task.ctx, &f, &u->feeder);
    if (status == BRASA_OK && u->upload)
        upload_serve(u->upload, u->feeder);
    if (status == BRASA_OK)
        status = make_loader(t, true, &u->train);
    if (status == BRASA_OK)
        status = make_loader(t, false, &u->test);
    if (status == BRASA_OK)
        status = pending_new(t->task.ctx, 0, 0, &u->pending);
    if (status == BRASA_OK)
        status = pending_new(t->task.ctx, u->at_once, t->task.classes, &u->logits);
    return status == BRASA_OK ? metrics_init(&u->metrics, &u->pool, t->task.classes) : status;
}

brasa_status unit_plan(training *t, int fold)
{
    unit *u = &t->unit;
    const brasa_trainer_options *s = &t->task.settings;
    *u = (unit){.fold = fold, .pool = {.ctx = t->task.ctx}};
    brasa_status status = t->folder ? record_unit(t) : BRASA_OK;
    if (status == BRASA_OK && unit_has_checkpoint(u))
        status = checkpoint_alarms(&u->pool, u->checkpoint, &u->alarms);
    if (status == BRASA_OK)
        status = make_split(t);
    u->steps = (u->split.trains + s->batch - 1) / s->batch;
    if (status == BRASA_OK)
        status = settle_schedule(t);
    if (status == BRASA_OK)
        status = unit_weigh_classes(t);
    if (status == BRASA_OK)
        train_tell(t, BRASA_ON_COMPILE, NULL, NULL);
    if (status == BRASA_OK)
        status = make_session(t);
    return status == BRASA_OK ? unit_share_memory(t) : status;
}

brasa_status unit_open(training *t, int fold)
{
    brasa_status status = unit_plan(t, fold);
    return status == BRASA_OK ? furnish(t) : status;
}

void unit_close(training *t)
{
    unit *u = &t->unit;
    t->task.upload = NULL;
    pending_free(u->pending); /* first: they wait for the device */
    pending_free(u->logits);
    upload_free(u->upload);
    loader_free(u->train);
    loader_free(u->test);
    feeder_free(u->feeder);
    brasa_session_free(u->session);
    split_free(&u->split);
    mem_put(t->task.ctx, u->kept);
    pool_free(&u->pool);
    *u = (unit){0};
}

/* --- checkpoints --------------------------------------------------------------------------------------------- */

checkpoint_terms unit_terms(const training *t)
{
    const brasa_trainer_options *s = &t->task.settings;
    const bool any_threads = s->deterministic || t->task.ctx->device->any_threads;
    return (checkpoint_terms){.settings = settings_digest(s),
                              .device = s->device,
                              .precision = s->precision,
                              .threads = any_threads ? 0 : brasa_context_threads(t->task.ctx),
                              .parts = t->unit.parts,
                              .kernels = t->unit.choices};
}

/* In memory: a copy of the weights, as the host has them. */
static brasa_status move_weights(training *t, bool back)
{
    unit *u = &t->unit;
    const brasa_session *s = u->session;
    int64_t at = 0;
    brasa_status status = BRASA_OK;
    for (int i = 0; i < s->nstates && !u->kept; i++)
        at += s->states[i].bytes;
    if (!u->kept && !(u->kept = mem_get(t->task.ctx, (size_t)at)))
        return fail_memory(t->task.ctx, (size_t)at);
    at = 0;
    for (int i = 0; i < s->nstates && status == BRASA_OK; i++) {
        const state *st = &s->states[i];
        char *kept = (char *)u->kept + at;
        at += st->bytes;
        if (st->kind != VALUE_PARAM && st->kind != VALUE_BUFFER)
            continue;
        if (!back && (status = session_pull(s, st)) == BRASA_OK)
            memcpy(kept, session_state_data(s, st), (size_t)st->bytes);
        if (back) {
            memcpy(session_state_data(s, st), kept, (size_t)st->bytes);
            status = session_push(s, st);
        }
    }
    return status;
}

brasa_status unit_save_weights(training *t)
{
    if (!train_writes(t))
        return move_weights(t, false);
    return session_save(t->unit.session, t->unit.weights, BRASA_WEIGHTS, t->unit.notes);
}

/* The last N epochs' checkpoints: other names for files that are there anyway. */
static brasa_status keep_epochs(training *t, int64_t count)
{
    unit *u = &t->unit;
    const char *to = pool_text(&u->pool, "%s/checkpoint-%lld.safetensors", u->folder, (long long)u->place.epoch);
    const char *old =
        pool_text(&u->pool, "%s/checkpoint-%lld.safetensors", u->folder, (long long)(u->place.epoch - count));
    if (!to || !old)
        return fail_memory(t->task.ctx, 0);
    unlink(to);
    if (link(u->checkpoint, to) != 0)
        return fail(t->task.ctx, BRASA_BAD_FILE, "%s: %s", to, strerror(errno));
    unlink(old);
    return sync_folder(t->task.ctx, u->folder);
}

brasa_status unit_save(training *t)
{
    unit *u = &t->unit;
    const checkpoint_terms terms = unit_terms(t);
    if (!train_writes(t))
        return BRASA_OK;
    brasa_status status = checkpoint_save(u->session, u->checkpoint, &u->place, &terms, &u->alarms);
    const int64_t count = atoi(t->task.settings.keep);
    if (status == BRASA_OK && count > 0 && u->place.epoch > 0 && u->place.done == 0)
        status = keep_epochs(t, count);
    u->saved = train_clock();
    if (status == BRASA_OK)
        train_tell(t, BRASA_ON_SAVE, NULL, u->checkpoint);
    return status;
}

/* --- beginning and end of a unit ----------------------------------------------------------------------------- */

/* What a file of weights does not have, or has in another shape, stays as it was drawn: a head for other classes. */
static brasa_status start_weights(training *t)
{
    const char *path = t->task.settings.weights;
    brasa_load_report r = {.size = sizeof r};
    const brasa_load_options o = {
        .size = sizeof o, .what = BRASA_WEIGHTS, .allow_unknown = true, .allow_mismatched = true};
    if (!path)
        return BRASA_OK;
    brasa_status status = session_load_fresh(t->unit.session, path, &o, &r);
    if (status == BRASA_OK && r.loaded == 0)
        status = fail(t->task.ctx, BRASA_BAD_FILE, "%s: none of its weights fits %s; %s", path,
                      t->task.settings.model, r.names);
    if (status == BRASA_OK && r.mismatched + r.unknown > 0)
        train_say(t, BRASA_ON_NOTE, "%s: %d tensors taken; not taken: %s", path, (int)r.loaded, r.names);
    return status;
}

/* It is not over any more. */
static brasa_status remove_result(training *t, const char *folder)
{
    pool p = {.ctx = t->task.ctx};
    const char *path = run_path(&p, folder, RESULT_FILE);
    brasa_status status = path ? BRASA_OK : BRASA_OUT_OF_MEMORY;
    if (path && unlink(path) != 0 && errno != ENOENT)
        status = fail(t->task.ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    pool_free(&p);
    return status;
}

/* What was trained so far had the rates of a schedule with another end. */
static void tell_schedule(training *t)
{
    const brasa_trainer_options *s = &t->task.settings;
    if (s->epochs != t->planned && settings_schedule_ends(s))
        train_say(
            t, BRASA_ON_WARNING,
            "the cosine ends with epoch %lld now, %lld before: the learning rates so far were not those of a run "
            "planned for %lld epochs",
            (long long)s->epochs, (long long)t->planned, (long long)s->epochs);
}

brasa_status unit_start(training *t)
{
    unit *u = &t->unit;
    checkpoint_note note;
    const checkpoint_terms terms = unit_terms(t);
    brasa_status status = train_writes(t) ? notes_make(t) : BRASA_OK;
    if (status == BRASA_OK && !unit_has_checkpoint(u)) {
        status = loader_seek(u->train, 0, 0); /* it works on the first batch meanwhile */
        if (status == BRASA_OK && train_writes(t))
            status = split_write(&u->split, u->lists);
        if (status == BRASA_OK)
            status = start_weights(t);
        return status == BRASA_OK ? unit_save(t) : status;
    }
    if (status == BRASA_OK)
        status = checkpoint_load(u->session, u->checkpoint, &u->place, &terms, &note);
    if (status == BRASA_OK && note.text[0])
        train_say(t, BRASA_ON_WARNING, "%s", note.text);
    if (status == BRASA_OK && brasa_session_steps(u->session) > 0)
        tell_schedule(t);
    if (status == BRASA_OK && u->place.done > u->steps)
        status = fail(t->task.ctx, BRASA_BAD_FILE, "%s: step %lld of an epoch that has %lld", u->checkpoint,
                      (long long)u->place.done, (long long)u->steps);
    if (status == BRASA_OK)
        status = record_resume(t);
    if (status == BRASA_OK && atoi(t->task.settings.keep) > 0 && u->place.epoch > 0 && u->place.done == 0)
        status = keep_epochs(t, atoi(t->task.settings.keep));
    if (status == BRASA_OK)
        status = remove_result(t, u->folder);
    if (status == BRASA_OK && u->fold)
        status = remove_result(t, t->folder);
    u->saved = train_clock();
    return status;
}

/* The result is measured on the weights that are kept. */
brasa_status unit_finish(training *t)
{
    unit *u = &t->unit;
    const bool best = strcmp(t->task.settings.keep, "best") == 0 && u->test;
    const int64_t wanted = best ? u->place.best_epoch : u->place.epoch;
    brasa_status status = best || !train_writes(t) ? BRASA_OK : unit_save_weights(t);
    if (status == BRASA_OK && u->test && u->measured != wanted) {
        if (best)
            status = train_writes(t) ? session_load_fresh(u->session, u->weights, NULL, NULL) : move_weights(t, true);
        if (status == BRASA_OK)
            status = task_measure(&t->task, u->session, u->test, u->logits, &u->metrics, NULL, NULL);
        u->measured = wanted;
    }
    if (status == BRASA_OK)
        status = record_page(t);
    if (status == BRASA_OK)
        status = record_result(t, NULL);
    if (status == BRASA_OK)
        train_tell(t, BRASA_ON_END, u->place.epoch ? &u->figures[u->place.epoch - 1] : NULL, NULL);
    return status;
}
