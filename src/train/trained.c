/* trained.c - see trained.h. */
#include "train/trained.h"

#include "core/numeric.h"
#include "device/device.h"
#include "train/fit.h"

#include <math.h>
#include <string.h>

static brasa_status find_folder(trained *t, int fold)
{
    const int64_t folds = t->run.settings.folds;
    const bool many = folds && !t->run.settings.fold;
    if (many && (fold < 1 || fold > folds))
        return fail(t->task.ctx, BRASA_BAD_ARGUMENT, "%s has %lld folds: say which, from 1 on", t->run.folder,
                    (long long)folds);
    if (!many && fold && fold != t->run.settings.fold)
        return fail(t->task.ctx, BRASA_BAD_ARGUMENT, "%s has no fold %d", t->run.folder, fold);
    t->folder = t->run.folder;
    if (folds && !(t->folder = pool_text(&t->task.pool, "%s/fold-%02d", t->run.folder,
                                         many ? fold : (int)t->run.settings.fold)))
        return fail_memory(t->task.ctx, 0);
    return BRASA_OK;
}

static brasa_status load_weights(trained *t)
{
    if (t->file)
        return session_load_fresh(t->session, t->folder, NULL, NULL);
    const bool over = run_has(t->folder, WEIGHTS_FILE);
    const char *path = run_path(&t->task.pool, t->folder, over ? WEIGHTS_FILE : CHECKPOINT_FILE);
    return path ? session_load_fresh(t->session, path, NULL, NULL) : BRASA_OUT_OF_MEMORY;
}

/* Samples are read once: there is no use in keeping them. */
static feeder_options feeding(const task *t, const brasa_session *s)
{
    feeder_options f = task_feeding(t, s);
    f.budget = 0;
    return f;
}

/* How pictures go to a device, in batches of so many: none stay, as they are read once. */
static upload_options sending(const task *t, int64_t size)
{
    const feeder_options f = feeding(t, NULL);
    return (upload_options){.batch = f.bytes ? size * feeder_largest(&f, t->shape) : 0,
                            .size = (int32_t)size,
                            .samples = t->set->count,
                            .channels = t->shape[0]};
}

/* As many samples as fit, up to o->batch. A device with memory of its own has the session there, and pictures on
 * their way. */
static brasa_status fit_samples(const task *t, uint64_t mem, brasa_session_options *o)
{
    const feeder_options f = feeding(t, NULL);
    const int64_t one = loader_bytes(&f, &(loader_options){.batch = 1}, t->shape),
                  more = loader_bytes(&f, &(loader_options){.batch = 2}, t->shape) - one;
    const upload_options sent = sending(t, 1);
    fit_budget b = {.bytes = mem, .beside_sample = (uint64_t)upload_bytes(&sent)};
    if (t->ctx->device->host_memory) {
        b.beside = (uint64_t)(feeder_bytes(&f, t->shape) + one - more);
        b.beside_sample = (uint64_t)more;
    }
    fit found;
    brasa_status status = fit_batch(t->graph, o, &b, &found);
    if (status == BRASA_OK && !found.most)
        status = fail(t->ctx, BRASA_BAD_ARGUMENT, "%s needs %s at batch %lld: not even one sample fits %s",
                      t->settings.model, numeric_bytes((double)fit_need(&found.whole, &b, o->batch, 1)).text,
                      (long long)o->batch, fit_budget_text(mem).text);
    if (status == BRASA_OK && !found.fits)
        o->batch = found.most;
    return status;
}

/* A run's lists are numbers of samples: they mean nothing in other data. */
static brasa_status check_data(const trained *t)
{
    const task *k = &t->task;
    dataset_report r;
    brasa_status status = dataset_identify(k->set, k->settings.skip_unreadable, NULL, NULL, &r);
    if (status == BRASA_OK && strcmp(r.hash, t->run.hash) != 0)
        status = fail(k->ctx, BRASA_BAD_FILE, "%s: the data are not those that %s was trained on", k->set->spec,
                      t->run.folder);
    dataset_report_free(&r);
    return status;
}

/* The session, within a budget where there is one. A device without one is just tried; where its memory is too small,
 * what it has is the budget. */
static brasa_status make_session(trained *t, int64_t mem, brasa_session_options *o)
{
    task *k = &t->task;
    brasa_status status = mem && k->set ? fit_samples(k, (uint64_t)mem, o) : BRASA_OK;
    if (status == BRASA_OK)
        status = brasa_session_new(k->graph, o, &t->session);
    if (status == BRASA_OK && k->graph->pictures && !mem) {
        const upload_options sent = sending(k, o->batch);
        if (upload_fits(k->ctx, &sent))
            return BRASA_OK;
        brasa_session_free(t->session);
        t->session = NULL;
        status = BRASA_OUT_OF_MEMORY;
    }
    if (status != BRASA_OUT_OF_MEMORY || k->ctx->device->host_memory || !k->set || mem)
        return status;
    status = fit_samples(k, fit_device_bytes(k->ctx), o);
    return status == BRASA_OK ? brasa_session_new(k->graph, o, &t->session) : status;
}

/* As it was trained, unless told otherwise; on a device that computes in f32 alone, in f32. */
static brasa_status choose_precision(const trained *t, const char *given, int32_t *out)
{
    brasa_context *ctx = t->task.ctx;
    const bool others = ctx->device->precisions != 1u << BRASA_F32;
    return precision_read(ctx, given ? given : others ? t->run.settings.precision : NULL, out);
}

/* What the run's folder, or the file, says. */
static brasa_status read_run(trained *t, const char *path, const trained_options *wish)
{
    brasa_context *ctx = t->task.ctx;
    t->file = notes_file(path);
    t->folder = path;
    if (!t->file) {
        const brasa_status status = run_read(ctx, path, &t->run);
        return status == BRASA_OK ? find_folder(t, wish->fold) : status;
    }
    if (wish->fold)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s is a weights file, and has no folds", path);
    if (wish->spec && !*wish->spec)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s is a weights file, and names no data: say which, with --data", path);
    return notes_read(ctx, path, &t->run);
}

brasa_status trained_open(brasa_context *ctx, const char *path, const trained_options *wish, trained *out)
{
    *out = (trained){.task = {.ctx = ctx, .pool = {.ctx = ctx}}};
    task *t = &out->task;
    const char *spec = wish->spec;
    brasa_session_options o = {.size = sizeof o, .batch = wish->most, .inference = true};
    brasa_status status = read_run(out, path, wish);
    if (status == BRASA_OK)
        status = choose_precision(out, wish->precision, &o.precision);
    t->settings = out->run.settings;
    t->classes = out->run.classes;
    t->class_name = out->run.class_name;
    t->network = out->run.network;
    if (status == BRASA_OK && wish->set)
        status = task_take_data(t, wish->set);
    else if (status == BRASA_OK && spec)
        status = task_open_data(t, *spec ? spec : t->settings.data);
    if (status == BRASA_OK && spec && !*spec)
        status = check_data(out);
    if (status == BRASA_OK)
        status = wish->graph ? task_take_graph(t, wish->graph) : task_build(t, out->run.model);
    if (status == BRASA_OK)
        status = task_send_bytes(t);
    const brasa_tuning as_trained = {.size = sizeof as_trained,
                                     .record = run_path(&t->pool, path, CHOICES_FILE),
                                     .watch = wish->watch,
                                     .user = wish->user};
    o.tuning = &as_trained;
    if (status == BRASA_OK && !as_trained.record)
        status = BRASA_OUT_OF_MEMORY;
    if (status == BRASA_OK)
        status = make_session(out, wish->mem, &o);
    t->settings.batch = o.batch;
    return status == BRASA_OK ? load_weights(out) : status;
}

void trained_close(trained *t)
{
    brasa_session_free(t->session);
    task_close(&t->task);
    run_free(&t->run);
}

brasa_status trained_measure(trained *t, const int32_t *list, int32_t count, metrics *m)
{
    task *k = &t->task;
    const feeder_options f = feeding(k, t->session);
    const upload_options sent = sending(k, k->settings.batch);
    const loader_options o = {.list = list, .count = count, .batch = (int32_t)k->settings.batch};
    feeder *feed = NULL;
    loader *load = NULL;
    pending *logits = NULL;
    brasa_status status = pending_new(k->ctx, k->settings.batch, k->classes, &logits);
    if (status == BRASA_OK && f.bytes)
        status = upload_new(k->ctx, &sent, &k->upload);
    if (status == BRASA_OK)
        status = feeder_new(k->ctx, &f, &feed);
    if (status == BRASA_OK && k->upload)
        upload_serve(k->upload, feed);
    if (status == BRASA_OK)
        status = loader_new(feed, &o, &load);
    if (status == BRASA_OK)
        status = task_measure(k, t->session, load, logits, m, NULL, NULL);
    pending_free(logits); /* first: both wait for the device */
    upload_free(k->upload);
    k->upload = NULL;
    loader_free(load);
    feeder_free(feed);
    return status;
}

/* The samples: those of other data that test, or those that the run kept for it; all of them where none test. */
brasa_status trained_split(const trained *t, const char *text, bool other, split *out)
{
    const dataset *d = t->task.set;
    split_options s = {.kind = d->parts == 2 ? SPLIT_PARTS : SPLIT_ALL,
                       .no_stratify = t->run.settings.no_stratify,
                       .no_shuffle = t->run.settings.no_shuffle,
                       .seed = (uint64_t)t->run.settings.seed};
    brasa_status status = text ? split_parse(t->task.ctx, text, &s) : BRASA_OK;
    if (status == BRASA_OK && (other || text))
        return split_make(d, &s, out);
    pool p = {.ctx = t->task.ctx};
    const char *path = status == BRASA_OK ? run_path(&p, t->folder, SPLIT_FILE) : NULL;
    if (status == BRASA_OK)
        status = path ? split_read(d, path, out) : BRASA_OUT_OF_MEMORY;
    pool_free(&p);
    return status;
}

/* --- one picture --------------------------------------------------------------------------------------------- */

static int longer_side(const task *k)
{
    return k->shape[1] > k->shape[2] ? k->shape[1] : k->shape[2];
}

/* Nothing at random, and what the network takes is cut out. */
static transform fitting(const task *k)
{
    transform t = k->transform;
    t.flip = FLIP_NONE;
    t.random_crop = false;
    t.channels = k->shape[0];
    if (!t.crop.h && !t.crop.w)
        t.resize = longer_side(k);
    t.crop = (pair){k->shape[1], k->shape[2]};
    return t;
}

static void softmax(const float *logits, int count, double *probability)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < count; i++)
        most = logits[i] > most ? (double)logits[i] : most; /* with fmax gcc 12 dies, when it compiles for aarch64 */
    for (int i = 0; i < count; i++)
        sum += probability[i] = exp((double)logits[i] - most);
    for (int i = 0; i < count; i++)
        probability[i] /= sum;
}

static brasa_status predict(trained *t, const char *path, picture *p, double *probability)
{
    const task *k = &t->task;
    transform fitted = fitting(k);
    pool room = {.ctx = k->ctx};
    const size_t count = (size_t)k->shape[0] * (size_t)k->shape[1] * (size_t)k->shape[2];
    float *input = pool_get(&room, count, sizeof *input);
    float *logits = pool_get(&room, (size_t)k->classes, sizeof *logits);
    brasa_status status = input && logits ? BRASA_OK : fail_memory(k->ctx, count * sizeof *input);
    p->least = fitted.resize;
    if (status == BRASA_OK)
        status = picture_read(k->ctx, path, p);
    if (status == BRASA_OK && !transform_fits(&fitted, p->height, p->width))
        fitted.resize = longer_side(k); /* a picture that is too small for the crop grows */
    if (status == BRASA_OK && (status = transform_picture(k->ctx, &fitted, p, k->shape, input)) == BRASA_BAD_SHAPE)
        fail_prefix(k->ctx, "%s", path);
    if (status == BRASA_OK)
        status = brasa_feed(t->session, k->input, input, count * sizeof *input);
    if (status == BRASA_OK)
        status = brasa_evaluate(t->session);
    if (status == BRASA_OK)
        status = brasa_fetch(t->session, "logits", logits, (size_t)k->classes * sizeof *logits);
    if (status == BRASA_OK)
        softmax(logits, k->classes, probability);
    pool_free(&room);
    return status;
}

brasa_status trained_predict(trained *t, const char *path, double *probability)
{
    picture p = {0};
    if (!t->task.shape[1])
        return fail(t->task.ctx, BRASA_BAD_ARGUMENT, "%s learned from numbers, not from pictures", t->run.folder);
    brasa_status status = predict(t, path, &p, probability);
    picture_free(t->task.ctx, &p);
    return status;
}

brasa_status trained_predict_all(trained *t, double *probability)
{
    const task *k = &t->task;
    const int32_t count = k->set->count;
    pool room = {.ctx = k->ctx};
    metrics m;
    int32_t *list = pool_get(&room, (size_t)count, sizeof *list);
    float *logits = pool_get(&room, (size_t)count * (size_t)k->classes, sizeof *logits);
    brasa_status status = list && logits ? metrics_init(&m, &room, k->classes)
                                         : fail_memory(k->ctx, (size_t)count * (size_t)k->classes * sizeof *logits);
    if (status == BRASA_OK) {
        for (int32_t i = 0; i < count; i++)
            list[i] = i;
        m.logits = logits;
        status = trained_measure(t, list, count, &m);
    }
    for (int32_t i = 0; i < count && status == BRASA_OK; i++)
        softmax(logits + (size_t)i * (size_t)k->classes, k->classes, probability + (size_t)i * (size_t)k->classes);
    pool_free(&room);
    return status;
}
