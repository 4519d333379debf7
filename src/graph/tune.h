/* tune.h - kernels chosen by the clock.
 *
 * Where several kernels support a node, each runs a few times on made-up numbers, in turns because machines change
 * their speed, and the fastest is taken: tune.c decides, tune_time.c measures. A choice depends on the machine and on
 * the node (op, shapes, attributes, layouts), not on the network, so that it is made once, and kept in a file
 * (tune_file.c) for other programs and processes. Without a tuner a node takes the first kernel of its list.
 *
 * The same file format is a run's record of its choices. What comes from a record holds whatever the machine is: a
 * run that goes on computes as it did before.
 */
#ifndef GRAPH_TUNE_H
#define GRAPH_TUNE_H

#include "ops/op.h"

enum { MOST_TRIED = 8, TUNE_KEY_SIZE = 1000 };

typedef struct tried {
    const char *kernel;
    int64_t nanoseconds; /* with the reorders that it brings along; 0: it did not take the node after all */
} tried;

typedef struct choice {
    const char *machine, *node; /* what it holds for, in words */
    uint64_t hash;              /* of both */
    int count, best;
    tried tried[MOST_TRIED]; /* first the one that is taken unseen, then others in the order of the list */
    bool unsettled;          /* the times cannot be believed: something was in the way */
    bool recorded;           /* comes from a run's record */
    bool fresh;              /* measured here, and not in the file yet */
    bool used;               /* for a node of this tuner's programs */
} choice;

typedef struct tuner {
    brasa_context *ctx;
    pool pool; /* choices are never moved */
    const char *machine;
    const char *cache; /* the file, or NULL */
    bool measure;
    int64_t most_bytes; /* to measure in; 0: any */
    bool (*watch)(void *user, int64_t done, int64_t total, const char *note);
    void *user;
    choice **choices; /* as they were added */
    int count, capacity;
    choice **slots;   /* the same by their hash: a file may have thousands */
    int nslots;       /* a power of two */
    bool recorded;    /* some of them are of a run's record */
    int measured;     /* since the file was written */
    int64_t saved;    /* when that was, or the first one was begun, by tuner_clock; 0: neither */
    int64_t patience; /* nanoseconds after which it is written again, as whoever is killed loses the rest */
    int open;         /* nodes that had a choice which nobody has timed */
    int unsettled;    /* choices whose times cannot be believed: they are not kept */
    /* Runs a step and tells how long it took. Tests put another in its place. */
    brasa_status (*run)(const step *s, int64_t *nanoseconds);
    /* Memory to measure in: lent by the session, or of its own until tuner_rest. */
    char *lent;
    int64_t lent_bytes;
    void *block;
    char *room;
    int64_t room_bytes, filled; /* that much of it was touched */
    float *numbers;             /* that inputs are filled with */
} tuner;

/* --- tune.c ---------------------------------------------------------------------------------------------------- */

/* Reads the files. Those that are not there, or not what they should be, are passed over with a note to `watch`. */
brasa_status tuner_new(brasa_context *ctx, const brasa_tuning *o, tuner **out);
void tuner_free(tuner *t);
/* Memory to measure in, and how much; NULL: none. */
void tuner_lend(tuner *t, void *arena, int64_t bytes);
/* After a program is selected: gives memory back, keeps what was measured, and tells `watch` what could not be. */
brasa_status tuner_rest(tuner *t);
/* "AMD EPYC 9B14 25/17/1, avx512, brasa 0.1.0, times 3, oneDNN 2.6.3, 2 threads" */
const char *tuner_machine(pool *p);

/* The best kernel for node i, whose own is the first of its list that takes it, with the layouts of its inputs
 * settled. Sets the node's choice; *best is NULL where there is none, or nobody knows. */
brasa_status tuner_choose(tuner *t, graph *g, int i, const kernel **best);

/* A choice in the list, made where it is not there yet; NULL: out of memory. The texts are copied. */
choice *tuner_add(tuner *t, const char *machine, const char *key);

/* --- tune_time.c ------------------------------------------------------------------------------------------------ */

/* Sets nanoseconds of the kernels that c names, on node i; `usual` are the formats of its inputs and outputs that
 * cost nothing. BRASA_NO_KERNEL: there is not room enough. */
brasa_status tuner_measure(tuner *t, graph *g, int i, const format *usual, choice *c);

/* Nanoseconds of a clock that only goes forward. */
int64_t tuner_clock(void);
/* What tuner.run is, outside of tests. */
brasa_status tuner_run_step(const step *s, int64_t *nanoseconds);

/* --- tune_file.c ------------------------------------------------------------------------------------------------ */

enum { TUNE_MOST_CHOICES = 4096 }; /* in a file: the oldest give way */

/* Adds what a file holds for this machine, or all of a record; where the file is not as it should be, *note says so.
 * No file is no error. */
brasa_status tune_read(tuner *t, const char *path, bool record, const char **note);
/* Whether the file can be written, by what its folder allows, and is none but ours. */
bool tune_writable(brasa_context *ctx, const char *path);
/* Puts what was measured into the file, beside what others have put there meanwhile. */
brasa_status tune_write(tuner *t, const char *path);
/* A file of what was used, and what a record had before, alone. */
brasa_status tune_write_record(const tuner *t, const char *path);

/* --- select.c -------------------------------------------------------------------------------------------------- */

/* Gives a node a kernel; BRASA_NO_KERNEL where that does not take it. */
brasa_status select_try(graph *g, node *n, const kernel *k);
/* The first kernel of its list that takes a node. */
brasa_status select_first(graph *g, node *n);
/* The formats that the kernel of a node works in: fills in[] and out[]. */
void select_formats(const graph *g, const node *n, format *in, format *out);

#endif
