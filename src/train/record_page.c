/* record_page.c - report.html: the account of a run for people. */
#include "train/record.h"

#include "device/device.h"
#include "core/numeric.h"
#include "core/replace.h"
#include "report/run_report.h"

#include <math.h>
#include <stdio.h>

enum { MOST_FACTS = 64, MOST_BARS = 8 };

/* What the page is made of, as long as it is being written. */
typedef struct sheet {
    pool pool;
    report_run run;
    page_fact settings[MOST_FACTS], environment[MOST_FACTS];
    page_bar memory[MOST_BARS];
    report_notice notices[MOST_ALARMS];
} sheet;

static void add_fact(page_fact *list, int *count, const char *name, const char *text)
{
    if (*count < MOST_FACTS && text && *text)
        list[(*count)++] = (page_fact){name, text};
}

static void add_bar(sheet *s, const char *name, double bytes)
{
    if (bytes > 0)
        s->memory[s->run.memory_count++] = (page_bar){.name = name, .value = bytes};
}

static void add_settings(sheet *s, const training *t)
{
    const char *name;
    char text[256];
    for (int i = 0; settings_at(&t->task.settings, i, &name, text, sizeof text); i++)
        add_fact(s->settings, &s->run.setting_count, name, pool_text(&s->pool, "%s", text));
    s->run.settings = s->settings;
}

/* Of all epochs: the most memory, and the mean of its utilization. */
static void add_gpu(sheet *s, const training *t)
{
    int *count = &s->run.environment_count, known = 0;
    const unit *u = &t->unit;
    double most = NAN, busy = 0;
    for (int64_t i = 0; i < u->place.epoch; i++) {
        most = fmax(most, u->figures[i].gpu_memory); /* which passes over NAN */
        if (isfinite(u->figures[i].gpu_utilization)) {
            busy += u->figures[i].gpu_utilization;
            known++;
        }
    }
    const char *why = t->gauge.why[0] ? t->gauge.why : NULL;
    add_fact(s->environment, count, "GPU memory in use, at most",
             isfinite(most) ? pool_text(&s->pool, "%s", numeric_bytes(most).text) : why);
    add_fact(s->environment, count, "GPU utilization in training",
             known ? pool_text(&s->pool, "%.0f %%", busy / known) : why);
}

static void add_environment(sheet *s, const training *t)
{
    int *count = &s->run.environment_count;
    page_fact *list = s->environment;
    add_fact(list, count, "brasa", brasa_version());
    add_fact(list, count, "instructions", isa_name(t->task.ctx->isa));
    add_fact(list, count, "oneDNN", library_onednn());
    if (t->task.ctx->device->telemetry) {
        add_fact(list, count, "device", t->task.ctx->device->name);
        add_fact(list, count, "of the device", t->task.ctx->device->about);
        add_gpu(s, t);
    }
    add_fact(list, count, t->data.defined ? "data's definition, SHA-256" : "data, SHA-256", t->data.hash);
    add_fact(list, count, "samples",
             pool_text(&s->pool, "%d train, %d test", (int)t->unit.split.trains, (int)t->unit.split.tests));
    add_fact(list, count, "parameters",
             pool_text(&s->pool, "%lld", (long long)brasa_graph_param_total(t->task.graph)));
    add_fact(list, count, "kernels", t->unit.kernels);
    s->run.environment = list;
}

static void add_memory(sheet *s, const training *t)
{
    const unit *u = &t->unit;
    add_bar(s, "weights", (double)u->memory.weights);
    add_bar(s, "buffers", (double)u->memory.buffers);
    add_bar(s, "optimizer", (double)u->memory.optimizer);
    if (u->memory.accumulated)
        add_bar(s, "accumulated", (double)u->memory.accumulated);
    add_bar(s, "activations", (double)u->memory.transient);
    if (u->upload_bytes)
        add_bar(s, "pictures", (double)(u->upload_bytes + u->stay_bytes));
    add_bar(s, "loader", (double)u->loader_bytes);
    s->run.memory = s->memory;
    s->run.memory_budget = t->task.settings.memory_limit;
}

static brasa_status add_epochs(sheet *s, const unit *u)
{
    report_epoch *list = pool_get(&s->pool, (size_t)u->place.epoch + 1, sizeof *list);
    if (!list)
        return fail_memory(s->pool.ctx, (size_t)u->place.epoch * sizeof *list);
    for (int64_t i = 0; i < u->place.epoch; i++) {
        const brasa_epoch *f = &u->figures[i];
        list[i] = (report_epoch){.epoch = (double)f->epoch,
                                 .train_loss = f->loss,
                                 .train_accuracy = f->accuracy,
                                 .val_loss = f->test_loss,
                                 .val_accuracy = f->test_accuracy,
                                 .images_per_second = f->images_per_second,
                                 .seconds = f->seconds,
                                 .learning_rate = f->learning_rate};
    }
    s->run.epochs = list;
    s->run.epoch_count = (int)u->place.epoch;
    return BRASA_OK;
}

/* What does not fit in memory is left out of the page, but for its epochs. */
static brasa_status fill(sheet *s, const training *t)
{
    const unit *u = &t->unit;
    s->run.title = pool_text(&s->pool, "%s on %s", t->task.settings.model, t->task.settings.data);
    s->run.subtitle = u->fold ? pool_text(&s->pool, "%s, fold %d", t->folder, u->fold) : t->folder;
    if (!s->run.title)
        return fail_memory(s->pool.ctx, 0);
    const alarm_list *alarms = u->session ? &u->alarms : &t->alarms;
    for (int i = 0; i < alarms->count; i++)
        s->notices[s->run.notice_count++] = (report_notice){PAGE_WARNING, alarms->text[i]};
    s->run.notices = s->notices;
    s->run.classes = t->task.classes;
    s->run.class_names = t->task.class_name;
    s->run.confusion = u->metrics.count ? u->metrics.confusion : NULL;
    add_settings(s, t);
    if (!u->session) /* the sum of folds: nothing is at work */
        return BRASA_OK;
    add_environment(s, t);
    add_memory(s, t);
    return add_epochs(s, u);
}

static bool write_piece(void *user, const char *text, size_t length)
{
    return replace_write(user, text, length) == BRASA_OK;
}

static brasa_status write_page(training *t, const char *folder, sheet *s)
{
    const char *path = run_path(&s->pool, folder, REPORT_FILE);
    brasa_status status = path ? fill(s, t) : BRASA_OUT_OF_MEMORY;
    if (status != BRASA_OK)
        return status;
    replacement r;
    status = replace_begin(&r, t->task.ctx, path);
    if (status == BRASA_OK)
        status = run_report_write(t->task.ctx, &s->run, write_piece, &r);
    return replace_end(&r, status);
}

brasa_status record_page(training *t)
{
    sheet s = {.pool = {.ctx = t->task.ctx}};
    if (!train_writes(t))
        return BRASA_OK;
    brasa_status status = write_page(t, t->unit.folder, &s);
    pool_free(&s.pool);
    return status;
}

brasa_status record_folds_page(training *t, const fold_result *folds, int count)
{
    sheet s = {.pool = {.ctx = t->task.ctx}};
    report_fold *list = pool_get(&s.pool, (size_t)count, sizeof *list);
    brasa_status status = list ? BRASA_OK : fail_memory(t->task.ctx, (size_t)count * sizeof *list);
    for (int i = 0; list && i < count; i++)
        list[i] = (report_fold){folds[i].fold, folds[i].loss, folds[i].accuracy, NAN};
    s.run.folds = list;
    s.run.fold_count = count;
    if (status == BRASA_OK)
        status = write_page(t, t->folder, &s);
    pool_free(&s.pool);
    return status;
}
