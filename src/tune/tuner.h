/* tuner.h - choices by the clock: of own kernels, and of what libraries have for one problem.
 *
 * A choice is for a machine and a problem, both in words. It says what was tried and how long that took, or it is the
 * words of a library, which that library alone understands. It depends on the network no further, so it is made once
 * and kept in a file for other programs and processes. The same format is a run's record: what comes from a record
 * stands, whatever the file says by then, so that a run goes on as it began.
 *
 * A session has one tuner. It knows what was chosen before (choices.c), decides whether the clock may be asked, tells
 * who looks on, and saves (tuner.c). Who asks the clock is not known here: graph/tune.c has own kernels, device/cuda/
 * cuDNN and cuBLASLt. These functions are linked into the program and into a device's library: they keep nothing.
 */
#ifndef TUNE_TUNER_H
#define TUNE_TUNER_H

#include "core/pool.h"

struct step;

enum {
    MOST_TRIED = 8,
    CHOICE_KEY_SIZE = 1000,   /* of a machine or a problem */
    CHOICE_WORDS_SIZE = 2000, /* of a library's choice */
    CHOICES_KEPT = 12288,     /* in the file: the oldest give way */
};

#define CHOICES_FILE "kernels.txt" /* in the folder of core/cache.h, and in a run's */

/* A problem that a record has for each kind of device that its run has computed on, "cuda": there choices were made.
 */
#define CHOSEN_HERE "chosen here"

typedef struct tried {
    const char *kernel;
    int64_t nanoseconds; /* with the reorders that it brings along; 0: it did not take the node after all */
} tried;

typedef struct choice {
    const char *machine, *problem; /* what it holds for: without tabs and ends of lines */
    uint64_t hash;                 /* of both */
    const char *words;             /* a library's; NULL: own kernels were tried: */
    int count, best;
    tried *tried;   /* first the one that is taken unseen, then others in the order of the list */
    bool unsettled; /* something was in the way, or short: it holds for this session and its record alone */
    bool recorded;  /* comes from a run's record */
    bool fresh;     /* made here, and not in the file yet */
    bool used;      /* by this tuner's programs */
} choice;

typedef struct tuner {
    brasa_context *ctx;
    pool pool;           /* choices are never moved */
    const char *machine; /* of own kernels; those of a device's libraries begin so */
    const char *cache;   /* the file, or NULL */
    bool asks;           /* the clock, a file or a record; else all is the first of its list */
    bool measure;
    int64_t most_bytes; /* to measure in; 0: any */
    bool (*watch)(void *user, int64_t done, int64_t total, const char *note);
    void *user;
    int64_t node, nodes;   /* which one is given its kernel, for `watch` */
    int64_t told, silence; /* when `watch` was called last, by tuner_clock; nanoseconds until it is called again */
    choice **choices;      /* as they were added */
    int count, capacity;
    choice **slots;   /* the same by their hash: a file may have thousands */
    int nslots;       /* a power of two */
    bool recorded;    /* some of them are of a run's record */
    int measured;     /* since the file was written */
    int64_t saved;    /* when that was, or the first one was begun, by tuner_clock; 0: neither */
    int64_t patience; /* nanoseconds between saves: a killed process loses what it chose since */
    int open;         /* nodes that had a choice, which was not made */
    int unsettled;    /* choices of own kernels whose times cannot be believed */
    void *findings;   /* what a library found out without the clock, in this pool */
    /* Runs a step and tells how long it took. Tests put another in its place. */
    brasa_status (*run)(const struct step *s, int64_t *nanoseconds);
    /* Memory to measure in: lent by the session, or of its own until tuner_rest. */
    char *lent;
    int64_t lent_bytes;
    void *block;
    char *room;
    int64_t room_bytes, filled; /* that much of it was touched */
    float *numbers;             /* that inputs are filled with */
} tuner;

/* --- tuner.c --------------------------------------------------------------------------------------------------- */

/* Reads the files. What is not as it should be is passed over with a note to `watch`. `machine`: how the machines
 * begin whose choices are of use, those of own kernels. */
brasa_status tuner_new(brasa_context *ctx, const char *machine, const brasa_tuning *o, tuner **out);
/* Saves, and frees it. NULL is fine. */
void tuner_free(tuner *t);
/* Lends memory to measure in; NULL: none. */
void tuner_lend(tuner *t, void *arena, int64_t bytes);
/* After a program is selected: gives memory back, saves, and tells `watch` what could not be measured. */
brasa_status tuner_rest(tuner *t);
/* Before something is timed for the node, and in between: an error if `watch` wants no more of it. */
brasa_status tuner_begin(tuner *t);
brasa_status tuner_go_on(tuner *t);
/* Puts a choice that was made by the clock into the list; texts are copied. Sets `used` and `fresh`. At times all is
 * saved. *out NULL: there is no memory, and it will be made again. */
brasa_status tuner_put(tuner *t, const choice *made, choice **out);
/* Nanoseconds of a clock that only goes forward. */
int64_t tuner_clock(void);

/* --- choices.c ------------------------------------------------------------------------------------------------- */

/* What is known for a machine and a problem, or NULL. Who takes it sets `used`. */
choice *choices_find(const tuner *t, const char *machine, const char *problem);
/* Adds a copy of a choice, or has the one that is there say the same; NULL: out of memory. */
choice *choices_put(tuner *t, const choice *from);
/* Adds what a file holds for t->machine, or all of a record; where it is not as it should be, *note says so. No file
 * is no error. */
brasa_status choices_read(tuner *t, const char *path, bool record, const char **note);
/* Whether the file can be written, by what its folder allows, and is none but ours. */
bool choices_writable(brasa_context *ctx, const char *path);
/* Puts what is fresh into the file, beside what others have put there meanwhile. */
brasa_status choices_write(tuner *t, const char *path);
/* A file of what was used, and what a record had before, alone. */
brasa_status choices_write_record(const tuner *t, const char *path);

#endif
