/* store_parts.h - between the files of store.h.
 *
 * A table is a list of columns that says where each lies in its struct; making, filling and reading it follow from
 * the list. The first columns of some are a key: they, with the parent, name an entry once.
 */
#ifndef LAB_STORE_PARTS_H
#define LAB_STORE_PARTS_H

#include "lab/store.h"

#include <sqlite3.h>

/* --- store_tables.c: the lists, and SQL from them ------------------------------------------------------------ */

typedef enum column_kind { COUNT, REAL, TEXT } column_kind;

typedef struct column {
    const char *name;
    column_kind kind;
    size_t offset;
} column;

typedef struct table {
    const char *name, *parent; /* what it belongs to; NULL: nothing */
    bool numbered;             /* the struct starts with the numbers of the entry and, where it has one, the parent */
    int key;                   /* so many columns, with the parent, are there once */
    size_t size;
    const column *columns;
} table;

enum { CAMPAIGN, PARITY, CELL, ROW, EPOCH, SAMPLE, FUNCTION, RESUMED, TABLES };
extern const table store_tables[TABLES];

/* The lists are ours, so the size is known to do (the tests make them all). */
enum { SQL_SIZE = 4096 };
typedef struct sql {
    char text[SQL_SIZE];
    size_t used;
} sql;

void sql_add(sql *q, const char *format, ...) BRASA_PRINTF(2, 3);
void sql_create(sql *q, const table *t);
void sql_insert(sql *q, const table *t);
void sql_select(sql *q, const table *t);
/* "... WHERE parent and key are these". */
void sql_same(sql *q, const table *t);

/* --- store_open.c -------------------------------------------------------------------------------------------- */

struct store {
    brasa_context *ctx;
    char *path;
    pool pool;
    sqlite3 *db;
    int lock; /* -1: none */
    sqlite3_stmt *insert[TABLES];
};

/* What SQLite says, told. */
brasa_status store_refuse(store *s, int code);
/* SQL that gives nothing back. */
brasa_status store_execute(store *s, const char *text);
/* Ends a transaction: for good, or as if it had not been. */
brasa_status store_conclude(store *s, brasa_status status);

#endif
