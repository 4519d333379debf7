/* train.h - a training from beginning to end: epochs, tests, checkpoints, folds, and the account of all of it.
 *
 *     train_options o = {.settings = {.model = "mnist_cnn", .data = "idx:data/mnist"}, .watch = print, .stop =
 * &flag}; train_result r; brasa_status status = train_run(ctx, &o, &r);
 *
 * What happens is told to `watch` while it happens; everything that lasts is in the run's folder (record.h). The same
 * settings on the same machine with the same number of threads and the same choice of kernels give the same bits,
 * whether the training was interrupted in between or not. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "data/split.h"
#include "train/fit.h"
#include "train/gauge.h"
#include "train/task.h"

#include <signal.h>

/* What an epoch came to. */
typedef struct train_figures {
    int64_t epoch;                              /* from 1 */
    double loss, accuracy;                      /* of the training samples, each as it was when its turn came */
    double test_loss, test_accuracy, test_top5; /* NAN: there are no samples to test on */
    double seconds;                             /* of the epoch's steps */
    double images_per_second;                   /* in them */
    double learning_rate;                       /* of the last of them */
    double gpu_memory, gpu_utilization;         /* bytes, at most, and percent, in the mean; NAN: not readable */
} train_figures;

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
    int64_t steps;        /* in an epoch */
    int64_t stepped;      /* before this epoch */
    pending *pending;     /* of steps that were started */
    const char *schedule; /* the settings', with its end */
    int64_t parts;        /* in which a batch is computed; 1: it is whole */
    int64_t at_once;      /* samples that are evaluated at once */
    int64_t budget;       /* bytes to stay within: settings.mem, or what a device has; 0: any number */
    train_place place;
    alarm_list alarms;               /* also those of the time before it went on: a checkpoint holds them */
    train_figures *figures;          /* of the epochs done */
    const struct tensor_note *notes; /* what weights files say of the network: see notes.c */
    int capacity;
    double saved, reported; /* when, by the clock */
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

typedef enum train_event_kind {
    TRAIN_READ,  /* training->read samples were looked at, before all else */
    TRAIN_TUNE,  /* kernels are timed: training->timed of training->nodes */
    TRAIN_BEGIN, /* of a unit: everything is ready */
    TRAIN_STEP,
    TRAIN_EPOCH,
    TRAIN_SAVED,   /* a checkpoint */
    TRAIN_NOTE,    /* a text that a user should know */
    TRAIN_ALARM,   /* a text that a user should not overlook */
    TRAIN_PROFILE, /* of a unit: where the time went, a text of several lines */
    TRAIN_END,     /* of a unit */
    TRAIN_FOLD,    /* a fold is over, and all its memory given back */
} train_event_kind;

typedef struct training training;

typedef struct train_event {
    train_event_kind kind;
    const training *training;
    const train_figures *figures; /* of the epoch so far, or of the whole of it */
    const char *text;
} train_event;

typedef struct train_options {
    train_settings settings;
    const char *resume; /* the folder of a run that is to go on; of settings only epochs, mem (not 0) and precision
                           (not NULL) count then */
    const char *out;    /* the folder to make; NULL: runs/<date>-<model>-<n> */
    void (*watch)(void *user, const train_event *e);
    void *user;
    void (*facts)(json *j);            /* adds members about the program and the machine to run.json; NULL: none */
    const volatile sig_atomic_t *stop; /* not 0: stop after the step, with a checkpoint; NULL: nobody does */
    /* How kernels are chosen; its record, most_bytes, watch and user do not count here. NULL: the first that fit.
     * They are timed only where the choice can be kept in its cache: without that, the same run made twice would
     * choose twice, and differ.
     * What a unit began with stands when it goes on, whatever is said here. */
    const brasa_tuning *tuning;
    int64_t profile; /* steps of each unit whose nodes are timed: profile.txt; 0: none */
} train_options;

/* What train_run would need: found by the same code, with nothing allocated, trained or written. */
typedef struct train_needs {
    int64_t batch;       /* of the session: all samples, where there are fewer than settings.batch */
    int64_t parts;       /* in which it would train; 0: it would be refused */
    brasa_memory memory; /* of the session, which evaluates too */
    int64_t loader;      /* bytes of loaders */
    int64_t kept;        /* bytes for decoded pictures, which give way where memory is short */
    int64_t upload;      /* of a device's memory: bytes for batches on their way, */
    int64_t stay;        /* and for pictures that stay there, which give way, too */
    fit fit;             /* with settings.mem, or on a device: what fits */
    fit_budget budget;   /* and what it was asked with */
} train_needs;

struct training {
    const train_options *options;
    train_needs *needs; /* not NULL: nothing but these is wanted */
    task task;
    dataset_report data; /* its hash, and what is wrong with it */
    int32_t read;        /* samples looked at for it */
    int64_t timed, nodes;
    const char *folder;  /* the run's; NULL: not made yet */
    int lock;            /* held on it: a file descriptor, or -1 */
    bool made, made_all; /* the folder is new, and so is `runs` around it */
    bool begun;          /* there was a step: what is in the folder is worth keeping */
    const char *model;   /* what to build: a name, or the copy of the file in the folder */
    const char *created; /* when the run began; NULL: now */
    int64_t planned;     /* epochs, before it was told to go on; 0: it begins */
    bool recorded;       /* run.json is there and right */
    unit unit;           /* the one that is at work */
    gauge gauge;         /* of the device */
    alarm_list alarms;   /* of all folds; without folds they are the unit's alone */
};

typedef struct train_result {
    bool stopped;            /* by options->stop: resume goes on from here */
    int units;               /* trained to their end: 1, or the folds */
    double accuracy, spread; /* of what `keep` kept, on the test samples: mean, and deviation over the folds */
    double loss;
    char folder[1024];
} train_result;

brasa_status train_run(brasa_context *ctx, const train_options *o, train_result *out);
/* For a run that begins, of its first unit. Of options only settings and tuning count, and nothing is timed. */
brasa_status train_plan(brasa_context *ctx, const train_options *o, train_needs *out);

/* --- for the parts of it --------------------------------------------------------------------------------------- */

double train_clock(void); /* seconds, of a clock that only goes forward */
void train_tell(training *t, train_event_kind kind, const train_figures *f, const char *text);
void train_say(training *t, train_event_kind kind, const char *format, ...) BRASA_PRINTF(3, 4);
/* Starts a step of training on a batch; unit.pending will know what it came to. */
brasa_status train_start(training *t, const batch *b);
/* Adds what a step came to to unit.place. */
void train_count(training *t, const step_result *a);
/* One step of training on the next batch. */
brasa_status train_step(training *t, step_result *out);

/* unit.c: t->unit, for a fold (from 1) or the whole (0): split and session, its memory and that of the loaders; then
 * all the rest. unit_close is due whatever came back. */
brasa_status unit_plan(training *t, int fold);
brasa_status unit_open(training *t, int fold);
void unit_close(unit *u);
/* unit.c: what unit_open is made of, for one that was split already and has its settings. The session with all its
 * programs; after unit_share_memory, whatever it takes to run them: loaders, what goes to a device, answers. */
brasa_status unit_make_programs(training *t, const brasa_session_options *o);
brasa_status unit_furnish(training *t);
/* From the beginning, or from the last checkpoint. The first one is made before the first step, so that there is
 * always one to go back to. */
brasa_status unit_start(training *t);
/* A checkpoint of where it stands. */
brasa_status unit_save(training *t);
brasa_status unit_save_weights(training *t);
/* Weights and result are put on record. */
brasa_status unit_finish(training *t);

/* unit_memory.c: the fewest parts, into o->micro_batches, in which the batch of a session with these options stays
 * within the unit's budget, with the loaders beside it; where o->micro_batches are given already, as a checkpoint
 * tells, these if they fit. An error where there is no way: it says what would fit. */
brasa_status unit_split_batch(training *t, brasa_session_options *o);
/* unit_memory.c: the samples to evaluate at once: a batch, or where it is in parts, as many as fit where a part does.
 */
brasa_status unit_evaluate_at_once(training *t, const brasa_session_options *o, int64_t *out);
/* unit_memory.c: once the session's memory is known: what the loaders take, and what of it is for kept pictures. */
brasa_status unit_share_memory(training *t);
/* unit_memory.c: after all, pictures do not stay on the device: the host keeps them. */
void unit_come_anew(training *t);
/* unit_memory.c: nor does the host: they are decoded in every epoch. */
void unit_keep_nothing(training *t);
/* unit_memory.c: whether the session and the loaders need more than the budget. */
bool unit_over_budget(const training *t);
/* unit_memory.c: how the set is fed, with so many bytes for kept pictures. */
feeder_options unit_feeding(const training *t, int64_t kept);
/* unit_memory.c: how pictures go to a device; with `stay`, all of them stay there. */
upload_options unit_upload(const training *t, bool stay);
/* unit_memory.c: how the unit's samples are loaded, in batches of so many at most. */
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
void alarms_after(training *t, const train_figures *f, bool last);
/* alarms.c: the loss of the step after `place`, or the weights behind it, are not finite. Goes back to the last
 * checkpoint, repeats the steps since, finds the node where numbers went wrong, and leaves the checkpoint's state
 * behind; the error names it. */
brasa_status alarms_not_finite(training *t, double loss);
/* alarms.c: whether all weights, buffers and slots are. */
bool session_finite(const brasa_session *s);
/* alarms.c: whether what a step made is, in the host's memory or a device's. */
brasa_status output_finite(brasa_context *ctx, const arg *a, bool *out);
#endif
