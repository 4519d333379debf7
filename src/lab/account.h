/* account.h - what a runner has told so far, line by line: see line.h. */
#ifndef LAB_ACCOUNT_H
#define LAB_ACCOUNT_H

#include "lab/line.h"
#include "lab/store.h"

typedef struct account {
    pool *pool; /* texts and epochs */
    int lines;
    bool done, refused, failed, out_of_memory;
    const char *why; /* of refused and failed */
    const char *framework, *version, *detail;
    double started_at, import_s, first_step_s; /* NAN: not told */
    double accuracy;                           /* of the last evaluation */
    store_epoch *epoch;
    int epochs, capacity;
    int64_t device_peak; /* bytes of a device, as the framework counts them; -1: not told */
    int64_t profile_steps;
    double profile_s; /* all functions together */
    const char *profile_why;
    store_function *function;
    int functions, function_capacity;
    const char *phase; /* static: "import", "build", then what it says itself; "other" where that is no known word */
} account;

account account_start(pool *p);
/* Reads the next line into `l` too, whose texts live in `scratch`. Fails with the reason why it is none. */
brasa_status account_line(account *a, pool *scratch, const char *text, size_t length, lab_line *l);
/* The median of the epochs' times, and of the evaluations'; NAN where there is none. */
double account_epoch_s(const account *a);
double account_eval_s(const account *a);

#endif
