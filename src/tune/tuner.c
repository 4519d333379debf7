/* tuner.c - when the clock is asked, who is told, and when choices are saved: see tuner.h. */
#define _POSIX_C_SOURCE 200809L
#include "tune/tuner.h"

#include <string.h>
#include <time.h>

/* Nanoseconds: a large network takes minutes, writing the file some milliseconds; a user who stops it waits no longer
 * than that. */
static const int64_t patience = 1000000000, silence = 200000000;

int64_t tuner_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- who looks on ---------------------------------------------------------------------------------------------- */

static brasa_status tell(tuner *t)
{
    t->told = tuner_clock();
    return !t->watch || t->watch(t->user, t->node, t->nodes, NULL)
               ? BRASA_OK
               : fail(t->ctx, BRASA_WRONG_STATE, "stopped while kernels were timed");
}

brasa_status tuner_begin(tuner *t)
{
    t->saved = t->saved ? t->saved : tuner_clock();
    return tell(t);
}

brasa_status tuner_go_on(tuner *t)
{
    return tuner_clock() - t->told < t->silence ? BRASA_OK : tell(t);
}

static void take_note(tuner *t, const char *note)
{
    if (note && t->watch)
        t->watch(t->user, 0, 0, note);
}

/* --- choices --------------------------------------------------------------------------------------------------- */

/* Where the file cannot be written, nothing is kept, and it is told once; an error of before stays the context's. */
static brasa_status save(tuner *t)
{
    char before[ERROR_TEXT_SIZE];
    if (!t->measured || !t->cache)
        return BRASA_OK;
    memcpy(before, t->ctx->error, sizeof before);
    const brasa_status status = choices_write(t, t->cache);
    t->measured = 0;
    t->saved = tuner_clock();
    if (status == BRASA_OK || status == BRASA_OUT_OF_MEMORY)
        return status;
    const char *note = pool_text(&t->pool, "%s: times of kernels are not kept", t->ctx->error);
    memcpy(t->ctx->error, before, sizeof before);
    t->cache = NULL;
    take_note(t, note);
    return note ? BRASA_OK : fail_memory(t->ctx, 0);
}

brasa_status tuner_put(tuner *t, const choice *made, choice **out)
{
    const choice *old = choices_find(t, made->machine, made->problem);
    brasa_status status = old && old->fresh && made->unsettled ? save(t) : BRASA_OK; /* what it says is for all */
    choice *c = status == BRASA_OK ? choices_put(t, made) : NULL;
    *out = c;
    if (!c)
        return status == BRASA_OK ? fail_memory(t->ctx, sizeof *c) : status;
    t->saved = t->saved ? t->saved : tuner_clock();
    c->used = true;
    c->fresh = !c->unsettled;
    t->measured += c->fresh;
    t->unsettled += c->unsettled && !c->words;
    return tuner_clock() - t->saved >= t->patience ? save(t) : BRASA_OK;
}

/* --- beginning and end ----------------------------------------------------------------------------------------- */

static brasa_status read_file(tuner *t, const char *path, bool record)
{
    const char *note = NULL;
    const brasa_status status = choices_read(t, path, record, &note);
    take_note(t, note);
    return status;
}

brasa_status tuner_new(brasa_context *ctx, const char *machine, const brasa_tuning *o, tuner **out)
{
    tuner *t = mem_get(ctx, sizeof *t);
    *out = NULL;
    if (!t)
        return fail_memory(ctx, sizeof *t);
    *t = (tuner){.ctx = ctx, .pool = {.ctx = ctx}, .measure = o->measure, .patience = patience, .silence = silence};
    t->asks = o->measure || o->cache || o->record;
    t->watch = o->watch;
    t->user = o->user;
    t->most_bytes = o->memory_limit < (uint64_t)INT64_MAX ? (int64_t)o->memory_limit : 0;
    t->machine = pool_text(&t->pool, "%s", machine);
    t->cache = o->cache ? pool_text(&t->pool, "%s", o->cache) : NULL;
    brasa_status status = t->machine && (t->cache || !o->cache) ? BRASA_OK : fail_memory(ctx, 0);
    if (status == BRASA_OK && o->record)
        status = read_file(t, o->record, true);
    if (status == BRASA_OK && t->cache)
        status = read_file(t, t->cache, false);
    if (status == BRASA_OK)
        *out = t;
    else
        tuner_free(t);
    return status;
}

void tuner_free(tuner *t)
{
    if (!t)
        return;
    (void)save(t);
    mem_put_large(t->ctx, t->block);
    pool_free(&t->pool);
    mem_put(t->ctx, t);
}

void tuner_lend(tuner *t, void *arena, int64_t bytes)
{
    t->lent = arena;
    t->lent_bytes = arena ? bytes : 0;
    t->filled = 0;
}

/* Tells once that other programs were in the way. */
static brasa_status tell_unsettled(tuner *t)
{
    const int count = t->unsettled;
    t->unsettled = 0;
    if (!count || !t->watch)
        return BRASA_OK;
    const char *note =
        pool_text(&t->pool, "times of kernels of %d node%s did not settle, as beside other busy programs: not kept",
                  count, count == 1 ? "" : "s");
    take_note(t, note);
    return note ? BRASA_OK : fail_memory(t->ctx, 0);
}

brasa_status tuner_rest(tuner *t)
{
    mem_put_large(t->ctx, t->block);
    t->block = t->room = NULL;
    t->room_bytes = 0;
    tuner_lend(t, NULL, 0);
    const brasa_status status = tell_unsettled(t);
    return status == BRASA_OK ? save(t) : status;
}
