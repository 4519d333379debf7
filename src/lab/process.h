/* process.h - one run of a runner: starts it, reads its lines, watches it and all that it starts, ends it when it
 * takes too long or too much, and says what came of it. Nothing of it is left when process_run returns. How it is
 * started: see spawn.h. */
#ifndef LAB_PROCESS_H
#define LAB_PROCESS_H

#include "lab/account.h"
#include "lab/monitor.h"

#include <signal.h>

typedef struct process_request {
    const char *const *argv;                        /* ended by NULL; the first is a path */
    const char *const *environment;                 /* "NAME=value", ended by NULL, added to it; NULL: nothing */
    const char *folder;                             /* to run in; NULL: ours */
    double seconds;                                 /* that it may take; 0: any number */
    double grace;                                   /* seconds from asking it to end to making it; 0: 3 */
    int64_t memory;                                 /* bytes that it and its children may have; 0: any number */
    bool gpu;                                       /* it computes on a GPU, which is watched, too */
    bool check;                                     /* it need not say that it is done: see parity.h */
    account_owed owed;                              /* that it must have told of, once it is done */
    const volatile sig_atomic_t *stop;              /* not 0: end it; NULL: never */
    void (*line)(void *user, const lab_line *line); /* after each; NULL: nobody asks */
    void *user;
} process_request;

typedef struct process_result {
    pool pool;          /* all of what follows */
    const char *status; /* static: those of a row, see store.h, and "stopped" */
    const char *reason; /* NULL with "done" */
    account account;
    const char *output; /* all that it wrote to its standard output, with a zero behind it */
    size_t bytes;
    const char *tail; /* the end of what it wrote to its standard error, as UTF-8 */
    double seconds;
    monitor_totals totals;
    store_sample *samples;
    int count;
} process_result;

/* Fails by what goes wrong here only; what the runner does wrong is in the result. To be freed whatever came back. */
brasa_status process_run(brasa_context *ctx, const process_request *r, process_result *out);
void process_free(process_result *r);

#endif
