/* figures.h - numbers as a reader wants them: four digits, their unit, a point whatever the locale. */
#ifndef REPORT_FIGURES_H
#define REPORT_FIGURES_H

#include "report/page.h"

/* By value, to stand in an argument list. */
typedef struct shown {
    char text[48];
} shown;

/* "98.93 %", "13.70 MB", "1,234 images/s", "0.4310"; a dash for NAN. */
shown show_value(double value, page_unit unit);
shown show_count(int64_t value); /* "60,000" */
shown show_short(double value);  /* at most four digits, as somebody would type it: "0.001" */
shown show_rough(double value);  /* two digits, for what is not known better; from 100 on a whole number */

/* The size of a unit that suits values up to `most`: MB for bytes in the millions. */
typedef struct unit_size {
    double from;    /* it suits values from here on */
    double divisor; /* value / divisor is the number to write */
    const char *name;
} unit_size;
unit_size unit_for(page_unit unit, double most);

#endif
