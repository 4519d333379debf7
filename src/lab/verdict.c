/* verdict.c - see verdict.h. */
#include "lab/verdict.h"
#include "report/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ENOUGH = 3, MANY = 5 };

const char *verdict_surety_text(verdict_surety s)
{
    static const char *const texts[] = {
        [SURE] = "surely: the spreads lie well apart",
        [LIKELY] = "likely: the spreads do not touch",
        [OPEN] = "not sure: the spreads overlap",
        [UNKNOWN] = "not sure: one repeat has no spread",
    };
    return texts[s];
}

/* Spreads of three numbers each do not touch once in ten times by chance, though all are of one kind; those of five
 * once in 126 times. Of three, spreads that are further apart than either is wide are as rare. */
verdict_surety verdict_compare(const result_spread *a, const result_spread *b)
{
    const int fewest = a->count < b->count ? a->count : b->count;
    if (fewest < 2)
        return UNKNOWN;
    if (a->high >= b->low)
        return OPEN;
    const double widest = fmax(a->high - a->low, b->high - b->low);
    return fewest >= MANY || (fewest >= ENOUGH && b->low - a->high > widest) ? SURE : LIKELY;
}

/* --- sentences ----------------------------------------------------------------------------------------------- */

typedef struct speaker {
    pool *pool;
    const lab_results *r;
    lab_verdict *out;
    int room;
    lab_text sentence; /* that is being made */
    bool failed;
} speaker;

static void say(speaker *s, const char *format, ...) BRASA_PRINTF(2, 3);
static void say(speaker *s, const char *format, ...)
{
    char words[500], *text = words;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(words, sizeof words, format, args);
    if (length >= (int)sizeof words && (text = pool_get(s->pool, (size_t)length + 1, 1)))
        vsnprintf(text, (size_t)length + 1, format, again); /* a reason may be long */
    va_end(again);
    va_end(args);
    s->failed |= length < 0 || !text || !lab_text_write(&s->sentence, text, (size_t)length);
}

/* The sentence, kept; the next one starts empty. */
static const char *end_sentence(speaker *s)
{
    const char *text = s->sentence.text;
    s->sentence = (lab_text){.pool = s->pool};
    s->failed |= !text;
    return text;
}

static void end_line(speaker *s)
{
    const char **lines = pool_grow(s->pool, s->out->lines, s->out->count, &s->room, sizeof *lines);
    const char *text = end_sentence(s);
    if (!lines || !text) {
        s->failed = true;
        return;
    }
    s->out->lines = lines;
    lines[s->out->count++] = text;
}

static const char *name_of(const speaker *s, const result_entry *e)
{
    return s->r->names[e->name];
}

static shown per_image(const result_entry *e)
{
    return show_value(e->image_s.median, UNIT_SECONDS_PER_IMAGE);
}

/* "1.04", "2.1", "36": as many digits as mean something. */
static shown times_text(double factor)
{
    shown t;
    snprintf(t.text, sizeof t.text, "%.*f", factor < 1.095 ? 2 : factor < 9.95 ? 1 : 0, factor);
    return t;
}

/* --- ranks --------------------------------------------------------------------------------------------------- */

static verdict_rank rank_cell(const lab_results *r, int cell)
{
    verdict_rank rank = {.cell = cell, .factor = NAN, .surety = UNKNOWN};
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        if (e->cell != cell || !(e->image_s.median > 0))
            continue;
        if (!rank.first || e->image_s.median < rank.first->image_s.median) {
            rank.second = rank.first;
            rank.first = e;
        } else if (!rank.second || e->image_s.median < rank.second->image_s.median) {
            rank.second = e;
        }
    }
    if (rank.second) {
        rank.factor = rank.second->image_s.median / rank.first->image_s.median;
        rank.surety = verdict_compare(&rank.first->image_s, &rank.second->image_s);
    }
    return rank;
}

static void find_ranks(speaker *s)
{
    lab_verdict *out = s->out;
    out->ranks = pool_get(s->pool, (size_t)s->r->cell_count + 1, sizeof *out->ranks);
    s->failed |= !out->ranks;
    for (int cell = 0; out->ranks && cell < s->r->cell_count; cell++) {
        out->ranks[out->rank_count] = rank_cell(s->r, cell);
        out->rank_count += out->ranks[out->rank_count].first != NULL;
    }
}

/* Of the cells in which somebody is first: how many, and the factors to the next. */
typedef struct wins {
    int count, compared, sure;
    double least, most;
} wins;

static wins wins_of(const lab_verdict *v, int name)
{
    wins w = {.least = NAN, .most = NAN};
    for (int i = 0; i < v->rank_count; i++) {
        const verdict_rank *rank = &v->ranks[i];
        if (rank->first->name != name)
            continue;
        w.count++;
        if (!rank->second)
            continue;
        w.compared++;
        w.sure += rank->surety == SURE;
        w.least = fmin(w.least, rank->factor);
        w.most = fmax(w.most, rank->factor);
    }
    return w;
}

static void say_wins(speaker *s, int name, const wins *w)
{
    say(s, "%s is fastest in %d of %d cells", s->r->names[name], w->count, s->out->rank_count);
    if (!w->compared) {
        say(s, ", in which nobody else got through");
        return;
    }
    if (times_text(w->least).text[0] && strcmp(times_text(w->least).text, times_text(w->most).text) != 0)
        say(s, ", %s to %s times as fast as the next", times_text(w->least).text, times_text(w->most).text);
    else
        say(s, ", %s times as fast as the next", times_text(w->least).text);
    if (w->sure == w->compared)
        say(s, " (%s)", verdict_surety_text(SURE));
    else if (w->sure)
        say(s, " (surely in %d of them, where the spreads lie well apart)", w->sure);
    else
        say(s, " (not surely)");
}

/* The one that is first most often makes the headline, the others, if any, follow in it. */
static void say_headline(speaker *s)
{
    if (!s->r->finished)
        say(s, "Not finished (`brasa lab run --resume %" PRId64 "` goes on); so far: ", s->r->id);
    if (!s->out->rank_count) {
        say(s, "Nobody got through: there is nothing to rank.");
        s->out->headline = end_sentence(s);
        return;
    }
    int done = 0, spoken = 0;
    for (int count = s->out->rank_count; count > 0 && done < s->out->rank_count; count--)
        for (int name = 0; name < s->r->name_count; name++) {
            const wins w = wins_of(s->out, name);
            if (w.count != count)
                continue;
            say(s, "%s", spoken++ ? "; " : "");
            say_wins(s, name, &w);
            done += count;
        }
    say(s, ".");
    s->out->headline = end_sentence(s);
}

static void say_cell(speaker *s, verdict_rank *rank)
{
    say(s, "%s: %s is fastest with %s", s->r->cells[rank->cell].title, name_of(s, rank->first),
        per_image(rank->first).text);
    if (rank->second)
        say(s, ", %s times as fast as %s with %s (%s)", times_text(rank->factor).text, name_of(s, rank->second),
            per_image(rank->second).text, verdict_surety_text(rank->surety));
    else
        say(s, "; nobody else got through");
    for (int i = 0; i < s->r->entry_count; i++) {
        const result_entry *e = &s->r->entries[i];
        if (e->cell == rank->cell && e != rank->first && e != rank->second && e->image_s.median > 0)
            say(s, "; %s takes %s times as long", name_of(s, e),
                times_text(e->image_s.median / rank->first->image_s.median).text);
    }
    say(s, ".");
    rank->text = end_sentence(s);
}

/* How far behind each one is that is not always first. */
static void say_behind(speaker *s, int name)
{
    double most = 0;
    int cells = 0, worst = -1;
    for (int i = 0; i < s->out->rank_count; i++) {
        const verdict_rank *rank = &s->out->ranks[i];
        const result_entry *e = results_entry(s->r, rank->cell, name);
        if (!e || e == rank->first || !(e->image_s.median > 0))
            continue;
        const double factor = e->image_s.median / rank->first->image_s.median;
        cells++;
        if (factor > most) {
            most = factor;
            worst = rank->cell;
        }
    }
    if (!cells)
        return;
    say(s, "%s is behind in %d of %d cells: it takes at most %s times as long as the fastest (%s).",
        s->r->names[name], cells, s->out->rank_count, times_text(most).text, s->r->cells[worst].title);
    end_line(s);
}

/* --- who fits ------------------------------------------------------------------------------------------------ */

static bool starts_batches(const lab_results *r, int cell)
{
    int others = 0;
    for (int c = 0; c < r->cell_count; c++)
        if (c != cell && cells_alike(&r->cells[c], &r->cells[cell], DIFFERENT_BATCH)) {
            if (c < cell)
                return false;
            others++;
        }
    return others > 0;
}

/* It is not here, or will not. Stores of before have "refused" for both. */
static bool took_no_part(const result_entry *e)
{
    return strcmp(e->status, "absent") == 0 || strcmp(e->status, "refused") == 0;
}

/* The largest batch that ran, and the smallest beyond it that did not. Who took no part at all is told of once, by
 * say_missing. Whether there was something to say. */
static bool say_largest(speaker *s, int cell, int name, bool first)
{
    const result_entry *fits = NULL, *fails = NULL;
    for (int i = 0; i < s->r->entry_count; i++) {
        const result_entry *e = &s->r->entries[i];
        if (e->name != name || !cells_alike(&s->r->cells[e->cell], &s->r->cells[cell], DIFFERENT_BATCH))
            continue;
        const int64_t batch = s->r->cells[e->cell].what.batch;
        if (e->done && (!fits || batch > s->r->cells[fits->cell].what.batch))
            fits = e;
    }
    for (int i = 0; i < s->r->entry_count; i++) {
        const result_entry *e = &s->r->entries[i];
        const int64_t batch = s->r->cells[e->cell].what.batch;
        if (e->name == name && !e->done && cells_alike(&s->r->cells[e->cell], &s->r->cells[cell], DIFFERENT_BATCH) &&
            (!fits || batch > s->r->cells[fits->cell].what.batch) &&
            (!fails || batch < s->r->cells[fails->cell].what.batch))
            fails = e;
    }
    if (!fits && (!fails || took_no_part(fails)))
        return false;
    say(s, "%s%s ", first ? "" : "; ", s->r->names[name]);
    if (fits)
        say(s, "%" PRId64, s->r->cells[fits->cell].what.batch);
    else
        say(s, "none");
    if (fails)
        say(s, " (%" PRId64 ": %s)", s->r->cells[fails->cell].what.batch,
            strcmp(fails->status, "memory") == 0 ? "out of memory"
            : fails->reason                      ? fails->reason
                                                 : fails->status);
    return true;
}

static void say_fits(speaker *s)
{
    const char **titles = cells_titles(s->pool, s->r, DIFFERENT_BATCH | DIFFERENT_MEM);
    s->failed |= !titles;
    for (int cell = 0; titles && cell < s->r->cell_count; cell++) {
        if (!starts_batches(s->r, cell))
            continue;
        const lab_cell *c = &s->r->cells[cell].what;
        bool first = true;
        say(s, "Largest batch of %s that ran", titles[cell]);
        if (c->mem)
            say(s, " within %s", show_value((double)c->mem, UNIT_BYTES).text);
        say(s, ": ");
        for (int name = 0; name < s->r->name_count; name++)
            first &= !say_largest(s, cell, name, first);
        if (first) { /* nobody took part */
            end_sentence(s);
            continue;
        }
        say(s, ".");
        end_line(s);
    }
}

/* --- memory and accuracy ------------------------------------------------------------------------------------- */

/* The entry of a cell with the least (sign -1) or the most of something. */
static const result_entry *extreme(const lab_results *r, int cell, size_t offset, double sign,
                                   const result_entry *but)
{
    const result_entry *best = NULL;
    double most = 0;
    for (int i = 0; i < r->entry_count; i++) {
        const result_entry *e = &r->entries[i];
        const result_spread *v = (const result_spread *)(const void *)((const char *)e + offset);
        if (e->cell == cell && e != but && v->count && (!best || sign * v->median > most)) {
            best = e;
            most = sign * v->median;
        }
    }
    return best;
}

static void say_memory(speaker *s)
{
    int cells = 0, first = -1;
    for (int name = 0; name < s->r->name_count; name++) {
        int count = 0;
        double least = INFINITY, most = 0;
        for (int cell = 0; cell < s->r->cell_count; cell++) {
            const result_entry *low = extreme(s->r, cell, offsetof(result_entry, peak_memory), -1, NULL);
            const result_entry *high = extreme(s->r, cell, offsetof(result_entry, peak_memory), 1, NULL);
            if (!low || low == high || low->name != name)
                continue;
            count++;
            least = fmin(least, low->peak_memory.median);
            most = fmax(most, high->peak_memory.median / low->peak_memory.median);
        }
        if (!count)
            continue;
        say(s, "%s%s takes the least memory in %d cell%s (from %s on; the most that another takes is %s times that)",
            first < 0 ? "" : "; ", s->r->names[name], count, count == 1 ? "" : "s",
            show_value(least, UNIT_BYTES).text, times_text(most).text);
        first = name;
        cells += count;
    }
    if (!cells)
        return;
    say(s, ".");
    end_line(s);
}

/* Whether a difference between two accuracies is no more than chance makes of that many images. Repeats do not tell:
 * they begin from the same weights, and may agree to the last image. */
static bool few_images(const result_cell *c, double a, double b)
{
    const double images = (double)c->test_images * (c->what.folds > 0 ? (double)c->what.folds : 1),
                 share = (a + b) / 2;
    return images > 0 && fabs(a - b) < 2 * sqrt(2 * share * (1 - share) / images);
}

static void say_accuracy(speaker *s)
{
    for (int cell = 0; cell < s->r->cell_count; cell++) {
        const result_entry *best = extreme(s->r, cell, offsetof(result_entry, accuracy), 1, NULL);
        const result_entry *next = extreme(s->r, cell, offsetof(result_entry, accuracy), 1, best);
        if (!best)
            continue;
        say(s, "%s: %s is the most accurate with %s", s->r->cells[cell].title, name_of(s, best),
            show_value(best->accuracy.median, UNIT_SHARE).text);
        if (next) {
            const result_spread *a = &next->accuracy, *b = &best->accuracy;
            say(s, ", %s has %s (%s)", name_of(s, next), show_value(next->accuracy.median, UNIT_SHARE).text,
                few_images(&s->r->cells[cell], a->median, b->median)
                    ? "not sure: too small a difference for so few test images"
                    : verdict_surety_text(verdict_compare(a, b)));
        }
        say(s, ".");
        end_line(s);
    }
}

/* The first entry of a peer without a time, and how many there are. */
static const result_entry *first_missing(const lab_results *r, int name, int *missing)
{
    const result_entry *first = NULL;
    *missing = 0;
    for (int i = 0; i < r->entry_count; i++)
        if (r->entries[i].name == name && !r->entries[i].done) {
            first = first ? first : &r->entries[i];
            ++*missing;
        }
    return first;
}

/* Whether a peer is missing on this machine only because nobody installed it. */
static bool not_installed(const result_entry *e)
{
    return e && e->reason && took_no_part(e) && strncmp(e->reason, "not installed", 13) == 0;
}

/* Those who could be here: one sentence for all of them. */
static void say_not_installed(speaker *s)
{
    int missing, count = 0;
    for (int name = 0; name < s->r->name_count; name++)
        if (not_installed(first_missing(s->r, name, &missing)))
            say(s, "%s%s", count++ ? ", " : "Not installed here: ", s->r->names[name]);
    if (!count)
        return;
    say(s, " (`brasa lab install NAME`).");
    end_line(s);
}

/* Those without a time, and why: the first reason of each, with its cell where others of theirs got through. */
static void say_missing(speaker *s)
{
    say_not_installed(s);
    for (int name = 0; name < s->r->name_count; name++) {
        int missing, all = 0;
        const result_entry *first = first_missing(s->r, name, &missing);
        if (!first || not_installed(first))
            continue;
        for (int i = 0; i < s->r->entry_count; i++)
            all += s->r->entries[i].name == name;
        if (missing == all && took_no_part(first))
            say(s, "%s took no part", s->r->names[name]);
        else
            say(s, "%s has no result in %d of %d cells (%s: %s", s->r->names[name], missing, all,
                s->r->cells[first->cell].title,
                strcmp(first->status, "different") == 0 ? "not the same experiment" : first->status);
        say(s, "%s%s%s", first->reason ? ": " : "", first->reason ? first->reason : "",
            missing == all && took_no_part(first) ? "." : ").");
        end_line(s);
    }
}

brasa_status verdict_find(pool *p, const lab_results *r, lab_verdict *out)
{
    *out = (lab_verdict){0};
    speaker s = {.pool = p, .r = r, .out = out, .sentence = {.pool = p}};
    find_ranks(&s);
    if (!s.failed)
        say_headline(&s);
    for (int i = 0; !s.failed && i < out->rank_count; i++)
        say_cell(&s, &out->ranks[i]);
    for (int name = 0; !s.failed && name < r->name_count; name++)
        say_behind(&s, name);
    if (!s.failed) {
        say_fits(&s);
        say_memory(&s);
        say_accuracy(&s);
        say_missing(&s);
    }
    return s.failed ? BRASA_OUT_OF_MEMORY : BRASA_OK;
}
