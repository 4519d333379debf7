/* reference_tables.h - the studies' tables as they print them, with footnotes that say what is wrong. */
#ifndef LAB_REFERENCE_TABLES_H
#define LAB_REFERENCE_TABLES_H

#include "lab/lab_table.h"

/* All tables of a study ("study1"). */
brasa_status reference_tables(pool *p, const char *study, lab_table **out, int *count);

#endif
