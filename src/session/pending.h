/* pending.h - what steps came to, without a device that waits for the host: the loss and the accuracy of training,
 * the logits of evaluation.
 *
 * A device has the next steps in its queue before the host has read what the last ones came to: up to most_pending of
 * them (device.h). The CPU's steps are over when they return, and are read at once. */
#ifndef SESSION_PENDING_H
#define SESSION_PENDING_H

#include "data/loader.h"
#include "session/session.h"

typedef struct pending pending;

typedef struct step_result {
    int32_t samples;
    float loss, accuracy;  /* of training */
    const float *logits;   /* of evaluation: those of all classes, sample by sample; until more is asked */
    const int32_t *labels; /* which they should have found; so long, too */
} step_result;

/* Of training; or, where there are classes, of evaluation, of up to so many samples at once. */
brasa_status pending_new(brasa_context *ctx, int64_t samples, int classes, pending **out);
/* Waits for what was asked. */
void pending_free(pending *a);
/* How many may wait while steps are started. */
int pending_depth(const pending *a);
/* After a step on a batch: what it came to will be brought. At most pending_depth + 1 are waiting then. */
brasa_status pending_add(pending *a, brasa_session *s, const batch *b);
int pending_count(const pending *a);
/* The oldest that is waiting. */
brasa_status pending_take(pending *a, step_result *out);
/* Nobody wants to know any more; what was started is done then. */
brasa_status pending_drop(pending *a);

#endif
