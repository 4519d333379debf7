/* checkpoint.c - see checkpoint.h. */
#include "train/checkpoint.h"

#include "core/numeric.h"
#include "device/device.h"
#include "session/safetensors.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The members of a place. Reals are written in hexadecimal, which keeps every bit. */
static const struct part {
    const char *key;
    size_t offset;
    bool real;
} parts[] = {
    {"epoch", offsetof(train_place, epoch), false}, {"done", offsetof(train_place, done), false},
    {"loss", offsetof(train_place, loss), true},    {"right", offsetof(train_place, right), false},
    {"seen", offsetof(train_place, seen), false},   {"seconds", offsetof(train_place, seconds), true},
    {"best", offsetof(train_place, best), true},    {"best_epoch", offsetof(train_place, best_epoch), false},
};
enum { PARTS = sizeof parts / sizeof parts[0], TERMS = 6, TEXT = 40 };

static void print_part(const struct part *part, const train_place *p, char text[TEXT])
{
    const char *at = (const char *)p + part->offset;
    if (part->real)
        snprintf(text, TEXT, "%a", *(const double *)(const void *)at);
    else
        snprintf(text, TEXT, "%lld", (long long)*(const int64_t *)(const void *)at);
}

/* What is not finite or negative was not written here. */
static bool read_part(const struct part *part, const char *text, train_place *p)
{
    char *at = (char *)p + part->offset, *end = NULL;
    errno = 0;
    if (part->real) {
        const double x = strtod(text, &end);
        *(double *)(void *)at = x;
        return *text && !*end && isfinite(x) && x >= 0;
    }
    const int64_t x = strtoll(text, &end, 10);
    *(int64_t *)(void *)at = x;
    return *text && !*end && !errno && x >= 0;
}

static void print_alarm_key(int index, char key[TEXT])
{
    snprintf(key, TEXT, "alarm %d", index + 1);
}

brasa_status checkpoint_save(brasa_session *s, const char *path, const train_place *p, const checkpoint_terms *terms,
                             const alarm_list *alarms)
{
    char text[PARTS + TERMS][TEXT], key[MOST_ALARMS][TEXT];
    tensor_note notes[PARTS + TERMS + MOST_ALARMS + 1] = {{0}};
    const numeric_state locale = numeric_enter();
    for (int i = 0; i < PARTS; i++) {
        print_part(&parts[i], p, text[i]);
        notes[i] = (tensor_note){parts[i].key, text[i]};
    }
    numeric_leave(locale);
    snprintf(text[PARTS], TEXT, "%016llx", (unsigned long long)terms->settings);
    snprintf(text[PARTS + 1], TEXT, "%d", terms->threads);
    snprintf(text[PARTS + 2], TEXT, "%lld", (long long)terms->parts);
    notes[PARTS] = (tensor_note){"settings", text[PARTS]};
    notes[PARTS + 1] = (tensor_note){"threads", text[PARTS + 1]};
    notes[PARTS + 2] = (tensor_note){"parts", text[PARTS + 2]};
    notes[PARTS + 3] = (tensor_note){"kernels", terms->kernels};
    notes[PARTS + 4] = (tensor_note){"device", terms->device};
    notes[PARTS + 5] = (tensor_note){"precision", terms->precision};
    for (int i = 0; i < alarms->count; i++) {
        print_alarm_key(i, key[i]);
        notes[PARTS + TERMS + i] = (tensor_note){key[i], alarms->text[i]};
    }
    return session_save(s, path, BRASA_CHECKPOINT, notes);
}

static brasa_status read_place(const safetensors *f, train_place *p)
{
    *p = (train_place){0};
    for (int i = 0; i < PARTS; i++) {
        const char *text = safetensors_note(f, parts[i].key);
        const numeric_state locale = numeric_enter();
        const bool good = text && read_part(&parts[i], text, p);
        numeric_leave(locale);
        if (!good)
            return fail(f->ctx, BRASA_BAD_FILE, "%s: no checkpoint of a run: its note '%s' is %s", f->path,
                        parts[i].key, text ? "no number" : "missing");
    }
    return BRASA_OK;
}

brasa_status checkpoint_parts(brasa_context *ctx, const char *path, int64_t samples, int64_t *out)
{
    safetensors *f = NULL;
    brasa_status status = safetensors_open(ctx, path, &f);
    const char *text = status == BRASA_OK ? safetensors_note(f, "parts") : NULL;
    *out = text ? atoll(text) : 0;
    if (text && (*out < 1 || *out > samples || samples % *out))
        status = fail(ctx, BRASA_BAD_FILE, "%s: %.20s micro-batches of a batch of %lld samples", path, text,
                      (long long)samples);
    safetensors_close(f);
    return status;
}

brasa_status checkpoint_alarms(pool *p, const char *path, alarm_list *out)
{
    safetensors *f = NULL;
    const brasa_status status = safetensors_open(p->ctx, path, &f);
    for (int i = 0; status == BRASA_OK && i < MOST_ALARMS; i++) {
        char key[TEXT];
        print_alarm_key(i, key);
        const char *text = safetensors_note(f, key);
        if (text)
            alarms_keep(out, p, "%s", text);
    }
    safetensors_close(f);
    return status;
}

static bool same_device(const safetensors *f, const checkpoint_terms *terms, checkpoint_note *note)
{
    const char *now = terms->device, *before = device_kind(safetensors_note(f, "device")),
               *precision = safetensors_note(f, "precision");
    precision = precision ? precision : precision_word(BRASA_F32);
    now = device_kind(now);
    if (strcmp(before, now) == 0 && strcmp(precision, terms->precision) == 0)
        return true;
    snprintf(note->text, sizeof note->text,
             "computed on %.60s in %s now, on %.60s in %.8s before: the result may differ", now, terms->precision,
             before, precision);
    return false;
}

static brasa_status compare_terms(const safetensors *f, const checkpoint_terms *terms, checkpoint_note *note)
{
    const char *settings = safetensors_note(f, "settings"), *threads = safetensors_note(f, "threads"),
               *kernels = safetensors_note(f, "kernels"), *divided = safetensors_note(f, "parts");
    char digest[TEXT];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)terms->settings);
    note->text[0] = '\0';
    if (!settings || strcmp(settings, digest) != 0)
        return fail(f->ctx, BRASA_BAD_FILE, "%s: the run's settings are not those that it was made with", f->path);
    if (!same_device(f, terms, note))
        return BRASA_OK;
    if (!threads || atoi(threads) != terms->threads)
        snprintf(note->text, sizeof note->text,
                 "%d threads now, %.8s before: the result may differ in its last digits", terms->threads,
                 threads ? threads : "?");
    else if (divided && atoll(divided) != terms->parts)
        snprintf(
            note->text, sizeof note->text,
            "to fit the memory, a step has %lld micro-batches now, %.8s before: the result may differ in its last "
            "digits",
            (long long)terms->parts, divided);
    else if (!kernels || strcmp(kernels, terms->kernels) != 0)
        snprintf(note->text, sizeof note->text,
                 "other kernels now than before (another machine or version?): the result may differ in its last "
                 "digits");
    return BRASA_OK;
}

brasa_status checkpoint_load(brasa_session *s, const char *path, train_place *p, const checkpoint_terms *terms,
                             checkpoint_note *note)
{
    safetensors *f = NULL;
    train_place found;
    brasa_status status = safetensors_open(s->ctx, path, &f);
    if (status == BRASA_OK)
        status = read_place(f, &found);
    if (status == BRASA_OK)
        status = compare_terms(f, terms, note);
    safetensors_close(f);
    if (status == BRASA_OK)
        status = session_load_fresh(s, path, &SIZED(brasa_load_options, .what = BRASA_CHECKPOINT), NULL);
    if (status == BRASA_OK)
        *p = found;
    return status;
}
