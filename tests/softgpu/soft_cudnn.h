/* soft_cudnn.h - what the files that stand in for cuDNN share: descriptors, what is read out of them when they are
 * finalized, and the engines.
 *
 * A descriptor is a name for a body. Bodies are counted: one that is finalized never changes, and stays as long as
 * another one is made of it, whatever becomes of its descriptor.
 */
#ifndef SOFT_CUDNN_H
#define SOFT_CUDNN_H

#pragma GCC visibility push(default)
#include <cudnn_graph.h>
#pragma GCC visibility pop

#include "soft.h"

/* --- what descriptors say -------------------------------------------------------------------------------------- */

enum { MOST_DIMS = 8, PICTURE = 4, MOST_STEPS = 4, MOST_OPERATIONS = 8, MOST_KNOBS = 2 };

typedef struct tensor {
    int64_t dims, dim[MOST_DIMS], stride[MOST_DIMS], uid, alignment;
    soft_type type;
    bool inside; /* virtual: in no memory */
} tensor;

typedef struct window {
    int64_t axes, before[2], after[2], stride[2], dilation[2];
    bool turned; /* a convolution, by the book */
} window;

typedef struct pointwise {
    cudnnPointwiseMode_t mode;
    bool keeps_nan;
    double lower, upper, slope;
} pointwise;

typedef enum product { FORWARD, DATA, WEIGHTS, POINTWISE } product;

/* Tensors of a convolution: its input, weights and output, or their gradients. */
typedef struct operation {
    product product;
    window window;
    tensor x, w, y;
    double alpha, beta;
    pointwise how; /* of POINTWISE: y = how(alpha x, beta w), where there is a w */
    bool has_w;
} operation;

/* A convolution and what is done to its sums, one step after the other, until they are stored. */
typedef struct problem {
    operation sums;
    int steps;
    operation step[MOST_STEPS];
    tensor result;
} problem;

typedef struct config {
    int engine;
    int64_t knob[MOST_KNOBS];
} config;

/* --- descriptors (cudnn.c) ------------------------------------------------------------------------------------- */

typedef struct body body;

typedef struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    void *values; /* of descriptors: their bodies */
} attribute;

enum { MOST_ATTRIBUTES = 12 };

struct body {
    int references;
    cudnnBackendDescriptorType_t type;
    bool finished;
    int attributes;
    attribute attribute[MOST_ATTRIBUTES];
    /* once it is finished */
    union {
        tensor tensor;
        window window;
        pointwise pointwise;
        operation operation;
    };
    problem problem; /* of graphs, and all that is made of one */
    config config;   /* of engines, their configurations and plans */
};

typedef struct handle {
    uint32_t mark;
    cudaStream_t stream;
    soft_task *tasks;
} handle;

/* Notes why; returns the status. */
cudnnStatus_t soft_refuse(cudnnStatus_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* NULL: it has no such attribute. */
const attribute *soft_attribute(const body *b, cudnnBackendAttributeName_t name);
/* The only value, or the first; 0 or NULL where there is none. */
int64_t soft_int(const body *b, cudnnBackendAttributeName_t name);
double soft_real(const body *b, cudnnBackendAttributeName_t name, double otherwise);
const body *soft_body(const body *b, cudnnBackendAttributeName_t name);
/* NULL: it is no handle. */
handle *soft_handle(const void *thing);
/* A finished body of a kind, or NULL. */
const body *soft_finished(cudnnBackendDescriptor_t d, cudnnBackendDescriptorType_t type);
/* A new body with one reference, or NULL. */
body *soft_new(cudnnBackendDescriptorType_t type);
/* Sets an attribute of a body that nobody else sees yet. */
bool soft_put(body *b, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              const void *values);
void soft_release(body *b);

/* --- what they mean -------------------------------------------------------------------------------------------- */

/* Reads what a body was told, of which all required attributes are there: tensors, operations, graphs
 * (cudnn_finish.c). */
cudnnStatus_t soft_finish(body *b);
/* The same of engines, configurations and plans (cudnn_engines.c). */
cudnnStatus_t soft_finish_engine(body *b);
cudnnStatus_t soft_finish_config(body *b);
cudnnStatus_t soft_finish_plan(body *b);

/* --- engines (cudnn_engines.c) --------------------------------------------------------------------------------- */

typedef struct knob {
    cudnnBackendKnobType_t type;
    int64_t least, most, usual;
} knob;

typedef struct engine {
    unsigned notes, behaves; /* bit i: note i */
    int knobs;
    knob knob[MOST_KNOBS];
    bool tensor_cores; /* round floats */
    bool rounded;      /* it adds up in 16 bits */
    bool careless;     /* its activation makes zero of what is not a number */
    bool varies;       /* from run to run */
    bool unrecordable; /* it is refused while a stream is captured */
    bool unplanned;    /* it is listed, and no plan can be made */
} engine;

enum { ENGINES = 10 };
extern const engine soft_engines[ENGINES];

/* How a configuration adds up. */
int64_t soft_piece(const config *c);
int64_t soft_splits(const config *c);
int64_t soft_workspace(const problem *p, const config *c);

/* Configuration number i that a mode of the heuristics lists, or NULL; *all becomes how many there are. */
body *soft_result(const body *heuristics, int64_t i, int64_t *all);
/* What is only asked for: notes, a plan's workspace. Writes its elements as they lie in memory, returns how many. */
enum { MOST_ANSWERS = 16 };
int64_t soft_answer(const body *b, cudnnBackendAttributeName_t name, int64_t *to);

#endif
