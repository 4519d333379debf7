/* record.c - the files in the folder of a run: see record.h. */
#define _GNU_SOURCE
#include "train/record.h"

#include "device/device.h"
#include "core/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static brasa_status refuse(training *t, const char *path)
{
    return fail(t->task.ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
}

/* --- run.json ------------------------------------------------------------------------------------------------ */

/* Copies the file, so that the run can be repeated when the original has changed. */
static brasa_status copy_model(training *t, const char *from, const char *to)
{
    char piece[4096];
    size_t got;
    FILE *file = fopen(from, "re");
    if (!file)
        return refuse(t, from);
    replacement r;
    brasa_status status = replace_begin(&r, t->task.ctx, to);
    while (status == BRASA_OK && (got = fread(piece, 1, sizeof piece, file)) > 0)
        status = replace_write(&r, piece, got);
    if (status == BRASA_OK && ferror(file))
        status = refuse(t, from);
    fclose(file);
    return replace_end(&r, status);
}

static void data_json(json *j, const training *t)
{
    const dataset *d = t->task.set;
    json_open(j, "data", '{');
    json_text(j, "hash", t->data.hash);
    json_text(j, "hash_of", t->data.defined ? "definition" : "samples");
    json_int(j, "samples", d->count);
    if (!t->data.defined) { /* else nobody has looked */
        json_int(j, "unreadable", t->data.nbad);
        json_int(j, "duplicates", t->data.duplicates);
    }
    json_open(j, "classes", '[');
    for (int k = 0; k < d->classes; k++)
        json_text(j, NULL, d->class_name[k]);
    json_close(j, ']');
    json_int(j, "train", t->unit.split.trains);
    json_int(j, "test", t->unit.split.tests);
    json_close(j, '}');
}

static void network_json(json *j, const training *t)
{
    const brasa_session *s = t->unit.session;
    json_int(j, "parameters", brasa_graph_param_total(t->task.graph));
    json_open(j, "input", '[');
    for (int d = 0; d < 3 && t->task.shape[d]; d++)
        json_int(j, NULL, t->task.shape[d]);
    json_close(j, ']');
    json_open(j, "optimizer", '{');
    json_text(j, "name", s->optimizer->op->name);
    fields_to_json(j, s->optimizer->op->fields, s->optimizer_attr);
    json_close(j, '}');
    json_open(j, "schedule", '{');
    fields_to_json(j, schedule_fields, &s->schedule);
    json_close(j, '}');
    if (t->unit.class_weights) {
        json_open(j, "class_weights", '[');
        for (int k = 0; k < t->task.classes; k++)
            json_real(j, NULL, (double)t->unit.class_weights[k]);
        json_close(j, ']');
    }
    json_open(j, "transform", '{');
    fields_to_json(j, transform_fields, &t->task.transform);
    json_close(j, '}');
}

static void plan_json(json *j, const unit *u)
{
    json_open(j, "plan", '{');
    json_int(j, "weights", (int64_t)u->memory.weights);
    json_int(j, "buffers", (int64_t)u->memory.buffers);
    json_int(j, "optimizer", (int64_t)u->memory.optimizer);
    json_int(j, "sums", (int64_t)u->memory.accumulated);
    json_int(j, "transient", (int64_t)u->memory.transient);
    if (u->upload_bytes) {
        json_int(j, "pictures_on_their_way", u->upload_bytes);
        json_int(j, "pictures_that_stay", u->stay_bytes);
    }
    json_int(j, "loader", u->loader_bytes);
    json_int(j, "total", (int64_t)u->memory.total + u->upload_bytes + u->stay_bytes + u->loader_bytes);
    json_int(j, "parts", u->parts);
    json_close(j, '}');
    json_open(j, "kernels", '[');
    for (const char *at = u->kernels; *at; at += strspn(at, " ")) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
        json_text(j, NULL, name);
        at += strcspn(at, " ");
    }
    json_close(j, ']');
}

/* Writes the "device" object. Omitted for a device in the host's memory, which "machine" already describes. */
static void device_json(json *j, const device *d, const gauge *g)
{
    if (d->host_memory)
        return;
    json_open(j, "device", '{');
    json_text(j, "name", d->name);
    json_text(j, "about", d->about);
    json_text(j, "missing", d->missing[0] ? d->missing : NULL);
    json_int(j, "memory_bytes", (int64_t)d->memory);
    json_text(j, "figures", g->why[0] ? g->why : "NVML");
    json_close(j, '}');
}

static brasa_status write_run(training *t, replacement *r)
{
    char created[32];
    struct tm tm;
    const time_t now = time(NULL);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    json j = replace_json(r);
    json_open(&j, NULL, '{');
    json_text(&j, "brasa", brasa_version());
    json_text(&j, "created", t->created ? t->created : created);
    json_open(&j, "settings", '{');
    settings_json(&j, &t->task.settings);
    json_close(&j, '}');
    data_json(&j, t);
    network_json(&j, t);
    plan_json(&j, &t->unit);
    device_json(&j, t->task.ctx->device, &t->gauge);
    if (t->options.machine)
        json_raw(&j, "machine", t->options.machine);
    json_close(&j, '}');
    return j.failed ? BRASA_BAD_FILE : BRASA_OK;
}

brasa_status record_run(training *t)
{
    const char *path = run_path(&t->task.pool, t->folder, RUN_FILE), *model = t->task.settings.model;
    const size_t length = strlen(model);
    if (!path)
        return BRASA_OUT_OF_MEMORY;
    replacement r;
    brasa_status status = replace_begin(&r, t->task.ctx, path); /* before the copy: see record_create */
    if (status == BRASA_OK && length > 4 && strcmp(model + length - 4, ".net") == 0 && !t->options.resume) {
        t->model = run_path(&t->task.pool, t->folder, MODEL_FILE);
        status = t->model ? copy_model(t, model, t->model) : BRASA_OUT_OF_MEMORY;
    }
    if (status == BRASA_OK)
        status = write_run(t, &r);
    return replace_end(&r, status);
}

brasa_status record_kernels(training *t)
{
    const char *path = run_path(&t->unit.pool, t->folder, CHOICES_FILE);
    return path ? brasa_session_save_tuning(t->unit.session, path) : BRASA_OUT_OF_MEMORY;
}

/* --- epochs.jsonl -------------------------------------------------------------------------------------------- */

typedef struct line {
    char text[600];
    size_t length;
} line;

static bool add_to_line(void *user, const char *text, size_t length)
{
    line *l = user;
    if (length > sizeof l->text - l->length)
        return false;
    memcpy(l->text + l->length, text, length);
    l->length += length;
    return true;
}

static line figures_line(const brasa_epoch *f, bool gpu)
{
    line l = {.length = 0};
    json j = {.write = add_to_line, .user = &l};
    json_open(&j, NULL, '{');
    json_int(&j, "epoch", f->epoch);
    json_real(&j, "loss", f->loss);
    json_real(&j, "accuracy", f->accuracy);
    json_real(&j, "test_loss", f->test_loss);
    json_real(&j, "test_accuracy", f->test_accuracy);
    json_real(&j, "test_top5", f->test_top5);
    json_real(&j, "seconds", f->seconds);
    json_real(&j, "images_per_s", f->images_per_second);
    json_real(&j, "learning_rate", f->learning_rate);
    if (gpu) {
        if (isfinite(f->gpu_memory))
            json_int(&j, "gpu_memory_bytes", (int64_t)f->gpu_memory);
        json_real(&j, "gpu_utilization", f->gpu_utilization);
    }
    json_close(&j, '}');
    return l;
}

brasa_status record_epoch(training *t, const brasa_epoch *f)
{
    unit *u = &t->unit;
    brasa_epoch *grown = pool_grow(&u->pool, u->figures, (int)u->place.epoch, &u->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(t->task.ctx, sizeof *grown);
    u->figures = grown;
    u->figures[u->place.epoch] = *f;
    if (!train_writes(t))
        return BRASA_OK;
    const line l = figures_line(f, t->task.ctx->device->telemetry);
    const int fd = open(u->epochs, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return refuse(t, u->epochs);
    errno = ENOSPC; /* what half a line means */
    const bool done = write(fd, l.text, l.length) == (ssize_t)l.length && fsync(fd) == 0;
    const brasa_status status = done ? BRASA_OK : refuse(t, u->epochs);
    close(fd);
    return status;
}

/* Epochs that the checkpoint does not know of are trained again, and then told again. */
brasa_status record_resume(training *t)
{
    unit *u = &t->unit;
    int count;
    brasa_status status = run_epochs_read(&u->pool, u->folder, &u->figures, &count);
    if (status == BRASA_OK && count < u->place.epoch)
        status = fail(t->task.ctx, BRASA_BAD_FILE, "%s: %d epochs, but the checkpoint was made after %lld", u->epochs,
                      count, (long long)u->place.epoch);
    if (status != BRASA_OK)
        return status;
    u->capacity = count;
    replacement r;
    status = replace_begin(&r, t->task.ctx, u->epochs);
    for (int64_t i = 0; i < u->place.epoch && status == BRASA_OK; i++) {
        const line l = figures_line(&u->figures[i], t->task.ctx->device->telemetry);
        status = replace_write(&r, l.text, l.length);
    }
    return replace_end(&r, status);
}

/* --- result.json --------------------------------------------------------------------------------------------- */

static void alarms_json(json *j, const alarm_list *l)
{
    json_open(j, "alarms", '[');
    for (int i = 0; i < l->count; i++)
        json_text(j, NULL, l->text[i]);
    json_close(j, ']');
}

static brasa_status write_result(training *t, replacement *r, const char *why)
{
    const unit *u = &t->unit;
    double seconds = 0;
    for (int64_t i = 0; i < u->place.epoch; i++)
        seconds += u->figures[i].seconds;
    json j = replace_json(r);
    json_open(&j, NULL, '{');
    json_text(&j, "state", why ? "failed" : "finished");
    if (why)
        json_text(&j, "why", why);
    json_int(&j, "epochs", u->place.epoch);
    if (u->measured)
        json_int(&j, "measured_epoch", u->measured);
    json_real(&j, "seconds", seconds);
    const brasa_metrics figures = metrics_figures(&u->metrics, u->measured);
    metrics_json(&j, &figures, t->task.class_name);
    alarms_json(&j, &u->alarms);
    json_close(&j, '}');
    return j.failed ? BRASA_BAD_FILE : BRASA_OK;
}

brasa_status record_result(training *t, const char *why)
{
    replacement r;
    if (!train_writes(t))
        return BRASA_OK;
    brasa_status status = replace_begin(&r, t->task.ctx, t->unit.result);
    if (status == BRASA_OK)
        status = write_result(t, &r, why);
    return replace_end(&r, status);
}

static brasa_status write_folds(training *t, replacement *r, const fold_result *folds, int count,
                                const brasa_trainer_result *total)
{
    json j = replace_json(r);
    json_open(&j, NULL, '{');
    json_text(&j, "state", "finished");
    json_real(&j, "accuracy", total->accuracy);
    json_real(&j, "spread", total->spread);
    json_real(&j, "loss", total->loss);
    json_open(&j, "folds", '[');
    for (int i = 0; i < count; i++) {
        json_open(&j, NULL, '{');
        json_int(&j, "fold", folds[i].fold);
        json_real(&j, "accuracy", folds[i].accuracy);
        json_real(&j, "top5", folds[i].top5);
        json_real(&j, "loss", folds[i].loss);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    alarms_json(&j, &t->alarms);
    json_close(&j, '}');
    return j.failed ? BRASA_BAD_FILE : BRASA_OK;
}

brasa_status record_folds(training *t, const fold_result *folds, int count, const brasa_trainer_result *total)
{
    const char *path = run_path(&t->task.pool, t->folder, RESULT_FILE);
    if (!path)
        return BRASA_OUT_OF_MEMORY;
    replacement r;
    brasa_status status = replace_begin(&r, t->task.ctx, path);
    if (status == BRASA_OK)
        status = write_folds(t, &r, folds, count, total);
    return replace_end(&r, status);
}
