/* memory.c - a training within its budget: session and loaders together.
 *
 * Kept pictures give way first: they only save time. Then the batch is computed in parts, with the same result, where
 * the network allows it. A training that begins has all the memory that it will ever need.
 *
 * On a device the budget is one of its memory, where the session is, two batches of pictures on their way, and, in
 * what is left, all pictures of the set, if they fit: loaders and kept pictures are the host's.
 */
#include "device/device.h"
#include "core/numeric.h"
#include "train/fit.h"
#include "train/train.h"

#include <stdio.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

loader_options unit_loading(const training *t, bool train, int64_t size)
{
    const split *p = &t->unit.split;
    const brasa_trainer_options *s = &t->task.settings;
    const int32_t count = train ? p->trains : p->tests;
    return (loader_options){.list = train ? p->train : p->test,
                            .count = count,
                            .batch = (int32_t)least(size, count),
                            .train = train,
                            .seed = (uint64_t)s->seed};
}

feeder_options unit_feeding(const training *t, int64_t kept)
{
    feeder_options f = task_feeding(&t->task, t->unit.session);
    f.sizes = t->data.size;
    f.budget = kept;
    f.whole = f.bytes && t->unit.stay_bytes > 0;
    return f;
}

/* Bytes of pictures on their way to a device, for each sample of a batch: those of two batches. */
static int64_t upload_sample(const training *t, bool stay)
{
    feeder_options f = unit_feeding(t, 0);
    f.whole = stay;
    return f.bytes ? 2 * feeder_largest(&f, t->task.shape) : 0;
}

upload_options unit_upload(const training *t, bool stay)
{
    const unit *u = &t->unit;
    const int64_t size = most(t->task.settings.batch, u->at_once);
    return (upload_options){.batch = size * upload_sample(t, stay) / 2,
                            .size = (int32_t)size,
                            .kept = stay ? u->stay_bytes : 0,
                            .samples = t->task.set->count,
                            .channels = t->task.shape[0]};
}

static int64_t feeder_size(const training *t, int64_t kept)
{
    const feeder_options f = unit_feeding(t, kept);
    return feeder_bytes(&f, t->task.shape);
}

static int64_t loader_size(const training *t, bool train, int64_t size)
{
    const feeder_options f = unit_feeding(t, 0);
    loader_options o = unit_loading(t, train, size);
    o.batch = (int32_t)size;
    return o.count ? loader_bytes(&f, &o, t->task.shape) : 0;
}

/* A loader takes so much for each sample of a batch, and some more. */
static fit_budget budget_of(const training *t)
{
    if (!t->task.ctx->device->host_memory)
        return (fit_budget){.bytes = (uint64_t)t->unit.budget,
                            .enough = !t->task.settings.memory_limit,
                            .beside_sample = (uint64_t)upload_sample(t, false)};
    const int64_t train = loader_size(t, true, 2) - loader_size(t, true, 1),
                  test = loader_size(t, false, 2) - loader_size(t, false, 1);
    const int64_t rest = loader_size(t, true, 1) - train + loader_size(t, false, 1) - test;
    return (fit_budget){.bytes = (uint64_t)t->unit.budget,
                        .beside = (uint64_t)(feeder_size(t, 0) + rest),
                        .beside_sample = (uint64_t)train,
                        .beside_part = (uint64_t)test};
}

static brasa_status refuse(const training *t, const fit *f, const fit_budget *b, int64_t size)
{
    const char *parts =
        f->why[0] ? f->why : "micro-batches do not fit either: they need room for accumulated gradients";
    char fitting[100] = "not even one sample fits", for_loader[80] = "";
    const uint64_t need = fit_need(&f->whole, b, size, 1), beside = need - f->whole.total;
    const device *d = t->task.ctx->device;
    if (f->most)
        snprintf(fitting, sizeof fitting, "the largest batch that fits is %lld, with %s", (long long)f->most,
                 numeric_bytes((double)fit_need(&f->at_most, b, f->most, 1)).text);
    if (beside)
        snprintf(for_loader, sizeof for_loader, ", %s of them for %s", numeric_bytes((double)beside).text,
                 d->host_memory ? "the loader" : "pictures on their way");
    return fail(t->task.ctx, BRASA_BAD_ARGUMENT, "%s needs %s at batch %lld%s: does not fit %s%s%s; %s%s%s",
                t->task.settings.model, numeric_bytes((double)need).text, (long long)size, for_loader,
                fit_budget_text(b->bytes).text, d->host_memory ? "" : " of ", d->host_memory ? "" : d->name, fitting,
                f->most ? "; " : "", f->most ? parts : "");
}

/* Tells a plan what does not fit, too. */
static brasa_status answer(training *t, brasa_session_options *o, const fit_budget *b)
{
    train_needs *n = t->needs;
    brasa_status status = b->bytes ? fit_batch(t->task.graph, o, b, &n->fit) : BRASA_OK;
    n->budget = *b;
    n->batch = o->batch;
    n->parts = b->bytes ? n->fit.parts : 1;
    o->micro_batches = n->parts ? n->parts : 1;
    return status;
}

brasa_status unit_split_batch(training *t, brasa_session_options *o)
{
    const fit_budget b = budget_of(t);
    fit f;
    bool fits = !b.bytes;
    if (t->needs)
        return answer(t, o, &b);
    brasa_status status = BRASA_OK;
    if (b.bytes && o->micro_batches)
        status = fit_parts(t->task.graph, o, &b, &fits);
    o->micro_batches = o->micro_batches ? o->micro_batches : 1;
    if (status != BRASA_OK || fits)
        return status;
    status = fit_batch(t->task.graph, o, &b, &f);
    if (status == BRASA_OK && !f.parts)
        status = refuse(t, &f, &b, o->batch);
    o->micro_batches = f.parts;
    return status;
}

/* Whether so many samples are evaluated in the memory that training has anyway, with their loader in the budget. */
static bool fits_at_once(training *t, brasa_session *planned, const brasa_memory *m, int64_t size,
                         brasa_status *status)
{
    int64_t beside = feeder_size(t, 0) + loader_size(t, true, t->task.settings.batch) + loader_size(t, false, size);
    if (!t->task.ctx->device->host_memory)
        beside = most(t->task.settings.batch, size) * upload_sample(t, false);
    if ((int64_t)m->total + beside > t->unit.budget)
        return false;
    *status = brasa_session_prepare(planned, false, size);
    return *status == BRASA_OK && session_program(planned, false, size)->plan.bytes <= (int64_t)m->transient;
}

brasa_status unit_evaluate_at_once(training *t, const brasa_session_options *o, int64_t *out)
{
    brasa_session_options plan = *o;
    brasa_session *planned = NULL;
    brasa_memory m;
    *out = o->micro_batches > 1 ? o->batch / o->micro_batches : t->task.settings.batch;
    if (o->micro_batches == 1)
        return BRASA_OK;
    plan.plan_only = true;
    brasa_status status = brasa_session_new(t->task.graph, &plan, &planned);
    if (status == BRASA_OK)
        m = session_memory(planned);
    for (int64_t high = o->batch + 1; status == BRASA_OK && high - *out > 1;) {
        const int64_t middle = *out + (high - *out) / 2;
        if (fits_at_once(t, planned, &m, middle, &status))
            *out = middle;
        else
            high = middle;
    }
    brasa_session_free(planned);
    return status;
}

static int64_t loaders_size(const training *t)
{
    return loader_size(t, true, unit_loading(t, true, t->task.settings.batch).batch) +
           loader_size(t, false, unit_loading(t, false, t->unit.at_once).batch);
}

/* What stands beside the session in the memory that has the budget; nothing is kept. */
static int64_t beside_session(const training *t)
{
    if (!t->task.ctx->device->host_memory)
        return most(t->task.settings.batch, t->unit.at_once) * upload_sample(t, false);
    return loaders_size(t) + feeder_size(t, 0);
}

/* What pictures may take that stay on the device: what is left of the budget, or a quarter of what is free beside the
 * session. */
static int64_t room_to_stay(const training *t)
{
    const unit *u = &t->unit;
    const int64_t total = (int64_t)u->memory.total + beside_session(t);
    if (t->task.settings.memory_limit)
        return t->task.settings.memory_limit - total;
    const int64_t left = (int64_t)fit_device_bytes(t->task.ctx), planned = t->needs ? total : beside_session(t);
    return left > planned ? (left - planned) / 4 : 0;
}

/* Whether the pictures of the set stay on the device: all of them, or none. */
static void decide_stay(training *t)
{
    unit *u = &t->unit;
    const feeder_options f = unit_feeding(t, 0);
    const int64_t all = f.bytes ? feeder_whole(&f, t->task.shape) : -1;
    const int64_t size = most(t->task.settings.batch, u->at_once);
    const int64_t more = all > 0 ? size * (upload_sample(t, true) - upload_sample(t, false)) : 0;
    const bool stay = all > 0 && !t->options.no_image_cache && all + more <= room_to_stay(t);
    u->stay_bytes = stay ? all : 0;
    u->upload_bytes = size * upload_sample(t, u->stay_bytes > 0);
}

static void share_host(training *t, int64_t kept)
{
    t->unit.kept_bytes = kept;
    t->unit.loader_bytes = loaders_size(t) + feeder_size(t, kept);
}

void unit_come_anew(training *t)
{
    unit *u = &t->unit;
    u->stay_bytes = 0;
    u->upload_bytes = beside_session(t);
    share_host(t, t->options.no_image_cache ? 0 : KEPT_BYTES);
}

bool unit_over_budget(const training *t)
{
    const int64_t budget = t->unit.budget;
    return budget && (int64_t)t->unit.memory.total + beside_session(t) > budget;
}

/* The programs for evaluation and for what is left at an epoch's end are there now, too. What stays on the device
 * need not be kept here. */
brasa_status unit_share_memory(training *t)
{
    unit *u = &t->unit;
    if (!t->task.ctx->device->host_memory)
        decide_stay(t);
    const int64_t budget = u->budget, none = feeder_size(t, 0), loaders = loaders_size(t);
    const int64_t left = budget - (int64_t)u->memory.total - beside_session(t);
    const int64_t table = feeder_size(t, 1) - none; /* which tells where kept pictures are */
    const bool any = !budget || !t->task.ctx->device->host_memory;
    const int64_t room = any ? KEPT_BYTES : left > table ? least(left - table, KEPT_BYTES) : 0;
    share_host(t, u->stay_bytes || t->options.no_image_cache ? 0 : room);
    if (t->needs) {
        t->needs->loader = loaders + none;
        t->needs->kept = u->loader_bytes - loaders - none;
        t->needs->upload = u->upload_bytes;
        t->needs->stay = u->stay_bytes;
        t->needs->parts = budget && left < 0 ? 0 : t->needs->parts;
        return BRASA_OK;
    }
    if (!budget || left >= 0)
        return BRASA_OK;
    return fail(t->task.ctx, BRASA_BAD_ARGUMENT, "%s needs %s at batch %lld, evaluation included: does not fit %s",
                t->task.settings.model, numeric_bytes((double)(budget - left)).text,
                (long long)t->task.settings.batch, numeric_bytes((double)budget).text);
}
