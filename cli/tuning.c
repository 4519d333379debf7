/* tuning.c - see tuning.h. */
#define _POSIX_C_SOURCE 200809L
#include "tuning.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool tuning_off(const options *o)
{
    const char *word = getenv("BRASA_TUNE");
    return o->no_tune || (word && strcmp(word, "off") == 0);
}

/* Whether the folder of a file can be read, or made when it is needed. */
static bool usable(const char *path, bool made)
{
    char folder[CACHE_PATH_SIZE];
    struct stat st;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return stat(folder, &st) == 0 ? S_ISDIR(st.st_mode) && access(folder, R_OK | X_OK) == 0 : !made;
}

bool tuning_cache(char path[CACHE_PATH_SIZE], bool make)
{
    static bool told;
    const char *own = getenv("BRASA_CACHE");
    if (own && strcmp(own, "off") == 0)
        return false;
    const bool fits = cache_path(CHOICES_FILE, path);
    if (fits && make)
        cache_make_folders(path);
    if (!own || !*own || (fits && usable(path, make)))
        return fits;
    if (!told)
        complain(DONE, "note: BRASA_CACHE: expected a folder, or off, got '%.200s': times of kernels are not kept",
                 own);
    told = true;
    return false;
}

static bool look_on(void *user, int64_t done, int64_t total, const char *note)
{
    tuning *t = user;
    if (note) {
        progress_end(&t->progress); /* whose line it would be written behind */
        complain(DONE, "note: %s", note);
    } else {
        progress_show(&t->progress, "timing kernels, node %lld of %lld", (long long)done + 1, (long long)total);
    }
    return true;
}

/* Where BRASA_CACHE says something, it is wished, or was told before. */
static void tell_nowhere(void)
{
    static bool told;
    const char *own = getenv("BRASA_CACHE");
    if (!told && (!own || !*own))
        complain(DONE, "note: times of kernels are not kept, and trainings take the first that fit: BRASA_CACHE, "
                       "XDG_CACHE_HOME and HOME name no folder");
    told = true;
}

void tuning_start(tuning *t, const options *o)
{
    t->off = tuning_off(o);
    t->progress = progress_start(o->quiet);
    t->wish = SIZED(brasa_tuning, .measure = !t->off, .watch = look_on, .user = t);
    if (!t->off && tuning_cache(t->cache, true))
        t->wish.cache = t->cache;
    else if (!t->off)
        tell_nowhere();
}

bool tuning_tell(void *user, const brasa_progress *p)
{
    (void)user;
    if (p->event == BRASA_ON_NOTE)
        complain(DONE, "note: %s", p->text);
    return true;
}

void tuning_end(tuning *t)
{
    progress_end(&t->progress);
}
