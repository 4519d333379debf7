/* sort.h - puts things in order that are known by their number only: heapsort. Unlike the library's qsort it never
 * asks malloc for memory, and takes n log n steps whatever somebody chose to make it slow. Not stable. */
#ifndef CORE_SORT_H
#define CORE_SORT_H

#include <stdint.h>

/* compare: negative, 0 or positive as item a comes before, with or after item b. */
void sort_items(void *user, int64_t count, int (*compare)(void *user, int64_t a, int64_t b),
                void (*swap)(void *user, int64_t a, int64_t b));

#endif
