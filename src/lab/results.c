/* results.c - see results.h. */
#include "lab/results.h"
#include "core/sort.h"
#include "report/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

result_row row_unknown(void)
{
    return (result_row){.load_before = NAN,
                        .fma_gflops = NAN,
                        .import_s = NAN,
                        .first_step_s = NAN,
                        .eval_s = NAN,
                        .epoch_s = NAN,
                        .image_s = NAN,
                        .accuracy = NAN,
                        .loss = NAN,
                        .peak_rss = NAN,
                        .peak_pss = NAN,
                        .peak_swap = NAN,
                        .peak_memory = NAN,
                        .cpu_mean = NAN,
                        .threads_max = NAN,
                        .children = NAN,
                        .ctx_switches = NAN,
                        .faults = NAN,
                        .read_bytes = NAN,
                        .energy_j = NAN,
                        .monitor_share = NAN,
                        .device_peak = NAN,
                        .gpu_peak = NAN,
                        .gpu_busy = NAN,
                        .gpu_power = NAN,
                        .gpu_energy_j = NAN,
                        .profile_steps = NAN,
                        .profile_s = NAN};
}

bool row_done(const result_row *row)
{
    return strcmp(row->status, "done") == 0;
}

bool cell_on_gpu(const result_cell *c)
{
    return c->what.device && strcmp(c->what.device, "cpu") != 0;
}

/* --- cells --------------------------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* synth:fire of synth:fire,n=791 */
static int kind_length(const char *data)
{
    return (int)strcspn(data, ",");
}

static bool same_kind(const char *a, const char *b)
{
    const int length = kind_length(a);
    return length == kind_length(b) && memcmp(a, b, (size_t)length) == 0;
}

bool cells_alike(const result_cell *first, const result_cell *second, unsigned may_differ)
{
    const lab_cell *a = &first->what, *b = &second->what;
    const bool any_network = may_differ & DIFFERENT_NETWORK;
    if (!any_network && (!same_text(a->network, b->network) || !same_text(a->optimizer, b->optimizer)))
        return false;
    if (!(may_differ & DIFFERENT_DATA) &&
        !(may_differ & DIFFERENT_SIZE ? same_kind(a->data, b->data) : same_text(a->data, b->data)))
        return false;
    return ((may_differ & DIFFERENT_BATCH) || a->batch == b->batch) &&
           ((may_differ & DIFFERENT_THREADS) || a->threads == b->threads) &&
           ((may_differ & DIFFERENT_MEM) || a->mem == b->mem) &&
           (any_network || (may_differ & DIFFERENT_BLOCK) || same_text(a->experiment, b->experiment)) &&
           same_text(a->split, b->split) && a->folds == b->folds && same_text(a->device, b->device) &&
           same_text(a->precision, b->precision) && same_text(a->dialect, b->dialect);
}

/* What differs between the cells of a campaign: the rest need not be said of each. */
typedef struct differs {
    bool data, kind, batch, threads, device, precision, split, folds, mem, optimizer, dialect, block;
} differs;

static differs find_differences(const lab_results *r, unsigned may_differ)
{
    differs d = {0};
    for (int i = 1; i < r->cell_count; i++) {
        const lab_cell *a = &r->cells[0].what, *b = &r->cells[i].what;
        d.data |= !same_text(a->data, b->data);
        d.kind |= !same_kind(a->data, b->data);
        d.batch |= a->batch != b->batch;
        d.threads |= a->threads != b->threads;
        d.device |= !same_text(a->device, b->device);
        d.precision |= !same_text(a->precision, b->precision);
        d.split |= !same_text(a->split, b->split);
        d.folds |= a->folds != b->folds;
        d.mem |= a->mem != b->mem;
    }
    for (int i = 0; i < r->cell_count; i++) /* networks may have an optimizer each, which need not be said */
        for (int k = 0; k < i; k++) {
            const result_cell *a = &r->cells[i], *b = &r->cells[k];
            if (!same_text(a->what.network, b->what.network))
                continue;
            d.optimizer |= !same_text(a->what.optimizer, b->what.optimizer);
            d.dialect |= !same_text(a->what.dialect, b->what.dialect);
            d.block |= cells_alike(a, b, may_differ | DIFFERENT_BLOCK) && !cells_alike(a, b, may_differ);
        }
    d.data &= !(may_differ & (DIFFERENT_SIZE | DIFFERENT_DATA));
    d.kind &= (may_differ & DIFFERENT_SIZE) && !(may_differ & DIFFERENT_DATA);
    d.batch &= !(may_differ & DIFFERENT_BATCH);
    d.threads &= !(may_differ & DIFFERENT_THREADS);
    d.mem &= !(may_differ & DIFFERENT_MEM);
    return d;
}

static void say(char *text, size_t size, bool wanted, const char *format, ...) BRASA_PRINTF(4, 5);
static void say(char *text, size_t size, bool wanted, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    if (!wanted)
        return;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* "alexnet on synth:fire,n=791, batch 1" */
static const char *make_title(pool *p, const lab_cell *c, const differs *d)
{
    char text[1000] = "";
    const size_t size = sizeof text;
    say(text, size, true, "%.200s", c->network);
    say(text, size, d->data, " on %.200s", c->data);
    say(text, size, d->kind, " on %.*s", kind_length(c->data) < 200 ? kind_length(c->data) : 200, c->data);
    say(text, size, d->batch, ", batch %" PRId64, c->batch);
    say(text, size, d->threads, ", %" PRId64 " thread%s", c->threads, c->threads == 1 ? "" : "s");
    say(text, size, d->device, ", %s", c->device);
    say(text, size, d->precision, ", %s", c->precision);
    say(text, size, d->folds && c->folds, ", %" PRId64 " folds", c->folds);
    say(text, size, c->split && (d->split || d->folds) && strcmp(c->split, "all") != 0, ", %s",
        c->split ? c->split : "");
    say(text, size, d->optimizer, ", %.100s", c->optimizer);
    say(text, size, d->dialect, ", %.40s", c->dialect);
    if (c->mem)
        say(text, size, d->mem, ", within %s", show_value((double)c->mem, UNIT_BYTES).text);
    else
        say(text, size, d->mem, ", with any memory");
    say(text, size, d->block, " (%.100s)", c->experiment);
    return pool_text(p, "%s", text);
}

const char **cells_titles(pool *p, const lab_results *r, unsigned may_differ)
{
    const differs d = find_differences(r, may_differ);
    const char **titles = pool_get(p, (size_t)r->cell_count + 1, sizeof *titles);
    for (int i = 0; titles && i < r->cell_count; i++)
        if (!(titles[i] = make_title(p, &r->cells[i].what, &d)))
            return NULL;
    return titles;
}

static brasa_status title_cells(pool *p, lab_results *r)
{
    const char **titles = cells_titles(p, r, 0);
    for (int i = 0; titles && i < r->cell_count; i++)
        r->cells[i].title = titles[i];
    return titles ? BRASA_OK : BRASA_OUT_OF_MEMORY;
}

/* --- names --------------------------------------------------------------------------------------------------- */

static int compare_names(void *user, int64_t a, int64_t b)
{
    const char **names = user;
    return strcmp(names[a], names[b]);
}

static void swap_names(void *user, int64_t a, int64_t b)
{
    const char **names = user, *kept = names[a];
    names[a] = names[b];
    names[b] = kept;
}

static int find_name(const lab_results *r, const char *name)
{
    for (int i = 0; i < r->name_count; i++)
        if (strcmp(r->names[i], name) == 0)
            return i;
    return -1;
}

static brasa_status name_rows(pool *p, lab_results *r)
{
    int room = 0;
    r->names = NULL;
    r->name_count = 0;
    for (int i = 0; i < r->row_count; i++) {
        result_row *row = &r->rows[i];
        const bool plain = !row->variant || !*row->variant;
        row->name = plain ? row->peer : pool_text(p, "%s (%s)", row->peer, row->variant);
        if (!row->name)
            return BRASA_OUT_OF_MEMORY;
        if (find_name(r, row->name) >= 0)
            continue;
        if (!(r->names = pool_grow(p, r->names, r->name_count, &room, sizeof *r->names)))
            return BRASA_OUT_OF_MEMORY;
        r->names[r->name_count++] = row->name;
    }
    sort_items(r->names, r->name_count, compare_names, swap_names);
    return BRASA_OK;
}

/* --- entries ------------------------------------------------------------------------------------------------- */

static int compare_values(void *user, int64_t a, int64_t b)
{
    const double *values = user;
    return (values[a] > values[b]) - (values[a] < values[b]);
}

static void swap_values(void *user, int64_t a, int64_t b)
{
    double *values = user, kept = values[a];
    values[a] = values[b];
    values[b] = kept;
}

result_spread spread_of(double *values, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (isfinite(values[i]))
            values[kept++] = values[i];
    if (!kept)
        return (result_spread){NAN, NAN, NAN, 0};
    sort_items(values, kept, compare_values, swap_values);
    return (result_spread){(values[(kept - 1) / 2] + values[kept / 2]) / 2, values[0], values[kept - 1], kept};
}

/* Where a figure is in a row and where its spread goes. */
static const struct {
    size_t from, to;
} spreads[] = {
    {offsetof(result_row, image_s), offsetof(result_entry, image_s)},
    {offsetof(result_row, epoch_s), offsetof(result_entry, epoch_s)},
    {offsetof(result_row, first_step_s), offsetof(result_entry, first_step_s)},
    {offsetof(result_row, import_s), offsetof(result_entry, import_s)},
    {offsetof(result_row, eval_s), offsetof(result_entry, eval_s)},
    {offsetof(result_row, accuracy), offsetof(result_entry, accuracy)},
    {offsetof(result_row, peak_rss), offsetof(result_entry, peak_rss)},
    {offsetof(result_row, peak_pss), offsetof(result_entry, peak_pss)},
    {offsetof(result_row, peak_swap), offsetof(result_entry, peak_swap)},
    {offsetof(result_row, peak_memory), offsetof(result_entry, peak_memory)},
    {offsetof(result_row, cpu_mean), offsetof(result_entry, cpu_mean)},
    {offsetof(result_row, threads_max), offsetof(result_entry, threads_max)},
    {offsetof(result_row, children), offsetof(result_entry, children)},
    {offsetof(result_row, ctx_switches), offsetof(result_entry, ctx_switches)},
    {offsetof(result_row, faults), offsetof(result_entry, faults)},
    {offsetof(result_row, read_bytes), offsetof(result_entry, read_bytes)},
    {offsetof(result_row, energy_j), offsetof(result_entry, energy_j)},
    {offsetof(result_row, epoch_j), offsetof(result_entry, epoch_j)},
    {offsetof(result_row, image_j), offsetof(result_entry, image_j)},
    {offsetof(result_row, epoch_cost), offsetof(result_entry, epoch_cost)},
    {offsetof(result_row, image_cost), offsetof(result_entry, image_cost)},
    {offsetof(result_row, device_peak), offsetof(result_entry, device_peak)},
    {offsetof(result_row, gpu_peak), offsetof(result_entry, gpu_peak)},
    {offsetof(result_row, gpu_busy), offsetof(result_entry, gpu_busy)},
    {offsetof(result_row, gpu_power), offsetof(result_entry, gpu_power)},
    {offsetof(result_row, gpu_epoch_j), offsetof(result_entry, gpu_epoch_j)},
    {offsetof(result_row, gpu_image_j), offsetof(result_entry, gpu_image_j)},
};

static bool belongs(const lab_results *r, const result_entry *e, const result_row *row)
{
    return row->cell == e->cell && strcmp(row->name, r->names[e->name]) == 0;
}

static void fill_spreads(const lab_results *r, result_entry *e, double *values)
{
    for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++) {
        int count = 0;
        for (int i = 0; i < r->row_count; i++)
            if (row_done(&r->rows[i]) && belongs(r, e, &r->rows[i]))
                values[count++] = *(const double *)(const void *)((const char *)&r->rows[i] + spreads[k].from);
        *(result_spread *)(void *)((char *)e + spreads[k].to) = spread_of(values, count);
    }
}

/* Not finite is left out. */
static double more(double most, double value)
{
    return isfinite(value) && !(most >= value) ? value : most;
}

static void add_row(result_entry *e, const result_row *row)
{
    const bool done = row_done(row);
    e->done += done;
    if (!e->rows++ || (done && strcmp(e->status, "done") != 0)) {
        e->status = row->status;
        e->reason = done ? NULL : row->reason;
        e->row = row;
    }
    e->swap = more(e->swap, row->peak_swap);
    e->load = more(e->load, row->load_before);
    e->monitor = more(e->monitor, row->monitor_share);
    e->fma_high = more(e->fma_high, row->fma_gflops);
    e->fma_low = -more(-e->fma_low, -row->fma_gflops);
}

/* The row to show where one must stand for all: the one whose time is nearest to the median. */
static void choose_row(const lab_results *r, result_entry *e)
{
    for (int i = 0; i < r->row_count; i++) {
        const result_row *row = &r->rows[i];
        if (row_done(row) && belongs(r, e, row) &&
            fabs(row->image_s - e->image_s.median) < fabs(e->row->image_s - e->image_s.median))
            e->row = row;
    }
}

static void fill_entry(const lab_results *r, result_entry *e, double *values)
{
    for (int i = 0; i < r->row_count; i++)
        if (belongs(r, e, &r->rows[i]))
            add_row(e, &r->rows[i]);
    if (!e->rows)
        return;
    fill_spreads(r, e, values);
    choose_row(r, e);
}

/* The processors' energy is a sum over the looks that fell into epochs, ten a second; where there was none it is of
 * the whole run, and of few looks it is rough. So epochs must have taken a second together for it to be shared out.
 */
static const double least_epochs_s = 1;

static void share_energy(result_row *row)
{
    double seconds = 0, images = 0;
    for (int i = 0; i < row->epoch_count; i++) {
        seconds += row->epochs[i].seconds;
        images += row->epochs[i].images;
    }
    const bool enough = seconds >= least_epochs_s;
    row->epoch_j = enough ? row->energy_j / row->epoch_count : NAN;
    row->image_j = enough && images > 0 ? row->energy_j / images : NAN;
}

static void weigh_rows(lab_results *r)
{
    const double per_second = r->price_per_hour > 0 ? r->price_per_hour / 3600 : NAN;
    for (int i = 0; i < r->row_count; i++) {
        r->rows[i].epoch_cost = r->rows[i].epoch_s * per_second;
        r->rows[i].image_cost = r->rows[i].image_s * per_second;
        share_energy(&r->rows[i]);
        r->rows[i].gpu_epoch_j = r->rows[i].epoch_s * r->rows[i].gpu_power;
        r->rows[i].gpu_image_j = r->rows[i].image_s * r->rows[i].gpu_power;
    }
}

/* What stands behind `title` before the first block begins: it heads all of them. */
static brasa_status find_title(pool *p, lab_results *r)
{
    static const char blanks[] = " \t\r";
    r->title = r->name;
    for (const char *line = r->text ? r->text : ""; *line; line += *line == '\n') {
        const char *end = line + strcspn(line, "\n"), *key = line + strspn(line, blanks);
        const size_t length = strcspn(key, " \t\r\n");
        const char *value = key + length + strspn(key + length, blanks);
        size_t words = (size_t)(end > value ? end - value : 0);
        line = end;
        if (length == 10 && strncmp(key, "experiment", length) == 0)
            return BRASA_OK;
        if (length != 5 || strncmp(key, "title", length) != 0)
            continue;
        for (size_t i = 0; i < words; i++) /* a comment, as in experiment.c */
            if (value[i] == '#' && strchr(blanks, value[i - 1]))
                words = i;
        while (words && strchr(blanks, value[words - 1]))
            words--;
        if (words && !(r->title = pool_text(p, "%.*s", (int)words, value)))
            return BRASA_OUT_OF_MEMORY;
    }
    return BRASA_OK;
}

brasa_status results_summarize(pool *p, lab_results *r)
{
    weigh_rows(r);
    brasa_status status = find_title(p, r);
    if (status == BRASA_OK)
        status = title_cells(p, r);
    if (status == BRASA_OK)
        status = name_rows(p, r);
    if (status != BRASA_OK)
        return status;
    double *values = pool_get(p, (size_t)r->row_count + 1, sizeof *values);
    r->entries = pool_get(p, (size_t)r->cell_count * (size_t)r->name_count + 1, sizeof *r->entries);
    if (!values || !r->entries)
        return BRASA_OUT_OF_MEMORY;
    r->entry_count = 0;
    for (int cell = 0; cell < r->cell_count; cell++)
        for (int name = 0; name < r->name_count; name++) {
            result_entry *e = &r->entries[r->entry_count];
            *e = (result_entry){.cell = cell,
                                .name = name,
                                .fma_low = NAN,
                                .fma_high = NAN,
                                .swap = NAN,
                                .load = NAN,
                                .monitor = NAN};
            fill_entry(r, e, values);
            r->entry_count += e->rows > 0;
        }
    return BRASA_OK;
}

const result_entry *results_entry(const lab_results *r, int cell, int name)
{
    for (int i = 0; i < r->entry_count; i++)
        if (r->entries[i].cell == cell && r->entries[i].name == name)
            return &r->entries[i];
    return NULL;
}
