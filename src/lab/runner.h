/* runner.h - Brasa as one peer among the others: does what an errand says, and tells it in lines of JSON.
 *
 * In "check" the network learns a few given batches, and what every layer gives is told, so that it can be compared.
 * In "train" it learns as `brasa train` does, with the same loaders, kernels, programs and queues, but writes
 * nothing.
 */
#ifndef LAB_RUNNER_H
#define LAB_RUNNER_H

#include "core/json.h"
#include "lab/errand.h"
#include "lab/netjson.h"

typedef struct runner {
    brasa_context *ctx;
    const errand *errand;
    const brasa_tuning *tuning;
    int32_t precision; /* by runner_takes */
    json lines;        /* an object with a line's end for each event */
    netjson network;
} runner;

/* Opens a line; the caller adds members and closes it with runner_end. */
void runner_begin(runner *r, const char *event);
void runner_end(runner *r);
/* {"event": ..., key: text} */
void runner_say(runner *r, const char *event, const char *key, const char *text);

/* Whether this runner can do the errand at all; else it has said why not. From here on the context computes on the
 * errand's device. */
bool runner_takes(runner *r);
/* From "built" to "done". r->ctx, errand, tuning and lines are set; to be closed whatever came back. */
brasa_status runner_run(runner *r);
void runner_close(runner *r);

/* runner_check.c, runner_train.c: the two modes, from the network that was read on. */
brasa_status runner_check(runner *r);
brasa_status runner_train(runner *r);

/* runner_profile.c: what the session's kernels took in steps with brasa_session_profile on, by name. */
brasa_status runner_tell_profile(runner *r, const brasa_session *s, int64_t steps);

/* An empty graph with the network in it; see netjson_build. */
brasa_status runner_graph(runner *r, bool whole, brasa_tensor *values, brasa_graph **out);
/* A session on it with the errand's optimizer and seed; and the same with the initial weights of the file. */
brasa_session_options runner_options(const runner *r, int64_t batch, const brasa_tuning *tuning);
brasa_status runner_session(runner *r, brasa_graph *g, int64_t batch, const brasa_tuning *tuning,
                            brasa_session **out);

#endif
