/* settings.h - everything that a user decides about a training, in one plain struct and one list of its members.
 *
 * The list is what run.json is written and read through, so that a run that is resumed, evaluated or repeated has
 * the same settings as the one that was started. */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H

#include "core/json.h"
#include "core/json_scan.h"
#include "core/pool.h"

typedef struct train_settings {
    const char *model;     /* a name, or the path of a .net file */
    const char *data;      /* see data/dataset.h */
    const char *split;     /* "all", "parts", "70/30"; NULL: "parts" where the set has two, else "all" */
    const char *transform; /* see data/transform.h; NULL: what the network and the set ask for */
    const char *dialect;   /* NULL: "torch" */
    const char *optimizer; /* NULL: TRAIN_OPTIMIZER */
    const char *schedule;  /* NULL: "constant"; a cosine without steps ends with the last epoch */
    const char *weights;   /* a file to start from; NULL: random numbers */
    const char *keep;      /* "best", "last", or a number: that many epochs' checkpoints; NULL: "best" where there are
                              samples to test on, else "last" */
    const char *freeze;    /* parameters that stay as they are: see brasa_session_options; NULL: none */
    const char *class_weights; /* "balanced", or a number for each class, "1,2.5"; NULL: all count the same */
    const char *device;        /* "cpu", "cuda:0 NVIDIA H200": the context's, here for the record */
    const char *precision;     /* of a GPU: "f32", "tf32" or "bf16"; NULL: "f32" */
    int64_t epochs, batch;     /* 0: 10, 32 */
    int64_t mem;           /* bytes that session and loader stay within, on a device the session alone; 0: as many as
                              they need, on a device as many as it has */
    int64_t seed, threads; /* threads are the context's, here for the record */
    int64_t folds, fold;   /* 0: no folds; fold 1 to folds: only this one, 0: one after the other */
    int64_t patience;      /* stop after so many epochs without a better one; 0: never */
    double clip_norm;      /* 0: not at all */
    double save_every;     /* seconds between checkpoints, beside those at the end of each epoch; 0: TRAIN_SAVE_EVERY,
                              below 0: none beside them */
    bool no_stratify, no_shuffle, no_augment, skip_bad;
    bool deterministic; /* the same bits whatever the number of threads */
    bool no_tune;       /* the first kernels that fit: see train_options.tuning */
} train_settings;

#define TRAIN_OPTIMIZER  "sgd lr=0.01 momentum=0.9"
#define TRAIN_SAVE_EVERY 300.0

/* Fills in the defaults that depend on nothing else, and checks the ranges of numbers. */
brasa_status settings_complete(brasa_context *ctx, train_settings *s);

/* BRASA_F32, ... of a word; NULL: BRASA_F32. Refused where the context computes on the CPU, which has but that one.
 */
brasa_status precision_read(brasa_context *ctx, const char *word, int32_t *out);
/* The word of one. Static. */
const char *precision_word(int32_t precision);

/* Whether the learning rate's schedule ends with the last epoch: a cosine that does not say when. */
bool settings_schedule_ends(const train_settings *s);

/* The members of an open object. */
void settings_json(json *j, const train_settings *s);
/* The index-th: its name, and its value as a text; false past the last one. */
bool settings_at(const train_settings *s, int index, const char **name, char *text, size_t size);
/* The value of one member, into `out`, texts into the pool; what is not known is passed over. */
typedef struct settings_reader {
    train_settings *out;
    pool *pool;
} settings_reader;
brasa_status settings_read(json_scan *s, char *key, void *reader);

/* A number for all settings that decide what is learned: equal settings, equal numbers. */
uint64_t settings_digest(const train_settings *s);

#endif
