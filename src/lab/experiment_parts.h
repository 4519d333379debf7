/* experiment_parts.h - what experiment.c reads and experiment_cells.c makes cells of. */
#ifndef LAB_EXPERIMENT_PARTS_H
#define LAB_EXPERIMENT_PARTS_H

#include "lab/experiment.h"

typedef enum experiment_key {
    KEY_TITLE,
    KEY_VIEW,
    KEY_NETWORK,
    KEY_DATA,
    KEY_BATCH,
    KEY_THREADS,
    KEY_DEVICE,
    KEY_PRECISION,
    KEY_OPTIMIZER,
    KEY_DIALECT,
    KEY_TRANSFORM,
    KEY_SPLIT,
    KEY_FOLDS,
    KEY_EPOCHS,
    KEY_REPEATS,
    KEY_SEED,
    KEY_LIMIT,
    KEY_MEM,
    KEY_ON,
    KEYS
} experiment_key;

enum { EXPERIMENT_BLOCKS = 64 };

/* What one line says. Of words there are texts, of numbers numbers, one at least. */
typedef struct experiment_setting {
    int line; /* 0: the default */
    int count;
    const char **word;
    int64_t *number;
} experiment_setting;

typedef struct experiment_block {
    const char *name;
    int line;
    experiment_setting plain[KEYS], small[KEYS];
} experiment_block;

/* The line that counts; its count is 0 where there is none. */
static inline const experiment_setting *experiment_get(const experiment *e, const experiment_block *b,
                                                       experiment_key key)
{
    return e->small && b->small[key].count ? &b->small[key] : &b->plain[key];
}

/* Puts the place in front of the context's error: "FILE:LINE: field: ". Returns the status. */
brasa_status experiment_place(experiment *e, const experiment_block *b, experiment_key key, brasa_status status);

/* experiment_cells.c: the cells of all blocks. */
brasa_status experiment_expand(experiment *e);

#endif
