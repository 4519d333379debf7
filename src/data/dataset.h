/* dataset.h - labelled samples to learn from: what every source of data gives, whatever its format.
 *
 * A set is opened from a text, its spec: the source's word, a colon, a path or a name, then settings.
 *     idx:DIR                         MNIST's files, plain or .gz, of training and of test
 *     cifar10:DIR  cifar100:DIR,coarse
 *     csv:FILE,label=class            one line a sample; the label's column by name or by number, from 1
 *     images:DIR                      a folder a class with JPEG and PNG files; perhaps in DIR/train and DIR/test
 *     synth:fire,n=6003               drawn here: fire, digits, cifar10, cifar100, letter
 * The caller of the library may also give arrays (memory.c) or a callback (callback.c): no spec opens these.
 * Samples have numbers, from 0: first those of the first part ("train"), then those of the second ("test"). Splits
 * and folds are lists of these numbers (split.h), loaders go through such a list (loader.h).
 *
 * Opening reads labels and names, checks headers and sizes, and keeps a few bytes a sample; pixels are read when they
 * are asked for, unless the file is compressed. Sets hold up to some hundred thousand samples. An open set does not
 * change: any thread may read from it, each with a picture and a context (for errors) of its own.
 */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "core/pool.h"

enum {
    MAX_CLASSES = 65536,
    MAX_SIDE = 16384, /* pixels of a picture's side: beyond any camera, and what is decoded still fits into memory */
    MIN_SIDE = 4,
    MAX_PARTS = 2,
    HASH_TEXT_SIZE = 65, /* SHA-256 in hexadecimal */
};

/* A decoded picture, height x width x channels bytes, row after row, and the memory for reading it; reused for one
 * sample after another, so that steady reading allocates nothing. All zero to begin with; picture_free at the end. */
typedef struct picture {
    int channels, height, width;
    int full_height, full_width; /* before it was decoded at less than its size */
    unsigned char *pixels;
    int least;      /* the caller's wish: the shorter side need not have more pixels than this; 0: all there are */
    bool size_only; /* the caller's wish: of a file no pixels, only full_height and full_width */
    size_t file_bytes, room, file_room;
    unsigned char *file; /* what was read from the disk */
} picture;

typedef struct dataset_part {
    const char *name; /* "train", "test", or "all" where there is one part only */
    int32_t begin, count;
} dataset_part;

typedef struct brasa_data {
    brasa_context *ctx;
    pool pool;
    const char *spec; /* as it was given */
    int32_t count;    /* samples of all parts */
    int parts;
    dataset_part part[MAX_PARTS];
    int classes;
    const char **class_name; /* printable */
    int32_t *label;          /* of every sample, 0 to classes - 1 */
    int32_t *group; /* of every sample, 0 to groups - 1: splits keep a group together. NULL: each is its own */
    int32_t groups;
    /* Of a sample: 8-bit pixels, or numbers (`numbers`), which no transform changes: C x H x W of them, or a vector
     * of `channels` where height and width are 0. Images in JPEG or PNG files, of various sizes (`varied`), have
     * height and width 0 too. */
    int channels, height, width;
    bool numbers, varied;
    int64_t bytes;      /* held in memory for samples: numbers, files that had to be unpacked */
    const char *header; /* of a table: whether its first line is one, "yes" or "no"; else NULL */
    const char *note;   /* what a user should know (files passed over), or NULL */
    const struct source *source;
    void *state; /* the source's own */
} dataset;

brasa_status dataset_open(brasa_context *ctx, const char *spec, dataset **out);
void dataset_close(dataset *d);

/* The pixels of a sample. Errors, which name the file, go to `errors`; so does the memory come from there. */
brasa_status dataset_read(const dataset *d, brasa_context *errors, int32_t sample, picture *p);
/* The numbers of a sample, d->channels of them, of a set that holds vectors; borrowed from the set. */
const float *dataset_numbers(const dataset *d, int32_t sample);
/* Numbers of a sample of any set that has such. */
int64_t dataset_sample_numbers(const dataset *d);
/* Reads the numbers of several samples, one sample after the other: channels, then rows. */
brasa_status dataset_read_numbers(const dataset *d, brasa_context *errors, const int32_t *samples, int32_t count,
                                  float *out);
/* What to call a sample in a message: its file, or "train-images-idx3-ubyte, picture 7". */
typedef struct sample_name {
    char text[4096];
} sample_name;
sample_name dataset_name(const dataset *d, int32_t sample);

/* A picture of no set: a JPEG or PNG file. */
brasa_status picture_read(brasa_context *errors, const char *path, picture *p);
void picture_free(brasa_context *ctx, picture *p);

/* What a look at every sample shows. */
typedef struct picture_size {
    int32_t height, width;
} picture_size;

typedef struct dataset_bad {
    int32_t sample;
    const char *why; /* with the file's name */
} dataset_bad;

typedef struct dataset_report {
    pool pool;
    char hash[HASH_TEXT_SIZE]; /* of labels, class names and every sample's bytes: the same data, the same text */
    bool defined;              /* it is the hash of what defines the samples instead: see dataset_identify */
    int32_t *per_class;        /* samples of each class */
    dataset_bad *bad;          /* that cannot be decoded, in order */
    int32_t nbad;
    int32_t duplicates; /* samples whose bytes an earlier one has */
    int bad_capacity;
    picture_size *size;  /* of every picture in a file, 0 where it cannot be read; NULL of other sets */
    int low[2], high[2]; /* the smallest and the largest height and width seen */
} dataset_report;

/* Reads every sample once. decode: pictures in files are decoded too, which finds all that are broken; else only
 * their headers are. `progress`, which may be NULL, is called after each; false stops it with BRASA_WRONG_STATE. To
 * be freed whatever came back. */
brasa_status dataset_examine(const dataset *d, bool decode, bool (*progress)(void *user, int32_t done), void *user,
                             dataset_report *out);
/* The same for a set that is about to be used. Of a set that is drawn no sample is read: they are what its settings
 * and the version of the drawings make them, so these are what the hash is of, and nothing can be broken. */
brasa_status dataset_identify(const dataset *d, bool decode, bool (*progress)(void *user, int32_t done), void *user,
                              dataset_report *out);
void dataset_report_free(dataset_report *r);

/* The sources there are, for help texts; NULL past the last one. */
typedef struct source_info {
    const char *name;    /* "csv" */
    const char *form;    /* "csv:FILE[,label=NAME|N][,header=yes|no]" */
    const char *summary; /* one line */
} source_info;
const source_info *source_at(int index);

#endif
