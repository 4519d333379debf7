/* trained.h - what a run has learned, ready to be used: its network with its weights, for evaluation only. It comes
 * from the run's folder, or from a weights file that says what network it is of (notes.c). */
#ifndef TRAIN_TRAINED_H
#define TRAIN_TRAINED_H

#include "train/record.h"

typedef struct trained {
    task task;
    run_info run;
    const char *folder; /* of the run, or of the fold; or the weights file */
    bool file;          /* it is a weights file */
    brasa_session *session;
} trained;

typedef struct trained_options {
    dataset *set;          /* the caller's, in place of spec; NULL: see spec */
    brasa_graph *graph;    /* the caller's, in place of the run's model; NULL: that */
    int fold;              /* from 1; 0: the run has no folds */
    const char *spec;      /* a set to open; "": the run's own, which must not have changed since; NULL: none */
    int64_t most;          /* samples of a batch */
    int64_t mem;           /* or fewer, so that session and loader stay within so many bytes; 0: any number */
    const char *precision; /* of a GPU; NULL: as the run was trained */
    bool (*watch)(void *user, int64_t done, int64_t total, const char *note); /* as in brasa_tuning; or NULL */
    void *user;
} trained_options;

/* With the run's weights, or its last checkpoint's where it has none yet; or with those of the file. To be closed
 * whatever came back. */
brasa_status trained_open(brasa_context *ctx, const char *path, const trained_options *o, trained *out);
void trained_close(trained *t);

/* Counts over a list of samples of the set. */
brasa_status trained_measure(trained *t, const int32_t *list, int32_t count, metrics *m);

/* The samples that are measured: what `text` leaves to test on, or the data's own part; with neither a text nor other
 * data, those that the run tested on. */
brasa_status trained_split(const trained *t, const char *text, bool other, split *out);

/* The probabilities of all classes for all samples of the set, one after the other. */
brasa_status trained_predict_all(trained *t, double *probability);
/* The probabilities of all classes for one picture in a file, where no set was opened. Pictures of any size are
 * taken: where the run's own were as large as the network's input, they are resized to it. */
brasa_status trained_predict(trained *t, const char *path, double *probability);

#endif
