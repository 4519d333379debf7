/* examine.c - a look at every sample of a set: its hash, what is broken, what is there twice. */
#include "core/sha256.h"
#include "core/sort.h"
#include "data/codec.h"
#include "data/source.h"

#include <string.h>

enum { DIGEST = 16 /* bytes of a hash that tell samples apart */, DEFINITION = 256 };

typedef struct digests {
    unsigned char (*of)[DIGEST];
} digests;

static int by_digest(void *user, int64_t a, int64_t b)
{
    const digests *d = user;
    return memcmp(d->of[a], d->of[b], DIGEST);
}

static void swap(void *user, int64_t a, int64_t b)
{
    const digests *d = user;
    unsigned char first[DIGEST];
    memcpy(first, d->of[a], DIGEST);
    memcpy(d->of[a], d->of[b], DIGEST);
    memcpy(d->of[b], first, DIGEST);
}

static void add_number(sha256 *h, int64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)number >> 8 * i);
    sha256_add(h, bytes, sizeof bytes);
}

/* What a set is apart from its samples. */
static void add_frame(sha256 *h, const dataset *d)
{
    const int sizes[] = {d->count, d->classes, d->channels, d->height, d->width, d->parts, d->part[0].count};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        add_number(h, sizes[i]);
    for (int i = 0; i < d->classes; i++)
        sha256_add(h, d->class_name[i], strlen(d->class_name[i]) + 1);
}

static brasa_status note_bad(const dataset *d, int32_t sample, dataset_report *out)
{
    dataset_bad *grown = pool_grow(&out->pool, out->bad, out->nbad, &out->bad_capacity, sizeof *grown);
    const char *why = pool_text(&out->pool, "%s", d->ctx->error);
    if (!grown || !why)
        return fail_memory(d->ctx, sizeof *grown);
    out->bad = grown;
    out->bad[out->nbad++] = (dataset_bad){sample, why};
    return BRASA_OK;
}

static bool make_sizes(const dataset *d, dataset_report *out)
{
    return !d->varied || (out->size = pool_get(&out->pool, (size_t)d->count, sizeof *out->size));
}

static void note_size(dataset_report *out, int32_t sample, int height, int width)
{
    const int size[2] = {height, width};
    if (out->size)
        out->size[sample] = (picture_size){height, width};
    for (int i = 0; i < 2; i++) {
        out->low[i] = !out->low[i] || size[i] < out->low[i] ? size[i] : out->low[i];
        out->high[i] = size[i] > out->high[i] ? size[i] : out->high[i];
    }
}

/* Numbers are read into the picture's memory for a file. */
static brasa_status add_numbers(sha256 *h, const dataset *d, int32_t sample, picture *p)
{
    const size_t bytes = (size_t)dataset_sample_numbers(d) * sizeof(float);
    brasa_status status = picture_file(d->ctx, p, bytes);
    if (status == BRASA_OK)
        status = dataset_read_numbers(d, d->ctx, &sample, 1, (float *)(void *)p->file);
    if (status == BRASA_OK)
        sha256_add(h, p->file, bytes);
    return status;
}

/* One sample's bytes into `digest`; what cannot be read is noted, and has the digest of nothing. */
static brasa_status look_at(const dataset *d, int32_t sample, bool decode, picture *p, unsigned char *digest,
                            dataset_report *out)
{
    sha256 h;
    brasa_status status = BRASA_OK;
    sha256_start(&h);
    if (d->numbers) {
        status = add_numbers(&h, d, sample, p);
    } else if ((status = dataset_read_bytes(d, d->ctx, sample, p)) == BRASA_OK) {
        const size_t pixels = (size_t)p->channels * (size_t)p->height * (size_t)p->width;
        sha256_add(&h, d->varied ? p->file : p->pixels, d->varied ? p->file_bytes : pixels);
        p->size_only = !decode;
        if (d->varied && (status = codec_decode(d->ctx, p, p->file_bytes)) == BRASA_BAD_FILE)
            fail_prefix(d->ctx, "%s", dataset_name(d, sample).text);
        if (status == BRASA_OK)
            note_size(out, sample, p->full_height, p->full_width);
    }
    sha256_end(&h, digest);
    return status == BRASA_BAD_FILE ? note_bad(d, sample, out) : status;
}

static brasa_status look_at_all(const dataset *d, bool decode, bool (*progress)(void *user, int32_t done), void *user,
                                picture *p, dataset_report *out)
{
    digests seen = {pool_get(&out->pool, (size_t)d->count, DIGEST)};
    unsigned char digest[SHA256_BYTES];
    brasa_status status = BRASA_OK;
    sha256 all;
    if (!seen.of || !out->per_class || !make_sizes(d, out))
        return fail_memory(d->ctx, (size_t)d->count * DIGEST);
    sha256_start(&all);
    add_frame(&all, d);
    for (int32_t i = 0; i < d->count && status == BRASA_OK; i++) {
        out->per_class[d->label[i]]++;
        status = look_at(d, i, decode, p, digest, out);
        add_number(&all, d->label[i]);
        sha256_add(&all, digest, sizeof digest);
        memcpy(seen.of[i], digest, DIGEST);
        if (status == BRASA_OK && progress && !progress(user, i))
            status = fail(d->ctx, BRASA_WRONG_STATE, "stopped");
    }
    sha256_end(&all, digest);
    sha256_print(digest, out->hash);
    sort_items(&seen, status == BRASA_OK ? d->count : 0, by_digest, swap);
    for (int32_t i = 1; i < d->count && status == BRASA_OK; i++)
        out->duplicates += by_digest(&seen, i - 1, i) == 0;
    return status;
}

brasa_status dataset_examine(const dataset *d, bool decode, bool (*progress)(void *user, int32_t done), void *user,
                             dataset_report *out)
{
    *out = (dataset_report){.pool.ctx = d->ctx};
    out->per_class = pool_get(&out->pool, (size_t)d->classes + 1, sizeof *out->per_class);
    picture p = {.least = MIN_SIDE}; /* JPEG at 1/8: every bit of the file is looked at all the same */
    brasa_status status = look_at_all(d, decode, progress, user, &p, out);
    picture_free(d->ctx, &p);
    return status;
}

brasa_status dataset_identify(const dataset *d, bool decode, bool (*progress)(void *user, int32_t done), void *user,
                              dataset_report *out)
{
    unsigned char digest[SHA256_BYTES];
    char text[DEFINITION] = "";
    picture_size each;
    sha256 h;
    if (!d->source->define || !d->source->define(d, text, sizeof text, &each))
        return dataset_examine(d, decode, progress, user, out);
    *out = (dataset_report){.pool.ctx = d->ctx, .defined = true};
    out->per_class = pool_get(&out->pool, (size_t)d->classes + 1, sizeof *out->per_class);
    if (!out->per_class || !make_sizes(d, out))
        return fail_memory(d->ctx, (size_t)d->classes * sizeof *out->per_class);
    for (int32_t i = 0; i < d->count; i++)
        out->per_class[d->label[i]]++;
    for (int32_t i = 0; d->varied && i < d->count; i++)
        note_size(out, i, each.height, each.width);
    sha256_start(&h);
    add_frame(&h, d);
    sha256_add(&h, text, strlen(text));
    sha256_end(&h, digest);
    sha256_print(digest, out->hash);
    return BRASA_OK;
}

void dataset_report_free(dataset_report *r)
{
    if (r->pool.ctx)
        pool_free(&r->pool);
}
