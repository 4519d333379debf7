/* loader_parts.h - feeders and loaders from inside: what feeder.c and loader.c share.
 *
 * A loader has two batches: one that its user works on, and one that is being filled. To fill one is a job; a feeder
 * has a queue of them and one thread that takes them in turn. Each loader has at most one job waiting or running, so
 * that a job's loader, its batch and its order belong to the thread until it is done, and then to the user. The kept
 * pictures and the memory for decoding are the thread's alone. Jobs run in the caller where no thread can be made,
 * and for vectors in memory: copying them takes a microsecond a batch, handing the job over and back ten.
 */
#ifndef DATA_LOADER_PARTS_H
#define DATA_LOADER_PARTS_H

#include "data/loader.h"

#include <pthread.h>

typedef struct kept {
    int64_t place; /* in the block, plus 1; 0: not kept */
    int32_t height, width;
} kept;

struct feeder {
    brasa_context *ctx;
    const dataset *set;
    transform transform;
    int shape[3];
    bool bytes, whole;
    int64_t largest; /* bytes of a picture in a batch of such, at most */
    int64_t sample;  /* floats of a sample in a batch */
    size_t raw;      /* bytes of a sample that is read into loader.raw first; 0: none is */
    int64_t *table;  /* of offsets: see transform_target */
    transform_target target;

    brasa_context *own; /* of whoever runs jobs: errors, and malloc */
    picture picture, spare;
    kept *kept; /* of every sample; NULL: nothing is kept */
    unsigned char *block;
    int64_t room, used;

    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock; /* of what follows, and of the loaders' `done` and `next` */
    pthread_cond_t work, done;
    loader *first, *last;  /* the queue */
    picture_size *skipped; /* of every sample that somebody has: its picture's size; NULL: they come always */
    int64_t decoded;
    bool stop;
};

struct loader {
    feeder *f;
    loader_options options;
    int32_t *order; /* of epoch `ordered`, -1: not yet made */
    int64_t ordered;
    batch batch[2];
    float *input[2];
    unsigned char *pixels[2];
    batch_cut *cuts[2];
    int32_t *labels[2], *samples[2];
    unsigned char *raw;  /* samples of the batch being filled, as the set gives several of them (source.many) */
    int32_t *asked, *at; /* the samples in `raw`; for each of the batch its place there, or -1 */
    int64_t epoch, step; /* of the next batch that is handed out */
    int turn;            /* which of the two that is */
    bool submitted;      /* a job for that batch is waiting, running or done: the caller's word */
    bool done;           /* the thread's */
    brasa_status status; /* of the job, with its text */
    char error[ERROR_TEXT_SIZE];
    loader *next; /* in the queue */
};

/* loader.c: fills the batch whose turn it is; the status and its text are in the loader then. */
void loader_run_job(loader *l);
/* feeder.c: gives a loader's batch to be filled, and waits until it is, if it was given. */
void feeder_submit(loader *l);
void feeder_finish(loader *l);
/* feeder.c: feeder.raw. */
size_t feeder_raw(const feeder_options *o);
/* feeder.c: so many samples. */
shape feeder_batch_shape(const int of[3], int64_t n);

#endif
