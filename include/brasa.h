/* brasa.h - train neural networks from C.
 *
 * The whole public interface. A program describes a network as a graph, compiles it into a session,
 * and runs steps:
 *
 *     brasa_graph *g = brasa_graph_new(NULL);
 *     brasa_tensor x = brasa_input(g, "image", 1, 28, 28);              // N x 1 x 28 x 28
 *     x = brasa_relu(brasa_conv2d(x, 32, 3, BRASA_VALID));              // N x 32 x 26 x 26
 *     x = brasa_dense(brasa_flatten(brasa_maxpool(x, 2)), 128);         // N x 128
 *     brasa_classify(brasa_relu(x), 10);                                // logits, loss, accuracy
 *
 *     brasa_session *s = NULL;
 *     brasa_session_options o = {.batch = 64, .optimizer = "sgd lr=0.01 momentum=0.9"};
 *     if (brasa_session_new(g, &o, &s) != BRASA_OK)
 *         return puts(brasa_graph_error(g)), 1;
 *     brasa_train_step(s, images, labels, &loss);                       // as often as you like
 *     brasa_session_free(s);
 *     brasa_graph_free(g);
 *
 * Errors. What can fail returns a brasa_status; the text that explains it (op, node, shapes, what to do)
 * sits on the context and is read with brasa_context_error, brasa_graph_error or brasa_session_error, until
 * the next failure replaces it. While a graph is built the first error sticks to it: the calls after it do
 * nothing, and brasa_session_new reports it. The library never exits, aborts or prints.
 *
 * Ownership. *_new makes, *_free releases, free(NULL) is fine. A const pointer that comes back is borrowed;
 * its comment says until when.
 *
 * Threads. There is no global state. A context, with every graph and session made from it, may be used by
 * one thread at a time; separate contexts are independent of each other.
 */
#ifndef BRASA_H
#define BRASA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BRASA_API              __attribute__((visibility("default")))
#define BRASA_PRINTF(fmt, arg) __attribute__((format(printf, fmt, arg)))
#else
#define BRASA_API
#define BRASA_PRINTF(fmt, arg)
#endif

typedef enum brasa_status {
    BRASA_OK = 0,
    BRASA_OUT_OF_MEMORY = 1, /* an allocation failed; what existed before the call still stands */
    BRASA_BAD_ARGUMENT = 2,  /* an option, name or value that is not allowed */
    BRASA_BAD_SHAPE = 3,     /* tensors whose shapes do not go together */
    BRASA_BAD_FILE = 4,      /* a file that cannot be read or written, or whose content is wrong */
    BRASA_NOT_FOUND = 5,     /* no model, op, parameter or value of that name */
    BRASA_NO_KERNEL = 6,     /* no kernel of this build runs the node */
    BRASA_WRONG_STATE = 7,   /* a call that this handle cannot take now */
    BRASA_INTERNAL = 8       /* a defect in Brasa: please report it */
} brasa_status;

typedef struct brasa_context brasa_context;
typedef struct brasa_graph brasa_graph;
typedef struct brasa_session brasa_session;

/* A value in a graph: small, passed by value, valid as long as its graph. */
typedef struct brasa_tensor {
    brasa_graph *graph;
    int32_t id;
} brasa_tensor;

/* The library's version, such as "0.1.0". Static. */
BRASA_API const char *brasa_version(void);

/* A short word for a status, such as "out of memory". Static. */
BRASA_API const char *brasa_status_text(brasa_status status);

/* --- context: threads, memory, the last error ------------------------------------------------------- */

typedef struct brasa_context_options {
    int32_t threads; /* in total, at most 1024; 0: as many as the CPU affinity and the cgroup's quota allow */
    /* Where all memory comes from, aligned as malloc's; both or neither; NULL: malloc and free. */
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
} brasa_context_options;

/* options may be NULL. */
BRASA_API brasa_status brasa_context_new(const brasa_context_options *options, brasa_context **out);
/* After everything that was made from it. */
BRASA_API void brasa_context_free(brasa_context *context);
/* The text of the last error, "" if there was none. Borrowed until the next failing call. */
BRASA_API const char *brasa_context_error(const brasa_context *context);
/* How many threads sessions compute with: fewer than were asked for where OpenMP grants no more, as by
 * OMP_THREAD_LIMIT or inside a parallel region. A session runs only where there are so many. */
BRASA_API int32_t brasa_context_threads(const brasa_context *context);
/* Where sessions compute that are made from here on: "cpu", as at first, or "cuda", or "cuda:1" where there are
 * several. Before the first session. The error says what is missing. */
BRASA_API brasa_status brasa_context_use(brasa_context *context, const char *device);

/* --- graph: describing a network -------------------------------------------------------------------- */

/* An empty graph. context NULL: the graph makes one of its own with default options. NULL: out of memory. */
BRASA_API brasa_graph *brasa_graph_new(brasa_context *context);
BRASA_API void brasa_graph_free(brasa_graph *graph);
/* The first error of a builder call, or BRASA_OK. */
BRASA_API brasa_status brasa_graph_status(const brasa_graph *graph);
BRASA_API const char *brasa_graph_error(const brasa_graph *graph);

/* Whose formulas and defaults to follow: "torch" (the default), "tfkeras", "keras2" or "caffe".
 * Before the first layer. `brasa dialects` prints what they change. */
BRASA_API brasa_status brasa_graph_set_dialect(brasa_graph *graph, const char *name);

/* A batch of pictures, N x channels x height x width; N is chosen by the session. */
BRASA_API brasa_tensor brasa_input(brasa_graph *graph, const char *name, int32_t channels, int32_t height,
                                   int32_t width);
/* A batch of feature vectors, N x features. */
BRASA_API brasa_tensor brasa_input_vector(brasa_graph *graph, const char *name, int32_t features);
/* A batch of class labels, N numbers (int32) from 0 to classes - 1. */
BRASA_API brasa_tensor brasa_labels(brasa_graph *graph, const char *name, int32_t classes);

/* Any layer, written as in a model file: its word, its values in order, then key=value.
 *     x = brasa_apply(x, "conv %d 3x3 stride=2 pad=same bias=no name=stem", channels);
 * `brasa help layers` lists the words. The format is printf's. */
BRASA_API brasa_tensor brasa_apply(brasa_tensor x, const char *format, ...) BRASA_PRINTF(2, 3);
/* The same for layers of several inputs, such as add and concat. */
BRASA_API brasa_tensor brasa_apply_n(brasa_graph *graph, const brasa_tensor *inputs, int32_t count,
                                     const char *format, ...) BRASA_PRINTF(4, 5);
/* Names of layers made from here on start with this prefix (copied; "" for none). */
BRASA_API void brasa_graph_scope(brasa_graph *graph, const char *prefix);

/* Shortcuts for the commonest layers; each is one brasa_apply. */
enum { BRASA_VALID = 0, BRASA_SAME = -1 }; /* padding: none; so that the size stays; else pixels a side */
BRASA_API brasa_tensor brasa_conv2d(brasa_tensor x, int32_t channels, int32_t size, int32_t padding);
BRASA_API brasa_tensor brasa_dense(brasa_tensor x, int32_t features);
BRASA_API brasa_tensor brasa_batchnorm(brasa_tensor x);
BRASA_API brasa_tensor brasa_relu(brasa_tensor x);
BRASA_API brasa_tensor brasa_maxpool(brasa_tensor x, int32_t size);
BRASA_API brasa_tensor brasa_avgpool(brasa_tensor x, int32_t size);
BRASA_API brasa_tensor brasa_global_avgpool(brasa_tensor x);
BRASA_API brasa_tensor brasa_dropout(brasa_tensor x, float probability);
BRASA_API brasa_tensor brasa_flatten(brasa_tensor x);
BRASA_API brasa_tensor brasa_add(brasa_tensor a, brasa_tensor b);
BRASA_API brasa_tensor brasa_concat(brasa_graph *graph, const brasa_tensor *inputs, int32_t count);

/* A classifier's end: a dense layer to `classes` logits, labels as input "label", softmax cross-entropy as
 * the loss, and the outputs "logits", "probs", "loss" and "accuracy". Returns the logits. */
BRASA_API brasa_tensor brasa_classify(brasa_tensor x, int32_t classes);
/* The scalar that training minimizes; read it as "loss". */
BRASA_API void brasa_set_loss(brasa_tensor scalar);
/* Keeps a value readable under this name (copied) after each step. */
BRASA_API void brasa_output(brasa_tensor x, const char *name);
/* The shape of a value with N = 1; returns the rank (0 is a scalar, 6 the most), or -1 where the graph holds an
 * error. */
BRASA_API int32_t brasa_tensor_shape(brasa_tensor x, int64_t shape[6]);

/* --- models: networks that come with the library, and files --------------------------------------------- */

typedef struct brasa_model_info {
    const char *name;
    const char *summary;
    int32_t classes;  /* default */
    int32_t input[3]; /* channels, height, width; a vector has height and width 0 */
} brasa_model_info;

/* The index-th model, from 0; false past the last one. The texts are static. */
BRASA_API bool brasa_model_at(int32_t index, brasa_model_info *out);
/* Builds a model by name, or from a file whose name ends in .net, into an empty graph. classes 0: the
 * model's default. */
BRASA_API brasa_status brasa_model_build(brasa_graph *graph, const char *name, int32_t classes);

/* Learned parameters: trainable weights first in the order of their making. */
typedef struct brasa_param_info {
    const char *name; /* borrowed from the graph */
    int32_t rank;
    int64_t shape[6];
    bool trainable; /* false: a buffer, such as batch norm's running mean */
} brasa_param_info;

BRASA_API bool brasa_graph_param_at(const brasa_graph *graph, int32_t index, brasa_param_info *out);
/* Number of trainable scalars. */
BRASA_API int64_t brasa_graph_param_total(const brasa_graph *graph);

/* --- session: a compiled network, ready to run ---------------------------------------------------------- */

/* Kernels chosen by the clock. Where several can do a node, each runs a few times on made-up numbers while the
 * session is made, and the fastest is taken. That depends on the machine and on the node alone, so that times can be
 * kept in a file; nothing is written unless `cache` names one. Kernels differ in the last digits of what they
 * compute: sessions that are to give the same bits need the same choices, from one cache or one record.
 *
 * On a GPU there is one kernel for a node, but NVIDIA's libraries have many within it, and these are chosen so. They
 * are kept in a file of their own, in the folder that `brasa help environment` tells, whatever `cache` says; with
 * `record` alone nothing but that is asked, and what it does not know, or everything without `measure`, `cache` and
 * `record`, is each library's first. Where options.tuning is NULL, they are timed. */
typedef struct brasa_tuning {
    bool measure;      /* false, or with plan_only: files are asked only; what they do not know is the first kernel */
    const char *cache; /* a file of times, of any number of networks and machines; written while something is
                          measured, and after it, where that is possible; NULL: none */
    const char *record;  /* a file of brasa_session_save_tuning: what it says is taken, on any machine; NULL: none */
    uint64_t most_bytes; /* of memory to measure in, beside what the session has; 0: as much as a node needs */
    /* Called before each node that is timed, `done` of `total`; false stops it, and the session is not made. Also
     * with a note about a file that could not be read or written. NULL: nobody is told. */
    bool (*watch)(void *user, int64_t done, int64_t total, const char *note);
    void *user;
} brasa_tuning;

/* How a GPU computes. BRASA_F32: in floats throughout. BRASA_TF32: what convolutions and dense layers multiply is cut
 * to 10 bits of fraction, sums are floats. BRASA_BF16: activations and their gradients are stored in 16 bits, of
 * which 7 are of the fraction, and so are the velocities of SGD; weights, what other optimizers remember, statistics
 * and sums stay floats. */
enum { BRASA_F32 = 0, BRASA_TF32 = 1, BRASA_BF16 = 2 };

typedef struct brasa_session_options {
    int64_t batch;         /* N of a training step; 0: 1 */
    const char *optimizer; /* "sgd lr=0.01 momentum=0.9", "adadelta", ...; NULL: "sgd"; see brasa help optimizers */
    const char *schedule;  /* "cosine steps=1000 warmup=100", "step every=30 gamma=0.1"; NULL: "constant" */
    double clip_norm;      /* gradients are scaled down to this global norm; 0: not at all */
    uint64_t seed;         /* of initial weights and dropout */
    bool inference;        /* no training, no labels: outputs that need labels (loss, accuracy) are left out */
    bool plan_only;        /* everything is planned, nothing allocated: to ask what a training would need */
    int32_t precision;     /* of a GPU: BRASA_F32, BRASA_TF32 or BRASA_BF16; the CPU has BRASA_F32 alone */
    bool float64;          /* double precision throughout, on the reference kernels: for proofs */
    bool keep_gradients;   /* gradients stay readable as "<parameter>.grad" after a training step */
    bool no_fusion;        /* these two keep the plan plain, for tests and debugging */
    bool no_inplace;
    const char *kernels; /* only kernels whose name contains this text, where there is one; NULL: the best */
    const char *freeze;  /* parameters that stay as they are: names, with * for any text, as in "features.*, fc1.*" */
    /* What each class counts in softmax cross-entropy, in training and evaluation, as CrossEntropyLoss(weight) of
     * PyTorch: the loss is the sum of w[label] x loss of the sample / the sum of w[label]. As many numbers, of at
     * least 0, as there are classes; copied. NULL: 1 each, or what the network file says. */
    const float *class_weights;
    int32_t class_weight_count;
    /* A training step computes the batch in so many equal parts, one after the other, with the memory of one of them:
     * the result is that of the whole batch but for rounding. 0 or 1: the batch is whole. See brasa_session_new. */
    int64_t parts;
    bool deterministic; /* the same bits whatever the number of threads: a few kernels then run on one of them */
    const brasa_tuning *tuning; /* copied, texts too. NULL, and always with deterministic: the first kernel of a list
                                   that takes the node */
} brasa_session_options;

/* Compiles the graph: infer, differentiate, fuse, choose kernels, lay out memory, set initial weights.
 * The graph must outlive the session and may serve several. On failure *out is NULL and
 * brasa_graph_error(graph) says why.
 *
 * With options.parts, everything is used as without: brasa_feed takes the whole batch, brasa_train walks through its
 * parts, adds their gradients up and updates the weights once, dropout draws what it would draw for the whole batch,
 * and the scalars that brasa_fetch reads, such as loss and accuracy, are those of the whole batch. Outputs of single
 * samples ("logits") cannot be read after a training step. What is fed must stay where it is until brasa_train has
 * returned. A batch of another size is cut into parts of the same size, the last one smaller if need be. Evaluation
 * is not cut: its batch is what brasa_use says. Networks with batch norm, which computes with the whole batch, are
 * refused. */
BRASA_API brasa_status brasa_session_new(brasa_graph *graph, const brasa_session_options *options,
                                         brasa_session **out);
BRASA_API void brasa_session_free(brasa_session *session);
BRASA_API const char *brasa_session_error(const brasa_session *session);

/* Makes ready for another batch size (the last, smaller batch of an epoch, say), for training or evaluation.
 * Sizes not made ready are made so on first use; doing it here keeps the steps free of allocation.
 * The largest first saves memory. A size that is new may take the place of what was fed and can be fetched. */
BRASA_API brasa_status brasa_session_prepare(brasa_session *session, bool training, int64_t batch);

/* Copies into the input of that name for the next step of the current size: N x ... elements, float (double
 * in a float64 session) or int32 labels, in the plain order (NCHW). bytes must match. The step consumes it: feed
 * again before the next. With options.parts nothing is copied here: brasa_train reads the data, which must still be
 * there. */
BRASA_API brasa_status brasa_feed(brasa_session *session, const char *input, const void *data, size_t bytes);
/* One training step / one evaluation on what was fed. */
BRASA_API brasa_status brasa_train(brasa_session *session);
BRASA_API brasa_status brasa_evaluate(brasa_session *session);
/* Chooses the program, training or evaluation of this batch size, that feed and fetch refer to. */
BRASA_API brasa_status brasa_use(brasa_session *session, bool training, int64_t batch);
/* Copies a named output of the last step ("loss", "accuracy", "logits", "probs", "<parameter>.grad", ...)
 * to `data`; bytes must match. */
BRASA_API brasa_status brasa_fetch(brasa_session *session, const char *output, void *data, size_t bytes);

/* The three calls above in one, for classifiers: N pictures and N labels at the session's batch. loss and
 * accuracy may be NULL. */
BRASA_API brasa_status brasa_train_step(brasa_session *session, const float *images, const int32_t *labels,
                                        float *loss);
BRASA_API brasa_status brasa_eval_step(brasa_session *session, const float *images, const int32_t *labels,
                                       int64_t batch, float *loss, float *accuracy);

/* Parameters, buffers and optimizer state ("fc1.weight/momentum") by name, plain layout (OIHW). count is in elements.
 */
BRASA_API brasa_status brasa_param_get(brasa_session *session, const char *name, float *data, int64_t count);
BRASA_API brasa_status brasa_param_set(brasa_session *session, const char *name, const float *data, int64_t count);
/* Training steps done. */
BRASA_API int64_t brasa_session_steps(const brasa_session *session);

/* What the session holds, to the byte. */
typedef struct brasa_memory {
    uint64_t weights, buffers, optimizer; /* persistent */
    uint64_t sums;                        /* persistent too: gradients added up over the parts of a batch */
    uint64_t transient;                   /* activations, gradients, workspace: the arena of the largest program */
    /* What it holds at its fullest step; room that could not be used there counts as activations. */
    uint64_t activations, gradients, workspace;
    uint64_t lower_bound; /* the largest sum of bytes alive at one step; of the largest program too */
    uint64_t total;       /* the one allocation that holds all of it, 64 bytes for alignment included */
    uint64_t copy;        /* with a GPU: the host's copy of what lasts, in floats; 0 without */
} brasa_memory;
BRASA_API brasa_status brasa_session_memory(const brasa_session *session, brasa_memory *out);

/* Writes which kernels were chosen by their times, for brasa_tuning.record: a session made with it computes with the
 * same ones. */
BRASA_API brasa_status brasa_session_save_tuning(const brasa_session *session, const char *path);

/* Timing of every node: profile on, run steps, then explain. */
BRASA_API void brasa_session_profile(brasa_session *session, bool on);

enum { BRASA_EXPLAIN_TEXT = 0, BRASA_EXPLAIN_JSON = 1, BRASA_EXPLAIN_TUNING = 2, BRASA_EXPLAIN_PROFILE = 3 };
/* Writes every step of the current program with its op, shapes, kernel, layout, offset, bytes and, after
 * profiled steps, time; or, for TUNING, the kernels that were chosen by their times; for PROFILE, the time of
 * profiled steps by kernel and by node. `write` is called with pieces of text and returns false to stop. */
BRASA_API brasa_status brasa_session_explain(brasa_session *session, int32_t format,
                                             bool (*write)(void *user, const char *text, size_t length), void *user);

/* --- weights in and out ---------------------------------------------------------------------------------- */

/* Files are safetensors, as other frameworks read and write them: named tensors in plain layout (OIHW), float
 * (double from a float64 session). tools/convert_torchvision.py makes them from PyTorch's state dicts and back. */
enum {
    BRASA_WEIGHTS = 0,    /* parameters and buffers, and num_batches_tracked of each batch norm (the steps done) */
    BRASA_CHECKPOINT = 1, /* also the optimizer's memory and the step count: an equal session that loads it goes on
                             as if it had never stopped */
};

/* Writes all of it, or leaves what is there: a temporary file in the same folder is synced and renamed. */
BRASA_API brasa_status brasa_session_save(brasa_session *session, const char *path, int32_t what);

typedef struct brasa_load_options {
    int32_t what;       /* BRASA_WEIGHTS, also from a checkpoint, or BRASA_CHECKPOINT */
    bool allow_missing; /* what the file lacks stays as it is */
    bool allow_unknown; /* what the network lacks is passed over */
    bool allow_misfit;  /* so is what has another shape or type: the head, when the classes differ */
} brasa_load_options;

typedef struct brasa_load_report {
    int32_t taken; /* tensors; num_batches_tracked is checked, but neither needed nor taken */
    int32_t missing, unknown, misfit;
    char names[800]; /* of the last three; "... and N more" where they do not fit */
} brasa_load_report;

/* Reads F32, F64, F16 and BF16. Whatever is wrong with the file, or does not fit the network and is not allowed, is
 * named in the error, and nothing in the session has changed. options and report may be NULL; the report is also
 * filled where the file does not fit. */
BRASA_API brasa_status brasa_session_load(brasa_session *session, const char *path, const brasa_load_options *options,
                                          brasa_load_report *report);

#ifdef __cplusplus
}
#endif
#endif
