/* options.h - the options of all verbs: one struct, one table, one parser.
 *
 * An option means the same wherever it is taken, though a verb may say more closely what; it lists the names of those
 * it takes. `--x 5` and `--x=5` are alike, the last one given counts, and `--` ends them.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_WORDS = 1024 };

typedef struct options {
    const char *word[MAX_WORDS]; /* what is not an option: a model, an op, pictures */
    int words;
    uint64_t given; /* bit i: the option of row i was: see option_given */
    int64_t batch, classes, threads, seed, steps, profile, mem;
    int64_t epochs, folds, fold, patience, top;
    double seconds; /* -1: not given */
    double clip_norm, save_every, price_per_hour;
    const char *optimizer, *dialect, *sum, *kernels, *from;
    const char *data, *split, *transform, *schedule, *weights, *keep, *preset, *out, *resume;
    const char *freeze, *class_weights;
    const char *device, *precision;    /* see device.h */
    const char *peers, *scale, *store; /* of the lab */
    bool csv, eval, help, json, markdown, no_fusion, no_tune, quiet, tuned;
    bool no_stratify, no_shuffle, no_augment, skip_bad, deterministic;
    bool remove, retry, yes;
} options;

/* OPTION_BYTES: a number with a unit, of 10^3, 10^6, ... bytes (K, M, G, T) or of 2^10, 2^20, ... (Ki, Mi, Gi, Ti).
 */
typedef enum option_type { OPTION_FLAG, OPTION_INT, OPTION_REAL, OPTION_BYTES, OPTION_TEXT } option_type;

typedef struct option_def {
    const char *name;
    option_type type;
    size_t offset;       /* in struct options: bool, int64_t, double or const char * */
    int64_t low, high;   /* allowed range of a number */
    const char *value;   /* its word in help texts: "N" */
    const char *help;    /* with the default in brackets */
    const char *initial; /* the default as text; NULL: zero */
    const char *bare;    /* what it is where a number is left out, as text; NULL: it must be there */
} option_def;

/* The table; ended by a row whose name is NULL. */
extern const option_def option_table[];

/* Whether `names`, a text such as "batch threads json", holds the option. */
bool option_taken(const char *names, const option_def *def);

/* Whether the user gave this option, which may have a default. */
bool option_given(const options *o, const char *name);

enum { OPTIONS_ERROR_SIZE = 256 };
/* Reads argv[0 .. argc-1] into `out`, from the defaults. `names`: the options taken here, beside --help. On failure
 * returns false with one line in `error`. */
bool options_parse(options *out, const char *names, int argc, char **argv, char error[OPTIONS_ERROR_SIZE]);

#endif
