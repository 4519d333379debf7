/* answers.h - what steps came to, without a device that waits for the host: the loss and the accuracy of training,
 * the logits of evaluation.
 *
 * A device has the next steps in its queue before the host has read what the last ones came to: up to MOST_LATE steps
 * are asked and not answered. On this CPU a step is over when it returns, and so it is answered at once. */
#ifndef TRAIN_ANSWERS_H
#define TRAIN_ANSWERS_H

#include "data/loader.h"
#include "train/session.h"

enum { MOST_LATE = 2 };

typedef struct answers answers;

typedef struct step_answer {
    int32_t samples;
    float loss, accuracy;  /* of training */
    const float *logits;   /* of evaluation: those of all classes, sample by sample; until more is asked */
    const int32_t *labels; /* which they should have found; so long, too */
} step_answer;

/* Of training; or, where there are classes, of evaluation, of up to so many samples at once. */
brasa_status answers_new(brasa_context *ctx, int64_t samples, int classes, answers **out);
/* Waits for what was asked. */
void answers_free(answers *a);
/* How many may wait while steps are started: MOST_LATE on a device, else 0. */
int answers_late(const answers *a);
/* After a step on a batch: what it came to will be brought. At most answers_late + 1 are waiting then. */
brasa_status answers_ask(answers *a, brasa_session *s, const batch *b);
int answers_waiting(const answers *a);
/* The oldest that is waiting. */
brasa_status answers_take(answers *a, step_answer *out);
/* Nobody wants to know any more; what was started is done then. */
brasa_status answers_drop(answers *a);

#endif
