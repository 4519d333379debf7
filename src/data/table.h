/* table.h - text in lines of cells, read line by line: what CSV files and lists of groups are.
 *
 * Cells are separated by one letter; one in quotes may hold it, and "" for a quote, but no line's end. Empty lines
 * are passed over. The file, plain or packed, is held in memory until the table is closed; cells are cut out in
 * place.
 */
#ifndef DATA_TABLE_H
#define DATA_TABLE_H

#include "core/pool.h"

typedef struct table {
    pool pool;
    const char *path;
    char separator;
    char **cell; /* of the line in hand; the texts hold until the table is closed */
    int cells;   /* 0: past the last line */
    int line;    /* from 1 */
    char *text, *at;
    int capacity;
} table;

/* Reads the file, and the first line. To be closed whatever came back. */
brasa_status table_open(brasa_context *ctx, const char *path, char separator, table *t);
void table_close(table *t);
brasa_status table_next(table *t);
/* "<path>: line <n>: <what>" */
brasa_status table_refuse(const table *t, const char *what);

#endif
