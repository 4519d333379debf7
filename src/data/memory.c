/* memory.c - samples in arrays of the caller, borrowed or copied. */
#include "core/array.h"
#include "core/options.h"
#include "data/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct state {
    array_view part[MAX_PARTS]; /* N H W C of bytes; N C H W or N x features of numbers */
} state;

/* --- reading ------------------------------------------------------------------------------------------------- */

static void read_one(const dataset *d, int32_t sample, void *out)
{
    const state *s = d->state;
    const int i = d->parts > 1 && sample >= d->part[1].begin;
    array_read(&s->part[i], sample - d->part[i].begin, 1, d->numbers ? BRASA_TYPE_F32 : BRASA_TYPE_U8, out);
}

static brasa_status memory_read(const dataset *d, brasa_context *errors, int32_t sample, picture *p)
{
    brasa_status status = picture_shape(errors, p, d->channels, d->height, d->width);
    if (status == BRASA_OK)
        read_one(d, sample, p->pixels);
    return status;
}

static brasa_status memory_many(const dataset *d, brasa_context *errors, const int32_t *samples, int32_t count,
                                void *out)
{
    float *to = out;
    (void)errors;
    for (int32_t i = 0; i < count; i++, to += dataset_sample_numbers(d))
        read_one(d, samples[i], to);
    return BRASA_OK;
}

static sample_name memory_name(const dataset *d, int32_t sample)
{
    sample_name n;
    const int i = d->parts > 1 && sample >= d->part[1].begin;
    snprintf(n.text, sizeof n.text, "%s[%d]", i ? "test_samples" : "samples", (int)(sample - d->part[i].begin));
    return n;
}

static const source memory_source = {
    .info = {"memory", "", ""},
    .read = memory_read,
    .many = memory_many,
    .name = memory_name,
};

/* --- opening ------------------------------------------------------------------------------------------------- */

/* One part of what the caller gave. */
typedef struct given {
    const char *name, *labels_name, *part;
    const brasa_array *samples, *labels;
} given;

static brasa_status view_host(brasa_context *ctx, const char *what, const brasa_array *a, array_view *out)
{
    if (a->device && strcmp(a->device, "cpu") != 0)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s: on %.40s, expected an array in the host's memory", what, a->device);
    return array_view_of(ctx, what, a, out);
}

/* The samples' axes in the order of a set, and what a sample is. */
static brasa_status settle_samples(dataset *d, const char *what, array_view *v, bool nhwc)
{
    if (v->rank < 2 || v->rank > 4)
        return fail(d->ctx, BRASA_BAD_SHAPE,
                    "%s: expected N x features, N x height x width, or images with channels; got %d axes", what,
                    v->rank);
    if (v->rank == 3) { /* one channel */
        v->dim[3] = v->stride[3] = 1;
        v->rank = 4;
        nhwc = true;
    }
    d->numbers = v->rank == 2 || v->type != BRASA_TYPE_U8;
    if (v->rank == 4 && nhwc && d->numbers)
        array_move_axis(v, 3, 1);
    if (v->rank == 4 && !nhwc && !d->numbers)
        array_move_axis(v, 1, 3);
    const int64_t channels = v->dim[d->numbers ? 1 : 3], height = v->rank == 4 ? v->dim[d->numbers ? 2 : 1] : 0,
                  width = v->rank == 4 ? v->dim[d->numbers ? 3 : 2] : 0;
    if (v->dim[0] > INT32_MAX / 2 || channels > INT32_MAX / (int64_t)sizeof(float) || height > MAX_SIDE ||
        width > MAX_SIDE)
        return fail(d->ctx, BRASA_BAD_SHAPE, "%s: %" PRId64 " of %" PRId64 "x%" PRId64 "x%" PRId64 ": too large",
                    what, v->dim[0], channels, height, width);
    if (!d->numbers && channels != 1 && channels != 3)
        return fail(d->ctx, BRASA_BAD_SHAPE,
                    "%s: 8-bit images with %" PRId64 " channels, expected 1 or 3; is `nhwc` right?", what, channels);
    d->channels = (int)channels;
    d->height = (int)height;
    d->width = (int)width;
    return BRASA_OK;
}

static brasa_status add_samples(dataset *d, const given *g, bool nhwc)
{
    const dataset first = *d;
    array_view *v = &((state *)d->state)->part[d->parts];
    brasa_status status = view_host(d->ctx, g->name, g->samples, v);
    if (status == BRASA_OK)
        status = settle_samples(d, g->name, v, nhwc);
    if (status != BRASA_OK)
        return status;
    if (first.parts && (first.numbers != d->numbers || first.channels != d->channels || first.height != d->height ||
                        first.width != d->width))
        return fail(d->ctx, BRASA_BAD_SHAPE, "%s: %s of %dx%dx%d, but the samples to train on are %s of %dx%dx%d",
                    g->name, d->numbers ? "numbers" : "8-bit images", d->channels, d->height, d->width,
                    first.numbers ? "numbers" : "8-bit images", first.channels, first.height, first.width);
    d->bytes += v->dim[0] * array_each(v) * (int64_t)array_type_size(v->type);
    dataset_add_part(d, g->part, (int32_t)v->dim[0]);
    return BRASA_OK;
}

/* Labels of part i into d->label; *most: the largest. */
static brasa_status add_labels(dataset *d, const given *g, int i, int classes, int64_t *most)
{
    array_view v;
    const dataset_part *part = &d->part[i];
    brasa_status status = view_host(d->ctx, g->labels_name, g->labels, &v);
    if (status != BRASA_OK)
        return status;
    if (v.rank != 1 || v.dim[0] != part->count || v.type == BRASA_TYPE_F32 || v.type == BRASA_TYPE_F64 ||
        v.type == BRASA_TYPE_BF16)
        return fail(d->ctx, BRASA_BAD_SHAPE, "%s: expected %d whole numbers, one for each sample", g->labels_name,
                    (int)part->count);
    const int64_t limit = classes ? classes : MAX_CLASSES;
    for (int32_t k = 0; k < part->count; k++) {
        int64_t label;
        array_read(&v, k, 1, BRASA_TYPE_I64, &label);
        if (label < 0 || label >= limit)
            return fail(d->ctx, BRASA_BAD_ARGUMENT, "%s[%d] is %" PRId64 ", expected 0 to %" PRId64, g->labels_name,
                        (int)k, label, limit - 1);
        d->label[part->begin + k] = (int32_t)label;
        *most = label > *most ? label : *most;
    }
    return BRASA_OK;
}

/* Takes what is borrowed into the set's memory. */
static brasa_status copy_part(dataset *d, array_view *v)
{
    const int type = d->numbers ? BRASA_TYPE_F32 : BRASA_TYPE_U8;
    void *to = pool_get(&d->pool, (size_t)(v->dim[0] * array_each(v)), array_type_size(type));
    if (!to)
        return fail_memory(d->ctx, (size_t)(v->dim[0] * array_each(v)) * array_type_size(type));
    array_read(v, 0, v->dim[0], type, to);
    v->data = to;
    v->type = type;
    int64_t stride = 1;
    for (int i = v->rank - 1; i >= 0; stride *= v->dim[i--])
        v->stride[i] = stride;
    return BRASA_OK;
}

static brasa_status open_memory(dataset *d, const brasa_data_arrays *a)
{
    const bool tests = a->test_samples.data || a->test_labels.data;
    const given parts[] = {{"samples", "labels", tests ? "train" : "all", &a->samples, &a->labels},
                           {"test_samples", "test_labels", "test", &a->test_samples, &a->test_labels}};
    int64_t most = 0;
    state *s = d->state = pool_get(&d->pool, 1, sizeof *s);
    brasa_status status = s ? BRASA_OK : fail_memory(d->ctx, sizeof *s);
    if (a->classes < 0 || a->classes > MAX_CLASSES || (a->class_names && !a->classes))
        return fail(d->ctx, BRASA_BAD_ARGUMENT, "classes: expected %d to %d, got %d", a->class_names != NULL,
                    MAX_CLASSES, (int)a->classes);
    for (int i = 0; i <= tests && status == BRASA_OK; i++)
        status = add_samples(d, &parts[i], a->nhwc);
    if (status == BRASA_OK)
        status = dataset_make_labels(d);
    for (int i = 0; i <= tests && status == BRASA_OK; i++)
        status = add_labels(d, &parts[i], i, a->classes, &most);
    d->classes = a->classes ? a->classes : (int)most + 1;
    if (status == BRASA_OK)
        status = dataset_name_classes(d, a->class_names);
    for (int i = 0; i <= tests && a->copy && status == BRASA_OK; i++)
        status = copy_part(d, &s->part[i]);
    return status;
}

brasa_status brasa_data_from_arrays(brasa_context *ctx, const brasa_data_arrays *arrays, brasa_data **out)
{
    brasa_data_arrays a;
    dataset *d = NULL;
    if (!ctx || !out)
        return fail(ctx, BRASA_BAD_ARGUMENT, "brasa_data_from_arrays: context or out is NULL");
    brasa_status status = options_take(ctx, &a, sizeof a, arrays, "brasa_data_arrays");
    if (status == BRASA_OK)
        status = dataset_new(ctx, &memory_source, "arrays", &d);
    if (status == BRASA_OK)
        status = open_memory(d, &a);
    return dataset_hand_over(d, status, out);
}
