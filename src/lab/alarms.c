/* alarms.c - see alarms.h. A check puts what it finds on a list, by kind and peer: one alarm for all places. Those
 * about times beside others are in alarms_beside.c. */
#include "lab/alarms_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    page_kind severity;
    const char *title, *meaning;
} kinds[ALARM_KINDS] = {
    [ALARM_CHANCE] = {PAGE_ALARM, "accuracy at chance level",
                      "Nothing was learned: look at labels, split, learning rate and number of steps before anything "
                      "else."},
    [ALARM_ACCURACY] = {PAGE_ALARM, "accuracy far below another's",
                        "The same experiment should reach the same: look for defaults that differ."},
    [ALARM_GROWTH] = {PAGE_ALARM, "time does not grow with the data",
                      "Time should be proportional to the number of images: some were not trained on, or something "
                      "else is being measured."},
    [ALARM_EQUAL] = {PAGE_ALARM, "equal to all digits",
                     "Two runs never agree to the last digit: one number is a copy, or the clock stands."},
    [ALARM_WAITS] =
        {PAGE_ALARM, "the same time on every network",
         "What is measured is not the computation: the device waits for the host or the loader, or the clock "
         "does not wait for the device."},
    [ALARM_IDLE] = {PAGE_WARNING, "a GPU that waits for the host",
                    "It computed in less than half of the epochs' time: what is measured is loading, launching or "
                    "copying."},
    [ALARM_OUT_OF_LINE] = {PAGE_ALARM, "a time out of line",
                           "It fits neither this framework's other times nor the others' times for the same cell."},
    [ALARM_PUBLISHED] = {PAGE_WARNING, "far off the published number", NULL},
    [ALARM_SWAP] = {PAGE_ALARM, "swap in use", "Such times are those of the disk."},
    [ALARM_SPREAD] = {PAGE_WARNING, "spread too large to rank",
                      "Repeat the run on a quiet machine before believing its rank."},
    [ALARM_FEW] = {PAGE_WARNING, "too few repeats to rank", "Set `repeats 3` or more in the experiment."},
    [ALARM_CALIBRATION] = {PAGE_WARNING, "the machine was not equally fast",
                           "The same multiply-adds took longer before one run than before another: the clock rate "
                           "changed, or the processor was shared."},
    [ALARM_LOAD] = {PAGE_WARNING, "the machine was busy before a run", "Times may be too long."},
    [ALARM_MONITOR] = {PAGE_WARNING, "watching cost more than 1 %", "Times may be too long."},
};

const char *alarm_title(alarm_kind kind)
{
    return kinds[kind].title;
}

/* --- the list ------------------------------------------------------------------------------------------------ */

static found *find_alarm(finder *f, alarm_kind kind, const char *who)
{
    for (int i = 0; i < f->count; i++)
        if (f->list[i].kind == kind && strcmp(f->list[i].who, who) == 0)
            return &f->list[i];
    found *list = pool_grow(f->pool, f->list, f->count, &f->room, sizeof *list);
    if (!list) {
        f->failed = true;
        return NULL;
    }
    f->list = list;
    list[f->count] = (found){.kind = kind, .who = who};
    return &list[f->count++];
}

void alarm_put(finder *f, alarm_kind kind, const char *who, const char *format, ...)
{
    found *a = find_alarm(f, kind, who);
    if (!a || a->places++ >= MOST_PLACES)
        return;
    va_list args;
    va_start(args, format);
    size_t used = strlen(a->text);
    used += (size_t)snprintf(a->text + used, sizeof a->text - used, "%s", used ? "; " : "");
    if (used < sizeof a->text)
        vsnprintf(a->text + used, sizeof a->text - used, format, args);
    va_end(args);
}

/* --- accuracy ------------------------------------------------------------------------------------------------ */

/* What is reached without a look at the images: always the commonest class, or any. */
static double chance_of(const result_cell *c)
{
    return fmax(c->most_frequent, 1.0 / (double)c->classes);
}

static const char *chance_words(const result_cell *c)
{
    return c->most_frequent > 0 ? "always the commonest class" : "guessing";
}

/* What chance reaches: a tenth, or two standard deviations on that many images, beyond it. Half of what it leaves to
 * be learned is more than that, however few the images. */
static double chance_limit(const result_cell *c)
{
    const double chance = chance_of(c), rest = 1 - chance;
    const double noise = c->test_images > 0 ? 2 * sqrt(chance * rest / (double)c->test_images) : 0;
    return chance + fmin(fmax(0.1 * fmin(chance, rest), noise), 0.5 * rest);
}

/* Where several are at chance and nobody is not, it is the experiment: one alarm for all. */
static void check_chance_in(finder *f, int cell)
{
    const result_cell *c = &f->r->cells[cell];
    const shown chance = show_value(chance_of(c), UNIT_SHARE);
    double low = NAN, high = NAN;
    int at_chance = 0, count = 0;
    for (int i = 0; i < f->r->entry_count; i++) {
        const result_spread *a = &f->r->entries[i].accuracy;
        if (f->r->entries[i].cell != cell || !isfinite(a->median))
            continue;
        count++;
        at_chance += a->median <= chance_limit(c);
        low = fmin(low, a->median);
        high = fmax(high, a->median);
    }
    f->looked[ALARM_CHANCE] |= count > 0;
    if (count > 1 && at_chance == count) {
        alarm_put(f, ALARM_CHANCE, "", "%s: %s to %s of all %d, %s gives %s", c->title,
                  show_value(low, UNIT_SHARE).text, show_value(high, UNIT_SHARE).text, count, chance_words(c),
                  chance.text);
        return;
    }
    for (int i = 0; i < f->r->entry_count; i++) {
        const result_entry *e = &f->r->entries[i];
        if (e->cell == cell && e->accuracy.median <= chance_limit(c))
            alarm_put(f, ALARM_CHANCE, name_of(f, e), "%s: %s, %s gives %s", c->title,
                      show_value(e->accuracy.median, UNIT_SHARE).text, chance_words(c), chance.text);
    }
}

static void check_chance(finder *f)
{
    for (int cell = 0; cell < f->r->cell_count; cell++)
        if (f->r->cells[cell].classes >= 2)
            check_chance_in(f, cell);
}

/* As many runs as have a spread; of what was published nobody knows it. */
static bool has_spread(const finder *f, const result_spread *s)
{
    return s->count >= (f->r->published ? 1 : FEWEST_REPEATS);
}

/* Ten points below the best, with spreads that do not touch. */
static void check_accuracies(finder *f)
{
    for (int i = 0; i < f->r->entry_count; i++) {
        const result_entry *e = &f->r->entries[i], *best = e;
        for (int k = 0; k < f->r->entry_count && has_spread(f, &e->accuracy); k++)
            if (k != i && f->r->entries[k].cell == e->cell && has_spread(f, &f->r->entries[k].accuracy)) {
                f->looked[ALARM_ACCURACY] = true;
                if (f->r->entries[k].accuracy.median > best->accuracy.median)
                    best = &f->r->entries[k];
            }
        if (best->accuracy.median - e->accuracy.median >= 0.1 && best->accuracy.low > e->accuracy.high)
            alarm_put(f, ALARM_ACCURACY, name_of(f, e), "%s: %s, %s has %s", cell_of(f, e),
                      show_value(e->accuracy.median, UNIT_SHARE).text, name_of(f, best),
                      show_value(best->accuracy.median, UNIT_SHARE).text);
    }
}

/* --- times --------------------------------------------------------------------------------------------------- */

/* Time and data may grow by factors that differ by half; each size is compared with the next smaller one. */
static const double growth_limit = 1.5;

static const result_entry *next_smaller(const lab_results *r, const result_entry *e)
{
    const result_entry *best = NULL;
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *o = &r->entries[i];
        const int64_t images = r->cells[o->cell].images;
        if (o->name == e->name && o->done && images > 0 && images < r->cells[e->cell].images &&
            cells_alike(&r->cells[o->cell], &r->cells[e->cell], DIFFERENT_SIZE) &&
            (!best || images > r->cells[best->cell].images))
            best = o;
    }
    return best;
}

static void check_growth(finder *f)
{
    for (int i = 0; i < f->r->entry_count; i++) {
        const result_entry *e = &f->r->entries[i], *small = e->done ? next_smaller(f->r, e) : NULL;
        if (!small)
            continue;
        f->looked[ALARM_GROWTH] = true;
        const double data = (double)f->r->cells[e->cell].images / (double)f->r->cells[small->cell].images;
        const double time = data * e->image_s.median / small->image_s.median, off = time / data;
        if (isfinite(off) && (off > growth_limit || off < 1 / growth_limit))
            alarm_put(f, ALARM_GROWTH, name_of(f, e), "%s: %.1f times %s images take %.1f times as long",
                      cell_of(f, e), data, show_count(f->r->cells[small->cell].images).text, time);
    }
}

/* Printed numbers count from four digits on. Measured accuracies are shares of few images and often agree; with the
 * loss, to all of its digits, they do not. Whether the two rows told of something. */
static bool compare_rows(finder *f, const result_row *a, const result_row *b)
{
    const char *here = f->r->cells[a->cell].title, *there = f->r->cells[b->cell].title;
    const bool same_peer = strcmp(a->name, b->name) == 0;
    const bool times = a->epoch_s == b->epoch_s && (!a->time_digits || a->time_digits >= 4);
    const bool accuracies = a->accuracy == b->accuracy &&
                            (a->accuracy_digits ? a->accuracy_digits >= 4 : !same_peer && a->loss == b->loss);
    if (times)
        alarm_put(f, ALARM_EQUAL, a->name, "%.7g s: %s and %s%s%s", a->epoch_s, here, there, same_peer ? "" : " of ",
                  same_peer ? "" : b->name);
    if (accuracies)
        alarm_put(f, ALARM_EQUAL, a->name, "accuracy %s: %s and %s%s%s", show_value(a->accuracy, UNIT_SHARE).text,
                  here, there, same_peer ? "" : " of ", same_peer ? "" : b->name);
    return times || accuracies;
}

/* Each row with all before it, entry by entry: what two entries have in common in every repeat is told once. */
static void check_equal(finder *f)
{
    const lab_results *r = f->r;
    int *entry = pool_get(f->pool, (size_t)r->row_count + 1, sizeof *entry);  /* of each row; -1: not done */
    bool *told = pool_get(f->pool, (size_t)r->entry_count + 1, sizeof *told); /* of each other entry */
    if (!entry || !told) {
        f->failed = true;
        return;
    }
    for (int i = 0; i < r->row_count; i++) {
        entry[i] = -1;
        for (int e = 0; e < r->entry_count && row_done(&r->rows[i]); e++)
            if (r->entries[e].cell == r->rows[i].cell && strcmp(name_of(f, &r->entries[e]), r->rows[i].name) == 0)
                entry[i] = e;
    }
    for (int e = 0; e < r->entry_count; e++) {
        memset(told, 0, (size_t)r->entry_count * sizeof *told);
        for (int i = 0; i < r->row_count; i++)
            for (int k = 0; k < r->row_count && entry[i] == e; k++) {
                if (entry[k] < 0 || entry[k] > e || (entry[k] == e && k >= i))
                    continue;
                f->looked[ALARM_EQUAL] = true;
                told[entry[k]] = told[entry[k]] || compare_rows(f, &r->rows[i], &r->rows[k]);
            }
    }
}

/* Three networks or more within 15 %, where the work of networks differs many times. */
static const double waits_limit = 1.15;

/* Whether no entry of this group before the k-th is of its network: two blocks may have the same one. */
static bool is_new_network(const lab_results *r, int first, int k)
{
    const result_cell *cell = &r->cells[r->entries[k].cell];
    for (int i = first; i < k; i++) {
        const result_cell *c = &r->cells[r->entries[i].cell];
        if (r->entries[i].name == r->entries[k].name && r->entries[i].done &&
            cells_alike(c, cell, DIFFERENT_NETWORK) && strcmp(c->what.network, cell->what.network) == 0)
            return false;
    }
    return true;
}

static void check_waiting(finder *f)
{
    for (int i = 0; i < f->r->entry_count; i++) {
        const result_entry *first = &f->r->entries[i];
        double least = first->image_s.median, most = least;
        int networks = 0;
        for (int k = 0; k < f->r->entry_count; k++) {
            const result_entry *e = &f->r->entries[k];
            if (e->name != first->name || !e->done ||
                !cells_alike(&f->r->cells[e->cell], &f->r->cells[first->cell], DIFFERENT_NETWORK))
                continue;
            if (k < i)
                break; /* this group was looked at */
            networks += is_new_network(f->r, i, k);
            least = fmin(least, e->image_s.median);
            most = fmax(most, e->image_s.median);
        }
        f->looked[ALARM_WAITS] |= networks >= 3;
        if (networks >= 3 && most / least <= waits_limit)
            alarm_put(f, ALARM_WAITS, name_of(f, first), "%s to %s on %d networks, %s, %s", per_image(least).text,
                      per_image(most).text, networks, f->r->cells[first->cell].what.device,
                      f->r->cells[first->cell].what.data);
    }
}

static const double idle_limit = 0.5; /* of the time in the epochs */

static void check_idle(finder *f)
{
    for (int i = 0; i < f->r->entry_count; i++) {
        const result_entry *e = &f->r->entries[i];
        if (!cell_on_gpu(&f->r->cells[e->cell]) || !e->gpu_busy.count)
            continue;
        f->looked[ALARM_IDLE] = true;
        if (e->gpu_busy.median < idle_limit)
            alarm_put(f, ALARM_IDLE, name_of(f, e), "%s: busy %s of the time", cell_of(f, e),
                      show_value(e->gpu_busy.median, UNIT_SHARE).text);
    }
}

/* --- conditions ---------------------------------------------------------------------------------------------- */

/* Whether its spread touches that of another one there. Alone it has no rank, and may be compared elsewhere. */
static bool is_rank_open(const finder *f, const result_entry *e)
{
    bool alone = true;
    for (int i = 0; i < f->r->entry_count; i++) {
        const result_entry *o = &f->r->entries[i];
        if (o == e || o->cell != e->cell || !o->done)
            continue;
        alone = false;
        if (o->image_s.low <= e->image_s.high && e->image_s.low <= o->image_s.high)
            return true;
    }
    return alone;
}

static const double swap_limit = 16e6;    /* bytes: less is what the system puts away by itself */
static const double spread_limit = 0.2;   /* between the extremes, of the median */
static const double load_limit = 0.25;    /* cores */
static const double monitor_limit = 0.01; /* of a core */
static const double calibration_limit = 1.1;
static void check_conditions(finder *f)
{
    for (int i = 0; i < f->r->entry_count; i++) {
        const result_entry *e = &f->r->entries[i];
        const result_spread *s = &e->image_s;
        f->looked[ALARM_SWAP] |= isfinite(e->swap);
        f->looked[ALARM_SPREAD] |= s->count >= FEWEST_REPEATS;
        f->looked[ALARM_MONITOR] |= isfinite(e->monitor);
        if (e->swap > swap_limit)
            alarm_put(f, ALARM_SWAP, name_of(f, e), "%s: %s", cell_of(f, e), show_value(e->swap, UNIT_BYTES).text);
        if (s->count >= FEWEST_REPEATS && (s->high - s->low) / s->median > spread_limit && is_rank_open(f, e))
            alarm_put(f, ALARM_SPREAD, name_of(f, e), "%s: %s to %s", cell_of(f, e), per_image(s->low).text,
                      per_image(s->high).text);
        if (e->done && e->monitor > monitor_limit) /* who has no times has none that are too long */
            alarm_put(f, ALARM_MONITOR, name_of(f, e), "%s: %s of a core", cell_of(f, e),
                      show_value(e->monitor, UNIT_SHARE).text);
    }
}

/* One warning for all: a machine is busy for everybody, in turns. */
static void check_load(finder *f)
{
    const result_entry *worst = NULL;
    int busy = 0, entries = 0;
    for (int i = 0; i < f->r->entry_count; i++) {
        const result_entry *e = &f->r->entries[i];
        entries += isfinite(e->load);
        busy += e->load > load_limit;
        if (isfinite(e->load) && (!worst || e->load > worst->load))
            worst = e;
    }
    f->looked[ALARM_LOAD] = entries > 0;
    if (busy)
        alarm_put(f, ALARM_LOAD, "", "%d of %d times; the most, %.2f cores, before %s, %s", busy, entries,
                  worst->load, name_of(f, worst), cell_of(f, worst));
}

static void check_repeats(finder *f)
{
    int few = 0, entries = 0;
    for (int i = 0; i < f->r->entry_count; i++) {
        entries += f->r->entries[i].done > 0;
        few += f->r->entries[i].done > 0 && f->r->entries[i].done < FEWEST_REPEATS;
    }
    f->looked[ALARM_FEW] = entries > 0;
    if (few)
        alarm_put(f, ALARM_FEW, "",
                  "%d of %d times are of fewer than %d repeats, so that nobody knows how far they lie apart", few,
                  entries, FEWEST_REPEATS);
}

/* Rows that are compared with each other: those of a cell. */
static void check_calibration(finder *f)
{
    for (int cell = 0; cell < f->r->cell_count; cell++) {
        double low = NAN, high = NAN;
        for (int i = 0; i < f->r->entry_count; i++)
            if (f->r->entries[i].cell == cell) {
                low = fmin(low, f->r->entries[i].fma_low);
                high = fmax(high, f->r->entries[i].fma_high);
            }
        f->looked[ALARM_CALIBRATION] |= high > 0;
        if (high / low > calibration_limit)
            alarm_put(f, ALARM_CALIBRATION, "", "%s: %.1f to %.1f GFLOP/s", f->r->cells[cell].title, low, high);
    }
}

/* --- all of them --------------------------------------------------------------------------------------------- */

static const char *finish(pool *p, const found *a)
{
    char more[40] = "", first[2] = {kinds[a->kind].title[0], '\0'};
    if (a->places > MOST_PLACES)
        snprintf(more, sizeof more, "; and %d more", a->places - MOST_PLACES);
    if (first[0] >= 'a' && first[0] <= 'z')
        first[0] = (char)(first[0] - 'a' + 'A');
    return pool_text(p, "%s%s%s%s: %s%s.%s%s", first, kinds[a->kind].title + 1, *a->who ? ", " : "", a->who, a->text,
                     more, kinds[a->kind].meaning ? " " : "", kinds[a->kind].meaning ? kinds[a->kind].meaning : "");
}

brasa_status alarms_find(pool *p, const lab_results *r, lab_alarms *out)
{
    finder f = {.pool = p, .r = r};
    *out = (lab_alarms){0};
    check_chance(&f);
    check_accuracies(&f);
    check_growth(&f);
    check_equal(&f);
    check_waiting(&f);
    check_idle(&f);
    check_lines(&f);
    check_conditions(&f);
    check_load(&f);
    check_calibration(&f);
    if (!r->published) {
        check_published(&f);
        check_repeats(&f);
    }
    out->list = pool_get(p, (size_t)f.count + 1, sizeof *out->list);
    if (f.failed || !out->list)
        return BRASA_OUT_OF_MEMORY;
    memcpy(out->looked, f.looked, sizeof out->looked);
    for (int kind = 0; kind < ALARM_KINDS; kind++)
        for (int i = 0; i < f.count; i++) {
            const found *a = &f.list[i];
            if ((int)a->kind != kind)
                continue;
            const char *text = finish(p, a);
            if (!text)
                return BRASA_OUT_OF_MEMORY;
            out->list[out->count++] = (lab_alarm){a->kind, kinds[kind].severity, a->who, text};
        }
    return BRASA_OK;
}
