/* alarms_beside.c - times that fit neither the others of a campaign nor the published ones: see alarms.h. */
#include "lab/alarms_parts.h"
#include "lab/reference.h"

#include <math.h>
#include <string.h>

/* --- out of line: logarithms of times are, about, one number for the peer plus one for the cell --------------- */

enum { LINES = 24, SWEEPS = 10 };
static const double line_limit = 5;

typedef struct grid {
    int rows, columns;
    const result_entry *entry[LINES][LINES];
    double left[LINES][LINES]; /* what the two numbers do not explain; NAN: no time */
} grid;

/* The cells that are like this one but for network and data. */
static void fill_grid(const finder *f, int cell, grid *g)
{
    int cells[LINES];
    g->rows = f->r->name_count < LINES ? f->r->name_count : LINES;
    g->columns = 0;
    for (int c = cell; c < f->r->cell_count && g->columns < LINES; c++)
        if (cells_alike(&f->r->cells[c], &f->r->cells[cell], DIFFERENT_NETWORK | DIFFERENT_DATA))
            cells[g->columns++] = c;
    for (int i = 0; i < g->rows; i++)
        for (int k = 0; k < g->columns; k++) {
            const result_entry *e = results_entry(f->r, cells[k], i);
            g->entry[i][k] = e;
            g->left[i][k] = e && e->image_s.median > 0 ? log(e->image_s.median) : NAN;
        }
}

/* Tukey's median polish: takes medians of rows, then of columns, away until little is left of what is usual. */
static void polish(grid *g)
{
    double values[LINES];
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (int i = 0; i < g->rows; i++) {
            memcpy(values, g->left[i], sizeof values);
            const result_spread s = spread_of(values, g->columns);
            for (int k = 0; k < g->columns && s.count; k++)
                g->left[i][k] -= s.median;
        }
        for (int k = 0; k < g->columns; k++) {
            for (int i = 0; i < g->rows; i++)
                values[i] = g->left[i][k];
            const result_spread s = spread_of(values, g->rows);
            for (int i = 0; i < g->rows && s.count; i++)
                g->left[i][k] -= s.median;
        }
    }
}

static bool starts_group(const finder *f, int cell)
{
    for (int c = 0; c < cell; c++)
        if (cells_alike(&f->r->cells[c], &f->r->cells[cell], DIFFERENT_NETWORK | DIFFERENT_DATA))
            return false;
    return true;
}

void check_lines(finder *f)
{
    grid *g = pool_get(f->pool, 1, sizeof *g);
    f->failed |= !g;
    for (int cell = 0; g && cell < f->r->cell_count; cell++) {
        if (!starts_group(f, cell))
            continue;
        fill_grid(f, cell, g);
        if (g->rows < 3 || g->columns < 3) /* of two nobody knows which one is odd */
            continue;
        f->looked[ALARM_OUT_OF_LINE] = true;
        polish(g);
        for (int i = 0; i < g->rows; i++)
            for (int k = 0; k < g->columns; k++)
                if (fabs(g->left[i][k]) > log(line_limit))
                    alarm_put(f, ALARM_OUT_OF_LINE, name_of(f, g->entry[i][k]), "%s: %s, %.0f times %s than expected",
                              cell_of(f, g->entry[i][k]), per_image(g->entry[i][k]->image_s.median).text,
                              exp(fabs(g->left[i][k])), g->left[i][k] > 0 ? "more" : "less");
    }
}

/* --- beside the published ------------------------------------------------------------------------------------ */

/* Machines differ, so the median of all ratios of mine to theirs, an image each, counts as the difference between the
 * machines, and a row is far off where its own ratio is five times that or a fifth of it. Three ratios are the fewest
 * that have a median worth the name; with fewer nothing is said. */
static const double published_limit = 5;
enum { FEWEST_RATIOS = 3 };

static double ratio_of(const finder *f, const result_entry *e, const reference_row **published)
{
    *published = e->done ? reference_find(&f->r->cells[e->cell], e->row->peer, REFERENCE_TIME) : NULL;
    return *published ? e->image_s.median / reference_value(*published) : NAN;
}

static void check_published_on(finder *f, bool cpu, double *ratios)
{
    const reference_row *published;
    int count = 0;
    for (int i = 0; i < f->r->entry_count; i++)
        if ((strcmp(f->r->cells[f->r->entries[i].cell].what.device, "cpu") == 0) == cpu)
            ratios[count++] = ratio_of(f, &f->r->entries[i], &published);
    const result_spread machines = spread_of(ratios, count);
    f->looked[ALARM_PUBLISHED] |= machines.count >= FEWEST_RATIOS;
    for (int i = 0; i < f->r->entry_count && machines.count >= FEWEST_RATIOS; i++) {
        const result_entry *e = &f->r->entries[i];
        const double off = ratio_of(f, e, &published) / machines.median;
        if ((strcmp(f->r->cells[e->cell].what.device, "cpu") == 0) != cpu || !isfinite(off) ||
            (off < published_limit && off > 1 / published_limit))
            continue;
        const char *note = reference_note(published);
        alarm_put(
            f, ALARM_PUBLISHED, name_of(f, e),
            "%s: %s, published %s (%s, %s); %.1f times %s than the %.2g times that lie between the machines by the "
            "median of %d rows%s%s",
            cell_of(f, e), per_image(e->image_s.median).text, per_image(reference_value(published)).text,
            published->study, published->source, off > 1 ? off : 1 / off, off > 1 ? "more" : "less", machines.median,
            machines.count, note ? "; but of the published: " : "", note ? note : "");
    }
}

void check_published(finder *f)
{
    double *ratios = pool_get(f->pool, (size_t)f->r->entry_count + 1, sizeof *ratios);
    f->failed |= !ratios;
    for (int cpu = 0; ratios && cpu < 2; cpu++)
        check_published_on(f, cpu, ratios);
}
