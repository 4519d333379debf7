/* table_writer.h - fills a lab_table cell by cell, from left to right and row by row. After a failed allocation it
 * does nothing more; whoever uses it looks at `failed` at the end. */
#ifndef LAB_TABLE_WRITER_H
#define LAB_TABLE_WRITER_H

#include "lab/lab_table.h"

typedef struct table_writer {
    pool *pool;
    lab_table *table; /* the open one */
    int cells, room, note_room;
    bool failed;
} table_writer;

/* The columns are copied, their titles are not. */
void table_begin(table_writer *w, lab_table *t, const char *title, const page_column *columns, int count);
void table_put(table_writer *w, const char *format, ...) BRASA_PRINTF(2, 3);
/* "38.00 ±0.58": the median, and how far the extremes lie from it; with its unit. */
void table_put_spread(table_writer *w, const result_spread *s, page_unit unit);
void table_mark(table_writer *w, page_mark mark); /* the cell that was put last */
void table_note(table_writer *w, const char *format, ...) BRASA_PRINTF(2, 3);
void table_end(table_writer *w);

#endif
