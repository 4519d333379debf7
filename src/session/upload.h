/* upload.h - pictures on their way to a device, as bytes.
 *
 * What a loader gives lies in memory that the device copies from by itself, while it computes the step before. There
 * are two places for a batch on the device: one is read by a step while the other one is written. A set that fits
 * stays there: each picture is copied to a place of its own when it first comes, and never comes again. */
#ifndef SESSION_UPLOAD_H
#define SESSION_UPLOAD_H

#include "data/loader.h"
#include "ops/pictures/pictures.h"

typedef struct upload upload;

typedef struct upload_options {
    int64_t batch;   /* bytes of the largest one */
    int32_t size;    /* samples of the largest one */
    int64_t kept;    /* bytes of all pictures, which stay then; 0: they come anew each time */
    int32_t samples; /* of the set */
    int channels;    /* of a pixel */
} upload_options;

/* Bytes that it takes of the device's memory. */
int64_t upload_bytes(const upload_options *o);
/* Whether the device has so many free now, beside what its libraries may want. */
bool upload_fits(const brasa_context *ctx, const upload_options *o);
/* BRASA_OUT_OF_MEMORY: the device has not so much. */
brasa_status upload_new(brasa_context *ctx, const upload_options *o, upload **out);
/* Waits for copies that are under way. */
void upload_free(upload *k);
/* Whose batches are sent: it is told which pictures stay. */
void upload_serve(upload *k, feeder *f);
/* Starts the copy of a batch; what is started in the device's queue of steps from now on finds it where the views
 * say. They are borrowed until the next call. */
brasa_status upload_send(upload *k, const batch *b, const pictures_view **views);
/* Waits until what was sent may be written over: before a loader is asked for more. */
brasa_status upload_wait(upload *k);
/* Pictures that stay there so far. */
int32_t upload_kept(const upload *k);

#endif
