/* runner_train.c - a training by the clock, with the loaders, programs and kernels of `brasa train`: see runner.h.
 *
 * An epoch's seconds go from the call for its first batch to the end of its last step. What makes the session ready,
 * kernels that are timed included, counts to the first step. */
#include "lab/runner.h"

#include "train/safetensors.h"
#include "train/train.h"

#include <math.h>
#include <string.h>

typedef struct lesson {
    runner *r;
    task task;
    dataset_report data;
    split split;
    brasa_session *session;
    feeder *feeder;
    loader *train, *test; /* test is NULL where there is nothing to test on */
    metrics metrics;
    answers *logits;
    double compiled; /* seconds that it took to make the session */
} lesson;

static void tell_phase(runner *r, const char *phase, int64_t epoch)
{
    runner_begin(r, "phase");
    json_text(&r->lines, "phase", phase);
    json_int(&r->lines, "epoch", epoch);
    runner_end(r);
}

/* --- what is learned from ------------------------------------------------------------------------------------ */

/* A list of the split; none is an empty one. */
static brasa_status read_list(lesson *l, safetensors *f, const char *name, int32_t **list, int32_t *count)
{
    brasa_context *ctx = l->r->ctx;
    const tensor_entry *t = safetensors_find(f, name);
    *count = 0;
    if (!(*list = mem_get(ctx, t ? (size_t)(t->end - t->begin) + 1 : 1)))
        return fail_memory(ctx, 1);
    if (!t || t->end == t->begin)
        return BRASA_OK;
    if (strcmp(t->type->name, "I32") != 0 || t->shape.rank != 1 || t->shape.dim[0] > l->task.set->count)
        return fail(ctx, BRASA_BAD_FILE, "%s: '%s' is no list of samples of %s", f->path, name, l->task.set->spec);
    number piece[PIECE];
    for (int32_t all = (int32_t)t->shape.dim[0]; *count < all;) {
        const int some = all - *count < PIECE ? all - *count : PIECE;
        brasa_status status = safetensors_read(f, t, *count, some, piece);
        if (status != BRASA_OK)
            return status;
        for (int i = 0; i < some; i++) {
            if (piece[i].whole < 0 || piece[i].whole >= l->task.set->count)
                return fail(ctx, BRASA_BAD_FILE, "%s: '%s': %s has no sample %lld", f->path, name, l->task.set->spec,
                            (long long)piece[i].whole);
            (*list)[(*count)++] = (int32_t)piece[i].whole;
        }
    }
    return BRASA_OK;
}

static brasa_status read_split(lesson *l)
{
    safetensors *f = NULL;
    split *s = &l->split;
    s->ctx = l->r->ctx;
    brasa_status status = safetensors_open(l->r->ctx, l->r->errand->split, &f);
    if (status == BRASA_OK)
        status = read_list(l, f, "train", &s->train, &s->trains);
    if (status == BRASA_OK)
        status = read_list(l, f, "test", &s->test, &s->tests);
    if (status == BRASA_OK && s->trains == 0)
        status = fail(l->r->ctx, BRASA_BAD_FILE, "%s: there is no sample to train on", l->r->errand->split);
    safetensors_close(f);
    return status;
}

/* As `brasa train` begins: every file is looked at once, for its size. */
static brasa_status load(lesson *l)
{
    const runner *r = l->r;
    task *t = &l->task;
    tell_phase(l->r, "load", 0);
    brasa_status status = task_open_data(t, r->errand->source);
    if (status == BRASA_OK && t->classes != r->network.classes)
        status = fail(r->ctx, BRASA_BAD_SHAPE, "%s has %d classes, the data have %d", r->network.name,
                      r->network.classes, t->classes);
    if (status == BRASA_OK)
        status = read_split(l);
    if (status == BRASA_OK)
        status = dataset_identify(t->set, false, NULL, NULL, &l->data);
    fields_set_defaults(transform_fields, &t->transform);
    if (status == BRASA_OK)
        status = fields_parse(r->ctx, "transform", transform_fields, &t->transform, r->errand->transform);
    int given[3];
    if (status == BRASA_OK)
        status = transform_shape(r->ctx, &t->transform, t->set, given);
    memcpy(t->shape, r->network.input, sizeof t->shape);
    if (status == BRASA_OK && memcmp(given, t->shape, sizeof given) != 0)
        status = fail(r->ctx, BRASA_BAD_SHAPE, "%s takes %dx%dx%d, but %s gives %dx%dx%d", r->network.name,
                      t->shape[0], t->shape[1], t->shape[2], r->errand->source, given[0], given[1], given[2]);
    t->input = "image";
    t->label = "label";
    return status == BRASA_OK ? runner_graph(l->r, true, NULL, &t->graph) : status;
}

/* --- what learns --------------------------------------------------------------------------------------------- */

static int64_t at_once(const lesson *l, int64_t count)
{
    return count < l->r->errand->batch ? count : l->r->errand->batch;
}

/* Programs for whole batches, and for what is left of an epoch. */
static brasa_status prepare(lesson *l, bool train, int64_t count)
{
    brasa_status status = count ? brasa_session_prepare(l->session, train, at_once(l, count)) : BRASA_OK;
    if (status == BRASA_OK && count && count % at_once(l, count))
        status = brasa_session_prepare(l->session, train, count % at_once(l, count));
    return status;
}

static brasa_status make_loader(lesson *l, bool train, loader **out)
{
    const split *s = &l->split;
    const int32_t count = train ? s->trains : s->tests;
    const loader_options o = {.list = train ? s->train : s->test,
                              .count = count,
                              .batch = (int32_t)at_once(l, count),
                              .train = train,
                              .seed = (uint64_t)l->r->errand->seed};
    return count ? loader_new(l->feeder, &o, out) : BRASA_OK;
}

static brasa_status make_ready(lesson *l)
{
    runner *r = l->r;
    const double begin = train_clock();
    tell_phase(r, "first_step", 0);
    brasa_status status = runner_session(r, l->task.graph, at_once(l, l->split.trains), r->tuning, &l->session);
    if (status == BRASA_OK)
        status = prepare(l, true, l->split.trains);
    if (status == BRASA_OK)
        status = prepare(l, false, l->split.tests);
    if (status != BRASA_OK)
        return status;
    feeder_options f = task_feeding(&l->task, l->session);
    f.sizes = l->data.size;
    status = feeder_new(r->ctx, &f, &l->feeder);
    if (status == BRASA_OK)
        status = make_loader(l, true, &l->train);
    if (status == BRASA_OK)
        status = make_loader(l, false, &l->test);
    if (status == BRASA_OK)
        status = metrics_init(&l->metrics, &l->task.pool, l->task.classes);
    if (status == BRASA_OK)
        status = answers_new(r->ctx, r->errand->batch, l->task.classes, &l->logits);
    l->compiled = train_clock() - begin;
    return status;
}

/* --- steps --------------------------------------------------------------------------------------------------- */

static brasa_status step_on(lesson *l, const batch *b, float *loss, float *accuracy)
{
    brasa_session *s = l->session;
    brasa_status status = brasa_use(s, true, b->size);
    if (status == BRASA_OK)
        status = task_feed(&l->task, s, b);
    if (status == BRASA_OK)
        status = brasa_train(s);
    if (status == BRASA_OK)
        status = brasa_fetch(s, "loss", loss, sizeof *loss);
    return status == BRASA_OK ? brasa_fetch(s, "accuracy", accuracy, sizeof *accuracy) : status;
}

static void tell_first(lesson *l, double seconds)
{
    runner_begin(l->r, "first_step");
    json_exact(&l->r->lines, "seconds", l->compiled + seconds);
    runner_end(l->r);
}

/* Steps on the first batch, before the first epoch. */
static brasa_status warm_up(lesson *l)
{
    const batch *b = NULL;
    brasa_status status = BRASA_OK;
    float loss, accuracy;
    for (int64_t i = 0; i < l->r->errand->warmup && status == BRASA_OK; i++) {
        const double begin = train_clock();
        if (i == 1)
            tell_phase(l->r, "warmup", 0);
        if (!b)
            status = loader_next(l->train, &b);
        if (status == BRASA_OK)
            status = step_on(l, b, &loss, &accuracy);
        if (status == BRASA_OK && i == 0)
            tell_first(l, train_clock() - begin);
    }
    return status;
}

/* All that the session has there; nothing is allocated beside it. */
static void tell_device_peak(lesson *l)
{
    brasa_memory m;
    if (l->r->ctx->device && brasa_session_memory(l->session, &m) == BRASA_OK)
        json_int(&l->r->lines, "device_peak", (int64_t)m.total);
}

static brasa_status train_epoch(lesson *l, int64_t epoch)
{
    const int64_t steps = loader_steps(l->train);
    double loss = 0;
    int64_t right = 0, seen = 0;
    tell_phase(l->r, "epoch", epoch);
    const double begin = train_clock();
    brasa_status status = loader_seek(l->train, epoch - 1, 0);
    for (int64_t i = 0; i < steps && status == BRASA_OK; i++) {
        const batch *b;
        float of_batch, accuracy;
        if ((status = loader_next(l->train, &b)) == BRASA_OK)
            status = step_on(l, b, &of_batch, &accuracy);
        if (status != BRASA_OK)
            return status;
        loss += (double)of_batch * b->size;
        right += lround((double)accuracy * b->size);
        seen += b->size;
        if (epoch == 1 && i == 0 && !l->r->errand->warmup)
            tell_first(l, train_clock() - begin);
    }
    const double seconds = train_clock() - begin;
    json *j = &l->r->lines;
    runner_begin(l->r, "epoch");
    json_int(j, "epoch", epoch);
    json_exact(j, "seconds", seconds);
    json_int(j, "images", seen);
    json_int(j, "steps", steps);
    json_exact(j, "loss", loss / (double)seen);
    json_exact(j, "accuracy", (double)right / (double)seen);
    tell_device_peak(l);
    runner_end(l->r);
    return status;
}

static brasa_status evaluate(lesson *l, int64_t epoch)
{
    if (!l->test)
        return BRASA_OK;
    tell_phase(l->r, "evaluation", epoch);
    const double begin = train_clock();
    brasa_status status = task_measure(&l->task, l->session, l->test, l->logits, &l->metrics, NULL, NULL);
    if (status != BRASA_OK)
        return status;
    const double seconds = train_clock() - begin;
    json *j = &l->r->lines;
    runner_begin(l->r, "evaluation");
    json_int(j, "epoch", epoch);
    json_exact(j, "seconds", seconds);
    json_int(j, "images", l->metrics.count);
    json_exact(j, "accuracy", metrics_top1(&l->metrics));
    json_exact(j, "loss", metrics_loss(&l->metrics));
    runner_end(l->r);
    return BRASA_OK;
}

/* A few steps more, node by node. */
static brasa_status profile(lesson *l)
{
    enum { PROFILED = 8 };
    const int64_t all = loader_steps(l->train), steps = all < PROFILED ? all : PROFILED;
    float loss, accuracy;
    tell_phase(l->r, "profile", 0);
    brasa_session_profile(l->session, true);
    brasa_status status = loader_seek(l->train, l->r->errand->epochs, 0);
    for (int64_t i = 0; i < steps && status == BRASA_OK; i++) {
        const batch *b;
        if ((status = loader_next(l->train, &b)) == BRASA_OK)
            status = step_on(l, b, &loss, &accuracy);
    }
    return status == BRASA_OK ? runner_tell_profile(l->r, l->session, steps) : status;
}

brasa_status runner_train(runner *r)
{
    lesson l = {.r = r, .task = {.ctx = r->ctx, .pool = {.ctx = r->ctx}}};
    brasa_status status = load(&l);
    if (status == BRASA_OK)
        status = make_ready(&l);
    if (status == BRASA_OK)
        status = warm_up(&l);
    for (int64_t epoch = 1; epoch <= r->errand->epochs && status == BRASA_OK; epoch++) {
        status = train_epoch(&l, epoch);
        if (status == BRASA_OK)
            status = evaluate(&l, epoch);
    }
    if (status == BRASA_OK && r->errand->profile)
        status = profile(&l);
    answers_free(l.logits);
    loader_free(l.train);
    loader_free(l.test);
    feeder_free(l.feeder);
    brasa_session_free(l.session);
    split_free(&l.split);
    dataset_report_free(&l.data);
    task_close(&l.task);
    return status;
}
