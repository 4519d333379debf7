/* bars.c - horizontal bars with their values and spreads, in groups; see page.h.
 *
 * A table underneath: a name, a small picture and a number in each row, so that it reads, copies and prints as one.
 */
#include "report/figures.h"

#include <math.h>
#include <string.h>

static bool usable(double value)
{
    return isfinite(value) && value >= 0;
}

static bool has_spread(const page_bar *b)
{
    return usable(b->low) && usable(b->high) && b->low < b->high;
}

static double longest(const page_bar *bars, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) {
        if (usable(bars[i].value))
            most = fmax(most, bars[i].value);
        if (has_spread(&bars[i]))
            most = fmax(most, bars[i].high);
    }
    return most;
}

/* In per cent of the width. */
static double part(double value, double most)
{
    return most > 0 ? 100 * (value / most) : 0;
}

static void put_picture(page *p, const page_bar *b, double most)
{
    page_format(p, "<svg class=\"c%d\" aria-hidden=\"true\">", b->colour > 0 ? (b->colour - 1) % PAGE_COLOURS : 0);
    if (usable(b->value))
        page_format(p, "<rect height=\"100%%\" width=\"%.3f%%\" rx=\"2\"/>", part(b->value, most));
    if (has_spread(b)) {
        const double low = part(b->low, most), high = part(b->high, most);
        page_format(p, "<line x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"50%%\" y2=\"50%%\"/>", low, high);
        page_format(p, "<line x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"25%%\" y2=\"75%%\"/>", low, low);
        page_format(p, "<line x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"25%%\" y2=\"75%%\"/>", high, high);
    }
    page_raw(p, "</svg>");
}

/* "37.42 to 38.58 ms": the unit once, where both have the same. */
static void put_spread(page *p, const page_bar *b, page_unit unit)
{
    shown low = show_value(b->low, unit), high = show_value(b->high, unit);
    char *low_unit = strchr(low.text, ' '), *high_unit = strchr(high.text, ' ');
    if (low_unit && high_unit && strcmp(low_unit, high_unit) == 0)
        *low_unit = '\0';
    page_format(p, "<small>%s to %s</small>", low.text, high.text);
}

static void put_bar(page *p, const page_bar *b, page_unit unit, double most)
{
    page_raw(p, "<tr role=\"row\"><th scope=\"row\" role=\"rowheader\">");
    page_escaped(p, b->name);
    page_raw(p, "</th><td role=\"cell\">");
    put_picture(p, b, most);
    page_raw(p, b->mark == MARK_BEST ? "</td><td role=\"cell\" class=\"best\">" : "</td><td role=\"cell\">");
    page_raw(p, show_value(b->value, unit).text);
    if (b->mark == MARK_BEST)
        page_raw(p, "<span class=\"unseen\">, best</span>");
    if (has_spread(b))
        put_spread(p, b, unit);
    if (b->note) {
        page_raw(p, "<small>");
        page_escaped(p, b->note);
        page_raw(p, "</small>");
    }
    page_raw(p, "</td></tr>\n");
}

void page_bars(page *p, const char *title, page_unit unit, const page_bar *bars, int count)
{
    const double most = longest(bars, count);
    const char *group = NULL;
    page_raw(p, "<table class=\"bars\" role=\"table\"><caption>");
    page_escaped(p, title);
    page_raw(p, "</caption>\n<tbody role=\"rowgroup\">\n");
    for (int i = 0; i < count; i++) {
        if (bars[i].group && (!group || strcmp(group, bars[i].group) != 0)) {
            page_raw(p, "<tr role=\"row\" class=\"group\"><th role=\"rowheader\" colspan=\"3\">");
            page_escaped(p, bars[i].group);
            page_raw(p, "</th></tr>\n");
        }
        group = bars[i].group;
        put_bar(p, &bars[i], unit, most);
    }
    page_raw(p, "</tbody></table>\n");
}
