/* test_report.c - the blocks of pages: figures, scales, escaping, odd values. */
#include "test.h"
#include "report.h"

#include "report/axis.h"

#include <locale.h>

/* --- figures ------------------------------------------------------------------------------------------------- */

static const struct {
    double value;
    page_unit unit;
    const char *text;
} figures[] = {
    {0, UNIT_NONE, "0"},
    {0.431, UNIT_NONE, "0.4310"},
    {12.3456, UNIT_NONE, "12.35"},
    {-2.5, UNIT_NONE, "-2.500"},
    {999.96, UNIT_NONE, "1,000"},
    {12, UNIT_NONE, "12"},
    {1234567.8, UNIT_NONE, "1,234,568"},
    {1.5e300, UNIT_NONE, "1.5e+300"},
    {2.5e-7, UNIT_NONE, "2.5e-07"},
    {NAN, UNIT_NONE, "\u2013"},
    {INFINITY, UNIT_SECONDS, "\u221E"},
    {-INFINITY, UNIT_NONE, "-\u221E"},
    {0.98934, UNIT_SHARE, "98.93 %"},
    {1, UNIT_SHARE, "100.00 %"},
    {999, UNIT_BYTES, "999 B"},
    {13.7e6, UNIT_BYTES, "13.70 MB"},
    {5e15, UNIT_BYTES, "5,000 TB"},
    {0.0123, UNIT_SECONDS, "12.30 ms"},
    {3e-6, UNIT_SECONDS, "3.000 \u00B5s"},
    {0, UNIT_SECONDS, "0 ns"},
    {90, UNIT_SECONDS, "90.00 s"},
    {600, UNIT_SECONDS, "10.00 min"},
    {9000, UNIT_SECONDS, "2.500 h"},
    {1234.4, UNIT_IMAGES_PER_SECOND, "1,234 images/s"},
    {0.0383, UNIT_SECONDS_PER_IMAGE, "38.30 ms/image"},
    {2.178, UNIT_SECONDS_PER_IMAGE, "2,178 ms/image"},
    {7.2e-6, UNIT_SECONDS_PER_IMAGE, "7.200 \u00B5s/image"},
};

TEST(figures)
{
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        CASE("%g of unit %d", figures[i].value, (int)figures[i].unit);
        CHECK_TEXT(show_value(figures[i].value, figures[i].unit).text, figures[i].text);
    }
    CASE("counts");
    CHECK_TEXT(show_count(INT64_MIN).text, "-9,223,372,036,854,775,808");
    CASE("as typed");
    CHECK_TEXT(show_short(0.001).text, "0.001");
    CHECK_TEXT(show_short(1e-5).text, "1e-05");
    CHECK_TEXT(show_short(NAN).text, "\u2013");
    CHECK_TEXT(show_rough(0.0123).text, "0.012");
    CHECK_TEXT(show_rough(99.4).text, "99");
    CHECK_TEXT(show_rough(402.4).text, "402");
    CHECK_TEXT(show_rough(NAN).text, "\u2013");
}

TEST(numbers_in_a_locale)
{
    OWNED(kept) k = {0};
    page p = {.write = keep, .user = &k};
    if (!setlocale(LC_ALL, "") || strcmp(localeconv()->decimal_point, ",") != 0)
        SKIP("no locale with a decimal comma is set; test_locale.sh does it");
    page_format(&p, "%.2f", 0.25);
    CHECK_TEXT(k.text, "0.25");
    CHECK_TEXT(show_value(0.25, UNIT_NONE).text, "0.2500");
    const axis a = axis_make(&(page_axis){0}, 0, 1, true);
    CHECK_TEXT(axis_label(&a, 1).text, "0.2");
    setlocale(LC_ALL, "C");
}

/* --- scales -------------------------------------------------------------------------------------------------- */

static const struct {
    double least, most;
    page_axis how;
    const char *labels; /* of the wide scale */
} scales[] = {
    {0, 1, {0}, "0.0 0.2 0.4 0.6 0.8 1.0"},
    {0.03, 2.31, {.zero = true}, "0.0 0.5 1.0 1.5 2.0 2.5"},
    {0.912, 0.994, {.unit = UNIT_SHARE}, "90 92 94 96 98 100"},
    {1, 1, {.whole = true}, "0 1 2"},
    {0, 0, {0}, "-0.6 -0.4 -0.2 0.0 0.2 0.4 0.6"},
    {0.5, 0.5, {0}, "0.44 0.46 0.48 0.50 0.52 0.54 0.56"},
    {1, 12, {.whole = true}, "0 2 4 6 8 10 12"},
    {0, 4.1e9, {.unit = UNIT_BYTES}, "0 1 2 3 4 5"},
    {0, 2e6, {0}, "0 5e+05 1e+06 1.5e+06 2e+06"},
    {1000000, 1000004, {0}, "1000000 1000001 1000002 1000003 1000004"},
    {0, 4e-6, {0}, "0 1e-06 2e-06 3e-06 4e-06"},
    {-3, 3, {0}, "-3 -2 -1 0 1 2 3"},
    {1, 100, {.log = true}, "1 2 5 10 20 50 100"},
    {1e-5, 0.1, {.log = true}, "1e-05 0.0001 0.001 0.01 0.1"},
    {3, 3, {.log = true}, "1 2 5 10"},
};

TEST(scales)
{
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        char labels[400] = "";
        const axis a = axis_make(&scales[i].how, scales[i].least, scales[i].most, true);
        CASE("%g to %g%s", scales[i].least, scales[i].most, scales[i].how.log ? ", logarithmic" : "");
        for (int k = 0; k < a.ticks; k++)
            snprintf(labels + strlen(labels), sizeof labels - strlen(labels), "%s%s", k ? " " : "",
                     axis_label(&a, k).text);
        CHECK_TEXT(labels, scales[i].labels);
    }
}

/* Whatever the values: ticks, not too many, in order, between the ends; and the values lie inside. */
static void check_scale(const page_axis *how, double least, double most)
{
    for (int wide = 0; wide < 2; wide++) {
        CASE("%g to %g, wide %d, log %d", least, most, wide, how->log);
        const axis a = axis_make(how, least, most, wide);
        CHECK(a.ticks >= 1 && a.ticks <= MOST_TICKS);
        for (int k = 0; k < a.ticks; k++)
            CHECK(a.tick[k] >= a.low - 1e-6 * (a.high - a.low) && a.tick[k] <= a.high + 1e-6 * (a.high - a.low));
        for (int k = 1; k < a.ticks; k++)
            CHECK(a.tick[k] > a.tick[k - 1] && strcmp(axis_label(&a, k).text, axis_label(&a, k - 1).text) != 0);
        CHECK(axis_place(&a, least) >= -1e-6 && axis_place(&a, most) <= 1 + 1e-6);
    }
}

TEST(any_scale)
{
    static const double ends[] = {-9e299, -1e9,     -7,  -1e-12, 0,   1e-299, 3e-9, 0.1,
                                  1,      1 + 1e-8, 1.5, 8,      1e6, 1e15,   9e299};
    const int count = sizeof ends / sizeof *ends;
    for (int i = 0; i < count; i++) {
        for (int k = i; k < count; k++) {
            check_scale(&(page_axis){0}, ends[i], ends[k]);
            if (ends[i] > 0)
                check_scale(&(page_axis){.log = true}, ends[i], ends[k]);
        }
    }
}

/* --- texts --------------------------------------------------------------------------------------------------- */

TEST(texts_are_escaped)
{
    OWNED(kept) k = {0};
    page p = {.write = keep, .user = &k};
    page_escaped(&p, "a<b>&\"c'\n\x01\x7F\xFF\xC3\xA9\xC3");
    CHECK_TEXT(k.text, "a&lt;b&gt;&amp;&quot;c&#39;\n\uFFFD\uFFFD\uFFFD\u00E9\uFFFD");
    page_escaped(&p, NULL);
    CHECK(!p.failed);
}

TEST(too_much_markup_is_refused)
{
    kept k = {0};
    page p = {.write = keep, .user = &k};
    page_format(&p, "%600d", 1);
    CHECK(p.failed && k.calls == 0);
}

/* --- charts -------------------------------------------------------------------------------------------------- */

static kept chart(const page_series *series, int count, page_axis y)
{
    kept k = {0};
    page p = {.write = keep, .user = &k};
    page_lines(&p, &(page_chart){"t", {.title = "epoch", .whole = true}, y, series, count});
    CHECK(!p.failed);
    return k;
}

TEST(missing_values_leave_gaps)
{
    const double y[] = {1, 2, NAN, 3, INFINITY, 4, 5};
    OWNED(kept) k = chart(&(page_series){.name = "s", .y = y, .count = 7}, 1, (page_axis){0});
    CHECK_INT(times(k.text, "<circle"), 5);
    CHECK_INT(times(k.text, "h0"), 3); /* three stretches */
    CHECK_HAS(k.text, "Left out, as infinite or too large: 1 of 6 values.");
    CHECK_HAS(k.text, "<title>s: 5, epoch 7</title>");
}

TEST(log_axis_leaves_out_what_is_not_positive)
{
    const double y[] = {1, 0, -1, 100};
    OWNED(kept) k = chart(&(page_series){.name = "s", .y = y, .count = 4}, 1, (page_axis){.log = true});
    CHECK_INT(times(k.text, "<circle"), 2);
    CHECK_HAS(k.text, "too large, or not above 0: 2 of 4");
}

TEST(no_values)
{
    const double y[] = {NAN, NAN};
    OWNED(kept) k = chart(&(page_series){.name = "s", .y = y, .count = 2}, 1, (page_axis){0});
    CHECK_HAS(k.text, "No values.");
    CHECK_INT(times(k.text, "<svg"), 0);
}

/* A stride leads through structs; x need not be 1, 2, 3. */
TEST(values_inside_structs)
{
    const struct {
        double x, other, y;
    } rows[] = {{10, -1, 0.5}, {20, -1, 0.25}};
    OWNED(kept) k = chart(&(page_series){"s", &rows[0].x, &rows[0].y, 2, sizeof rows[0]}, 1, (page_axis){0});
    CHECK_HAS(k.text, "<title>s: 0.5000, epoch 10</title>");
    CHECK_HAS(k.text, "<title>s: 0.2500, epoch 20</title>");
}

/* Of very many points a peak of one survives. */
TEST(many_points)
{
    enum { MANY = 100001 };
    static double y[MANY];
    y[77777] = 1e6;
    OWNED(kept) k = chart(&(page_series){.name = "s", .y = y, .count = MANY}, 1, (page_axis){0});
    const int points = times(k.text, "<circle");
    CHECK(points > MOST_POINTS / 4 && points <= MOST_POINTS);
    CHECK_HAS(k.text, "s: 1,000,000, epoch 77,778<");
    CHECK_HAS(k.text, "Of 100,001 points");
    drop(&k);
    k = chart(&(page_series){.name = "s", .y = y, .count = MOST_POINTS}, 1, (page_axis){0});
    CHECK_INT(times(k.text, "<circle"), MOST_POINTS);
    CHECK_INT(times(k.text, "points each"), 0);
}

/* Where dots would touch some are shown, so that nothing is told by colour alone, and each series' where they are
 * seen. */
TEST(marks_of_dense_lines)
{
    static double y[200];
    kept k = chart(&(page_series){.name = "s", .y = y, .count = 60}, 1, (page_axis){0});
    CHECK_INT(times(k.text, "dense"), times(k.text, ".dense"));
    CHECK_INT(times(k.text, "class=\"mark\""), 0);
    drop(&k);
    const page_series two[] = {{.name = "s", .y = y, .count = 200, .colour = 1},
                               {.name = "t", .y = y, .count = 200, .colour = 2}};
    k = chart(two, 2, (page_axis){0});
    const int marks = times(k.text, "class=\"mark\"");
    CHECK(marks >= 22 && marks <= 26);
    const char *first = strstr(k.text, "class=\"mark\" cx=\""), *other = first ? strstr(first, "dots c1") : NULL;
    other = other ? strstr(other, "class=\"mark\" cx=\"") : NULL;
    CHECK(first && other && strncmp(first, other, strlen("class=\"mark\" cx=\"12.3")) != 0);
    drop(&k);
    const page_series short_one[] = {{.name = "s", .y = y, .count = 200},
                                     {.name = "t", .y = y, .count = 10, .colour = 3}};
    k = chart(short_one, 2, (page_axis){0});
    first = strstr(k.text, "dots c2 full dense"); /* ten dots on a twentieth of the axis */
    CHECK_INT(first ? times(first, "class=\"mark\"") : 0, 1);
    drop(&k);
}

TEST(bars)
{
    const page_bar rows[] = {{"g", "a", 50, 40, 100, 0, NULL, MARK_BEST},
                             {"g", "b", NAN, 0, 0, 1, "out of <memory>"},
                             {"h", "c", -1, 0, 0, -3}};
    kept k = {0};
    page p = {.write = keep, .user = &k};
    page_bars(&p, "t", UNIT_NONE, rows, 3);
    CHECK_HAS(k.text, "width=\"50.000%\"");
    CHECK_INT(times(k.text, "<rect"), 1);
    CHECK_INT(times(k.text, "<line"), 3);
    CHECK_INT(times(k.text, "class=\"group\""), 2);
    CHECK_HAS(k.text, "40 to 100");
    CHECK_HAS(k.text, "out of &lt;memory&gt;");
    drop(&k);
    page_bars(&p, "nothing", UNIT_NONE, NULL, 0);
    CHECK(!p.failed);
    drop(&k);
}
