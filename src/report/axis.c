/* axis.c - see axis.h. Ticks are 1, 2 or 5 times a power of ten, at most MOST_TICKS, whatever the values are. */
#include "report/axis.h"
#include "core/numeric.h"

#include <math.h>
#include <stdio.h>

static const double largest = 1e300; /* so that differences stay finite */

bool axis_takes(const page_axis *how, double value)
{
    return isfinite(value) && fabs(value) < largest && (!how->log || value > 1 / largest);
}

static double scaled(const axis *a, double value)
{
    return a->log ? log10(value / a->unit.divisor) : value / a->unit.divisor;
}

double axis_place(const axis *a, double value)
{
    return (scaled(a, value) - a->low) / (a->high - a->low);
}

/* A step with about `count` of it between low and high. */
static double nice_step(double low, double high, int count, bool whole)
{
    const double rough = (high - low) / count, power = pow(10, floor(log10(rough))), part = rough / power;
    const double step = power * (part < 1.5 ? 1 : part < 3 ? 2 : part < 7 ? 5 : 10);
    return whole && step < 1 ? 1 : step;
}

/* All values equal, or different in digits that no label shows: some room around them. */
static void widen(axis *a, bool whole)
{
    const double size = fmax(fabs(a->low), fabs(a->high));
    if (a->high - a->low > size * 1e-9)
        return;
    const double room = a->log ? 0.25 : whole || size == 0 ? 0.5 : size * 0.1;
    a->low -= room;
    a->high += room;
}

/* As many digits as neighbouring ticks need to differ. */
static void choose_digits(axis *a, double step)
{
    const double size = fmax(fabs(a->low), fabs(a->high)), least = fmin(step, size);
    a->plain = least >= 1e-4 && size < 1e6;
    if (a->plain)
        a->digits = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-6);
    else
        a->digits = least > 0 ? (int)(floor(log10(size)) - floor(log10(least))) + 1 : 1;
}

static void place_ticks(axis *a, bool whole, bool wide)
{
    const bool crowded = !wide && fabs(a->high) >= 1000; /* long labels, side by side */
    const double step = nice_step(a->low, a->high, crowded ? 3 : 5, whole);
    const double slack = 1e-6; /* of a step, for rounding */
    double first = wide ? floor(a->low / step + slack) : ceil(a->low / step - slack);
    double last = wide ? ceil(a->high / step - slack) : floor(a->high / step + slack);
    for (a->ticks = 0; a->ticks < MOST_TICKS && first + a->ticks <= last; a->ticks++)
        a->tick[a->ticks] = (first + a->ticks) * step;
    if (wide) {
        a->low = fmin(a->low, first * step);
        a->high = fmax(a->high, last * step);
    }
    choose_digits(a, step);
}

/* Within less than two powers of ten 1, 2 and 5 times each; beyond, powers of ten, and of those as many as fit. */
static void place_log_ticks(axis *a, bool wide)
{
    static const double digit[] = {0, 0.30102999566398120, 0.69897000433601880};
    const int first = (int)floor(a->low), last = (int)ceil(a->high), every = (last - first + 7) / 8;
    const bool digits = last - first <= 2;
    if (wide) {
        a->low = first;
        a->high = last;
    }
    a->digits = 1;
    a->ticks = 0;
    for (int power = first; power <= last; power += every)
        for (int i = 0; i < (digits ? 3 : 1) && a->ticks < MOST_TICKS; i++)
            if (power + digit[i] >= a->low - 1e-9 && power + digit[i] <= a->high + 1e-9)
                a->tick[a->ticks++] = power + digit[i];
    if (a->ticks == 0) { /* between two of those */
        a->tick[a->ticks++] = a->low;
        a->tick[a->ticks++] = a->high;
        a->digits = 3;
    }
}

axis axis_make(const page_axis *how, double least, double most, bool wide)
{
    if (how->zero && !how->log) {
        least = fmin(least, 0);
        most = fmax(most, 0);
    }
    axis a = {.log = how->log, .unit = unit_for(how->unit, fmax(fabs(least), fabs(most)))};
    a.low = scaled(&a, least);
    a.high = scaled(&a, most);
    widen(&a, how->whole);
    if (a.log)
        place_log_ticks(&a, wide);
    else
        place_ticks(&a, how->whole, wide);
    return a;
}

shown axis_label(const axis *a, int tick)
{
    shown s;
    const double value = a->log ? pow(10, a->tick[tick]) : a->tick[tick] + 0.0; /* no -0 */
    if ((a->plain && a->digits == 0) || (a->log && value < 1e6 && fabs(value - rint(value)) < 1e-6 * value))
        return show_count((int64_t)llrint(value));
    const numeric_state locale = numeric_enter();
    snprintf(s.text, sizeof s.text, a->plain ? "%.*f" : "%.*g", a->digits, value);
    numeric_leave(locale);
    return s;
}
