/* split.h - which samples train and which test: lists of sample numbers.
 *
 * By default samples are shuffled (by the seed alone) and every class is shared out in the same proportion. Without
 * either, folds are those of scikit-learn's KFold, and a share is that of its train_test_split: the first samples
 * train.
 *
 * Samples of one group (dataset.h) are never parted: groups are shared out as samples are, in the order in which the
 * first of each is drawn, so that there may be as many folds as groups.
 */
#ifndef DATA_SPLIT_H
#define DATA_SPLIT_H

#include "data/dataset.h"

typedef enum split_kind {
    SPLIT_ALL,   /* every sample trains, none tests */
    SPLIT_PARTS, /* as the set comes: its first part trains, its second one tests */
    SPLIT_SHARE, /* `share` percent of the union of the parts train, the others test */
    SPLIT_FOLDS, /* fold `fold` of `folds` of the union tests, the others train */
} split_kind;

typedef struct split_options {
    split_kind kind;
    int share;       /* 1 to 99 */
    int folds, fold; /* 2 to the number of samples; 0 to folds - 1 */
    bool no_stratify, no_shuffle;
    uint64_t seed;
} split_options;

typedef struct split {
    brasa_context *ctx;
    int32_t *train, *test; /* each in the order in which they were drawn */
    int32_t trains, tests;
} split;

/* "all", "parts" or "70/30", into kind and share. */
brasa_status split_parse(brasa_context *ctx, const char *text, split_options *out);
/* Fails where a fold, or a list of a share, would have no sample. */
brasa_status split_make(const dataset *d, const split_options *o, split *out);
void split_free(split *s);

/* Takes the samples that cannot be read out of both lists. */
void split_drop(split *s, const dataset_report *r);

/* As a text file, one number a line under the words "train" and "test". What is read is checked against the set:
 * every number once at most, and within it. */
brasa_status split_write(const split *s, const char *path);
brasa_status split_read(const dataset *d, const char *path, split *out);

/* The classes that the list lacks; the first of them in *first. */
int split_missing(const dataset *d, const int32_t *list, int32_t count, int *first);

#endif
