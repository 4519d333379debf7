/* network.h - a network ready to run, with made-up data: what explain and bench share. */
#ifndef CLI_NETWORK_H
#define CLI_NETWORK_H

#include "tuning.h"

#include "ops/op.h"

enum { MAX_INPUTS = 8 };

/* What the benchmarks train with. */
#define BENCH_OPTIMIZER "sgd lr=0.001 momentum=0.9"

typedef struct network {
    brasa_context *context;
    bool borrowed;     /* the context is somebody else's */
    int32_t precision; /* of a device */
    brasa_graph *graph;
    brasa_session *session;
    tuning tuning;
    int inputs;
    struct {
        const char *name; /* borrowed from the graph */
        void *data;
        size_t bytes;
    } input[MAX_INPUTS];
} network;

/* These return an exit code, the message told. network_close is due after network_start, whatever it returned. */

/* An empty graph, in a context with the threads and on the device of o. */
int network_start(network *n, const options *o);
/* An empty graph in the context of `from`, which must stay: kernels of a device live as long as their context. */
int network_beside(network *n, const network *from);
void network_close(network *n);
/* The network o->word[0], with o's dialect and classes. */
int network_build(network *n, const options *o);
/* Kernels are chosen as o says; NULL: the first ones that fit. The precision is the network's. */
int network_compile(network *n, const options *o, brasa_session_options s);
/* Uniform numbers in [0, 1) and uniform labels for every input. */
int network_make_data(network *n, int64_t batch, uint64_t seed);

/* Floating-point operations of a node by its op's formula; one for each element where the op has none. */
double step_flops(const graph *g, const step *s);
/* What it must read and write at least once. */
double step_bytes(const step *s);
/* Of a training step. */
double network_flops(const network *n);

/* Copies them in. */
brasa_status network_feed(network *n);
/* Copies them in and runs one step. A device may be at work still when it comes back: session_wait. */
brasa_status network_step(network *n, bool training);

#endif
