/* lab_table.c - see lab_table.h. The tables beside published numbers are in lab_beside.c. */
#include "lab/lab_table.h"
#include "lab/lab_beside.h"
#include "lab/table_writer.h"

#include "report/figures.h"

#include <math.h>
#include <string.h>

/* The two columns that rows of a framework in a cell begin with. */
static void begin_row(table_writer *w, const lab_results *r, const result_entry *e)
{
    table_put(w, "%s", r->cells[e->cell].title);
    table_put(w, "%s", r->names[e->name]);
}

/* --- ranks --------------------------------------------------------------------------------------------------- */

static void make_ranks(table_writer *w, const lab_results *r, const lab_verdict *v, lab_table *out)
{
    static const page_column columns[] = {{"Cell", true}, {"Fastest", true}, {"Its time"},      {"Next", true},
                                          {"Its time"},   {"Times as long"}, {"How sure", true}};
    static const char *const surety[] = {
        [SURE] = "sure", [LIKELY] = "likely", [OPEN] = "open", [UNKNOWN] = "unknown"};
    table_begin(w, out, "Who is fastest", columns, 7);
    for (int i = 0; i < v->rank_count; i++) {
        const verdict_rank *k = &v->ranks[i];
        table_put(w, "%s", r->cells[k->cell].title);
        table_put(w, "%s", r->names[k->first->name]);
        table_put(w, "%s", show_value(k->first->image_s.median, UNIT_SECONDS_PER_IMAGE).text);
        table_put(w, "%s", k->second ? r->names[k->second->name] : "nobody else got through");
        table_put(w, "%s", k->second ? show_value(k->second->image_s.median, UNIT_SECONDS_PER_IMAGE).text : "");
        if (k->second)
            table_put(w, "%.2f", k->factor);
        else
            table_put(w, "%s", "");
        table_put(w, "%s", k->second ? surety[k->surety] : "");
    }
    table_note(
        w, "Sure: three repeats or more of both, whose spreads lie further apart than either is wide, or five that "
           "do not "
           "touch; of two equals that is seen less than once in a hundred times. Likely: the spreads do not touch. "
           "Open: they overlap. Unknown: one repeat has no spread.");
    table_end(w);
}

/* --- figures ------------------------------------------------------------------------------------------------- */

/* Times of a cell stand below each other: in one unit, which suits the longest. */
typedef struct cell_units {
    unit_size image, epoch;
} cell_units;

static cell_units units_of(const lab_results *r, int cell)
{
    double image = 0, epoch = 0;
    for (int i = 0; i < r->entry_count; i++)
        if (r->entries[i].cell == cell && r->entries[i].done) {
            image = fmax(image, r->entries[i].image_s.median);
            epoch = fmax(epoch, r->entries[i].epoch_s.median);
        }
    return (cell_units){unit_for(UNIT_SECONDS, image), unit_for(UNIT_SECONDS, epoch)};
}

static void put_time(table_writer *w, const result_spread *s, unit_size unit)
{
    const double apart = fmax(s->high - s->median, s->median - s->low) / unit.divisor;
    const bool known = s->count > 1 && apart > 0;
    table_put(w, "%s%s%s %s", show_value(s->median / unit.divisor, UNIT_NONE).text, known ? " \u00B1" : "",
              known ? show_rough(apart).text : "", unit.name);
}

static void make_figures(table_writer *w, const lab_results *r, lab_table *out)
{
    static const page_column columns[] = {{"Cell", true}, {"Framework", true}, {"An image"},   {"An epoch"}, {"Runs"},
                                          {"Accuracy"},   {"Evaluation"},      {"First step"}, {"Import"}};
    table_begin(w, out, "Medians over the repeats, and how far the extremes lie from them", columns, 9);
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        const cell_units units = units_of(r, e->cell);
        begin_row(w, r, e);
        if (e->done)
            put_time(w, &e->image_s, units.image);
        else
            table_put(w, "%s", e->status);
        if (e->done)
            put_time(w, &e->epoch_s, units.epoch);
        else
            table_put(w, "%s", show_value(NAN, UNIT_NONE).text);
        table_put(w, "%d of %d", e->done, e->rows);
        table_put_spread(w, &e->accuracy, UNIT_SHARE);
        table_put(w, "%s", show_value(e->eval_s.median, UNIT_SECONDS).text);
        table_put(w, "%s", show_value(e->first_step_s.median, UNIT_SECONDS).text);
        table_put(w, "%s", show_value(e->import_s.median, UNIT_SECONDS).text);
    }
    table_end(w);
}

static void make_resources(table_writer *w, const lab_results *r, lab_table *out)
{
    static const page_column columns[] = {{"Cell", true}, {"Framework", true}, {"Cores busy"}, {"Peak memory"},
                                          {"Threads"},    {"Energy, J"},       {"J an epoch"}, {"J an image"}};
    const char *why = NULL;
    bool energy = false, short_epochs = false;
    for (int i = 0; i < r->entry_count; i++)
        energy |= r->entries[i].energy_j.count > 0;
    table_begin(w, out, "What a run took: medians over the repeats", columns, energy ? 8 : 5);
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        if (!e->done)
            continue;
        begin_row(w, r, e);
        table_put(w, "%s", show_value(e->cpu_mean.median, UNIT_NONE).text);
        table_put(w, "%s", show_value(e->peak_memory.median, UNIT_BYTES).text);
        table_put(w, "%s", show_value(e->threads_max.median, UNIT_NONE).text);
        if (energy) {
            table_put(w, "%s", show_value(e->energy_j.median, UNIT_NONE).text);
            table_put(w, "%s", show_value(e->epoch_j.median, UNIT_NONE).text);
            table_put(w, "%s", show_value(e->image_j.median, UNIT_NONE).text);
        }
        short_epochs |= e->energy_j.count && !e->epoch_j.count;
        if (isnan(e->energy_j.median) && e->row->energy_why)
            why = e->row->energy_why;
    }
    if (why)
        table_note(w, "Energy is %s%s.", strncmp(why, "not readable", 12) == 0 ? "" : "not readable: ", why);
    if (energy)
        table_note(w, "Energy is that of all processors of the machine in the epochs%s.",
                   short_epochs ? "; where they take less than a second it is too rough to be shared out" : "");
    table_end(w);
}

/* Of whole runs, import and evaluation included. */
static void make_system(table_writer *w, const lab_results *r, lab_table *out)
{
    static const page_column columns[] = {{"Cell", true},  {"Framework", true}, {"Context switches"},
                                          {"Page faults"}, {"Read from disk"},  {"Swap"},
                                          {"RSS of all"},  {"PSS of all"},      {"Other processes"}};
    table_begin(w, out, "What the system did for a run: medians over the repeats", columns, 9);
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        if (!e->done)
            continue;
        begin_row(w, r, e);
        table_put(w, "%s", show_value(e->ctx_switches.median, UNIT_NONE).text);
        table_put(w, "%s", show_value(e->faults.median, UNIT_NONE).text);
        table_put(w, "%s", show_value(e->read_bytes.median, UNIT_BYTES).text);
        table_put(w, "%s", show_value(e->peak_swap.median, UNIT_BYTES).text);
        table_put(w, "%s", show_value(e->peak_rss.median, UNIT_BYTES).text);
        table_put(w, "%s", show_value(e->peak_pss.median, UNIT_BYTES).text);
        table_put(w, "%s", show_value(e->children.median, UNIT_NONE).text);
    }
    table_note(w,
               "RSS counts what processes share for each of them, PSS once, but is asked for once a second at most. "
               "A run's memory, above, is RSS less what PSS showed to be counted twice.");
    table_end(w);
}

/* Empty where nothing ran on a GPU. */
static void make_gpu(table_writer *w, const lab_results *r, lab_table *out)
{
    static const page_column columns[] = {{"Cell", true}, {"Framework", true}, {"GPU memory"}, {"its own count"},
                                          {"GPU busy"},   {"Power, W"},        {"J an epoch"}, {"J an image"}};
    const char *why = NULL;
    table_begin(w, out, "On the GPU: medians over the repeats", columns, 8);
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        if (!e->done || !cell_on_gpu(&r->cells[e->cell]))
            continue;
        begin_row(w, r, e);
        table_put(w, "%s", show_value(e->gpu_peak.median, UNIT_BYTES).text);
        table_put(w, "%s", show_value(e->device_peak.median, UNIT_BYTES).text);
        table_put(w, "%s", show_value(e->gpu_busy.median, UNIT_SHARE).text);
        table_put(w, "%s", show_value(e->gpu_power.median, UNIT_NONE).text);
        table_put(w, "%s", show_value(e->gpu_epoch_j.median, UNIT_NONE).text);
        table_put(w, "%s", show_value(e->gpu_image_j.median, UNIT_NONE).text);
        why = why ? why : e->row->gpu_why;
    }
    table_note(w,
               "GPU memory is the most that the driver saw of the run's processes, code and CUDA's own included; its "
               "own count is the framework's, of tensors and workspace. Busy is the share of the epochs in which "
               "some kernel ran; energy is the power of the epochs times their length.");
    if (why)
        table_note(w, "What is missing was %s.", why);
    table_end(w);
}

/* A function's name, cut where it is longer than a reader wants: those of templates fill a page. */
static void put_function(table_writer *w, const char *name)
{
    enum { LONGEST = 72 };
    const size_t length = strlen(name);
    size_t cut = length <= LONGEST ? length : LONGEST;
    while (cut < length && cut > 0 && ((unsigned char)name[cut] & 0xC0) == 0x80) /* between letters */
        cut--;
    table_put(w, "%.*s%s", (int)cut, name, cut < length ? "..." : "");
}

/* Empty where no profile was asked for. The first ones of each run. */
static void make_functions(table_writer *w, const lab_results *r, lab_table *out)
{
    enum { SHOWN = 6 };
    static const page_column columns[] = {{"Cell", true}, {"Framework", true}, {"Function", true},
                                          {"Share"},      {"ms a step"},       {"Calls a step"}};
    table_begin(w, out, "Where the time of a training step goes: the functions that take most of it", columns, 6);
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        const result_row *row = e->row;
        for (int k = 0; e->done && k < row->function_count && k < SHOWN; k++) {
            const result_function *f = &row->functions[k];
            begin_row(w, r, e);
            put_function(w, f->name);
            table_put(w, "%s", show_value(f->seconds / row->profile_s, UNIT_SHARE).text);
            table_put(w, "%s", show_value(1e3 * f->seconds / row->profile_steps, UNIT_NONE).text);
            table_put(w, "%s", show_value(f->calls / row->profile_steps, UNIT_NONE).text);
        }
        if (e->done && row->profile_why) {
            begin_row(w, r, e);
            table_put(w, "not readable: %s", row->profile_why);
            for (int k = 0; k < 3; k++)
                table_put(w, "%s", "");
        }
    }
    table_end(w);
}

/* Empty where there is no price. */
static void make_costs(table_writer *w, const lab_results *r, lab_table *out)
{
    static const page_column columns[] = {
        {"Cell", true}, {"Framework", true}, {"An epoch"}, {"An image"}, {"A million images"}};
    if (!(r->price_per_hour > 0))
        return;
    table_begin(w, out, "What it costs: medians over the repeats", columns, 5);
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        if (!e->done)
            continue;
        begin_row(w, r, e);
        table_put(w, "%s", show_value(e->epoch_cost.median, UNIT_NONE).text);
        table_put(w, "%s", show_value(e->image_cost.median, UNIT_NONE).text);
        table_put(w, "%s", show_value(1e6 * e->image_cost.median, UNIT_NONE).text);
    }
    table_note(
        w, "At %s an hour for the machine. Only epochs are counted: not the start, the first step and evaluation.",
        show_short(r->price_per_hour).text);
    table_end(w);
}

/* --- what is missing, and what is the same ------------------------------------------------------------------- */

static bool same_fate(const result_row *a, const result_row *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->status, b->status) == 0 &&
           strcmp(a->reason ? a->reason : "", b->reason ? b->reason : "") == 0;
}

/* A line for all runs of a peer that ended in the same way. */
static void put_fate(table_writer *w, const lab_results *r, int first)
{
    const result_row *row = &r->rows[first];
    int runs = 0, cells = 0, cell = -1;
    for (int i = first; i < r->row_count; i++)
        if (same_fate(&r->rows[i], row)) {
            runs++;
            cells += r->rows[i].cell != cell; /* rows come cell by cell */
            cell = r->rows[i].cell;
        }
    table_put(w, "%s", row->name);
    table_put(w, "%s",
              strcmp(row->status, "different") == 0 ? "not the same experiment"
              : strcmp(row->status, "memory") == 0  ? "out of memory"
                                                    : row->status);
    table_put(w, "%s", row->reason ? row->reason : "");
    table_put(w, "%d", runs);
    if (cells > 1)
        table_put(w, "%d cells, the first: %s", cells, r->cells[row->cell].title);
    else
        table_put(w, "%s", r->cells[row->cell].title);
}

static void make_missing(table_writer *w, const lab_results *r, lab_table *out)
{
    static const page_column columns[] = {
        {"Framework", true}, {"What came of it", true}, {"Reason", true}, {"Runs"}, {"Where", true}};
    table_begin(w, out, "Runs without a result", columns, 5);
    for (int i = 0; i < r->row_count; i++) {
        bool first = !row_done(&r->rows[i]);
        for (int k = 0; k < i && first; k++)
            first = !same_fate(&r->rows[k], &r->rows[i]);
        if (first)
            put_fate(w, r, i);
    }
    table_end(w);
}

static void make_parity(table_writer *w, const lab_results *r, lab_table *out)
{
    static const page_column columns[] = {{"Framework", true},
                                          {"Network", true},
                                          {"Outcome", true},
                                          {"Worst relative difference of a loss"},
                                          {"What differs, or why not", true}};
    table_begin(w, out, "The same experiment? Three steps on the same weights and batches", columns, 5);
    for (int i = 0; i < r->parity_count; i++) {
        const result_parity *y = &r->parities[i];
        const bool plain = !y->variant || !*y->variant;
        table_put(w, "%s%s%s%s", y->peer, plain ? "" : " (", plain ? "" : y->variant, plain ? "" : ")");
        table_put(w, "%.*s", (int)strcspn(y->network, "["), y->network); /* a number of the gate's own */
        table_put(w, "%s", y->status);
        table_put(w, "%s", show_short(y->worst).text);
        table_put(w, "%s", y->detail ? y->detail : "");
    }
    table_end(w);
}

/* Whether an earlier row of the name said the same version. */
static bool version_told(const lab_results *r, int row)
{
    for (int i = 0; i < row; i++)
        if (r->rows[i].version && strcmp(r->rows[i].name, r->rows[row].name) == 0 &&
            strcmp(r->rows[i].version, r->rows[row].version) == 0)
            return true;
    return false;
}

static void put_version(table_writer *w, const char *name, const result_row *row)
{
    table_put(w, "%s", name);
    table_put(w, "%s", row->framework ? row->framework : "");
    table_put(w, "%s", row->version ? row->version : "");
    table_put(w, "%s", row->detail ? row->detail : "");
}

/* The first row of each version that a name had; of who never told one, the first. */
static void make_versions(table_writer *w, const lab_results *r, lab_table *out)
{
    static const page_column columns[] = {
        {"Runner", true}, {"Framework", true}, {"Version", true}, {"What it said of its settings", true}};
    table_begin(w, out, "Versions", columns, 4);
    for (int name = 0; name < r->name_count; name++) {
        const result_row *silent = NULL;
        int versions = 0;
        for (int i = 0; i < r->row_count; i++) {
            const result_row *row = &r->rows[i];
            if (strcmp(row->name, r->names[name]) != 0)
                continue;
            silent = silent ? silent : row;
            if (row->version && !version_told(r, i)) {
                put_version(w, r->names[name], row);
                versions++;
            }
        }
        if (!versions && silent)
            put_version(w, r->names[name], silent);
        if (versions > 1)
            table_note(w, "%s had %d versions in this campaign: its rows do not compare with each other.",
                       r->names[name], versions);
    }
    table_end(w);
}

static brasa_status make_tables(pool *p, const lab_results *r, const lab_verdict *v, lab_tables *out)
{
    table_writer w = {.pool = p};
    *out = (lab_tables){0};
    make_ranks(&w, r, v, &out->ranks);
    make_figures(&w, r, &out->figures);
    make_resources(&w, r, &out->resources);
    make_system(&w, r, &out->system);
    make_gpu(&w, r, &out->gpu);
    make_functions(&w, r, &out->functions);
    make_costs(&w, r, &out->costs);
    make_missing(&w, r, &out->missing);
    make_parity(&w, r, &out->parity);
    make_versions(&w, r, &out->versions);
    if (w.failed)
        return BRASA_OUT_OF_MEMORY;
    return lab_beside_make(p, r, &out->beside, &out->beside_count);
}

brasa_status lab_report_make(pool *p, const lab_results *r, lab_report *out)
{
    *out = (lab_report){.results = r};
    brasa_status status = verdict_find(p, r, &out->verdict);
    if (status == BRASA_OK)
        status = alarms_find(p, r, &out->alarms);
    if (status == BRASA_OK)
        status = lab_conditions_make(p, r, &out->conditions);
    return status == BRASA_OK ? make_tables(p, r, &out->verdict, &out->tables) : status;
}
