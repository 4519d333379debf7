/* lab_export.h - a campaign for other programs and other pages: CSV, JSON, Markdown. */
#ifndef LAB_LAB_EXPORT_H
#define LAB_LAB_EXPORT_H

#include "lab/lab_table.h"

typedef bool (*export_sink)(void *user, const char *text, size_t length);

/* Each returns false where the sink refused. */

/* A line for each run, with its cell; numbers in seconds, bytes and shares, empty where not known. */
bool lab_export_csv(const lab_results *r, export_sink write, void *user);
/* Everything. */
bool lab_export_json(const lab_report *report, export_sink write, void *user);
/* Verdict, alarms, tables and conditions. */
bool lab_export_markdown(const lab_report *report, export_sink write, void *user);
/* One table, under a heading. */
bool lab_export_table(const lab_table *t, export_sink write, void *user);

#endif
