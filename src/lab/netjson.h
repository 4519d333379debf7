/* netjson.h - a network as a list of layers in a JSON file: how the runners of all frameworks learn what to build.
 *
 *     {"name": "resnet50", "dialect": "torch", "classes": 3, "parameters": 23514179, "input": [3, 224, 224],
 *      "nodes": [{"name": "conv1", "op": "conv2d", "inputs": ["image"], "output": "conv1", "shape": [64, 112, 112],
 *                 "settings": {"channels": 64, "kernel": [7, 7], "pad": [3, 3, 3, 3], ...},
 *                 "params": {"weight": "conv1.weight"}}, ...]}
 * Nodes stand in the order of their execution, up to the logits, with every setting written out: the dialect's
 * defaults are filled in, padding is top, left, bottom, right. A value has its node's name; the input is "image", the
 * last one "logits". What is learned on top of it is the mean softmax cross-entropy with whole labels.
 *
 * Brasa's own runner builds from this file, too, as the others do.
 */
#ifndef LAB_NETJSON_H
#define LAB_NETJSON_H

#include "core/json.h"
#include "core/pool.h"

typedef struct netjson_node {
    const char *name, *op, *output;
    const char **inputs;
    int ninputs, capacity;
    const char *settings; /* as in a model file: "channels=64 kernel=7x7 pad=3,3,3,3" */
} netjson_node;

typedef struct netjson {
    pool pool;
    const char *path, *name, *dialect;
    int classes;
    int64_t parameters;
    int input[3]; /* channels, height, width; the last two 0 for features */
    netjson_node *nodes;
    int count, capacity;
} netjson;

/* Whether layers of this op are compared. */
bool netjson_has_op(const char *op);

/* Fails where the graph is no classifier that all frameworks can have: of one input and one plain loss, of layers
 * with names of their own that netjson knows. */
brasa_status netjson_check(const brasa_graph *g, const char *name);
/* Writes a graph that passed. */
void netjson_write(const brasa_graph *g, const char *name, json *j);

/* To be freed whatever came back. */
brasa_status netjson_read(brasa_context *ctx, const char *path, netjson *out);
void netjson_free(netjson *n);
/* The node of that name, or NULL. */
const netjson_node *netjson_find(const netjson *n, const char *name);
/* Convolutions and dense layers. */
int netjson_layers(const netjson *n);

/* Builds it into an empty graph, with "label", "loss", "logits" and "accuracy" as a classifier has them. whole: with
 * dropout; else that hands on what it gets. values, which may be NULL, gets what each node makes. */
brasa_status netjson_build(const netjson *n, brasa_graph *g, bool whole, brasa_tensor *values);

#endif
