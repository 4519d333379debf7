/* run_classes.c - the matrix itself, the pairs most often confused, and precision and recall of each class.
 *
 * Sums are doubles: exact up to 2^53 images, and never an overflow.
 */
#include "report/run_classes.h"
#include "report/figures.h"

#include <math.h>
#include <stdio.h>

enum { MOST_PAIRS = 10 };

static int64_t count_at(const report_run *r, int row, int column)
{
    return r->confusion[(size_t)row * (size_t)r->classes + (size_t)column];
}

/* A class's name, or its number as text. */
static const char *name_of(const report_run *r, int class, char number[16])
{
    if (r->class_names && r->class_names[class])
        return r->class_names[class];
    snprintf(number, 16, "%d", class);
    return number;
}

/* --- confused pairs -------------------------------------------------------------------------------------------- */

typedef struct pair {
    int row, column;
    int64_t count;
} pair;

/* The pairs off the diagonal that hold most, largest first. */
static int find_pairs(const report_run *r, pair found[MOST_PAIRS])
{
    int count = 0;
    for (int row = 0; row < r->classes; row++) {
        for (int column = 0; column < r->classes; column++) {
            const pair new = {row, column, count_at(r, row, column)};
            int at = count;
            if (row == column || new.count <= 0)
                continue;
            while (at > 0 && found[at - 1].count < new.count)
                at--;
            count += count < MOST_PAIRS;
            for (int i = count - 1; i > at; i--)
                found[i] = found[i - 1];
            if (at < count)
                found[at] = new;
        }
    }
    return count;
}

static double row_sum(const report_run *r, int row)
{
    double sum = 0;
    for (int k = 0; k < r->classes; k++)
        sum += (double)count_at(r, row, k);
    return sum;
}

static double column_sum(const report_run *r, int column)
{
    double sum = 0;
    for (int k = 0; k < r->classes; k++)
        sum += (double)count_at(r, k, column);
    return sum;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

static void put_pairs(page *p, const report_run *r)
{
    static const page_column columns[] = {
        {"True class", .is_text = true}, {"Taken for", .is_text = true}, {"Images"}, {"Of the class"}};
    pair pairs[MOST_PAIRS];
    const int count = find_pairs(r, pairs);
    if (!count)
        return;
    page_table_begin(p, "Most often confused", columns, 4);
    for (int i = 0; i < count; i++) {
        char numbers[2][16];
        const shown images = show_count(pairs[i].count);
        const shown of = show_value(share((double)pairs[i].count, row_sum(r, pairs[i].row)), UNIT_SHARE);
        const page_cell cells[] = {{name_of(r, pairs[i].row, numbers[0])},
                                   {name_of(r, pairs[i].column, numbers[1])},
                                   {images.text},
                                   {of.text}};
        page_table_row(p, cells);
    }
    page_table_end(p);
}

/* --- each class ---------------------------------------------------------------------------------------------- */

/* Precision, recall and F1 of a class; NAN where there is nothing to divide by. */
typedef struct quality {
    double images, precision, recall, f1;
} quality;

static quality quality_of(const report_run *r, int class)
{
    const double right = (double)count_at(r, class, class), images = row_sum(r, class);
    const double predicted = column_sum(r, class);
    return (quality){images, share(right, predicted), share(right, images), share(2 * right, images + predicted)};
}

static void put_each_class(page *p, const report_run *r)
{
    static const page_column columns[] = {{"Class", .is_text = true}, {"Images"}, {"Precision"}, {"Recall"}, {"F1"}};
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < r->classes; i++) {
        const double f1 = quality_of(r, i).f1;
        least = fmin(least, f1);
        most = fmax(most, f1);
    }
    page_table_begin(p, "Each class", columns, 5);
    for (int i = 0; i < r->classes; i++) {
        const quality q = quality_of(r, i);
        const shown text[] = {show_value(q.images, UNIT_NONE), show_value(q.precision, UNIT_SHARE),
                              show_value(q.recall, UNIT_SHARE), show_value(q.f1, UNIT_SHARE)};
        const page_mark mark = least >= most ? MARK_NONE : q.f1 == most ? MARK_BEST : q.f1 == least ? MARK_WORST : 0;
        char number[16];
        const page_cell cells[] = {
            {name_of(r, i, number)}, {text[0].text}, {text[1].text}, {text[2].text}, {text[3].text, mark}};
        page_table_row(p, cells);
    }
    page_table_end(p);
}

void run_classes_write(page *p, const report_run *r)
{
    if (!r->confusion || r->classes <= 0)
        return;
    page_section(p, "Classes");
    page_text(p, "Blue cells were recognized, orange ones were taken for another class; the deeper the colour, the "
                 "larger the part of the row.");
    page_matrix(p, &(page_counts){"Confusion matrix of the validation set", "true", "predicted", r->class_names,
                                  r->confusion, r->classes});
    page_columns_begin(p);
    put_pairs(p, r);
    put_each_class(p, r);
    page_columns_end(p);
}
