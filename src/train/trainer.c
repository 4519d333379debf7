/* trainer.c - the public calls of a trainer: brasa.h. */
#include "core/options.h"
#include "train/trained.h"

#include <math.h>
#include <string.h>

/* --- making one ---------------------------------------------------------------------------------------------- */

static brasa_status copy_text(pool *p, const char **text)
{
    return !*text || (*text = pool_text(p, "%s", *text)) ? BRASA_OK : fail_memory(p->ctx, 0);
}

static brasa_status copy_list(pool *p, const int32_t **list, int32_t count)
{
    if (!*list)
        return BRASA_OK;
    int32_t *copy = pool_get(p, (size_t)count + 1, sizeof *copy);
    if (!copy)
        return fail_memory(p->ctx, (size_t)count * sizeof *copy);
    memcpy(copy, *list, (size_t)count * sizeof *copy);
    *list = copy;
    return BRASA_OK;
}

static brasa_status check_options(brasa_context *ctx, const brasa_trainer_options *o, bool plan)
{
    if (!o->resume && !o->model && !o->graph)
        return fail(ctx, BRASA_BAD_ARGUMENT, "a trainer needs a model or a graph");
    if (!o->resume && !o->data && !o->dataset && !plan)
        return fail(ctx, BRASA_BAD_ARGUMENT, "a trainer needs data");
    if ((o->train_list && o->train_count < 1) || o->test_count < 0 || (!o->test_list && o->test_count) ||
        (!o->train_list && o->test_list))
        return fail(ctx, BRASA_BAD_ARGUMENT,
                    "train_list and test_list: expected samples to train on, with their count");
    if (o->profile < 0 || o->warm_up < 0)
        return fail(ctx, BRASA_BAD_ARGUMENT, "profile and warm_up: expected numbers of steps from 0 on");
    return BRASA_OK;
}

/* Copies all that the options point to, but the graph. */
static brasa_status copy_options(training *t)
{
    brasa_trainer_options *o = &t->options;
    pool *p = &t->task.pool;
    brasa_status status = settings_copy(p, o);
    const char **texts[] = {&o->resume, &o->out, &o->machine};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == BRASA_OK; i++)
        status = copy_text(p, texts[i]);
    if (status == BRASA_OK)
        status = copy_list(p, &o->train_list, o->train_count);
    if (status == BRASA_OK)
        status = copy_list(p, &o->test_list, o->test_count);
    if (status == BRASA_OK && o->tuning) {
        t->tuning = *o->tuning;
        o->tuning = &t->tuning;
        status = copy_text(p, &t->tuning.cache);
    }
    t->task.settings = *o;
    return status;
}

brasa_status trainer_new(brasa_context *ctx, const brasa_trainer_options *options, bool plan, brasa_trainer **out)
{
    if (!ctx || !out)
        return fail(ctx, BRASA_BAD_ARGUMENT, "brasa_trainer_new: the context, or where the trainer goes, is NULL");
    *out = NULL;
    training *t = mem_get(ctx, sizeof *t);
    if (!t)
        return fail_memory(ctx, sizeof *t);
    *t = (training){.lock = -1, .task = {.ctx = ctx, .pool = {.ctx = ctx}}, .unit = {.pool = {.ctx = ctx}}};
    brasa_status status = options_take(ctx, &t->options, sizeof t->options, options, "brasa_trainer_options");
    if (status == BRASA_OK)
        status = check_options(ctx, &t->options, plan);
    if (status == BRASA_OK)
        status = copy_options(t);
    if (status == BRASA_OK)
        *out = t;
    else
        brasa_trainer_free(t);
    return status;
}

brasa_status brasa_trainer_new(brasa_context *ctx, const brasa_trainer_options *options, brasa_trainer **out)
{
    return trainer_new(ctx, options, false, out);
}

void brasa_trainer_free(brasa_trainer *t)
{
    if (!t)
        return;
    brasa_context *ctx = t->task.ctx;
    unit_close(t);
    if (t->learned)
        trained_close(t->learned);
    mem_put(ctx, t->learned);
    record_unlock(t);
    if (t->before)
        run_free(t->before);
    dataset_report_free(&t->data);
    task_close(&t->task);
    mem_put(ctx, t);
}

/* --- what it has --------------------------------------------------------------------------------------------- */

brasa_status brasa_trainer_describe(const brasa_trainer *t, brasa_trainer_info *out)
{
    if (!t)
        return BRASA_BAD_ARGUMENT;
    const unit *u = &t->unit;
    if (!u->session)
        return fail(t->task.ctx, BRASA_WRONG_STATE, "the trainer has nothing prepared: it has not begun, or is over");
    const brasa_trainer_info mine = {.size = sizeof mine,
                                     .classes = t->task.classes,
                                     .train_samples = u->split.trains,
                                     .test_samples = u->split.tests,
                                     .parameters = brasa_graph_param_total(t->task.graph),
                                     .steps = u->steps,
                                     .epochs_done = u->place.epoch,
                                     .steps_done = u->place.done,
                                     .micro_batches = u->parts,
                                     .micro_batch = u->session->part ? u->session->part : u->session->options.batch,
                                     .test_batch = u->at_once,
                                     .loader = (uint64_t)u->loader_bytes,
                                     .upload = (uint64_t)u->upload_bytes,
                                     .resident = (uint64_t)u->stay_bytes};
    return options_give(t->task.ctx, out, &mine, sizeof mine, "brasa_trainer_info");
}

const brasa_trainer_options *brasa_trainer_settings(const brasa_trainer *t)
{
    return !t ? NULL : t->learned ? &t->learned->task.settings : &t->task.settings;
}

brasa_session *brasa_trainer_session(const brasa_trainer *t)
{
    return !t ? NULL : t->learned ? t->learned->session : t->unit.session;
}

const char *const *brasa_trainer_classes(const brasa_trainer *t, int32_t *count)
{
    if (count)
        *count = !t ? 0 : t->learned ? t->learned->task.classes : t->task.classes;
    return !t ? NULL : t->learned ? t->learned->task.class_name : t->task.class_name;
}

bool brasa_trainer_epoch_at(const brasa_trainer *t, int32_t index, brasa_epoch *out)
{
    const unit *u = t ? &t->unit : NULL;
    return u && index >= 0 && index < u->place.epoch &&
           options_give(t->task.ctx, out, &u->figures[index], sizeof u->figures[index], "brasa_epoch") == BRASA_OK;
}

bool brasa_trainer_metrics(const brasa_trainer *t, brasa_metrics *out)
{
    if (!t || !t->unit.metrics.count)
        return false;
    const brasa_metrics mine = metrics_figures(&t->unit.metrics, t->unit.measured);
    return options_give(t->task.ctx, out, &mine, sizeof mine, "brasa_metrics") == BRASA_OK;
}
