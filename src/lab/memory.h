/* memory.h - what all processes of a run had in memory together, by its samples.
 *
 * RSS counts a page that processes share for each of them: a loader's worker, forked from a process of a gigabyte,
 * seems to take one more. PSS counts it once, but the kernel goes through all pages for it, so that it is asked for
 * now and then (monitor.h). It tells what RSS counts too much; in between that is taken to change evenly, as it does
 * while processes write to what they shared.
 */
#ifndef LAB_MEMORY_H
#define LAB_MEMORY_H

#include "lab/store.h"

typedef struct memory_walk {
    const store_sample *samples;
    int count, at;     /* the next one */
    int before, after; /* those with PSS of several processes around it; -1, count: none */
} memory_walk;

memory_walk memory_begin(const store_sample *samples, int count);
/* Bytes of the next sample, of which there must be one. */
int64_t memory_next(memory_walk *w);
/* The most. That of a process alone is `peak_rss`, which the kernel has seen between samples, too; -1: unknown. */
int64_t memory_peak(const store_sample *samples, int count, int64_t peak_rss);

#endif
