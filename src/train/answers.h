/* answers.h - what steps came to, their loss and accuracy, without a device that waits for the host.
 *
 * A device has the next steps in its queue before the host has read what the last ones came to: up to MOST_LATE steps
 * are asked and not answered. On this CPU a step is over when it returns, and so it is answered at once. */
#ifndef TRAIN_ANSWERS_H
#define TRAIN_ANSWERS_H

#include "train/session.h"

enum { MOST_LATE = 2 };

typedef struct answers answers;

brasa_status answers_new(brasa_context *ctx, answers **out);
/* Waits for what was asked. */
void answers_free(answers *a);
/* How many may wait while steps are started: MOST_LATE on a device, else 0. */
int answers_late(const answers *a);
/* After a step of `samples`: what it came to will be brought. At most answers_late + 1 are waiting then. */
brasa_status answers_ask(answers *a, brasa_session *s, int32_t samples);
int answers_waiting(const answers *a);
/* The oldest that is waiting. */
brasa_status answers_take(answers *a, float *loss, float *accuracy, int32_t *samples);
/* Nobody wants to know any more; what was started is done then. */
brasa_status answers_drop(answers *a);

#endif
