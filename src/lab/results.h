/* results.h - what a campaign measured, in memory: between the store and those who judge and show it.
 *
 * Filled by results_read, by the tables of published numbers (reference.h) or by a test; then results_summarize
 * computes, once, what everything else reads: for each cell and peer the median over the repeats and how far they lie
 * apart. A number that is not known is NAN. Texts and arrays belong to the pool, or to whoever filled them.
 */
#ifndef LAB_RESULTS_H
#define LAB_RESULTS_H

#include "lab/lab.h"

#include <stdbool.h>

typedef struct result_epoch {
    double epoch, seconds, images, steps, loss, accuracy; /* while training */
    double eval_seconds, eval_accuracy;
} result_epoch;

/* Of the runner's whole process tree; doubles, so that charts can read them in place. */
typedef struct result_sample {
    double at;  /* seconds since the runner was started */
    double cpu; /* cores busy */
    double rss, pss, swap;
    double memory; /* of all processes, what they share counted once; RSS in stores of older versions */
    double threads, processes;
    double ctx_switches, faults, read_bytes; /* since the sample before */
    double gpu_memory, gpu_busy, gpu_power;  /* bytes, 0 ... 1, watts */
    const char *phase;                       /* what the runner said that it does; NULL: nothing */
} result_sample;

/* Where the time of a few training steps goes. */
typedef struct result_function {
    const char *name;
    double seconds, calls; /* in all of those steps together */
} result_function;

typedef struct result_cell {
    lab_cell what;
    int64_t images;       /* trained on in an epoch */
    int64_t test_images;  /* 0: not known */
    int64_t classes;      /* 0: not known */
    double most_frequent; /* the share of the commonest class among the images that test; 0: not known */
    const char *title;    /* what tells it from the others of the campaign; by results_summarize */
} result_cell;

/* One process: a cell, a peer, a repeat, a fold. */
typedef struct result_row {
    int cell;
    const char *peer, *variant; /* variant "": the plain one */
    int repeat, fold;
    const char *status, *reason; /* "done", "refused", "failed", "timeout", "memory", "killed", "different" */
    const char *started;
    int order; /* its place in the campaign's runs of this repeat, from 1; 0: not known */
    const char *framework, *version, *detail;
    bool detail_is_json;
    double load_before; /* cores busy with something else before the run */
    double fma_gflops;
    double import_s, first_step_s;
    double eval_s;                 /* median of the evaluations */
    double epoch_s;                /* median of the epochs */
    double image_s;                /* seconds an image: median of the epochs */
    double epoch_cost, image_cost; /* the same at the campaign's price; by results_summarize */
    double accuracy;               /* of the last evaluation, 0 ... 1 */
    double loss;                   /* of the last evaluation or epoch */
    double peak_rss, peak_pss, peak_swap;
    double peak_memory;           /* as memory of a sample */
    double cpu_mean;              /* cores */
    double threads_max, children; /* processes beside the first */
    double ctx_switches, faults, read_bytes;
    double energy_j;
    double epoch_j, image_j;          /* the same for an epoch and an image; by results_summarize */
    const char *energy_why;           /* it could not be read */
    double monitor_share;             /* of a core, that watching took */
    int time_digits, accuracy_digits; /* of a printed number; 0: measured, all of them count */
    const char *tail;                 /* of what it said last */
    /* Of a run on a GPU: memory as the framework counts it and as the driver does; how busy it was and its power, in
     * the epochs; joules. By results_summarize: what an epoch and an image take at that power. */
    double device_peak, gpu_peak, gpu_busy, gpu_power, gpu_energy_j, gpu_epoch_j, gpu_image_j;
    const char *gpu_why;             /* what of it could not be read */
    double profile_steps, profile_s; /* steps; all functions together */
    const char *profile_why;         /* there is none: it could not be read; NULL: none was asked for */
    result_function *functions;      /* the longest first */
    int function_count;
    result_epoch *epochs;
    int epoch_count;
    result_sample *samples;
    int sample_count;
    const char *name; /* "pytorch (channels_last)"; by results_summarize */
} result_row;

typedef struct result_parity {
    const char *peer, *variant, *network;
    const char *status; /* "same", "different", "refused", "failed" */
    double worst;       /* relative difference of a loss */
    const char *detail; /* the first difference, or the reason */
} result_parity;

/* A start of the campaign after the first. */
typedef struct result_resumed {
    const char *at, *machine, *brasa; /* as those of lab_results */
} result_resumed;

typedef struct result_spread {
    double median, low, high; /* low and high: the extremes */
    int count;                /* values */
} result_spread;

/* A peer in a cell: all of its repeats and folds. */
typedef struct result_entry {
    int cell;
    int name;                    /* in lab_results.names: its colour, too */
    const result_row *row;       /* the one with the median time; where none is done, the first */
    int done, rows;              /* of its rows */
    const char *status, *reason; /* "done" where at least one row is; else those of the first row */
    result_spread image_s, epoch_s, first_step_s, import_s, eval_s, accuracy, peak_rss, peak_pss, peak_swap, cpu_mean;
    result_spread peak_memory;
    result_spread threads_max, children, ctx_switches, faults, read_bytes, energy_j, epoch_j, image_j;
    result_spread epoch_cost, image_cost;
    result_spread device_peak, gpu_peak, gpu_busy, gpu_power, gpu_epoch_j, gpu_image_j;
    double fma_low, fma_high;
    double swap, load, monitor; /* the highest of all rows */
} result_entry;

typedef struct lab_results {
    int64_t id;
    const char *name, *created, *scale, *text, *machine, *brasa; /* text: the experiment's; machine, brasa: JSON */
    double price_per_hour; /* of the machine, in any currency; 0, NAN: not known */
    bool finished;
    bool published; /* numbers of a study: one of each, and nobody knows their spread */
    result_cell *cells;
    int cell_count;
    result_row *rows;
    int row_count;
    result_parity *parities;
    int parity_count;
    result_resumed *resumed;
    int resumed_count;
    /* by results_summarize */
    const char *title;  /* the experiment's; its name, where it has none */
    const char **names; /* of peers with their variants, in alphabetical order */
    int name_count;
    result_entry *entries; /* cell by cell, in a cell by name */
    int entry_count;
} lab_results;

/* Fills what is said to be "by results_summarize". Rows must name cells that are there. */
brasa_status results_summarize(pool *p, lab_results *r);

/* Median and extremes of those values that are finite; reorders them. */
result_spread spread_of(double *values, int count);

/* The entry of a cell and a name, or NULL. */
const result_entry *results_entry(const lab_results *r, int cell, int name);

/* A row of which no number is known yet. */
result_row row_unknown(void);

bool row_done(const result_row *row);
bool cell_on_gpu(const result_cell *c);

/* Whether two cells are the same experiment but for what may differ. Networks may come from blocks of their own,
 * whose optimizers differ; else cells of two blocks are never the same: blocks differ in what no cell has a column
 * for. */
enum {
    DIFFERENT_NETWORK = 1,
    DIFFERENT_SIZE = 2,
    DIFFERENT_DATA = 4,
    DIFFERENT_BATCH = 8,
    DIFFERENT_THREADS = 16,
    DIFFERENT_MEM = 32,
    DIFFERENT_BLOCK = 64
};
bool cells_alike(const result_cell *a, const result_cell *b, unsigned may_differ);

/* For each cell what tells it, and those that are alike but for what may differ, from the others of the campaign;
 * NULL: out of memory. */
const char **cells_titles(pool *p, const lab_results *r, unsigned may_differ);

#endif
