/* transform.h - from a decoded picture to the numbers that a network takes: resize, crop, flip, scale, normalize.
 *
 * The study's pictures: "resize=256 crop=224 flip=horizontal mean=0.485,0.456,0.406 std=0.229,0.224,0.225". Small
 * pictures need nothing: "" gives pixels / 255. What is random depends on (seed, epoch, sample) alone.
 */
#ifndef DATA_TRANSFORM_H
#define DATA_TRANSFORM_H

#include "core/fields.h"
#include "core/layout.h"
#include "data/dataset.h"

typedef enum flip { FLIP_NONE, FLIP_HORIZONTAL, FLIP_VERTICAL } flip;

typedef struct transform {
    int resize;       /* the shorter side gets this many pixels, by area and lines between; 0: stays */
    pair crop;        /* height and width cut out of it; 0: all of that side */
    bool random_crop; /* anywhere in training; else, and in evaluation, the middle */
    int flip;         /* half of the pictures, in training */
    int channels;     /* 1: grey, 3: colour; 0: as they come */
    double scale;     /* (pixel * scale - mean) / std */
    reals mean, std;  /* of each channel, or one for all */
} transform;

/* The list of its fields: fields_parse(ctx, "transform", transform_fields, &t, text) reads one. */
extern const field transform_fields[];

/* The shape that samples of a set have after it: channels, height, width, the last two 0 for numbers. Fails where
 * crop does not fit, or pictures of various sizes stay so. */
brasa_status transform_shape(brasa_context *ctx, const transform *t, const dataset *d, int out[3]);

/* Whether the crop is within a picture of this size, resized. */
bool transform_fits(const transform *t, int height, int width);

/* The part that is the same in every epoch: resize, and the crop unless it is random. `spare` is memory for work. */
brasa_status transform_fixed(brasa_context *errors, const transform *t, picture *p, picture *spare);

/* Bytes of what is left of a picture of this size then: at most. */
int64_t transform_bytes(const transform *t, int channels, int height, int width);

/* Where the rest is written: one sample of a batch, through a layout. */
typedef struct transform_target {
    float *to;              /* the first element of the batch */
    int64_t sample;         /* elements from one sample to the next */
    const int64_t *axis[3]; /* what an index of C, H, W adds to the place: see layout_table_fill */
    int shape[3];           /* channels, height, width */
    float table[3][256];    /* channel, pixel -> number */
} transform_target;
/* Fills the table; the caller fills the rest. */
void transform_table(const transform *t, transform_target *g);

/* What is random depends on these alone. */
typedef struct transform_draw {
    bool train; /* else nothing is random */
    uint64_t seed;
    uint32_t epoch;
    int32_t sample;
} transform_draw;

/* What of a picture becomes a sample. */
typedef struct transform_cut {
    int height, width; /* the picture's */
    int top, left;     /* of what is cut out */
    int flip;          /* FLIP_NONE, ...: how that is mirrored */
} transform_cut;
/* Crop at random and flip, of a picture of this size; `of` is transform_shape's. */
transform_cut transform_choose(const transform *t, int height, int width, const transform_draw *draw,
                               const int of[3]);

/* Crop at random, flip, scale, normalize: into place n of the batch. */
void transform_write(const transform *t, const picture *p, const transform_draw *draw, const transform_target *g,
                     int64_t n);

/* All of it for one picture, as in evaluation, in the plain layout: what predicting takes. `of` is the shape wanted.
 */
brasa_status transform_picture(brasa_context *ctx, const transform *t, picture *p, const int of[3], float *out);

#endif
