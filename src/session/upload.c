/* upload.c - see upload.h. */
#include "session/upload.h"
#include "device/device.h"
#include "train/fit.h"

#include <string.h>

_Static_assert((int)FLIP_HORIZONTAL == PICTURES_ACROSS && (int)FLIP_VERTICAL == PICTURES_DOWN, "view_of");

struct upload {
    brasa_context *ctx;
    upload_options options;
    feeder *feeder;
    char *place[2];        /* of batches, on the device */
    device_event *sent[2]; /* the copy to a place is done, */
    device_event *used[2]; /* and so are the steps that read it */
    int turn;              /* which of them is next */
    char *block;           /* of pictures that stay; NULL: none do */
    int64_t *at;           /* of every sample: where in the block, plus 1; 0: it is not there */
    int64_t filled;        /* bytes of the block */
    int32_t kept;
    pictures_view *views;
};

int64_t upload_bytes(const upload_options *o)
{
    return 2 * o->batch + o->kept;
}

bool upload_fits(const brasa_context *ctx, const upload_options *o)
{
    return fit_device_has(ctx, (uint64_t)upload_bytes(o));
}

static bool make_places(upload *k, const upload_options *o)
{
    device *d = k->ctx->device;
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        ok = (k->place[i] = d->get(d, (size_t)o->batch)) && ok;
        ok = (k->sent[i] = d->event_new(d)) && ok;
        ok = (k->used[i] = d->event_new(d)) && ok;
    }
    if (o->kept)
        ok = (k->block = d->get(d, (size_t)o->kept)) && ok;
    return ok;
}

brasa_status upload_new(brasa_context *ctx, const upload_options *o, upload **out)
{
    upload *k = *out = mem_get(ctx, sizeof *k);
    if (!k)
        return fail_memory(ctx, sizeof *k);
    k->ctx = ctx;
    k->options = *o;
    k->views = mem_get(ctx, (size_t)o->size * sizeof *k->views);
    k->at = o->kept ? mem_get(ctx, (size_t)o->samples * sizeof *k->at) : NULL;
    brasa_status status = BRASA_OK;
    if (!k->views || (o->kept && !k->at))
        status = fail_memory(ctx, (size_t)o->samples * sizeof *k->at);
    else if (!make_places(k, o))
        status = fail(ctx, BRASA_OUT_OF_MEMORY, "out of memory: %s has no %lld bytes free for pictures",
                      ctx->device->name, (long long)upload_bytes(o));
    if (status != BRASA_OK) {
        upload_free(k);
        *out = NULL;
    }
    return status;
}

void upload_free(upload *k)
{
    if (!k)
        return;
    device *d = k->ctx->device;
    for (int i = 0; i < 2; i++) {
        if (k->sent[i]) {
            (void)d->event_wait(d, k->sent[i]);
            d->event_free(d, k->sent[i]);
        }
        if (k->used[i])
            d->event_free(d, k->used[i]);
        if (k->place[i])
            d->put(d, k->place[i]);
    }
    if (k->block)
        d->put(d, k->block);
    mem_put(k->ctx, k->views);
    mem_put(k->ctx, k->at);
    mem_put(k->ctx, k);
}

void upload_serve(upload *k, feeder *f)
{
    k->feeder = f;
}

/* Pixels on their way to a place, behind the steps that read what was there; before the steps that follow. */
static brasa_status copy_batch(upload *k, int i, const batch *b)
{
    device *d = k->ctx->device;
    brasa_status status = d->stream_wait(d, STREAM_COPIES, k->used[i]);
    if (status == BRASA_OK)
        status = d->copy_async(d, STREAM_COPIES, k->place[i], b->pixels, b->pixel_bytes);
    if (status == BRASA_OK)
        status = d->event_record(d, STREAM_COPIES, k->sent[i]);
    return status == BRASA_OK ? d->stream_wait(d, STREAM_COMPUTE, k->sent[i]) : status;
}

static int64_t picture_bytes(const upload *k, const transform_cut *c)
{
    return (int64_t)c->height * c->width * k->options.channels;
}

/* Gives pictures that come for the first time places in the block. They come one behind the other, and so they stay:
 * mostly this is one copy. */
static brasa_status keep_new(upload *k, int i, const batch *b)
{
    device *d = k->ctx->device;
    brasa_status status = BRASA_OK;
    int64_t from = 0, to = 0, bytes = 0; /* what is to be copied next */
    for (int32_t n = 0; n < b->size && status == BRASA_OK; n++) {
        const int32_t sample = b->samples[n];
        const batch_cut *c = &b->cuts[n];
        const int64_t more = picture_bytes(k, &c->cut);
        if (c->offset < 0 || k->at[sample] || k->filled + more > k->options.kept)
            continue;
        if (bytes && c->offset != from + bytes) {
            status = d->copy(d, k->block + to, k->place[i] + from, (size_t)bytes);
            bytes = 0;
        }
        if (!bytes) {
            from = c->offset;
            to = k->filled;
        }
        bytes += more;
        k->at[sample] = k->filled + 1;
        k->filled += more;
        k->kept++;
        feeder_skip(k->feeder, sample, c->cut.height, c->cut.width);
    }
    if (status == BRASA_OK && bytes)
        status = d->copy(d, k->block + to, k->place[i] + from, (size_t)bytes);
    return status;
}

static pictures_view view_of(const upload *k, int i, const batch_cut *c, int64_t at)
{
    const int channels = k->options.channels;
    const char *first = at ? k->block + at - 1 : k->place[i] + c->offset;
    const int64_t row = (int64_t)c->cut.width * channels;
    return (pictures_view){.pixels = (int64_t)(intptr_t)first + c->cut.top * row + (int64_t)c->cut.left * channels,
                           .row = row,
                           .mirrored = c->cut.flip};
}

brasa_status upload_send(upload *k, const batch *b, const pictures_view **views)
{
    device *d = k->ctx->device;
    const int i = k->turn;
    k->turn = !k->turn;
    brasa_status status = d->event_record(d, STREAM_COMPUTE, k->used[!i]); /* behind the step that was started last */
    if (status == BRASA_OK && b->pixel_bytes)
        status = copy_batch(k, i, b);
    if (status == BRASA_OK && k->block && b->pixel_bytes)
        status = keep_new(k, i, b);
    for (int32_t n = 0; n < b->size; n++)
        k->views[n] = view_of(k, i, &b->cuts[n], k->block ? k->at[b->samples[n]] : 0);
    *views = k->views;
    return status;
}

brasa_status upload_wait(upload *k)
{
    device *d = k->ctx->device;
    brasa_status status = d->event_wait(d, k->sent[0]);
    return status == BRASA_OK ? d->event_wait(d, k->sent[1]) : status;
}

int32_t upload_kept(const upload *k)
{
    return k->kept;
}
