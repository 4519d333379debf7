/* tuning.h - how verbs choose kernels: by their times, which are kept for the next time, unless --no-tune says not
 * to.
 *
 * The file is in the folder BRASA_CACHE (off: none), or XDG_CACHE_HOME/brasa, or ~/.cache/brasa. BRASA_TUNE=off is
 * --no-tune for all verbs. */
#ifndef CLI_TUNING_H
#define CLI_TUNING_H

#include "cli.h"
#include "core/cache.h"
#include "tune/tuner.h"

typedef struct tuning {
    bool off;
    brasa_tuning wish; /* for brasa_session_options */
    char cache[CACHE_PATH_SIZE];
    progress progress;
} tuning;

/* Whether this run of the program is to take the first kernel of each list. */
bool tuning_off(const options *o);
/* The file; false: there is none, and where BRASA_CACHE cannot be used, that is told once. Where `make`, its folder
 * is made, should it be missing. */
bool tuning_cache(char path[CACHE_PATH_SIZE], bool make);

/* What o says, with progress on the terminal. t must stay where it is while sessions are made with it. */
void tuning_start(tuning *t, const options *o);
/* For brasa_trainer_options.progress where nothing is trained: prints notes, such as those on a run's choices. */
bool tuning_tell(void *user, const brasa_progress *p);
/* After a session was made. */
void tuning_end(tuning *t);

#endif
