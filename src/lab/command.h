/* command.h - runs a program to its end and reads what it says: questions to a Python, and pip. (Runners, which are
 * measured, are process.h's.) How it is started: see spawn.h. */
#ifndef LAB_COMMAND_H
#define LAB_COMMAND_H

#include "core/context.h"

#include <stdio.h>

typedef struct command {
    const char *const *argv; /* ended by NULL; the first is looked for in PATH */
    double seconds;          /* that it may take; 0: any number */
    FILE *log;               /* gets all that it says; NULL: nobody does */
    /* Called with each line of its standard output and error, and with NULL while it is silent; false ends it. NULL:
     * nobody asks. */
    bool (*heard)(void *user, const char *line);
    void *user;
} command;

typedef struct command_result {
    int code;           /* its exit code; 128 + the signal that ended it; 127: it could not be started */
    bool late, stopped; /* ended for its time, or by `heard` */
    char last[400];     /* its last line that is not empty; of 127: why */
} command_result;

/* Fails by what goes wrong here only. */
brasa_status command_run(brasa_context *ctx, const command *c, command_result *out);

#endif
