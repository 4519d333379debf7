/* exchange_batches.c - which samples train and test, and the first batches of those that train: see exchange.h. */
#include "lab/exchange.h"

#include "core/hash.h"
#include "session/safetensors.h"

#include <stdio.h>
#include <string.h>

/* --- the split ----------------------------------------------------------------------------------------------- */

static brasa_status make_split(exchange *e, int64_t fold, split *out)
{
    const lab_cell *c = e->cell;
    const dataset *d = e->task.set;
    split_options o = {.kind = SPLIT_FOLDS, .folds = (int)c->folds, .fold = (int)fold - 1, .seed = (uint64_t)c->seed};
    const char *words = c->split ? c->split : d->parts == 2 ? "parts" : "all";
    brasa_status status = c->folds ? BRASA_OK : split_parse(d->ctx, words, &o);
    return status == BRASA_OK ? split_make(d, &o, out) : status;
}

static void give_split(void *user, int tensor, int64_t first, int count, number *out)
{
    const split *s = user;
    const int32_t *list = tensor ? s->test : s->train;
    for (int i = 0; i < count; i++)
        out[i].whole = list[first + i];
}

/* Where nothing tests, there is no such list. */
static brasa_status write_split(exchange *e, split *s, const char **path)
{
    const tensor_type *whole = tensor_type_find("I32");
    const tensor_entry tensors[] = {{.name = "train", .type = whole, .shape = shape_1(s->trains)},
                                    {.name = "test", .type = whole, .shape = shape_1(s->tests)}};
    uint64_t hash = hash_bytes(HASH_START, s->train, (size_t)s->trains * sizeof *s->train);
    hash = hash_bytes(hash, &s->trains, sizeof s->trains);
    hash = hash_bytes(hash, s->test, (size_t)s->tests * sizeof *s->test);
    if (!(*path = exchange_path(e, "split", hash, ".safetensors")))
        return BRASA_OUT_OF_MEMORY;
    if (exchange_has_tensors(e, *path))
        return BRASA_OK;
    return exchange_written(
        e, safetensors_write(e->pool.ctx, *path, tensors, s->tests ? 2 : 1, NULL, give_split, NULL, s));
}

brasa_status exchange_make_split(exchange *e, int64_t fold, const char **path)
{
    split s = {0};
    brasa_status status = make_split(e, fold, &s);
    if (status == BRASA_OK)
        status = write_split(e, &s, path);
    e->trains = s.trains;
    e->tests = s.tests;
    split_free(&s);
    return status;
}

/* What one answer, always the same, reaches on these samples. */
static brasa_status find_most_frequent(exchange *e, const split *s)
{
    pool p = {.ctx = e->pool.ctx};
    int32_t most = 0, *count = pool_get(&p, (size_t)e->task.classes + 1, sizeof *count);
    if (!count)
        return fail_memory(p.ctx, (size_t)e->task.classes * sizeof *count);
    for (int32_t i = 0; i < s->tests; i++) {
        int32_t *of = &count[e->task.set->label[s->test[i]]];
        most = ++*of > most ? *of : most;
    }
    e->most_frequent = s->tests ? (double)most / s->tests : 0;
    pool_free(&p);
    return BRASA_OK;
}

/* --- batches ------------------------------------------------------------------------------------------------- */

typedef struct batches {
    pool pool;
    int32_t size;
    size_t bytes; /* of the samples of a batch */
    float *samples[EXCHANGE_STEPS];
    int32_t *labels[EXCHANGE_STEPS];
} batches;

static brasa_status keep(batches *b, int k, const batch *from)
{
    b->samples[k] = pool_get(&b->pool, from->input_bytes, 1);
    b->labels[k] = pool_get(&b->pool, (size_t)from->size, sizeof *b->labels[k]);
    if (!b->samples[k] || !b->labels[k])
        return fail_memory(b->pool.ctx, from->input_bytes);
    memcpy(b->samples[k], from->input, b->bytes = from->input_bytes);
    memcpy(b->labels[k], from->labels, (size_t)from->size * sizeof *b->labels[k]);
    return BRASA_OK;
}

/* In the order of a training, but nothing of them is changed at random. */
static brasa_status load(exchange *e, const split *s, batches *b)
{
    transform plain = e->task.transform;
    plain.flip = FLIP_NONE;
    plain.random_crop = false;
    feeder_options o = task_feeding(&e->task, NULL);
    o.transform = &plain;
    o.budget = 0;
    feeder *f = NULL;
    loader *l = NULL;
    const loader_options wish = {
        .list = s->train, .count = s->trains, .batch = b->size, .train = true, .seed = (uint64_t)e->cell->seed};
    brasa_status status = feeder_new(e->pool.ctx, &o, &f);
    if (status == BRASA_OK)
        status = loader_new(f, &wish, &l);
    for (int k = 0; k < EXCHANGE_STEPS && status == BRASA_OK;) {
        const batch *next;
        status = loader_next(l, &next);
        if (status == BRASA_OK && next->size == b->size) /* not what is left at an epoch's end */
            status = keep(b, k++, next);
    }
    loader_free(l);
    feeder_free(f);
    return status;
}

static void give_batches(void *user, int tensor, int64_t first, int count, number *out)
{
    const batches *b = user;
    for (int i = 0; i < count; i++) {
        if (tensor % 2)
            out[i].whole = b->labels[tensor / 2][first + i];
        else
            out[i].real = (double)b->samples[tensor / 2][first + i];
    }
}

static brasa_status write_batches(exchange *e, batches *b)
{
    tensor_entry tensors[2 * EXCHANGE_STEPS];
    char names[2 * EXCHANGE_STEPS][16];
    const int *of = e->task.shape;
    const shape one = of[1] ? shape_4(b->size, of[0], of[1], of[2]) : shape_2(b->size, of[0]);
    uint64_t hash = HASH_START;
    for (int k = 0; k < EXCHANGE_STEPS; k++) {
        snprintf(names[2 * k], sizeof names[0], "samples.%d", k);
        snprintf(names[2 * k + 1], sizeof names[0], "labels.%d", k);
        tensors[2 * k] = (tensor_entry){.name = names[2 * k], .type = tensor_type_of(F32), .shape = one};
        tensors[2 * k + 1] =
            (tensor_entry){.name = names[2 * k + 1], .type = tensor_type_of(I32), .shape = shape_1(b->size)};
        hash = hash_bytes(hash, b->samples[k], b->bytes);
        hash = hash_bytes(hash, b->labels[k], (size_t)b->size * sizeof *b->labels[k]);
    }
    if (!(e->batches = exchange_path(e, "batches", hash, ".safetensors")))
        return BRASA_OUT_OF_MEMORY;
    if (exchange_has_tensors(e, e->batches))
        return BRASA_OK;
    return exchange_written(
        e, safetensors_write(e->pool.ctx, e->batches, tensors, 2 * EXCHANGE_STEPS, NULL, give_batches, NULL, b));
}

brasa_status exchange_make_batches(exchange *e)
{
    split s = {0};
    batches b = {.pool = {.ctx = e->pool.ctx}};
    brasa_status status = make_split(e, e->cell->folds ? 1 : 0, &s);
    e->trains = s.trains;
    e->tests = s.tests;
    const int64_t wish = e->cell->batch < 2 ? 2 : e->cell->batch > 4 ? 4 : e->cell->batch;
    b.size = (int32_t)(wish < s.trains ? wish : s.trains);
    if (status == BRASA_OK)
        status = find_most_frequent(e, &s);
    if (status == BRASA_OK)
        status = load(e, &s, &b);
    if (status == BRASA_OK)
        status = write_batches(e, &b);
    split_free(&s);
    pool_free(&b.pool);
    return status;
}
