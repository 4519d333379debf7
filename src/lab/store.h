/* store.h - the lab's results: one SQLite file, whose tables are the structs below, column by column.
 *
 * A text that is NULL, a number that is NAN and a count that is negative are NULL in the file. A row comes with its
 * epochs, samples and functions in one transaction, so that a process that is killed, or a disk that is full, leaves
 * it out as a whole: what is not there was not done. One process works with a store at a time, any number read it
 * meanwhile. Arrays and texts that are read lie in the caller's pool.
 */
#ifndef LAB_STORE_H
#define LAB_STORE_H

#include "core/pool.h"

typedef struct store store;

typedef struct store_campaign {
    int64_t id;
    const char *created, *name;
    const char *text; /* of the experiment's file */
    const char *scale;
    const char *machine, *brasa; /* JSON */
    const char *finished;        /* NULL: it is not */
    double price_per_hour;       /* of the machine, in any currency; 0, NAN: not known */
    const char *peers;           /* who takes part, as peers_choose has it; NULL: not known */
    const char *data; /* sets in place of the text's, as experiment_options has them; NULL: none are known */
} store_campaign;

/* One more start of a campaign, after the first. */
typedef struct store_resumed {
    const char *at;
    const char *machine, *brasa; /* as of the store_campaign */
} store_resumed;

typedef struct store_cell {
    int64_t id, campaign;
    const char *key;        /* once in a campaign */
    const char *experiment; /* the name of its block */
    const char *network, *data;
    int64_t images, batch, epochs;
    const char *optimizer, *dialect, *split;
    int64_t folds;
    const char *device, *precision;
    int64_t threads, mem;
    const char *json; /* all the rest */
    /* Numbers for what network and data held when the cell was begun (exchange.h); NULL: not known. */
    const char *network_hash, *data_hash;
} store_cell;

typedef struct store_parity {
    int64_t id, campaign;
    const char *peer, *variant, *network; /* the key of network and optimizer; one entry for each three of them */
    const char *status;                   /* same, different, refused, memory, failed */
    double worst;
    const char *detail, *lines;
} store_parity;

typedef struct store_row {
    int64_t id, cell;
    const char *peer, *variant; /* "": the plain one */
    int64_t repeat, fold;       /* repeats from 1; folds from 1, 0: none */
    const char *status;         /* done, absent, refused, failed, timeout, memory, killed, different */
    const char *reason;         /* of all but done */
    const char *started;
    double load_before, fma_gflops;
    int64_t order; /* its place in the campaign's runs of this repeat, from 1 */
    const char *framework, *version, *detail;
    double import_s, first_step_s;
    double epoch_s, eval_s; /* medians */
    double accuracy;        /* of the last evaluation */
    double loss;            /* of the last epoch's training */
    int64_t peak_rss, peak_pss, peak_swap;
    int64_t peak_memory; /* of all processes, what they share counted once */
    double cpu_mean;     /* cores, in the epochs; of the whole run where there is none */
    int64_t threads_max, children, ctx_switches, faults, read_bytes;
    double energy_j; /* of the machine's processors, in the epochs; of the whole run where there is none */
    const char *energy_why;
    double monitor_share;
    const char *tail;
    /* Of a run on a GPU. */
    int64_t device_peak; /* as the framework counts it */
    int64_t gpu_peak;    /* as the driver counts it, of the run's processes */
    double gpu_busy;     /* share of the time in which it computed, in the epochs */
    double gpu_power;    /* watts, in the epochs */
    double gpu_energy_j; /* of the GPU, as energy_j */
    const char *gpu_why; /* what of it could not be read */
    /* Where the time goes; profile_s: all functions together. */
    int64_t profile_steps;
    double profile_s;
    const char *profile_why; /* it could not be read */
} store_row;

typedef struct store_epoch {
    int64_t epoch;
    double seconds;
    int64_t images, steps;
    double loss, accuracy, eval_s, eval_accuracy;
} store_epoch;

typedef struct store_sample {
    double at;  /* seconds since the process was started */
    double cpu; /* cores in use since the sample before */
    int64_t rss, pss, threads, processes;
    int64_t ctx, faults; /* since the sample before */
    int64_t swap;
    int64_t read_bytes; /* since the sample before */
    const char *phase;
    int64_t gpu_memory;
    double gpu_busy, gpu_power; /* as of the store_row; what the driver said last */
    int64_t memory;             /* as peak_memory of the store_row */
} store_sample;

/* A function of the framework or a kernel of a GPU, in all steps of a profile together. */
typedef struct store_function {
    const char *name;
    double seconds;
    int64_t calls;
} store_function;

/* What comes with a row. */
typedef struct store_details {
    const store_epoch *epochs;
    int nepochs;
    const store_sample *samples;
    int nsamples;
    const store_function *functions;
    int nfunctions;
} store_details;

/* STORE_READ: it must be there, nothing is written. STORE_WORK: made where it is not, and nobody else may work with
 * it till it is closed. STORE_GO_ON: the same, but it must be there. To be closed whatever came back. */
typedef enum store_mode { STORE_READ, STORE_WORK, STORE_GO_ON } store_mode;
brasa_status store_open(brasa_context *ctx, const char *path, store_mode mode, store **out);
void store_close(store *s);

/* Each sets what->id. A cell, a parity or a row that is there already, with the same key, is replaced. */
brasa_status store_add_campaign(store *s, store_campaign *what);
brasa_status store_finish_campaign(store *s, int64_t campaign, const char *finished);
/* It is not finished, others may take part from here on, and it is known where and by what. */
brasa_status store_resume_campaign(store *s, int64_t campaign, const char *peers, const store_resumed *how);
brasa_status store_add_parity(store *s, store_parity *what);
/* A cell whose key the campaign has keeps its rows. */
brasa_status store_add_cell(store *s, store_cell *what);
brasa_status store_add_row(store *s, store_row *what, const store_details *details);

/* All of a campaign, a cell, a row, in the order in which they were added; campaigns: all. */
brasa_status store_campaigns(store *s, pool *p, store_campaign **out, int *count);
brasa_status store_resumes(store *s, pool *p, int64_t campaign, store_resumed **out, int *count);
brasa_status store_parities(store *s, pool *p, int64_t campaign, store_parity **out, int *count);
brasa_status store_cells(store *s, pool *p, int64_t campaign, store_cell **out, int *count);
brasa_status store_rows(store *s, pool *p, int64_t cell, store_row **out, int *count);
brasa_status store_epochs(store *s, pool *p, int64_t row, store_epoch **out, int *count);
brasa_status store_samples(store *s, pool *p, int64_t row, store_sample **out, int *count);
brasa_status store_functions(store *s, pool *p, int64_t row, store_function **out, int *count);

#endif
