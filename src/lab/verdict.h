/* verdict.h - a campaign's outcome in words: who is fastest and by how much, how sure that is, who fits, who learns.
 *
 * Brasa is a peer like the others; nothing here knows its name. Only rows that are done count, so a peer that was not
 * shown to run the same experiment is in no rank.
 */
#ifndef LAB_VERDICT_H
#define LAB_VERDICT_H

#include "lab/results.h"

typedef enum verdict_surety {
    SURE,    /* less than once in a hundred times by chance: see verdict.c */
    LIKELY,  /* the spreads do not touch */
    OPEN,    /* they overlap */
    UNKNOWN, /* one repeat has no spread */
} verdict_surety;

/* The two fastest of a cell. */
typedef struct verdict_rank {
    int cell;
    const result_entry *first, *second; /* second NULL: nobody else got through */
    double factor;                      /* second's time over first's */
    verdict_surety surety;
    const char *text; /* all of it, and the others, in a sentence */
} verdict_rank;

typedef struct lab_verdict {
    const char *headline; /* one sentence, for a terminal */
    const char **lines;   /* who is behind, who fits, memory, accuracy, who is missing: sentences */
    int count;
    verdict_rank *ranks; /* of the cells in which somebody got through */
    int rank_count;
} lab_verdict;

brasa_status verdict_find(pool *p, const lab_results *r, lab_verdict *out);

/* "surely: the spreads lie well apart" */
const char *verdict_surety_text(verdict_surety s);
/* How sure it is that a is faster than b, whose median is larger. */
verdict_surety verdict_compare(const result_spread *a, const result_spread *b);

#endif
