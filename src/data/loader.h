/* loader.h - batches for a session, made ready while it works on the ones before.
 *
 *     feeder *f;                                       one for a training: set, transform, kept pictures, thread
 *     feeder_new(ctx, &(feeder_options){.set = d, .transform = &t, .budget = 1 << 30}, &f);
 *     loader *train;                                   one for each list of samples
 *     loader_new(f, &(loader_options){.list = s.train, .count = s.trains, .batch = 32, .train = true, ...}, &train);
 *     const batch *b;
 *     for (each step)
 *         if (loader_next(train, &b) == BRASA_OK) feed b->input and b->labels, run the step
 *
 * A feeder has one thread, whatever the number of its loaders, and none for vectors in memory: beside the pool of a
 * context's threads the process then has one more, and no other. It never touches the context: batches and kept
 * pictures come from the context's memory when they are made, and what decoding needs comes from malloc and is kept
 * for the next picture.
 *
 * Which samples a batch holds and how they are changed depends on (seed, epoch, step) alone: not on threads, time,
 * budget, or what was loaded before.
 */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "data/transform.h"

typedef struct feeder feeder;
typedef struct loader loader;

typedef struct feeder_options {
    const dataset *set;         /* must outlive the feeder */
    const transform *transform; /* copied */
    layout layout;              /* of a batch, as the session's input wants it; zero: plain */
    const picture_size *sizes;  /* of varied pictures: dataset_report's, until the feeder is there; NULL: not known */
    int64_t budget;             /* bytes for pictures that are kept, decoded, so that later epochs read no files */
    /* Of pictures: batches are bytes, which whoever computes cuts, mirrors and makes numbers of; the layout means
     * nothing then. They come cut out, or whole, for somebody who keeps them (feeder_skip): if so, sizes of varied
     * pictures must be known. */
    bool bytes, whole;
} feeder_options;

brasa_status feeder_new(brasa_context *ctx, const feeder_options *o, feeder **out);
/* After its loaders. */
void feeder_free(feeder *f);
/* Channels, height, width of what it gives: the input that the network must have. */
const int *feeder_shape(const feeder *f);
/* Bytes that the feeder holds in the context's memory: at most the budget, and a few for each sample. What it would
 * be can be asked for before, too; `of` is transform_shape's. */
int64_t feeder_bytes(const feeder_options *o, const int of[3]);
/* Bytes of all pictures of the set as a feeder has them that gives them whole: at most; -1: not known. */
int64_t feeder_whole(const feeder_options *o, const int of[3]);
/* Bytes of the largest picture in a batch of bytes. */
int64_t feeder_largest(const feeder_options *o, const int of[3]);
/* Somebody has the bytes of a sample, whose picture is of this size: batches that are begun from now on come without
 * them. */
void feeder_skip(feeder *f, int32_t sample, int height, int width);
/* Samples read and decoded so far, in all: the others were kept. */
int64_t feeder_decoded(feeder *f);

typedef struct loader_options {
    const int32_t *list; /* sample numbers; must outlive the loader */
    int32_t count;
    int32_t batch;
    bool train; /* shuffled in each epoch, and changed at random; else in the list's order, as they are */
    uint64_t seed;
} loader_options;

/* Of a batch of bytes: what of a picture is the sample, and where it begins in `pixels`; -1: it was skipped. */
typedef struct batch_cut {
    transform_cut cut;
    int64_t offset;
} batch_cut;

typedef struct batch {
    int32_t size;       /* samples: `batch`, or what is left at an epoch's end */
    const float *input; /* NULL: they are bytes */
    size_t input_bytes;
    const unsigned char *pixels; /* whole pictures, one after the other: rows of pixels; memory of pinned_get */
    size_t pixel_bytes;
    const batch_cut *cuts; /* of each sample */
    const int32_t *labels;
    const int32_t *samples; /* their numbers in the set */
    int64_t epoch, step;    /* from 0; steps begin anew in each epoch */
} batch;

brasa_status loader_new(feeder *f, const loader_options *o, loader **out);
void loader_free(loader *l);
/* Bytes that a loader holds: two batches, and its order. */
int64_t loader_bytes(const feeder_options *f, const loader_options *o, const int of[3]);
/* Batches in an epoch. */
int64_t loader_steps(const loader *l);
/* The next batch will be this one, and is begun with; steps past the end of an epoch are counted on into the next. A
 * new loader stands at (0, 0). */
brasa_status loader_seek(loader *l, int64_t epoch, int64_t step);
/* Borrowed until the next call for this loader. After the last step of an epoch comes the first of the next. A file
 * that cannot be read fails the call; the next one tries the same batch again. */
brasa_status loader_next(loader *l, const batch **out);

#endif
