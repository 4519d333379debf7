/* loader.c - loaders: batches of a set in an order of their own, and how one is filled. See loader_parts.h. */
#include "data/loader_parts.h"
#include "data/source.h"
#include "data/streams.h"

#include <string.h>

/* --- filling a batch: in the thread -------------------------------------------------------------------------- */

static brasa_status fix(feeder *f, int32_t sample)
{
    brasa_status status = transform_fixed(f->own, &f->transform, &f->picture, &f->spare);
    if (status == BRASA_BAD_SHAPE)
        fail_prefix(f->own, "%s", dataset_name(f->set, sample).text);
    return status;
}

/* The sample at place i of a batch into f->picture. */
static brasa_status read_picture(const loader *l, int32_t i, int32_t sample)
{
    feeder *f = l->f;
    const dataset *d = f->set;
    if (!l->raw || l->at[i] < 0)
        return dataset_read(d, f->own, sample, &f->picture);
    brasa_status status = picture_shape(f->own, &f->picture, d->channels, d->height, d->width);
    if (status == BRASA_OK)
        memcpy(f->picture.pixels, l->raw + (size_t)l->at[i] * f->raw, f->raw);
    return status;
}

/* The picture at place i of a batch, as it is in every epoch, kept or read. */
static brasa_status fetch(const loader *l, int32_t i, int32_t sample, picture *out)
{
    feeder *f = l->f;
    kept *k = f->kept ? &f->kept[sample] : NULL;
    if (k && k->place) {
        *out = (picture){.channels = f->shape[0], .height = k->height, .width = k->width};
        out->pixels = f->block + k->place - 1;
        return BRASA_OK;
    }
    brasa_status status = read_picture(l, i, sample);
    if (status == BRASA_OK)
        status = fix(f, sample);
    if (status != BRASA_OK)
        return status;
    pthread_mutex_lock(&f->lock);
    f->decoded++;
    pthread_mutex_unlock(&f->lock);
    *out = f->picture;
    const int64_t bytes = (int64_t)out->channels * out->height * out->width;
    if (k && f->used + bytes <= f->room) {
        memcpy(f->block + f->used, out->pixels, (size_t)bytes);
        *k = (kept){f->used + 1, out->height, out->width};
        f->used += bytes;
    }
    return BRASA_OK;
}

static void put_in_order(loader *l, int64_t epoch)
{
    const loader_options *o = &l->options;
    if (!l->order || l->ordered == epoch)
        return;
    l->ordered = epoch;
    memcpy(l->order, o->list, (size_t)o->count * sizeof *l->order);
    data_shuffle(l->order, o->count, o->seed, STREAM_ORDER, (uint32_t)epoch);
}

static picture_size skipped(feeder *f, int32_t sample)
{
    picture_size size = {0};
    if (!f->skipped)
        return size;
    pthread_mutex_lock(&f->lock);
    size = f->skipped[sample];
    pthread_mutex_unlock(&f->lock);
    return size;
}

/* The bytes of a sample behind those that a batch has: of the whole picture, or what is cut out of it. */
static void add_bytes(feeder *f, const picture *p, batch *b, unsigned char *to, batch_cut *c)
{
    const size_t channels = (size_t)p->channels, row = (size_t)p->width * channels;
    const transform_cut cut = c->cut;
    const int height = f->whole ? p->height : f->shape[1], width = f->whole ? p->width : f->shape[2];
    const int top = f->whole ? 0 : cut.top, left = f->whole ? 0 : cut.left;
    const size_t bytes = (size_t)width * channels;
    for (int y = 0; y < height; y++)
        memcpy(to + b->pixel_bytes + (size_t)y * bytes, p->pixels + (size_t)(top + y) * row + (size_t)left * channels,
               bytes);
    c->offset = (int64_t)b->pixel_bytes;
    c->cut = (transform_cut){height, width, cut.top - top, cut.left - left, cut.flip};
    b->pixel_bytes += (size_t)height * bytes;
}

/* Reads the samples of a batch that are neither kept nor skipped, all at once. */
static brasa_status read_raw(loader *l, const batch *b)
{
    feeder *f = l->f;
    int32_t count = 0;
    for (int32_t i = 0; i < b->size; i++) {
        const int32_t sample = b->samples[i];
        const bool there = (f->kept && f->kept[sample].place) || skipped(f, sample).height;
        l->at[i] = there ? -1 : count;
        if (!there)
            l->asked[count++] = sample;
    }
    return count ? f->set->source->many(f->set, f->own, l->asked, count, l->raw) : BRASA_OK;
}

/* Numbers as the set gives them, then to where the layout has them. */
static brasa_status fill_numbers(loader *l, const batch *b, const transform_target *g)
{
    const dataset *d = l->f->set;
    const int height = d->height ? d->height : 1, width = d->height ? d->width : 1;
    const float *from = (const float *)(const void *)l->raw;
    brasa_status status =
        dataset_read_numbers(d, l->f->own, b->samples, b->size, l->raw ? (float *)(void *)l->raw : g->to);
    for (int32_t i = 0; l->raw && i < b->size && status == BRASA_OK; i++)
        for (int c = 0; c < d->channels; c++)
            for (int y = 0; y < height; y++) {
                float *line = g->to + i * g->sample + g->axis[0][c] + (d->height ? g->axis[1][y] : 0);
                for (int x = 0; x < width; x++)
                    line[d->height ? g->axis[2][x] : 0] = *from++;
            }
    return status;
}

static brasa_status fill_bytes(loader *l, batch *b, int32_t i, const transform_draw *draw)
{
    feeder *f = l->f;
    batch_cut *c = &l->cuts[l->turn][i];
    const picture_size there = skipped(f, draw->sample);
    picture p = {.height = there.height, .width = there.width};
    brasa_status status = there.height ? BRASA_OK : fetch(l, i, draw->sample, &p);
    if (status != BRASA_OK)
        return status;
    if (f->whole && (int64_t)p.channels * p.height * p.width > f->largest) /* a batch has no room for it */
        return fail(f->own, BRASA_BAD_FILE,
                    "%s: it was changed since the data were looked through, and is larger now",
                    dataset_name(f->set, draw->sample).text);
    *c = (batch_cut){transform_choose(&f->transform, p.height, p.width, draw, f->shape), -1};
    if (!there.height)
        add_bytes(f, &p, b, l->pixels[l->turn], c);
    return BRASA_OK;
}

static brasa_status fill(loader *l)
{
    feeder *f = l->f;
    const loader_options *o = &l->options;
    const int32_t begin = (int32_t)l->step * o->batch, left = o->count - begin;
    batch *b = &l->batch[l->turn];
    transform_target target = f->target;
    brasa_status status = BRASA_OK;
    put_in_order(l, l->epoch);
    target.to = l->input[l->turn];
    b->size = left < o->batch ? left : o->batch;
    b->input_bytes = f->bytes ? 0 : (size_t)(b->size * f->sample) * sizeof(float);
    b->pixel_bytes = 0;
    b->epoch = l->epoch;
    b->step = l->step;
    for (int32_t i = 0; i < b->size; i++) {
        const int32_t sample = (l->order ? l->order : o->list)[begin + i];
        l->labels[l->turn][i] = f->set->label[sample];
        l->samples[l->turn][i] = sample;
    }
    if (f->set->numbers)
        return fill_numbers(l, b, &target);
    if (l->raw)
        status = read_raw(l, b);
    for (int32_t i = 0; i < b->size && status == BRASA_OK; i++) {
        const transform_draw draw = {o->train, o->seed, (uint32_t)l->epoch, b->samples[i]};
        picture p;
        if (f->bytes)
            status = fill_bytes(l, b, i, &draw);
        else if ((status = fetch(l, i, draw.sample, &p)) == BRASA_OK)
            transform_write(&f->transform, &p, &draw, &target, i);
    }
    return status;
}

void loader_run_job(loader *l)
{
    l->status = fill(l);
    if (l->status != BRASA_OK)
        memcpy(l->error, l->f->own->error, sizeof l->error);
}

/* --- loaders ------------------------------------------------------------------------------------------------- */

int64_t loader_bytes(const feeder_options *f, const loader_options *o, const int of[3])
{
    const shape s = feeder_batch_shape(of, o->batch);
    const int64_t input = f->bytes && !f->set->numbers
                              ? o->batch * (feeder_largest(f, of) + (int64_t)sizeof(batch_cut))
                              : layout_count(&f->layout, &s) * (int64_t)sizeof(float);
    const int64_t bytes = input + o->batch * 2 * (int64_t)sizeof(int32_t);
    const int64_t raw = feeder_raw(f) ? (int64_t)feeder_raw(f) + 2 * (int64_t)sizeof(int32_t) : 0;
    return (int64_t)sizeof(loader) + 2 * bytes + o->batch * raw +
           (o->train ? o->count * (int64_t)sizeof(int32_t) : 0);
}

static brasa_status check_options(const feeder *f, const loader_options *o)
{
    if (o->count < 1)
        return fail(f->ctx, BRASA_BAD_ARGUMENT, "a loader needs at least one sample");
    if (o->batch < 1)
        return fail(f->ctx, BRASA_BAD_ARGUMENT, "batch: expected a number of at least 1, got %d", (int)o->batch);
    for (int32_t i = 0; i < o->count; i++)
        if (o->list[i] < 0 || o->list[i] >= f->set->count)
            return fail(f->ctx, BRASA_BAD_ARGUMENT, "sample %d: the set has 0 to %d", (int)o->list[i],
                        (int)f->set->count - 1);
    return BRASA_OK;
}

/* Zeroed: the padding of a layout stays so. */
static bool make_input(loader *l, int i)
{
    const feeder *f = l->f;
    const size_t size = (size_t)l->options.batch;
    if (!f->bytes)
        return (l->input[i] = mem_get(f->ctx, size * (size_t)f->sample * sizeof *l->input[i])) != NULL;
    l->pixels[i] = pinned_get(f->ctx, size * (size_t)f->largest);
    l->cuts[i] = mem_get(f->ctx, size * sizeof *l->cuts[i]);
    return l->pixels[i] && l->cuts[i];
}

static brasa_status make_batches(loader *l)
{
    const feeder *f = l->f;
    const size_t size = (size_t)l->options.batch;
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        ok = make_input(l, i) && ok;
        l->labels[i] = mem_get(f->ctx, size * sizeof *l->labels[i]);
        l->samples[i] = mem_get(f->ctx, size * sizeof *l->samples[i]);
        l->batch[i] = (batch){.input = l->input[i],
                              .pixels = l->pixels[i],
                              .cuts = l->cuts[i],
                              .labels = l->labels[i],
                              .samples = l->samples[i]};
        ok = ok && l->labels[i] && l->samples[i];
    }
    if (f->raw) {
        ok = (l->raw = mem_get(f->ctx, size * f->raw)) && ok;
        ok = (l->asked = mem_get(f->ctx, size * sizeof *l->asked)) && ok;
        ok = (l->at = mem_get(f->ctx, size * sizeof *l->at)) && ok;
    }
    if (l->options.train)
        ok = (l->order = mem_get(f->ctx, (size_t)l->options.count * sizeof *l->order)) && ok;
    return ok ? BRASA_OK
              : fail_memory(f->ctx, size * (size_t)(f->bytes ? f->largest : f->sample * (int64_t)sizeof(float)));
}

brasa_status loader_new(feeder *f, const loader_options *o, loader **out)
{
    *out = NULL;
    brasa_status status = check_options(f, o);
    if (status != BRASA_OK)
        return status;
    loader *l = mem_get(f->ctx, sizeof *l);
    if (!l)
        return fail_memory(f->ctx, sizeof *l);
    l->f = f;
    l->options = *o;
    l->ordered = -1;
    if ((status = make_batches(l)) != BRASA_OK) {
        loader_free(l);
        return status;
    }
    *out = l;
    return BRASA_OK;
}

void loader_free(loader *l)
{
    if (!l)
        return;
    brasa_context *ctx = l->f->ctx;
    feeder_finish(l);
    for (int i = 0; i < 2; i++) {
        mem_put(ctx, l->input[i]);
        pinned_put(ctx, l->pixels[i]);
        mem_put(ctx, l->cuts[i]);
        mem_put(ctx, l->labels[i]);
        mem_put(ctx, l->samples[i]);
    }
    mem_put(ctx, l->raw);
    mem_put(ctx, l->asked);
    mem_put(ctx, l->at);
    mem_put(ctx, l->order);
    mem_put(ctx, l);
}

int64_t loader_steps(const loader *l)
{
    return (l->options.count + (int64_t)l->options.batch - 1) / l->options.batch;
}

brasa_status loader_seek(loader *l, int64_t epoch, int64_t step)
{
    const int64_t steps = loader_steps(l);
    if (epoch < 0 || step < 0 || epoch + step / steps > UINT32_MAX)
        return fail(l->f->ctx, BRASA_BAD_ARGUMENT, "there is no epoch %lld with a step %lld", (long long)epoch,
                    (long long)step);
    epoch += step / steps;
    step %= steps;
    if (l->submitted && l->epoch == epoch && l->step == step)
        return BRASA_OK;
    feeder_finish(l);
    l->epoch = epoch;
    l->step = step;
    feeder_submit(l);
    return BRASA_OK;
}

brasa_status loader_next(loader *l, const batch **out)
{
    if (!l->submitted)
        feeder_submit(l);
    feeder_finish(l);
    if (l->status != BRASA_OK)
        return fail(l->f->ctx, l->status, "%s", l->error);
    *out = &l->batch[l->turn];
    l->turn = !l->turn;
    if (++l->step == loader_steps(l)) {
        l->step = 0;
        l->epoch++;
    }
    feeder_submit(l);
    return BRASA_OK;
}
