/* source.h - what a source of data brings: a row of the table in dataset.c, and what sources share.
 *
 * A source is one file. `open` fills the set's counts, classes, labels and sizes from a spec, all memory from the
 * set's pool; `read` fetches one sample, by several threads at once.
 */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "data/dataset.h"

enum { MAX_SETTINGS = 8 };

typedef struct data_spec {
    const char *path; /* what stands after the colon */
    int settings;
    struct {
        const char *key, *value; /* a bare key has the value "yes" */
    } setting[MAX_SETTINGS];
} data_spec;

typedef struct source {
    source_info info;
    const char *keys; /* the settings it takes, with blanks between them */
    brasa_status (*open)(dataset *d, const data_spec *s);
    /* Pixels into p; of a set of `varied` pictures the bytes of a JPEG or PNG file into p->file. */
    brasa_status (*read)(const dataset *d, brasa_context *errors, int32_t sample, picture *p);
    /* Of a set of vectors that lie in memory, in place of read. */
    const float *(*numbers)(const dataset *d, int32_t sample);
    /* Several samples, dense, in any order: floats, channels x height x width, of a set that has numbers; else bytes,
     * height x width x channels. In place of `read`, or of `numbers`, or of both: then samples come from the caller's
     * code, and a loader asks for those of a batch at once. */
    brasa_status (*many)(const dataset *d, brasa_context *errors, const int32_t *samples, int32_t count, void *out);
    sample_name (*name)(const dataset *d, int32_t sample);
    /* Writes a text that says all that the samples depend on, beside what `dataset` says, and the size of pictures
     * that are drawn in files. False, or NULL: the samples are what reading them gives. */
    bool (*define)(const dataset *d, char *text, size_t size, picture_size *each);
    void (*close)(dataset *d); /* what is not in the pool; NULL: nothing */
} source;

/* A set of a source that no spec opens; `spec` is what messages call it. */
brasa_status dataset_new(brasa_context *ctx, const source *from, const char *spec, dataset **out);
/* Sets *out, or frees the set where `status` is a failure; returns `status`. */
brasa_status dataset_hand_over(dataset *d, brasa_status status, dataset **out);
/* Whether samples come from the caller's code, which may take its time, and gives several of them at once. */
bool dataset_asks(const dataset *d);
/* Undecoded: a picture's pixels, or its file's bytes. */
brasa_status dataset_read_bytes(const dataset *d, brasa_context *errors, int32_t sample, picture *p);

extern const source idx_source, cifar10_source, cifar100_source, csv_source, images_source, synth_source;

/* A setting's value, or NULL. */
const char *spec_get(const data_spec *s, const char *key);
/* A number from low to high; *out stays where the setting is not given. */
brasa_status spec_number(brasa_context *ctx, const data_spec *s, const char *key, int64_t low, int64_t high,
                         int64_t *out);
/* yes or no. */
brasa_status spec_flag(brasa_context *ctx, const data_spec *s, const char *key, bool *out);

/* Room for the labels, once d->count is known. */
brasa_status dataset_make_labels(dataset *d);
/* Names for d->classes classes: "0", "1", ... */
brasa_status dataset_number_classes(dataset *d);
/* The same with the caller's names, which may be NULL. */
brasa_status dataset_name_classes(dataset *d, const char *const *names);
/* Appends a part behind those there are. */
void dataset_add_part(dataset *d, const char *name, int32_t count);

/* groups.c: d->group from a column of a table, whose files are below root. */
brasa_status dataset_read_groups(dataset *d, const char *root, const char *path, const char *column);

/* Room for pixels of this size, or for a file's bytes; what was there is lost. */
brasa_status picture_shape(brasa_context *ctx, picture *p, int channels, int height, int width);
brasa_status picture_file(brasa_context *ctx, picture *p, size_t bytes);

/* --- files (files.c) ----------------------------------------------------------------------------------------- */

/* A regular file that is read from its beginning to its end, unpacked where its name ends in .gz. */
typedef struct data_file {
    brasa_context *ctx; /* for errors */
    const char *path;   /* the caller's */
    int fd;
    void *unpacker; /* of a .gz file */
    int64_t size;   /* of the file as it lies there */
    int64_t place;  /* bytes read */
} data_file;

brasa_status file_open(brasa_context *ctx, const char *path, data_file *f);
void file_close(data_file *f);
bool file_exists(const char *path);
/* At most `bytes`; *got is less only at the end. */
brasa_status file_some(data_file *f, void *to, size_t bytes, size_t *got);
/* Exactly `bytes`, or an error that says how much is missing. */
brasa_status file_exact(data_file *f, void *to, size_t bytes);
/* There is nothing more. */
brasa_status file_ended(data_file *f);
/* Whether the file may hold this many bytes more: no packed file becomes more than 1032 times as long. */
bool file_may_hold(const data_file *f, int64_t bytes);
/* Bytes at a place of a plain file, by any thread. */
brasa_status file_at(brasa_context *errors, const char *path, int fd, int64_t place, void *to, size_t bytes);

#endif
