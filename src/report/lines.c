/* lines.c - line charts, and dots with a fitted line; see page.h.
 *
 * Places are per cents of the plot, so that it takes any width while letters and dots keep their size: only the paths
 * are stretched, in an inner picture of SIDE x SIDE, and their strokes are not.
 */
#include "report/axis.h"

#include <math.h>

enum {
    SIDE = 1000,
    MOST_MARKED = 60, /* from one side to the other; beyond, dots would touch: */
    MARKS = 12,       /* so many are shown, and the others under the pointer */
};

static double value_at(const page_series *s, const double *values, int i)
{
    return *(const double *)(const void *)((const char *)values +
                                           (size_t)i * (s->stride ? s->stride : sizeof *values));
}

static double x_at(const page_series *s, int i)
{
    return s->x ? value_at(s, s->x, i) : i + 1;
}

static double y_at(const page_series *s, int i)
{
    return value_at(s, s->y, i);
}

/* From 0. Every other one has hollow dots, so that it is not told by colour alone. */
static int colour_of(const page_chart *c, int k)
{
    const int colour = c->series[k].colour;
    return (colour > 0 ? colour - 1 : k) % PAGE_COLOURS;
}

static bool drawn(const page_chart *c, const page_series *s, int i)
{
    return axis_takes(&c->x, x_at(s, i)) && axis_takes(&c->y, y_at(s, i));
}

/* --- the points of a series that are drawn -------------------------------------------------------------------- */

typedef struct walk {
    const page_chart *chart;
    const page_series *series;
    int next;    /* point that was not looked at yet */
    int stretch; /* so many points become the lowest and the highest of them */
    int waiting; /* the later one of the two, or -1 */
    bool gap;    /* nothing joins the point to the one before */
} walk;

static walk walk_start(const page_chart *c, const page_series *s)
{
    const int stretch = s->count <= MOST_POINTS ? 1 : (s->count - 1) / (MOST_POINTS / 2) + 1;
    return (walk){.chart = c, .series = s, .stretch = stretch, .waiting = -1, .gap = true};
}

/* The next point, or -1. */
static int walk_on(walk *w)
{
    const page_series *s = w->series;
    int low = -1, high = -1;
    if (w->waiting >= 0) {
        int point = w->waiting;
        w->waiting = -1;
        w->gap = false;
        return point;
    }
    w->gap = w->next == 0;
    while (w->next < s->count && low < 0) {
        for (int i = 0; i < w->stretch && w->next < s->count; i++, w->next++) {
            if (!drawn(w->chart, s, w->next))
                continue;
            low = low < 0 || y_at(s, w->next) < y_at(s, low) ? w->next : low;
            high = high < 0 || y_at(s, w->next) > y_at(s, high) ? w->next : high;
        }
        w->gap = w->gap || low < 0;
    }
    if (low != high)
        w->waiting = low < high ? high : low;
    return low < high ? low : high;
}

/* --- what the chart holds ------------------------------------------------------------------------------------- */

typedef struct extent {
    double least, most;
} extent;

typedef struct contents {
    extent x, y;
    int points;  /* that can be drawn */
    int odd;     /* values that are there and cannot */
    int longest; /* series */
} contents;

static void include(extent *e, double value, bool first)
{
    e->least = first ? value : fmin(e->least, value);
    e->most = first ? value : fmax(e->most, value);
}

static contents look_at(const page_chart *c)
{
    contents found = {0};
    for (int k = 0; k < c->count; k++) {
        const page_series *s = &c->series[k];
        found.longest = s->count > found.longest ? s->count : found.longest;
        for (int i = 0; i < s->count; i++) {
            if (drawn(c, s, i)) {
                include(&found.x, x_at(s, i), found.points == 0);
                include(&found.y, y_at(s, i), found.points == 0);
                found.points++;
            } else if (!isnan(x_at(s, i)) && !isnan(y_at(s, i))) {
                found.odd++;
            }
        }
    }
    return found;
}

/* --- writing ------------------------------------------------------------------------------------------------- */

/* "train: 0.4310, epoch 3" */
static void put_point(page *p, const page_chart *c, const page_series *s, int i)
{
    page_escaped(p, s->name);
    page_format(p, ": %s, ", show_value(y_at(s, i), c->y.unit).text);
    page_escaped(p, c->x.title);
    page_format(p, " %s", show_value(x_at(s, i), c->x.unit).text);
}

/* The chart in words, for those who do not see it. */
static void put_words(page *p, const page_chart *c)
{
    page_escaped(p, c->title);
    for (int k = 0; k < c->count; k++) {
        walk w = walk_start(c, &c->series[k]);
        int count = 0, last = -1;
        for (int i; (i = walk_on(&w)) >= 0; last = i)
            if (count++ == 0) {
                page_raw(p, ". ");
                put_point(p, c, w.series, i);
            }
        if (count > 1) {
            page_raw(p, " to ");
            put_point(p, c, w.series, last);
        }
    }
}

static void put_legend(page *p, const page_chart *c)
{
    if (c->count < 2)
        return;
    page_raw(p, "<ul class=\"legend\">");
    for (int k = 0; k < c->count; k++) {
        const page_style style = c->series[k].style;
        page_format(p, "<li class=\"c%d\"><svg width=\"22\" height=\"10\" aria-hidden=\"true\">", colour_of(c, k));
        if (style != STYLE_DOTS)
            page_format(p, "<path class=\"line%s\" d=\"M1 5H21\"/>", style == STYLE_DASHED ? " dashed" : "");
        if (style != STYLE_DASHED)
            page_format(p, "<circle class=\"%s\" cx=\"11\" cy=\"5\" r=\"3\"/>",
                        colour_of(c, k) % 2 ? "hollow" : "full");
        page_raw(p, "</svg>");
        page_escaped(p, c->series[k].name);
        page_raw(p, "</li>");
    }
    page_raw(p, "</ul>\n");
}

static void put_axes(page *p, const axis *x, const axis *y)
{
    for (int i = 0; i < y->ticks; i++) {
        const double at = 100 * (1 - (y->tick[i] - y->low) / (y->high - y->low));
        page_format(p, "<line class=\"grid\" x2=\"100%%\" y1=\"%.3f%%\" y2=\"%.3f%%\"/>", at, at);
        page_format(p, "<text class=\"y\" y=\"%.3f%%\" dx=\"-8\" dy=\"4\">%s</text>\n", at, axis_label(y, i).text);
    }
    page_raw(p, "<svg y=\"100%\"><line class=\"base\" x2=\"100%\"/>\n");
    for (int i = 0; i < x->ticks; i++) {
        const double at = 100 * (x->tick[i] - x->low) / (x->high - x->low);
        page_format(p, "<line class=\"base\" x1=\"%.3f%%\" x2=\"%.3f%%\" y2=\"5\"/>", at, at);
        page_format(p, "<text class=\"x\" x=\"%.3f%%\" y=\"20\">%s</text>\n", at, axis_label(x, i).text);
    }
    page_raw(p, "</svg>\n");
}

/* A point between two gaps becomes a line of no length, which its round ends make a dot. */
static void put_path(page *p, const page_chart *c, int k, const axis *x, const axis *y)
{
    const page_series *s = &c->series[k];
    walk w = walk_start(c, s);
    if (s->style == STYLE_DOTS)
        return;
    page_format(p, "<path class=\"line c%d%s\" d=\"", colour_of(c, k), s->style == STYLE_DASHED ? " dashed" : "");
    for (int i; (i = walk_on(&w)) >= 0;) {
        const double px = SIDE * axis_place(x, x_at(s, i)), py = SIDE * (1 - axis_place(y, y_at(s, i)));
        page_format(p, w.gap ? "M%.1f %.1fh0" : "L%.1f %.1f", px, py);
    }
    page_raw(p, "\"/>\n");
}

static void put_dots(page *p, const page_chart *c, int k, const axis *x, const axis *y)
{
    const page_series *s = &c->series[k];
    walk w = walk_start(c, s);
    const double wide = s->count ? axis_place(x, x_at(s, s->count - 1)) - axis_place(x, x_at(s, 0)) : 0;
    const double share = wide > 1.0 / MARKS ? wide : 1.0 / MARKS; /* of the axis */
    const bool dense = s->style == STYLE_LINE && s->count > MOST_MARKED * share;
    const int most = w.stretch > 1 ? 2 * (s->count / w.stretch) : s->count; /* points that will be drawn */
    const int every = (int)(most / (MARKS * share)) + 1, colour = colour_of(c, k);
    if (s->style == STYLE_DASHED)
        return;
    page_format(p, "<g class=\"dots c%d %s%s\">\n", colour, colour % 2 ? "hollow" : "full", dense ? " dense" : "");
    /* Marks of several series begin at places of their own: what lies upon each other stays to be told apart. */
    for (int i, n = 2 * every < most ? colour * every / 8 : 0; (i = walk_on(&w)) >= 0; n++) {
        const bool mark = dense && n % every == 0;
        page_format(p, "<circle%s cx=\"%.2f%%\" cy=\"%.2f%%\" r=\"%s\"><title>", mark ? " class=\"mark\"" : "",
                    100 * axis_place(x, x_at(s, i)), 100 * (1 - axis_place(y, y_at(s, i))),
                    s->count > 40 && !mark ? "2.5" : "3.5");
        put_point(p, c, s, i);
        page_raw(p, "</title></circle>\n");
    }
    page_raw(p, "</g>\n");
}

/* "time, ms" */
static void put_axis_title(page *p, const char *place, const page_axis *how, const axis *a)
{
    page_format(p, "<p class=\"%s\">", place);
    page_escaped(p, how->title);
    page_format(p, "%s%s</p>\n", how->title && *how->title && *a->unit.name ? ", " : "", a->unit.name);
}

static void put_plot(page *p, const page_chart *c, const contents *found)
{
    const axis x = axis_make(&c->x, found->x.least, found->x.most, false);
    const axis y = axis_make(&c->y, found->y.least, found->y.most, true);
    put_axis_title(p, "over", &c->y, &y);
    page_raw(p, "<svg class=\"plot\" role=\"img\" aria-label=\"");
    put_words(p, c);
    page_raw(p, "\">\n");
    put_axes(p, &x, &y);
    page_format(p, "<svg width=\"100%%\" height=\"100%%\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\">\n",
                SIDE, SIDE);
    for (int k = 0; k < c->count; k++)
        put_path(p, c, k, &x, &y);
    page_raw(p, "</svg>\n");
    for (int k = 0; k < c->count; k++)
        put_dots(p, c, k, &x, &y);
    page_raw(p, "</svg>\n");
    put_axis_title(p, "under", &c->x, &x);
}

void page_lines(page *p, const page_chart *c)
{
    const contents found = look_at(c);
    page_raw(p, "<figure class=\"chart\">\n<figcaption>");
    page_escaped(p, c->title);
    page_raw(p, "</figcaption>\n");
    put_legend(p, c);
    if (found.points)
        put_plot(p, c, &found);
    else
        page_raw(p, "<p class=\"none\">No values.</p>\n");
    if (found.odd)
        page_format(p, "<p class=\"remark\">Left out, as infinite or too large%s: %s of %s values.</p>\n",
                    c->x.log || c->y.log ? ", or not above 0" : "", show_count(found.odd).text,
                    show_count((int64_t)found.odd + found.points).text);
    if (found.longest > MOST_POINTS)
        page_format(p, "<p class=\"remark\">Of %s points each stretch shows its lowest and its highest.</p>\n",
                    show_count(found.longest).text);
    page_raw(p, "</figure>\n");
}
