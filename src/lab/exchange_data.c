/* exchange_data.c - the data of a cell as files that every framework reads: see exchange.h. */
#define _XOPEN_SOURCE 700
#include "lab/exchange.h"

#include "core/hash.h"
#include "core/numeric.h"
#include "core/replace.h"
#include "data/make.h"
#include "data/source.h"
#include "session/safetensors.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the set ------------------------------------------------------------------------------------------------- */

/* e->source and e->path: "csv:FILE,label=1" with FILE's absolute name. */
static brasa_status make_absolute(exchange *e, const char *spec)
{
    pool *p = &e->pool;
    const char *colon = strchr(spec, ':');
    char *text = colon ? pool_text(p, "%s", colon + 1) : NULL, *real = NULL;
    if (!(e->source = pool_text(p, "%s", spec)) || (colon && !text))
        return fail_memory(p->ctx, strlen(spec));
    if (!colon || strncmp(spec, "synth:", 6) == 0)
        return BRASA_OK;
    for (char *comma; !(real = realpath(text, NULL)) && (comma = strrchr(text, ','));)
        *comma = '\0'; /* settings */
    if (!real)
        return BRASA_OK; /* opening it tells why */
    e->path = pool_text(p, "%s", real);
    e->source = pool_text(p, "%.*s:%s%s", (int)(colon - spec), spec, real, colon + 1 + strlen(text));
    free(real);
    return e->path && e->source ? BRASA_OK : fail_memory(p->ctx, strlen(spec));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

/* Draws the set into a folder of its own, which is there only when all of it is. A process that is killed may leave
 * its "<folder>.<process>.tmp" behind. */
static brasa_status draw(exchange *e, const dataset *d, const char *folder)
{
    char spec[5000];
    const char *temporary = pool_text(&e->pool, "%s.%ld.tmp", folder, (long)getpid());
    if (!temporary)
        return fail_memory(e->pool.ctx, strlen(folder));
    brasa_status status = dataset_make(d, temporary, NULL, NULL, spec, sizeof spec);
    if (status == BRASA_OK && rename(temporary, folder) != 0 && !exchange_has(folder))
        status = fail(e->pool.ctx, BRASA_BAD_FILE, "%s: %s", folder, strerror(errno));
    if (exchange_has(temporary))
        nftw(temporary, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return exchange_written(e, status);
}

/* Pictures that are drawn when they are read become files, which all frameworks decode. */
static brasa_status make_pictures(exchange *e)
{
    dataset *d = e->task.set;
    picture_size each;
    char text[400];
    d->source->define(d, text, sizeof text, &each);
    const int32_t drawn = d->count;
    const uint64_t hash = hash_bytes(hash_bytes(HASH_START, text, strlen(text)), &drawn, sizeof drawn);
    brasa_status status = BRASA_OK;
    if (!(e->pictures = exchange_path(e, "pictures", hash, "")))
        return BRASA_OUT_OF_MEMORY;
    if (!exchange_has(e->pictures))
        status = draw(e, d, e->pictures);
    dataset_close(d);
    e->task = (task){.ctx = e->task.ctx, .pool = e->task.pool, .settings = e->task.settings};
    if (status == BRASA_OK && !(e->source = pool_text(&e->pool, "images:%s", e->pictures)))
        status = fail_memory(e->pool.ctx, strlen(e->pictures));
    if (status == BRASA_OK)
        status = task_open_data(&e->task, e->source);
    if (status == BRASA_OK && e->task.set->count != drawn)
        status = fail(e->pool.ctx, BRASA_BAD_FILE,
                      "%s has %d pictures, %d were drawn: delete the folder, and they are drawn again", e->pictures,
                      (int)e->task.set->count, (int)drawn);
    return status;
}

brasa_status exchange_open_data(exchange *e)
{
    task *t = &e->task;
    brasa_status status = make_absolute(e, e->cell->data);
    if (status == BRASA_OK)
        status = task_open_data(t, e->source);
    if (status != BRASA_OK)
        return status;
    if (t->set->varied && t->set->source->define)
        status = make_pictures(e);
    else if (t->set->varied)
        e->pictures = e->path;
    t->settings.data = e->source;
    return status;
}

/* A number for what the set holds: its words, labels and, where there is a file or folder, when that was changed. */
static uint64_t hash_set(const exchange *e)
{
    const dataset *d = e->task.set;
    struct stat st;
    uint64_t hash = hash_bytes(HASH_START, e->source, strlen(e->source));
    hash = hash_bytes(hash, d->label, (size_t)d->count * sizeof *d->label);
    if (e->path && stat(e->path, &st) == 0) {
        const int64_t facts[] = {(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec};
        hash = hash_bytes(hash, facts, sizeof facts);
    }
    return hash;
}

/* --- pictures ------------------------------------------------------------------------------------------------ */

/* "0 fire/000012.jpg" */
static int print_label(const dataset *d, int32_t sample, char text[16])
{
    return snprintf(text, 16, "%d ", (int)d->label[sample]);
}

/* How many bytes the list has, where all names can stand in it. */
static brasa_status measure_list(const exchange *e, int64_t *bytes)
{
    const dataset *d = e->task.set;
    const size_t root = strlen(e->pictures);
    char digits[16];
    *bytes = 0;
    for (int32_t i = 0; i < d->count; i++) {
        const sample_name name = dataset_name(d, i);
        *bytes += print_label(d, i, digits) + (int64_t)strlen(name.text) - (int64_t)root; /* \n for the / */
        if (strncmp(name.text, e->pictures, root) != 0 || strchr(name.text + root + 1, '\n'))
            return fail(d->ctx, BRASA_BAD_FILE, "%s: a name that cannot stand in a list", name.text);
    }
    return BRASA_OK;
}

static brasa_status write_list(const exchange *e, replacement *r)
{
    const dataset *d = e->task.set;
    const size_t root = strlen(e->pictures);
    char digits[16];
    brasa_status status = BRASA_OK;
    for (int32_t i = 0; i < d->count && status == BRASA_OK; i++) {
        const sample_name name = dataset_name(d, i);
        const char *file = name.text + root + 1;
        const int length = print_label(d, i, digits);
        status = replace_write(r, digits, (size_t)length);
        if (status == BRASA_OK)
            status = replace_write(r, file, strlen(file));
        if (status == BRASA_OK)
            status = replace_write(r, "\n", 1);
    }
    return status;
}

/* Names may have changed without the folder's time: the list is made from what is there now. */
static brasa_status make_list(exchange *e)
{
    const dataset *d = e->task.set;
    uint64_t hash = hash_bytes(HASH_START, e->pictures, strlen(e->pictures));
    for (int32_t i = 0; i < d->count; i++) {
        const sample_name name = dataset_name(d, i);
        hash = hash_bytes(hash, name.text, strlen(name.text) + 1);
        hash = hash_bytes(hash, &d->label[i], sizeof d->label[i]);
    }
    if (!(e->list = exchange_path(e, "files", hash, ".txt")))
        return BRASA_OUT_OF_MEMORY;
    replacement r;
    struct stat st;
    int64_t bytes;
    brasa_status status = measure_list(e, &bytes);
    if (status != BRASA_OK || (stat(e->list, &st) == 0 && st.st_size == bytes))
        return status;
    status = replace_begin(&r, d->ctx, e->list);
    if (status == BRASA_OK)
        status = write_list(e, &r);
    return exchange_written(e, replace_end(&r, status));
}

/* --- arrays -------------------------------------------------------------------------------------------------- */

typedef struct reading {
    exchange *e;
    int32_t sample; /* the one in hand; -1: none */
    picture picture, spare;
    brasa_status status; /* what went wrong on the way */
} reading;

/* A sample as it is before it is scaled: resized and cut where the transform says so. */
static void read_sample(reading *r, int32_t sample)
{
    const task *t = &r->e->task;
    if (sample == r->sample || t->set->numbers || r->status != BRASA_OK)
        return;
    r->status = dataset_read(t->set, t->ctx, sample, &r->picture);
    if (r->status == BRASA_OK)
        r->status = transform_fixed(t->ctx, &t->transform, &r->picture, &r->spare);
    r->sample = sample;
}

static void give(void *user, int tensor, int64_t first, int count, number *out)
{
    reading *r = user;
    const task *t = &r->e->task;
    const dataset *d = t->set;
    const int64_t plane = (int64_t)t->shape[1] * t->shape[2], channels = t->shape[0];
    const int64_t each = d->numbers ? channels : channels * plane;
    for (int i = 0; i < count; i++) {
        const int64_t place = (first + i) % each;
        const int32_t sample = (int32_t)((first + i) / each);
        if (tensor == 1) {
            out[i].whole = d->label[first + i];
        } else if (d->numbers) {
            out[i].real = (double)dataset_numbers(d, sample)[place];
        } else {
            read_sample(r, sample);
            out[i].whole = r->status == BRASA_OK ? r->picture.pixels[place % plane * channels + place / plane] : 0;
        }
    }
}

/* Nothing of a set that cannot be read stays: the file gets its name when all is well. */
static brasa_status make_arrays(exchange *e)
{
    task *t = &e->task;
    const dataset *d = t->set;
    t->transform.flip = FLIP_NONE; /* of arrays, no framework's loader changes them */
    t->transform.random_crop = false;
    uint64_t hash = hash_set(e);
    const int sizes[] = {t->transform.resize, t->transform.crop.h, t->transform.crop.w, t->shape[0]};
    hash = hash_bytes(hash, sizes, sizeof sizes);
    const char *temporary = exchange_path(e, "data", hash, ".part");
    if (!temporary || !(e->arrays = exchange_path(e, "data", hash, ".safetensors")))
        return BRASA_OUT_OF_MEMORY;
    if (exchange_has_tensors(e, e->arrays))
        return BRASA_OK;
    tensor_entry tensors[] = {
        {.name = "samples",
         .type = tensor_type_find(d->numbers ? "F32" : "U8"),
         .shape =
             d->numbers ? shape_2(d->count, d->channels) : shape_4(d->count, t->shape[0], t->shape[1], t->shape[2])},
        {.name = "labels", .type = tensor_type_find("I32"), .shape = shape_1(d->count)},
    };
    reading r = {.e = e, .sample = -1};
    brasa_status status = exchange_written(e, safetensors_write(t->ctx, temporary, tensors, 2, NULL, give, NULL, &r));
    if (status == BRASA_OK)
        status = r.status;
    if (status == BRASA_OK && rename(temporary, e->arrays) != 0)
        status = exchange_written(e, fail(t->ctx, BRASA_BAD_FILE, "%s: %s", e->arrays, strerror(errno)));
    if (status != BRASA_OK)
        unlink(temporary);
    picture_free(t->ctx, &r.picture);
    picture_free(t->ctx, &r.spare);
    return status;
}

/* --- both ---------------------------------------------------------------------------------------------------- */

static const char *print_reals(pool *p, const reals *r)
{
    const char *text = "";
    for (int i = 0; i < r->count && text; i++)
        text = pool_text(p, "%s%s%.17g", text, i ? "," : "", r->value[i]);
    return text;
}

/* The transform with every setting, as it came to be. */
static brasa_status print_transform(exchange *e)
{
    static const char *const flips[] = {"none", "horizontal", "vertical"};
    const transform *t = &e->task.transform;
    const numeric_state locale = numeric_enter();
    pool *p = &e->pool;
    const char *mean = print_reals(p, &t->mean), *std = print_reals(p, &t->std);
    const char *crop = t->crop.h ? pool_text(p, "crop=%dx%d ", t->crop.h, t->crop.w) : "";
    if (mean && std && crop)
        e->transform =
            pool_text(p, "resize=%d %srandom_crop=%s flip=%s channels=%d scale=%.17g mean=%s std=%s", t->resize, crop,
                      t->random_crop ? "yes" : "no", flips[t->flip], t->channels, t->scale, mean, std);
    numeric_leave(locale);
    return e->transform ? BRASA_OK : fail_memory(e->pool.ctx, 1);
}

/* Of a file's bytes. */
static brasa_status hash_file(const exchange *e, const char *path, uint64_t *hash)
{
    static const size_t size = 65536;
    pool p = {.ctx = e->pool.ctx};
    char *piece = pool_get(&p, size, 1);
    FILE *f = piece ? fopen(path, "rb") : NULL;
    brasa_status status = piece ? BRASA_OK : fail_memory(p.ctx, size);
    for (size_t count; f && (count = fread(piece, 1, size, f)) > 0;)
        *hash = hash_bytes(*hash, piece, count);
    if (status == BRASA_OK && (!f || ferror(f)))
        status = fail(p.ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    if (f)
        fclose(f);
    pool_free(&p);
    return status;
}

/* Of pictures that are not drawn here: what is in a file is told by its size, as reading all of them takes too long.
 */
static uint64_t hash_sizes(const exchange *e, uint64_t hash)
{
    const dataset *d = e->task.set;
    for (int32_t i = 0; i < d->count; i++) {
        struct stat st;
        const int64_t bytes = stat(dataset_name(d, i).text, &st) == 0 ? (int64_t)st.st_size : -1;
        hash = hash_bytes(hash, &bytes, sizeof bytes);
    }
    return hash;
}

/* Neither where the set lies nor when it was written is in it: a copy is the same. */
static brasa_status hash_data(exchange *e)
{
    uint64_t hash = hash_bytes(HASH_START, e->transform, strlen(e->transform));
    brasa_status status = hash_file(e, e->list ? e->list : e->arrays, &hash);
    if (status == BRASA_OK && e->list && e->path)
        hash = hash_sizes(e, hash);
    e->data_hash = pool_text(&e->pool, "%016llx", (unsigned long long)hash);
    return status == BRASA_OK && !e->data_hash ? fail_memory(e->pool.ctx, 17) : status;
}

brasa_status exchange_make_data(exchange *e)
{
    brasa_status status = e->task.set->varied ? make_list(e) : make_arrays(e);
    if (status == BRASA_OK)
        status = print_transform(e);
    return status == BRASA_OK ? hash_data(e) : status;
}
