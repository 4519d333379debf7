/* facts.h - what a campaign's accounts of machine and build say: pairs of words, from JSON as the program writes it.
 *
 *     facts f = {.pool = p};
 *     facts_read(&f, "Machine", campaign->machine, &is_json);
 *     facts_value(&f, "cpu");                                   "AMD EPYC", or NULL
 */
#ifndef LAB_FACTS_H
#define LAB_FACTS_H

#include "core/pool.h"
#include "report/page.h"

typedef struct facts {
    pool *pool;
    page_fact *list;
    int count, capacity, depth;
} facts;

/* Several accounts have facts in common: the same pair is there once. A text that is NULL is out of memory. */
brasa_status facts_add(facts *f, const char *name, const char *value);
/* All of an account; one that is no JSON becomes a single fact, `what`, as a report is no place to fail for it. */
brasa_status facts_read(facts *f, const char *what, const char *account, bool *is_json);
bool facts_has(const facts *f, const page_fact *one);
const char *facts_value(const facts *f, const char *name);

#endif
