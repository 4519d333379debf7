/* cli.h - what the verbs of the program share: the table's row, and how to speak.
 *
 * A verb prints to standard output with printf and returns an exit code. Nobody checks each printf: main looks once,
 * at the end, whether all of it could be written. Messages go to standard error, one line, "brasa: ..." first.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "options.h"

#include "brasa.h"
#include "core/json.h"
#include "train/settings.h"

#include <stdio.h>

/* Exit codes. */
enum { DONE = 0, FAILED = 1, MISUSED = 2, STOPPED = 130 /* as shells say for Ctrl-C */ };

/* What an option is in one verb, where the table's words would mislead. */
typedef struct option_meaning {
    const char *name, *value, *help; /* name NULL: no more of them */
} option_meaning;

typedef struct verb {
    const char *name; /* one word, or two: "bench step" */
    int (*run)(const options *o);
    const char *summary;      /* one line */
    const char *words;        /* what stands after the name: "MODEL|FILE.net"; "" for nothing */
    int min_words, max_words; /* how many of them */
    const char *options;      /* names, with blanks between them */
    option_meaning means[4];
    const char *details;  /* a paragraph of help, or NULL */
    const char *examples; /* one a line */
} verb;

/* The index-th verb, or NULL past the last one (main.c). */
const verb *verb_at(int index);

int run_bench_ops(const options *o);
int run_bench_peak(const options *o);
int run_bench_sum(const options *o);
int run_bench_step(const options *o);
int run_data_get(const options *o);
int run_data_info(const options *o);
int run_data_make(const options *o);
int run_dialects(const options *o);
int run_doctor(const options *o);
int run_eval(const options *o);
int run_explain(const options *o);
int run_help(const options *o);
int run_lab_install(const options *o);
int run_lab_list(const options *o);
int run_lab_peers(const options *o);
int run_lab_reference(const options *o);
int run_lab_report(const options *o);
int run_lab_run(const options *o);
int run_lab_runner(const options *o);
int run_models(const options *o);
int run_plan(const options *o);
int run_predict(const options *o);
int run_runs(const options *o);
int run_train(const options *o);

/* train.c: what a training's options, and a preset, say. An exit code, the message told. */
int train_settings_of(brasa_context *ctx, const options *o, brasa_trainer_options *s);

/* help.c: the page of one verb, and the list of all. */
void help_verb(const verb *v);
void help_short(FILE *to);

/* --- output.c ------------------------------------------------------------------------------------------------ */

/* "brasa: <text>" on standard error; returns the exit code given. */
int complain(int code, const char *format, ...) BRASA_PRINTF(2, 3);

/* A line of standard output. Its text may come from outside, as that of the next two: control characters become '?'.
 */
void print_line(const char *format, ...) BRASA_PRINTF(1, 2);
/* The same, bold on a terminal that has colours; empty lines may go before it. */
void heading(const char *format, ...) BRASA_PRINTF(1, 2);
/* Text broken between words to lines of at most 80 columns. The cursor stands in column `at`; further lines start
 * in column `indent`. Ends the line. */
void wrapped(int at, int indent, const char *text);

/* A JSON writer to standard output. */
json json_stdout(void);
/* The sink it writes to, for brasa_session_explain. */
bool write_stdout(void *user, const char *text, size_t length);

/* Figures for people. By value, so that they can stand in an argument list. */
typedef struct figure {
    char text[40];
} figure;
figure print_count(int64_t value);    /* 1,199,882 */
figure print_bytes(double bytes);     /* 13.7 MB, of 10^6 bytes */
figure print_seconds(double seconds); /* 12.3 ms */
figure print_number(double value);    /* 0.001, 1e-5 */
figure print_percent(double share);   /* 63.1 %; "-" for NAN */
figure print_time(double seconds);    /* 13 s, 4 min 10 s, 2 h 5 min */

/* A name in a table: cut and padded to `columns` letters, counted as UTF-8 has them; at the right, where wished. What
 * is no UTF-8, and control characters, are shown as '?'. */
typedef struct fitted {
    char text[4 * 40 + 1];
} fitted;
fitted print_fitted(const char *name, int columns, bool right);

/* Progress: one line of standard error that is written over, only on a terminal and only after two seconds. */
typedef struct progress {
    bool off, shown;
    double start, last; /* seconds of clock_seconds */
} progress;
progress progress_start(bool quiet);
void progress_show(progress *p, const char *format, ...) BRASA_PRINTF(2, 3);
void progress_end(progress *p);

/* A bar of `width` letters, `share` of it filled; in lines where the terminal knows them, else in #. */
typedef struct bar {
    char text[160];
} bar;
bar print_bar(double share, int width);

/* A clock that only goes forward. */
double clock_seconds(void);
/* Main calls the first at once, the other gives the seconds since the process was started: what goes before main,
 * libraries being loaded, is processor time. */
void clock_start(void);
double clock_since_start(void);

#endif
