/* record.h - the folder of a run: all that is needed to know it, to repeat it, and to go on with it.
 *
 *     run.json                  settings with all defaults, data and their hash, plan, kernels, versions, machine
 *     model.net                 a copy, where the network came from a file
 *     kernels.txt               which kernels were chosen by their times (tuner.h); engines.txt beside it has those
 * of a GPU's libraries in older runs profile.txt               where the time of some steps went, if that was asked
 * for epochs.jsonl              one line an epoch split.txt                 which samples train and which test
 *     checkpoint.safetensors    to go on from; checkpoint-<epoch>.safetensors where several are kept
 *     weights.safetensors       what was learned
 *     result.json               made at the end: its being there means that the run is over
 *     report.html               the same for people
 * With folds all but run.json, model.net, kernels.txt and result.json are in fold-01, fold-02, ...
 *
 * Every file but epochs.jsonl appears whole or not at all; that one grows by a line at a time, and a torn last line
 * is dropped when the run goes on. A process that works in the folder holds a lock on it. */
#ifndef TRAIN_RECORD_H
#define TRAIN_RECORD_H

#include "train/train.h"

#define RUN_FILE        "run.json"
#define MODEL_FILE      "model.net"
#define EPOCHS_FILE     "epochs.jsonl"
#define SPLIT_FILE      "split.txt"
#define CHECKPOINT_FILE "checkpoint.safetensors"
#define WEIGHTS_FILE    "weights.safetensors"
#define RESULT_FILE     "result.json"
#define REPORT_FILE     "report.html"
#define PROFILE_FILE    "profile.txt"

/* --- while a run is made ------------------------------------------------------------------------------------- */

/* t->folder: the path without slashes at its end. */
brasa_status record_folder(training *t, const char *path);
/* Whether record_create could make the folder, for those who are about to read all data first. */
brasa_status record_check(training *t);
/* Makes t->folder, or takes an empty one, with the lock on it. */
brasa_status record_create(training *t);
/* Removes what a training that did not come to its first step has made. */
void record_undo(training *t);
/* Takes the lock on t->folder, or says that somebody else has it. */
brasa_status record_lock(training *t);
void record_unlock(training *t);
/* The folder of the unit, made where it is not there yet. */
brasa_status record_unit(training *t);
/* run.json, and the copy of the model's file. */
brasa_status record_run(training *t);
/* kernels.txt. */
brasa_status record_kernels(training *t);
/* A line of epochs.jsonl. */
brasa_status record_epoch(training *t, const brasa_epoch *f);
/* Reads epochs.jsonl into the unit, and cuts off what comes after place.epoch. */
brasa_status record_resume(training *t);
/* result.json of a unit. why: NULL, or what it failed by. */
brasa_status record_result(training *t, const char *why);
/* result.json of a run with folds, from those of its folds. */
typedef struct fold_result {
    int fold;
    double accuracy, top5, loss;
} fold_result;
brasa_status record_folds(training *t, const fold_result *folds, int count, const brasa_trainer_result *r);

/* report.html of the unit as it stands, and of all folds (record_page.c). */
brasa_status record_page(training *t);
brasa_status record_folds_page(training *t, const fold_result *folds, int count);

/* --- afterwards ---------------------------------------------------------------------------------------------- */

/* What run.json says. */
typedef struct run_info {
    pool pool;
    const char *folder; /* the caller's */
    const char *created, *hash;
    brasa_trainer_options settings;
    int classes, capacity;
    const char **class_name;
    const char *model;   /* what to build */
    const char *network; /* the text of that file, from a weights file; NULL: it is a file or a name */
} run_info;
/* To be freed whatever came back. */
brasa_status run_read(brasa_context *ctx, const char *folder, run_info *out);
void run_free(run_info *r);
/* The list of classes into it. */
brasa_status run_read_classes(json_scan *s, run_info *r);

/* notes.c: t->unit.notes, for unit_save_weights: what the weights file says of its network. */
brasa_status notes_make(training *t);
/* notes.c: the same from such a file; as run_read, but with what a network needs alone. */
brasa_status notes_read(brasa_context *ctx, const char *path, run_info *out);
/* notes.c: whether a path is that of a file, and no run's folder. */
bool notes_file(const char *path);

/* What result.json says; *out is zero where there is none. */
typedef struct run_outcome {
    bool there, failed;
    double accuracy, top5, loss, spread; /* NAN: not there */
} run_outcome;
brasa_status run_outcome_read(brasa_context *ctx, const char *folder, run_outcome *out);
/* The epochs of a unit's folder, without a torn last line, into the pool. */
brasa_status run_epochs_read(pool *p, const char *folder, brasa_epoch **out, int *count);
/* Whether somebody holds the lock. */
bool run_busy(const char *folder);
bool run_has(const char *folder, const char *name);
/* "<folder>/<name>", or NULL: out of memory, told to the context. */
char *run_path(pool *p, const char *folder, const char *name);

#endif
