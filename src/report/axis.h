/* axis.h - the scale of a chart: from values to places, and the ticks with their labels. */
#ifndef REPORT_AXIS_H
#define REPORT_AXIS_H

#include "report/figures.h"

enum { MOST_TICKS = 12 };

typedef struct axis {
    bool log;
    unit_size unit;
    double low, high; /* what is at its ends: in the unit, and then its logarithm if `log` */
    int ticks;
    double tick[MOST_TICKS]; /* as low and high */
    bool plain;              /* labels are "0.25", not "2.5e-7" ... */
    int digits;              /* ... with as many digits behind the point; else in all */
} axis;

/* Whether a value can be drawn. */
bool axis_takes(const page_axis *how, double value);
/* A scale for values from `least` to `most`, which can be drawn. `wide`: it ends at ticks, as
 * upright axes do. */
axis axis_make(const page_axis *how, double least, double most, bool wide);
/* 0 at the low end, 1 at the high one. */
double axis_place(const axis *a, double value);
shown axis_label(const axis *a, int tick);

#endif
