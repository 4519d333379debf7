/* alarms_parts.h - what the files that look for alarms share: see alarms.h. */
#ifndef LAB_ALARMS_PARTS_H
#define LAB_ALARMS_PARTS_H

#include "lab/alarms.h"
#include "report/figures.h"

enum {
    MOST_PLACES = 4, /* that an alarm names; of more it tells the number */
    PLACES_TEXT = 900,
    FEWEST_REPEATS = 3, /* that have a spread to speak of */
};

typedef struct found {
    alarm_kind kind;
    const char *who;
    int places;
    char text[PLACES_TEXT];
} found;

typedef struct finder {
    pool *pool;
    const lab_results *r;
    found *list;
    int count, room;
    bool looked[ALARM_KINDS];
    bool failed; /* out of memory */
} finder;

/* One more place where it is so. */
void alarm_put(finder *f, alarm_kind kind, const char *who, const char *format, ...) BRASA_PRINTF(4, 5);

static inline const char *name_of(const finder *f, const result_entry *e)
{
    return f->r->names[e->name];
}

static inline const char *cell_of(const finder *f, const result_entry *e)
{
    return f->r->cells[e->cell].title;
}

static inline shown per_image(double seconds)
{
    return show_value(seconds, UNIT_SECONDS_PER_IMAGE);
}

/* alarms_beside.c */
void check_lines(finder *f);
void check_published(finder *f);

#endif
