/* walk.c - through a tensor, row by row: where the elements of a row lie is looked up in a table. */
#include "session/walk.h"
#include "core/threads.h"

#include <string.h>

void walk_store(const walk *w, int64_t at, double x)
{
    storage_store(w->type, w->stored, 0, at, x);
}

void walk_copy_in(const walk *w, int64_t i, int64_t at)
{
    storage_store(w->type, w->stored, 0, at, storage_load(w->plain_type, w->plain, 0, i - w->first));
}

void walk_copy_out(const walk *w, int64_t i, int64_t at)
{
    storage_store(w->plain_type, w->plain, 0, i - w->first, storage_load(w->type, w->stored, 0, at));
}

/* --- rows ---------------------------------------------------------------------------------------------------- */

enum { MOST_IN_ROW = 1 << 14 }; /* a table of these stays in a cache */

static int64_t row_length(const shape *s, int *outer)
{
    int64_t length = 1;
    int d = s->rank;
    while (d > 0 && (d == s->rank || length * s->dim[d - 1] <= MOST_IN_ROW))
        length *= s->dim[--d];
    *outer = d;
    return length;
}

int64_t walk_table_size(const shape *s)
{
    int outer;
    return layout_table_size(s) + row_length(s, &outer);
}

/* What the indices of axes first to last - 1 add, of element i of these axes. */
static int64_t place_in(const shape *s, const int64_t *table, int first, int last, int64_t i)
{
    int64_t place = 0, begin = 0;
    for (int d = 0; d < last; d++)
        begin += s->dim[d];
    for (int d = last - 1; d >= first; d--) {
        begin -= s->dim[d];
        place += table[begin + i % s->dim[d]];
        i /= s->dim[d];
    }
    return place;
}

walk_rows walk_rows_of(const layout *l, const shape *s, int64_t *table)
{
    walk_rows r = {.straight = true, .table = table};
    int64_t *row = table + layout_table_size(s);
    layout_table_fill(l, s, table);
    r.length = row_length(s, &r.outer);
    for (int64_t i = 0; i < r.length; i++) {
        row[i] = place_in(s, table, r.outer, s->rank, i);
        r.straight = r.straight && row[i] == row[0] + i;
    }
    return r;
}

/* --- the walk ------------------------------------------------------------------------------------------------ */

/* Elements i to i + count - 1, of one row, between floats. */
static void copy_floats(const walk *w, int64_t i, int64_t count, int64_t base, const int64_t *places)
{
    float *stored = (float *)w->stored + base, *plain = (float *)w->plain + (i - w->first);
    const bool out = w->each == walk_copy_out;
    if (w->rows.straight && out)
        memcpy(plain, stored + places[0], (size_t)count * sizeof *plain);
    else if (w->rows.straight)
        memcpy(stored + places[0], plain, (size_t)count * sizeof *plain);
    else if (out)
        for (int64_t k = 0; k < count; k++)
            plain[k] = stored[places[k]];
    else
        for (int64_t k = 0; k < count; k++)
            stored[places[k]] = plain[k];
}

/* Rows lie side by side in blocks of some layouts: a piece of all rows comes before the next piece of any, so that
 * what was fetched with one is still there for its neighbours. */
static void copy_range(const walk *w, int64_t begin, int64_t end)
{
    enum { NEAR = 64 };
    const walk_rows *r = &w->rows;
    const int64_t *places = r->table + layout_table_size(w->shape);
    const int64_t piece = r->straight ? r->length : NEAR;
    for (int64_t at = 0; at < r->length; at += piece)
        for (int64_t row = begin / r->length; row * r->length < end; row++) {
            const int64_t start = row * r->length + at, left = r->length - at;
            const int64_t stop = start + (piece < left ? piece : left);
            const int64_t from = start > begin ? start : begin, to = stop < end ? stop : end;
            if (from < to)
                copy_floats(w, from, to - from, place_in(w->shape, r->table, 0, r->outer, row),
                            places + (from - row * r->length));
        }
}

void walk_range(void *user, int64_t begin, int64_t end)
{
    const walk *w = user;
    const walk_rows *r = &w->rows;
    const int64_t *places = r->table + layout_table_size(w->shape);
    if ((w->each == walk_copy_in || w->each == walk_copy_out) && w->type == F32 && w->plain_type == F32) {
        copy_range(w, begin, end);
        return;
    }
    for (int64_t i = begin; i < end;) {
        const int64_t row = i / r->length, rest = (row + 1) * r->length;
        const int64_t base = place_in(w->shape, r->table, 0, r->outer, row);
        for (; i < rest && i < end; i++)
            w->each(w, i, base + places[i - row * r->length]);
    }
}

static void range_from_first(void *user, int64_t begin, int64_t end)
{
    const walk *w = user;
    walk_range(user, w->first + begin, w->first + end);
}

void walk_some(const brasa_context *ctx, walk *w, int64_t count)
{
    threads_for(ctx->threads, count, range_from_first, w);
}

brasa_status walk_through(brasa_context *ctx, walk *w, const layout *l)
{
    const int64_t entries = walk_table_size(w->shape);
    int64_t *table = mem_get(ctx, (size_t)entries * sizeof *table);
    if (!table)
        return fail_memory(ctx, (size_t)entries * sizeof *table);
    w->rows = walk_rows_of(l, w->shape, table);
    walk_some(ctx, w, shape_count(w->shape));
    mem_put(ctx, table);
    return BRASA_OK;
}
