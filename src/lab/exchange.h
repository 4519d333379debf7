/* exchange.h - what the runners of a cell read: network, initial weights, batches to compare by, data and split.
 *
 *     exchange *e;
 *     exchange_open(ctx, "lab/exchange", cell, &e);                             makes what is not there yet
 *     exchange_write(e, &(exchange_run){.peer = "pytorch", .check = true}, "run/experiment.json");
 *     exchange_close(e);
 *
 * All of it lies in one folder, under names that hold a hash of what it was made from: what two cells have in common
 * is made once, and what is there is never changed. A file is there as a whole or not at all; one that was cut since,
 * by a crash or by hand, is made anew. Drawn pictures become
 * files, so that every framework reads and decodes the same; a folder of pictures is read where it is; all other sets
 * become one file of arrays.
 */
#ifndef LAB_EXCHANGE_H
#define LAB_EXCHANGE_H

#include "data/split.h"
#include "lab/lab.h"
#include "train/task.h"

enum {
    EXCHANGE_STEPS = 3,  /* batches to compare by */
    EXCHANGE_WARMUP = 3, /* steps before the first epoch, where times count */
};

typedef struct exchange {
    pool pool;
    const lab_cell *cell;
    const char *folder; /* absolute, as all paths here */
    const char *key; /* of network, initial weights, optimizer, device, precision and limit of memory: one comparison
                        is enough for cells of one key */
    const char *graph, *weights, *batches;
    /* Numbers for what is run, whatever it is called: the network with what its weights start from, and the data. */
    const char *network_hash, *data_hash;
    const char *source; /* the set as Brasa opens it */
    const char *path;   /* its file or folder; NULL: it is drawn */
    const char *transform;
    const char *list; /* of pictures: their labels and files, below pictures; NULL: arrays */
    const char *pictures;
    const char *arrays;
    task task;
    brasa_session *plan;   /* holds the optimizer with all its settings */
    int64_t trains, tests; /* samples of the split; of the first fold */
    double
        most_frequent; /* the share of the commonest class among those that test, of the first fold; 0: none test */
    bool unwritable;   /* what failed is writing into the folder: a full disk, which is no fault of the cell */
} exchange;

/* To be closed whatever came back. The cell must outlive it. */
brasa_status exchange_open(brasa_context *ctx, const char *folder, const lab_cell *cell, exchange **out);
void exchange_close(exchange *e);

typedef struct exchange_run {
    const char *peer, *variant; /* variant NULL: the plain one */
    bool check;
    int64_t repeat; /* from 1: each draws an order of its own, and what dropout takes; 0: as the first */
    int64_t fold;   /* from 1; 0: the cell has no folds */
} exchange_run;

/* The one file that a runner is given. */
brasa_status exchange_write(exchange *e, const exchange_run *run, const char *path);

/* --- for the parts of it ------------------------------------------------------------------------------------- */

/* "<folder>/<stem>-<hash><end>", or NULL with the error set. */
const char *exchange_path(exchange *e, const char *stem, uint64_t hash, const char *end);
bool exchange_has(const char *path);
/* Whether the file of tensors is there, whole. */
bool exchange_has_tensors(const exchange *e, const char *path);
/* What came of writing a file into the folder. */
brasa_status exchange_written(exchange *e, brasa_status status);

/* exchange_data.c: the set, from the cell's words to e->task.set; drawn pictures are made files. */
brasa_status exchange_open_data(exchange *e);
/* exchange_data.c: once the transform is settled: e->list or e->arrays. */
brasa_status exchange_make_data(exchange *e);

/* exchange_batches.c: e->batches, of the samples that train. */
brasa_status exchange_make_batches(exchange *e);
/* exchange_batches.c: the file of a split; e->trains and e->tests are set, too. */
brasa_status exchange_make_split(exchange *e, int64_t fold, const char **path);

#endif
