/* op.h - what an op is, and what a kernel is.
 *
 * An op is a folder with one file that says everything: its attributes, its shapes, its gradient, its cases, and a
 * plain-C reference kernel. ops.def lists them. Kernels for other instruction sets, libraries and devices are
 * further files in the folder and further words in the row.
 */
#ifndef OPS_OP_H
#define OPS_OP_H

#include "graph/graph.h"

/* --- hooks of an op -------------------------------------------------------------------------------------- */

enum { MAX_OUT = 4, MAX_PARAMS = 6 };

/* Shape inference: from in[], set out[] (and type[] where it is not the graph's real type). */
typedef struct infer_args {
    graph *g;
    const op_def *op;
    const char *name;
    void *attr; /* infer may complete it: 'same' padding becomes numbers */
    int nin;
    const shape *in;
    int nout; /* 1 unless infer sets it */
    shape out[MAX_OUT];
    dtype type[MAX_OUT];
} infer_args;
/* "conv2d 'conv1': <text>; input 1x3x2x2, 8x3x5x5" */
brasa_status infer_fail(infer_args *a, const char *format, ...) BRASA_PRINTF(2, 3);
/* Fails unless input `i` has that rank. */
brasa_status infer_rank(infer_args *a, int i, int rank);

/* Parameters of a layer, made before its node and appended to its inputs. */
typedef struct param_spec {
    const char *suffix; /* "weight" */
    shape shape;
    initializer_kind init;
    double fan_in, fan_out;
    bool buffer;  /* not trained */
    double value; /* of INIT_CONSTANT */
} param_spec;
/* Returns how many; 0 where the inputs make no sense (infer says why). */
typedef int (*params_hook)(const void *attr, const shape *in, int nin, const dialect *d, param_spec *out);

/* Gradient: emits nodes into g, given dout[] (-1 where an output's gradient is zero); sets din[i], where need[i], to
 * the value that holds the gradient of input i, or leaves -1 for zero. */
typedef struct grad_args {
    graph *g;
    const node *n;
    const int *dout;
    const bool *need;
    int *din;
} grad_args;
/* emit_like, named after the node; returns output 0's value or -1. */
int grad_emit(grad_args *a, const op_def *op, int nin, const int *in, int nout, const int *like);

/* A node of the user's graph on its way into a program. in[] are the program's values; set out[] to the values that
 * take the place of the node's outputs. */
typedef struct lower_args {
    graph *g;
    const node *n;
    const int *in; /* -1: there is no such value in this program */
    int *out;      /* -1 where nothing takes its place: what reads it is left out too */
} lower_args;
/* Copies the node as it is: what happens where an op has no lower hook. */
void lower_copy(lower_args *a);

typedef struct op_cost {
    double flops;
} op_cost;

/* --- cases: the single source for tests and benchmarks ------------------------------------------------------- */

enum {
    CASE_FAILS = 1,   /* must be refused with BRASA_BAD_SHAPE */
    CASE_PLAN = 2,    /* too large to run here: shapes and plan only */
    CASE_NO_GRAD = 4, /* piecewise constant, or inputs at a kink: no finite differences */
};

typedef struct op_case {
    const char *in;    /* shapes of the inputs: "2x3x8x8 2x3x8x8"; "labels:10" is one label a row of input 0 */
    const char *layer; /* settings, as in a model file: "4 3x3 stride=2" */
    unsigned flags;
    double tolerance;    /* of float against double, relative to the largest element; 0: 2e-5 */
    const char *dialect; /* NULL: torch */
} op_case;

/* --- the op --------------------------------------------------------------------------------------------------- */

struct op_def {
    const char *name;
    const char *alias;  /* a second word for model files, or NULL */
    const char *help;   /* one line; NULL: not a layer, only passes emit it */
    int min_in, max_in; /* inputs, not counting parameters; max_in 0: any number */
    unsigned labels;    /* bit i: input i is labels; all others are real numbers */
    size_t attr_size;
    const field *fields; /* NULL: none; where kernels are chosen by their times, these tell nodes apart */
    void (*set_defaults)(void *attr, const dialect *d); /* where they depend on the dialect; may be NULL */
    params_hook params;                                 /* NULL: no parameters */
    brasa_status (*infer)(infer_args *a);               /* NULL: emitted with emit_like or emit_into only */
    void (*grad)(grad_args *a);                         /* NULL: not differentiable, gradient zero */
    void (*lower)(lower_args *a);                       /* NULL: copied as it is */
    unsigned in_place;     /* bit i: output 0 may overwrite input i, of the same size, when nothing else needs it */
    bool elementwise;      /* output 0 has input 0's shape, and depends on its elements one by one, in their order */
    bool mixes_samples;    /* what comes out for one sample depends on the others of the batch */
    bool view;             /* output 0 is input 0 under another shape; nothing runs */
    bool takes_activation; /* kernels apply node->act */
    /* Makes one node of this and its neighbours, where it can, with the means of graph/fuse.h; tells whether it did.
     * The activation behind a node is no business of it. NULL: nothing to merge. */
    bool (*fuse)(graph *g, int i);
    /* Emits a node that makes output 0 once more, before its activation, with the same bits, from the node's inputs
     * and what is small; returns it, or -1. NULL: it cannot be done. */
    int (*again)(graph *g, const node *n);
    op_cost (*cost)(const graph *g, const node *n); /* NULL: one flop for each output element */
    const op_case *cases;                           /* ended by a case whose `in` is NULL */
};

/* --- kernels ---------------------------------------------------------------------------------------------------- */

/* A tensor as a kernel sees it. */
typedef struct arg {
    void *data;
    shape shape;
    int64_t count;  /* elements stored: what the layout pads is included */
    int64_t sample; /* from one sample to the next, in elements: count / N, or more for a part of another tensor */
    int64_t pixel;  /* where channels lie side by side, from one pixel to the next: C, or more for a part */
    format format;
} arg;

/* One node, ready to run: everything was decided before. */
typedef struct step {
    const kernel *kernel;
    const node *node;
    const void *attr;
    int nin, nout;
    arg *in, *out;
    void *workspace; /* kernel->workspace bytes, aligned to 64, or NULL */
    void *state;     /* the kernel's own, from open */
    int threads;     /* node_threads */
    int64_t first;   /* of an update on a device, of which a part is done: its first element; in[1] is of the part */
    uint64_t seed;
    void *queue; /* of a device: where a kernel starts its work */
    /* the profile */
    int64_t runs, nanoseconds, fastest;
} step;

struct device_choice; /* device.h */

struct kernel {
    const char *name; /* "conv2d_ref" */
    const op_def *op;
    dtype real;  /* F32 or F64 */
    isa isa;     /* what it needs */
    bool vendor; /* a vendor's library does the work */
    /* NULL: every node of its op. Asked twice, before layouts are settled and, for those of the inputs, after. */
    bool (*supports)(const graph *g, const node *n);
    /* Whether it is taken unless the clock says so: false where it is slower than kernels after it on some machines
     * and faster on others. NULL: yes. */
    bool (*pays)(const graph *g, const node *n);
    /* The formats it works in. in[] and out[], one for each input and output, come plain and stored as their logical
     * type. NULL: so everywhere. */
    void (*formats)(const graph *g, const node *n, format *in, format *out);
    /* A reference: operands may be stored as any type. select has any_storage_take called for it. */
    bool any_storage;
    /* Works element by element on what is stored, padding included, and makes zero of zeros: any layout will do that
     * all tensors of output 0's shape share. */
    bool any_layout;
    /* Bit k: input or output k may be a part (graph/parts.c), its samples arg.sample elements apart, and its pixels
     * arg.pixel, where channels lie side by side. Else the tensors of a single sample may be anyway. */
    unsigned parts_in, parts_out;
    /* What a kernel makes once for a node and keeps (a library's descriptors) is n->state: open sets it before any
     * other hook sees the node, close frees it. open may find out that the node is not for it after all, and says
     * BRASA_NO_KERNEL: the next kernel is asked. Both NULL: nothing is kept. */
    brasa_status (*open)(graph *g, node *n);
    void (*close)(brasa_context *ctx, void *state);
    int64_t (*workspace)(const graph *g, const node *n); /* bytes; NULL: none */
    brasa_status (*bind)(const step *s); /* addresses are known, or have changed; NULL: nothing to do */
    brasa_status (*run)(const step *s);
    /* Several steps of this kernel at once, none of which reads or writes what another one writes; such a kernel has
     * no workspace. For devices, where it takes longer to start a small step than to do it. NULL: one by one. */
    brasa_status (*run_many)(const step *const *steps, int count);
    /* Of a device: what was chosen by the clock when the node was opened; false: nothing. NULL: it never is. */
    bool (*choice)(const void *state, struct device_choice *out);
};

/* --- the registry (registry.c, from ops.def) -------------------------------------------------------------- */

/* The index-th op of all, NULL past the last one. Parts of an op (its gradients) follow it. */
const op_def *op_at(int index);
/* A layer by name or alias, or NULL. */
const op_def *op_find(const char *word);
/* The next kernel of the context's device (ctx NULL: of the CPU) for an op and real type after `after` (NULL: the
 * first), fastest first; NULL: no more. */
const kernel *kernel_next(const brasa_context *ctx, const op_def *op, dtype real, const kernel *after);
/* The one of this name, or NULL. */
const kernel *kernel_find(const brasa_context *ctx, const op_def *op, dtype real, const char *name);
/* Whether some kernel of the context's device has the text in its name. */
bool kernel_named(const brasa_context *ctx, const char *text);
/* The version of oneDNN that runs here, or NULL: this build has none. Holds for the calling thread. */
const char *library_onednn(void);

/* Ops that passes and other ops emit by name. */
extern const op_def accumulate_op, accuracy_op, add_op, class_total_op, clip_scale_op, constant_op, constants_op,
    count_step_op, dense_op, mean_op, moving_average_op, pictures_op, relu6_grad_op, relu6_op, relu_grad_op, relu_op,
    reorder_op, reshape_op, schedule_op, softmax_cross_entropy_op, softmax_grad_op, softmax_op, view_op;

/* The attribute of constants_op; the numbers must outlive the program. */
typedef struct constants_attr {
    int64_t count;
    const float *values;
} constants_attr;

/* any_storage.c: where operands of a node are stored otherwise than its kernel, a reference, computes, gives it a
 * kernel around this one that loads and stores them. */
brasa_status any_storage_take(graph *g, node *n);

/* --- what several ops share (common.c) -------------------------------------------------------------------- */

/* Threads that a node should run on: those of the context, or 1 where it is too small to wake the pool for. */
int node_threads(const graph *g, const node *n);

/* Splits items 0 .. items - 1 over the step's threads: range(s, begin, end) is called once in each thread, or once
 * for all where `work`, the total in simple operations, is too small to wake the pool for. Every item must be
 * computed the same way whatever the split is, so that results do not depend on the number of threads. */
void step_for(const step *s, int64_t items, double work, void (*range)(const step *s, int64_t begin, int64_t end));
/* Defines the kernel `f`, which does nothing else. */
#define SPLIT_STEP(f, range, items, work)                                                                            \
    static brasa_status f(const step *s)                                                                             \
    {                                                                                                                \
        step_for(s, items, work, range);                                                                             \
        return BRASA_OK;                                                                                             \
    }

/* What in[] and out[] are before kernel.formats sees them. */
static inline void formats_plain(const graph *g, const node *n, format *in, format *out)
{
    for (int k = 0; k < n->nin; k++)
        in[k] = format_plain(g->values[n->in[k]].type);
    for (int k = 0; k < n->nout; k++)
        out[k] = format_plain(g->values[n->out[k]].type);
}

/* For work element by element: the layout of the first input of output 0's shape that is settled, which decides for
 * all of that shape; plain where there is none. Here, as backends are linked without common.c. */
static inline layout settled_layout(const graph *g, const node *n)
{
    layout plain = {0};
    for (int k = 0; k < n->nin; k++) {
        const value *v = &g->values[n->in[k]];
        if (v->settled && shape_equal(&v->shape, &g->values[n->out[0]].shape))
            return v->format.layout;
    }
    return plain;
}

/* v under a fused activation, as the relu and relu6 ops compute it. v is evaluated more than once. */
#define ACTIVATE(act, v) ((act) == ACT_NONE ? (v) : (v) <= 0 ? 0 : (act) == ACT_RELU6 && (v) >= 6 ? 6 : (v))

/* One output, of the shape of input 0. */
brasa_status infer_same(infer_args *a);
/* The same, and all inputs must have that shape. */
brasa_status infer_all_same(infer_args *a);
/* Cases for ops of one input that work element by element. */
extern const op_case elementwise_cases[];

#endif
