/* memory.c - see memory.h. */
#include "lab/memory.h"

static bool tells(const store_sample *s)
{
    return s->processes > 1 && s->pss >= 0;
}

static int64_t too_much(const store_sample *s)
{
    return s->rss > s->pss ? s->rss - s->pss : 0;
}

/* Before PSS was asked for the first time, what it will tell then is the best that is known. */
memory_walk memory_begin(const store_sample *samples, int count)
{
    for (int i = 0; i < count; i++)
        if (tells(&samples[i]))
            return (memory_walk){too_much(&samples[i])};
    return (memory_walk){0};
}

int64_t memory_next(memory_walk *w, const store_sample *s)
{
    if (s->processes <= 1)
        return s->rss;
    if (tells(s))
        w->too_much = too_much(s);
    return s->rss > w->too_much ? s->rss - w->too_much : 0;
}

int64_t memory_peak(const store_sample *samples, int count, int64_t peak_rss)
{
    memory_walk w = memory_begin(samples, count);
    bool several = false;
    int64_t most = 0;
    for (int i = 0; i < count; i++) {
        const int64_t bytes = memory_next(&w, &samples[i]);
        most = bytes > most ? bytes : most;
        several |= samples[i].processes > 1;
    }
    return several && most < peak_rss ? most : peak_rss;
}
