/* loader.c - see loader.h.
 *
 * A loader has two batches: one that its user works on, and one that is being filled. To fill one is a job; a feeder
 * has a queue of them and one thread that takes them in turn. Each loader has at most one job waiting or running, so
 * that a job's loader, its batch and its order belong to the thread until it is done, and then to the user. The kept
 * pictures and the memory for decoding are the thread's alone. Jobs run in the caller where no thread can be made,
 * and for tables: copying their rows takes a microsecond a batch, handing the job over and back ten.
 */
#define _POSIX_C_SOURCE 200809L
#include "data/loader.h"
#include "data/streams.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct kept {
    int64_t place; /* in the block, plus 1; 0: not kept */
    int32_t height, width;
} kept;

struct feeder {
    brasa_context *ctx;
    const dataset *set;
    transform transform;
    int shape[3];
    bool bytes, whole;
    int64_t largest; /* bytes of a picture in a batch of such, at most */
    int64_t sample;  /* floats of a sample in a batch */
    int64_t *table;  /* of offsets: see transform_target */
    transform_target target;

    brasa_context *own; /* of whoever runs jobs: errors, and malloc */
    picture picture, spare;
    kept *kept; /* of every sample; NULL: nothing is kept */
    unsigned char *block;
    int64_t room, used;

    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock; /* of what follows, and of the loaders' `done` and `next` */
    pthread_cond_t work, done;
    loader *first, *last;  /* the queue */
    picture_size *skipped; /* of every sample that somebody has: its picture's size; NULL: they come always */
    int64_t decoded;
    bool stop;
};

struct loader {
    feeder *f;
    loader_options options;
    int32_t *order; /* of epoch `ordered`, -1: not yet made */
    int64_t ordered;
    batch batch[2];
    float *input[2];
    unsigned char *pixels[2];
    batch_cut *cuts[2];
    int32_t *labels[2], *samples[2];
    int64_t epoch, step; /* of the next batch that is handed out */
    int turn;            /* which of the two that is */
    bool submitted;      /* a job for that batch is waiting, running or done: the caller's word */
    bool done;           /* the thread's */
    brasa_status status; /* of the job, with its text */
    char error[ERROR_TEXT_SIZE];
    loader *next; /* in the queue */
};

/* --- filling a batch: in the thread -------------------------------------------------------------------------- */

static brasa_status fix(feeder *f, int32_t sample)
{
    brasa_status status = transform_fixed(f->own, &f->transform, &f->picture, &f->spare);
    if (status == BRASA_BAD_SHAPE)
        fail_prefix(f->own, "%s", dataset_name(f->set, sample).text);
    return status;
}

/* The picture as it is in every epoch, kept or read. */
static brasa_status fetch(feeder *f, int32_t sample, picture *out)
{
    kept *k = f->kept ? &f->kept[sample] : NULL;
    if (k && k->place) {
        *out = (picture){.channels = f->shape[0], .height = k->height, .width = k->width};
        out->pixels = f->block + k->place - 1;
        return BRASA_OK;
    }
    brasa_status status = dataset_read(f->set, f->own, sample, &f->picture);
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

static brasa_status fill_bytes(loader *l, batch *b, int32_t i, const transform_draw *draw)
{
    feeder *f = l->f;
    batch_cut *c = &l->cuts[l->turn][i];
    const picture_size there = skipped(f, draw->sample);
    picture p = {.height = there.height, .width = there.width};
    brasa_status status = there.height ? BRASA_OK : fetch(f, draw->sample, &p);
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
    for (int32_t i = 0; i < b->size && status == BRASA_OK; i++) {
        const int32_t sample = (l->order ? l->order : o->list)[begin + i];
        const transform_draw draw = {o->train, o->seed, (uint32_t)l->epoch, sample};
        picture p;
        l->labels[l->turn][i] = f->set->label[sample];
        l->samples[l->turn][i] = sample;
        if (f->set->numbers)
            memcpy(target.to + i * f->sample, dataset_numbers(f->set, sample), (size_t)f->sample * sizeof(float));
        else if (f->bytes)
            status = fill_bytes(l, b, i, &draw);
        else if ((status = fetch(f, sample, &p)) == BRASA_OK)
            transform_write(&f->transform, &p, &draw, &target, i);
    }
    return status;
}

static void run_job(loader *l)
{
    l->status = fill(l);
    if (l->status != BRASA_OK)
        memcpy(l->error, l->f->own->error, sizeof l->error);
}

static void *work(void *user)
{
    feeder *f = user;
    pthread_mutex_lock(&f->lock);
    while (!f->stop) {
        loader *l = f->first;
        if (!l) {
            pthread_cond_wait(&f->work, &f->lock);
            continue;
        }
        f->first = l->next;
        pthread_mutex_unlock(&f->lock);
        run_job(l);
        pthread_mutex_lock(&f->lock);
        l->done = true;
        pthread_cond_broadcast(&f->done);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* --- jobs: in the caller ------------------------------------------------------------------------------------- */

static void submit(loader *l)
{
    feeder *f = l->f;
    l->submitted = true;
    if (!f->threaded) /* run by `finish`, when it is wanted */
        return;
    pthread_mutex_lock(&f->lock);
    l->done = false;
    l->next = NULL;
    if (f->first)
        f->last->next = l;
    else
        f->first = l;
    f->last = l;
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
}

/* Waits until the loader's job, if there is one, is done. */
static void finish(loader *l)
{
    feeder *f = l->f;
    if (!l->submitted)
        return;
    l->submitted = false;
    if (!f->threaded) {
        run_job(l);
        return;
    }
    pthread_mutex_lock(&f->lock);
    while (!l->done)
        pthread_cond_wait(&f->done, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

/* --- feeders ------------------------------------------------------------------------------------------------- */

/* Files and drawings are worth keeping; what lies in memory anyway is not. */
static bool keeps(const feeder_options *o)
{
    return o->budget > 0 && !o->set->numbers && !o->set->bytes;
}

/* Pictures are kept before they are cropped at random. */
static int64_t bytes_of(const feeder_options *o, const int of[3], int32_t sample)
{
    const dataset *d = o->set;
    const transform *t = o->transform;
    if (!t->random_crop)
        return (int64_t)of[0] * of[1] * of[2];
    if (!d->varied)
        return transform_bytes(t, of[0], d->height, d->width);
    if (!o->sizes)
        return o->budget;
    const picture_size *s = &o->sizes[sample];
    return s->height ? transform_bytes(t, of[0], s->height, s->width) : 0;
}

int64_t feeder_whole(const feeder_options *o, const int of[3])
{
    int64_t bytes = 0;
    if (o->set->numbers || (o->transform->random_crop && o->set->varied && !o->sizes))
        return -1;
    for (int32_t i = 0; i < o->set->count; i++)
        bytes += bytes_of(o, of, i);
    return bytes;
}

int64_t feeder_largest(const feeder_options *o, const int of[3])
{
    int64_t most = (int64_t)of[0] * of[1] * of[2];
    for (int32_t i = 0; o->whole && i < o->set->count; i++) {
        const int64_t bytes = bytes_of(o, of, i);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int64_t room_for(const feeder_options *o, const int of[3])
{
    int64_t bytes = 0;
    for (int32_t i = 0; keeps(o) && i < o->set->count && bytes < o->budget; i++)
        bytes += bytes_of(o, of, i);
    return bytes < o->budget ? bytes : o->budget;
}

int64_t feeder_bytes(const feeder_options *o, const int of[3])
{
    const int64_t each = (keeps(o) ? (int64_t)sizeof(kept) : 0) + (o->whole ? (int64_t)sizeof(picture_size) : 0);
    return (int64_t)sizeof(feeder) + room_for(o, of) + o->set->count * each;
}

static shape batch_shape(const int of[3], int64_t n)
{
    return of[1] ? shape_4(n, of[0], of[1], of[2]) : shape_2(n, of[0]);
}

static brasa_status make_table(feeder *f, const layout *l)
{
    const shape one = batch_shape(f->shape, 1);
    f->sample = layout_count(l, &one);
    memcpy(f->target.shape, f->shape, sizeof f->shape);
    f->target.sample = f->sample;
    f->table = mem_get(f->ctx, (size_t)layout_table_size(&one) * sizeof *f->table);
    if (!f->table)
        return fail_memory(f->ctx, (size_t)layout_table_size(&one) * sizeof *f->table);
    layout_table_fill(l, &one, f->table);
    f->target.axis[0] = f->table + 1;
    f->target.axis[1] = f->target.axis[0] + f->shape[0];
    f->target.axis[2] = f->target.axis[1] + f->shape[1];
    transform_table(&f->transform, &f->target);
    return BRASA_OK;
}

/* Memory that nobody has touched yet costs nothing, so this is not zeroed: it fills as pictures are kept. */
static brasa_status make_room(feeder *f, const feeder_options *o)
{
    f->room = room_for(o, f->shape);
    if (!f->room)
        return BRASA_OK;
    f->kept = mem_get(f->ctx, (size_t)o->set->count * sizeof *f->kept);
    f->block = f->ctx->alloc(f->ctx->user, (size_t)f->room);
    return f->kept && f->block ? BRASA_OK : fail_memory(f->ctx, (size_t)f->room);
}

/* Signals are for the program's own threads. */
static void start_thread(feeder *f)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    f->threaded = pthread_create(&f->thread, NULL, work, f) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

brasa_status feeder_new(brasa_context *ctx, const feeder_options *o, feeder **out)
{
    *out = NULL;
    feeder *f = mem_get(ctx, sizeof *f);
    if (!f)
        return fail_memory(ctx, sizeof *f);
    f->ctx = ctx;
    f->set = o->set;
    f->transform = *o->transform;
    f->picture.least = o->transform->resize;
    f->bytes = o->bytes && !o->set->numbers;
    f->whole = f->bytes && o->whole;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, NULL);
    pthread_cond_init(&f->done, NULL);
    brasa_status status = transform_shape(ctx, o->transform, o->set, f->shape);
    if (status == BRASA_OK)
        status = make_table(f, &o->layout);
    if (status == BRASA_OK)
        status = make_room(f, o);
    if (status == BRASA_OK && f->whole && feeder_whole(o, f->shape) < 0)
        status = fail(ctx, BRASA_INTERNAL, "nobody knows how large whole pictures of %s are", o->set->spec);
    if (status == BRASA_OK && f->bytes)
        f->largest = feeder_largest(o, f->shape);
    if (status == BRASA_OK && f->whole && !(f->skipped = mem_get(ctx, (size_t)o->set->count * sizeof *f->skipped)))
        status = fail_memory(ctx, (size_t)o->set->count * sizeof *f->skipped);
    if (status == BRASA_OK && brasa_context_new(&(brasa_context_options){.threads = 1}, &f->own) != BRASA_OK)
        status = fail_memory(ctx, sizeof *f->own);
    if (status != BRASA_OK) {
        feeder_free(f);
        return status;
    }
    if (!f->set->numbers)
        start_thread(f);
    *out = f;
    return BRASA_OK;
}

void feeder_free(feeder *f)
{
    if (!f)
        return;
    if (f->threaded) {
        pthread_mutex_lock(&f->lock);
        f->stop = true;
        pthread_cond_signal(&f->work);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
    }
    if (f->own) {
        picture_free(f->own, &f->picture);
        picture_free(f->own, &f->spare);
        brasa_context_free(f->own);
    }
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->done);
    mem_put(f->ctx, f->table);
    mem_put(f->ctx, f->kept);
    mem_put(f->ctx, f->skipped);
    mem_put(f->ctx, f->block);
    mem_put(f->ctx, f);
}

const int *feeder_shape(const feeder *f)
{
    return f->shape;
}

void feeder_skip(feeder *f, int32_t sample, int height, int width)
{
    pthread_mutex_lock(&f->lock);
    f->skipped[sample] = (picture_size){height, width};
    pthread_mutex_unlock(&f->lock);
}

int64_t feeder_decoded(feeder *f)
{
    pthread_mutex_lock(&f->lock);
    const int64_t decoded = f->decoded;
    pthread_mutex_unlock(&f->lock);
    return decoded;
}

/* --- loaders ------------------------------------------------------------------------------------------------- */

int64_t loader_bytes(const feeder_options *f, const loader_options *o, const int of[3])
{
    const shape s = batch_shape(of, o->batch);
    const int64_t input = f->bytes && !f->set->numbers
                              ? o->batch * (feeder_largest(f, of) + (int64_t)sizeof(batch_cut))
                              : layout_count(&f->layout, &s) * (int64_t)sizeof(float);
    const int64_t bytes = input + o->batch * 2 * (int64_t)sizeof(int32_t);
    return (int64_t)sizeof(loader) + 2 * bytes + (o->train ? o->count * (int64_t)sizeof(int32_t) : 0);
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
    l->pixels[i] = host_get(f->ctx, size * (size_t)f->largest);
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
    finish(l);
    for (int i = 0; i < 2; i++) {
        mem_put(ctx, l->input[i]);
        host_put(ctx, l->pixels[i]);
        mem_put(ctx, l->cuts[i]);
        mem_put(ctx, l->labels[i]);
        mem_put(ctx, l->samples[i]);
    }
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
    finish(l);
    l->epoch = epoch;
    l->step = step;
    submit(l);
    return BRASA_OK;
}

brasa_status loader_next(loader *l, const batch **out)
{
    if (!l->submitted)
        submit(l);
    finish(l);
    if (l->status != BRASA_OK)
        return fail(l->f->ctx, l->status, "%s", l->error);
    *out = &l->batch[l->turn];
    l->turn = !l->turn;
    if (++l->step == loader_steps(l)) {
        l->step = 0;
        l->epoch++;
    }
    submit(l);
    return BRASA_OK;
}
