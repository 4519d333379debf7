/* test_walk.c - through tensors of every layout in the order of their shapes, against layout_offset element by
 * element: in and out, floats and doubles, from any element on, by one thread and by several. */
#include "test.h"

#include "session/walk.h"

#include <stdlib.h>

static const struct {
    const char *name;
    layout layout;
} layouts[] = {
    {"plain", {0}},
    {"nhwc", {.permuted = 1, .order = {0, 2, 3, 1}}},
    {"nChw16c", {.nblocks = 1, .axis = {1}, .block = {16}}},
    {"OIhw16i16o", {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}}},
    {"OIhw4i16o4i", {.nblocks = 3, .axis = {1, 0, 1}, .block = {4, 16, 4}}},
};
/* Rows of all axes, of some, of one; blocks that are not full; a last axis that is longer than a table wants. */
static const int64_t shapes[][4] = {{1, 1, 1, 1},    {2, 20, 3, 5},    {33, 17, 1, 1},
                                    {40, 600, 3, 3}, {3, 2, 1, 20000}, {2, 1, 150, 149}};

static brasa_context *ctx;

static void *filled(dtype type, int64_t count, double from)
{
    void *data = calloc((size_t)count, dtype_size(type));
    for (int64_t i = 0; i < count; i++) {
        if (type == F64)
            ((double *)data)[i] = from + (double)i;
        else
            ((float *)data)[i] = (float)(from + (double)i);
    }
    return data;
}

static double at(const void *data, dtype type, int64_t i)
{
    return type == F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Elements `first` on of a tensor, out or in, and back to where layout_offset says that they are. */
static void check_copy(const layout *l, const shape *s, dtype type, dtype plain_type, int64_t first, bool out)
{
    const int64_t count = shape_count(s), stored_count = layout_count(l, s);
    void *stored = filled(type, stored_count, 1), *plain = filled(plain_type, count - first, 1e6);
    int64_t *table = malloc((size_t)walk_table_size(s) * sizeof *table);
    walk w = {.shape = s,
              .each = out ? walk_copy_out : walk_copy_in,
              .stored = stored,
              .type = type,
              .plain = plain,
              .plain_type = plain_type,
              .first = first,
              .rows = walk_rows_of(l, s, table)};
    walk_some(ctx, &w, count - first);
    int64_t index[MAX_RANK] = {0}, wrong = 0, i = 0;
    do {
        const int64_t place = layout_offset(l, s, index);
        if (i >= first)
            wrong += at(stored, type, place) != at(plain, plain_type, i - first);
        else
            wrong += at(stored, type, place) != (double)(place + 1); /* nobody was there */
        if (i >= first && out)
            wrong += at(plain, plain_type, i - first) != (double)(place + 1);
        i++;
    } while (index_next(s, index));
    CHECK_INT(wrong, 0);
    CHECK_INT(i, count);
    free(table);
    free(plain);
    free(stored);
}

TEST(all_layouts)
{
    static const dtype types[][2] = {{F32, F32}, {F32, F64}, {F64, F64}};
    for (int threads = 1; threads <= 3; threads += 2) {
        CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = threads), &ctx), BRASA_OK);
        for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++)
            for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
                for (int t = 0; t < 3; t++) {
                    const shape s = shape_4(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
                    CASE("%s of %s, %s, %d threads", layouts[k].name, shape_print(&s).text,
                         types[t][1] == F32 ? "floats" : "doubles", threads);
                    for (int out = 0; out < 2; out++) {
                        check_copy(&layouts[k].layout, &s, types[t][0], types[t][1], 0, out);
                        check_copy(&layouts[k].layout, &s, types[t][0], types[t][1], shape_count(&s) / 3, out);
                    }
                }
        brasa_context_free(ctx);
    }
}

TEST(other_ranks)
{
    const shape ranks[] = {{0}, shape_1(7), shape_2(5, 30000)};
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = 2), &ctx), BRASA_OK);
    for (int i = 0; i < 3; i++)
        for (int out = 0; out < 2; out++) {
            CASE("%s", shape_print(&ranks[i]).text);
            check_copy(&(layout){0}, &ranks[i], F32, F32, 0, out);
        }
    brasa_context_free(ctx);
}
