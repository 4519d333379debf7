/* train.h - inside the trainer: what a training holds, and the parts that it is made of. brasa.h has its outside.
 *
 *     trainer.c   the public calls              unit.c      one training: split, session, loaders
 *     setup.c     data, network, resume         memory.c    what fits a memory limit
 *     train.c     the epoch loop                record*.c   the run folder
 *
 * The callback is told what happens while it happens; everything that lasts is in the run folder (record.h). The same
 * settings on the same machine with the same number of threads and the same choice of kernels give the same bits,
 * whether the training was interrupted or not. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "data/split.h"
#include "train/fit.h"
#include "train/gauge.h"
#include "train/task.h"

/* Where a training stands: what a checkpoint holds beside the network's state. */
typedef struct train_place {
    int64_t epoch, done; /* epochs done, and steps done of the next one */
    double loss;         /* sums over these steps, of samples */
    int64_t right, seen;
    double seconds;
    int64_t best_epoch; /* from 1; 0: none yet */
    double best;        /* its accuracy on the test samples */
} train_place;

/* Alarms that are kept for the record, each once. */
enum { MOST_ALARMS = 32 };
typedef struct alarm_list {
    const char *text[MOST_ALARMS];
    int count;
} alarm_list;

/* One training: the run's only one, or a fold's. */
typedef struct unit {
    int fold;           /* from 1; 0: there are no folds */
    const char *folder; /* where its files are; these are their paths */
    const char *checkpoint, *weights, *epochs, *lists, *result;
    pool pool;
    split split;
    brasa_session *session;
    feeder *feeder;
    upload *upload;       /* of pictures on a device; else NULL */
    loader *train, *test; /* test is NULL where there is nothing to test on */
    float *class_weights; /* NULL: all classes count the same */
    pending *logits;      /* of tests */
    metrics metrics;      /* on the test samples, of the weights after epoch `measured` */
    int64_t measured;     /* 0: nothing yet */
    void *kept;           /* weights of the best epoch, of a training that writes nothing; NULL: none */
    int64_t steps;        /* in an epoch */
    int64_t stepped;      /* before this epoch */
    pending *pending;     /* of steps that were started */
    const char *schedule; /* the settings', with its end */
    int64_t parts;        /* in which a batch is computed; 1: it is whole */
    int64_t at_once;      /* samples that are evaluated at once */
    int64_t budget;       /* bytes to stay within: settings.memory_limit, or what a device has; 0: any number */
    train_place place;
    alarm_list alarms;               /* also those of the time before it went on: a checkpoint holds them */
    brasa_epoch *figures;            /* of the epochs done */
    const struct tensor_note *notes; /* what weights files say of the network: see notes.c */
    int capacity;
    double saved, reported; /* when, by the clock */
    double counted;         /* when the last step was counted */
    float loss;             /* of that step */
    bool stepping;          /* there was a step since it was opened */
    brasa_memory memory;
    int64_t loader_bytes;
    int64_t kept_bytes;   /* of them for decoded pictures, at most */
    int64_t upload_bytes; /* on a device: for batches of pictures on their way, */
    int64_t stay_bytes;   /* and for all pictures of the set, which stay there; 0: they come anew in each epoch */
    const char *kernels;  /* their names, with blanks between them */
    const char *choices;  /* a number for which node has which */
    int64_t profiled;     /* steps since it started, with options->profile; see profile.h */
    const char *profile;  /* where their time went, by kernel; NULL: not known yet */
} unit;

typedef struct brasa_trainer training;

/* What a training would need: found by the same code, with nothing allocated, trained or written. */
typedef struct train_needs {
    int64_t batch;       /* of the session: all samples, where there are fewer than settings.batch */
    int64_t parts;       /* in which it would train; 0: it would be refused */
    brasa_memory memory; /* of the session, which evaluates too */
    int64_t loader;      /* bytes of loaders */
    int64_t kept;        /* bytes for decoded pictures, which give way where memory is short */
    int64_t upload;      /* of a device's memory: bytes for batches on their way, */
    int64_t stay;        /* and for pictures that stay there, which give way, too */
    fit fit;             /* with settings.memory_limit, or on a device: what fits */
    fit_budget budget;   /* and what it was asked with */
} train_needs;

struct brasa_trainer {
    brasa_trainer_options options; /* as they were given, copied into task.pool; task.settings are complete */
    brasa_tuning tuning;           /* where options.tuning points */
    train_needs *needs;            /* not NULL: nothing but these is wanted */
    task task;
    struct run_info *before; /* of a run that is resumed */
    dataset_report data;     /* its hash, and what is wrong with it */
    const char *folder;      /* the run's; NULL: not made yet, or nothing is written */
    int lock;                /* held on it: a file descriptor, or -1 */
    bool made, made_all;     /* the folder is new, and so is `runs` around it */
    bool ran;                /* it has: a trainer does so once */
    bool stopping;           /* the callback said so: after this step */
    bool stopped;            /* a checkpoint was made, and nothing more is done */
    bool begun;              /* there was a step: what is in the folder is worth keeping */
    const char *model;       /* what to build: a name, or the copy of the file in the folder */
    const char *created;     /* when the run began; NULL: now */
    int64_t planned;         /* epochs, before it was told to go on; 0: it begins */
    bool recorded;           /* run.json is there and right */
    unit unit;               /* the one that is at work */
    gauge gauge;             /* of the device */
    int64_t timed;           /* the node whose kernels were timed last, from 1 */
    struct trained *learned; /* of brasa_trainer_open; else NULL */
    metrics evaluated;       /* by brasa_trainer_evaluate */
    alarm_list alarms;       /* of all folds; without folds they are the unit's alone */
};

/* trainer.c: brasa_trainer_new; `plan`: options without data will do. */
brasa_status trainer_new(brasa_context *ctx, const brasa_trainer_options *options, bool plan, training **out);

double train_clock(void); /* seconds, of a clock that only goes forward */
/* Calls the callback, which may ask for a stop. */
void train_tell(training *t, int32_t event, const brasa_epoch *f, const char *text);
void train_progress(training *t, int32_t event, int64_t done, int64_t total, const brasa_epoch *f);
void train_say(training *t, int32_t event, const char *format, ...) BRASA_PRINTF(3, 4);
/* Whether this process writes the run folder: a training without one is in memory only. */
bool train_writes(const training *t);
/* setup.c: data and network of a training that begins, or of a run that is resumed. */
brasa_status train_begin(training *t);
brasa_status train_resume(training *t);
/* setup.c: whether a unit of a run that is resumed is over, and its result. It counts as it is, unless it has epochs
 * to go. */
struct run_outcome;
brasa_status train_finished(training *t, int fold, bool *over, struct run_outcome *out);
/* setup.c: adds the alarms of a fold to those of the run. */
void train_add_alarms(training *t, int fold, const alarm_list *l);
/* Feeds the next batch to train on; the step may run then. */
brasa_status train_feed_next(training *t, const batch **out);
/* unit.c: t->unit, for a fold (from 1) or the whole (0): split and session, its memory and that of the loaders; then
 * all the rest. unit_close is due whatever came back. */
brasa_status unit_plan(training *t, int fold);
brasa_status unit_open(training *t, int fold);
void unit_close(training *t);
/* From the beginning, or from the last checkpoint. The first one is made before the first step, so that there is
 * always one to go back to. */
brasa_status unit_start(training *t);
/* A checkpoint of where it stands. */
brasa_status unit_save(training *t);
brasa_status unit_save_weights(training *t);
bool unit_has_checkpoint(const unit *u);
/* Weights and result are put on record. */
brasa_status unit_finish(training *t);

/* memory.c: the fewest parts, into o->micro_batches, in which the batch of a session with these options stays within
 * the unit's budget, with the loaders beside it; where o->micro_batches are given already, as a checkpoint tells,
 * these if they fit. An error where there is no way: it says what would fit. */
brasa_status unit_split_batch(training *t, brasa_session_options *o);
/* memory.c: the samples to evaluate at once: a batch, or where it is in parts, as many as fit where a part does.
 */
brasa_status unit_evaluate_at_once(training *t, const brasa_session_options *o, int64_t *out);
/* memory.c: once the session's memory is known: what the loaders take, and what of it is for kept pictures. */
brasa_status unit_share_memory(training *t);
/* memory.c: after all, pictures do not stay on the device: the host keeps them. */
void unit_come_anew(training *t);
/* memory.c: whether the session and the loaders need more than the budget. */
bool unit_over_budget(const training *t);
/* memory.c: how the set is fed, with so many bytes for kept pictures. */
feeder_options unit_feeding(const training *t, int64_t kept);
/* memory.c: how pictures go to a device; with `stay`, all of them stay there. */
upload_options unit_upload(const training *t, bool stay);
/* memory.c: how the unit's samples are loaded, in batches of so many at most. */
loader_options unit_loading(const training *t, bool train, int64_t size);

/* class_weights.c: t->unit.class_weights, as the settings wish, for the samples of its split. */
brasa_status unit_weigh_classes(training *t);

/* alarms.c: into a list, the text into the pool; where there is no memory or room for it, it is left out. */
void alarms_keep(alarm_list *l, pool *p, const char *format, ...) BRASA_PRINTF(3, 4);
/* alarms.c: what can be told before the first step; one class only is an error, the rest are alarms. */
brasa_status alarms_before(training *t);
/* alarms.c: what the device warns of, told once. */
void alarms_of_device(training *t);
/* alarms.c: what can be told after an epoch. */
void alarms_after(training *t, const brasa_epoch *f, bool last);
/* alarms.c: the loss of the step after `place`, or the weights behind it, are not finite. Goes back to the last
 * checkpoint, repeats the steps since, finds the node where numbers went wrong, and leaves the checkpoint's state
 * behind; the error names it. */
brasa_status alarms_not_finite(training *t, double loss);
/* alarms.c: whether all weights, buffers and slots are. */
bool session_finite(const brasa_session *s);
/* alarms.c: whether what a step made is, in the host's memory or a device's. */
brasa_status output_finite(brasa_context *ctx, const arg *a, bool *out);
#endif
