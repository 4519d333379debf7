/* alarms.h - what in a campaign's numbers cannot be right, or cannot be compared, found without anybody looking.
 *
 * Each kind stands for a mistake that a published study made, or could not have excluded. The limits are in alarms.c,
 * beside the check that uses them. The studies' own numbers go through the same checks, in the tests and with
 * `brasa lab reference`.
 */
#ifndef LAB_ALARMS_H
#define LAB_ALARMS_H

#include "lab/results.h"
#include "report/page.h"

typedef enum alarm_kind {
    ALARM_CHANCE,      /* an accuracy that guessing would reach */
    ALARM_ACCURACY,    /* one far below another peer's on the same experiment */
    ALARM_GROWTH,      /* a time that does not grow with the data */
    ALARM_EQUAL,       /* the same digits twice */
    ALARM_WAITS,       /* the same time an image on every network: it waits for something else */
    ALARM_IDLE,        /* a GPU that did not compute most of the time */
    ALARM_OUT_OF_LINE, /* a time that fits neither the peer's others nor the others' on that network */
    ALARM_PUBLISHED,   /* far off the published one */
    ALARM_SWAP,
    ALARM_SPREAD,      /* repeats lie too far apart to rank */
    ALARM_FEW,         /* or are too few */
    ALARM_CALIBRATION, /* the machine itself was not equally fast */
    ALARM_LOAD,        /* something else was running */
    ALARM_MONITOR,     /* watching cost too much */
    ALARM_KINDS
} alarm_kind;

typedef struct lab_alarm {
    alarm_kind kind;
    page_kind severity;
    const char *who;  /* the peer; "" where it is about all */
    const char *text; /* what was found, where, and what it may mean */
} lab_alarm;

typedef struct lab_alarms {
    lab_alarm *list; /* by kind */
    int count;
    bool looked[ALARM_KINDS]; /* the campaign has numbers in which it could have been found */
} lab_alarms;

brasa_status alarms_find(pool *p, const lab_results *r, lab_alarms *out);

/* "at chance level", for lists. */
const char *alarm_title(alarm_kind kind);

#endif
