/* account.h - what a runner has told so far, line by line: see line.h. */
#ifndef LAB_ACCOUNT_H
#define LAB_ACCOUNT_H

#include "lab/line.h"
#include "lab/store.h"

/* What a run has to tell of before it is done. */
typedef struct account_owed {
    int64_t epochs;        /* 0: nobody asks, as in a check */
    int64_t images, tests; /* of each epoch, and of the evaluation after it; tests 0: nothing is evaluated */
} account_owed;

typedef struct account {
    pool *pool; /* texts and epochs */
    account_owed owed;
    char wrong[160]; /* the first figure that cannot be, or is in the wrong place; "": none */
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

account account_start(pool *p, account_owed owed);
/* Reads the next line into `l` too, whose texts live in `scratch`. Fails with the reason why it is none. */
brasa_status account_line(account *a, pool *scratch, const char *text, size_t length, lab_line *l);
/* One more of its details; neither text has anything that JSON would write in another way. False: out of memory. */
bool account_add_detail(account *a, const char *key, const char *value);
/* What keeps a run from being done that says it is: what is wrong, else what did not come; "": nothing. */
const char *account_missing(account *a);
/* The median of the epochs' times, and of the evaluations'; NAN where there is none. */
double account_epoch_s(const account *a);
double account_eval_s(const account *a);

#endif
