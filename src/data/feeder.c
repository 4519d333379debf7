/* feeder.c - feeders: a thread that fills batches in turn, and what it keeps. See loader_parts.h. */
#define _POSIX_C_SOURCE 200809L
#include "data/loader_parts.h"
#include "data/source.h"

#include <signal.h>
#include <string.h>

/* --- jobs ------------------------------------------------------------------------------------------------------ */

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
        loader_run_job(l);
        pthread_mutex_lock(&f->lock);
        l->done = true;
        pthread_cond_broadcast(&f->done);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

void feeder_submit(loader *l)
{
    feeder *f = l->f;
    l->submitted = true;
    if (!f->threaded) /* run by `feeder_finish`, when it is wanted */
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
void feeder_finish(loader *l)
{
    feeder *f = l->f;
    if (!l->submitted)
        return;
    l->submitted = false;
    if (!f->threaded) {
        loader_run_job(l);
        return;
    }
    pthread_mutex_lock(&f->lock);
    while (!l->done)
        pthread_cond_wait(&f->done, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

/* --- sizes ----------------------------------------------------------------------------------------------------- */

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

/* Several samples are read at once if the set's source wants it so, or if their numbers do not lie in the batch as
 * the source gives them. */
size_t feeder_raw(const feeder_options *o)
{
    const dataset *d = o->set;
    if (d->numbers)
        return layout_plain(&o->layout) ? 0 : (size_t)dataset_sample_numbers(d) * sizeof(float);
    return dataset_asks(d) ? (size_t)d->channels * (size_t)d->height * (size_t)d->width : 0;
}

shape feeder_batch_shape(const int of[3], int64_t n)
{
    return of[1] ? shape_4(n, of[0], of[1], of[2]) : shape_2(n, of[0]);
}

/* --- feeders ------------------------------------------------------------------------------------------------- */

static brasa_status make_table(feeder *f, const layout *l)
{
    const shape one = feeder_batch_shape(f->shape, 1);
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
    f->raw = feeder_raw(o);
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
    if (status == BRASA_OK && brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &f->own) != BRASA_OK)
        status = fail_memory(ctx, sizeof *f->own);
    if (status != BRASA_OK) {
        feeder_free(f);
        return status;
    }
    if (!f->set->numbers || f->set->height || dataset_asks(f->set))
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
