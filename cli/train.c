/* train.c - `brasa train`: from options to settings, and a Ctrl-C that loses nothing. */
#include "build_info.h"
#include "device.h"
#include "signals.h"
#include "tuning.h"
#include "watch.h"

#include "device/device.h"
#include "train/presets.h"
#include "train/record.h"

#include <string.h>

/* A run goes on with its own settings. */
static int check_resume(const options *o)
{
    static const char *const others[] = {"batch",      "class-weights", "clip-norm",   "data",       "deterministic",
                                         "dialect",    "fold",          "folds",       "freeze",     "keep",
                                         "no-augment", "no-shuffle",    "no-stratify", "no-tune",    "optimizer",
                                         "out",        "patience",      "preset",      "save-every", "schedule",
                                         "seed",       "skip-bad",      "split",       "transform",  "weights"};
    if (o->words)
        return complain(MISUSED, "--resume goes on with the run's own network: unexpected '%s'", o->word[0]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (option_given(o, others[i]))
            return complain(MISUSED, "--resume goes on with the run's own settings: --%s cannot be given", others[i]);
    return DONE;
}

/* What is given wins over what the preset says. */
static void apply(const options *o, brasa_trainer_options *s)
{
    s->model = o->words ? o->word[0] : s->model;
    s->data = o->data ? o->data : s->data;
    s->split = o->split ? o->split : o->folds ? NULL : s->split;
    s->transform = o->transform ? o->transform : s->transform;
    s->dialect = o->dialect ? o->dialect : s->dialect;
    s->optimizer = o->optimizer ? o->optimizer : s->optimizer;
    s->schedule = o->schedule ? o->schedule : s->schedule;
    s->weights = o->weights;
    s->keep = o->keep ? o->keep : s->keep;
    s->epochs = o->epochs ? o->epochs : s->epochs;
    s->batch = option_given(o, "batch") || !s->batch ? o->batch : s->batch;
    s->seed = o->seed;
    s->folds = o->folds;
    s->fold = o->fold;
    s->patience = o->patience;
    s->clip_norm = o->clip_norm;
    s->save_every = option_given(o, "save-every") && o->save_every == 0 ? -1 : o->save_every;
    s->no_stratify = o->no_stratify;
    s->no_shuffle = o->no_shuffle;
    s->no_augment = o->no_augment;
    s->skip_unreadable = o->skip_bad;
    s->freeze = o->freeze;
    s->class_weights = o->class_weights;
    s->deterministic = o->deterministic;
    s->no_tune = tuning_off(o);
    s->memory_limit = o->mem;
    s->precision = o->precision;
}

int train_settings_of(brasa_context *ctx, const options *o, brasa_trainer_options *s)
{
    const preset *p = NULL;
    if (o->preset && preset_find(ctx, o->preset, &p) != BRASA_OK)
        return complain(MISUSED, "--preset: %s", brasa_context_error(ctx));
    if (p)
        *s = p->settings;
    apply(o, s);
    if (!s->model)
        return complain(MISUSED, "train: MODEL|FILE.net is missing");
    if (!s->data)
        return complain(MISUSED, "train: --data is missing%s%s", p ? ": " : ", such as --data images:DIR",
                        p ? p->wants : "");
    if (o->fold && !o->folds)
        return complain(MISUSED, "--fold needs --folds");
    return DONE;
}

/* A run goes on with as many threads as before and where it was, unless told otherwise: only so the bits are the
 * same. */
typedef struct before {
    int32_t threads;
    device_word device; /* "": no record says */
} before;

static before read_before(const char *folder)
{
    brasa_context *ctx = NULL;
    before b = {0};
    run_info r;
    if (brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx) != BRASA_OK)
        return b;
    if (run_read(ctx, folder, &r) == BRASA_OK) {
        const int64_t threads = r.settings.threads;
        b.threads = threads > 0 && threads <= MOST_THREADS ? (int32_t)threads : 0;
        b.device = device_recorded(r.settings.device);
    }
    run_free(&r);
    brasa_context_free(ctx);
    return b;
}

/* A context on the device, and the settings. */
static int begin(const options *o, brasa_context **ctx, brasa_trainer_options *s)
{
    const before b = o->resume ? read_before(o->resume) : (before){0};
    brasa_context_options c = {.size = sizeof c, .threads = o->threads ? (int32_t)o->threads : b.threads};
    const brasa_status status = brasa_context_new(&c, ctx);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_status_text(status));
    const char *given = o->device, *recorded = b.device.text[0] ? b.device.text : NULL;
    int code = device_use(*ctx, given ? given : recorded);
    if (code == DONE)
        code = device_precision(*ctx, o->precision, &(int32_t){0}); /* what is wrong with it is told at once */
    if (code == DONE)
        code = o->resume ? check_resume(o) : train_settings_of(*ctx, o, s);
    if (o->resume)
        *s = (brasa_trainer_options){.epochs = o->epochs, .memory_limit = o->mem, .precision = o->precision};
    s->size = sizeof *s;
    s->resume = o->resume;
    s->out = o->out ? o->out : "";
    s->profile = o->profile;
    return code;
}

int run_train(const options *o)
{
    brasa_context *ctx = NULL;
    brasa_trainer *trainer = NULL;
    watch w = watch_start(o);
    tuning kernels;
    char machine[MACHINE_TEXT];
    brasa_trainer_result r = {.size = sizeof r};
    brasa_trainer_options t = {.size = 0};
    int code = begin(o, &ctx, &t);
    if (code == DONE) {
        tuning_start(&kernels, o);
        t.tuning = &kernels.wish;
        t.machine = machine_text(machine);
        t.progress = watch_event;
        t.user = &w;
        w.context = ctx;
        catch_signals();
        if (brasa_trainer_new(ctx, &t, &trainer) == BRASA_OK && brasa_trainer_run(trainer, &r) == BRASA_OK) {
            watch_end(&w, &r);
            code = r.stopped ? STOPPED : DONE;
        } else {
            watch_failed(&w, brasa_context_error(ctx));
            code = complain(stop_asked ? STOPPED : FAILED, "%s", brasa_context_error(ctx));
        }
    }
    brasa_trainer_free(trainer);
    brasa_context_free(ctx);
    return code;
}
