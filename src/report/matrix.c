/* matrix.c - squares of counts, such as confusion matrices; see page.h.
 *
 * A table that scrolls in its box. Up to COUNTED classes each cell shows its count, beyond that a small square that
 * tells it under the pointer: 100 classes are 10,000 cells, and half a megabyte.
 */
#include "report/figures.h"

#include <math.h>

enum { COUNTED = 30 };

static void put_name(page *p, const page_counts *m, int i)
{
    if (m->names && m->names[i])
        page_escaped(p, m->names[i]);
    else
        page_format(p, "%d", i);
}

/* The whole name under the pointer: the shown one is cut where there is no room. */
static void put_head(page *p, const page_counts *m, int i, const char *scope)
{
    page_format(p, "<th scope=\"%s\" title=\"", scope);
    put_name(p, m, i);
    page_raw(p, "\"><span>");
    put_name(p, m, i);
    page_raw(p, "</span></th>");
}

static double row_sum(const page_counts *m, int row)
{
    double sum = 0; /* counts may be too large for their sum to be one */
    for (int k = 0; k < m->classes; k++)
        sum += (double)m->counts[(size_t)row * (size_t)m->classes + (size_t)k];
    return sum;
}

/* The root lets a few mistakes among thousands show. */
static void put_cell(page *p, const page_counts *m, int row, int column, double sum)
{
    const int64_t count = m->counts[(size_t)row * (size_t)m->classes + (size_t)column];
    const double share = sum > 0 && count > 0 ? (double)count / sum : 0;
    page_raw(p, "<td");
    if (share > 0)
        page_format(p, " class=\"%s\" style=\"--a:%.2f\"", row == column ? "r" : "w", 0.15 + 0.55 * sqrt(share));
    page_raw(p, " title=\"");
    page_escaped(p, m->rows);
    page_raw(p, " ");
    put_name(p, m, row);
    page_raw(p, ", ");
    page_escaped(p, m->columns);
    page_raw(p, " ");
    put_name(p, m, column);
    page_format(p, ": %s (%s)\">", show_count(count).text, show_value(share, UNIT_SHARE).text);
    if (m->classes <= COUNTED)
        page_raw(p, show_count(count).text);
    page_raw(p, "</td>");
}

void page_matrix(page *p, const page_counts *m)
{
    page_raw(p, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
    page_escaped(p, m->title);
    page_format(p, "\">\n<table class=\"matrix%s\"><caption>", m->classes > COUNTED ? " small" : "");
    page_escaped(p, m->title);
    page_raw(p, "</caption>\n<thead><tr><td><span>");
    page_escaped(p, m->rows);
    page_raw(p, " \u2193</span><span>");
    page_escaped(p, m->columns);
    page_raw(p, " \u2192</span></td>");
    for (int k = 0; k < m->classes; k++)
        put_head(p, m, k, "col");
    page_raw(p, "</tr></thead>\n<tbody>\n");
    for (int row = 0; row < m->classes; row++) {
        const double sum = row_sum(m, row);
        page_raw(p, "<tr>");
        put_head(p, m, row, "row");
        for (int k = 0; k < m->classes; k++)
            put_cell(p, m, row, k, sum);
        page_raw(p, "</tr>\n");
    }
    page_raw(p, "</tbody></table>\n</div>\n");
}
