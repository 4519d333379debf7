/* lab.h - what the parts of the lab share: a cell, one point of an experiment's grid.
 *
 * The lab is part of the program, never of the library. An experiment (experiment.h) is a list of cells; each is run
 * by every peer, several times, in processes of their own, which all read the same folder (exchange.h) and print the
 * same lines.
 */
#ifndef LAB_LAB_H
#define LAB_LAB_H

#include "core/json.h"
#include "core/pool.h"

/* All of it is settled: nothing is 0 or NULL but where that means something. Texts are borrowed from the
 * experiment. */
typedef struct lab_cell {
    const char *key;        /* unique in its campaign, and the same whenever the same experiment is expanded */
    const char *experiment; /* the block's name */
    const char *title;      /* of the block; NULL: none */
    const char *view;       /* "times", "batches", "resources", "threads", "size", "accuracy" */
    const char *network;    /* a model's name, or the path of a .net file */
    const char *data;       /* a spec: see data/dataset.h */
    const char *transform;  /* see data/transform.h; NULL: what the network and the set ask for, as in brasa train */
    const char *split;      /* "all", "parts", "70/30"; NULL with folds */
    const char *optimizer;  /* "sgd lr=0.001 momentum=0.9" */
    const char *dialect;    /* "torch", ... */
    const char *device;     /* "cpu", "cuda" */
    const char *precision;  /* "f32" */
    int64_t batch, epochs, repeats;
    int64_t folds;   /* 0: none; else each repeat is one run for each fold, 1 to folds */
    int64_t threads; /* 0: as many as may be used */
    int64_t seed;    /* of weights and split; each repeat has its own of the order, from this one on */
    int64_t mem;     /* bytes that the runner's processes may have together; 0: any number */
    double limit;    /* seconds that a run may take */
    bool timing;     /* steps before the first epoch warm everything up; false where accuracy is what counts */
    bool doubling;   /* the last of its list of batches: from here on twice as many, until a run fails */
    bool profile;    /* after the epochs: which functions take the time */
} lab_cell;

/* The members of an open object: what a store keeps of a cell. */
void lab_cell_json(json *j, const lab_cell *c);

/* A text that grows in a pool, as the sink of a json writer. NULL while nothing was written. */
typedef struct lab_text {
    pool *pool;
    char *text;
    size_t used, size;
} lab_text;
bool lab_text_write(void *user, const char *text, size_t length);

/* Seconds of a clock that only goes forward, and of processor time: of this process, and of this thread alone. */
double lab_now(void);
double lab_cpu(void);
double lab_thread_cpu(void);

/* A file of at most some ten megabytes, with a zero behind it, in the pool. */
brasa_status lab_read_file(pool *p, const char *path, char **text, size_t *length);

/* One run of a cell. */
typedef struct lab_run {
    const lab_cell *cell;
    const char *peer, *variant; /* "pytorch", "channels_last"; variant "": the plain one */
    int64_t repeat;             /* from 1 */
    int64_t fold;               /* from 1; 0: the cell has no folds */
} lab_run;

#endif
