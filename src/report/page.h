/* page.h - the writer of self-contained pages: HTML and SVG, straight to a sink, for training runs and for the lab.
 *
 * A page is one file that needs no network and no script: values show up under the pointer by SVG titles, light and
 * dark by the reader's preference, everything fits 360 pixels and paper. A policy in its head forbids the browser to
 * load or run anything, and every text is escaped, so that whatever a data set calls its classes stays text. What a
 * chart shows is always told in words or a table, too, and never by colour alone.
 *
 *     page p = {.write = to_file, .user = file};
 *     page_begin(&p, "mnist_cnn on mnist", "trained on 15 November 2026");
 *     page_section(&p, "Curves");
 *     page_lines(&p, &chart);
 *     page_end(&p);
 *     if (p.failed) ...
 *
 * Blocks are written in the order of the calls; nothing is allocated and nothing is kept but what `page` holds. Texts
 * may be NULL, which is empty. A value that is missing is NAN.
 */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "brasa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct page {
    bool (*write)(void *user, const char *text, size_t length);
    void *user;
    bool failed;                       /* the rest is dropped */
    bool refused;                      /* by the sink, which knows why */
    bool in_section;                   /* one is open */
    const struct page_column *columns; /* of the open table */
    int column_count;
} page;

/* What a number counts, which decides how it is written; see figures.c. */
typedef enum page_unit {
    UNIT_NONE,
    UNIT_SHARE, /* 0 ... 1, written as per cent */
    UNIT_BYTES,
    UNIT_SECONDS,
    UNIT_IMAGES_PER_SECOND,
    UNIT_SECONDS_PER_IMAGE,
    UNITS
} page_unit;

/* --- text ---------------------------------------------------------------------------------------------------- */

void page_begin(page *p, const char *title, const char *subtitle);
void page_end(page *p);
void page_section(page *p, const char *heading); /* ends with the next one, or with the page */
void page_text(page *p, const char *text);
void page_lead(page *p, const char *text);   /* the sentence that matters most */
void page_remark(page *p, const char *text); /* small */
void page_list(page *p, const char *const *texts, int count);
/* Lines as they are, such as what a program printed. */
void page_output(page *p, const char *title, const char *text);
/* Blocks between these two stand side by side where there is room. */
void page_columns_begin(page *p);
void page_columns_end(page *p);

typedef enum page_kind { PAGE_GOOD, PAGE_WARNING, PAGE_ALARM } page_kind;
void page_notice(page *p, page_kind kind, const char *text);

typedef struct page_fact {
    const char *name, *value;
} page_fact;
void page_tiles(page *p, const page_fact *facts, int count); /* the few that matter, large */
void page_facts(page *p, const page_fact *facts, int count);

/* --- tables -------------------------------------------------------------------------------------------------- */

typedef struct page_column {
    const char *title;
    bool is_text; /* set to the left; numbers go to the right */
} page_column;

typedef enum page_mark { MARK_NONE, MARK_BEST, MARK_WORST } page_mark;
typedef struct page_cell {
    const char *text;
    page_mark mark;
} page_cell;

/* The first cell of a row names it. `columns` is read until the table ends. */
void page_table_begin(page *p, const char *title, const page_column *columns, int count);
void page_table_row(page *p, const page_cell *cells);
void page_table_end(page *p);

/* --- charts -------------------------------------------------------------------------------------------------- */

typedef struct page_axis {
    const char *title;
    page_unit unit;
    bool log;   /* values that are not above 0 are left out, and counted below the chart */
    bool zero;  /* begins at 0, or below it */
    bool whole; /* counts things: no ticks between whole numbers */
} page_axis;

typedef enum page_style {
    STYLE_LINE,   /* with a dot at every point */
    STYLE_DOTS,   /* measurements ... */
    STYLE_DASHED, /* ... and the line fitted to them */
} page_style;

typedef struct page_series {
    const char *name;
    const double *x, *y; /* a value that is not finite, in either, leaves a gap; x NULL: 1, 2, 3, ... */
    int count;
    size_t stride; /* bytes from one value to the next, in both; 0: they lie side by side */
    page_style style;
    int colour; /* from 1, so that the same thing has the same in every chart; 0: by its place in the chart */
} page_series;

typedef struct page_chart {
    const char *title;
    page_axis x, y;
    const page_series *series;
    int count;
} page_chart;

enum { PAGE_COLOURS = 8 };   /* that can be told apart */
enum { MOST_POINTS = 2000 }; /* of a series; of more, the lowest and the highest of each stretch are drawn */
void page_lines(page *p, const page_chart *chart);

typedef struct page_bar {
    const char *group; /* bars with equal groups that follow each other stand together; NULL: none */
    const char *name;
    double value;
    double low, high; /* the spread; low == high: none */
    int colour;       /* as a series': from 1, the same thing has the same in every chart; 0: the first */
    const char *note; /* beside the value: why it is missing, say; or NULL */
    page_mark mark;
} page_bar;

/* Horizontal bars from 0 on. */
void page_bars(page *p, const char *title, page_unit unit, const page_bar *bars, int count);

typedef struct page_counts {
    const char *title;
    const char *rows, *columns; /* what they are: "true", "predicted" */
    const char *const *names;   /* of the classes; NULL: their numbers */
    const int64_t *counts;      /* [classes][classes], row by row */
    int classes;
} page_counts;

/* A square of counts, deeper where a cell holds more of its row; the diagonal in a colour of its own. */
void page_matrix(page *p, const page_counts *matrix);

/* --- for those who write blocks ------------------------------------------------------------------------------ */

/* Markup, as it is. */
void page_raw(page *p, const char *markup);
/* Markup of at most 500 bytes with numbers in it, whose point is a point; for texts there is page_escaped. */
void page_format(page *p, const char *format, ...) BRASA_PRINTF(2, 3);
/* A text, fit to stand between tags and between quotes. */
void page_escaped(page *p, const char *text);

extern const char *const page_css[]; /* style.c; up to a NULL */

#endif
