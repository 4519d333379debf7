/* predict.c - what was learned, used: the public calls that open, evaluate and predict. */
#include "core/options.h"
#include "train/train.h"
#include "train/trained.h"

static bool take_note(void *user, int64_t done, int64_t total, const char *note)
{
    (void)done, (void)total; /* nothing is timed */
    if (note)
        train_tell(user, BRASA_ON_NOTE, NULL, note);
    return true;
}

brasa_status brasa_trainer_open(brasa_context *ctx, const brasa_trainer_options *options, brasa_trainer **out)
{
    brasa_status status = trainer_new(ctx, options, true, out);
    if (status != BRASA_OK)
        return status;
    training *t = *out;
    const brasa_trainer_options *o = &t->options;
    const trained_options wish = {.fold = (int)o->fold,
                                  .spec = o->data,
                                  .set = o->dataset,
                                  .graph = o->graph,
                                  .most = o->batch ? o->batch : 32,
                                  .mem = o->memory_limit,
                                  .precision = o->precision,
                                  .watch = take_note,
                                  .user = t};
    t->ran = true;
    if (!o->resume)
        status =
            fail(ctx, BRASA_BAD_ARGUMENT, "brasa_trainer_open: options.resume names no run folder or weights file");
    else if (o->batch < 0 || o->batch > 65536)
        status =
            fail(ctx, BRASA_BAD_ARGUMENT, "batch: expected a number from 1 to 65536, got %lld", (long long)o->batch);
    else if (!(t->learned = mem_get(ctx, sizeof *t->learned)))
        status = fail_memory(ctx, sizeof *t->learned);
    else
        status = trained_open(ctx, o->resume, &wish, t->learned);
    if (status != BRASA_OK) {
        brasa_trainer_free(t);
        *out = NULL;
    }
    return status;
}

/* What the trainer has learned, with another set if `data` is not NULL. It is borrowed from the trainer. */
static brasa_status use(brasa_trainer *t, brasa_data *data, trained *out)
{
    if (t->learned)
        *out = *t->learned;
    else
        *out = (trained){.task = t->task, .run.settings = t->task.settings, .session = t->unit.session};
    task *k = &out->task;
    if (!out->session)
        return fail(k->ctx, BRASA_WRONG_STATE,
                    "the trainer has learned nothing, or gave it back after a fold: open "
                    "the run with brasa_trainer_open");
    if (!t->learned)
        k->upload = NULL;
    if (data)
        k->set = data;
    if (data && data->ctx != k->ctx)
        return fail(k->ctx, BRASA_BAD_ARGUMENT, "the data were made in another context than the trainer");
    if (data && k->graph->pictures && data->numbers)
        return fail(k->ctx, BRASA_WRONG_STATE,
                    "the session takes 8-bit images: open the run with brasa_trainer_open to use numbers");
    return data ? task_check_data(k) : BRASA_OK;
}

brasa_status brasa_trainer_evaluate(brasa_trainer *t, brasa_data *data, const char *text, brasa_metrics *out)
{
    trained v;
    split s = {0};
    if (!t || !out)
        return t ? fail(t->task.ctx, BRASA_BAD_ARGUMENT, "brasa_trainer_evaluate: out is NULL") : BRASA_BAD_ARGUMENT;
    const bool other = data || t->options.data || t->options.dataset;
    metrics *m = &t->evaluated;
    brasa_status status = use(t, data, &v);
    if (status == BRASA_OK && !v.task.set)
        status = fail(v.task.ctx, BRASA_WRONG_STATE, "there are no data to evaluate on: neither given, nor opened");
    if (status == BRASA_OK && !m->classes)
        status = metrics_init(m, &t->task.pool, v.task.classes);
    const bool own = t->learned && !data && !t->options.dataset && t->options.data && !t->options.data[0];
    if (status == BRASA_OK && !t->learned && !data && !text) { /* the split that it was trained with */
        const split *mine = &t->unit.split;
        status =
            trained_measure(&v, mine->tests ? mine->test : mine->train, mine->tests ? mine->tests : mine->trains, m);
    } else if (status == BRASA_OK) {
        if ((status = trained_split(&v, text, other && !own, &s)) == BRASA_OK)
            status = trained_measure(&v, s.tests ? s.test : s.train, s.tests ? s.tests : s.trains, m);
    }
    brasa_metrics mine = metrics_figures(m, t->unit.measured);
    mine.trained_on = (t->learned ? own && !s.tests : !data && !t->unit.split.tests);
    split_free(&s);
    return status == BRASA_OK ? options_give(t->task.ctx, out, &mine, sizeof mine, "brasa_metrics") : status;
}

brasa_status brasa_trainer_predict_file(brasa_trainer *t, const char *path, double *probabilities)
{
    trained v;
    if (!t || !path || !probabilities)
        return t ? fail(t->task.ctx, BRASA_BAD_ARGUMENT, "brasa_trainer_predict_file: a path or place is NULL")
                 : BRASA_BAD_ARGUMENT;
    if (!t->learned || t->learned->task.set)
        return fail(t->task.ctx, BRASA_WRONG_STATE,
                    "files are predicted by brasa_trainer_open, without data: it opens the run for single images");
    const brasa_status status = use(t, NULL, &v);
    return status == BRASA_OK ? trained_predict(&v, path, probabilities) : status;
}

brasa_status brasa_trainer_predict(brasa_trainer *t, const brasa_array *samples, bool nhwc, double *probabilities)
{
    trained v;
    brasa_data *data = NULL;
    if (!t || !samples || !probabilities || samples->rank < 1 || samples->shape[0] < 1)
        return t ? fail(t->task.ctx, BRASA_BAD_ARGUMENT,
                        "brasa_trainer_predict: expected samples, and where to write")
                 : BRASA_BAD_ARGUMENT;
    brasa_context *ctx = t->task.ctx;
    const task *k = t->learned ? &t->learned->task : &t->task;
    int32_t *labels = mem_get(ctx, (size_t)samples->shape[0] * sizeof *labels); /* zero: they are not looked at */
    if (!labels)
        return fail_memory(ctx, (size_t)samples->shape[0] * sizeof *labels);
    const brasa_data_arrays arrays = {
        .size = sizeof arrays,
        .samples = *samples,
        .labels = {.data = labels, .type = BRASA_TYPE_I32, .rank = 1, .shape = {samples->shape[0]}},
        .nhwc = nhwc,
        .classes = k->classes,
        .class_names = k->class_name};
    brasa_status status = brasa_data_from_arrays(ctx, &arrays, &data);
    if (status == BRASA_OK)
        status = use(t, data, &v);
    if (status == BRASA_OK)
        status = trained_predict_all(&v, probabilities);
    brasa_data_free(data);
    mem_put(ctx, labels);
    return status;
}
