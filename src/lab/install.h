/* install.h - environments for peers: one folder each, made by venv and pip from the pins in NAME.lock.
 *
 * A lock is what `pip install -r` reads. Its comments say more:
 *     # python: 3.11 3.12             versions that the pins work on, the best first
 *     # disk: 5.6G                    what the environment takes
 *     # cpu-index: https://...        where else there are builds of the same versions for the CPU alone
 *     # cpu-disk: 1.2G                what it takes with these
 * Where there is a GPU, NAME.gpu.lock counts, if there is one: pins of builds that can use it. Where there is none,
 * the cpu-index is asked first; BRASA_CPU_INDEX names another, or is "off". Where it cannot be reached, or lacks the
 * version, PyPI has all that the lock names, too.
 *
 * An environment is made in a hidden folder beside its place, tried, then renamed, as are the paths in its scripts:
 * it is there whole or not at all.
 */
#ifndef LAB_INSTALL_H
#define LAB_INSTALL_H

#include "lab/peers.h"

typedef struct install_plan {
    const peer_def *def;
    const char *lock;           /* the file */
    const char *python;         /* that makes it */
    const char *python_version; /* "3.11" */
    const char *parent, *place; /* the folder of all peers, and its own in there */
    const char *index;          /* of builds for the CPU alone; NULL: PyPI's */
    bool gpu;                   /* the lock is one for GPUs */
    bool there;                 /* it is installed already: nothing else is filled in */
    int64_t bytes;              /* that it will take at most */
    int64_t available;          /* on that disk; -1: not known */
} install_plan;

/* What installing it would do, for "cpu" or "cuda"; NULL: what the machine has. Fails where it cannot be: not in
 * PyPI, no fitting Python, not enough room. */
brasa_status install_prepare(pool *p, const peer_def *def, const char *device, install_plan *out);

typedef struct install_watch {
    /* What is being done, and what pip says; false stops it. */
    bool (*heard)(void *user, const char *doing, const char *line);
    void *user;
} install_watch;

/* Does it; `out` gets what was installed. Whatever fails, nothing is left but PARENT/NAME.log. */
brasa_status install_run(pool *p, const install_plan *plan, const install_watch *w, peer *out);

/* Takes the environment away; BRASA_NOT_FOUND where there is none. */
brasa_status install_remove(pool *p, const peer_def *def);

#endif
