/* images.c - folders of pictures: a folder a class, JPEG and PNG files in it. Where there are folders train and test
 * with such folders in them, these are the set's parts; their classes must be the same.
 *
 * Names are sorted, so that a sample's number does not depend on the disk. Only the files' names are kept; a file is
 * opened when its sample is read. Folders within a class are not looked into; names that begin with a dot and files
 * that are no pictures by their name are passed over, and counted in the set's note.
 */
#define _POSIX_C_SOURCE 200809L
#include "core/json_scan.h"
#include "core/sort.h"
#include "data/codec.h"
#include "data/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_FILE = 1 << 28 /* bytes of a picture's file */, PATH_SIZE = 4096 };

typedef struct state {
    const char *root;  /* the folder that was given */
    const char **file; /* the name of every sample's file */
    int files, capacity;
    const char *index; /* the table of groups; NULL: none is read */
    int passed_over;
} state;

typedef struct names {
    const char **name;
    int count, capacity;
} names;

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".png") == 0);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int by_name(void *user, int64_t a, int64_t b)
{
    const names *n = user;
    return strcmp(n->name[a], n->name[b]);
}

static void swap(void *user, int64_t a, int64_t b)
{
    const names *n = user;
    const char *first = n->name[a];
    n->name[a] = n->name[b];
    n->name[b] = first;
}

/* Names in a folder, sorted: those of folders, or of pictures. */
static brasa_status list(dataset *d, const char *path, bool folders, names *out)
{
    state *s = d->state;
    brasa_status status = BRASA_OK;
    *out = (names){0};
    DIR *dir = opendir(path);
    if (!dir)
        return fail(d->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    for (struct dirent *e; status == BRASA_OK && (errno = 0, e = readdir(dir));) {
        char full[PATH_SIZE];
        if (e->d_name[0] == '.')
            continue;
        if (snprintf(full, sizeof full, "%s/%s", path, e->d_name) >= PATH_SIZE) {
            status = fail(d->ctx, BRASA_BAD_FILE, "%s: a path that is too long", path);
        } else if (is_folder(full) != folders || (!folders && !is_picture(e->d_name))) {
            s->passed_over += !is_folder(full) && !(s->index && strcmp(full, s->index) == 0);
        } else {
            const char **grown = pool_grow(&d->pool, out->name, out->count, &out->capacity, sizeof *grown);
            const char *name = pool_text(&d->pool, "%s", e->d_name);
            if (!grown || !name) {
                status = fail_memory(d->ctx, 0);
                break;
            }
            out->name = grown;
            out->name[out->count++] = name;
        }
    }
    if (status == BRASA_OK && errno)
        status = fail(d->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    closedir(dir);
    sort_items(out, out->count, by_name, swap);
    return status;
}

/* The first part says which classes there are; the second must have the same. */
static brasa_status set_classes(dataset *d, const char *folder, const names *found)
{
    if (found->count == 0)
        return fail(d->ctx, BRASA_BAD_FILE, "%s: there is no folder in it: expected one for each class", folder);
    if (found->count > MAX_CLASSES)
        return fail(d->ctx, BRASA_BAD_FILE, "%s: %d folders, at most %d classes are read", folder, found->count,
                    MAX_CLASSES);
    for (int i = 0; i < found->count; i++)
        if (!text_printable(found->name[i]))
            return fail(d->ctx, BRASA_BAD_FILE, "%s: the name of class folder %d is not printable", folder, i + 1);
    for (int i = 0; d->parts && (i < found->count || i < d->classes); i++)
        if (i >= found->count || i >= d->classes || strcmp(found->name[i], d->class_name[i]) != 0)
            return fail(d->ctx, BRASA_BAD_FILE, "%s: its classes are not those of the first part: '%s'", folder,
                        i < found->count ? found->name[i] : d->class_name[i]);
    d->classes = found->count;
    d->class_name = found->name;
    return BRASA_OK;
}

static brasa_status add_class(dataset *d, const char *folder, names *pictures)
{
    state *s = d->state;
    brasa_status status = list(d, folder, false, pictures);
    if (status == BRASA_OK && pictures->count == 0)
        return fail(d->ctx, BRASA_BAD_FILE, "%s: this class has no picture (.jpg, .jpeg or .png)", folder);
    for (int i = 0; i < pictures->count && status == BRASA_OK; i++) {
        const char **grown = pool_grow(&d->pool, s->file, s->files, &s->capacity, sizeof *grown);
        if (!grown)
            return fail_memory(d->ctx, sizeof *grown);
        s->file = grown;
        s->file[s->files++] = pictures->name[i];
    }
    return status;
}

static brasa_status add_part(dataset *d, const char *folder, const char *name, int32_t **ends)
{
    state *s = d->state;
    names found, pictures;
    brasa_status status = list(d, folder, true, &found);
    if (status == BRASA_OK)
        status = set_classes(d, folder, &found);
    if (status == BRASA_OK && !(*ends = pool_get(&d->pool, (size_t)d->classes, sizeof **ends)))
        status = fail_memory(d->ctx, 0);
    for (int c = 0; status == BRASA_OK && c < d->classes; c++) {
        const char *path = pool_text(&d->pool, "%s/%s", folder, d->class_name[c]);
        status = path ? add_class(d, path, &pictures) : fail_memory(d->ctx, 0);
        (*ends)[c] = s->files;
    }
    if (status == BRASA_OK)
        dataset_add_part(d, name, s->files - d->count);
    return status;
}

static brasa_status open_parts(dataset *d, const char *root)
{
    int32_t *ends[MAX_PARTS] = {NULL};
    const char *train = pool_text(&d->pool, "%s/train", root), *test = pool_text(&d->pool, "%s/test", root);
    brasa_status status;
    if (!train || !test)
        return fail_memory(d->ctx, 0);
    if (is_folder(train) && is_folder(test)) {
        status = add_part(d, train, "train", &ends[0]);
        if (status == BRASA_OK)
            status = add_part(d, test, "test", &ends[1]);
    } else {
        status = add_part(d, root, "all", &ends[0]);
    }
    if (status == BRASA_OK)
        status = dataset_make_labels(d);
    for (int part = 0; status == BRASA_OK && part < d->parts; part++) {
        int32_t at = d->part[part].begin;
        for (int c = 0; c < d->classes; c++)
            while (at < ends[part][c])
                d->label[at++] = c;
    }
    return status;
}

static brasa_status images_open(dataset *d, const data_spec *s)
{
    state *st = pool_get(&d->pool, 1, sizeof *st);
    if (!(d->state = st))
        return fail_memory(d->ctx, sizeof *st);
    st->root = s->path;
    d->channels = 3;
    d->varied = true;
    const char *column = spec_get(s, "groups");
    if (column && !(st->index = pool_text(&d->pool, "%s/index.csv", s->path)))
        return fail_memory(d->ctx, 0);
    brasa_status status = open_parts(d, s->path);
    if (status == BRASA_OK && st->passed_over &&
        !(d->note =
              pool_text(&d->pool, "%d files that are not .jpg, .jpeg or .png were passed over", st->passed_over)))
        status = fail_memory(d->ctx, 0);
    return status == BRASA_OK && column ? dataset_read_groups(d, s->path, st->index, column) : status;
}

static sample_name images_name(const dataset *d, int32_t sample)
{
    const state *s = d->state;
    const char *part = d->parts == 1 ? "" : sample < d->part[1].begin ? "train/" : "test/";
    sample_name n;
    snprintf(n.text, sizeof n.text, "%s/%s%s/%s", s->root, part, d->class_name[d->label[sample]], s->file[sample]);
    return n;
}

static brasa_status read_file(brasa_context *errors, const char *path, picture *p)
{
    data_file f;
    brasa_status status = file_open(errors, path, &f);
    if (status != BRASA_OK)
        return status;
    if (f.size > MOST_FILE)
        status = fail(errors, BRASA_BAD_FILE, "%s: a file of %lld bytes: at most 268 million are read", path,
                      (long long)f.size);
    if (status == BRASA_OK)
        status = picture_file(errors, p, (size_t)f.size);
    if (status == BRASA_OK)
        status = file_exact(&f, p->file, (size_t)f.size);
    file_close(&f);
    return status;
}

static brasa_status images_read(const dataset *d, brasa_context *errors, int32_t sample, picture *p)
{
    return read_file(errors, images_name(d, sample).text, p);
}

brasa_status picture_read(brasa_context *errors, const char *path, picture *p)
{
    brasa_status status = read_file(errors, path, p);
    if (status == BRASA_OK && (status = codec_decode(errors, p, p->file_bytes)) == BRASA_BAD_FILE)
        fail_prefix(errors, "%s", path);
    return status;
}

const source images_source = {
    .info = {"images", "images:DIR[,groups=COLUMN]",
             "a folder a class with JPEG and PNG files; or DIR/train and DIR/test with such. Splits keep together "
             "what DIR/index.csv (file, COLUMN) says"},
    .keys = "groups",
    .open = images_open,
    .read = images_read,
    .name = images_name,
};
