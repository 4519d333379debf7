/* lab_page.c - see lab_page.h. From top to bottom as in the page; the charts are in lab_charts.c. */
#include "lab/lab_page.h"

#include "report/figures.h"

#include <stdio.h>
#include <string.h>

/* --- tables -------------------------------------------------------------------------------------------------- */

static void put_table(page *to, const lab_table *t)
{
    if (!t->row_count)
        return;
    page_table_begin(to, t->title, t->columns, t->column_count);
    for (int i = 0; i < t->row_count; i++)
        page_table_row(to, t->cells + (size_t)i * (size_t)t->column_count);
    page_table_end(to);
    for (int i = 0; i < t->note_count; i++)
        page_remark(to, t->notes[i]);
}

/* --- the outcome --------------------------------------------------------------------------------------------- */

/* Who is not installed was not run. */
static void count_runs(const lab_results *r, int *done, int *runs)
{
    *done = *runs = 0;
    for (int i = 0; i < r->row_count; i++) {
        *done += row_done(&r->rows[i]);
        *runs += strcmp(r->rows[i].status, "absent") != 0;
    }
}

static void put_outcome(page *to, const lab_report *report)
{
    const lab_results *r = report->results;
    char text[200];
    int done, runs;
    count_runs(r, &done, &runs);
    if (!r->finished)
        page_notice(to, PAGE_WARNING, "This campaign is not finished: what is missing was not run yet.");
    page_section(to, "Verdict");
    page_lead(to, report->verdict.headline);
    snprintf(text, sizeof text, "%d of %d", done, runs);
    const shown cells = show_count(r->cell_count), names = show_count(r->name_count),
                alarms = show_count(report->alarms.count);
    page_tiles(to,
               (page_fact[]){{"Cells", cells.text},
                             {"Frameworks and variants", names.text},
                             {"Runs that got through", text},
                             {"Alarms and warnings", alarms.text}},
               4);
    put_table(to, &report->tables.ranks);
    page_list(to, report->verdict.lines, report->verdict.count);
}

/* "begin: one; two; three." of the kinds that did not ring, and were looked for or were not. */
static void list_quiet(const lab_alarms *a, bool looked, const char *begin, char *text, size_t size)
{
    int count = 0;
    text[0] = '\0';
    for (int kind = 0; kind < ALARM_KINDS; kind++) {
        bool rang = false;
        for (int i = 0; i < a->count; i++)
            rang |= (int)a->list[i].kind == kind;
        const size_t used = strlen(text);
        if (!rang && a->looked[kind] == looked)
            snprintf(text + used, size - used, "%s %s", count++ ? ";" : begin, alarm_title((alarm_kind)kind));
    }
    const size_t used = strlen(text);
    if (count)
        snprintf(text + used, size - used, ".");
}

static void put_alarms(page *to, const lab_alarms *a)
{
    char text[800];
    page_section(to, "Alarms");
    for (int i = 0; i < a->count; i++)
        page_notice(to, a->list[i].severity, a->list[i].text);
    list_quiet(a, true, "Looked for, and not found:", text, sizeof text);
    if (*text)
        page_notice(to, PAGE_GOOD, text);
    list_quiet(a, false, "Not looked for, as this campaign has no numbers in which it could be seen:", text,
               sizeof text);
    if (*text)
        page_remark(to, text);
}

static void put_beside(page *to, const lab_tables *t)
{
    if (!t->beside_count)
        return;
    page_section(to, "Beside the published numbers");
    for (int i = 0; i < t->beside_count; i++)
        put_table(to, &t->beside[i]);
}

/* --- what failed --------------------------------------------------------------------------------------------- */

static bool has_output(const result_row *row)
{
    return !row_done(row) && row->tail && *row->tail;
}

/* The last outputs of those that failed, each text once: repeats fail alike. */
static void put_missing(page *to, const lab_report *report)
{
    const lab_results *r = report->results;
    char title[300];
    if (!report->tables.missing.row_count)
        return;
    page_section(to, "What did not get through");
    put_table(to, &report->tables.missing);
    for (int i = 0; i < r->row_count; i++) {
        const result_row *row = &r->rows[i];
        bool first = has_output(row);
        for (int k = 0; k < i && first; k++)
            first = !has_output(&r->rows[k]) || strcmp(r->rows[k].name, row->name) != 0 ||
                    strcmp(r->rows[k].tail, row->tail) != 0;
        if (!first)
            continue;
        snprintf(title, sizeof title, "Last output of %.80s: %.180s", row->name, r->cells[row->cell].title);
        page_output(to, title, row->tail);
    }
}

/* --- conditions ---------------------------------------------------------------------------------------------- */

static void put_conditions(page *to, const lab_report *report)
{
    const lab_results *r = report->results;
    page_section(to, "Conditions");
    page_text(to, lab_clock_words);
    page_facts(to, report->conditions.facts, report->conditions.count);
    put_table(to, &report->tables.versions);
    if (r->text && *r->text)
        page_output(to, "The experiment", r->text);
}

/* --- the page ------------------------------------------------------------------------------------------------ */

static brasa_status put_charts(pool *p, page *to, const lab_report *report)
{
    const lab_results *r = report->results;
    brasa_status status = lab_charts_bars(p, to, r);
    if (status == BRASA_OK)
        status = lab_charts_sweeps(p, to, r);
    if (status == BRASA_OK)
        status = lab_charts_size(p, to, r);
    if (status == BRASA_OK)
        status = lab_charts_accuracy(p, to, r);
    if (status == BRASA_OK)
        status = lab_charts_resources(p, to, r);
    return status;
}

brasa_status lab_page_write(pool *p, const lab_report *report,
                            bool (*write)(void *user, const char *text, size_t length), void *user)
{
    const lab_results *r = report->results;
    page to = {.write = write, .user = user};
    const char *subtitle =
        pool_text(p, "%s%sampaign %d, %s%s%s", r->title == r->name ? "" : r->name, r->title == r->name ? "C" : ", c",
                  (int)r->id, r->created, r->scale && *r->scale ? ", scale " : "", r->scale ? r->scale : "");
    if (!subtitle)
        return BRASA_OUT_OF_MEMORY;
    page_begin(&to, r->title, subtitle);
    put_outcome(&to, report);
    put_alarms(&to, &report->alarms);
    put_beside(&to, &report->tables);
    brasa_status status = put_charts(p, &to, report);
    page_section(&to, "All figures");
    put_table(&to, &report->tables.figures);
    put_table(&to, &report->tables.resources);
    put_table(&to, &report->tables.system);
    put_table(&to, &report->tables.gpu);
    put_table(&to, &report->tables.functions);
    put_table(&to, &report->tables.costs);
    put_missing(&to, report);
    if (report->tables.parity.row_count)
        page_section(&to, "Parity");
    put_table(&to, &report->tables.parity);
    put_conditions(&to, report);
    page_end(&to);
    if (status != BRASA_OK)
        return status;
    if (to.failed && !to.refused)
        return fail(p->ctx, BRASA_BAD_FILE, "a text is too long for the report");
    return to.failed ? BRASA_BAD_FILE : BRASA_OK;
}
