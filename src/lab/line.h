/* line.h - one line of what a runner prints: a JSON object with its "event".
 *
 * A runner is another program: nothing that it says is believed that was not checked, and what is not known here is
 * passed over. */
#ifndef LAB_LINE_H
#define LAB_LINE_H

#include "core/pool.h"
#include "core/shape.h"

typedef enum line_event {
    LINE_START,
    LINE_IMPORTED,
    LINE_REFUSED,
    LINE_BUILT,
    LINE_BATCH,
    LINE_OUTPUT,
    LINE_LOSS,
    LINE_PARAM,
    LINE_NOISE,       /* of Brasa's runner only: the loss of a step from weights that differ in their last bits, */
    LINE_NOISE_PARAM, /* and a parameter after the first update */
    LINE_PHASE,
    LINE_FIRST_STEP,
    LINE_EPOCH,
    LINE_EVALUATION,
    LINE_PROFILE,  /* the functions that follow, of so many steps, or why there are none */
    LINE_FUNCTION, /* the longest first */
    LINE_DONE,
    LINE_FAILED,
    LINE_OTHER, /* an event that is not known here */
} line_event;

typedef struct lab_line {
    line_event event;
    /* Texts: NULL where they are not given. detail is JSON. */
    const char *framework, *version, *python, *detail, *why, *kind, *phase, *node, *name;
    /* Numbers: NAN where they are not given, or null. */
    double at, sum, mean, rms, loss, accuracy, seconds;
    /* Whole numbers: -1 where they are not given. */
    int64_t parameters, trainable, layers, step, epoch, images, steps, calls, device_peak;
    int32_t *labels;
    int nlabels, capacity;
    shape shape; /* of a value, without the batch; rank 0: not given */
} lab_line;

/* A line without its end; texts into the pool. Whatever is no object with an event is refused. */
brasa_status lab_line_read(pool *p, const char *text, size_t length, lab_line *out);

#endif
