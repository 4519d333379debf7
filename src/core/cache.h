/* cache.h - where is kept on disk what would take long to find out again: in the folder $BRASA_CACHE ("off": nothing
 * is), or $XDG_CACHE_HOME/brasa, or ~/.cache/brasa. */
#ifndef CORE_CACHE_H
#define CORE_CACHE_H

#include <stdbool.h>

enum { CACHE_PATH_SIZE = 4096 };

/* The path of a file there; false: there is none. */
bool cache_path(const char *file, char path[CACHE_PATH_SIZE]);
/* Makes the folders above a file, as far as they are missing. Where that is not possible, nothing will be kept. */
void cache_make_folders(char *path);

#endif
