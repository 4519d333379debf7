/* fit.h - what a training needs, which batch fits a memory budget, and in how many parts a larger one does.
 *
 * Everything is found by planning, nothing is allocated: a large network takes some hundredths of a second a plan,
 * and a question some ten plans. */
#ifndef TRAIN_FIT_H
#define TRAIN_FIT_H

#include "brasa.h"
#include "core/numeric.h"

enum { FIT_MOST_SAMPLES = 65536 };

/* What is asked. The budget is for the session and what stands beside it: data that wait to be trained on, say. */
typedef struct fit_budget {
    uint64_t bytes;                 /* 0: none is asked for, only fit.whole is found */
    bool enough;                    /* where options->batch fits, larger ones are not looked for */
    uint64_t beside, beside_sample; /* bytes that are needed anyway, and for each sample of a batch */
    uint64_t beside_part; /* and for each sample that is computed at once: of a part, where there are some */
} fit_budget;

typedef struct fit {
    brasa_memory whole; /* of options->batch */
    bool fits;
    int64_t most;          /* the largest whole batch that fits, up to FIT_MOST_SAMPLES; 0: none, or not looked for */
    brasa_memory at_most;  /* of that one */
    int64_t parts;         /* options->batch fits in so many equal parts, the fewest; 1: as a whole; 0: in none */
    brasa_memory in_parts; /* of these */
    char why[200];         /* where it cannot be split at all: the reason; else "" */
} fit;

/* What a session may take of the memory of the context's device: what is free, less some for the libraries' own. 0:
 * the context computes on the CPU. */
uint64_t fit_device_bytes(const brasa_context *ctx);
/* The same where `wish` is the most that it is to take; 0: it may take what it needs. */
uint64_t fit_budget_bytes(const brasa_context *ctx, int64_t wish);
/* A budget in words. */
bytes_text fit_budget_text(uint64_t bytes);
/* Whether the context's device has so many bytes free beside these. */
bool fit_device_has(const brasa_context *ctx, uint64_t bytes);
/* What a batch takes with all that stands beside the session. */
uint64_t fit_need(const brasa_memory *m, const fit_budget *b, int64_t batch, int64_t parts);
/* Whether options->batch fits in options->parts. */
brasa_status fit_parts(brasa_graph *graph, const brasa_session_options *options, const fit_budget *budget, bool *out);
/* options are those of the training; plan_only and parts are not looked at. */
brasa_status fit_batch(brasa_graph *graph, const brasa_session_options *options, const fit_budget *budget, fit *out);

#endif
