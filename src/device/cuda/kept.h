/* kept.h - what the libraries' choices were, in memory, on disk, and in a run's record.
 *
 * A choice is a line of text: the machine (GPU and version of the library), the problem, and what was chosen, in
 * words that only whoever chose understands. It may come from a file that was edited, cut off or is another's, so
 * whoever takes it looks whether it can be.
 *
 * The file `cuda-engines` lies where core/cache.h says. A run's record is a file of the same form with the choices
 * that the run was made with; what it says holds, whatever the other file says by then, so that a run goes on as it
 * began. Nothing of CUDA is needed here.
 */
#ifndef DEVICE_CUDA_KEPT_H
#define DEVICE_CUDA_KEPT_H

#include "core/pool.h"

enum { KEPT_MOST_LINES = 8192 /* in the file: the oldest give way */, KEPT_VALUE_SIZE = 2000 };

typedef struct kept_line {
    const char *machine, *problem, *value;
    uint64_t hash;
    bool fresh;         /* chosen here, and not in the file yet */
    bool recorded;      /* comes from a run's record */
    bool noted;         /* chosen for this run alone */
    bool used;          /* something was opened with it */
    bool gone;          /* it was another run's alone; whoever has the line may still read it */
    const char *before; /* what held before the run had it otherwise, or NULL */
} kept_line;

typedef struct kept {
    brasa_context *ctx;
    pool pool;
    bool loaded;
    kept_line **line; /* as they came, the newest last; lines are never moved */
    int count, capacity;
    kept_line **slot; /* the same by their hash */
    int slots;        /* a power of two */
    int fresh;
    const char *record; /* the path of the run's, or NULL */
    bool damaged;       /* the last one that was read is not as it was written, and was not read before */
    int64_t saved;      /* when the file was written, or the first choice made, by a clock that only goes forward; 0:
                           neither */
} kept;

void kept_open(kept *k, brasa_context *ctx);
/* Saves, and frees it. */
void kept_close(kept *k);

/* What was chosen for a problem, in this process or another one, or, with `recorded`, for a run whose record was
 * read; NULL: nothing. Whoever takes it sets `used`. */
kept_line *kept_find(kept *k, const char *machine, const char *problem, bool recorded);
/* Keeps a choice, and sets `used`. NULL: there is no memory, and it will be made again. At times all is saved, as who
 * is killed loses the rest. No text holds tabs or ends of lines. */
kept_line *kept_put(kept *k, const char *machine, const char *problem, const char *value);
/* The same for this run alone: it goes into its record, and not into the file, which says what it said. For choices
 * that were made while something was short. */
kept_line *kept_note(kept *k, const char *machine, const char *problem, const char *value);
/* Puts what is fresh into the file, beside what others have put there meanwhile. Where that is not possible, it is
 * gone with the process. */
void kept_save(kept *k);

/* Reads a run's record; one that is not there, or no such file, says nothing. What the record of another run said, or
 * was used for it, holds no longer. BRASA_OUT_OF_MEMORY, or BRASA_OK. */
brasa_status kept_recall(kept *k, const char *path);
/* Nothing was used so far, and nothing noted. */
void kept_disuse(kept *k);
/* Writes one: what was used, and what a record said before. */
brasa_status kept_record(const kept *k, const char *path);

#endif
