/* csv.c - tables of numbers: a line a sample, a column for the label, the others are features.
 *
 * Cells are separated by commas (or ; or tabs); one that is in quotes may hold them, and "" for a quote. Labels are
 * any text; classes are numbered in their order, by value where all of them are whole numbers. The first line is a
 * header where one of its cells outside the label's column is no number. The whole table is held in memory, as
 * floats.
 */
#include "core/json_scan.h"
#include "core/numeric.h"
#include "data/source.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 100000, MAX_BYTES = 1 << 30, FIRST_BYTES = 1 << 16, CELL_SIZE = 64 };

typedef struct state {
    const char *path;
    float *numbers;   /* count x channels */
    int32_t *line_of; /* line of each sample, from 1 */
} state;

typedef struct table {
    dataset *d;
    const char *path;
    char *text, *at; /* all of it, with a zero behind, and what comes next; cells are cut in place */
    int line;        /* of what comes next, from 1 */
    char separator;
    int columns, label; /* the label's column, from 0 */
    char **cell;        /* of the line in hand */
    int cells, capacity;
    char **labels; /* the label's text of every sample */
} table;

static brasa_status refuse(const table *t, const char *what)
{
    return fail(t->d->ctx, BRASA_BAD_FILE, "%s: line %d: %s", t->path, t->line, what);
}

/* --- reading ------------------------------------------------------------------------------------------------- */

/* The whole file, in memory that doubles, as its unpacked size is not known. */
static brasa_status read_all(table *t)
{
    data_file f;
    dataset *d = t->d;
    size_t room = FIRST_BYTES, used = 0, got = 0;
    brasa_status status = file_open(d->ctx, t->path, &f);
    if (status != BRASA_OK)
        return status;
    if (!f.unpacker && f.size < MAX_BYTES)
        room = (size_t)f.size + 1; /* so that the end is seen at once */
    do {
        char *larger = pool_get(&d->pool, room + 1, 1);
        if (!larger) {
            status = fail_memory(d->ctx, room);
            break;
        }
        if (used)
            memcpy(larger, t->text, used);
        t->text = larger;
        status = file_some(&f, t->text + used, room - used, &got);
        used += got;
        room *= 2;
        if (used > MAX_BYTES)
            status = fail(d->ctx, BRASA_BAD_FILE, "%s: more than 1 GiB: too large to be held in memory", t->path);
    } while (status == BRASA_OK && got && used * 2 == room);
    file_close(&f);
    if (status == BRASA_OK && memchr(t->text, '\0', used))
        return fail(d->ctx, BRASA_BAD_FILE, "%s: byte %zu is zero: not a text file", t->path, strlen(t->text));
    t->at = t->text;
    return status;
}

/* The next cell, cut out in place; *last tells whether its line ends there. */
static brasa_status next_cell(table *t, char **out, bool *last)
{
    char *from = t->at, *to = t->at;
    *out = to;
    if (*from == '"') {
        for (from++; *from && *from != '\n' && (*from != '"' || from[1] == '"'); from++) {
            from += *from == '"'; /* a doubled one */
            *to++ = *from;
        }
        if (*from != '"')
            return refuse(t, "a quote that is not closed on its line");
        from++;
    } else {
        while (*from && *from != t->separator && *from != '\n' && *from != '\r')
            from++;
        to = from;
    }
    if (*from == '\r' && from[1] == '\n')
        from++;
    const char end = *from;
    if (end && end != t->separator && end != '\n')
        return refuse(t, end == '\r' ? "a carriage return without a line feed" : "text behind a quoted cell");
    *last = end != t->separator;
    t->at = from + (end != '\0');
    *to = '\0';
    return BRASA_OK;
}

/* The next line that is not empty, into t->cell; t->cells is 0 at the end. */
static brasa_status next_line(table *t)
{
    bool last = false;
    for (t->cells = 0, t->line++; *t->at == '\n' || (*t->at == '\r' && t->at[1] == '\n'); t->line++)
        t->at += 1 + (*t->at == '\r');
    while (*t->at && !last) /* a separator at the very end has an empty cell behind it */
        do {
            char **grown = pool_grow(&t->d->pool, t->cell, t->cells, &t->capacity, sizeof *grown);
            if (!grown)
                return fail_memory(t->d->ctx, sizeof *grown);
            t->cell = grown;
            if (t->cells == MAX_COLUMNS)
                return refuse(t, "more than 100,000 cells");
            brasa_status status = next_cell(t, &t->cell[t->cells++], &last);
            if (status != BRASA_OK)
                return status;
        } while (!last);
    return BRASA_OK;
}

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

/* --- columns and classes ------------------------------------------------------------------------------------- */

/* The label's column by number, from 1; by name, where there is a header; the first one unless told. */
static brasa_status find_label(table *t, const char *wanted, bool header)
{
    t->label = 0;
    if (!wanted)
        return BRASA_OK;
    if (strspn(wanted, "0123456789") == strlen(wanted)) {
        const long number = strtol(wanted, NULL, 10);
        if (number >= 1 && number <= t->columns) {
            t->label = (int)number - 1;
            return BRASA_OK;
        }
        return fail(t->d->ctx, BRASA_BAD_ARGUMENT, "label: column %s, but %s has %d", wanted, t->path, t->columns);
    }
    for (int i = 0; header && i < t->columns; i++)
        if (strcmp(t->cell[i], wanted) == 0) {
            t->label = i;
            return BRASA_OK;
        }
    if (header)
        return fail(t->d->ctx, BRASA_BAD_ARGUMENT, "label: %s has no column '%s'", t->path, wanted);
    return fail(t->d->ctx, BRASA_BAD_ARGUMENT, "label: '%s' is a name, but %s has no header", wanted, t->path);
}

static bool looks_like_header(const table *t, const char *label)
{
    float number;
    if (label && strspn(label, "0123456789") != strlen(label))
        return true;
    const int skip = label ? (int)strtol(label, NULL, 10) - 1 : 0;
    for (int i = 0; i < t->cells; i++)
        if (i != skip && !read_number(t->cell[i], &number))
            return true;
    return false;
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

static brasa_status number_classes(table *t, const int32_t *line_of)
{
    dataset *d = t->d;
    bool whole = true, found;
    int capacity = 0;
    for (int32_t i = 0; i < d->count; i++)
        whole = whole && is_whole(t->labels[i]);
    for (int32_t i = 0; i < d->count; i++) {
        const int at = place_of(d, t->labels[i], whole, &found);
        if (found)
            continue;
        t->line = line_of[i];
        if (!t->labels[i][0] || !text_printable(t->labels[i]))
            return refuse(t, t->labels[i][0] ? "a label that is not printable" : "an empty label");
        if (d->classes == MAX_CLASSES)
            return refuse(t, "more than 65,536 different labels: is this the label's column?");
        const char **grown = pool_grow(&d->pool, d->class_name, d->classes, &capacity, sizeof *grown);
        if (!grown)
            return fail_memory(d->ctx, sizeof *grown);
        d->class_name = grown;
        memmove(&d->class_name[at + 1], &d->class_name[at], (size_t)(d->classes - at) * sizeof *d->class_name);
        d->class_name[at] = t->labels[i];
        d->classes++;
    }
    brasa_status status = dataset_make_labels(d);
    for (int32_t i = 0; status == BRASA_OK && i < d->count; i++)
        d->label[i] = place_of(d, t->labels[i], whole, &found);
    return status;
}

/* --- the table ----------------------------------------------------------------------------------------------- */

/* No more rows than lines, and no more cells than bytes, so that memory goes with the file's size. */
static int64_t most_rows(const table *t)
{
    int64_t lines = 1, bytes = 1;
    for (const char *c = t->at; *c; c++, bytes++)
        lines += *c == '\n';
    const int64_t rows = bytes / t->columns + 2;
    return lines < rows ? lines : rows;
}

static brasa_status read_row(table *t, float *to)
{
    char why[200];
    if (t->cells != t->columns) {
        snprintf(why, sizeof why, "%d cells, but the first line has %d", t->cells, t->columns);
        return refuse(t, why);
    }
    for (int i = 0; i < t->columns; i++) {
        if (i == t->label || read_number(t->cell[i], to++))
            continue;
        snprintf(why, sizeof why, "column %d: '%s' is not a number", i + 1,
                 text_printable(t->cell[i]) ? text_short(t->cell[i]).text : "?");
        return refuse(t, why);
    }
    return BRASA_OK;
}

static brasa_status read_rows(table *t, state *s, bool header)
{
    dataset *d = t->d;
    const int64_t rows = most_rows(t) + 1;
    brasa_status status = BRASA_OK;
    d->channels = t->columns - 1;
    s->numbers = pool_get(&d->pool, (size_t)rows * (size_t)d->channels, sizeof *s->numbers);
    s->line_of = pool_get(&d->pool, (size_t)rows, sizeof *s->line_of);
    t->labels = pool_get(&d->pool, (size_t)rows, sizeof *t->labels);
    if (!s->numbers || !s->line_of || !t->labels)
        return fail_memory(d->ctx, (size_t)rows * (size_t)d->channels * sizeof *s->numbers);
    if (header)
        status = next_line(t);
    int32_t count = 0;
    for (; status == BRASA_OK && t->cells; count++) {
        s->line_of[count] = t->line;
        t->labels[count] = t->cell[t->label];
        if ((status = read_row(t, s->numbers + (int64_t)count * d->channels)) == BRASA_OK)
            status = next_line(t);
    }
    if (status == BRASA_OK && count == 0)
        status = fail(d->ctx, BRASA_BAD_FILE, "%s: there is no line of data in it", t->path);
    if (status != BRASA_OK)
        return status;
    d->bytes = rows * d->channels * (int64_t)sizeof *s->numbers;
    dataset_add_part(d, "all", count);
    return number_classes(t, s->line_of);
}

static brasa_status read_separator(table *t, const data_spec *s)
{
    const char *word = spec_get(s, "separator");
    t->separator = !word || strcmp(word, "comma") == 0 ? ','
                   : strcmp(word, "semicolon") == 0    ? ';'
                   : strcmp(word, "tab") == 0          ? '\t'
                                                       : '\0';
    return t->separator
               ? BRASA_OK
               : fail(t->d->ctx, BRASA_BAD_ARGUMENT, "separator: expected comma, semicolon or tab, got '%s'", word);
}

static brasa_status read_table(table *t, const data_spec *s)
{
    state *st = t->d->state;
    const char *label = spec_get(s, "label");
    brasa_status status = read_separator(t, s);
    if (status == BRASA_OK)
        status = read_all(t);
    if (status == BRASA_OK && strncmp(t->at, "\xEF\xBB\xBF", 3) == 0)
        t->at += 3; /* a byte order mark */
    if (status == BRASA_OK)
        status = next_line(t);
    if (status != BRASA_OK)
        return status;
    if (t->cells < 2)
        return t->cells ? refuse(t, "a single cell, expected a label and at least one number")
                        : fail(t->d->ctx, BRASA_BAD_FILE, "%s: it is empty", t->path);
    t->columns = t->cells;
    bool header = looks_like_header(t, label);
    if ((status = spec_flag(t->d->ctx, s, "header", &header)) == BRASA_OK)
        status = find_label(t, label, header);
    return status == BRASA_OK ? read_rows(t, st, header) : status;
}

static brasa_status csv_open(dataset *d, const data_spec *s)
{
    state *st = pool_get(&d->pool, 1, sizeof *st);
    table t = {.d = d, .path = s->path};
    if (!st)
        return fail_memory(d->ctx, sizeof *st);
    d->state = st;
    st->path = s->path;
    d->numbers = true;
    numeric_state saved = numeric_enter();
    brasa_status status = read_table(&t, s);
    numeric_leave(saved);
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
