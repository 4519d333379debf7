/* graph.h - values and the nodes that make them.
 *
 * One structure serves twice. The graph that a user builds holds the forward computation, for any batch size
 * (N = 1 while it is built). A program is such a graph made concrete: a batch size, training or evaluation,
 * gradients and updates added as nodes, kernels chosen, memory laid out.
 *
 * Invariants
 * (1) nodes stand in execution order: an input is made by an earlier node, or by none;
 * (2) a TEMP value is written by exactly one node, or it is the whole of values that are (see parts.c), or a part
 *     of one;
 * (3) state (PARAM, BUFFER, SLOT, COUNTER, SUM) may be rewritten by a node that has the same value among its inputs
 * and outputs; every other reader of the old content stands before it; (4) indices stay valid, pointers into values[]
 * and nodes[] do not: an emit may move the arrays. (The old arrays stay readable until the graph is freed, so a
 * pointer to a node is safe to read, not to write.)
 */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "core/format.h"
#include "core/pool.h"
#include "core/shape.h"
#include "graph/dialect.h"

typedef struct op_def op_def;
typedef struct kernel kernel;
typedef struct brasa_graph graph;

typedef enum value_kind {
    VALUE_TEMP,    /* made and used within a step */
    VALUE_INPUT,   /* fed before a step */
    VALUE_PARAM,   /* trained */
    VALUE_BUFFER,  /* learned otherwise: running statistics; or set by the user: class weights */
    VALUE_SLOT,    /* the optimizer's memory */
    VALUE_COUNTER, /* the number of training steps done, i64 */
    VALUE_SUM,     /* added up over the parts of a batch */
} value_kind;

/* How a parameter starts: uniform in [a, b), normal with mean a and deviation b, the same without what lies two
 * deviations or more from a, or a everywhere. */
typedef struct initializer {
    enum { START_CONSTANT, START_UNIFORM, START_NORMAL, START_TRUNCATED } form;
    double a, b;
} initializer;

typedef struct value {
    const char *name; /* unique for all but TEMP, which has NULL or its output name */
    value_kind kind;
    dtype type;
    shape shape;
    bool batched; /* of an INPUT: dim[0] is the batch size */
    bool output;  /* survives until the end of the step, under its name */
    int classes;  /* of labels: each is in 0 .. classes - 1; else 0 */
    initializer start;
    int producer; /* node index, or -1 */
    int state;    /* of state in a program: its index in the session's table */
    /* set by select, in a program */
    format format;
    bool settled; /* the format stands: a node writes or reads it so, or another program does */
    /* set by parts, in a program */
    int whole;     /* the value that it is a part of, or -1 */
    int64_t first; /* of a part: where in the whole it begins, in elements as they are stored */
    /* set by the memory plan, in a program */
    int64_t bytes;  /* padding of the layout included */
    int64_t offset; /* TEMP and INPUT: in the transient part; else in the persistent part */
} value;

typedef enum node_role { ROLE_FORWARD, ROLE_GRADIENT, ROLE_UPDATE } node_role;
typedef enum activation { ACT_NONE, ACT_RELU, ACT_RELU6 } activation;

/* What pass_fuse and pass_parts may do, for graph.fuse: all of it, unless a test wants less. */
enum {
    FUSE_ACTIVATIONS = 1, /* an activation into the node before it */
    FUSE_RESIDUALS = 2,   /* a residual sum into the batch norm before it */
    FUSE_FLAT = 4,        /* the gradient of an activation into that of the batch norm before or the dropout behind */
    FUSE_FOLD = 8,        /* in evaluation, batch norm into the weights of the convolution before it */
    FUSE_UPDATES = 16,    /* the gradient of a layer's weights and their update */
    FUSE_PARTS = 32,      /* concatenated tensors are written and read in their place */
    FUSE_POOLS = 64,      /* an activation before max-pooling into it */
    FUSE_SUMS = 128,      /* a sum of gradients into the gradient of batch norm behind it */
    FUSE_ALL = 255,
};

typedef struct node {
    const op_def *op;
    const char *name; /* the layer's; gradients and updates carry it too */
    void *attr;       /* op->attr_size bytes, or NULL */
    int nin, nout;
    int *in, *out;
    uint32_t views; /* bit k: input k is read as the storage_view of what it is stored as; set by select */
    int line;       /* of the model file that it comes from, or 0 */
    node_role role;
    activation act; /* applied to output 0 on its way out: set by fuse */
    bool dead;      /* removed by the next graph_sweep */
    const kernel *kernel;
    void *state;                 /* the kernel's own, from kernel->open */
    const struct choice *choice; /* what the kernel was chosen from by its time, or NULL: see tune.h */
} node;

/* A tensor has at most 2^40 elements: the sizes of a million of them add up in 63 bits. */
#define MOST_ELEMENTS (INT64_C(1) << 40)
/* The name of the counter, which no user's value may have. */
#define STEPS_NAME "steps"
/* The name of graph_samples' value. */
#define SAMPLES_NAME "batch/samples"

struct brasa_graph {
    brasa_context *ctx;
    bool owns_ctx;
    pool pool;
    brasa_status status; /* the first error; what comes after it does nothing */
    char error[ERROR_TEXT_SIZE];
    const dialect *dialect;
    dtype real;        /* of everything that is not an index: F32 or F64 */
    int32_t precision; /* BRASA_F32, ...: what kernels of a device may round */
    bool training;
    bool inference;          /* evaluation without labels */
    bool deterministic;      /* results must not depend on the number of threads */
    unsigned fuse;           /* of FUSE_ACTIVATIONS, ... */
    struct readers *readers; /* of each value, while nodes are fused: see fuse.h */
    uint64_t seed;
    /* Of every softmax_cross_entropy; NULL: what it has itself. */
    const struct constants_attr *class_weights;
    /* Of a user's graph: the input that is made of bytes where it is computed; NULL: inputs are fed as they are. */
    const struct pictures_input *pictures;
    struct tuner *tuner; /* of a program; NULL: a node takes the first kernel of its list, a library its first */
    const char *scope;
    const char *file; /* the model file that it was read from, or NULL */
    value *values;
    node *nodes;
    int nvalues, nnodes, value_capacity, node_capacity;
    int layers;  /* counted, for names */
    int streams; /* random streams given out in a program: the n-th dropout layer has stream n, from 0 */
    int loss;    /* value, or -1 */
    int counter; /* value, or -1: see graph_counter */
    /* In a program that computes a part of a batch: */
    bool in_parts;
    int samples; /* value, or -1: see graph_samples */
    int share;   /* what its loss counts among those of the other parts, a scalar; -1: 1 */
};

/* Of input k as node n reads it. */
static inline format input_format(const graph *g, const node *n, int k)
{
    format f = g->values[n->in[k]].format;
    f.storage = k < 32 && n->views >> k & 1 ? storage_view(f.storage) : f.storage;
    return f;
}

void graph_init(graph *g, brasa_context *ctx);
void graph_clear(graph *g);

/* Records the first error; `status` is what fail() returned. */
void graph_stick(graph *g, brasa_status status);
/* Says in which file and line that error is. */
void graph_where(graph *g, const char *path, int line);

/* New values; -1 on error, which sticks. name is copied. */
int graph_value(graph *g, value_kind kind, dtype type, const shape *s, const char *name);
int graph_find(const graph *g, const char *name);

/* Adds a node whose output shapes its op infers; returns its index or -1. attr is copied. `name` is borrowed. */
int emit(graph *g, const op_def *op, const char *name, const void *attr, int nin, const int *in);
/* The same for an op that states no shapes: output k has the shape of value like[k]. */
int emit_like(graph *g, const op_def *op, const char *name, const void *attr, int nin, const int *in, int nout,
              const int *like);
/* Adds a node that rewrites values: outputs are existing ones. */
int emit_into(graph *g, const op_def *op, const char *name, const void *attr, int nin, const int *in, int nout,
              const int *out);

/* The user's layer: makes its parameters, then the node; returns output 0 or -1. */
int graph_apply(graph *g, const op_def *op, const char *name, const void *attr, int nin, const int *in);

/* The number of training steps done before this one, an i64 scalar of state, made on first use. */
int graph_counter(graph *g);

/* The number of samples in the parts of the batch before this one, an i64 scalar of state, made on first use. The
 * session sets it before each part. */
int graph_samples(graph *g);

/* Frees what the kernel keeps for a node. */
void node_close(const graph *g, node *n);

/* Drops dead nodes. */
void graph_sweep(graph *g);
/* Puts the nodes in another order: place k is taken by node order[k]. */
brasa_status graph_arrange(graph *g, const int *order, int count);

/* --- precision.c: what is stored in fewer bits under graph.precision, on every device ----------------------------
 */

/* The storage of a value within a step; where it is an operand of a product or a window; where a kernel asks for it
 * so that is the first to read it, and it comes from outside of the step; and of an optimizer's slot by that of its
 * parameter. */
dtype precision_storage(const graph *g, int v);
dtype precision_product(const graph *g, int v);
dtype precision_kept(const value *v, dtype asked);
dtype precision_slot(dtype parameter);

/* --- the passes, in order; each returns BRASA_OK or sets the context's error ------------------------------ */

/* lower.c: `from`, made concrete for a batch and a mode, into the empty graph `to`. */
brasa_status pass_lower(graph *to, const graph *from, int64_t batch, bool training);
/* views.c: takes the flatten before a dense layer away, so that nothing has to leave its layout for it. */
brasa_status pass_views(graph *g);
/* autodiff.c: adds the gradient nodes. done(user, parameter, gradient) is called as soon as a parameter's gradient is
 * complete and nothing emitted later reads the parameter. */
typedef void (*gradient_done)(void *user, graph *g, int param, int grad);
brasa_status pass_autodiff(graph *g, gradient_done done, void *user);
/* fuse.c: makes one node of several, by the rules of graph.fuse. All but folding keep every bit, and FUSE_UPDATES
 * does so on the reference kernels. */
brasa_status pass_fuse(graph *g);
/* recompute.c: makes large values again for their gradients, in place of keeping them. all: small ones too. */
brasa_status pass_recompute(graph *g, bool all);
/* prune.c: drops nodes that nothing reads. */
brasa_status pass_prune(graph *g);
/* select.c: a kernel for each node, a format for each value, reorders between them. `only`: see
 * brasa_session_options.kernels. */
brasa_status pass_select(graph *g, const char *only);
/* parts.c: takes concat and its gradient away where kernels write and read tensors in their place in the whole. */
brasa_status pass_parts(graph *g);
/* gather.c: puts nodes side by side that a device can run at once: updates, and what copies weights. */
brasa_status pass_gather(graph *g);

#endif
