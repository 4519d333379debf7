/* dataset.c - opening sets: the table of sources, specs, and what all sources share. */
#define _POSIX_C_SOURCE 200809L
#include "data/codec.h"
#include "data/source.h"
#include "core/json_scan.h"
#include "core/nearest.h"
#include "core/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const source *const sources[] = {
    &idx_source, &cifar10_source, &cifar100_source, &csv_source, &images_source, &synth_source,
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

const source_info *source_at(int index)
{
    return index >= 0 && index < SOURCES ? &sources[index]->info : NULL;
}

/* --- specs --------------------------------------------------------------------------------------------------- */

const char *spec_get(const data_spec *s, const char *key)
{
    for (int i = s->settings - 1; i >= 0; i--) /* they are from the last to the first */
        if (strcmp(s->setting[i].key, key) == 0)
            return s->setting[i].value;
    return NULL;
}

brasa_status spec_number(brasa_context *ctx, const data_spec *s, const char *key, int64_t low, int64_t high,
                         int64_t *out)
{
    const char *text = spec_get(s, key);
    if (!text)
        return BRASA_OK;
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (!text[0] || strspn(text, "0123456789") != strlen(text) || errno || value < low || value > high)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s: expected a number from %" PRId64 " to %" PRId64 ", got '%s'", key,
                    low, high, text);
    *out = value;
    return BRASA_OK;
}

brasa_status spec_flag(brasa_context *ctx, const data_spec *s, const char *key, bool *out)
{
    const char *text = spec_get(s, key);
    if (!text)
        return BRASA_OK;
    *out = strcmp(text, "yes") == 0;
    if (!*out && strcmp(text, "no") != 0)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s: expected yes or no, got '%s'", key, text);
    return BRASA_OK;
}

static bool has_word(const char *words, const char *word, size_t length)
{
    size_t n;
    for (const char *at = words; *at; at += n + (at[n] == ' '))
        if ((n = strcspn(at, " ")) == length && memcmp(at, word, length) == 0)
            return true;
    return false;
}

/* Cuts settings off the text's end, in place. What is left may have commas in it if it is a path that is there; else
 * it is a setting that there is not. */
static brasa_status cut_spec(brasa_context *ctx, const source *from, char *text, data_spec *out)
{
    *out = (data_spec){.path = text};
    for (char *comma; (comma = strrchr(text, ','));) {
        char *key = comma + 1;
        const size_t length = strcspn(key, "=");
        if (out->settings == MAX_SETTINGS || !has_word(from->keys, key, length)) {
            if (access(text, F_OK) == 0)
                break;
            return fail(ctx, BRASA_BAD_ARGUMENT, "unknown setting '%.*s': the form is %s", (int)length, key,
                        from->info.form);
        }
        out->setting[out->settings].key = key;
        out->setting[out->settings++].value = key[length] ? key + length + 1 : "yes";
        key[length] = *comma = '\0';
    }
    if (!text[0])
        return fail(ctx, BRASA_BAD_ARGUMENT, "nothing stands behind the colon: the form is %s", from->info.form);
    return BRASA_OK;
}

static brasa_status find_source(brasa_context *ctx, const char *text, const source **out)
{
    char word[32];
    const size_t length = strcspn(text, ":");
    nearest n = {.word = word};
    snprintf(word, sizeof word, "%.*s", length < 31 ? (int)length : 31, text);
    for (int i = 0; i < SOURCES; i++) {
        if (text[length] && strcmp(sources[i]->info.name, word) == 0) {
            *out = sources[i];
            return BRASA_OK;
        }
        nearest_offer(&n, sources[i]->info.name);
    }
    if (!text[length])
        return fail(ctx, BRASA_BAD_ARGUMENT, "data '%s': expected a source and a colon, as in images:%s", text, text);
    return fail(ctx, BRASA_NOT_FOUND, "data '%s': there is no source '%s'%s", text, word, nearest_hint(&n).text);
}

/* --- opening and reading ------------------------------------------------------------------------------------- */

brasa_status dataset_new(brasa_context *ctx, const source *from, const char *spec, dataset **out)
{
    dataset *d = mem_get(ctx, sizeof *d);
    *out = NULL;
    if (!d)
        return fail_memory(ctx, sizeof *d);
    d->ctx = d->pool.ctx = ctx;
    d->source = from;
    if ((d->spec = pool_text(&d->pool, "%s", spec))) {
        *out = d;
        return BRASA_OK;
    }
    dataset_close(d);
    return fail_memory(ctx, strlen(spec));
}

brasa_status dataset_hand_over(dataset *d, brasa_status status, dataset **out)
{
    if (status != BRASA_OK)
        dataset_close(d);
    *out = status == BRASA_OK ? d : NULL;
    return status;
}

brasa_status dataset_open(brasa_context *ctx, const char *text, dataset **out)
{
    const source *from = NULL;
    dataset *d = NULL;
    *out = NULL;
    brasa_status status = find_source(ctx, text, &from);
    if (status == BRASA_OK)
        status = dataset_new(ctx, from, text, &d);
    if (status != BRASA_OK)
        return status;
    char *copy = pool_text(&d->pool, "%s", strchr(text, ':') + 1);
    data_spec s;
    status = copy ? cut_spec(ctx, from, copy, &s) : fail_memory(ctx, strlen(text));
    if (status == BRASA_OK)
        status = from->open(d, &s);
    if (status == BRASA_BAD_ARGUMENT)
        fail_prefix(ctx, "data '%s'", text);
    return dataset_hand_over(d, status, out);
}

void dataset_close(dataset *d)
{
    if (!d)
        return;
    if (d->source->close)
        d->source->close(d);
    pool_free(&d->pool);
    mem_put(d->ctx, d);
}

bool dataset_asks(const dataset *d)
{
    return d->source && d->source->many && !d->source->read;
}

brasa_status dataset_read_bytes(const dataset *d, brasa_context *errors, int32_t sample, picture *p)
{
    if (!dataset_asks(d))
        return d->source->read(d, errors, sample, p);
    brasa_status status = picture_shape(errors, p, d->channels, d->height, d->width);
    return status == BRASA_OK ? d->source->many(d, errors, &sample, 1, p->pixels) : status;
}

brasa_status dataset_read(const dataset *d, brasa_context *errors, int32_t sample, picture *p)
{
    brasa_status status = dataset_read_bytes(d, errors, sample, p);
    if (status == BRASA_OK && d->varied) {
        status = codec_decode(errors, p, p->file_bytes);
        if (status != BRASA_OK && status != BRASA_OUT_OF_MEMORY)
            fail_prefix(errors, "%s", dataset_name(d, sample).text);
    }
    return status;
}

const float *dataset_numbers(const dataset *d, int32_t sample)
{
    return d->source->numbers(d, sample);
}

int64_t dataset_sample_numbers(const dataset *d)
{
    return (int64_t)d->channels * (d->height ? (int64_t)d->height * d->width : 1);
}

brasa_status dataset_read_numbers(const dataset *d, brasa_context *errors, const int32_t *samples, int32_t count,
                                  float *out)
{
    const int64_t each = dataset_sample_numbers(d);
    if (d->source->many)
        return d->source->many(d, errors, samples, count, out);
    for (int32_t i = 0; i < count; i++)
        memcpy(out + i * each, d->source->numbers(d, samples[i]), (size_t)each * sizeof *out);
    return BRASA_OK;
}

sample_name dataset_name(const dataset *d, int32_t sample)
{
    return d->source->name(d, sample);
}

/* --- the public face ----------------------------------------------------------------------------------------- */

brasa_status brasa_data_open(brasa_context *ctx, const char *spec, brasa_data **out)
{
    if (!ctx || !spec || !out)
        return fail(ctx, BRASA_BAD_ARGUMENT, "brasa_data_open: context, spec or out is NULL");
    return dataset_open(ctx, spec, out);
}

void brasa_data_free(brasa_data *d)
{
    dataset_close(d);
}

brasa_status brasa_data_describe(const brasa_data *d, brasa_data_info *out)
{
    const bool tests = d && d->parts > 1;
    if (!d)
        return BRASA_BAD_ARGUMENT;
    const brasa_data_info mine = {.samples = d->part[0].count,
                                  .test_samples = tests ? d->part[1].count : 0,
                                  .classes = d->classes,
                                  .channels = d->channels,
                                  .height = d->height,
                                  .width = d->width,
                                  .images = !d->numbers};
    return options_give(d->ctx, out, &mine, sizeof mine, "brasa_data_info");
}

const char *brasa_data_class(const brasa_data *d, int32_t index)
{
    return d && index >= 0 && index < d->classes ? d->class_name[index] : NULL;
}

/* --- for sources --------------------------------------------------------------------------------------------- */

brasa_status dataset_make_labels(dataset *d)
{
    d->label = pool_get(&d->pool, (size_t)d->count + 1, sizeof *d->label);
    return d->label ? BRASA_OK : fail_memory(d->ctx, (size_t)d->count * sizeof *d->label);
}

brasa_status dataset_name_classes(dataset *d, const char *const *names)
{
    d->class_name = pool_get(&d->pool, (size_t)d->classes + 1, sizeof *d->class_name);
    for (int i = 0; d->class_name && i < d->classes; i++) {
        if (names && (!names[i] || !names[i][0] || !text_printable(names[i])))
            return fail(d->ctx, BRASA_BAD_ARGUMENT, "class_names[%d]: expected a text in UTF-8 on one line", i);
        if (!(d->class_name[i] = names ? pool_text(&d->pool, "%s", names[i]) : pool_text(&d->pool, "%d", i)))
            return fail_memory(d->ctx, 0);
    }
    return d->class_name ? BRASA_OK : fail_memory(d->ctx, 0);
}

brasa_status dataset_number_classes(dataset *d)
{
    return dataset_name_classes(d, NULL);
}

void dataset_add_part(dataset *d, const char *name, int32_t count)
{
    d->part[d->parts++] = (dataset_part){name, d->count, count};
    d->count += count;
}

/* --- pictures ------------------------------------------------------------------------------------------------ */

static brasa_status grow(brasa_context *ctx, unsigned char **block, size_t *room, size_t bytes)
{
    if (bytes <= *room)
        return BRASA_OK;
    mem_put(ctx, *block);
    *room = 0;
    if (!(*block = mem_get(ctx, bytes)))
        return fail_memory(ctx, bytes);
    *room = bytes;
    return BRASA_OK;
}

brasa_status picture_shape(brasa_context *ctx, picture *p, int channels, int height, int width)
{
    p->channels = channels;
    p->height = p->full_height = height;
    p->width = p->full_width = width;
    return grow(ctx, &p->pixels, &p->room, (size_t)channels * (size_t)height * (size_t)width);
}

brasa_status picture_file(brasa_context *ctx, picture *p, size_t bytes)
{
    p->file_bytes = bytes;
    return grow(ctx, &p->file, &p->file_room, bytes + 1);
}

void picture_free(brasa_context *ctx, picture *p)
{
    mem_put(ctx, p->pixels);
    mem_put(ctx, p->file);
    *p = (picture){0};
}
