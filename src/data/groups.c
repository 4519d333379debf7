/* groups.c - which samples belong together: photos of one scene, say, that must not be split between training and
 * test.
 *
 * A table with a header: a column "file" with paths below the set's folder, and a column whose equal texts make a
 * group. Every file of the set must be in it, once.
 */
#include "core/sort.h"
#include "data/source.h"
#include "data/table.h"

#include <string.h>

typedef struct row {
    const char *file, *group;
    int32_t number; /* of the group */
} row;

typedef struct rows {
    row *row;
    int count, capacity;
} rows;

static int by_file(void *user, int64_t a, int64_t b)
{
    const rows *r = user;
    return strcmp(r->row[a].file, r->row[b].file);
}

static int by_group(void *user, int64_t a, int64_t b)
{
    const rows *r = user;
    return strcmp(r->row[a].group, r->row[b].group);
}

static void swap(void *user, int64_t a, int64_t b)
{
    const rows *r = user;
    const row first = r->row[a];
    r->row[a] = r->row[b];
    r->row[b] = first;
}

static int find_column(const table *t, const char *name)
{
    for (int i = 0; i < t->cells; i++)
        if (strcmp(t->cell[i], name) == 0)
            return i;
    return -1;
}

static brasa_status read_rows(table *t, const char *column, rows *out)
{
    const int file = find_column(t, "file"), group = find_column(t, column), columns = t->cells;
    if (file < 0 || group < 0)
        return fail(t->pool.ctx, BRASA_BAD_FILE, "%s: there is no column '%s' in its first line", t->path,
                    file < 0 ? "file" : column);
    brasa_status status;
    while ((status = table_next(t)) == BRASA_OK && t->cells) {
        if (t->cells != columns)
            return table_refuse(t, "another number of cells than in the first line");
        row *grown = pool_grow(&t->pool, out->row, out->count, &out->capacity, sizeof *grown);
        if (!grown)
            return fail_memory(t->pool.ctx, sizeof *grown);
        out->row = grown;
        out->row[out->count++] = (row){.file = t->cell[file], .group = t->cell[group]};
    }
    return status;
}

static const row *find(const rows *r, const char *file)
{
    int low = 0, high = r->count;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = strcmp(r->row[middle].file, file);
        if (order == 0)
            return &r->row[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static brasa_status set_groups(dataset *d, const table *t, const char *root, rows *r)
{
    sort_items(r, r->count, by_group, swap);
    for (int i = 0; i < r->count; i++)
        r->row[i].number = i && by_group(r, i - 1, i) != 0 ? r->row[i - 1].number + 1 : i ? r->row[i - 1].number : 0;
    d->groups = r->count ? r->row[r->count - 1].number + 1 : 0;
    sort_items(r, r->count, by_file, swap);
    for (int i = 1; i < r->count; i++)
        if (by_file(r, i - 1, i) == 0)
            return fail(d->ctx, BRASA_BAD_FILE, "%s: '%.200s' is in it twice", t->path, r->row[i].file);
    if (!(d->group = pool_get(&d->pool, (size_t)d->count, sizeof *d->group)))
        return fail_memory(d->ctx, (size_t)d->count * sizeof *d->group);
    for (int32_t i = 0; i < d->count; i++) {
        const sample_name name = dataset_name(d, i);
        const row *found = find(r, name.text + strlen(root) + 1);
        if (!found)
            return fail(d->ctx, BRASA_BAD_FILE, "%s: it lacks '%.400s'", t->path, name.text + strlen(root) + 1);
        d->group[i] = found->number;
    }
    return BRASA_OK;
}

brasa_status dataset_read_groups(dataset *d, const char *root, const char *path, const char *column)
{
    table t;
    rows r = {0};
    brasa_status status = table_open(d->ctx, path, ',', &t);
    if (status == BRASA_OK)
        status = read_rows(&t, column, &r);
    if (status == BRASA_OK)
        status = set_groups(d, &t, root, &r);
    table_close(&t);
    return status;
}
