/* shared.h - opens shared libraries that are looked for when a program runs. */
#ifndef CORE_SHARED_H
#define CORE_SHARED_H

/* As dlopen does, with all that it needs, and its names for nobody else. A file by its path must be whole: the system
 * would kill the program where one ends too early. NULL: *why is what is wrong, until the thread's next call. */
void *shared_open(const char *path, const char **why);

#endif
