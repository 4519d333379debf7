/* runner_train.c - a training by the clock, with the loaders, programs and kernels of `brasa train`: see runner.h.
 *
 * It is a unit of `brasa train` that steps, waits and evaluates as that does: on a GPU, bytes are sent and answers
 * read while it computes. An epoch's seconds go from the call for its first batch to the answer of its last step: all
 * is done by then. What makes the session ready, kernels that are timed included, counts to the first step. */
#include "lab/runner.h"

#include "device/device.h"
#include "session/safetensors.h"
#include "train/train.h"

#include <string.h>

typedef struct lesson {
    runner *r;
    train_options quiet; /* nobody looks on */
    training training;
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
    const dataset *set = l->training.task.set;
    const tensor_entry *t = safetensors_find(f, name);
    *count = 0;
    if (!(*list = mem_get(ctx, t ? (size_t)(t->end - t->begin) + 1 : 1)))
        return fail_memory(ctx, 1);
    if (!t || t->end == t->begin)
        return BRASA_OK;
    if (strcmp(t->type->name, "I32") != 0 || t->shape.rank != 1 || t->shape.dim[0] > set->count)
        return fail(ctx, BRASA_BAD_FILE, "%s: '%s' is no list of samples of %s", f->path, name, set->spec);
    number piece[PIECE];
    for (int32_t all = (int32_t)t->shape.dim[0]; *count < all;) {
        const int some = all - *count < PIECE ? all - *count : PIECE;
        brasa_status status = safetensors_read(f, t, *count, some, piece);
        if (status != BRASA_OK)
            return status;
        for (int i = 0; i < some; i++) {
            if (piece[i].whole < 0 || piece[i].whole >= set->count)
                return fail(ctx, BRASA_BAD_FILE, "%s: '%s': %s has no sample %lld", f->path, name, set->spec,
                            (long long)piece[i].whole);
            (*list)[(*count)++] = (int32_t)piece[i].whole;
        }
    }
    return BRASA_OK;
}

static brasa_status read_split(lesson *l)
{
    safetensors *f = NULL;
    split *s = &l->training.unit.split;
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
    task *t = &l->training.task;
    tell_phase(l->r, "load", 0);
    brasa_status status = task_open_data(t, r->errand->source);
    if (status == BRASA_OK && t->classes != r->network.classes)
        status = fail(r->ctx, BRASA_BAD_SHAPE, "%s has %d classes, the data have %d", r->network.name,
                      r->network.classes, t->classes);
    if (status == BRASA_OK)
        status = read_split(l);
    if (status == BRASA_OK)
        status = dataset_identify(t->set, false, NULL, NULL, &l->training.data);
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
    if (status == BRASA_OK)
        status = runner_graph(l->r, true, NULL, &t->graph);
    return status == BRASA_OK ? task_send_bytes(t) : status;
}

/* --- what learns --------------------------------------------------------------------------------------------- */

static brasa_status make_ready(lesson *l)
{
    runner *r = l->r;
    unit *u = &l->training.unit;
    const int64_t size = u->split.trains < r->errand->batch ? u->split.trains : r->errand->batch;
    const brasa_session_options o = runner_options(r, size, r->tuning);
    const double begin = train_clock();
    tell_phase(r, "first_step", 0);
    brasa_status status = unit_make_programs(&l->training, &o);
    if (status == BRASA_OK)
        status = session_load_fresh(u->session, r->errand->weights, NULL, NULL);
    if (status == BRASA_OK)
        status = unit_share_memory(&l->training);
    if (status == BRASA_OK && strcmp(r->errand->variant, "decoding") == 0)
        unit_keep_nothing(&l->training);
    if (status == BRASA_OK)
        status = unit_furnish(&l->training);
    l->compiled = train_clock() - begin;
    return status;
}

/* --- steps --------------------------------------------------------------------------------------------------- */

/* Counts the steps that were started, until only so many are left whose answers are awaited. */
static brasa_status count_steps(lesson *l, int left)
{
    pending *a = l->training.unit.pending;
    brasa_status status = BRASA_OK;
    while (pending_count(a) > left && status == BRASA_OK) {
        step_result one;
        if ((status = pending_take(a, &one)) == BRASA_OK)
            train_count(&l->training, &one);
    }
    return status;
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
    training *t = &l->training;
    const batch *b = NULL;
    brasa_status status = BRASA_OK;
    for (int64_t i = 0; i < l->r->errand->warmup && status == BRASA_OK; i++) {
        const double begin = train_clock();
        if (i == 1)
            tell_phase(l->r, "warmup", 0);
        if (!b)
            status = task_next(&t->task, t->unit.train, &b);
        if (status == BRASA_OK)
            status = train_start(t, b);
        if (status == BRASA_OK)
            status = count_steps(l, 0);
        if (status == BRASA_OK && i == 0)
            tell_first(l, train_clock() - begin);
    }
    return status;
}

/* What the session has there, and pictures, on their way or to stay; nothing is allocated beside that. */
static void tell_device_peak(lesson *l)
{
    const unit *u = &l->training.unit;
    if (!l->r->ctx->device->host_memory)
        json_int(&l->r->lines, "device_peak", (int64_t)u->memory.total + u->upload_bytes + u->stay_bytes);
}

static void tell_epoch(lesson *l, int64_t epoch, double seconds)
{
    const train_place *p = &l->training.unit.place;
    json *j = &l->r->lines;
    runner_begin(l->r, "epoch");
    json_int(j, "epoch", epoch);
    json_exact(j, "seconds", seconds);
    json_int(j, "images", p->seen);
    json_int(j, "steps", p->done);
    json_exact(j, "loss", p->loss / (double)p->seen);
    json_exact(j, "accuracy", (double)p->right / (double)p->seen);
    tell_device_peak(l);
    runner_end(l->r);
}

static brasa_status train_epoch(lesson *l, int64_t epoch)
{
    training *t = &l->training;
    unit *u = &t->unit;
    const int64_t steps = loader_steps(u->train);
    u->place = (train_place){0};
    tell_phase(l->r, "epoch", epoch);
    const double begin = train_clock();
    brasa_status status = loader_seek(u->train, epoch - 1, 0);
    for (int64_t i = 0; i < steps && status == BRASA_OK; i++) {
        const bool first = epoch == 1 && i == 0 && !l->r->errand->warmup;
        const batch *b;
        if ((status = task_next(&t->task, u->train, &b)) == BRASA_OK)
            status = train_start(t, b);
        if (status == BRASA_OK)
            status = count_steps(l, first || i == steps - 1 ? 0 : pending_depth(u->pending));
        if (status == BRASA_OK && first)
            tell_first(l, train_clock() - begin);
    }
    const double seconds = train_clock() - begin;
    if (status == BRASA_OK)
        tell_epoch(l, epoch, seconds);
    return status;
}

static brasa_status evaluate(lesson *l, int64_t epoch)
{
    training *t = &l->training;
    unit *u = &t->unit;
    if (!u->test)
        return BRASA_OK;
    tell_phase(l->r, "evaluation", epoch);
    const double begin = train_clock();
    brasa_status status = task_measure(&t->task, u->session, u->test, u->logits, &u->metrics, NULL, NULL);
    if (status != BRASA_OK)
        return status;
    const double seconds = train_clock() - begin;
    json *j = &l->r->lines;
    runner_begin(l->r, "evaluation");
    json_int(j, "epoch", epoch);
    json_exact(j, "seconds", seconds);
    json_int(j, "images", u->metrics.count);
    json_exact(j, "accuracy", metrics_top1(&u->metrics));
    json_exact(j, "loss", metrics_loss(&u->metrics));
    runner_end(l->r);
    return BRASA_OK;
}

/* A few steps more, node by node. */
static brasa_status profile(lesson *l)
{
    enum { PROFILED = 8 };
    training *t = &l->training;
    const int64_t all = loader_steps(t->unit.train), steps = all < PROFILED ? all : PROFILED;
    tell_phase(l->r, "profile", 0);
    brasa_session_profile(t->unit.session, true);
    brasa_status status = loader_seek(t->unit.train, l->r->errand->epochs, 0);
    for (int64_t i = 0; i < steps && status == BRASA_OK; i++) {
        step_result unread;
        status = train_step(t, &unread);
    }
    return status == BRASA_OK ? runner_tell_profile(l->r, t->unit.session, steps) : status;
}

brasa_status runner_train(runner *r)
{
    const errand *e = r->errand;
    lesson l = {.r = r};
    training *t = &l.training;
    *t = (training){.options = &l.quiet,
                    .lock = -1,
                    .task = {.ctx = r->ctx,
                             .pool = {.ctx = r->ctx},
                             .settings = {.model = r->network.name, .batch = e->batch, .seed = e->seed}},
                    .unit = {.pool = {.ctx = r->ctx}, .parts = 1, .at_once = e->batch}};
    brasa_status status = load(&l);
    if (status == BRASA_OK)
        status = make_ready(&l);
    if (status == BRASA_OK)
        status = warm_up(&l);
    for (int64_t epoch = 1; epoch <= e->epochs && status == BRASA_OK; epoch++) {
        status = train_epoch(&l, epoch);
        if (status == BRASA_OK)
            status = evaluate(&l, epoch);
    }
    if (status == BRASA_OK && e->profile)
        status = profile(&l);
    unit_close(&t->unit);
    dataset_report_free(&t->data);
    task_close(&t->task);
    return status;
}
