/* figures.c - see figures.h. A further unit is a row in the table, and a word in page.h. */
#include "report/figures.h"
#include "core/numeric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SIZES = 6 };

static const unit_size sizes[UNITS][MOST_SIZES] = {
    [UNIT_NONE] = {{0, 1, ""}},
    [UNIT_SHARE] = {{0, 0.01, "%"}},
    [UNIT_BYTES] = {{0, 1, "B"}, {1e3, 1e3, "KB"}, {1e6, 1e6, "MB"}, {1e9, 1e9, "GB"}, {1e12, 1e12, "TB"}},
    [UNIT_SECONDS] = {{0, 1e-9, "ns"},
                      {1e-6, 1e-6, "\u00B5s"},
                      {1e-3, 1e-3, "ms"},
                      {1, 1, "s"},
                      {300, 60, "min"},
                      {7200, 3600, "h"}},
    [UNIT_IMAGES_PER_SECOND] = {{0, 1, "images/s"}},
    [UNIT_SECONDS_PER_IMAGE] = {{0, 1e-6, "\u00B5s/image"}, {1e-4, 1e-3, "ms/image"}, {10, 1, "s/image"}},
};

unit_size unit_for(page_unit unit, double most)
{
    unit_size found = sizes[unit][0];
    for (int i = 1; i < MOST_SIZES && sizes[unit][i].name; i++)
        if (fabs(most) >= sizes[unit][i].from)
            found = sizes[unit][i];
    return found;
}

shown show_count(int64_t value)
{
    shown s;
    numeric_count(value, s.text);
    return s;
}

static shown print(const char *format, int digits, double value)
{
    shown s;
    const numeric_state locale = numeric_enter();
    snprintf(s.text, sizeof s.text, format, digits, value);
    numeric_leave(locale);
    return s;
}

static shown show_odd(double value) /* one that is not finite */
{
    return isnan(value) ? (shown){"\u2013"} : value > 0 ? (shown){"\u221E"} : (shown){"-\u221E"};
}

shown show_rough(double value)
{
    return !isfinite(value)     ? show_odd(value)
           : fabs(value) < 99.5 ? print("%.*g", 2, value)
                                : print("%.*f", 0, value);
}

shown show_short(double value)
{
    return isfinite(value) ? print("%.*g", 4, value) : show_odd(value);
}

/* `whole`: may be a count, which then needs no digits behind a point. */
static shown four_digits(double value, bool whole)
{
    const double size = fabs(value);
    if (value == 0 || (size < 1e9 && (size >= 999.95 || (whole && value == rint(value)))))
        return show_count((int64_t)llrint(value));
    if (size >= 1e9 || size < 1e-4)
        return print("%.*g", 4, value);
    return print("%.*f", 3 - (int)floor(log10(size)), value);
}

shown show_value(double value, page_unit unit)
{
    if (!isfinite(value))
        return show_odd(value);
    const unit_size size = unit_for(unit, value);
    const double number = value / size.divisor;
    const bool whole = unit == UNIT_NONE || (unit == UNIT_BYTES && size.divisor == 1);
    shown s = unit == UNIT_SHARE && fabs(number) < 1e4 ? print("%.*f", 2, number) : four_digits(number, whole);
    const size_t used = strlen(s.text);
    snprintf(s.text + used, sizeof s.text - used, "%s%s", *size.name ? " " : "", size.name);
    return s;
}
