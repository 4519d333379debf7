/* experiment_parts.h - between the files of experiment.h: experiment_values.c knows what each field takes,
 * experiment.c reads lines and blocks, experiment_cells.c makes cells of them. */
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
    KEY_PROFILE,
    KEYS
} experiment_key;

enum { EXPERIMENT_BLOCKS = 64, EXPERIMENT_LIST = 128 };

/* What a line holds: any text, or a list of words or numbers. */
typedef enum experiment_kind { LINE, NETWORKS, SETS, NUMBERS, ONE_OF, SOME_OF, BYTES } experiment_kind;

typedef struct experiment_field {
    const char *name;
    experiment_kind kind;
    int most;          /* values */
    int64_t low, high; /* of a number */
    const char *words; /* that may stand there, with blanks between them */
    const char *takes; /* for help */
} experiment_field;
extern const experiment_field experiment_fields[KEYS];

/* A set given by --data. */
typedef struct experiment_given {
    const char *name, *spec;
    bool used;
} experiment_given;

/* What the words of one line are read into. */
typedef struct experiment_list {
    brasa_context *ctx;
    const experiment_field *f;
    experiment_given *given; /* in place of what the line says */
    int ngiven;
    const char *word[EXPERIMENT_LIST];
    int64_t number[EXPERIMENT_LIST];
    int count;
} experiment_list;

/* experiment_values.c: checks a word of the line, and takes it in: one value or, of a range, several. Not of LINE. */
brasa_status experiment_add(experiment_list *l, const char *word);

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
