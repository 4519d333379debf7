/* task.h - what the settings of a run stand for: a data set, a network, and what lies between them.
 *
 * Training, evaluation and prediction all begin here, so that a picture meets the network in the same way in each. */
#ifndef TRAIN_TASK_H
#define TRAIN_TASK_H

#include "data/loader.h"
#include "session/pending.h"
#include "session/upload.h"
#include "train/metrics.h"
#include "session/session.h"
#include "train/settings.h"

enum { KEPT_BYTES = 1 << 30 }; /* for decoded pictures, at most */

typedef struct task {
    brasa_context *ctx;
    pool pool;
    brasa_trainer_options settings; /* complete: what was left open is filled in */
    dataset *set;                   /* NULL: none was opened */
    int classes;
    const char *const *class_name;
    const char *network; /* the text of a .net file; NULL: the model is a name, or a file to be read */
    brasa_graph *graph;
    bool borrowed, borrowed_set; /* the graph, the set are the caller's */
    const char *input, *label;   /* names of the network's two inputs */
    int shape[3];                /* channels, height, width of the first, as transform_shape gives them */
    transform transform;
    pictures_input pictures; /* of task_send_bytes */
    upload *upload;          /* through which bytes go to a device, borrowed; NULL: numbers are fed */
} task;

/* A task is zero but for ctx, pool.ctx and settings. What these make is released by task_close, whatever they
 * returned. */

/* Opens the set: settings.data, or another one whose classes must be the same. */
brasa_status task_open_data(task *t, const char *spec);
/* The same with the caller's set, which must outlive the task. */
brasa_status task_take_data(task *t, dataset *set);
/* Whether the set, with its classes, gives what the network takes. */
brasa_status task_check_data(const task *t);
/* Builds the network: settings.model, or the file in which a run keeps it, for t->classes classes. Then settles the
 * transform, and checks that the set, where there is one, gives what the network takes. */
brasa_status task_build(task *t, const char *model);
/* The same with the caller's network, which must outlive the task. */
brasa_status task_take_graph(task *t, brasa_graph *graph);
/* Has sessions of the network take the bytes of pictures on a device, and do there what the transform says of them.
 * Whoever feeds them then needs an upload. Elsewhere, and for tables, nothing changes. */
brasa_status task_send_bytes(task *t);
void task_close(task *t);

/* How the set is fed to the network: for a session, or, where there is none yet (NULL), in the plain order. */
feeder_options task_feeding(const task *t, const brasa_session *s);
/* The loader's next batch, once the one before may be written over. */
brasa_status task_next(const task *t, loader *l, const batch **out);
/* A batch of such a feeder into its session, whose current program is for as many samples. */
brasa_status task_feed(const task *t, brasa_session *s, const batch *b);

/* Runs the network over what a loader gives, from its beginning to its end, and counts. `a` has room for its batches.
 * `look`, which may be NULL, is called before each batch, `done` of `total`; BRASA_WRONG_STATE: it returned false. */
brasa_status task_measure(const task *t, brasa_session *s, loader *l, pending *a, metrics *m,
                          bool (*look)(void *user, int64_t done, int64_t total), void *user);

/* The kernels of a step with the current program, each once; at most `most`. */
int session_kernels(const brasa_session *s, const char **names, int most);

#endif
