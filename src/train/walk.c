/* walk.c - through a tensor, row by row: what a layout adds to an offset for each index is looked up in a table. */
#include "train/walk.h"
#include "core/threads.h"

#include <string.h>

static void store(void *data, dtype type, int64_t i, double x)
{
    if (type == F64)
        ((double *)data)[i] = x;
    else
        ((float *)data)[i] = (float)x;
}

static double load(const void *data, dtype type, int64_t i)
{
    if (type == BF16) {
        const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        return (double)x;
    }
    return type == F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

void walk_store(const walk *w, int64_t at, double x)
{
    store(w->stored, w->type, at, x);
}

void walk_copy_in(const walk *w, int64_t i, int64_t at)
{
    store(w->stored, w->type, at, load(w->plain, w->plain_type, i - w->first));
}

void walk_copy_out(const walk *w, int64_t i, int64_t at)
{
    store(w->plain, w->plain_type, i - w->first, load(w->stored, w->type, at));
}

void walk_range(void *user, int64_t begin, int64_t end)
{
    const walk *w = user;
    const int rank = w->shape->rank;
    const int64_t length = rank ? w->shape->dim[rank - 1] : 1;
    const int64_t *last = w->table;
    for (int d = 0; d < rank - 1; d++)
        last += w->shape->dim[d];
    for (int64_t i = begin; i < end;) {
        const int64_t row = i / length, rest = (row + 1) * length;
        const int64_t base = layout_row_base(w->shape, w->table, row);
        for (; i < rest && i < end; i++)
            w->each(w, i, base + last[i - row * length]);
    }
}

brasa_status walk_through(brasa_context *ctx, walk *w, const layout *l)
{
    const int64_t entries = layout_table_size(w->shape);
    w->table = mem_get(ctx, (size_t)entries * sizeof *w->table);
    if (!w->table)
        return fail_memory(ctx, (size_t)entries * sizeof *w->table);
    layout_table_fill(l, w->shape, w->table);
    threads_for(ctx->threads, shape_count(w->shape), walk_range, w);
    mem_put(ctx, w->table);
    return BRASA_OK;
}
