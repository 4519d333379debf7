/* dialects.c - `brasa dialects`: what frameworks disagree on, from the one table in the library.
 *
 * docs/dialects.md is what --markdown prints.
 */
#include "describe.h"

#include "graph/dialect.h"

#include <stdio.h>

enum { COLUMN = 19 }; /* four columns and two blanks fit 80 */

/* One cell for each dialect, in columns; f NULL: their names. */
static void format_row(const field *f, char *out, size_t size)
{
    size_t used = 0;
    for (int i = 0; dialect_at(i) && used < size; i++) {
        figure cell = {""};
        if (f)
            cell = print_field(f, dialect_at(i));
        else
            snprintf(cell.text, sizeof cell.text, "%s", dialect_at(i)->name);
        int width = dialect_at(i + 1) ? COLUMN : 0; /* no blanks at the end of a line */
        used += (size_t)snprintf(out + used, size - used, "%-*s", width, cell.text);
    }
}

static void print_text(void)
{
    char row[256];
    format_row(NULL, row, sizeof row);
    heading("  %s", row);
    for (const field *f = dialect_fields; f->name; f++) {
        format_row(f, row, sizeof row);
        printf("%s\n  %s\n", f->help, row);
    }
    printf("\n");
    for (int i = 0; dialect_at(i); i++)
        printf("%-8s %s\n", dialect_at(i)->name, dialect_at(i)->summary);
}

static void print_markdown(void)
{
    printf(
        "# Dialects\n\n"
        "Frameworks disagree on equations and defaults. A network follows one dialect: `--dialect NAME`, the line\n"
        "`dialect NAME` in a model file, or `brasa_graph_set_dialect`. A setting that is given counts; the dialect\n"
        "says the rest. This page is the table in `src/graph/dialect.c`, printed by `brasa dialects "
        "--markdown`.\n\n");
    for (int i = 0; dialect_at(i); i++)
        printf("- `%s`%s: %s\n", dialect_at(i)->name, i ? "" : " (the default)", dialect_at(i)->summary);
    printf("\n| |");
    for (int i = 0; dialect_at(i); i++)
        printf(" %s |", dialect_at(i)->name);
    printf("\n|---|");
    for (int i = 0; dialect_at(i); i++)
        printf("---|");
    for (const field *f = dialect_fields; f->name; f++) {
        printf("\n| %s |", f->help);
        const char *quote = f->type == FIELD_WORD ? "`" : ""; /* formulas hold asterisks */
        for (int i = 0; dialect_at(i); i++)
            printf(" %s%s%s |", quote, print_field(f, dialect_at(i)).text, quote);
    }
    printf("\n");
}

static void print_json(void)
{
    json j = json_stdout();
    json_open(&j, NULL, '[');
    for (int i = 0; dialect_at(i); i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "name", dialect_at(i)->name);
        json_text(&j, "summary", dialect_at(i)->summary);
        fields_to_json(&j, dialect_fields, dialect_at(i));
        json_close(&j, '}');
    }
    json_close(&j, ']');
}

int run_dialects(const options *o)
{
    if (o->json)
        print_json();
    else if (o->markdown)
        print_markdown();
    else
        print_text();
    return DONE;
}
