/* pictures.h - the input of a network, made of bytes on the device that computes: see pictures.c. */
#ifndef OPS_PICTURES_H
#define OPS_PICTURES_H

#include "ops/op.h"

enum { PICTURES_NONE, PICTURES_ACROSS, PICTURES_DOWN }; /* mirrored how: as transform's flip */

/* What of a picture is a sample, as it stands in the input of views: N x 3 numbers. Pictures lie row after row, pixel
 * after pixel, outside of a session's memory: where they are differs from step to step. */
typedef struct pictures_view {
    int64_t pixels; /* the address of the first one, on the device */
    int64_t row;    /* bytes from a row to the next */
    int64_t mirrored;
} pictures_view;
enum { VIEW_NUMBERS = sizeof(pictures_view) / sizeof(int64_t) };

typedef struct pictures_attr {
    int channels, height, width;
    double scale, mean[3], std[3]; /* (pixel * scale - mean) / std */
} pictures_attr;

/* Of a graph: which of its inputs is made so. */
typedef struct pictures_input {
    const char *input; /* its name */
    const char *views; /* that of the input that takes its place */
    pictures_attr attr;
} pictures_input;

#endif
