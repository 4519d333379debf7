/* run_report.c - see run_report.h. From top to bottom as in the page; the mistakes are in run_classes.c. */
#include "report/run_report.h"
#include "report/figures.h"
#include "report/run_classes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double *field(const report_epoch *e, size_t offset)
{
    return (const double *)(const void *)((const char *)e + offset);
}

/* The epoch with the highest (sign 1) or lowest (-1) value, the first of several; -1 where there is none. */
static int best_epoch(const report_run *r, size_t offset, double sign)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < r->epoch_count; i++) {
        const double value = sign * *field(&r->epochs[i], offset);
        if (isfinite(value) && (best < 0 || value > most)) {
            best = i;
            most = value;
        }
    }
    return best;
}

/* --- the few figures that matter ------------------------------------------------------------------------------- */

enum { MOST_TILES = 6 };

typedef struct tiles {
    page_fact fact[MOST_TILES];
    char text[MOST_TILES][120], name[MOST_TILES][120];
    int count;
} tiles;

static void add_tile(tiles *t, const char *name, const char *value)
{
    const int i = t->count++;
    snprintf(t->name[i], sizeof t->name[i], "%s", name);
    snprintf(t->text[i], sizeof t->text[i], "%s", value);
    t->fact[i] = (page_fact){t->name[i], t->text[i]};
}

typedef struct spread {
    double mean, deviation; /* of a sample: n - 1; NAN for a single one */
    int count;
} spread;

static spread fold_spread(const report_run *r)
{
    spread s = {0};
    double squares = 0;
    for (int i = 0; i < r->fold_count; i++)
        if (isfinite(r->folds[i].val_accuracy)) {
            s.mean += r->folds[i].val_accuracy;
            s.count++;
        }
    s.mean = s.count ? s.mean / s.count : NAN;
    for (int i = 0; i < r->fold_count; i++)
        if (isfinite(r->folds[i].val_accuracy))
            squares += (r->folds[i].val_accuracy - s.mean) * (r->folds[i].val_accuracy - s.mean);
    s.deviation = s.count > 1 ? sqrt(squares / (s.count - 1)) : NAN;
    return s;
}

static void add_fold_tile(tiles *t, const report_run *r)
{
    const spread s = fold_spread(r);
    char name[120], value[120];
    snprintf(name, sizeof name, "Accuracy, mean of %d folds", s.count);
    if (s.count > 1)
        snprintf(value, sizeof value, "%s \u00B1 %s", show_value(s.mean, UNIT_SHARE).text,
                 show_value(s.deviation, UNIT_SHARE).text);
    else
        snprintf(value, sizeof value, "%s", show_value(s.mean, UNIT_SHARE).text);
    add_tile(t, name, value);
}

/* The best of a field, with its epoch. */
static void add_best_tile(tiles *t, const report_run *r, const char *what, size_t offset, page_unit unit, double sign)
{
    const int i = best_epoch(r, offset, sign);
    char name[120];
    if (i < 0)
        return;
    snprintf(name, sizeof name, "%s, epoch %s", what, show_value(r->epochs[i].epoch, UNIT_NONE).text);
    add_tile(t, name, show_value(*field(&r->epochs[i], offset), unit).text);
}

/* With folds, what all of them took. */
static double seconds_of(const report_run *r)
{
    double sum = 0;
    for (int i = 0; i < r->fold_count; i++)
        sum += isfinite(r->folds[i].seconds) ? r->folds[i].seconds : 0;
    for (int i = 0; i < r->epoch_count && !r->fold_count; i++)
        sum += isfinite(r->epochs[i].seconds) ? r->epochs[i].seconds : 0;
    return sum;
}

static double speed_of(const report_run *r)
{
    double images = 0, seconds = 0;
    for (int i = 0; i < r->epoch_count; i++) {
        const report_epoch *e = &r->epochs[i];
        if (isfinite(e->seconds) && isfinite(e->images_per_second)) {
            images += e->images_per_second * e->seconds;
            seconds += e->seconds;
        }
    }
    return seconds > 0 ? images / seconds : NAN;
}

static void put_tiles(page *p, const report_run *r)
{
    tiles t = {.count = 0};
    const bool validated = best_epoch(r, offsetof(report_epoch, val_accuracy), 1) >= 0;
    if (r->fold_count)
        add_fold_tile(&t, r);
    else if (validated)
        add_best_tile(&t, r, "Best validation accuracy", offsetof(report_epoch, val_accuracy), UNIT_SHARE, 1);
    else
        add_best_tile(&t, r, "Best training accuracy", offsetof(report_epoch, train_accuracy), UNIT_SHARE, 1);
    if (!r->fold_count)
        add_best_tile(&t, r, "Lowest training loss", offsetof(report_epoch, train_loss), UNIT_NONE, -1);
    add_tile(&t, r->fold_count ? "Epochs of a fold" : "Epochs", show_count(r->epoch_count).text);
    if (seconds_of(r) > 0)
        add_tile(&t, "Time to train", show_value(seconds_of(r), UNIT_SECONDS).text);
    if (isfinite(speed_of(r)))
        add_tile(&t, "Speed", show_value(speed_of(r), UNIT_IMAGES_PER_SECOND).text);
    page_tiles(p, t.fact, t.count);
}

/* --- curves -------------------------------------------------------------------------------------------------- */

static void put_chart(page *p, const report_run *r, const char *title, page_axis y, size_t train, size_t val)
{
    page_series series[2];
    int count = 0;
    const size_t fields[] = {train, val};
    static const char *const names[] = {"training", "validation"};
    for (int k = 0; k < (train == val ? 1 : 2); k++)
        if (best_epoch(r, fields[k], 1) >= 0)
            series[count++] = (page_series){.name = train == val ? title : names[k],
                                            .x = &r->epochs->epoch,
                                            .y = field(r->epochs, fields[k]),
                                            .count = r->epoch_count,
                                            .stride = sizeof *r->epochs};
    if (count)
        page_lines(p, &(page_chart){title, {.title = "epoch", .whole = true}, y, series, count});
}

static void put_curves(page *p, const report_run *r)
{
    if (!r->epoch_count)
        return;
    page_section(p, r->fold_count ? "Curves of the last fold" : "Curves");
    page_columns_begin(p);
    put_chart(p, r, "Loss", (page_axis){.zero = true}, offsetof(report_epoch, train_loss),
              offsetof(report_epoch, val_loss));
    put_chart(p, r, "Accuracy", (page_axis){.unit = UNIT_SHARE}, offsetof(report_epoch, train_accuracy),
              offsetof(report_epoch, val_accuracy));
    put_chart(p, r, "Speed", (page_axis){.unit = UNIT_IMAGES_PER_SECOND, .zero = true},
              offsetof(report_epoch, images_per_second), offsetof(report_epoch, images_per_second));
    put_chart(p, r, "Learning rate", (page_axis){.zero = true}, offsetof(report_epoch, learning_rate),
              offsetof(report_epoch, learning_rate));
    page_columns_end(p);
}

static void put_epochs(page *p, const report_run *r)
{
    static const page_column columns[] = {
        {"Epoch"},    {"Training loss"}, {"Training accuracy"}, {"Validation loss"}, {"Validation accuracy"},
        {"Images/s"}, {"Time"},          {"Learning rate"}};
    const int best = best_epoch(r, offsetof(report_epoch, val_accuracy), 1);
    if (!r->epoch_count)
        return;
    page_section(p, "Epochs");
    page_table_begin(p, "Figures of each epoch", columns, 8);
    for (int i = 0; i < r->epoch_count; i++) {
        const report_epoch *e = &r->epochs[i];
        const shown text[] = {show_short(e->epoch),
                              show_value(e->train_loss, UNIT_NONE),
                              show_value(e->train_accuracy, UNIT_SHARE),
                              show_value(e->val_loss, UNIT_NONE),
                              show_value(e->val_accuracy, UNIT_SHARE),
                              show_value(e->images_per_second, UNIT_NONE),
                              show_value(e->seconds, UNIT_SECONDS),
                              show_short(e->learning_rate)};
        page_cell cells[8];
        for (int k = 0; k < 8; k++)
            cells[k] = (page_cell){text[k].text, k == 4 && i == best ? MARK_BEST : MARK_NONE};
        page_table_row(p, cells);
    }
    page_table_end(p);
}

/* --- folds and memory ------------------------------------------------------------------------------------------ */

static void put_folds(page *p, const report_run *r)
{
    static const page_column columns[] = {{"Fold"}, {"Validation accuracy"}, {"Validation loss"}, {"Time to train"}};
    const spread s = fold_spread(r);
    char words[200];
    if (!r->fold_count)
        return;
    page_section(p, "Folds");
    if (s.count > 1) {
        snprintf(words, sizeof words, "Mean accuracy %s, standard deviation %s over %d folds.",
                 show_value(s.mean, UNIT_SHARE).text, show_value(s.deviation, UNIT_SHARE).text, s.count);
        page_text(p, words);
    }
    page_table_begin(p, "Figures of each fold", columns, 4);
    for (int i = 0; i < r->fold_count; i++) {
        const report_fold *f = &r->folds[i];
        const shown text[] = {show_count(f->fold), show_value(f->val_accuracy, UNIT_SHARE),
                              show_value(f->val_loss, UNIT_NONE), show_value(f->seconds, UNIT_SECONDS)};
        const page_cell cells[] = {{text[0].text}, {text[1].text}, {text[2].text}, {text[3].text}};
        page_table_row(p, cells);
    }
    page_table_end(p);
}

static void put_memory(page *p, const report_run *r)
{
    double sum = 0;
    char words[200];
    if (!r->memory_count)
        return;
    for (int i = 0; i < r->memory_count; i++)
        sum += r->memory[i].value;
    int used = snprintf(words, sizeof words, "Planned: %s.", show_value(sum, UNIT_BYTES).text);
    if (r->memory_budget)
        used += snprintf(words + used, sizeof words - (size_t)used, " Allowed: %s.",
                         show_value((double)r->memory_budget, UNIT_BYTES).text);
    if (r->memory_peak)
        snprintf(words + used, sizeof words - (size_t)used, " Measured at the peak: %s.",
                 show_value((double)r->memory_peak, UNIT_BYTES).text);
    page_section(p, "Memory");
    page_text(p, words);
    page_bars(p, "What the plan holds", UNIT_BYTES, r->memory, r->memory_count);
}

/* --- the page ------------------------------------------------------------------------------------------------ */

brasa_status run_report_write(brasa_context *ctx, const report_run *r,
                              bool (*write)(void *user, const char *text, size_t length), void *user)
{
    page p = {.write = write, .user = user};
    page_begin(&p, r->title, r->subtitle);
    for (int i = 0; i < r->notice_count; i++)
        page_notice(&p, r->notices[i].kind, r->notices[i].text);
    put_tiles(&p, r);
    put_curves(&p, r);
    put_folds(&p, r);
    run_classes_write(&p, r);
    put_memory(&p, r);
    put_epochs(&p, r);
    if (r->setting_count) {
        page_section(&p, "Settings");
        page_facts(&p, r->settings, r->setting_count);
    }
    if (r->environment_count) {
        page_section(&p, "Made with");
        page_facts(&p, r->environment, r->environment_count);
    }
    page_end(&p);
    if (p.failed && !p.refused)
        return fail(ctx, BRASA_BAD_FILE, "a text is too long for the report");
    return p.failed ? BRASA_BAD_FILE : BRASA_OK;
}
