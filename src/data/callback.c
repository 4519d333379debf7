/* callback.c - samples that a function of the caller reads. It is called by one thread at a time. */
#include "core/options.h"
#include "core/sha256.h"
#include "data/source.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct state {
    int32_t (*read)(void *user, const int32_t *samples, int32_t count, void *data, int32_t *labels);
    void *user;
    char identity[SHA256_BYTES * 2 + 1]; /* of the caller's text; "": none was given */
    pthread_mutex_t lock;
} state;

static brasa_status ask(const dataset *d, brasa_context *errors, const int32_t *samples, int32_t count, void *data,
                        int32_t *labels)
{
    state *s = d->state;
    pthread_mutex_lock(&s->lock);
    const int32_t got = s->read(s->user, samples, count, data, labels);
    pthread_mutex_unlock(&s->lock);
    if (got == count)
        return BRASA_OK;
    return fail(errors, BRASA_BAD_FILE, "the data callback read %d of %d %s, from sample %d on", (int)got, (int)count,
                data ? "samples" : "labels", (int)samples[got > 0 && got < count ? got : 0]);
}

static brasa_status callback_many(const dataset *d, brasa_context *errors, const int32_t *samples, int32_t count,
                                  void *out)
{
    return ask(d, errors, samples, count, out, NULL);
}

static sample_name callback_name(const dataset *d, int32_t sample)
{
    sample_name n;
    (void)d;
    snprintf(n.text, sizeof n.text, "the data callback, sample %d", (int)sample);
    return n;
}

static bool callback_define(const dataset *d, char *text, size_t size, picture_size *each)
{
    const state *s = d->state;
    *each = (picture_size){0};
    snprintf(text, size, "callback, %s", s->identity);
    return s->identity[0] != '\0';
}

static void callback_close(dataset *d)
{
    state *s = d->state;
    if (s)
        pthread_mutex_destroy(&s->lock);
}

static const source callback_source = {
    .info = {"callback", "", ""},
    .many = callback_many,
    .name = callback_name,
    .define = callback_define,
    .close = callback_close,
};

/* --- opening ------------------------------------------------------------------------------------------------- */

static brasa_status check_callback(brasa_context *ctx, const brasa_data_callback *c)
{
    const bool vectors = c->height == 0 && c->width == 0, images = c->type == BRASA_TYPE_U8;
    const int most = images ? 3 : 1 << 24;
    if (!c->read)
        return fail(ctx, BRASA_BAD_ARGUMENT, "read is NULL");
    if (c->count < 1 || c->test_count < 0 || c->count > INT32_MAX - c->test_count)
        return fail(ctx, BRASA_BAD_ARGUMENT,
                    "count %d, test_count %d: expected samples to train on, and fewer than 2^31 in all",
                    (int)c->count, (int)c->test_count);
    if (!images && c->type != BRASA_TYPE_F32)
        return fail(ctx, BRASA_BAD_ARGUMENT, "type: expected BRASA_TYPE_U8 or BRASA_TYPE_F32, got %d", (int)c->type);
    if (c->channels < 1 || c->channels > most || (images && (vectors || c->channels == 2)) ||
        (!vectors && (c->height < 1 || c->height > MAX_SIDE || c->width < 1 || c->width > MAX_SIDE)))
        return fail(ctx, BRASA_BAD_SHAPE,
                    "channels %d, height %d, width %d: expected 1 or 3 channels of 8-bit images, or numbers of "
                    "images or, with height and width 0, of vectors",
                    (int)c->channels, (int)c->height, (int)c->width);
    return c->classes < 1 || c->classes > MAX_CLASSES
               ? fail(ctx, BRASA_BAD_ARGUMENT, "classes: expected 1 to %d, got %d", MAX_CLASSES, (int)c->classes)
               : BRASA_OK;
}

/* A thousand at a time. */
static brasa_status read_labels(dataset *d)
{
    enum { PART = 1024 };
    int32_t samples[PART];
    brasa_status status = dataset_make_labels(d);
    for (int32_t first = 0; first < d->count && status == BRASA_OK;) {
        const int32_t count = d->count - first < PART ? d->count - first : PART;
        for (int32_t i = 0; i < count; i++) {
            samples[i] = first + i;
            d->label[first + i] = -1;
        }
        status = ask(d, d->ctx, samples, count, NULL, d->label + first);
        for (int32_t i = 0; i < count && status == BRASA_OK; i++, first++)
            if (d->label[first] < 0 || d->label[first] >= d->classes)
                status = fail(d->ctx, BRASA_BAD_ARGUMENT, "label %d of sample %d: expected 0 to %d",
                              (int)d->label[first], (int)first, d->classes - 1);
    }
    return status;
}

static brasa_status open_callback(dataset *d, const brasa_data_callback *c)
{
    sha256 h;
    unsigned char digest[SHA256_BYTES];
    state *s = pool_get(&d->pool, 1, sizeof *s);
    if (!(d->state = s))
        return fail_memory(d->ctx, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    brasa_status status = check_callback(d->ctx, c);
    if (status != BRASA_OK)
        return status;
    s->read = c->read;
    s->user = c->user;
    if (c->identity) {
        sha256_start(&h);
        sha256_add(&h, c->identity, strlen(c->identity));
        sha256_end(&h, digest);
        sha256_print(digest, s->identity);
    }
    d->numbers = c->type == BRASA_TYPE_F32;
    d->channels = c->channels;
    d->height = c->height;
    d->width = c->width;
    d->classes = c->classes;
    dataset_add_part(d, c->test_count ? "train" : "all", c->count);
    if (c->test_count)
        dataset_add_part(d, "test", c->test_count);
    status = dataset_name_classes(d, c->class_names);
    return status == BRASA_OK ? read_labels(d) : status;
}

brasa_status brasa_data_from_callback(brasa_context *ctx, const brasa_data_callback *callback, brasa_data **out)
{
    brasa_data_callback c;
    dataset *d = NULL;
    if (!ctx || !out)
        return fail(ctx, BRASA_BAD_ARGUMENT, "brasa_data_from_callback: context or out is NULL");
    brasa_status status = options_take(ctx, &c, sizeof c, callback, "brasa_data_callback");
    if (status == BRASA_OK)
        status = dataset_new(ctx, &callback_source, "data callback", &d);
    if (status == BRASA_OK && (status = open_callback(d, &c)) != BRASA_OK && status != BRASA_OUT_OF_MEMORY)
        fail_prefix(ctx, "brasa_data_callback");
    return dataset_hand_over(d, status, out);
}
