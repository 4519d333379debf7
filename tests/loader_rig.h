/* loader_rig.h - for tests of what is fed: a set, its transform and a loader over all of it. After test.h. */
#ifndef TEST_LOADER_RIG_H
#define TEST_LOADER_RIG_H

#include "data/loader.h"
#include "data_files.h"

#define STUDY "resize=40 crop=32 random_crop flip=horizontal mean=0.485,0.456,0.406 std=0.229,0.224,0.225"

static inline transform parsed(const char *text)
{
    transform t;
    brasa_context *ctx = context_of(1);
    fields_set_defaults(transform_fields, &t);
    CHECK_STATUS(fields_parse(ctx, "transform", transform_fields, &t, text), BRASA_OK);
    brasa_context_free(ctx);
    return t;
}

typedef struct rig {
    brasa_context *ctx;
    dataset *d;
    transform t;
    feeder *f;
    loader *l;
    int32_t *list;
} rig;

static inline rig make_rig(const char *spec, const char *text, int64_t budget, loader_options o)
{
    rig r = {.t = parsed(text)};
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &r.ctx), BRASA_OK);
    CHECK_STATUS(dataset_open(r.ctx, spec, &r.d), BRASA_OK);
    const feeder_options f = {.set = r.d, .transform = &r.t, .budget = budget};
    if (r.d)
        CHECK_STATUS(feeder_new(r.ctx, &f, &r.f), BRASA_OK);
    r.list = calloc(r.d ? (size_t)r.d->count : 1, sizeof *r.list);
    for (int32_t i = 0; r.d && i < r.d->count; i++)
        r.list[i] = i;
    if (r.f && !o.list) {
        o.list = r.list;
        o.count = r.d->count;
    }
    if (r.f)
        CHECK_STATUS(loader_new(r.f, &o, &r.l), BRASA_OK);
    return r;
}

static inline void free_rig(rig *r)
{
    loader_free(r->l);
    feeder_free(r->f);
    dataset_close(r->d);
    brasa_context_free(r->ctx);
    free(r->list);
}

static inline const batch *next(rig *r)
{
    const batch *b = NULL;
    CHECK_STATUS(loader_next(r->l, &b), BRASA_OK);
    return b;
}

#endif
