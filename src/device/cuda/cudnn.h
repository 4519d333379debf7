/* cudnn.h - cuDNN's graphs of operations: what is computed, which of its engines computes it, and plans that run.
 *
 * cuDNN describes everything by descriptors with attributes: tensors, operations on them, the graph of these, an
 * engine that can run the graph, a plan. A problem is a node in words with one or two ways to compute it, each a
 * graph of operations and what we start behind it ourselves. cudnn_choose gives a plan for it: cuDNN lists engines
 * that should do well (its heuristics), we leave out those that would change what is computed, time the others on the
 * GPU, and the tuner keeps which one won, so that this happens once for each problem and machine.
 *
 * Which engines are left out: those whose results differ from run to run; those that sum in less than floats; those
 * by Winograd's algorithm with large tiles, or in 16 bits, which lose digits; and with BRASA_F32 those on tensor
 * cores, which would cut the inputs to 10 bits of fraction. Those that are compiled when the plan is made cost a
 * quarter of a second and more for each node, every time: they are taken only where there is nothing else.
 */
#ifndef DEVICE_CUDA_CUDNN_H
#define DEVICE_CUDA_CUDNN_H

#include "device/cuda/cuda.h"
#include "tune/tuner.h"

#include <cudnn_graph.h>

/* The functions that are taken from the library; all are in cuDNN 9.0. */
#define CUDNN_FUNCTIONS(F)                                                                                           \
    F(GetVersion)                                                                                                    \
    F(GetErrorString)                                                                                                \
    F(GetLastErrorString)                                                                                            \
    F(Create)                                                                                                        \
    F(Destroy)                                                                                                       \
    F(SetStream)                                                                                                     \
    F(BackendCreateDescriptor)                                                                                       \
    F(BackendDestroyDescriptor)                                                                                      \
    F(BackendSetAttribute)                                                                                           \
    F(BackendGetAttribute)                                                                                           \
    F(BackendFinalize)                                                                                               \
    F(BackendExecute)

typedef struct cudnn {
    brasa_context *ctx;
    cudnnHandle_t handle;
    size_t version;
    char machine[120]; /* "NVIDIA H200, cuDNN 9.14.0" */
    bool starved;      /* a call has failed for want of memory, so far; who asks makes it false */
#define FUNCTION(name) __typeof__(&cudnn##name) name;
    CUDNN_FUNCTIONS(FUNCTION)
#undef FUNCTION
} cudnn;

/* BRASA_INTERNAL, or BRASA_OUT_OF_MEMORY, with cuDNN's words; `what` is what was tried. */
brasa_status cudnn_fail(cudnn *c, cudnnStatus_t status, const char *what);
/* What a call says, which it returns: sets `starved`. */
cudnnStatus_t cudnn_heard(cudnn *c, cudnnStatus_t status);

/* --- descriptors ----------------------------------------------------------------------------------------------- */

typedef cudnnBackendDescriptor_t descriptor;

enum { CUDNN_MOST_DESCRIPTORS = 64 };

/* Descriptors that end together. `status` is the first error: what comes after it does nothing. */
typedef struct cudnn_set {
    cudnn *lib;
    cudnnStatus_t status;
    int count;
    descriptor made[CUDNN_MOST_DESCRIPTORS];
} cudnn_set;

descriptor cudnn_make(cudnn_set *s, cudnnBackendDescriptorType_t type);
void cudnn_put(cudnn_set *s, descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
               int64_t count, const void *from);
/* An attribute that is a descriptor. */
void cudnn_put_one(cudnn_set *s, descriptor d, cudnnBackendAttributeName_t name, descriptor from);
/* Returns how many there are, of which up to `count` are written; -1: it cannot be told. `to` NULL: counts only. */
int64_t cudnn_get(const cudnn_set *s, descriptor d, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t count, void *to);
void cudnn_finish(cudnn_set *s, descriptor d);
void cudnn_free(cudnn_set *s);

/* N x C x H x W, stored as NHWC; `inside`: between two operations, in no memory. */
descriptor cudnn_tensor(cudnn_set *s, int64_t uid, cudnnDataType_t type, const shape *like, bool inside);
/* y = x + b, in floats. */
descriptor cudnn_add(cudnn_set *s, descriptor x, descriptor b, descriptor y);
/* y = x > 0 ? x : 0. NaN is to stay NaN; not all engines obey. */
descriptor cudnn_relu(cudnn_set *s, descriptor x, descriptor y);
/* The graph of some operations. */
descriptor cudnn_operations(cudnn_set *s, const descriptor *ops, int count);

/* --- problems and plans (cudnn_engines.c) ---------------------------------------------------------------------- */

enum { CUDNN_MOST_TENSORS = 5, CUDNN_MOST_WAYS = DEVICE_MOST_WAYS, CUDNN_MOST_KNOBS = 48, CUDNN_KEY_SIZE = 400 };

typedef struct cudnn_problem {
    const char *key; /* everything that decides which engine is best, but the machine: no tabs */
    int32_t precision;
    int64_t most_workspace; /* bytes */
    tuner *tuner;           /* NULL: the first engine of the first way is taken, whatever it is */
    /* The first way must be right whatever engine computes it; others are checked. */
    int ways;
    unsigned uses[CUDNN_MOST_WAYS]; /* bit i: the way's graph has tensor i, whose uid is i + 1 */
    descriptor (*describe)(const void *user, int way, cudnn_set *to); /* the graph */
    /* To time: the tensors, what fills them, what runs before and behind the plan, and a look at the results. All but
     * the last start work in the queue. */
    int64_t bytes[CUDNN_MOST_TENSORS];
    int result; /* the tensor that is written */
    void (*fill)(const void *user, void *const *data);
    void (*before)(const void *user, int way, void *const *data);
    void (*after)(const void *user, int way, void *const *data);
    bool (*accepts)(const void *user, int way, void *const *data);
    const void *user;
} cudnn_problem;

/* Which engine, in which configuration. */
typedef struct cudnn_engine {
    int way;
    int64_t index;
    int knobs; /* -1: they cannot be told */
    struct cudnn_knob {
        int type;
        int64_t value;
    } knob[CUDNN_MOST_KNOBS];
} cudnn_engine;

typedef struct cudnn_plan {
    cudnn_set graph; /* the operations */
    cudnn_set made;  /* the engine's configuration, and the plan */
    descriptor plan;
    cudnn_engine engine;
    int64_t workspace;
    const choice *choice;              /* NULL: it was not chosen by the clock */
    device_way found[CUDNN_MOST_WAYS]; /* of that choice */
} cudnn_plan;

/* BRASA_NO_KERNEL: no engine takes it. */
brasa_status cudnn_choose(cuda_queue *q, const cudnn_problem *p, cudnn_plan **out);
void cudnn_plan_free(brasa_context *ctx, cudnn_plan *p);

/* The addresses of tensors, for a way that uses these; workspace is aligned to 256, or NULL. */
descriptor cudnn_pack(cudnn_set *s, unsigned uses, void *const *data, void *workspace);
/* Starts a plan in the queue. */
cudnnStatus_t cudnn_start(cudnn *c, const cudnn_plan *p, descriptor pack);

/* For kernel.choice; names are those of the ways. */
bool cudnn_tell_choice(const cudnn_plan *p, int ways, const char *const *names, device_choice *out);

/* --- engines in words, for a choice (cudnn_words.c) ------------------------------------------------------------ */

void cudnn_print_engine(const cudnn_engine *e, int ways, const device_way *found, char to[CHOICE_WORDS_SIZE]);
/* False: these are no such words. */
bool cudnn_parse_engine(const char *words, int ways, cudnn_engine *e, device_way *found);

#endif
