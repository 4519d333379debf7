/* lab_beside.h - the studies' tables with the user's numbers beside the published ones. */
#ifndef LAB_LAB_BESIDE_H
#define LAB_LAB_BESIDE_H

#include "lab/lab_table.h"

/* A table for each set of cells that differ by network alone (or by network and data, where each network has its own)
 * and that a study has numbers for; times first, then accuracies. */
brasa_status lab_beside_make(pool *p, const lab_results *r, lab_table **out, int *count);

#endif
