/* watch.h - a training on the terminal: a live line, plain lines in a log, or an event a line as JSON. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli.h"

typedef struct watch {
    bool json, quiet, live;
    double last; /* when a step, or how much is read, was shown */
    int columns; /* of the terminal */
    bool open;   /* a live line stands there, without its end */
    bool began;  /* something was trained */
    const brasa_context *context;
    brasa_trainer_info info; /* from BRASA_ON_BEGIN on */
    brasa_memory memory;     /* of the session, too */
} watch;

watch watch_start(const options *o);
/* The `progress` of brasa_trainer_options; user is a watch. */
bool watch_event(void *user, const brasa_progress *p);
/* The last words; of a training that failed, those as JSON: the others are the error's. */
void watch_end(watch *w, const brasa_trainer_result *r);
void watch_failed(watch *w, const char *why);

#endif
