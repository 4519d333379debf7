/* session.h - a compiled network: state that lasts, and one program for each (mode, batch size) in use. */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "graph/exec.h"
#include "graph/tune.h"
#include "ops/optimizer.h"

/* A tensor that outlives a step: a parameter, a buffer, an optimizer's slot, the step counter. */
typedef struct state {
    const char *name;
    value_kind kind;
    dtype type;
    shape shape;
    initializer start;
    bool settled; /* a program chose the layout, and all others keep it */
    shape stored; /* as many elements in the same order, in the shape that the layout speaks of: see graph/views.c */
    format format;
    int64_t bytes; /* to the host, padding of the layout included */
    int64_t there; /* bytes where it is computed with: not as many, where a device has it in 16 bits */
} state;

struct brasa_session {
    brasa_context *ctx;
    const graph *source;
    brasa_session_options options; /* the texts in it are not kept: they are parsed below */
    const char *kernels, *freeze;  /* copied */
    constants_attr *class_weights; /* copied, or NULL */
    tuner *tuner;                  /* of the graphs of its programs */
    pool pool;

    const optimizer_def *optimizer;
    void *optimizer_attr;
    schedule_attr schedule;

    /* One allocation: the state, then room for the largest program's transient values. */
    state *states;
    int64_t *state_offset;
    int nstates, state_capacity;
    char *arena;  /* memory of the device */
    void *aside;  /* the state, while a device has no allocation: its arena grows */
    char *mirror; /* the host's copy of the state, see mirror.c; NULL: the arena is the host's memory */
    int64_t *mirror_offset;
    uint16_t *pieces; /* of state on its way, which a device stores as another type than the host; or NULL */
    int64_t persistent, transient;

    void *held;   /* session_hold's: the inputs of the current program, one after the other */
    void *staged; /* samples on their way to memory that is not the host's, in the input's order */
    int64_t staged_bytes;

    program *programs;
    program *current;
    int64_t batch; /* samples of a step with it */
    program *fed;  /* whose inputs the transient memory holds, or NULL */
    program *ran;  /* whose outputs it holds, or NULL */
    /* Batches in parts: training programs are for parts of so many samples or fewer, and this one does the rest. */
    int64_t part; /* 0: batches are whole */
    program *update;
    bool profile;
};

/* A state by name, or NULL. */
const state *session_state(const brasa_session *s, const char *name);
/* state.c: one more, of a value that stands for it. */
brasa_status session_add_state(brasa_session *s, const value *v, dtype type);
/* state.c: ties a program's state values to the session's. The first program may bring new ones (slots). */
brasa_status session_bind_states(brasa_session *s, graph *g);
/* state.c: the formats that the first program which knows a state chose for it. */
void session_keep_formats(brasa_session *s, const graph *g);
/* state.c: offsets of the state, once all of it is known. */
brasa_status session_lay_out_state(brasa_session *s);
/* state.c: initial values: parameter p of the graph draws from stream p, so one layer's weights do not depend
 * on another's. */
brasa_status session_set_initial(brasa_session *s, const state *st, uint32_t stream);
/* mirror.c: where the host reads and writes it, in st->type. On a device that is a copy: session_pull brings it up to
 * date, session_push takes what was written to the device. */
brasa_status session_make_mirror(brasa_session *s);
void session_free_mirror(brasa_session *s);
void *session_state_data(const brasa_session *s, const state *st);
brasa_status session_pull(const brasa_session *s, const state *st);
brasa_status session_push(const brasa_session *s, const state *st);
/* session.c: what brasa_session_memory tells. */
brasa_memory session_memory(const brasa_session *s);
/* session.c: whether it has memory to run in; if not, why. */
brasa_status session_check_memory(const brasa_session *s);
/* Where a value of the current program lies: in the device's memory. */
void *session_value_data(const brasa_session *s, const value *v);
/* The program for a mode and a number of samples, or NULL. */
program *session_program(const brasa_session *s, bool training, int64_t batch);

/* run.c: what the caller sees of a value's shape: that of the whole batch. */
shape session_shape(const brasa_session *s, const value *v);
/* run.c: the program that holds the results of a step with the current one. */
program *session_last(const brasa_session *s);
/* run.c: how the samples of an input lie, in all programs. Without padding it is as long as the plain order. */
layout session_input_layout(const brasa_session *s, const char *input);
/* run.c: brasa_feed for samples that lie so already. */
brasa_status session_feed(brasa_session *s, const char *input, const void *data, size_t bytes);
/* run.c: for benchmarks. What was fed is kept where the session computes, and fed from there again. */
brasa_status session_hold(brasa_session *s);
brasa_status session_feed_held(brasa_session *s);
/* run.c: brasa_fetch of so many floats, for which nobody waits: `to`, memory of pinned_get, has them when a device
 * has done all that it was given so far; where *type is BF16, in 16 bits, as they lie there. */
brasa_status session_fetch_async(brasa_session *s, const char *output, float *to, int64_t count, dtype *type);
/* Waits until a device has done all that it was given. */
brasa_status session_wait(brasa_session *s);
/* The first program, which settles the layouts of inputs and of state for all others; NULL: there is none yet. */
const program *session_first(const brasa_session *s);

/* run.c: runs one step, training or evaluation, on the inputs that were fed. `run` runs its programs: one, or several
 * if the batch is in parts. NULL: program_run does. */
typedef brasa_status program_runner(program *p, void *user);
brasa_status session_step(brasa_session *s, bool training, program_runner *run, void *user);

/* weights.c: brasa_session_save with notes in the file, a list that ends with a key that is NULL. */
struct tensor_note;
brasa_status session_save(brasa_session *s, const char *path, int32_t what, const struct tensor_note *notes);
/* brasa_session_load without memory for a second copy of the state: where reading fails in the middle, the session is
 * of no use any more. */
brasa_status session_load_fresh(brasa_session *s, const char *path, const brasa_load_options *options,
                                brasa_load_report *report);

/* tuning.c: what options->tuning says, on the context's device. */
brasa_status session_make_tuner(brasa_session *s, const brasa_session_options *o);
/* tuning.c: whether a file of brasa_session_save_tuning is of sessions on a device like the context's. */
brasa_status session_tuned_here(brasa_context *ctx, const char *record, bool *here);

/* optimizer.c: reads options->optimizer and options->schedule. */
brasa_status optimizer_read(brasa_session *s, const char *optimizer, const char *schedule);
/* optimizer.c: differentiates a lowered program for `batch` samples and adds the update nodes: to the program itself
 * or, where it computes a part of a batch, to another (NULL: that one has them). */
brasa_status optimizer_emit(brasa_session *s, graph *g, graph *to, int64_t batch);

/* batch_parts.c: before a part of a batch is differentiated: what its loss counts. */
brasa_status part_begin(graph *g, int64_t batch);
/* batch_parts.c: adds a gradient to its sum; *there and the result are parameter and gradient in the update program
 * `to`; -1: there is none, or an error, which sticks. */
int part_gradient(graph *g, graph *to, int param, int grad, int *there);
/* batch_parts.c: adds up what can be read after a step. */
void part_outputs(graph *g, graph *to, int64_t batch);

/* freeze.c: checks options->freeze, that each of its names stands for a parameter, and keeps it. */
brasa_status freeze_read(brasa_session *s, const char *list);
/* freeze.c: takes those parameters out of training, in a lowered program. */
void freeze_apply(const brasa_session *s, graph *g);

#endif
