/* brasa.h - train neural networks from C.
 *
 * The whole public interface. A program describes a network as a graph, compiles it into a session, and runs steps:
 *
 *     brasa_graph *g = brasa_graph_new(NULL);
 *     brasa_tensor x = brasa_input(g, "image", 1, 28, 28);              // N x 1 x 28 x 28
 *     x = brasa_relu(brasa_conv2d(x, 32, 3, BRASA_VALID));              // N x 32 x 26 x 26
 *     x = brasa_dense(brasa_flatten(brasa_maxpool(x, 2)), 128);         // N x 128
 *     brasa_classify(brasa_relu(x), 10);                                // logits, loss, accuracy
 *
 *     brasa_session *s = NULL;
 *     brasa_session_options o = {.size = sizeof o, .batch = 64, .optimizer = "sgd lr=0.01 momentum=0.9"};
 *     if (brasa_session_new(g, &o, &s) != BRASA_OK)
 *         return puts(brasa_graph_error(g)), 1;
 *     brasa_train_step(s, images, labels, &loss);                       // once per batch
 *
 * Errors. A call that can fail returns a brasa_status, and the context keeps a text that explains the last failure
 * (brasa_context_error). The first error of a builder call sticks to its graph: later calls do nothing, and
 * brasa_session_new reports it. A NULL where a pointer is needed is an error. The library never exits, aborts or
 * prints.
 *
 * Structs that can grow. A struct whose first member is `size` must be told its size, for input and for output:
 * `brasa_memory m = {.size = sizeof m};`. Later versions append members: for a program compiled against an older
 * header, the library takes them as zero and never writes them. Zero is the default of every option.
 *
 * Ownership. *_new creates, *_free releases; free(NULL) is allowed. The caller borrows a const pointer that a call
 * returns; the call's comment says until when.
 *
 * Threads. There is no global state. One thread at a time may use a context and the graphs and sessions made from it.
 * Separate contexts are independent.
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
    BRASA_OUT_OF_MEMORY = 1, /* an allocation failed; earlier objects are unchanged */
    BRASA_BAD_ARGUMENT = 2,  /* an option, name or value is not allowed */
    BRASA_BAD_SHAPE = 3,     /* shapes of tensors do not fit together */
    BRASA_BAD_FILE = 4,      /* a file cannot be read or written, or its content is wrong */
    BRASA_NOT_FOUND = 5,     /* there is no model, op, parameter or value of that name */
    BRASA_NO_KERNEL = 6,     /* no kernel of this build runs the node */
    BRASA_WRONG_STATE = 7,   /* the handle does not allow this call now */
    BRASA_INTERNAL = 8       /* a defect in Brasa: please report it */
} brasa_status;

typedef struct brasa_context brasa_context;
typedef struct brasa_graph brasa_graph;
typedef struct brasa_session brasa_session;
typedef struct brasa_data brasa_data;

/* A value in a graph. Pass it by value; it is valid as long as its graph. */
typedef struct brasa_tensor {
    brasa_graph *graph;
    int32_t id;
} brasa_tensor;
/* Returns the library's version, such as "0.1.0". Static. */
BRASA_API const char *brasa_version(void);
/* Returns a short text for a status, such as "out of memory". Static. */
BRASA_API const char *brasa_status_text(brasa_status status);

/* --- context: threads, memory, device, the last error -------------------------------------------------- */
typedef struct brasa_context_options {
    size_t size;
    int32_t threads; /* at most 1024; 0: as many as the CPU affinity and the cgroup's quota allow */
    /* The allocator, aligned as malloc. Set both functions or neither; NULL: malloc and free. */
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
} brasa_context_options;
/* Creates a context. options may be NULL. */
BRASA_API brasa_status brasa_context_new(const brasa_context_options *options, brasa_context **out);
/* Frees a context. Free its graphs and sessions first. */
BRASA_API void brasa_context_free(brasa_context *context);
/* Returns the text of the last error, or "". Borrowed until the next failing call. NULL: why there is no context. */
BRASA_API const char *brasa_context_error(const brasa_context *context);
/* Returns the number of threads of a session: fewer than requested if OpenMP grants fewer. */
BRASA_API int32_t brasa_context_threads(const brasa_context *context);
/* Selects the device of all later sessions: "cpu" (the default), "cuda", "cuda:1". Call it before the first session.
 * brasa_device_at lists the devices; on failure the error says what is missing. */
BRASA_API brasa_status brasa_context_use(brasa_context *context, const char *device);

/* --- graph: describing a network ----------------------------------------------------------------------- */
/* Returns an empty graph, or NULL if out of memory. context NULL: the graph owns a context with default options. */
BRASA_API brasa_graph *brasa_graph_new(brasa_context *context);
BRASA_API void brasa_graph_free(brasa_graph *graph);
/* Returns the first error of a builder call, or BRASA_OK. */
BRASA_API brasa_status brasa_graph_status(const brasa_graph *graph);
BRASA_API const char *brasa_graph_error(const brasa_graph *graph);
/* Selects a framework's formulas and defaults: "torch" (the default), "tfkeras", "keras2" or "caffe". Call it before
 * the first layer. `brasa dialects` prints the differences. */
BRASA_API brasa_status brasa_graph_set_dialect(brasa_graph *graph, const char *name);
/* Adds an input of images, N x channels x height x width. The session chooses N. */
BRASA_API brasa_tensor brasa_input(brasa_graph *graph, const char *name, int32_t channels, int32_t height,
                                   int32_t width);
/* Adds an input of feature vectors, N x features. */
BRASA_API brasa_tensor brasa_input_vector(brasa_graph *graph, const char *name, int32_t features);
/* Adds an input of class labels: N int32 numbers from 0 to classes - 1. */
BRASA_API brasa_tensor brasa_labels(brasa_graph *graph, const char *name, int32_t classes);
/* Adds any layer, written as in a model file: its word, its values in order, then key=value.
 *     x = brasa_apply(x, "conv %d 3x3 stride=2 pad=same bias=no name=stem", channels);
 * `brasa help layers` and brasa_entry_at list the words. The format is printf's. */
BRASA_API brasa_tensor brasa_apply(brasa_tensor x, const char *format, ...) BRASA_PRINTF(2, 3);
/* Adds a layer of several inputs, such as add and concat. */
BRASA_API brasa_tensor brasa_apply_n(brasa_graph *graph, const brasa_tensor *inputs, int32_t count,
                                     const char *format, ...) BRASA_PRINTF(4, 5);
/* Sets a prefix for the names of later layers. Copied; NULL or "": none. */
BRASA_API void brasa_graph_scope(brasa_graph *graph, const char *prefix);

/* Shortcuts for common layers; each is one brasa_apply. */
enum { BRASA_VALID = 0, BRASA_SAME = -1 }; /* padding: none; output as large as the input; else pixels per side */
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
/* Adds the end of a classifier: a dense layer with `classes` logits, the input "label", softmax cross-entropy as the
 * loss, and the outputs "logits", "probs", "loss" and "accuracy". Returns the logits. */
BRASA_API brasa_tensor brasa_classify(brasa_tensor x, int32_t classes);
/* Sets the scalar that training minimizes. It is the output "loss". */
BRASA_API void brasa_set_loss(brasa_tensor scalar);
/* Makes a value an output: readable under this name (copied) after each step. */
BRASA_API void brasa_output(brasa_tensor x, const char *name);
/* Stores the shape of a value for N = 1 and returns its rank, 0 (a scalar) to 6; -1: the graph holds an error. */
BRASA_API int32_t brasa_tensor_shape(brasa_tensor x, int64_t shape[6]);

/* --- models: networks of the library, and files ----------------------------------------------------------- */
typedef struct brasa_model_info {
    size_t size;
    const char *name, *summary; /* static */
    int32_t classes;            /* the default */
    int32_t input[3];           /* channels, height, width; of a feature vector height and width are 0 */
} brasa_model_info;
/* Describes model `index`, from 0. Returns false past the last one, and if out->size is not set. */
BRASA_API bool brasa_model_at(int32_t index, brasa_model_info *out);
/* Builds a model into an empty graph: one of the library by its name, or a file whose name ends in .net.
 * classes 0: the model's default. */
BRASA_API brasa_status brasa_model_build(brasa_graph *graph, const char *name, int32_t classes);

/* A parameter of a graph, or an input or output of a session. */
typedef struct brasa_value_info {
    size_t size;
    const char *name;   /* borrowed from the graph or session */
    int32_t type, rank; /* type: BRASA_TYPE_F32, ... */
    int64_t shape[6];
    int32_t classes; /* of labels; else 0 */
    bool trainable;  /* of a parameter; false: a buffer, such as batch norm's running mean */
} brasa_value_info;
/* Describes parameter `index`: trainable ones first, in the order of the layers. Returns false past the last one, and
 * if out->size is not set. */
BRASA_API bool brasa_graph_param_at(const brasa_graph *graph, int32_t index, brasa_value_info *out);
/* Returns the number of trainable scalars. */
BRASA_API int64_t brasa_graph_param_total(const brasa_graph *graph);

/* --- data: labelled samples to learn from ------------------------------------------------------------------ */
/* Types of elements. */
enum { BRASA_TYPE_F32 = 1, BRASA_TYPE_F64, BRASA_TYPE_BF16, BRASA_TYPE_I32, BRASA_TYPE_I64, BRASA_TYPE_U8 };

/* A tensor in the caller's memory. No two elements may share an address. */
typedef struct brasa_array {
    void *data;         /* the first element, aligned for its type */
    int32_t type;       /* BRASA_TYPE_F32, ... */
    int32_t rank;       /* 0 to 6 */
    int64_t shape[6];   /* at least 1 each */
    int64_t strides[6]; /* in elements; all 0: dense, the last axis fastest */
    const char *device; /* "cuda", "cuda:1"; NULL or "cpu": the host's memory */
    void *stream;       /* the device's stream in which the elements become ready; NULL: they are ready */
} brasa_array;
/* Opens data by a spec, in files or drawn: "idx:DIR", "images:DIR", "csv:FILE,label=class", "synth:digits,n=1000".
 * `brasa help data` lists the forms. */
BRASA_API brasa_status brasa_data_open(brasa_context *context, const char *spec, brasa_data **out);
/* Frees data. Free the trainers that use it first, and its context last. */
BRASA_API void brasa_data_free(brasa_data *data);

/* Samples in host memory: images N x C x H x W, N x H x W x C (nhwc) or N x H x W, or vectors N x features. Images of
 * type U8 have 1 or 3 channels, and a transform crops, flips and normalizes them; all other samples are fed as they
 * are, as f32. Labels are N numbers of type I32, I64 or U8 from 0 to classes - 1; copied. */
typedef struct brasa_data_arrays {
    size_t size;
    brasa_array samples, labels;           /* to train on */
    brasa_array test_samples, test_labels; /* to test on, of the same kind; data NULL: none */
    bool nhwc;
    bool copy;                      /* false: samples are borrowed and must not change until brasa_data_free */
    int32_t classes;                /* 0: the largest label + 1 */
    const char *const *class_names; /* one per class, copied; NULL: "0", "1", ... */
} brasa_data_arrays;
BRASA_API brasa_status brasa_data_from_arrays(brasa_context *context, const brasa_data_arrays *arrays,
                                              brasa_data **out);

/* Samples that a function of the caller reads on demand. Samples have numbers: 0 to count - 1 are to train on, the
 * next test_count to test on. */
typedef struct brasa_data_callback {
    size_t size;
    /* Writes the samples with these numbers, dense, to `data`, and their labels to `labels`. One of the two is NULL:
     * not wanted. Returns the number of samples written; fewer than `count` is a failure. A number must always mean
     * the same sample. Calls never overlap; most come from a thread of the library, during a step. */
    int32_t (*read)(void *user, const int32_t *samples, int32_t count, void *data, int32_t *labels);
    void *user; /* valid until brasa_data_free, as `read` */
    int32_t count, test_count;
    int32_t type; /* BRASA_TYPE_U8: images H x W x C, of 1 or 3 channels; BRASA_TYPE_F32: C x H x W */
    int32_t channels, height, width; /* height and width 0: vectors of `channels` f32 numbers */
    int32_t classes;
    const char *const *class_names; /* as above */
    /* A text that changes when the samples change, such as a version: a run resumes only on the data it began with.
     * Copied. NULL: a training first reads all samples, to hash them. */
    const char *identity;
} brasa_data_callback;
BRASA_API brasa_status brasa_data_from_callback(brasa_context *context, const brasa_data_callback *callback,
                                                brasa_data **out);

/* Facts about data. */
typedef struct brasa_data_info {
    size_t size;
    int32_t samples, test_samples, classes;
    int32_t channels, height, width; /* height and width are 0 for vectors, and for images of various sizes */
    bool images;                     /* 8-bit images, which a transform prepares; false: numbers, fed as they are */
} brasa_data_info;
BRASA_API brasa_status brasa_data_describe(const brasa_data *data, brasa_data_info *out);
/* Returns the name of class `index`, borrowed from the data; NULL past the last one. */
BRASA_API const char *brasa_data_class(const brasa_data *data, int32_t index);

/* --- session: a compiled network, ready to run -------------------------------------------------------------- */
/* Autotuning. If several kernels can run a node, the tuner times each on random data while the session is made, and
 * takes the fastest. Times depend on the machine and the node alone, so a file can keep them. Kernels differ in the
 * last digits of their results: sessions that must give the same bits need the same cache or the same record.
 *
 * On a GPU the tuner times the algorithms that NVIDIA's libraries offer for a node. An algorithm that no file and no
 * measurement knows is the library's own first choice. With brasa_session_options.tuning NULL, CPU kernels are not
 * timed and GPU algorithms are, with the cache kernels.txt in the folder that `brasa help environment` names, unless
 * BRASA_TUNE is off. */
typedef struct brasa_tuning {
    size_t size;
    bool measure;       /* false, or plan_only: read the files only; a node they do not know takes its first kernel */
    const char *cache;  /* file of times of any networks and machines; read, then rewritten if possible; NULL: none */
    const char *record; /* file of brasa_session_save_tuning: its choices hold on any machine; NULL: none */
    uint64_t memory_limit; /* bytes for measuring, beside the session's own; 0: what a node needs */
    /* Called before each node that is timed, `done` of `total`, and again while one takes long: return false to stop;
     * then no session is made. Also called with a note on a file that cannot be read or written. May be NULL. */
    bool (*watch)(void *user, int64_t done, int64_t total, const char *note);
    void *user;
} brasa_tuning;

/* Precision on a GPU. BRASA_F32: f32 throughout. BRASA_TF32: convolutions and dense layers round their factors to 10
 * bits of fraction and accumulate in f32. BRASA_BF16: mixed precision. Activations, their gradients and SGD's
 * momentum are stored in bf16; master weights, other optimizer state, statistics and accumulation stay f32. */
enum { BRASA_F32 = 0, BRASA_TF32 = 1, BRASA_BF16 = 2 };

typedef struct brasa_session_options {
    size_t size;
    int64_t batch;         /* N of a training step; 0: 1 */
    const char *optimizer; /* "sgd lr=0.01 momentum=0.9", "adadelta", ...; NULL: "sgd"; see brasa help optimizers */
    const char *schedule;  /* "cosine steps=1000 warmup=100", "step every=30 gamma=0.1"; NULL: "constant" */
    double clip_norm;      /* largest global norm of the gradients; 0: no clipping */
    uint64_t seed;         /* of initial weights and dropout */
    bool inference;        /* no training and no labels: outputs that need labels are left out */
    bool plan_only;        /* plan without allocating: to learn what a training needs */
    int32_t precision;     /* on a GPU: BRASA_F32, BRASA_TF32 or BRASA_BF16; the CPU has BRASA_F32 alone */
    bool float64;          /* compute in f64 on the CPU's reference kernels: for verification */
    bool keep_gradients;   /* make gradients outputs of a training step, named "<parameter>.grad" */
    bool no_fusion;        /* for tests and debugging: keep every node separate ... */
    bool no_inplace;       /* ... and no output in the memory of an input */
    const char *kernels;   /* prefer kernels whose name contains this text; NULL: the best */
    const char *freeze;    /* parameters that are not trained; * stands for any text: "features.*, fc1.*" */
    /* Weights of the classes in softmax cross-entropy: the loss is sum(w[label] * loss of the sample) /
     * sum(w[label]). One number >= 0 per class; copied. NULL: the network file's, or 1 each. */
    const float *class_weights;
    int32_t class_weight_count;
    /* Gradient accumulation: a step computes this many equal micro-batches, one after the other, in the memory of
     * one, and updates the weights once. The result is that of the whole batch but for rounding. 0 or 1: off. */
    int64_t micro_batches;
    bool deterministic;         /* same bits for any number of threads; a few kernels then use one thread */
    const brasa_tuning *tuning; /* copied; NULL, and always with deterministic: each node takes its first kernel */
} brasa_session_options;
/* Compiles the graph: infers shapes, differentiates, fuses, chooses kernels, lays out memory, sets initial weights.
 * options may be NULL. The graph must outlive the session and may serve several. On failure *out is NULL and
 * brasa_graph_error(graph) says why. With micro_batches, brasa_feed takes the whole batch, and the data must stay in
 * place until brasa_train returns; outputs per sample ("logits") cannot be read after a training step; evaluation is
 * not cut; networks with batch norm, which needs the whole batch, are refused. */
BRASA_API brasa_status brasa_session_new(brasa_graph *graph, const brasa_session_options *options,
                                         brasa_session **out);
BRASA_API void brasa_session_free(brasa_session *session);
/* Returns the text of the context's last error. Borrowed until the next failing call. */
BRASA_API const char *brasa_session_error(const brasa_session *session);
/* Compiles the program of a mode and batch size in advance, the largest best first; else its first step compiles it,
 * and allocates. A new size may discard inputs and outputs. */
BRASA_API brasa_status brasa_session_prepare(brasa_session *session, bool training, int64_t batch);
/* Selects the program that feed and fetch refer to. */
BRASA_API brasa_status brasa_use(brasa_session *session, bool training, int64_t batch);
/* Copies data into an input of the selected program: N x ... elements, float (double in a float64 session) or int32
 * labels, in NCHW order. bytes must match. Feed every input again before each step. */
BRASA_API brasa_status brasa_feed(brasa_session *session, const char *input, const void *data, size_t bytes);
/* Runs one training step, or one evaluation, on the inputs that were fed. */
BRASA_API brasa_status brasa_train(brasa_session *session);
BRASA_API brasa_status brasa_evaluate(brasa_session *session);
/* Copies an output of the last step ("loss", "accuracy", "logits", "probs", "<parameter>.grad", ...) to `data`.
 * bytes must match. */
BRASA_API brasa_status brasa_fetch(brasa_session *session, const char *output, void *data, size_t bytes);
/* Selects, feeds, runs and fetches in one call, for networks with one input and at most one of labels; training uses
 * the session's batch. loss and accuracy may be NULL. */
BRASA_API brasa_status brasa_train_step(brasa_session *session, const float *images, const int32_t *labels,
                                        float *loss);
BRASA_API brasa_status brasa_eval_step(brasa_session *session, const float *images, const int32_t *labels,
                                       int64_t batch, float *loss, float *accuracy);
/* Copies a parameter, a buffer or optimizer state ("fc1.weight/momentum") to or from `data`, in plain layout (OIHW).
 * count is in elements. */
BRASA_API brasa_status brasa_param_get(brasa_session *session, const char *name, float *data, int64_t count);
BRASA_API brasa_status brasa_param_set(brasa_session *session, const char *name, const float *data, int64_t count);
/* Returns the number of training steps done. */
BRASA_API int64_t brasa_session_steps(const brasa_session *session);

/* The memory of a session, in bytes. */
typedef struct brasa_memory {
    size_t size;
    uint64_t weights, buffers, optimizer; /* persistent */
    uint64_t accumulated;                 /* persistent: gradients accumulated over micro-batches */
    uint64_t transient;                   /* activations, gradients, workspace: the arena of the largest program */
    uint64_t activations, gradients, workspace; /* its split at the fullest step; gaps count as activations */
    uint64_t lower_bound;                       /* most bytes alive at one step of the largest program */
    uint64_t total;     /* the one allocation for all of the above, with 64 bytes for alignment */
    uint64_t host_copy; /* on a GPU: the host's f32 copy of what is persistent; else 0 */
} brasa_memory;
BRASA_API brasa_status brasa_session_memory(const brasa_session *session, brasa_memory *out);
/* Writes the tuner's choices to a file. A session with this file as brasa_tuning.record takes the same kernels. */
BRASA_API brasa_status brasa_session_save_tuning(const brasa_session *session, const char *path);
/* Turns the timing of every node on or off. Then run steps, then explain. */
BRASA_API void brasa_session_profile(brasa_session *session, bool on);

enum { BRASA_EXPLAIN_TEXT = 0, BRASA_EXPLAIN_JSON = 1, BRASA_EXPLAIN_TUNING = 2, BRASA_EXPLAIN_PROFILE = 3 };
/* Writes every node of the selected program; TUNING: the tuner's choices; PROFILE: times by kernel and by node.
 * Calls `write` with pieces of text; it returns false to stop. */
BRASA_API brasa_status brasa_session_explain(brasa_session *session, int32_t format,
                                             bool (*write)(void *user, const char *text, size_t length), void *user);

/* --- weights in and out ---------------------------------------------------------------------------------- */
/* Files are safetensors: named tensors in plain layout (OIHW), f32 (f64 from a float64 session). */
enum {
    BRASA_WEIGHTS = 0,    /* parameters and buffers, and num_batches_tracked of each batch norm (the steps done) */
    BRASA_CHECKPOINT = 1, /* also optimizer state and step count: an equal session resumes from it bit for bit */
};
/* Writes a file, atomically: on failure an existing one stays as it was. */
BRASA_API brasa_status brasa_session_save(brasa_session *session, const char *path, int32_t what);

typedef struct brasa_load_options {
    size_t size;
    int32_t what;          /* BRASA_WEIGHTS, also from a checkpoint, or BRASA_CHECKPOINT */
    bool allow_missing;    /* parameters that the file lacks stay as they are */
    bool allow_unknown;    /* tensors that the network lacks are ignored */
    bool allow_mismatched; /* tensors of another shape or type are ignored: the head, when the classes differ */
} brasa_load_options;

typedef struct brasa_load_report {
    size_t size;
    int32_t loaded; /* tensors, without num_batches_tracked, which is checked but not needed */
    int32_t missing, unknown, mismatched;
    char names[800]; /* of the last three; "... and N more" if there is no room */
} brasa_load_report;
/* Reads F32, F64, F16 and BF16. If the file is damaged or does not fit, the error names each fault and the session is
 * unchanged. options and report may be NULL; the report is also filled if the file does not fit. */
BRASA_API brasa_status brasa_session_load(brasa_session *session, const char *path, const brasa_load_options *options,
                                          brasa_load_report *report);

/* --- introspection: what this build offers, and what a network consists of ------------------------------------ */
/* Each call describes item `index`, from 0. It returns false past the last one, for a name that does not exist, and
 * if out->size is not set. Texts are static unless the comment says otherwise. The lists have the words for
 * brasa_apply, brasa_session_options.optimizer and .schedule, and brasa_graph_set_dialect. */
typedef enum brasa_list { BRASA_LAYERS, BRASA_OPTIMIZERS, BRASA_SCHEDULES, BRASA_DIALECTS } brasa_list;
typedef struct brasa_entry {
    size_t size;
    const char *name, *help;
    const char *alias;              /* second name of a layer, or NULL */
    int32_t min_inputs, max_inputs; /* of a layer, without its parameters; max_inputs 0: any number */
} brasa_entry;
BRASA_API bool brasa_entry_at(brasa_list list, int32_t index, brasa_entry *out);

typedef struct brasa_field {
    size_t size;
    const char *name, *help;
    const char
        *type; /* "int", "real", "bool" (yes, no), "size" (3x5), "padding" (same, 1), "reals" (1,0.3), "choice" */
    const char *const *choices; /* of a choice, ended by NULL; else NULL */
    bool required;              /* there is no default */
    bool positional;            /* may be given without its name, in the order of the fields */
    bool limited;               /* each number lies in low .. high */
    double low, high;
    char value[96]; /* the default as text, or of a dialect what it says; "" if required */
} brasa_field;
/* Describes a field of an entry. dialect: whose defaults; NULL: "torch". An entry that the dialect lacks has none. */
BRASA_API bool brasa_field_at(brasa_list list, const char *entry, const char *dialect, int32_t index,
                              brasa_field *out);

typedef struct brasa_device_info {
    size_t size;
    char name[16];   /* for brasa_context_use */
    char about[256]; /* "NVIDIA H200, compute capability 9.0, 139.8 GiB" */
} brasa_device_info;
/* Describes a device that this process can use. The CPU is the first. */
BRASA_API bool brasa_device_at(int32_t index, brasa_device_info *out);
/* Describe what brasa_feed and brasa_fetch take in the selected program (brasa_use), with its batch size. */
BRASA_API bool brasa_session_input_at(const brasa_session *session, int32_t index, brasa_value_info *out);
BRASA_API bool brasa_session_output_at(const brasa_session *session, int32_t index, brasa_value_info *out);

typedef struct brasa_node_info {
    size_t size;
    const char *name, *op; /* name is borrowed from the graph */
    int32_t input_count, output_count;
    const int32_t *inputs, *outputs; /* brasa_tensor.id, parameters included; borrowed until the graph changes */
    int32_t rank;
    int64_t shape[6]; /* of the first output, for N = 1 */
    int32_t line;     /* of the model file, or 0 */
} brasa_node_info;
/* Describes a node of the graph, in the order of execution. */
BRASA_API bool brasa_graph_node_at(const brasa_graph *graph, int32_t index, brasa_node_info *out);

/* --- trainer: epochs, evaluation, checkpoints, run folders ----------------------------------------------- */
typedef struct brasa_trainer brasa_trainer;
/* Figures of an epoch. NAN: not measured. */
typedef struct brasa_epoch {
    size_t size;
    int64_t epoch, steps, samples; /* its number, from 1; what was trained in it so far */
    double loss, accuracy;         /* of the training samples, each before the step that it was part of */
    double test_loss, test_accuracy, test_top5;
    double seconds, images_per_second, learning_rate; /* of the training steps; the rate of the last one */
    double gpu_memory, gpu_utilization;               /* most bytes in use; mean percent */
} brasa_epoch;
/* Figures of an evaluation. confusion: classes x classes, [true class][predicted class]; NULL with > 1000 classes. */
typedef struct brasa_metrics {
    size_t size;
    int64_t epoch, samples; /* the epoch that the weights are of */
    double loss, accuracy, top5;
    int32_t classes;
    bool trained_on; /* there were no test samples: these are those that it was trained on */
    const int64_t *confusion;
} brasa_metrics;
/* READ: samples were read and checked. COMPILE: the network is compiled next. TUNE: a node's kernels are timed next.
 * BEGIN: a training, or a fold's, is ready for its first step. WARM_UP, STEP: a step is done. TEST: a batch of test
 * samples is measured next. EPOCH: an epoch is trained, measured and recorded. SAVE: `text` is a checkpoint's path.
 * NOTE, WARNING, PROFILE: `text` is for people. END: weights and result are written. FOLD: a fold is over. */
enum { BRASA_ON_READ, BRASA_ON_COMPILE, BRASA_ON_TUNE, BRASA_ON_BEGIN, BRASA_ON_WARM_UP, BRASA_ON_STEP };
enum { BRASA_ON_TEST = 6, BRASA_ON_EPOCH, BRASA_ON_SAVE, BRASA_ON_NOTE, BRASA_ON_WARNING, BRASA_ON_PROFILE };
enum { BRASA_ON_END = 12, BRASA_ON_FOLD };
typedef struct brasa_progress {
    size_t size;
    int32_t event, fold; /* BRASA_ON_READ, ...; from 1, or 0: there are no folds */
    brasa_trainer *trainer;
    int64_t done, total;      /* of READ, TUNE, WARM_UP, STEP (in the epoch) and TEST */
    const brasa_epoch *epoch; /* of STEP, TEST, EPOCH and END; else NULL */
    const char *text;
} brasa_progress;
/* The first part has the names and defaults of `brasa train`'s options: `brasa help train` explains them. The run
 * folder stores it, and a run that resumes takes it from there. 0 or NULL is the default. */
typedef struct brasa_trainer_options {
    size_t size;
    const char *model, *data;     /* a model's name or a .net file; "idx:data/mnist", ...: see `brasa help data` */
    const char *split, *keep;     /* "all", "parts" or "70/30"; "best", "last", or "3" checkpoints */
    const char *transform;        /* of images: "resize=256 crop=224"; default: what network and data need */
    const char *weights, *freeze; /* a file of initial weights; parameters that are not trained: "features.*" */
    const char *dialect, *optimizer, *schedule; /* default: "torch", "sgd lr=0.01 momentum=0.9", "constant" */
    const char *class_weights, *precision;      /* "balanced", or "1,2.5"; of a GPU: "f32", "tf32" or "bf16" */
    int64_t epochs, batch, seed, folds, fold, patience; /* default: 10, 32, 0; fold 0: all; patience 0: no end */
    int64_t memory_limit;                               /* bytes: a larger batch is computed in micro-batches */
    double clip_norm, save_every;                 /* seconds between checkpoints within an epoch; below 0: none */
    bool no_stratify, no_shuffle, no_augment;     /* split without regard to classes; in order; no random transform */
    bool skip_unreadable, deterministic, no_tune; /* leave out samples that cannot be read */
    const char *device;                           /* these two are set by the trainer: those of the context */
    int64_t threads;
    brasa_graph *graph;                    /* a classifier in place of `model` ... */
    brasa_data *dataset;                   /* ... and data in place of `data`; both must outlive the trainer */
    const int32_t *train_list, *test_list; /* numbers of samples, in place of `split` */
    int32_t train_count, test_count;
    const char *resume, *out;   /* folder of a run to resume; folder to create, "": runs/..., NULL: write nothing */
    const char *machine;        /* JSON stored as "machine" in run.json */
    const brasa_tuning *tuning; /* used if its cache can be written, or nothing is written */
    int64_t profile, warm_up;   /* steps whose nodes are timed; steps on the first batch before the first epoch */
    bool no_image_cache, allow_not_finite; /* decode images in every epoch; go on after a loss that is not finite */
    bool (*progress)(void *user, const brasa_progress *p); /* false: stop after the step, with a checkpoint */
    void *user;
} brasa_trainer_options;
/* Creates a trainer. The options and what they point to are copied, but not graph and dataset. A run that resumes may
 * replace epochs, memory_limit and precision. */
BRASA_API brasa_status brasa_trainer_new(brasa_context *context, const brasa_trainer_options *options,
                                         brasa_trainer **out);
BRASA_API void brasa_trainer_free(brasa_trainer *trainer);
typedef struct brasa_trainer_result {
    size_t size;
    bool stopped;                  /* by the callback; a run can be resumed */
    int32_t folds;                 /* trained to their end; 1 without folds */
    double accuracy, spread, loss; /* of the kept weights on test samples: mean and deviation over folds, mean */
    char folder[1024];             /* of the run; "": none */
} brasa_trainer_result;
/* Trains, once. The same settings, machine and number of threads give the same bits, also if the run was stopped or
 * killed and resumed. out may be NULL. */
BRASA_API brasa_status brasa_trainer_run(brasa_trainer *trainer, brasa_trainer_result *out);
/* What a trainer has prepared, from BRASA_ON_BEGIN on, and bytes of loaders; on a GPU, of batches, and of images. */
typedef struct brasa_trainer_info {
    size_t size;
    int32_t classes, train_samples, test_samples;
    int64_t parameters, steps, epochs_done, steps_done; /* trainable scalars; steps per epoch */
    int64_t micro_batches, micro_batch, test_batch;
    uint64_t loader, upload, resident;
} brasa_trainer_info;
BRASA_API brasa_status brasa_trainer_describe(const brasa_trainer *trainer, brasa_trainer_info *out);
/* Return what the trainer uses, borrowed from it: its complete settings; the session of the current fold, with the
 * kept weights after the run, or NULL; the names of the classes (count may be NULL). */
BRASA_API const brasa_trainer_options *brasa_trainer_settings(const brasa_trainer *trainer);
BRASA_API brasa_session *brasa_trainer_session(const brasa_trainer *trainer);
BRASA_API const char *const *brasa_trainer_classes(const brasa_trainer *trainer, int32_t *count);
/* Copy the figures of epoch `index`, from 0, of the current fold; the last test. Return false if there are none. */
BRASA_API bool brasa_trainer_epoch_at(const brasa_trainer *trainer, int32_t index, brasa_epoch *out);
BRASA_API bool brasa_trainer_metrics(const brasa_trainer *trainer, brasa_metrics *out);
/* Bytes that a training would need: [0] with whole batches, [1] with the largest that fits, [2] in micro-batches. */
typedef struct brasa_plan {
    size_t size;
    int64_t batch, micro_batches, largest_batch; /* 0: it does not fit; none fits, or none was searched */
    uint64_t budget, host;                       /* 0: any number; on a GPU: bytes of host memory */
    brasa_memory memory[3];
    uint64_t loader[3], images[3];
    char reason[200]; /* why the batch cannot be computed in micro-batches; or "" */
} brasa_plan;
/* Plans by the code that trains, allocating and writing nothing. Without data, images in files are assumed. */
BRASA_API brasa_status brasa_trainer_plan(brasa_context *context, const brasa_trainer_options *options,
                                          brasa_plan *out);
/* Opens what a run has learned, to evaluate and predict: options.resume is a run folder or a weights file of a run.
 * Of the other options, fold, data ("": the run's own), dataset, graph, batch, memory_limit and precision count. */
BRASA_API brasa_status brasa_trainer_open(brasa_context *context, const brasa_trainer_options *options,
                                          brasa_trainer **out);
/* Measures the weights on test samples. data NULL: the trainer's; split NULL: the run's, or the data's own. */
BRASA_API brasa_status brasa_trainer_evaluate(brasa_trainer *trainer, brasa_data *data, const char *split,
                                              brasa_metrics *out);
/* Write the probability of each class: of an image in a file; of N samples in an array, N x classes numbers. */
BRASA_API brasa_status brasa_trainer_predict_file(brasa_trainer *trainer, const char *path, double *probabilities);
BRASA_API brasa_status brasa_trainer_predict(brasa_trainer *trainer, const brasa_array *samples, bool nhwc,
                                             double *probabilities);

#ifdef __cplusplus
}
#endif
#endif
