/* peers.h - the frameworks that the lab compares, and where each one's Python is.
 *
 * A peer is a row of one table, a runner (NAME.py) and, where it can be installed, a list of pins (NAME.lock). Its
 * environment is a folder of its own: $BRASA_PEERS/NAME, or $XDG_DATA_HOME/brasa/peers/NAME, or
 * ~/.local/share/brasa/peers/NAME. Runners and locks lie in $BRASA_LAB, or share/brasa/lab/peers beside the program
 * that is installed, or lab/peers of the source that it was built from.
 */
#ifndef LAB_PEERS_H
#define LAB_PEERS_H

#include "core/pool.h"

typedef struct peer_def {
    const char *name, *title;
    const char *module;    /* that must be importable; NULL: Brasa itself, which needs no Python */
    const char *packages;  /* of PyPI that its version may be known by, with blanks between them */
    const char *variants;  /* forms in which it can run, the plain one first, with blanks between them */
    const char *role;      /* what it stands for in the studies */
    const char *elsewhere; /* why it cannot be installed from PyPI, and where it is; NULL: it can */
} peer_def;

/* The index-th, NULL past the last one; Brasa is the first. */
const peer_def *peer_def_at(int index);
brasa_status peer_def_find(brasa_context *ctx, const char *name, const peer_def **out);

typedef struct peer {
    const peer_def *def;
    const char *variant;                  /* "": the plain one */
    const char *python;                   /* NULL: not there; or Brasa */
    const char *runner;                   /* the file; NULL: Brasa */
    const char *why;                      /* it cannot run, one line; NULL: it can, as far as was looked */
    const char *version, *python_version; /* NULL: see peer_ask */
} peer;

/* The folders; *out may not be there yet. */
brasa_status peers_folder(pool *p, const char **out);
brasa_status peers_lab(pool *p, const char **out);

/* Who takes part: "all", or NAME[:VARIANT][=PYTHON] with commas between them. NULL: all. Those that are not there
 * are in the list too, with the reason. */
brasa_status peers_choose(pool *p, const char *text, peer **out, int *count);

/* Asks the peer's Python for both versions, which takes a moment. What it cannot tell ends in peer.why. */
brasa_status peer_ask(pool *p, peer *one);

#endif
