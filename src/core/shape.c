/* shape.c - sizes, checked. */
#include "core/shape.h"

#include <inttypes.h>
#include <stdio.h>

shape shape_1(int64_t a)
{
    return (shape){.rank = 1, .dim = {a}};
}

shape shape_2(int64_t a, int64_t b)
{
    return (shape){.rank = 2, .dim = {a, b}};
}

shape shape_4(int64_t n, int64_t c, int64_t h, int64_t w)
{
    return (shape){.rank = 4, .dim = {n, c, h, w}};
}

int64_t shape_count(const shape *s)
{
    const int64_t limit = INT64_C(1) << 62;
    int64_t count = 1;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] <= 0 || count > limit / s->dim[i])
            return -1;
        count *= s->dim[i];
    }
    return count;
}

int64_t shape_span(const shape *s, int from, int to)
{
    int64_t count = 1;
    for (int i = from; i < to; i++)
        count *= s->dim[i];
    return count;
}

bool shape_equal(const shape *a, const shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

shape_text shape_print(const shape *s)
{
    shape_text t = {"scalar"};
    size_t used = 0;
    for (int i = 0; i < s->rank && used < sizeof t.text; i++)
        used += (size_t)snprintf(t.text + used, sizeof t.text - used, i ? "x%" PRId64 : "%" PRId64, s->dim[i]);
    return t;
}
