/* watch.c - see watch.h. */
#define _GNU_SOURCE
#include "watch.h"

#include "build_info.h"
#include "signals.h"

#include "device/device.h"
#include "train/metrics.h"

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

/* In a device's own memory the session is there, with images on their way and those that stay; the loader is here. */
static void print_plan(const brasa_trainer_info *i, const brasa_memory *m, const device *d)
{
    const double total = (double)m->total + (double)(d->host_memory ? i->loader : i->upload + i->resident);
    if (i->micro_batches > 1)
        printf("batch %lld as %lld x %lld · peak %s (the same result as the whole batch)\n",
               (long long)(i->micro_batches * i->micro_batch), (long long)i->micro_batches, (long long)i->micro_batch,
               print_bytes(total).text);
    printf("plan: %s%s%s (", print_bytes(total).text, d->host_memory ? "" : " of ", d->host_memory ? "" : d->name);
    printf("weights %s, ", print_bytes((double)(m->weights + m->buffers)).text);
    printf("optimizer %s, ", print_bytes((double)m->optimizer).text);
    if (m->accumulated)
        printf("accumulated gradients %s, ", print_bytes((double)m->accumulated).text);
    printf("activations %s", print_bytes((double)m->transient).text);
    if (i->upload)
        printf(", pictures %s", print_bytes((double)(i->upload + i->resident)).text);
    printf(d->host_memory ? ", " : "), ");
    printf("loader %s%s\n", print_bytes((double)i->loader).text, d->host_memory ? ")" : " of the host's memory");
}

static void print_begin(const watch *w, const brasa_progress *p)
{
    const brasa_trainer_info *i = &w->info;
    const brasa_trainer_options *s = brasa_trainer_settings(p->trainer);
    const figure trains = print_count(i->train_samples), tests = print_count(i->test_samples);
    if (p->fold)
        heading("fold %d/%lld, %s samples train, %s test", (int)p->fold, (long long)s->folds, trains.text,
                tests.text);
    if (p->fold > 1)
        return;
    heading("%s, %d classes, %s parameters", s->model, (int)i->classes, print_count(i->parameters).text);
    printf("data: %s, %s samples train, %s test\n", s->data, trains.text, tests.text);
    if (*s->transform)
        printf("pictures: %s%s\n", s->transform, s->no_augment ? ", nothing at random" : "");
    printf("%s, batch %lld, seed %lld, dialect %s, %lld thread%s\n", s->optimizer, (long long)s->batch,
           (long long)s->seed, s->dialect, (long long)s->threads, s->threads == 1 ? "" : "s");
    const device *d = w->context->device;
    if (d->about[0])
        printf("on %s in %s; %s\n", d->name, s->precision, d->about);
    if (d->missing[0])
        printf("%s\n", d->missing);
    print_plan(i, &w->memory, d);
    if (i->epochs_done || i->steps_done)
        printf("goes on after epoch %lld, step %lld\n", (long long)i->epochs_done, (long long)i->steps_done);
    fflush(stdout);
}

/* What stands behind the bar. */
static void format_figures(const watch *w, const brasa_progress *p, bool over, char *out, size_t size)
{
    const brasa_epoch *f = p->epoch;
    const int64_t epochs = brasa_trainer_settings(p->trainer)->epochs;
    const int64_t ahead = (epochs - f->epoch + 1) * w->info.train_samples - f->samples; /* samples */
    const double left = f->samples ? (double)ahead * f->seconds / (double)f->samples : 0;
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
static void print_epoch(watch *w, const brasa_progress *p, bool over)
{
    const int all = w->info.train_samples;
    const int64_t done = over ? all : p->epoch->samples;
    char front[64], count[64], figures[160];
    snprintf(front, sizeof front, "epoch %lld/%lld", (long long)p->epoch->epoch,
             (long long)brasa_trainer_settings(p->trainer)->epochs);
    snprintf(count, sizeof count, "  %lld/%d", (long long)done, all);
    format_figures(w, p, over, figures, sizeof figures);
    clear_line(w);
    if (!w->live) {
        printf("%s%s\n", front, figures);
    } else {
        const int room = w->columns - 3 - (int)(strlen(front) + strlen(count) + strlen(figures));
        const bar b = print_bar((double)done / all, room < MOST_BAR ? room : MOST_BAR);
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

static void print_end(const brasa_progress *p)
{
    brasa_metrics m = {.size = sizeof m};
    if (brasa_trainer_metrics(p->trainer, &m))
        printf("accuracy %s on %s samples (epoch %lld), top 5 %s, loss %.4f\n", print_percent(m.accuracy).text,
               print_count(m.samples).text, (long long)m.epoch, print_percent(m.top5).text, m.loss);
    else if (p->epoch)
        printf("accuracy %s, loss %.4f on the samples it was trained on\n", print_percent(p->epoch->accuracy).text,
               p->epoch->loss);
}

static void show(watch *w, const brasa_progress *p)
{
    switch (p->event) {
    case BRASA_ON_READ:
        clear_line(w);
        if (!w->quiet)
            printf("reading the data  %d/%d%s", (int)p->done, (int)p->total, w->live ? "" : "\n");
        w->open = w->live;
        fflush(stdout);
        break;
    case BRASA_ON_TUNE:
        clear_line(w);
        if (w->live)
            printf("timing kernels  %lld/%lld", (long long)p->done, (long long)p->total);
        w->open = w->live;
        fflush(stdout);
        break;
    case BRASA_ON_BEGIN:
        clear_line(w);
        if (!w->quiet)
            print_begin(w, p);
        break;
    case BRASA_ON_STEP:
        if (w->live)
            print_epoch(w, p, false);
        break;
    case BRASA_ON_EPOCH:
        if (!w->quiet)
            print_epoch(w, p, true);
        break;
    case BRASA_ON_NOTE:
    case BRASA_ON_WARNING:
        clear_line(w);
        fflush(stdout);
        complain(DONE, "%s: %s", p->event == BRASA_ON_NOTE ? "note" : "warning", p->text);
        break;
    case BRASA_ON_PROFILE:
        clear_line(w);
        printf("%s", p->text);
        break;
    case BRASA_ON_END:
        clear_line(w);
        print_end(p);
        break;
    default:
        break;
    }
}

/* --- JSON ---------------------------------------------------------------------------------------------------- */

/* Events without a name are not told. */
static const char *const event_names[] = {
    [BRASA_ON_READ] = "read",  [BRASA_ON_BEGIN] = "begin", [BRASA_ON_STEP] = "step",       [BRASA_ON_EPOCH] = "epoch",
    [BRASA_ON_SAVE] = "saved", [BRASA_ON_NOTE] = "note",   [BRASA_ON_WARNING] = "alarm",   [BRASA_ON_END] = "end",
    [BRASA_ON_FOLD] = "fold",  [BRASA_ON_TUNE] = "tune",   [BRASA_ON_PROFILE] = "profile",
};

static void figures_json(json *j, const brasa_progress *p)
{
    const brasa_epoch *f = p->epoch;
    json_int(j, "epoch", f->epoch);
    if (p->event == BRASA_ON_STEP) {
        json_int(j, "step", p->done);
        json_int(j, "steps", p->total);
    }
    json_real(j, "loss", f->loss);
    json_real(j, "accuracy", f->accuracy);
    if (p->event == BRASA_ON_EPOCH) {
        json_real(j, "test_loss", f->test_loss);
        json_real(j, "test_accuracy", f->test_accuracy);
        json_real(j, "test_top5", f->test_top5);
        json_real(j, "seconds", f->seconds);
    }
    json_real(j, "images_per_s", f->images_per_second);
    json_real(j, "learning_rate", f->learning_rate);
    json_int(j, "peak_rss_bytes", (int64_t)peak_rss_bytes());
}

static void begin_json(json *j, const watch *w, const brasa_progress *p)
{
    const brasa_trainer_info *i = &w->info;
    json_open(j, "settings", '{');
    settings_json(j, brasa_trainer_settings(p->trainer));
    json_close(j, '}');
    json_int(j, "classes", i->classes);
    json_int(j, "parameters", i->parameters);
    json_int(j, "train", i->train_samples);
    json_int(j, "test", i->test_samples);
    json_int(j, "steps", i->steps);
    json_int(j, "epochs_done", i->epochs_done);
    json_int(j, "steps_done", i->steps_done);
    json_int(j, "parts", i->micro_batches);
    json_int(j, "plan_bytes", (int64_t)(w->memory.total + i->upload + i->resident + i->loader));
}

static void end_json(json *j, const brasa_progress *p)
{
    brasa_metrics m = {.size = sizeof m, .loss = NAN, .accuracy = NAN, .top5 = NAN};
    brasa_trainer_metrics(p->trainer, &m);
    metrics_json(j, &m, brasa_trainer_classes(p->trainer, NULL));
}

static void show_json(const watch *w, const brasa_progress *p)
{
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "event", event_names[p->event]);
    if (p->fold)
        json_int(&j, "fold", p->fold);
    if (p->event == BRASA_ON_READ)
        json_int(&j, "samples", p->done);
    else if (p->event == BRASA_ON_TUNE) {
        json_int(&j, "node", p->done + 1);
        json_int(&j, "nodes", p->total);
    } else if (p->event == BRASA_ON_BEGIN)
        begin_json(&j, w, p);
    else if (p->event == BRASA_ON_END)
        end_json(&j, p);
    else if (p->epoch)
        figures_json(&j, p);
    else
        json_text(&j, p->event == BRASA_ON_SAVE ? "path" : "text", p->text);
    json_close(&j, '}');
    fflush(stdout);
}

/* Whether it is too early to show the next of many events. */
static bool too_early(watch *w, const brasa_progress *p)
{
    const double now = clock_seconds();
    if (p->event != BRASA_ON_STEP && p->event != BRASA_ON_READ && p->event != BRASA_ON_TUNE)
        return !event_names[p->event];
    if (now - w->last < (w->live || w->json ? least_pause : log_pause))
        return true;
    w->last = now;
    return false;
}

bool watch_event(void *user, const brasa_progress *p)
{
    watch *w = user;
    if (p->event == BRASA_ON_BEGIN) {
        w->info.size = sizeof w->info;
        w->memory.size = sizeof w->memory;
        brasa_session_memory(brasa_trainer_session(p->trainer), &w->memory);
        w->began = brasa_trainer_describe(p->trainer, &w->info) == BRASA_OK;
    }
    if (!too_early(w, p)) {
        if (w->json)
            show_json(w, p);
        else
            show(w, p);
    }
    return !stop_asked;
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

void watch_end(watch *w, const brasa_trainer_result *r)
{
    clear_line(w);
    if (w->json) {
        json j = json_stdout();
        json_open(&j, NULL, '{');
        json_text(&j, "event", r->stopped ? "stopped" : "finished");
        json_text(&j, "folder", r->folder);
        if (!r->stopped) {
            json_real(&j, "accuracy", r->accuracy);
            json_real(&j, "spread", r->folds > 1 ? r->spread : NAN);
            json_real(&j, "loss", r->loss);
        }
        json_int(&j, "peak_rss_bytes", (int64_t)peak_rss_bytes());
        json_close(&j, '}');
        return;
    }
    if (r->folds > 1)
        printf("accuracy %s, mean of %d folds, deviation %.1f points\n", print_percent(r->accuracy).text, r->folds,
               100 * r->spread);
    if (!r->stopped && !w->began)
        printf("nothing was left to train%s%s: --epochs adds some\n", r->folds > 1 ? "" : ", accuracy ",
               r->folds > 1 ? "" : print_percent(r->accuracy).text);
    if (r->stopped)
        printf("stopped; `brasa train --resume %s` goes on\n", r->folder);
    else
        printf("saved %s/ (%s"
               "report.html"
               ")\n",
               r->folder,
               r->folds > 1 ? ""
                            : "weights.safetensors"
                              ", ");
}
