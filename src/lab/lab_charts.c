/* lab_charts.c - see lab_page.h. A peer has the same colour in all charts of a page. */
#include "lab/lab_page.h"
#include "lab/reference.h"

#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool has_time(const lab_results *r, int name)
{
    for (int i = 0; i < r->entry_count; i++)
        if (r->entries[i].name == name && r->entries[i].done)
            return true;
    return false;
}

/* There are not as many colours as frameworks: those who have a time come first. */
static int colour_of(const lab_results *r, int name)
{
    const bool timed = has_time(r, name);
    int colour = 1;
    for (int other = 0; other < r->name_count; other++)
        colour += has_time(r, other) == timed ? other < name : !timed;
    return colour;
}

enum { MOST_BARS_CELLS = 8 /* of a network; more of them are a line chart */, MOST_CURVES = 6 /* cells */ };

/* --- bars ---------------------------------------------------------------------------------------------------- */

static const result_spread *spread_at(const result_entry *e, size_t offset)
{
    return (const result_spread *)(const void *)((const char *)e + offset);
}

/* The bars of a cell, the best first, those without a value last. */
static int fill_bars(const lab_results *r, int cell, size_t offset, double sign, page_bar *bars)
{
    int count = 0;
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        const result_spread *s = spread_at(e, offset);
        if (e->cell != cell || (e->done && !s->count))
            continue;
        int place = count++;
        for (; place > 0; place--) {
            const double before = bars[place - 1].value;
            if (isfinite(before) && !(sign * s->median > sign * before))
                break;
            bars[place] = bars[place - 1];
        }
        bars[place] = (page_bar){.group = r->cells[cell].title,
                                 .name = r->names[e->name],
                                 .value = s->median,
                                 .low = s->low,
                                 .high = s->high,
                                 .colour = colour_of(r, e->name),
                                 .note = e->done                               ? NULL
                                         : strcmp(e->status, "memory") == 0    ? "out of memory"
                                         : strcmp(e->status, "different") == 0 ? "not the same experiment"
                                                                               : e->status};
    }
    if (count && isfinite(bars[0].value))
        bars[0].mark = MARK_BEST;
    return count;
}

static bool has_values(const lab_results *r, int cell, size_t offset)
{
    for (int i = 0; i < r->entry_count; i++)
        if (r->entries[i].cell == cell && spread_at(&r->entries[i], offset)->count)
            return true;
    return false;
}

static int cells_of_network(const lab_results *r, int cell)
{
    int count = 0;
    for (int c = 0; c < r->cell_count; c++)
        count += strcmp(r->cells[c].what.network, r->cells[cell].what.network) == 0;
    return count;
}

static bool first_of_network(const lab_results *r, int cell)
{
    for (int c = 0; c < cell; c++)
        if (strcmp(r->cells[c].what.network, r->cells[cell].what.network) == 0)
            return false;
    return true;
}

/* A chart for each network, whose bars then have one scale. */
static void put_bars(page *to, const lab_results *r, const char *heading, size_t offset, page_unit unit, double sign,
                     page_bar *bars)
{
    bool open = false;
    for (int cell = 0; cell < r->cell_count; cell++) {
        int count = 0;
        if (!first_of_network(r, cell) || cells_of_network(r, cell) > MOST_BARS_CELLS)
            continue;
        for (int c = cell; c < r->cell_count; c++)
            if (strcmp(r->cells[c].what.network, r->cells[cell].what.network) == 0 && has_values(r, c, offset))
                count += fill_bars(r, c, offset, sign, bars + count);
        if (!count)
            continue;
        if (!open)
            page_section(to, heading);
        open = true;
        const bool alone = cells_of_network(r, cell) == 1; /* then its title says it all */
        for (int i = 0; i < count && alone; i++)
            bars[i].group = NULL;
        page_bars(to, alone ? r->cells[cell].title : r->cells[cell].what.network, unit, bars, count);
    }
}

static brasa_status bars_section(pool *p, page *to, const lab_results *r, const char *heading, size_t offset,
                                 page_unit unit, double sign)
{
    page_bar *bars = pool_get(p, (size_t)r->entry_count + 1, sizeof *bars);
    if (!bars)
        return BRASA_OUT_OF_MEMORY;
    put_bars(to, r, heading, offset, unit, sign, bars);
    return BRASA_OK;
}

brasa_status lab_charts_bars(pool *p, page *to, const lab_results *r)
{
    return bars_section(p, to, r, "Time to train on an image: median and extremes", offsetof(result_entry, image_s),
                        UNIT_SECONDS_PER_IMAGE, -1);
}

brasa_status lab_charts_accuracy(pool *p, page *to, const lab_results *r)
{
    return bars_section(p, to, r, "Accuracy: median and extremes over repeats and folds",
                        offsetof(result_entry, accuracy), UNIT_SHARE, 1);
}

/* --- lines over what differs between cells ------------------------------------------------------------------- */

typedef double (*cell_value)(const result_cell *c);
typedef double (*entry_value)(const lab_results *r, const result_entry *e);

static double batch_of(const result_cell *c)
{
    return (double)c->what.batch;
}

static double threads_of(const result_cell *c)
{
    return (double)c->what.threads;
}

static double images_of(const result_cell *c)
{
    return (double)c->images;
}

static double image_time(const lab_results *r, const result_entry *e)
{
    (void)r;
    return e->image_s.median;
}

static double epoch_time(const lab_results *r, const result_entry *e)
{
    return e->image_s.median * (double)r->cells[e->cell].images;
}

/* Points of one peer over a group of cells, in the order of x. */
static int fill_points(const lab_results *r, int group, int name, unsigned differs, cell_value x_of, entry_value y_of,
                       double *x, double *y)
{
    int count = 0;
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        if (e->name != name || !cells_alike(&r->cells[e->cell], &r->cells[group], differs))
            continue;
        const double value = x_of(&r->cells[e->cell]);
        int place = count++;
        for (; place > 0 && x[place - 1] > value; place--) {
            x[place] = x[place - 1];
            y[place] = y[place - 1];
        }
        x[place] = value;
        y[place] = y_of(r, e);
    }
    return count;
}

/* How many cells a group has; 0 where an earlier cell has spoken for it. */
static int group_size(const lab_results *r, int cell, unsigned differs)
{
    int count = 0;
    for (int c = 0; c < r->cell_count; c++)
        if (cells_alike(&r->cells[c], &r->cells[cell], differs)) {
            if (c < cell)
                return 0;
            count++;
        }
    return count;
}

/* Series of all peers with at least one point; NULL when out of memory. */
static page_series *make_series(pool *p, const lab_results *r, int cell, int cells, unsigned differs, cell_value x_of,
                                entry_value y_of, page_style style, int *count)
{
    page_series *series = pool_get(p, 2 * (size_t)r->name_count + 1, sizeof *series);
    *count = 0;
    for (int name = 0; series && name < r->name_count; name++) {
        double *x = pool_get(p, 2 * (size_t)cells, sizeof *x);
        if (!x)
            return NULL;
        const int points = fill_points(r, cell, name, differs, x_of, y_of, x, x + cells);
        if (points)
            series[(*count)++] = (page_series){.name = r->names[name],
                                               .x = x,
                                               .y = x + cells,
                                               .count = points,
                                               .style = style,
                                               .colour = colour_of(r, name)};
    }
    return series;
}

static brasa_status sweep(pool *p, page *to, const lab_results *r, const char *heading, unsigned differs,
                          page_axis x_axis, cell_value x_of)
{
    bool open = false;
    const char **titles = cells_titles(p, r, differs);
    if (!titles)
        return BRASA_OUT_OF_MEMORY;
    for (int cell = 0; cell < r->cell_count; cell++) {
        const int cells = group_size(r, cell, differs);
        int count;
        if (cells < 2)
            continue;
        page_series *series = make_series(p, r, cell, cells, differs, x_of, image_time, STYLE_LINE, &count);
        if (!series)
            return BRASA_OUT_OF_MEMORY;
        if (!open) {
            page_section(to, heading);
            page_columns_begin(to);
        }
        open = true;
        page_lines(
            to,
            &(page_chart){
                titles[cell], x_axis, {.title = "time", .unit = UNIT_SECONDS_PER_IMAGE, .log = true}, series, count});
    }
    if (open)
        page_columns_end(to);
    return BRASA_OK;
}

brasa_status lab_charts_sweeps(pool *p, page *to, const lab_results *r)
{
    brasa_status status = sweep(p, to, r, "Time an image over the size of the batch", DIFFERENT_BATCH,
                                (page_axis){.title = "batch", .log = true, .whole = true}, batch_of);
    if (status == BRASA_OK)
        status = sweep(p, to, r, "Time an image over the number of threads", DIFFERENT_THREADS,
                       (page_axis){.title = "threads", .whole = true}, threads_of);
    return status;
}

/* --- the line over the number of images ---------------------------------------------------------------------- */

typedef struct fit {
    double start, slope; /* seconds, seconds an image */
    double worst;        /* the largest deviation from the line, of the measured time */
} fit;

/* Least squares of the deviations as shares of the times, so that small sets count as much as large ones. */
static fit fit_line(const double *x, const double *y, int count)
{
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (int i = 0; i < count; i++)
        if (y[i] > 0) {
            const double weight = 1 / (y[i] * y[i]);
            w += weight;
            wx += weight * x[i];
            wy += weight * y[i];
            wxx += weight * x[i] * x[i];
            wxy += weight * x[i] * y[i];
        }
    fit f = {.slope = (w * wxy - wx * wy) / (w * wxx - wx * wx)};
    f.start = (wy - f.slope * wx) / w;
    for (int i = 0; i < count; i++)
        if (y[i] > 0)
            f.worst = fmax(f.worst, fabs(f.start + f.slope * x[i] - y[i]) / y[i]);
    return f;
}

static int finite_points(const double *y, int count)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        found += isfinite(y[i]);
    return found;
}

/* Behind the measured points their lines, and a table of what the lines say. */
static brasa_status put_fits(pool *p, page *to, const char *title, page_series *series, int count, int cells)
{
    static const page_column columns[] = {
        {"Framework", true}, {"Time an image"}, {"Start of an epoch"}, {"Largest deviation from the line"}};
    fit *fits = pool_get(p, (size_t)count + 1, sizeof *fits);
    int lines = 0;
    if (!fits)
        return BRASA_OUT_OF_MEMORY;
    for (int i = 0; i < count; i++) {
        double *y = pool_get(p, (size_t)cells, sizeof *y);
        const page_series *s = &series[i];
        if (!y)
            return BRASA_OUT_OF_MEMORY;
        fits[i] = fit_line(s->x, s->y, s->count);
        if (finite_points(s->y, s->count) < 3)
            continue;
        for (int k = 0; k < s->count; k++)
            y[k] = fits[i].start + fits[i].slope * s->x[k];
        const char *name = pool_text(p, "%s, line", s->name);
        if (!name)
            return BRASA_OUT_OF_MEMORY;
        series[count + lines++] = (page_series){
            .name = name, .x = s->x, .y = y, .count = s->count, .style = STYLE_DASHED, .colour = s->colour};
    }
    page_lines(to, &(page_chart){title,
                                 {.title = "images", .zero = true},
                                 {.title = "an epoch", .unit = UNIT_SECONDS, .zero = true},
                                 series,
                                 count + lines});
    page_table_begin(to, title, columns, 4);
    for (int i = 0; i < count; i++) {
        const bool fitted = finite_points(series[i].y, series[i].count) >= 3;
        const shown text[] = {show_value(fitted ? fits[i].slope : NAN, UNIT_SECONDS_PER_IMAGE),
                              show_value(fitted ? fits[i].start : NAN, UNIT_NONE),
                              show_value(fitted ? fits[i].worst : NAN, UNIT_SHARE)};
        char start[60];
        snprintf(start, sizeof start, "%s%s", text[1].text, fitted ? " s" : "");
        page_table_row(to, (page_cell[]){{series[i].name}, {text[0].text}, {start}, {text[2].text}});
    }
    page_table_end(to);
    return BRASA_OK;
}

brasa_status lab_charts_size(pool *p, page *to, const lab_results *r)
{
    bool open = false;
    const char **titles = cells_titles(p, r, DIFFERENT_SIZE);
    brasa_status status = titles ? BRASA_OK : BRASA_OUT_OF_MEMORY;
    for (int cell = 0; status == BRASA_OK && cell < r->cell_count; cell++) {
        const int cells = group_size(r, cell, DIFFERENT_SIZE);
        int count;
        if (cells < 3) /* any two points lie on a line */
            continue;
        page_series *series =
            make_series(p, r, cell, cells, DIFFERENT_SIZE, images_of, epoch_time, STYLE_DOTS, &count);
        if (!series)
            return BRASA_OUT_OF_MEMORY;
        if (!open)
            page_section(to, "Time of an epoch over the number of images");
        open = true;
        status = put_fits(p, to, titles[cell], series, count, cells);
    }
    return status;
}

/* --- over time ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *title;
    page_axis y;
    size_t offset;
} measures[] = {
    {"Cores busy", {.zero = true}, offsetof(result_sample, cpu)},
    {"Memory", {.zero = true, .unit = UNIT_BYTES}, offsetof(result_sample, memory)},
    {"Threads", {.zero = true, .whole = true}, offsetof(result_sample, threads)},
    {"GPU memory", {.zero = true, .unit = UNIT_BYTES}, offsetof(result_sample, gpu_memory)},
    {"GPU busy", {.zero = true, .unit = UNIT_SHARE}, offsetof(result_sample, gpu_busy)},
    {"GPU power, W", {.zero = true}, offsetof(result_sample, gpu_power)},
};
enum { GPU_MEASURES = 3 /* the first ones are of every run */ };

static double sample_value(const result_row *row, int i, size_t offset)
{
    return *(const double *)(const void *)((const char *)&row->samples[i] + offset);
}

/* Some sample has a value. */
static bool was_sampled(const result_row *row, size_t offset)
{
    for (int i = 0; i < row->sample_count; i++)
        if (isfinite(sample_value(row, i, offset)))
            return true;
    return false;
}

static int fill_curves(const lab_results *r, int cell, size_t offset, page_series *series)
{
    int count = 0;
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        const result_row *row = e->row;
        if (e->cell == cell && was_sampled(row, offset))
            series[count++] = (page_series){.name = r->names[e->name],
                                            .x = &row->samples->at,
                                            .y = (const double *)(const void *)((const char *)row->samples + offset),
                                            .count = row->sample_count,
                                            .stride = sizeof *row->samples,
                                            .colour = colour_of(r, e->name)};
    }
    return count;
}

static bool is_resources(const lab_results *r, int cell)
{
    return strcmp(r->cells[cell].what.view ? r->cells[cell].what.view : "", "resources") == 0;
}

/* What the first study's figures showed. */
static void put_findings(page *to)
{
    static const page_column columns[] = {{"Framework", true}, {"What", true}, {"Published", true}};
    page_table_begin(to, "The first study's figures 1 and 2, in words", columns, 3);
    for (int i = 0; reference_finding_at(i); i++) {
        const reference_finding *f = reference_finding_at(i);
        if (strcmp(f->study, "study1") == 0 && strncmp(f->source, "figure", 6) == 0 && !strstr(f->what, "CUDA"))
            page_table_row(to, (page_cell[]){{f->peer}, {f->what}, {f->value}});
    }
    page_table_end(to);
}

/* Those of the experiments about resources; where there are none, the first cells. */
brasa_status lab_charts_resources(pool *p, page *to, const lab_results *r)
{
    page_series *series = pool_get(p, (size_t)r->name_count + 1, sizeof *series);
    int shown_cells = 0, wanted = 0, with = 0;
    bool published = false;
    if (!series)
        return BRASA_OUT_OF_MEMORY;
    for (int cell = 0; cell < r->cell_count; cell++)
        wanted += is_resources(r, cell);
    for (int cell = 0; cell < r->cell_count; cell++) {
        if ((wanted && !is_resources(r, cell)) || !fill_curves(r, cell, measures[0].offset, series))
            continue;
        with++;
        if (shown_cells == MOST_CURVES)
            continue;
        if (!shown_cells++)
            page_section(to, "Processor, memory and threads over time");
        page_text(to, r->cells[cell].title);
        published |= is_resources(r, cell);
        page_columns_begin(to);
        for (size_t m = 0; m < sizeof measures / sizeof *measures; m++) {
            const int count = m < GPU_MEASURES || cell_on_gpu(&r->cells[cell])
                                  ? fill_curves(r, cell, measures[m].offset, series)
                                  : 0;
            if (!count)
                continue;
            page_lines(to, &(page_chart){measures[m].title,
                                         {.title = "since the start", .unit = UNIT_SECONDS, .zero = true},
                                         measures[m].y,
                                         series,
                                         count});
        }
        page_columns_end(to);
    }
    if (with > shown_cells)
        page_text(to, "Curves of the other cells are in the store.");
    if (published)
        put_findings(to);
    return BRASA_OK;
}
