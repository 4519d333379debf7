/* cache.c - see cache.h. */
#define _POSIX_C_SOURCE 200809L
#include "core/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool cache_path(const char *file, char path[CACHE_PATH_SIZE])
{
    const char *own = getenv("BRASA_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (own && strcmp(own, "off") == 0)
        return false;
    if (own && *own)
        length = snprintf(path, CACHE_PATH_SIZE, "%s/%s", own, file);
    else if (xdg && *xdg == '/')
        length = snprintf(path, CACHE_PATH_SIZE, "%s/brasa/%s", xdg, file);
    else if (home && *home == '/')
        length = snprintf(path, CACHE_PATH_SIZE, "%s/.cache/brasa/%s", home, file);
    return length > 0 && length < CACHE_PATH_SIZE;
}

void cache_make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
}
