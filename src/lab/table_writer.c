/* table_writer.c - see table_writer.h. */
#include "lab/table_writer.h"

#include "report/figures.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CELL_TEXT = 4096 };

void table_begin(table_writer *w, lab_table *t, const char *title, const page_column *columns, int count)
{
    *t = (lab_table){.title = title, .column_count = count};
    w->table = t;
    w->cells = w->room = w->note_room = 0;
    t->columns = pool_get(w->pool, (size_t)count, sizeof *t->columns);
    if (t->columns)
        memcpy(t->columns, columns, (size_t)count * sizeof *columns);
    w->failed |= !t->columns;
}

static const char *keep(table_writer *w, const char *format, va_list args)
{
    char text[CELL_TEXT];
    vsnprintf(text, sizeof text, format, args);
    const char *kept = pool_text(w->pool, "%s", text);
    w->failed |= !kept;
    return kept;
}

void table_put(table_writer *w, const char *format, ...)
{
    page_cell *cells = w->failed ? NULL : pool_grow(w->pool, w->table->cells, w->cells, &w->room, sizeof *cells);
    if (!cells) {
        w->failed = true;
        return;
    }
    va_list args;
    va_start(args, format);
    w->table->cells = cells;
    cells[w->cells++] = (page_cell){.text = keep(w, format, args)};
    va_end(args);
}

void table_put_spread(table_writer *w, const result_spread *s, page_unit unit)
{
    const double scale = unit == UNIT_SHARE ? 100 : 1, apart = fmax(s->high - s->median, s->median - s->low) * scale;
    if (s->count > 1 && apart > 0)
        table_put(w, "%s \u00B1%s", show_value(s->median, unit).text, show_rough(apart).text);
    else
        table_put(w, "%s", show_value(s->median, unit).text);
}

void table_mark(table_writer *w, page_mark mark)
{
    if (!w->failed && w->cells)
        w->table->cells[w->cells - 1].mark = mark;
}

void table_note(table_writer *w, const char *format, ...)
{
    lab_table *t = w->table;
    const char **notes = w->failed ? NULL : pool_grow(w->pool, t->notes, t->note_count, &w->note_room, sizeof *notes);
    if (!notes) {
        w->failed = true;
        return;
    }
    va_list args;
    va_start(args, format);
    t->notes = notes;
    notes[t->note_count++] = keep(w, format, args);
    va_end(args);
}

void table_end(table_writer *w)
{
    w->table->row_count = w->cells / w->table->column_count;
}
