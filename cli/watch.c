/* watch.c - see watch.h. */
#define _GNU_SOURCE
#include "watch.h"

#include "build_info.h"

#include "device/device.h"
#include "train/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Steps are shown at most so often, in seconds. Reading is told in a log, too, once it has taken a while. */
static const double least_pause = 0.2, log_pause = 10, log_start = 2;
enum { MOST_BAR = 20, DEFAULT_COLUMNS = 80, WIDE = 100 };

watch watch_start(const options *o)
{
    const char *term = getenv("TERM");
    struct winsize size = {0};
    watch w = {.json = o->json, .quiet = o->quiet, .columns = DEFAULT_COLUMNS};
    w.live = !w.json && !w.quiet && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
    if (w.live && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        w.columns = size.ws_col;
    if (!w.live && !w.json)
        w.last = clock_seconds() + log_start - log_pause;
    return w;
}

/* --- text ---------------------------------------------------------------------------------------------------- */

static void clear_line(watch *w)
{
    if (w->open)
        printf("\r\033[K");
    w->open = false;
}

/* In a device's own memory the session is there, with pictures on their way and those that stay; the loader is here.
 */
static void print_plan(const unit *u, const device *d)
{
    const brasa_memory *m = &u->memory;
    const double total =
        (double)m->total + (double)(d->host_memory ? u->loader_bytes : u->upload_bytes + u->stay_bytes);
    if (u->parts > 1)
        printf("batch %lld as %lld x %lld · peak %s (the same result as the whole batch)\n",
               (long long)(u->parts * u->session->part), (long long)u->parts, (long long)u->session->part,
               print_bytes(total).text);
    printf("plan: %s%s%s (", print_bytes(total).text, d->host_memory ? "" : " of ", d->host_memory ? "" : d->name);
    printf("weights %s, ", print_bytes((double)(m->weights + m->buffers)).text);
    printf("optimizer %s, ", print_bytes((double)m->optimizer).text);
    if (m->accumulated)
        printf("accumulated gradients %s, ", print_bytes((double)m->accumulated).text);
    printf("activations %s", print_bytes((double)m->transient).text);
    if (u->upload_bytes)
        printf(", pictures %s", print_bytes((double)(u->upload_bytes + u->stay_bytes)).text);
    printf(d->host_memory ? ", " : "), ");
    printf("loader %s%s\n", print_bytes((double)u->loader_bytes).text,
           d->host_memory ? ")" : " of the host's memory");
}

static void print_begin(const training *t)
{
    const unit *u = &t->unit;
    const train_settings *s = &t->task.settings;
    if (u->fold)
        heading("fold %d/%lld, %s samples train, %s test", u->fold, (long long)s->folds,
                print_count(u->split.trains).text, print_count(u->split.tests).text);
    if (u->fold > 1)
        return;
    heading("%s, %d classes, %s parameters", s->model, t->task.classes,
            print_count(brasa_graph_param_total(t->task.graph)).text);
    printf("data: %s, %s samples train, %s test\n", s->data, print_count(u->split.trains).text,
           print_count(u->split.tests).text);
    if (*s->transform)
        printf("pictures: %s%s\n", s->transform, s->no_augment ? ", nothing at random" : "");
    printf("%s, batch %lld, seed %lld, dialect %s, %lld thread%s\n", s->optimizer, (long long)s->batch,
           (long long)s->seed, s->dialect, (long long)s->threads, s->threads == 1 ? "" : "s");
    const device *d = t->task.ctx->device;
    if (d->about[0])
        printf("on %s in %s; %s\n", d->name, s->precision, d->about);
    if (d->missing[0])
        printf("%s\n", d->missing);
    print_plan(u, d);
    if (u->place.epoch || u->place.done)
        printf("goes on after epoch %lld, step %lld\n", (long long)u->place.epoch, (long long)u->place.done);
    fflush(stdout);
}

/* What stands behind the bar. */
static void format_figures(const watch *w, const training *t, const train_figures *f, bool over, char *out,
                           size_t size)
{
    const train_place *p = &t->unit.place;
    const int64_t ahead = (t->task.settings.epochs - f->epoch + 1) * t->unit.split.trains - p->seen; /* samples */
    const double left = p->seen ? (double)ahead * p->seconds / (double)p->seen : 0;
    size_t used = (size_t)snprintf(out, size, "  loss %.4f  acc %s", f->loss, print_percent(f->accuracy).text);
    if (!isnan(f->test_accuracy) && used < size)
        used += (size_t)snprintf(out + used, size - used, "  test %.4f %s", f->test_loss,
                                 print_percent(f->test_accuracy).text);
    if (used < size)
        used += (size_t)snprintf(out + used, size - used, "  %.*f img/s", f->images_per_second < 10,
                                 f->images_per_second);
    if (used < size && over)
        snprintf(out + used, size - used, "  %s", print_time(f->seconds).text);
    else if (used < size)
        used += (size_t)snprintf(out + used, size - used, "  %s left", print_time(left).text);
    if (used < size && !over && w->columns >= WIDE)
        snprintf(out + used, size - used, "  %s", print_bytes(peak_rss_bytes()).text);
}

/* The bar gets the room that the rest leaves. */
static void print_epoch(watch *w, const training *t, const train_figures *f, bool over)
{
    const unit *u = &t->unit;
    const int64_t done = over ? u->split.trains : u->place.seen;
    char front[64], count[64], figures[160];
    snprintf(front, sizeof front, "epoch %lld/%lld", (long long)f->epoch, (long long)t->task.settings.epochs);
    snprintf(count, sizeof count, "  %lld/%d", (long long)done, (int)u->split.trains);
    format_figures(w, t, f, over, figures, sizeof figures);
    clear_line(w);
    if (!w->live) {
        printf("%s%s\n", front, figures);
    } else {
        const int room = w->columns - 3 - (int)(strlen(front) + strlen(count) + strlen(figures));
        const bar b = print_bar((double)done / u->split.trains, room < MOST_BAR ? room : MOST_BAR);
        if (room > 0)
            printf("%s  %s%s%s%s", front, b.text, count, figures, over ? "\n" : "");
        else if (over)
            printf("%s%s\n", front, figures);
        else /* a line that is written over must not be longer than the terminal is wide */
            printf("%s%.*s", front, w->columns > 20 ? w->columns - 1 - (int)strlen(front) : 0, figures);
        w->open = !over;
    }
    fflush(stdout);
}

static void print_end(const training *t, const train_figures *f)
{
    const metrics *m = &t->unit.metrics;
    if (m->count)
        printf("accuracy %s on %s samples (epoch %lld), top 5 %s, loss %.4f\n", print_percent(metrics_top1(m)).text,
               print_count(m->count).text, (long long)t->unit.measured, print_percent(metrics_top5(m)).text,
               metrics_loss(m));
    else if (f)
        printf("accuracy %s, loss %.4f on the samples it was trained on\n", print_percent(f->accuracy).text, f->loss);
}

static void show(watch *w, const train_event *e)
{
    const training *t = e->training;
    switch (e->kind) {
    case TRAIN_READ:
        clear_line(w);
        if (!w->quiet)
            printf("reading the data  %d/%d%s", (int)t->read, (int)t->task.set->count, w->live ? "" : "\n");
        w->open = w->live;
        fflush(stdout);
        break;
    case TRAIN_TUNE:
        clear_line(w);
        if (w->live)
            printf("timing kernels  %lld/%lld", (long long)t->timed, (long long)t->nodes);
        w->open = w->live;
        fflush(stdout);
        break;
    case TRAIN_BEGIN:
        clear_line(w);
        if (!w->quiet)
            print_begin(t);
        break;
    case TRAIN_STEP:
        if (w->live)
            print_epoch(w, t, e->figures, false);
        break;
    case TRAIN_EPOCH:
        if (!w->quiet)
            print_epoch(w, t, e->figures, true);
        break;
    case TRAIN_NOTE:
    case TRAIN_ALARM:
        clear_line(w);
        fflush(stdout);
        complain(DONE, "%s: %s", e->kind == TRAIN_NOTE ? "note" : "warning", e->text);
        break;
    case TRAIN_PROFILE:
        clear_line(w);
        printf("%s", e->text);
        break;
    case TRAIN_END:
        clear_line(w);
        print_end(t, e->figures);
        break;
    case TRAIN_FOLD:
    case TRAIN_SAVED:
        break;
    }
}

/* --- JSON ---------------------------------------------------------------------------------------------------- */

static const char *const event_names[] = {
    [TRAIN_READ] = "read",   [TRAIN_BEGIN] = "begin", [TRAIN_STEP] = "step",       [TRAIN_EPOCH] = "epoch",
    [TRAIN_SAVED] = "saved", [TRAIN_NOTE] = "note",   [TRAIN_ALARM] = "alarm",     [TRAIN_END] = "end",
    [TRAIN_FOLD] = "fold",   [TRAIN_TUNE] = "tune",   [TRAIN_PROFILE] = "profile",
};

static void figures_json(json *j, const training *t, const train_event *e)
{
    const train_figures *f = e->figures;
    json_int(j, "epoch", f->epoch);
    if (e->kind == TRAIN_STEP) {
        json_int(j, "step", t->unit.place.done);
        json_int(j, "steps", t->unit.steps);
    }
    json_real(j, "loss", f->loss);
    json_real(j, "accuracy", f->accuracy);
    if (e->kind == TRAIN_EPOCH) {
        json_real(j, "test_loss", f->test_loss);
        json_real(j, "test_accuracy", f->test_accuracy);
        json_real(j, "test_top5", f->test_top5);
        json_real(j, "seconds", f->seconds);
    }
    json_real(j, "images_per_s", f->images_per_second);
    json_real(j, "learning_rate", f->learning_rate);
    json_int(j, "peak_rss_bytes", (int64_t)peak_rss_bytes());
}

static void begin_json(json *j, const training *t)
{
    const unit *u = &t->unit;
    json_open(j, "settings", '{');
    settings_json(j, &t->task.settings);
    json_close(j, '}');
    json_int(j, "classes", t->task.classes);
    json_int(j, "parameters", brasa_graph_param_total(t->task.graph));
    json_int(j, "train", u->split.trains);
    json_int(j, "test", u->split.tests);
    json_int(j, "steps", u->steps);
    json_int(j, "epochs_done", u->place.epoch);
    json_int(j, "steps_done", u->place.done);
    json_int(j, "parts", u->parts);
    json_int(j, "plan_bytes", (int64_t)u->memory.total + u->upload_bytes + u->stay_bytes + u->loader_bytes);
}

static void tune_json(json *j, const training *t)
{
    json_int(j, "node", t->timed + 1);
    json_int(j, "nodes", t->nodes);
}

static void show_json(const train_event *e)
{
    const training *t = e->training;
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "event", event_names[e->kind]);
    if (t->unit.fold)
        json_int(&j, "fold", t->unit.fold);
    if (e->kind == TRAIN_READ)
        json_int(&j, "samples", t->read);
    else if (e->kind == TRAIN_TUNE)
        tune_json(&j, t);
    else if (e->kind == TRAIN_BEGIN)
        begin_json(&j, t);
    else if (e->kind == TRAIN_END)
        metrics_json(&j, &t->unit.metrics, t->task.class_name);
    else if (e->figures)
        figures_json(&j, t, e);
    else
        json_text(&j, e->kind == TRAIN_SAVED ? "path" : "text", e->text);
    json_close(&j, '}');
    fflush(stdout);
}

void watch_event(void *user, const train_event *e)
{
    watch *w = user;
    if (e->kind == TRAIN_STEP || e->kind == TRAIN_READ || e->kind == TRAIN_TUNE) {
        const double now = clock_seconds();
        if (now - w->last < (w->live || w->json ? least_pause : log_pause))
            return;
        w->last = now;
    }
    w->began = w->began || e->kind == TRAIN_BEGIN;
    if (w->json)
        show_json(e);
    else
        show(w, e);
}

void watch_failed(watch *w, const char *why)
{
    if (w->json) {
        json j = json_stdout();
        json_open(&j, NULL, '{');
        json_text(&j, "event", "failed");
        json_text(&j, "text", why);
        json_close(&j, '}');
    } else if (w->open) {
        printf("\n");
    }
}

void watch_end(watch *w, const train_result *r)
{
    clear_line(w);
    if (w->json) {
        json j = json_stdout();
        json_open(&j, NULL, '{');
        json_text(&j, "event", r->stopped ? "stopped" : "finished");
        json_text(&j, "folder", r->folder);
        if (!r->stopped) {
            json_real(&j, "accuracy", r->accuracy);
            json_real(&j, "spread", r->units > 1 ? r->spread : NAN);
            json_real(&j, "loss", r->loss);
        }
        json_int(&j, "peak_rss_bytes", (int64_t)peak_rss_bytes());
        json_close(&j, '}');
        return;
    }
    if (r->units > 1)
        printf("accuracy %s, mean of %d folds, deviation %.1f points\n", print_percent(r->accuracy).text, r->units,
               100 * r->spread);
    if (!r->stopped && !w->began)
        printf("nothing was left to train%s%s: --epochs adds some\n", r->units > 1 ? "" : ", accuracy ",
               r->units > 1 ? "" : print_percent(r->accuracy).text);
    if (r->stopped)
        printf("stopped; `brasa train --resume %s` goes on\n", r->folder);
    else
        printf("saved %s/ (%s" REPORT_FILE ")\n", r->folder, r->units > 1 ? "" : WEIGHTS_FILE ", ");
}
