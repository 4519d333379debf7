/* dialects.c - `brasa dialects`: what frameworks disagree on, from the one table in the library.
 *
 * docs/dialects.md is what --markdown prints.
 */
#include "cli.h"

#include "graph/dialect.h"

#include <stdio.h>
#include <string.h>

enum { COLUMN = 19 }; /* four columns and two blanks fit 80 */

static brasa_entry framework = {.size = sizeof framework};
static brasa_field setting = {.size = sizeof setting};

static bool next_dialect(int i)
{
    return brasa_entry_at(BRASA_DIALECTS, i, &framework);
}

/* Setting k as the dialect just asked for has it. */
static bool setting_at(int k)
{
    return brasa_field_at(BRASA_DIALECTS, framework.name, NULL, k, &setting);
}

/* One cell for each dialect, in columns; k below 0: their names. */
static void format_row(int k, char *out, size_t size)
{
    int used = 0;
    for (int i = 0; next_dialect(i) && used < (int)size; i++) {
        const char *cell = k < 0 ? framework.name : setting_at(k) ? setting.value : "";
        used += snprintf(out + used, size - (size_t)used, "%-*s", COLUMN, cell);
    }
    for (size_t end = strlen(out); end && out[end - 1] == ' '; end--) /* no blanks at the end of a line */
        out[end - 1] = '\0';
}

static void print_text(void)
{
    char row[256];
    format_row(-1, row, sizeof row);
    heading("  %s", row);
    for (int k = 0; next_dialect(0) && setting_at(k); k++) {
        format_row(k, row, sizeof row);
        printf("%s\n  %s\n", setting.help, row);
    }
    printf("\n");
    for (int i = 0; next_dialect(i); i++)
        printf("%-8s %s\n", framework.name, framework.help);
}

static void print_markdown(void)
{
    printf(
        "# Dialects\n\n"
        "Frameworks disagree on equations and defaults. A network follows one dialect: `--dialect NAME`, the line\n"
        "`dialect NAME` in a model file, or `brasa_graph_set_dialect`. A setting that is given counts; the dialect\n"
        "says the rest. This page is the table in `src/graph/dialect.c`, printed by `brasa dialects "
        "--markdown`.\n\n");
    for (int i = 0; next_dialect(i); i++)
        printf("- `%s`%s: %s\n", framework.name, i ? "" : " (the default)", framework.help);
    printf("\n| |");
    for (int i = 0; next_dialect(i); i++)
        printf(" %s |", framework.name);
    printf("\n|---|");
    for (int i = 0; next_dialect(i); i++)
        printf("---|");
    for (int k = 0; next_dialect(0) && setting_at(k); k++) {
        printf("\n| %s |", setting.help);
        const char *quote = setting.choices ? "`" : ""; /* formulas hold asterisks */
        for (int i = 0; next_dialect(i) && setting_at(k); i++)
            printf(" %s%s%s |", quote, setting.value, quote);
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
