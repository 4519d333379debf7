/* lab_page.h - a campaign as one page: verdict, alarms, tables beside the published numbers, charts, what failed, and
 * the exact conditions. Everything in it is also in the tables of lab_table.h or in lab_export.h. */
#ifndef LAB_LAB_PAGE_H
#define LAB_LAB_PAGE_H

#include "lab/lab_table.h"

/* Writes the page to a sink that returns false when it cannot take more, with the text on the context. What was
 * written then is half a page. */
brasa_status lab_page_write(pool *p, const lab_report *report,
                            bool (*write)(void *user, const char *text, size_t length), void *user);

/* lab_charts.c: the sections with charts; each is left out where there is nothing to draw. */
brasa_status lab_charts_bars(pool *p, page *to, const lab_results *r);
brasa_status lab_charts_sweeps(pool *p, page *to, const lab_results *r); /* over batch sizes and threads */
brasa_status lab_charts_size(pool *p, page *to, const lab_results *r);   /* over the number of images */
brasa_status lab_charts_accuracy(pool *p, page *to, const lab_results *r);
brasa_status lab_charts_resources(pool *p, page *to, const lab_results *r); /* over time */

#endif
