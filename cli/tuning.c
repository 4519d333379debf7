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

/* A folder with those above it. Where that is not possible, nothing will be kept. */
static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
}

/* Whether the folder of a file can be read, or made when it is needed. */
static bool usable(const char *path, bool made)
{
    char folder[TUNING_PATH_SIZE];
    struct stat st;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return stat(folder, &st) == 0 ? S_ISDIR(st.st_mode) && access(folder, R_OK | X_OK) == 0 : !made;
}

bool tuning_cache(char path[TUNING_PATH_SIZE], bool make)
{
    static bool told;
    const char *own = getenv("BRASA_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (own && strcmp(own, "off") == 0)
        return false;
    if (own && *own)
        length = snprintf(path, TUNING_PATH_SIZE, "%s/kernels.txt", own);
    else if (xdg && *xdg == '/')
        length = snprintf(path, TUNING_PATH_SIZE, "%s/brasa/kernels.txt", xdg);
    else if (home && *home == '/')
        length = snprintf(path, TUNING_PATH_SIZE, "%s/.cache/brasa/kernels.txt", home);
    const bool fits = length >= 0 && length < TUNING_PATH_SIZE;
    if (fits && make)
        make_folders(path);
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

void tuning_start(tuning *t, const options *o)
{
    t->off = tuning_off(o);
    t->progress = progress_start(o->quiet);
    t->wish = (brasa_tuning){.measure = true, .watch = look_on, .user = t};
    if (!t->off && tuning_cache(t->cache, true))
        t->wish.cache = t->cache;
}

const brasa_tuning *tuning_wish(const tuning *t)
{
    return t->off ? NULL : &t->wish;
}

void tuning_end(tuning *t)
{
    progress_end(&t->progress);
}
