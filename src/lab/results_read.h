/* results_read.h - a campaign from the store into memory. */
#ifndef LAB_RESULTS_READ_H
#define LAB_RESULTS_READ_H

#include "lab/results.h"
#include "lab/store.h"

/* The campaign with this number, or the newest with this name; NULL: the newest of all. Where there is none:
 * BRASA_NOT_ FOUND, and the text says which there are. */
brasa_status results_find_campaign(store *s, pool *p, const char *which, store_campaign *out);

/* All of it, summarized. */
brasa_status results_read(store *s, pool *p, const store_campaign *campaign, lab_results *out);

#endif
