/* reference.h - the numbers that the studies published, as they stand in their tables, with what is wrong with them.
 *
 * study1 is the comparison of MXNet, Paddle, PyTorch, SINGA and TensorFlow on photos of fire (an article, an abstract
 * and a poster on one campaign), study2 that of Caffe and TensorFlow over batch sizes, study3 that of TensorFlow,
 * Theano and PyTorch on MNIST, CIFAR and Letter. A cell that a study left empty is NAN. A user's numbers are set
 * beside these by reference_find, an image each, since nobody has the same number of photos; machines differ, so that
 * only orders of magnitude, and orders of rank, can be compared.
 */
#ifndef LAB_REFERENCE_H
#define LAB_REFERENCE_H

#include "lab/results.h"

typedef struct reference_study {
    const char *name;  /* "study1" */
    const char *title; /* what it compared */
    const char *machine;
    const char *method; /* data, training, clock: what is known of it */
} reference_study;

typedef enum reference_what { REFERENCE_TIME, REFERENCE_ACCURACY } reference_what;

typedef struct reference_row {
    const char *study, *source; /* "study1", "table 1" */
    reference_what what;
    const char *device, *peer, *network, *data;
    const char *split; /* "all", "70/30"; NULL with folds */
    int folds;         /* 0: none */
    int batch;
    int64_t images;   /* trained on in an epoch, of one fold */
    int epochs;       /* that the value is for, of all folds together */
    double value;     /* seconds for those epochs, or per cent */
    int decimals;     /* printed */
    const char *unit; /* "s/epoch", "s", "%" */
} reference_row;

/* A finding in words or figures that fits no table of times. */
typedef struct reference_finding {
    const char *study, *source, *peer; /* peer NULL: of all */
    const char *what, *value;
} reference_finding;

/* Table 1 of study 2: time in and calls of GPU kernels for matrix products. A time that is NAN: none. */
typedef struct reference_kernel {
    const char *name;
    struct {
        double seconds;
        int calls;
    } caffe, tensorflow, tensorflow_batched;
} reference_kernel;

/* The index-th, or NULL past the last one. */
const reference_study *reference_study_at(int index);
const reference_row *reference_at(int index);
const reference_finding *reference_finding_at(int index);
const reference_kernel *reference_kernel_at(int index);

/* What is wrong with a printed number, or NULL; and the same by number, to be used as footnotes: the index-th note.
 */
const char *reference_note(const reference_row *row);
int reference_note_index(const reference_row *row); /* -1: none */
const char *reference_note_at(int index);

/* The name that a peer has in the studies: "theano" for "pytensor". */
const char *reference_peer(const char *peer);

/* The published number for a user's cell and peer: same network, device, batch and kind of split; of several, the one
 * whose number of images is nearest. NULL: there is none. */
const reference_row *reference_find(const result_cell *cell, const char *peer, reference_what what);
/* Seconds an image, or an accuracy of 0 ... 1. */
double reference_value(const reference_row *row);

/* A study as if the lab had measured it. */
brasa_status reference_results(pool *p, const char *study, lab_results *out);

#endif
