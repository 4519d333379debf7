/* runner_train.c - a training by the clock, as `brasa train` does it: see runner.h.
 *
 * It is a trainer whose callback writes the lines. An epoch's seconds go from the call for its first batch to the
 * result of its last step: all is done by then. What makes the session ready, kernels that are timed included, counts
 * to the first step. */
#include "lab/runner.h"
#include "lab/lab.h"

#include "device/device.h"
#include "session/safetensors.h"
#include "device/device.h"
#include "session/session.h"

#include <string.h>

enum { PROFILED = 8 }; /* steps after the last epoch, node by node */

typedef struct lesson {
    runner *r;
    int32_t *list[2]; /* numbers of samples to train on, and to test on */
    int32_t count[2];
    double compiling, testing; /* when these began */
    int64_t profiled;          /* steps of the session when profiling began */
} lesson;

static void tell_phase(runner *r, const char *phase, int64_t epoch)
{
    runner_begin(r, "phase");
    json_text(&r->lines, "phase", phase);
    json_int(&r->lines, "epoch", epoch);
    runner_end(r);
}

/* A list of the split; none is an empty one. */
static brasa_status read_list(brasa_context *ctx, safetensors *f, const char *name, int32_t **list, int32_t *count)
{
    const tensor_entry *t = safetensors_find(f, name);
    *count = 0;
    if (!(*list = mem_get(ctx, t ? (size_t)(t->end - t->begin) + 1 : 1)))
        return fail_memory(ctx, 1);
    if (!t || t->end == t->begin)
        return BRASA_OK;
    if (strcmp(t->type->name, "I32") != 0 || t->shape.rank != 1 || t->shape.dim[0] > INT32_MAX)
        return fail(ctx, BRASA_BAD_FILE, "%s: '%s' is no list of samples", f->path, name);
    number piece[PIECE];
    for (int32_t all = (int32_t)t->shape.dim[0]; *count < all;) {
        const int some = all - *count < PIECE ? all - *count : PIECE;
        brasa_status status = safetensors_read(f, t, *count, some, piece);
        if (status != BRASA_OK)
            return status;
        for (int i = 0; i < some; i++)
            (*list)[(*count)++] = (int32_t)piece[i].whole;
    }
    return BRASA_OK;
}

static brasa_status read_split(lesson *l)
{
    safetensors *f = NULL;
    brasa_status status = safetensors_open(l->r->ctx, l->r->errand->split, &f);
    if (status == BRASA_OK)
        status = read_list(l->r->ctx, f, "train", &l->list[0], &l->count[0]);
    if (status == BRASA_OK)
        status = read_list(l->r->ctx, f, "test", &l->list[1], &l->count[1]);
    if (status == BRASA_OK && l->count[0] == 0)
        status = fail(l->r->ctx, BRASA_BAD_FILE, "%s: there is no sample to train on", l->r->errand->split);
    safetensors_close(f);
    return status;
}

/* --- what happens -------------------------------------------------------------------------------------------- */

static void tell_first(lesson *l)
{
    runner_begin(l->r, "first_step");
    json_exact(&l->r->lines, "seconds", lab_now() - l->compiling);
    runner_end(l->r);
}

/* What the session has there, and images, on their way or to stay; nothing is allocated beside that. */
static void tell_device_peak(const lesson *l, const brasa_trainer *t)
{
    brasa_trainer_info i = {.size = sizeof i};
    brasa_memory m = {.size = sizeof m};
    if (!l->r->ctx->device->host_memory && brasa_trainer_describe(t, &i) == BRASA_OK &&
        brasa_session_memory(brasa_trainer_session(t), &m) == BRASA_OK)
        json_int(&l->r->lines, "device_peak", (int64_t)(m.total + i.upload + i.resident));
}

static void tell_epoch(const lesson *l, const brasa_progress *p)
{
    const brasa_epoch *f = p->epoch;
    json *j = &l->r->lines;
    runner_begin(l->r, "epoch");
    json_int(j, "epoch", f->epoch);
    json_exact(j, "seconds", f->seconds);
    json_int(j, "images", f->samples);
    json_int(j, "steps", f->steps);
    json_exact(j, "loss", f->loss);
    json_exact(j, "accuracy", f->accuracy);
    tell_device_peak(l, p->trainer);
    runner_end(l->r);
}

static void tell_evaluation(const lesson *l, const brasa_epoch *f)
{
    json *j = &l->r->lines;
    runner_begin(l->r, "evaluation");
    json_int(j, "epoch", f->epoch);
    json_exact(j, "seconds", lab_now() - l->testing);
    json_int(j, "images", l->count[1]);
    json_exact(j, "accuracy", f->test_accuracy);
    json_exact(j, "loss", f->test_loss);
    runner_end(l->r);
}

/* The epoch is over: the next one, or some steps of one that are profiled. */
static bool end_epoch(lesson *l, const brasa_progress *p)
{
    const errand *e = l->r->errand;
    const int64_t epoch = p->epoch->epoch;
    if (l->count[1])
        tell_evaluation(l, p->epoch);
    else
        tell_epoch(l, p);
    if (epoch < e->epochs) {
        tell_phase(l->r, "epoch", epoch + 1);
    } else if (e->profile) {
        brasa_session *s = brasa_trainer_session(p->trainer);
        tell_phase(l->r, "profile", 0);
        brasa_session_profile(s, true);
        l->profiled = brasa_session_steps(s);
    }
    return true;
}

static bool end_step(lesson *l, const brasa_progress *p)
{
    if (p->epoch->epoch > l->r->errand->epochs)
        return p->done < PROFILED && p->done < p->total;
    if (p->epoch->epoch == 1 && p->done == 1 && !l->r->errand->warmup)
        tell_first(l);
    return true;
}

static void end_warm_up(lesson *l, const brasa_progress *p)
{
    if (p->done == 1)
        tell_first(l);
    if (p->done == p->total)
        tell_phase(l->r, "epoch", 1);
    else if (p->done == 1)
        tell_phase(l->r, "warmup", 0);
}

static bool look_on(void *user, const brasa_progress *p)
{
    lesson *l = user;
    switch (p->event) {
    case BRASA_ON_COMPILE:
        tell_phase(l->r, "first_step", 0);
        l->compiling = lab_now();
        return true;
    case BRASA_ON_BEGIN:
        if (!l->r->errand->warmup)
            tell_phase(l->r, "epoch", 1);
        return true;
    case BRASA_ON_WARM_UP:
        end_warm_up(l, p);
        return true;
    case BRASA_ON_STEP:
        return end_step(l, p);
    case BRASA_ON_TEST:
        if (p->done == 0) {
            tell_epoch(l, p);
            tell_phase(l->r, "evaluation", p->epoch->epoch);
            l->testing = lab_now();
        }
        return true;
    case BRASA_ON_EPOCH:
        return end_epoch(l, p);
    default:
        return true;
    }
}

static brasa_status train(lesson *l, brasa_graph *g, brasa_data *data, brasa_trainer **t)
{
    const errand *e = l->r->errand;
    const brasa_trainer_options o = {.size = sizeof o,
                                     .model = l->r->network.name,
                                     .graph = g,
                                     .dataset = data,
                                     .transform = e->transform,
                                     .optimizer = e->optimizer,
                                     .weights = e->weights,
                                     .precision = e->precision,
                                     .epochs = e->epochs + (e->profile ? 1 : 0),
                                     .batch = e->batch,
                                     .seed = e->seed,
                                     .train_list = l->list[0],
                                     .train_count = l->count[0],
                                     .test_list = l->count[1] ? l->list[1] : NULL,
                                     .test_count = l->count[1],
                                     .keep = "last",
                                     .tuning = l->r->tuning,
                                     .warm_up = e->warmup,
                                     .no_image_cache = strcmp(e->variant, "decoding") == 0,
                                     .allow_not_finite = true,
                                     .progress = look_on,
                                     .user = l};
    brasa_status status = brasa_trainer_new(l->r->ctx, &o, t);
    if (status == BRASA_OK)
        status = brasa_trainer_run(*t, NULL);
    brasa_session *s = brasa_trainer_session(*t);
    return status == BRASA_OK && e->profile ? runner_tell_profile(l->r, s, brasa_session_steps(s) - l->profiled)
                                            : status;
}

brasa_status runner_train(runner *r)
{
    lesson l = {.r = r};
    brasa_graph *g = NULL;
    brasa_data *data = NULL;
    brasa_trainer *t = NULL;
    tell_phase(r, "load", 0);
    brasa_status status = brasa_data_open(r->ctx, r->errand->source, &data);
    if (status == BRASA_OK)
        status = read_split(&l);
    if (status == BRASA_OK)
        status = runner_graph(r, true, NULL, &g);
    if (status == BRASA_OK)
        status = train(&l, g, data, &t);
    brasa_trainer_free(t);
    brasa_graph_free(g);
    brasa_data_free(data);
    for (int i = 0; i < 2; i++)
        mem_put(r->ctx, l.list[i]);
    return status;
}
