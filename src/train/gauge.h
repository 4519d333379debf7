/* gauge.h - what the GPU that trains says of itself while it does: NVML's figures, a few times a second. They count
 * for everything that runs on it. */
#ifndef TRAIN_GAUGE_H
#define TRAIN_GAUGE_H

#include "core/context.h"
#include "core/nvml.h"

typedef struct gauge {
    nvml *library; /* NULL: nothing can be read */
    nvml_gpu *gpu;
    char why[200]; /* "not readable: ..." of the last figure that was not; "": all are, or there is no device */
    double next;   /* when to look again, by the clock */
    /* since gauge_begin */
    int memory_looks, busy_looks; /* that told something: GPUs in slices say nothing of their utilization */
    double busy, memory;          /* the sum of percents, and the most bytes */
} gauge;

/* Of a context's device, if it has telemetry. */
void gauge_open(gauge *g, const brasa_context *ctx);
void gauge_close(gauge *g);
/* An epoch begins. */
void gauge_begin(gauge *g);
/* Looks at it, if it is time. */
void gauge_look(gauge *g, double now);
/* The most bytes in use and the mean of its utilization, in percent, since gauge_begin; NAN: it was not read. */
void gauge_end(gauge *g, double *memory, double *utilization);

#endif
