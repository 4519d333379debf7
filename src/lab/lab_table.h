/* lab_table.h - a campaign's results as tables of texts, made once and written as a page (lab_page.h) or as Markdown
 * (lab_export.h).
 */
#ifndef LAB_LAB_TABLE_H
#define LAB_LAB_TABLE_H

#include "lab/alarms.h"
#include "lab/verdict.h"
#include "report/page.h"

typedef struct lab_table {
    const char *title;
    page_column *columns;
    int column_count;
    page_cell *cells; /* row by row */
    int row_count;
    const char **notes; /* below it */
    int note_count;
} lab_table;

typedef struct lab_tables {
    lab_table ranks;   /* who is fastest in each cell */
    lab_table *beside; /* times and accuracies beside the published ones, as the studies' tables have them */
    int beside_count;
    lab_table figures;   /* what was measured, a line for each cell and peer: times and accuracy ... */
    lab_table resources; /* ... what it took */
    lab_table system;    /* ... and what the system had to do for it */
    lab_table gpu;       /* the same of a GPU, where it was one that computed */
    lab_table functions; /* which functions take the time, where that was asked for */
    lab_table costs;     /* what that costs, where the campaign has a price */
    lab_table missing;   /* rows without a result, and why */
    lab_table parity;    /* what was shown to be the same experiment */
    lab_table versions;  /* of the frameworks, and what they set */
} lab_tables;

/* Under which conditions; in lab_conditions.c. */
typedef struct lab_conditions {
    page_fact *facts; /* machine, build, and what was measured before the runs */
    int count;
    bool machine_is_json, brasa_is_json; /* the texts of the campaign's that should be */
    struct {
        bool machine_is_json, brasa_is_json; /* the same of each time it was resumed */
    } * resumed;
} lab_conditions;

/* What the clocks measure, in words. */
extern const char lab_clock_words[];

brasa_status lab_conditions_make(pool *p, const lab_results *r, lab_conditions *out);

/* All that there is to say about a campaign. */
typedef struct lab_report {
    const lab_results *results;
    lab_conditions conditions;
    lab_verdict verdict;
    lab_alarms alarms;
    lab_tables tables;
} lab_report;

brasa_status lab_report_make(pool *p, const lab_results *r, lab_report *out);

#endif
