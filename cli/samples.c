/* samples.c - see samples.h. */
#include "samples.h"

#include <stdlib.h>

bool samples_add(samples *s, double seconds)
{
    if (s->count == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 64;
        double *grown = realloc(s->time, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        s->time = grown;
        s->capacity = capacity;
    }
    s->time[s->count++] = seconds;
    return true;
}

void samples_free(samples *s)
{
    free(s->time);
    *s = (samples){0};
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void samples_sort(samples *s)
{
    qsort(s->time, (size_t)s->count, sizeof *s->time, compare);
}

double samples_at(const samples *s, double share)
{
    double place = share * (s->count - 1);
    int low = (int)place, high = low + 1 < s->count ? low + 1 : low;
    return s->time[low] + (place - low) * (s->time[high] - s->time[low]);
}
