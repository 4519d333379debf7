/* parity_parts.h - between the files of parity.h. */
#ifndef LAB_PARITY_PARTS_H
#define LAB_PARITY_PARTS_H

#include "lab/line.h"
#include "lab/netjson.h"
#include "lab/parity.h"
#include "session/safetensors.h"

/* Of weights, and of biases with all that batch norm learns: frameworks treat them differently. */
enum { WEIGHTS, VECTORS, GROUPS };
/* The first update, and those after it, to which the differences of all gradients before add up. */
enum { FIRST, LATER, UPDATES };

/* So many times what rounding makes is allowed. */
static const double NOISE = 10;

/* PyTorch's and JAX' bf16 differ from PyTorch's f32, with four networks at batch 2, by 1.5 % of a layer's rms, 3 % of
 * the first loss and 12 % of the vectors' changes, at most; changes of weights before batch norm are all rounding,
 * and tell nothing. Two that round differ by more. tf32 keeps eight times as much of a factor. */
typedef struct limits {
    const char *precision;
    double output, loss, update[GROUPS];
} limits;

typedef struct account {
    lab_line *lines;
    int count, capacity;
} account;

/* A parameter before the first step. */
typedef struct start {
    const char *name;
    double mean, rms, count;
    int group;
} start;

typedef struct comparison {
    pool pool;
    netjson network;
    safetensors *weights;
    account ours, theirs;
    start *starts; /* of those that were asked for */
    int nstarts, capacity;
    const limits *limits;
    double rounding;                /* the largest share of a loss that rounding alone makes */
    double shaken[UPDATES][GROUPS]; /* the median share of an update that it makes */
    double update;                  /* the largest median difference of an update that was compared */
    double
        beyond[UPDATES]; /* what was allowed of a group's update, where more than the usual was needed; 0: nowhere */
    int losses;          /* that agree */
    int64_t unknown;     /* the first step whose loss was not compared, from 1; 0: none */
    parity *out;
} comparison;

/* parity.c: what was found; false, so that nothing is compared any more. */
bool parity_say(comparison *c, parity_status status, const char *format, ...) BRASA_PRINTF(3, 4);
/* parity.c: the line of the same event, step, node and name; NULL: there is none. */
const lab_line *parity_find(const account *a, int near, const lab_line *l);

/* parity_updates.c: what rounding alone makes of the updates, which Brasa's account tells of: see c->shaken. */
brasa_status parity_find_shaken(comparison *c);
/* parity_updates.c: all parameters after the update that line i begins to tell of. *next: the line behind them. */
brasa_status parity_compare_params(comparison *c, int i, int *next, bool *go_on);

#endif
