/* memory.c - see memory.h. */
#include "lab/memory.h"

static bool tells(const store_sample *s)
{
    return s->processes > 1 && s->pss >= 0;
}

static void find_after(memory_walk *w)
{
    while (w->after < w->count && !tells(&w->samples[w->after]))
        w->after++;
}

memory_walk memory_begin(const store_sample *samples, int count)
{
    memory_walk w = {.samples = samples, .count = count, .before = -1};
    find_after(&w);
    return w;
}

static double too_much_at(const memory_walk *w, int i)
{
    const store_sample *s = &w->samples[i];
    return s->rss > s->pss ? (double)(s->rss - s->pss) : 0;
}

/* What RSS counts too much. Before the first time that PSS was told and after the last one it is as much as then. */
static double too_much(const memory_walk *w)
{
    if (w->before < 0)
        return w->after < w->count ? too_much_at(w, w->after) : 0;
    if (w->after == w->count)
        return too_much_at(w, w->before);
    const double from = w->samples[w->before].at, to = w->samples[w->after].at;
    const double part = to > from ? (w->samples[w->at].at - from) / (to - from) : 1;
    return (1 - part) * too_much_at(w, w->before) + part * too_much_at(w, w->after);
}

int64_t memory_next(memory_walk *w)
{
    const store_sample *s = &w->samples[w->at];
    if (w->at == w->after) {
        w->before = w->after++;
        find_after(w);
    }
    const double bytes = (double)s->rss - (s->processes > 1 ? too_much(w) : 0);
    w->at++;
    return bytes > 0 ? (int64_t)bytes : 0;
}

int64_t memory_peak(const store_sample *samples, int count, int64_t peak_rss)
{
    memory_walk w = memory_begin(samples, count);
    bool several = false;
    int64_t most = 0;
    for (int i = 0; i < count; i++) {
        const int64_t bytes = memory_next(&w);
        most = bytes > most ? bytes : most;
        several |= samples[i].processes > 1;
    }
    return several && most < peak_rss ? most : peak_rss;
}
