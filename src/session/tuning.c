/* tuning.c - a session's tuner: whether kernels are chosen by the clock, and from which files. */
#define _POSIX_C_SOURCE 200809L
#include "core/cache.h"
#include "core/options.h"
#include "device/device.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of the device's row: "cpu", "cuda". */
typedef struct row_name {
    char text[16];
} row_name;

static row_name row_of(const brasa_context *ctx)
{
    row_name r;
    snprintf(r.text, sizeof r.text, "%.*s", (int)strcspn(ctx->device->name, ": "), ctx->device->name);
    return r;
}

/* How the machines begin whose choices are of use: those of own kernels, or of a device's libraries. */
static const char *machine_of(pool *p)
{
    const device *d = p->ctx->device;
    return d->self_tuning ? device_kind(d->name) : tuner_machine(p);
}

static bool times_unasked(const brasa_context *ctx)
{
    const char *word = getenv("BRASA_TUNE");
    return ctx->device->self_tuning && !(word && strcmp(word, "off") == 0);
}

/* Deterministic: what is the fastest on one number of threads may not be so on another. */
static brasa_status read_wish(const brasa_session *s, const brasa_session_options *o, char path[CACHE_PATH_SIZE],
                              brasa_tuning *t)
{
    const brasa_tuning none = {.measure = false};
    brasa_status status = BRASA_OK;
    *t = none;
    if (o->tuning)
        status = options_take(s->ctx, t, sizeof *t, o->tuning, "brasa_tuning");
    if (!o->tuning && times_unasked(s->ctx)) {
        t->measure = true;
        t->cache = cache_path(CHOICES_FILE, path) ? path : NULL;
        if (t->cache)
            cache_make_folders(path);
    }
    if (o->deterministic)
        *t = none;
    return status;
}

brasa_status session_make_tuner(brasa_session *s, const brasa_session_options *o)
{
    char path[CACHE_PATH_SIZE];
    brasa_tuning wish;
    const char *machine = machine_of(&s->pool);
    brasa_status status = machine ? read_wish(s, o, path, &wish) : fail_memory(s->ctx, 0);
    if (status == BRASA_OK)
        status = tuner_new(s->ctx, machine, &wish, &s->tuner);
    if (status != BRASA_OK)
        return status;
    s->tuner->measure = wish.measure && !o->plan_only; /* nothing will run */
    const row_name row = row_of(s->ctx);
    const choice here = {
        .machine = row.text, .problem = CHOSEN_HERE, .words = "yes", .used = true, .unsettled = true};
    return choices_put(s->tuner, &here) ? BRASA_OK : fail_memory(s->ctx, sizeof here);
}

brasa_status session_tuned_here(brasa_context *ctx, const char *record, bool *here)
{
    const brasa_tuning wish = {.record = record};
    const row_name row = row_of(ctx);
    tuner *t;
    const brasa_status status = tuner_new(ctx, "", &wish, &t);
    *here = t && choices_find(t, row.text, CHOSEN_HERE);
    tuner_free(t);
    return status;
}

brasa_status brasa_session_save_tuning(const brasa_session *s, const char *path)
{
    if (!s || !path)
        return fail_null(s ? s->ctx : NULL, __func__, "a session and a path");
    return choices_write_record(s->tuner, path);
}
