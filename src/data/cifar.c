/* cifar.c - CIFAR-10 and CIFAR-100 in their binary form.
 *
 * CIFAR-10: data_batch_1.bin ... and test_batch.bin, records of a label and 3 x 32 x 32 bytes, plane after plane.
 * CIFAR-100: train.bin and test.bin, with a coarse label (20 of them) before the fine one (100). The folder may be
 * the one that the published archive unpacks into, or the one around it.
 */
#include "core/json_scan.h"
#include "data/records.h"

#include <stdio.h>
#include <string.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, PIXELS = 3 * PLANE, MOST_FILES = 100, NAMES_SIZE = 8192 };

typedef struct cifar_form {
    const char *folder;       /* that the archive has inside */
    const char *train, *test; /* files; train is numbered where `batches` */
    bool batches;
    const char *names; /* the file of class names */
    int classes;
    int labels, which; /* bytes before the pixels, and which of them counts */
} cifar_form;

static const cifar_form ten = {
    "cifar-10-batches-bin", "data_batch_", "test_batch.bin", true, "batches.meta.txt", 10, 1, 0};
static const cifar_form fine = {"cifar-100-binary",     "train.bin", "test.bin", false,
                                "fine_label_names.txt", 100,         2,          1};
static const cifar_form coarse = {"cifar-100-binary",       "train.bin", "test.bin", false,
                                  "coarse_label_names.txt", 20,          2,          0};

typedef struct state {
    const cifar_form *form;
    const char *folder;
    records file[MOST_FILES + 1];
    int files;
} state;

static const char *path_of(dataset *d, const char *name, int number)
{
    const state *s = d->state;
    return number ? pool_text(&d->pool, "%s/%s%d.bin", s->folder, name, number)
                  : pool_text(&d->pool, "%s/%s", s->folder, name);
}

static brasa_status open_file(dataset *d, const char *path)
{
    state *s = d->state;
    const int64_t size = s->form->labels + PIXELS;
    const int32_t before = s->files ? s->file[s->files - 1].first + s->file[s->files - 1].count : 0;
    data_file f;
    brasa_status status = file_open(d->ctx, path, &f);
    if (status != BRASA_OK)
        return status;
    if (f.size == 0 || f.size % size != 0 || f.size / size > INT32_MAX / 2 - before)
        status =
            fail(d->ctx, BRASA_BAD_FILE, "%s: %lld bytes long, expected a multiple of %lld, the size of a record",
                 path, (long long)f.size, (long long)size);
    if (status == BRASA_OK) {
        s->file[s->files++] = (records){path, f.fd, NULL, before, (int32_t)(f.size / size), 0, size};
        f.fd = -1; /* the set's now */
    }
    file_close(&f);
    return status;
}

/* Files of the training part, and of the test part where there is one. */
static brasa_status open_files(dataset *d)
{
    state *s = d->state;
    const cifar_form *form = s->form;
    const int first = form->batches;
    brasa_status status = BRASA_OK;
    for (int i = first; status == BRASA_OK && i < MOST_FILES; i++) {
        const char *path = path_of(d, form->train, i);
        if (!path)
            return fail_memory(d->ctx, 0);
        if (i > first && !file_exists(path))
            break;
        status = open_file(d, path);
        if (!form->batches)
            break;
    }
    for (int i = 0; i < s->files && status == BRASA_OK; i++)
        d->part[0].count += s->file[i].count;
    const char *test = path_of(d, form->test, 0);
    if (status != BRASA_OK || !test)
        return status != BRASA_OK ? status : fail_memory(d->ctx, 0);
    dataset_add_part(d, "train", d->part[0].count);
    if (file_exists(test) && (status = open_file(d, test)) == BRASA_OK)
        dataset_add_part(d, "test", s->file[s->files - 1].count);
    return status;
}

/* A label out of range means that this is no such file, or a broken one. */
static brasa_status read_labels(dataset *d)
{
    const state *s = d->state;
    const int which = s->form->which;
    brasa_status status = dataset_make_labels(d);
    for (int32_t i = 0; i < d->count && status == BRASA_OK; i++) {
        const records *r = records_of(s->file, s->files, i);
        unsigned char label = 0;
        status = records_read(r, d->ctx, i, which, &label, 1);
        if (status == BRASA_OK && label >= d->classes)
            return fail(d->ctx, BRASA_BAD_FILE, "%s: byte %lld: the label %d, expected 0 to %d", r->path,
                        (long long)(i - r->first) * (long long)r->size + which, label, d->classes - 1);
        d->label[i] = label;
    }
    return status;
}

/* The names that come with the data, one a line. Without the file classes have numbers. */
static brasa_status read_names(dataset *d)
{
    const state *s = d->state;
    size_t got = 0;
    data_file f;
    brasa_status status = dataset_number_classes(d);
    char *text = pool_get(&d->pool, NAMES_SIZE, 1);
    const char *path = path_of(d, s->form->names, 0);
    if (status != BRASA_OK || !text || !path)
        return fail_memory(d->ctx, 0);
    if (!file_exists(path))
        return BRASA_OK;
    if ((status = file_open(d->ctx, path, &f)) != BRASA_OK)
        return status;
    status = file_some(&f, text, NAMES_SIZE - 1, &got);
    file_close(&f);
    for (int i = 0; i < d->classes && status == BRASA_OK; i++) {
        text += strspn(text, "\r\n");
        const size_t length = strcspn(text, "\r\n");
        char *end = text + length;
        end += *end != '\0';
        text[length] = '\0';
        if (length == 0 || !text_printable(text))
            return fail(d->ctx, BRASA_BAD_FILE, "%s: name %d of %d is missing or not printable", path, i + 1,
                        d->classes);
        d->class_name[i] = text;
        text = end;
    }
    return status;
}

static brasa_status open_set(dataset *d, const data_spec *s, const cifar_form *form)
{
    state *st = pool_get(&d->pool, 1, sizeof *st);
    if (!(d->state = st))
        return fail_memory(d->ctx, sizeof *st);
    st->form = form;
    d->classes = form->classes;
    d->channels = 3;
    d->height = d->width = SIDE;
    if (!(st->folder = pool_text(&d->pool, "%s/%s", s->path, form->folder)))
        return fail_memory(d->ctx, 0);
    const char *inside = path_of(d, form->train, form->batches);
    if (!inside)
        return fail_memory(d->ctx, 0);
    if (!file_exists(inside))
        st->folder = s->path;
    brasa_status status = open_files(d);
    if (status == BRASA_OK)
        status = read_labels(d);
    return status == BRASA_OK ? read_names(d) : status;
}

static brasa_status cifar10_open(dataset *d, const data_spec *s)
{
    return open_set(d, s, &ten);
}

static brasa_status cifar100_open(dataset *d, const data_spec *s)
{
    bool rough = false;
    brasa_status status = spec_flag(d->ctx, s, "coarse", &rough);
    return status == BRASA_OK ? open_set(d, s, rough ? &coarse : &fine) : status;
}

static void cifar_close(dataset *d)
{
    state *s = d->state;
    if (s)
        records_close(s->file, s->files);
}

static brasa_status cifar_read(const dataset *d, brasa_context *errors, int32_t sample, picture *p)
{
    const state *s = d->state;
    unsigned char planes[PIXELS];
    brasa_status status = picture_shape(errors, p, 3, SIDE, SIDE);
    if (status == BRASA_OK)
        status = records_read(records_of(s->file, s->files, sample), errors, sample, s->form->labels, planes, PIXELS);
    for (int i = 0; i < PLANE && status == BRASA_OK; i++)
        for (int c = 0; c < 3; c++)
            p->pixels[3 * i + c] = planes[c * PLANE + i];
    return status;
}

static sample_name cifar_name(const dataset *d, int32_t sample)
{
    const state *s = d->state;
    const records *r = records_of(s->file, s->files, sample);
    sample_name n;
    snprintf(n.text, sizeof n.text, "%.400s, picture %d", r->path, (int)(sample - r->first));
    return n;
}

const source cifar10_source = {
    .info = {"cifar10", "cifar10:DIR", "CIFAR-10, binary: data_batch_1.bin ... and test_batch.bin"},
    .keys = "",
    .open = cifar10_open,
    .read = cifar_read,
    .name = cifar_name,
    .close = cifar_close,
};

const source cifar100_source = {
    .info = {"cifar100", "cifar100:DIR[,coarse]", "CIFAR-100, binary: train.bin and test.bin; 100 classes or 20"},
    .keys = "coarse",
    .open = cifar100_open,
    .read = cifar_read,
    .name = cifar_name,
    .close = cifar_close,
};
