/* samples.h - times that were taken, and what they say. */
#ifndef CLI_SAMPLES_H
#define CLI_SAMPLES_H

#include <stdbool.h>

typedef struct samples {
    double *time; /* seconds */
    int count, capacity;
} samples;

/* False: out of memory. */
bool samples_add(samples *s, double seconds);
void samples_free(samples *s);
/* Puts them in order, for the next one. */
void samples_sort(samples *s);
/* The value below which the share lies: 0 the smallest, 0.5 the median, 1 the largest. Sorted, and not empty. */
double samples_at(const samples *s, double share);

#endif
