/* make.c - drawn sets as files of the real sets' formats. The folder is new or empty, so nothing is ever replaced. */
#define _POSIX_C_SOURCE 200809L
#include "data/make.h"
#include "data/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { BATCHES = 5 /* of CIFAR-10's training part */, EVERY = 64 };

typedef struct writer {
    const dataset *d;
    const char *folder;
    make_progress progress;
    void *user;
    char path[4096]; /* of the file in hand */
    FILE *f;
    picture p;
} writer;

static brasa_status refuse(const writer *w, const char *path)
{
    return fail(w->d->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
}

static brasa_status make_folder(const writer *w, const char *path)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ? BRASA_OK : refuse(w, path);
}

static brasa_status check_empty(const writer *w)
{
    int entries = 0;
    DIR *dir = opendir(w->folder);
    if (!dir)
        return refuse(w, w->folder);
    for (struct dirent *e; (e = readdir(dir));)
        entries += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return entries ? fail(w->d->ctx, BRASA_BAD_FILE, "%s: the folder is not empty: nothing was written", w->folder)
                   : BRASA_OK;
}

static brasa_status open_file(writer *w, const char *format, ...) BRASA_PRINTF(2, 3);
static brasa_status open_file(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int used = snprintf(w->path, sizeof w->path, "%s/", w->folder);
    vsnprintf(w->path + used, sizeof w->path - (size_t)used, format, args);
    va_end(args);
    w->f = fopen(w->path, "wbe");
    return w->f ? BRASA_OK : refuse(w, w->path);
}

static void put(writer *w, const void *data, size_t bytes)
{
    fwrite(data, 1, bytes, w->f); /* close_file looks whether it went well */
}

static brasa_status close_file(writer *w, brasa_status status)
{
    const bool bad = ferror(w->f) != 0;
    if ((fclose(w->f) != 0 || bad) && status == BRASA_OK)
        status = refuse(w, w->path);
    return status;
}

/* Reads a sample and tells how far it is. */
static brasa_status next(writer *w, int32_t sample)
{
    if (sample % EVERY == 0 && w->progress && !w->progress(w->user, "samples", sample, w->d->count))
        return fail(w->d->ctx, BRASA_WRONG_STATE, "stopped");
    return w->d->numbers ? BRASA_OK : w->d->source->read(w->d, w->d->ctx, sample, &w->p);
}

/* --- the formats ----------------------------------------------------------------------------------------------- */

static brasa_status make_images(writer *w)
{
    const dataset *d = w->d;
    brasa_status status = BRASA_OK;
    for (int c = 0; c < d->classes && status == BRASA_OK; c++) {
        snprintf(w->path, sizeof w->path, "%s/%s", w->folder, d->class_name[c]);
        status = make_folder(w, w->path);
    }
    for (int32_t i = 0; i < d->count && status == BRASA_OK; i++) {
        if ((status = next(w, i)) != BRASA_OK)
            break;
        status = open_file(w, "%s/%06d.jpg", d->class_name[d->label[i]], (int)i);
        if (status == BRASA_OK) {
            put(w, w->p.file, w->p.file_bytes);
            status = close_file(w, status);
        }
    }
    return status;
}

static void put_big(writer *w, int32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        put(w, (unsigned char[]){(unsigned char)(number >> shift)}, 1);
}

static brasa_status make_idx(writer *w)
{
    static const char *const prefixes[] = {"train", "t10k"};
    const dataset *d = w->d;
    brasa_status status = BRASA_OK;
    for (int part = 0; part < d->parts && status == BRASA_OK; part++) {
        const dataset_part *p = &d->part[part];
        if ((status = open_file(w, "%s-images-idx3-ubyte", prefixes[part])) != BRASA_OK)
            return status;
        put(w, "\0\0\x08\x03", 4);
        put_big(w, p->count);
        put_big(w, d->height);
        put_big(w, d->width);
        for (int32_t i = 0; i < p->count && status == BRASA_OK; i++)
            if ((status = next(w, p->begin + i)) == BRASA_OK)
                put(w, w->p.pixels, (size_t)d->height * (size_t)d->width);
        status = close_file(w, status);
        if (status != BRASA_OK || (status = open_file(w, "%s-labels-idx1-ubyte", prefixes[part])) != BRASA_OK)
            return status;
        put(w, "\0\0\x08\x01", 4);
        put_big(w, p->count);
        for (int32_t i = 0; i < p->count; i++)
            put(w, (unsigned char[]){(unsigned char)d->label[p->begin + i]}, 1);
        status = close_file(w, status);
    }
    return status;
}

/* Samples begin ... end - 1 as records, into the open file. A hundred classes have their coarse label before. */
static brasa_status put_records(writer *w, int32_t begin, int32_t end)
{
    const dataset *d = w->d;
    const int plane = d->height * d->width;
    brasa_status status = BRASA_OK;
    for (int32_t i = begin; i < end && (status = next(w, i)) == BRASA_OK; i++) {
        if (d->classes == 100)
            put(w, (unsigned char[]){(unsigned char)(d->label[i] / 5)}, 1);
        put(w, (unsigned char[]){(unsigned char)d->label[i]}, 1);
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < plane; k++)
                put(w, w->p.pixels + 3 * k + c, 1);
    }
    return close_file(w, status);
}

static brasa_status make_cifar(writer *w)
{
    const dataset *d = w->d;
    const bool ten = d->classes == 10;
    const int32_t trains = d->part[0].count, files = ten ? BATCHES : 1;
    brasa_status status = BRASA_OK;
    for (int32_t i = 0; i < files && status == BRASA_OK; i++) {
        const int32_t begin = (int32_t)((int64_t)trains * i / files),
                      end = (int32_t)((int64_t)trains * (i + 1) / files);
        status = ten ? open_file(w, "data_batch_%d.bin", (int)i + 1) : open_file(w, "train.bin");
        if (status == BRASA_OK)
            status = put_records(w, begin, end);
    }
    if (status == BRASA_OK)
        status = open_file(w, "%s", ten ? "test_batch.bin" : "test.bin");
    return status == BRASA_OK ? put_records(w, trains, d->count) : status;
}

static brasa_status make_csv(writer *w)
{
    const dataset *d = w->d;
    brasa_status status = open_file(w, "letter-recognition.data");
    if (status != BRASA_OK)
        return status;
    for (int32_t i = 0; i < d->count && (status = next(w, i)) == BRASA_OK; i++) {
        fputs(d->class_name[d->label[i]], w->f);
        for (int k = 0; k < d->channels; k++)
            fprintf(w->f, ",%d", (int)dataset_numbers(d, i)[k]);
        fputc('\n', w->f);
    }
    return close_file(w, status);
}

brasa_status dataset_make(const dataset *d, const char *folder, make_progress progress, void *user, char *out,
                          size_t size)
{
    writer w = {.d = d, .folder = folder, .progress = progress, .user = user};
    if (d->source != &synth_source || (!d->varied && !d->numbers && d->channels == 3 && d->classes == 20))
        return fail(d->ctx, BRASA_BAD_ARGUMENT,
                    "data '%s': only drawn sets, such as synth:fire, are made (not coarse)", d->spec);
    brasa_status status = make_folder(&w, folder);
    if (status == BRASA_OK)
        status = check_empty(&w);
    if (status == BRASA_OK)
        status = d->varied          ? make_images(&w)
                 : d->numbers       ? make_csv(&w)
                 : d->channels == 1 ? make_idx(&w)
                                    : make_cifar(&w);
    picture_free(d->ctx, &w.p);
    if (d->numbers)
        snprintf(out, size, "csv:%s/letter-recognition.data", folder);
    else
        snprintf(out, size, "%s:%s",
                 d->varied          ? "images"
                 : d->channels == 1 ? "idx"
                 : d->classes == 10 ? "cifar10"
                                    : "cifar100",
                 folder);
    return status;
}
