/* checkpoint.h - a training put away so that it goes on as if nothing had been: a safetensors file with the weights,
 * the optimizer's memory and the step count as tensors, and the place in the training as notes. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "train/train.h"

/* What must be the same for the same bits. */
typedef struct checkpoint_terms {
    uint64_t settings;              /* settings_digest */
    const char *device, *precision; /* as in the settings */
    int threads;                    /* 0: their number does not matter */
    int64_t parts;                  /* in which a batch is computed */
    const char *kernels;            /* names, with blanks between them */
} checkpoint_terms;

/* unit.c: those of the training's unit. */
checkpoint_terms unit_terms(const training *t);

brasa_status checkpoint_save(brasa_session *s, const char *path, const train_place *p, const checkpoint_terms *terms,
                             const alarm_list *alarms);
/* Adds the alarms raised before the checkpoint to the list, the texts into the pool. */
brasa_status checkpoint_alarms(pool *p, const char *path, alarm_list *out);
/* The parts in which a batch of so many samples was computed; 0: the checkpoint does not tell. */
brasa_status checkpoint_parts(brasa_context *ctx, const char *path, int64_t samples, int64_t *out);
/* Other settings are an error. Another device or precision, other threads, parts or kernels are told in `note`, which
 * else is "". */
typedef struct checkpoint_note {
    char text[300];
} checkpoint_note;
brasa_status checkpoint_load(brasa_session *s, const char *path, train_place *p, const checkpoint_terms *terms,
                             checkpoint_note *note);

#endif
