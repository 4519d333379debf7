/* idx.c - pictures and labels in IDX files, as MNIST comes: train-images-idx3-ubyte and train-labels-idx1-ubyte, and
 * t10k- for the test part, each plain or with .gz. Grey pictures of one size, one byte a pixel.
 *
 * A file is a magic number (0, 0, type 8, rank), the sizes as big-endian numbers of 32 bits, then the bytes, and
 * nothing more. It does not say how many classes there are: as many as the largest label makes, unless most of these
 * would have no sample; then a label is taken to be wrong.
 */
#include "data/records.h"

#include <stdio.h>
#include <string.h>

enum { TYPE_BYTE = 8, MAX_DIMS = 3, MOST_SAMPLES = 100000000 };

typedef struct state {
    records images[MAX_PARTS];
    int parts;
} state;

/* The name of the file that is there, of the forms that are in use; NULL: none, *out memory failure aside. */
static const char *find_file(dataset *d, const char *folder, const char *prefix, const char *what, int rank)
{
    for (int form = 0; form < 4; form++) {
        const char *path = pool_text(&d->pool, "%s/%s-%s%cidx%d-ubyte%s", folder, prefix, what, form & 1 ? '.' : '-',
                                     rank, form & 2 ? ".gz" : "");
        if (!path || file_exists(path))
            return path;
    }
    return "";
}

static brasa_status read_header(data_file *f, int rank, int64_t dim[MAX_DIMS])
{
    unsigned char bytes[4 * (MAX_DIMS + 1)];
    brasa_status status = file_exact(f, bytes, 4 * ((size_t)rank + 1));
    if (status != BRASA_OK)
        return status;
    if (bytes[0] || bytes[1] || bytes[2] != TYPE_BYTE || bytes[3] != rank)
        return fail(f->ctx, BRASA_BAD_FILE,
                    "%s: not an IDX file of bytes of rank %d: it begins with %02x %02x %02x %02x, expected 00 00 08 "
                    "%02x",
                    f->path, rank, bytes[0], bytes[1], bytes[2], bytes[3], rank);
    for (int i = 0; i < rank; i++) {
        const unsigned char *b = bytes + 4 * (i + 1);
        dim[i] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
    }
    if (dim[0] < 1 || dim[0] > MOST_SAMPLES)
        return fail(f->ctx, BRASA_BAD_FILE, "%s: byte 4: %lld samples, expected 1 to %d", f->path, (long long)dim[0],
                    MOST_SAMPLES);
    return BRASA_OK;
}

/* A header that announces more than the file can hold must not make us ask for the memory. */
static brasa_status check_room(data_file *f, int64_t bytes)
{
    if (file_may_hold(f, bytes))
        return BRASA_OK;
    return fail(f->ctx, BRASA_BAD_FILE, "%s: its header announces %lld bytes, the file is only %lld long%s", f->path,
                (long long)bytes, (long long)f->size, f->unpacker ? ", packed" : "");
}

static brasa_status read_images(dataset *d, data_file *f, records *r)
{
    int64_t dim[MAX_DIMS] = {0};
    brasa_status status = read_header(f, 3, dim);
    if (status != BRASA_OK)
        return status;
    if (dim[1] < 1 || dim[2] < 1 || dim[1] > MAX_SIDE || dim[2] > MAX_SIDE)
        return fail(f->ctx, BRASA_BAD_FILE, "%s: byte 8: pictures of %lld x %lld, expected 1 to %d a side", f->path,
                    (long long)dim[1], (long long)dim[2], MAX_SIDE);
    if (d->parts && (dim[1] != d->height || dim[2] != d->width))
        return fail(f->ctx, BRASA_BAD_FILE, "%s: pictures of %lld x %lld, but the first part has %d x %d", f->path,
                    (long long)dim[1], (long long)dim[2], d->height, d->width);
    d->channels = 1;
    d->height = (int)dim[1];
    d->width = (int)dim[2];
    const int64_t size = dim[1] * dim[2], bytes = dim[0] * size;
    *r = (records){f->path, -1, NULL, d->count, (int32_t)dim[0], f->place, size};
    if ((status = check_room(f, bytes)) != BRASA_OK)
        return status;
    if (!f->unpacker) {
        if (f->size != f->place + bytes)
            return fail(f->ctx, BRASA_BAD_FILE, "%s: %lld bytes long, expected %lld", f->path, (long long)f->size,
                        (long long)(f->place + bytes));
        r->fd = f->fd;
        f->fd = -1; /* the set's now */
        return BRASA_OK;
    }
    if (!(r->memory = pool_get(&d->pool, (size_t)bytes, 1)))
        return fail_memory(d->ctx, (size_t)bytes);
    d->bytes += bytes;
    if ((status = file_exact(f, r->memory, (size_t)bytes)) == BRASA_OK)
        status = file_ended(f);
    return status;
}

static brasa_status read_labels(dataset *d, data_file *f, int32_t count, unsigned char **out)
{
    int64_t dim[MAX_DIMS] = {0};
    brasa_status status = read_header(f, 1, dim);
    if (status != BRASA_OK)
        return status;
    if (dim[0] != count)
        return fail(f->ctx, BRASA_BAD_FILE, "%s: %lld labels, but there are %d pictures", f->path, (long long)dim[0],
                    (int)count);
    if (!(*out = pool_get(&d->pool, (size_t)count, 1)))
        return fail_memory(d->ctx, (size_t)count);
    if ((status = file_exact(f, *out, (size_t)count)) == BRASA_OK)
        status = file_ended(f);
    return status;
}

/* d->label and d->classes. */
static brasa_status set_labels(dataset *d, unsigned char *const labels[MAX_PARTS], const char *const paths[MAX_PARTS],
                               int64_t told)
{
    bool seen[256] = {false};
    int used = 0, most = 0, where = 0, at = 0; /* the largest label, and its place */
    for (int part = 0; part < d->parts; part++)
        for (int32_t i = 0; i < d->part[part].count; i++) {
            const int label = labels[part][i];
            d->label[d->part[part].begin + i] = label;
            used += !seen[label];
            seen[label] = true;
            if (label > most) {
                most = label;
                where = part;
                at = i;
            }
        }
    d->classes = told ? (int)told : most + 1;
    if (most < d->classes && (told || d->classes - used <= used))
        return BRASA_OK;
    if (told)
        return fail(d->ctx, BRASA_BAD_FILE, "%s: byte %d: the label %d, expected 0 to %d", paths[where], at + 8, most,
                    d->classes - 1);
    return fail(d->ctx, BRASA_BAD_FILE,
                "%s: byte %d: the label %d, but there are only %d different ones; if it is right, say ,classes=%d",
                paths[where], at + 8, most, used, d->classes);
}

static brasa_status open_part(dataset *d, const char *images, const char *labels, const char *name,
                              unsigned char **label)
{
    state *s = d->state;
    records *r = &s->images[s->parts];
    data_file f;
    brasa_status status = file_open(d->ctx, images, &f);
    if (status != BRASA_OK)
        return status;
    status = read_images(d, &f, r);
    s->parts += r->path != NULL;
    file_close(&f);
    if (status == BRASA_OK && (status = file_open(d->ctx, labels, &f)) == BRASA_OK) {
        status = read_labels(d, &f, r->count, label);
        file_close(&f);
    }
    if (status == BRASA_OK)
        dataset_add_part(d, name, r->count);
    return status;
}

static brasa_status find_and_open(dataset *d, const data_spec *s, unsigned char *labels[MAX_PARTS],
                                  const char *paths[MAX_PARTS])
{
    static const char *const prefixes[] = {"train", "t10k"}, *const names[] = {"train", "test"};
    brasa_status status = BRASA_OK;
    for (int i = 0; i < 2 && status == BRASA_OK; i++) {
        const char *images = find_file(d, s->path, prefixes[i], "images", 3);
        const char *label = find_file(d, s->path, prefixes[i], "labels", 1);
        if (!images || !label)
            return fail_memory(d->ctx, 0);
        if (images[0] && !label[0])
            return fail(d->ctx, BRASA_BAD_FILE, "%s: there is no %s-labels-idx1-ubyte (or .gz) for %s", s->path,
                        prefixes[i], images);
        if (images[0]) {
            paths[d->parts] = label;
            status = open_part(d, images, label, names[i], &labels[d->parts]);
        }
    }
    if (status == BRASA_OK && d->parts == 0)
        return fail(d->ctx, BRASA_BAD_FILE, "%s: there is no train-images-idx3-ubyte (or .gz) in it", s->path);
    return status;
}

static brasa_status idx_open(dataset *d, const data_spec *s)
{
    unsigned char *labels[MAX_PARTS] = {NULL};
    const char *paths[MAX_PARTS] = {NULL};
    int64_t classes = 0;
    if (!(d->state = pool_get(&d->pool, 1, sizeof(state))))
        return fail_memory(d->ctx, sizeof(state));
    brasa_status status = spec_number(d->ctx, s, "classes", 1, 256, &classes);
    if (status == BRASA_OK)
        status = find_and_open(d, s, labels, paths);
    if (status == BRASA_OK)
        status = dataset_make_labels(d);
    if (status == BRASA_OK)
        status = set_labels(d, labels, paths, classes);
    return status == BRASA_OK ? dataset_number_classes(d) : status;
}

static void idx_close(dataset *d)
{
    state *s = d->state;
    if (s)
        records_close(s->images, s->parts);
}

static brasa_status idx_read(const dataset *d, brasa_context *errors, int32_t sample, picture *p)
{
    const state *s = d->state;
    const records *r = records_of(s->images, s->parts, sample);
    brasa_status status = picture_shape(errors, p, 1, d->height, d->width);
    return status == BRASA_OK ? records_read(r, errors, sample, 0, p->pixels, (size_t)r->size) : status;
}

static sample_name idx_name(const dataset *d, int32_t sample)
{
    const state *s = d->state;
    const records *r = records_of(s->images, s->parts, sample);
    sample_name n;
    snprintf(n.text, sizeof n.text, "%.400s, picture %d", r->path, (int)(sample - r->first));
    return n;
}

const source idx_source = {
    .info = {"idx", "idx:DIR[,classes=N]", "MNIST's files, plain or .gz: train-images-idx3-ubyte and the like"},
    .keys = "classes",
    .open = idx_open,
    .read = idx_read,
    .name = idx_name,
    .close = idx_close,
};
