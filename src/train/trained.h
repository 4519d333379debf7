/* trained.h - what a run has learned, ready to be used: its network with its weights, for evaluation only. */
#ifndef TRAIN_TRAINED_H
#define TRAIN_TRAINED_H

#include "train/record.h"

typedef struct trained {
    task task;
    run_info run;
    const char *folder; /* of the run, or of the fold */
    brasa_session *session;
} trained;

/* With the run's weights, or its last checkpoint's where it has none yet. fold: from 1; 0: the run has no folds.
 * spec: a set to open; "": the run's own, which must not have changed since; NULL: none. Batches are of `most`
 * samples; mem: or of fewer, so that session and loader stay within so many bytes; 0: any number. To be closed
 * whatever came back. */
brasa_status trained_open(brasa_context *ctx, const char *folder, int fold, const char *spec, int64_t most,
                          int64_t mem, trained *out);
void trained_close(trained *t);

/* Counts over a list of samples of the set. */
brasa_status trained_measure(trained *t, const int32_t *list, int32_t count, metrics *m);

/* The probabilities of all classes for one picture in a file. Pictures of any size are taken: where the run's own
 * were as large as the network's input, they are resized to it. */
brasa_status trained_predict(trained *t, const char *path, double *probability);

#endif
