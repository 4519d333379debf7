/* environment.h - the variables that users may set: one table, for the help and for a note on values that mean
 * nothing. */
#ifndef CLI_ENVIRONMENT_H
#define CLI_ENVIRONMENT_H

#include <stdbool.h>

typedef struct variable {
    const char *name;
    const char *takes; /* "on or off" */
    const char *help;
    bool (*fits)(const char *value); /* NULL: whoever uses it finds out */
    const char *otherwise;           /* what happens where it does not fit */
} variable;

/* The index-th variable, or NULL past the last one. */
const variable *variable_at(int index);

/* Tells of every value that means nothing. The verb runs all the same. An empty value is none. */
void environment_check(void);

#endif
