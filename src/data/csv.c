/* csv.c - tables of numbers: a line a sample, a column for the label, the others are features.
 *
 * Labels are any text, without the blanks around it; classes are numbered in their order, by value where all of them
 * are whole numbers. The first line is a header where every cell outside the label's column is a name: a text that
 * not even a lenient reader takes for a number. Where it could be either, the user must say. The numbers are held in
 * memory, as floats.
 */
#include "core/json_scan.h"
#include "core/numeric.h"
#include "data/source.h"
#include "data/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_SIZE = 64 };

typedef struct state {
    const char *path;
    float *numbers;   /* count x channels */
    int32_t *line_of; /* line of each sample, from 1 */
} state;

typedef struct reading {
    table t;
    dataset *d;
    int columns, label; /* the label's column, from 0 */
    bool doubtful;      /* the first line, read as a sample, may be a header: 0,1,2 or 1,2,3 beside the label */
    bool first;         /* the line in hand is the first one, and no header */
    char **labels;      /* the label's text of every sample */
} reading;

/* A decimal number, blanks around it allowed: strtod would take "nan", "inf" and hexadecimal too. */
static bool read_number(const char *text, float *out)
{
    char *end;
    text += strspn(text, " \t");
    const size_t length = strspn(text, "+-.0123456789eE");
    if (length == 0 || length >= CELL_SIZE || text[length + strspn(text + length, " \t")])
        return false;
    const double value = strtod(text, &end);
    *out = (float)value;
    return end == text + length && isfinite(*out);
}

/* "nan", "0x10" and nothing at all are no numbers here, but no names either. */
static bool is_name(const char *text)
{
    char *end;
    text += strspn(text, " \t");
    if (!*text)
        return false;
    strtod(text, &end);
    return end == text || end[strspn(end, " \t")];
}

/* Without the blanks around it, in place. */
static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    text[length] = '\0';
    return text;
}

/* --- columns and classes ------------------------------------------------------------------------------------- */

/* The label's column by number, from 1; by name, where there is a header; the first one unless told. */
static brasa_status find_label(reading *r, const char *wanted, bool header)
{
    r->label = 0;
    if (!wanted)
        return BRASA_OK;
    if (strspn(wanted, "0123456789") == strlen(wanted)) {
        const long number = strtol(wanted, NULL, 10);
        if (number >= 1 && number <= r->columns) {
            r->label = (int)number - 1;
            return BRASA_OK;
        }
        return fail(r->d->ctx, BRASA_BAD_ARGUMENT, "label: column %s, but %s has %d", wanted, r->t.path, r->columns);
    }
    for (int i = 0; header && i < r->columns; i++)
        if (strcmp(trimmed(r->t.cell[i]), wanted) == 0) {
            r->label = i;
            return BRASA_OK;
        }
    if (header)
        return fail(r->d->ctx, BRASA_BAD_ARGUMENT, "label: %s has no column '%s'", r->t.path, wanted);
    return fail(r->d->ctx, BRASA_BAD_ARGUMENT, "label: '%s' is a name, but %s has no header", wanted, r->t.path);
}

static bool looks_like_header(const reading *r, const char *label)
{
    if (label && strspn(label, "0123456789") != strlen(label))
        return true;
    const int skip = label ? (int)strtol(label, NULL, 10) - 1 : 0;
    for (int i = 0; i < r->t.cells; i++)
        if (i != skip && !is_name(r->t.cell[i]))
            return false;
    return true;
}

/* Numbers that count the columns, from 0 or from 1: names that a program gave them, or a sample. */
static bool counts_columns(const reading *r)
{
    float first = 0, number;
    int found = 0;
    for (int i = 0; i < r->columns; i++) {
        if (i == r->label)
            continue;
        if (!read_number(r->t.cell[i], &number))
            return false;
        first = found ? first : number;
        if (number != first + (float)found++)
            return false;
    }
    return found > 1 && (first == 0 || first == 1);
}

/* A header has a text in the label's column that no sample has. */
static brasa_status check_doubtful(const reading *r)
{
    const dataset *d = r->d;
    bool alone = d->classes < d->count; /* else each of them is */
    for (int32_t i = 1; i < d->count && alone; i++)
        alone = d->label[i] != d->label[0];
    return alone
               ? fail(d->ctx, BRASA_BAD_ARGUMENT, "line 1 may be a header or a sample: say ,header=yes or ,header=no")
               : BRASA_OK;
}

static bool is_whole(const char *text)
{
    const char *digits = text + (text[0] == '-');
    const size_t length = strspn(digits, "0123456789");
    return length > 0 && length < 10 && !digits[length];
}

static int compare(const char *a, const char *b, bool whole)
{
    if (!whole)
        return strcmp(a, b);
    const long x = strtol(a, NULL, 10), y = strtol(b, NULL, 10);
    return (x > y) - (x < y);
}

/* Where the label stands among the classes so far, or should stand. */
static int place_of(const dataset *d, const char *label, bool whole, bool *found)
{
    int low = 0, high = d->classes;
    *found = false;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = compare(d->class_name[middle], label, whole);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static brasa_status number_classes(reading *r, const int32_t *line_of)
{
    dataset *d = r->d;
    bool whole = true, found;
    int capacity = 0;
    for (int32_t i = 0; i < d->count; i++)
        whole = whole && is_whole(r->labels[i]);
    for (int32_t i = 0; i < d->count; i++) {
        const int at = place_of(d, r->labels[i], whole, &found);
        if (found)
            continue;
        r->t.line = line_of[i];
        if (!r->labels[i][0] || !text_printable(r->labels[i]))
            return table_refuse(&r->t, r->labels[i][0] ? "a label that is not printable" : "an empty label");
        if (d->classes == MAX_CLASSES)
            return table_refuse(&r->t, "more than 65,536 different labels: is this the label's column?");
        const char **grown = pool_grow(&d->pool, d->class_name, d->classes, &capacity, sizeof *grown);
        const char *name = pool_text(&d->pool, "%s", r->labels[i]);
        if (!grown || !name)
            return fail_memory(d->ctx, sizeof *grown);
        d->class_name = grown;
        memmove(&d->class_name[at + 1], &d->class_name[at], (size_t)(d->classes - at) * sizeof *d->class_name);
        d->class_name[at] = name;
        d->classes++;
    }
    brasa_status status = dataset_make_labels(d);
    for (int32_t i = 0; status == BRASA_OK && i < d->count; i++)
        d->label[i] = place_of(d, r->labels[i], whole, &found);
    return status;
}

/* --- the table ----------------------------------------------------------------------------------------------- */

/* No more rows than lines, and no more cells than bytes, so that memory goes with the file's size. */
static int64_t most_rows(const reading *r)
{
    int64_t lines = 1, bytes = 1;
    for (const char *c = r->t.at; *c; c++, bytes++)
        lines += *c == '\n';
    const int64_t rows = bytes / r->columns + 2;
    return lines < rows ? lines : rows;
}

static brasa_status read_row(reading *r, float *to)
{
    char why[300];
    if (r->t.cells != r->columns) {
        snprintf(why, sizeof why, "%d cells, but the first line has %d", r->t.cells, r->columns);
        return table_refuse(&r->t, why);
    }
    for (int i = 0; i < r->columns; i++) {
        if (i == r->label || read_number(r->t.cell[i], to++))
            continue;
        snprintf(why, sizeof why, "column %d: '%s' is not a number%s", i + 1,
                 text_printable(r->t.cell[i]) ? text_short(r->t.cell[i]).text : "?",
                 r->first ? "; if this line is a header, say header=yes" : "");
        return table_refuse(&r->t, why);
    }
    return BRASA_OK;
}

static brasa_status read_rows(reading *r, state *s, bool header)
{
    dataset *d = r->d;
    const int64_t rows = most_rows(r) + 1;
    brasa_status status = BRASA_OK;
    d->channels = r->columns - 1;
    s->numbers = pool_get(&d->pool, (size_t)rows * (size_t)d->channels, sizeof *s->numbers);
    s->line_of = pool_get(&d->pool, (size_t)rows, sizeof *s->line_of);
    r->labels = pool_get(&r->t.pool, (size_t)rows, sizeof *r->labels);
    if (!s->numbers || !s->line_of || !r->labels)
        return fail_memory(d->ctx, (size_t)rows * (size_t)d->channels * sizeof *s->numbers);
    if (header)
        status = table_next(&r->t);
    int32_t count = 0;
    for (; status == BRASA_OK && r->t.cells; count++) {
        s->line_of[count] = r->t.line;
        r->labels[count] = trimmed(r->t.cell[r->label]);
        r->first = count == 0 && !header;
        if ((status = read_row(r, s->numbers + (int64_t)count * d->channels)) == BRASA_OK)
            status = table_next(&r->t);
    }
    if (status == BRASA_OK && count == 0)
        status = fail(d->ctx, BRASA_BAD_FILE, "%s: there is no line of data in it", r->t.path);
    if (status != BRASA_OK)
        return status;
    d->bytes = rows * d->channels * (int64_t)sizeof *s->numbers;
    dataset_add_part(d, "all", count);
    status = number_classes(r, s->line_of);
    return status == BRASA_OK && r->doubtful ? check_doubtful(r) : status;
}

static brasa_status read_separator(brasa_context *ctx, const data_spec *s, char *out)
{
    const char *word = spec_get(s, "separator");
    *out = !word || strcmp(word, "comma") == 0 ? ','
           : strcmp(word, "semicolon") == 0    ? ';'
           : strcmp(word, "tab") == 0          ? '\t'
                                               : '\0';
    return *out ? BRASA_OK
                : fail(ctx, BRASA_BAD_ARGUMENT, "separator: expected comma, semicolon or tab, got '%s'", word);
}

static brasa_status read_table(reading *r, const data_spec *s)
{
    const char *label = spec_get(s, "label");
    if (r->t.cells < 2)
        return r->t.cells ? table_refuse(&r->t, "a single cell, expected a label and at least one number")
                          : fail(r->d->ctx, BRASA_BAD_FILE, "%s: it is empty", r->t.path);
    r->columns = r->t.cells;
    bool header = looks_like_header(r, label);
    brasa_status status = spec_flag(r->d->ctx, s, "header", &header);
    if (status == BRASA_OK)
        status = find_label(r, label, header);
    r->doubtful = status == BRASA_OK && !header && !spec_get(s, "header") && counts_columns(r);
    r->d->header = header ? "yes" : "no";
    return status == BRASA_OK ? read_rows(r, r->d->state, header) : status;
}

static brasa_status csv_open(dataset *d, const data_spec *s)
{
    state *st = pool_get(&d->pool, 1, sizeof *st);
    reading r = {.d = d};
    char separator;
    if (!(d->state = st))
        return fail_memory(d->ctx, sizeof *st);
    st->path = s->path;
    d->numbers = true;
    brasa_status status = read_separator(d->ctx, s, &separator);
    if (status != BRASA_OK)
        return status;
    numeric_state saved = numeric_enter();
    status = table_open(d->ctx, s->path, separator, &r.t);
    if (status == BRASA_OK)
        status = read_table(&r, s);
    numeric_leave(saved);
    table_close(&r.t);
    return status;
}

static const float *csv_numbers(const dataset *d, int32_t sample)
{
    const state *s = d->state;
    return s->numbers + (int64_t)sample * d->channels;
}

static sample_name csv_name(const dataset *d, int32_t sample)
{
    const state *s = d->state;
    sample_name n;
    snprintf(n.text, sizeof n.text, "%.400s, line %d", s->path, (int)s->line_of[sample]);
    return n;
}

const source csv_source = {
    .info = {"csv", "csv:FILE[,label=NAME|N][,header=yes|no][,separator=comma|semicolon|tab]",
             "a table of numbers, a line a sample, plain or .gz; the label is the first column unless told"},
    .keys = "label header separator",
    .open = csv_open,
    .numbers = csv_numbers,
    .name = csv_name,
};
