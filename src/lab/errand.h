/* errand.h - what one runner is to do: the one file that it is given, read for Brasa's own. exchange.h writes it. */
#ifndef LAB_ERRAND_H
#define LAB_ERRAND_H

#include "core/pool.h"

typedef struct errand {
    pool pool;
    bool check; /* mode "check"; else "train" */
    const char *peer, *variant;
    const char *network;         /* its name */
    const char *graph, *weights; /* files: see netjson.h, and the initial weights of the seed */
    const char *optimizer;       /* as brasa_session_options has it */
    const char *device, *precision;
    int64_t batch, epochs, warmup, threads, seed;
    bool profile;
    /* check: the batches samples.0, labels.0, samples.1, ... of a file */
    const char *batches;
    int64_t steps;
    /* train: the set, as `brasa train` takes it, and a file with the lists "train" and "test" */
    const char *source, *transform, *split;
} errand;

/* To be freed whatever came back. */
brasa_status errand_read(brasa_context *ctx, const char *path, errand *out);
void errand_free(errand *e);

#endif
