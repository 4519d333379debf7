/* lab_markdown.c - Markdown: see lab_export.h. */
#include "lab/lab_export_parts.h"

/* In a table a bar would end the cell, and a line break the table. */
static void put_markdown(out *o, const char *text)
{
    for (const char *at = text ? text : ""; *at; at++) {
        if (*at == '|' || *at == '<' || *at == '\\')
            put_text(o, "\\");
        put(o, *at == '\n' || *at == '\r' ? " " : at, 1);
    }
}

static void put_heading(out *o, const char *text)
{
    put_text(o, "\n## ");
    put_markdown(o, text);
    put_text(o, "\n\n");
}

static void put_items(out *o, const char *const *texts, int count)
{
    for (int i = 0; i < count; i++) {
        put_text(o, "- ");
        put_markdown(o, texts[i]);
        put_text(o, "\n");
    }
}

static void put_table(out *o, const lab_table *t)
{
    if (!t->row_count)
        return;
    put_heading(o, t->title);
    for (int k = 0; k < t->column_count; k++) {
        put_text(o, k ? " | " : "| ");
        put_markdown(o, t->columns[k].title);
    }
    put_text(o, " |\n|");
    for (int k = 0; k < t->column_count; k++)
        put_text(o, t->columns[k].is_text ? "---|" : "---:|");
    for (int i = 0; i < t->row_count * t->column_count; i++) {
        const page_cell *c = &t->cells[i];
        put_text(o, i % t->column_count == 0 ? "\n| " : " | ");
        put_text(o, c->mark == MARK_BEST ? "**" : "");
        put_markdown(o, c->text);
        put_text(o, c->mark == MARK_BEST ? "**" : "");
        put_text(o, (i + 1) % t->column_count == 0 ? " |" : "");
    }
    put_text(o, t->note_count ? "\n\n" : "\n");
    put_items(o, t->notes, t->note_count);
}

/* Lines as they are: four blanks in front of each make them code. */
static void put_code(out *o, const char *text)
{
    while (*text) {
        const size_t length = strcspn(text, "\n");
        put_text(o, "    ");
        put(o, text, length);
        put_text(o, "\n");
        text += length + (text[length] == '\n');
    }
}

static void put_conditions(out *o, const lab_report *report)
{
    const lab_conditions *c = &report->conditions;
    put_heading(o, "Conditions");
    put_markdown(o, lab_clock_words);
    put_text(o, "\n\n");
    for (int i = 0; i < c->count; i++) {
        put_text(o, "- ");
        put_markdown(o, c->facts[i].name);
        put_text(o, ": ");
        put_markdown(o, c->facts[i].value);
        put_text(o, "\n");
    }
    put_table(o, &report->tables.versions);
    if (report->results->text && *report->results->text) {
        put_heading(o, "The experiment");
        put_code(o, report->results->text);
    }
}

bool lab_export_markdown(const lab_report *report, export_sink write, void *user)
{
    out o = {write, user, false};
    const lab_results *r = report->results;
    put_text(&o, "# ");
    put_markdown(&o, r->title);
    put_text(&o, "\n\n");
    put_markdown(&o, r->name);
    put_text(&o, ", ");
    put_markdown(&o, r->created);
    put_text(&o, ". ");
    put_markdown(&o, report->verdict.headline);
    put_text(&o, "\n\n");
    put_items(&o, report->verdict.lines, report->verdict.count);
    put_table(&o, &report->tables.ranks);
    if (report->alarms.count)
        put_heading(&o, "Alarms");
    for (int i = 0; i < report->alarms.count; i++)
        put_items(&o, &report->alarms.list[i].text, 1);
    for (int i = 0; i < report->tables.beside_count; i++)
        put_table(&o, &report->tables.beside[i]);
    put_table(&o, &report->tables.figures);
    put_table(&o, &report->tables.resources);
    put_table(&o, &report->tables.system);
    put_table(&o, &report->tables.gpu);
    put_table(&o, &report->tables.functions);
    put_table(&o, &report->tables.costs);
    put_table(&o, &report->tables.missing);
    put_table(&o, &report->tables.parity);
    put_conditions(&o, report);
    return !o.failed;
}

bool lab_export_table(const lab_table *t, export_sink write, void *user)
{
    out o = {write, user, false};
    put_table(&o, t);
    return !o.failed;
}
