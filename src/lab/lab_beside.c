/* lab_beside.c - see lab_beside.h. */
#include "lab/lab_beside.h"
#include "lab/reference.h"
#include "lab/table_writer.h"

#include "report/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CELLS = 8, MOST_PEERS = 64, MOST_NOTES = 26 };

/* One table: its cells become columns, its peers rows. */
typedef struct beside {
    const lab_results *r;
    reference_what what;
    int cells[MOST_CELLS], cell_count;
    const char *peers[MOST_PEERS]; /* of the user, then those that only the study has */
    int peer_count;
    int notes[MOST_NOTES], note_count; /* that its footnotes a, b, c stand for */
} beside;

static const result_spread *spread_in(const beside *b, const result_entry *e)
{
    return b->what == REFERENCE_TIME ? &e->image_s : &e->accuracy;
}

static bool has_network(const beside *b, const char *network)
{
    for (int i = 0; i < b->cell_count; i++)
        if (strcmp(b->r->cells[b->cells[i]].what.network, network) == 0)
            return true;
    return false;
}

/* Sweeps over batches, threads or sizes have charts of their own. */
static bool is_wanted(const result_cell *c)
{
    static const char *const sweeps[] = {"batches", "threads", "size", "resources"};
    for (size_t i = 0; c->what.view && i < sizeof sweeps / sizeof *sweeps; i++)
        if (strcmp(c->what.view, sweeps[i]) == 0)
            return false;
    return true;
}

static void take_cells(beside *b, bool *taken, int first, unsigned may_differ)
{
    for (int c = first; c < b->r->cell_count && b->cell_count < MOST_CELLS; c++)
        if (!taken[c] && is_wanted(&b->r->cells[c]) &&
            cells_alike(&b->r->cells[c], &b->r->cells[first], may_differ) &&
            !has_network(b, b->r->cells[c].what.network)) {
            b->cells[b->cell_count++] = c;
            taken[c] = true;
        }
}

static bool is_published(const beside *b, const char *peer)
{
    for (int i = 0; i < b->cell_count; i++)
        if (reference_find(&b->r->cells[b->cells[i]], peer, b->what))
            return true;
    return false;
}

static bool has_peer(const beside *b, const char *peer, bool as_study)
{
    for (int i = 0; i < b->peer_count; i++) {
        char plain[100]; /* without a variant */
        snprintf(plain, sizeof plain, "%.*s", (int)strcspn(b->peers[i], " "), b->peers[i]);
        if (strcmp(as_study ? reference_peer(plain) : b->peers[i], peer) == 0)
            return true;
    }
    return false;
}

static bool has_value(const beside *b, int name)
{
    for (int i = 0; i < b->cell_count; i++)
        if (results_entry(b->r, b->cells[i], name))
            return true;
    return false;
}

/* The user's own that ran here, in their order, then the study's that did not. Whether both have numbers. */
static bool take_peers(beside *b)
{
    bool any = false, measured = false;
    for (int i = 0; i < b->r->entry_count; i++)
        for (int k = 0; k < b->cell_count; k++)
            measured |= b->r->entries[i].cell == b->cells[k] && spread_in(b, &b->r->entries[i])->count > 0;
    for (int i = 0; i < b->r->name_count && b->peer_count < MOST_PEERS; i++)
        if (has_value(b, i))
            b->peers[b->peer_count++] = b->r->names[i];
    for (int i = 0; reference_at(i); i++) {
        const char *peer = reference_at(i)->peer;
        if (!is_published(b, peer))
            continue;
        any = true;
        if (!has_peer(b, peer, true) && b->peer_count < MOST_PEERS)
            b->peers[b->peer_count++] = peer;
    }
    return any && measured;
}

/* --- its cells ----------------------------------------------------------------------------------------------- */

static int name_index(const lab_results *r, const char *name)
{
    for (int i = 0; i < r->name_count; i++)
        if (strcmp(r->names[i], name) == 0)
            return i;
    return -1;
}

static shown show_in(const beside *b, double value)
{
    return b->what == REFERENCE_TIME ? show_value(value * 1e3, UNIT_NONE) : show_value(value, UNIT_SHARE);
}

/* The best of a column, by the median. */
static const result_entry *best_of(const beside *b, int cell)
{
    const double sign = b->what == REFERENCE_TIME ? -1 : 1;
    const result_entry *best = NULL;
    for (int i = 0; i < b->r->entry_count; i++) {
        const result_entry *e = &b->r->entries[i];
        const double value = spread_in(b, e)->median;
        if (e->cell == cell && isfinite(value) && (!best || sign * value > sign * spread_in(b, best)->median))
            best = e;
    }
    return best;
}

static void put_mine(table_writer *w, const beside *b, int cell, const char *peer)
{
    const int name = name_index(b->r, peer);
    const result_entry *e = name < 0 ? NULL : results_entry(b->r, cell, name);
    if (!e) {
        table_put(w, "%s", "");
        return;
    }
    const result_spread *s = spread_in(b, e);
    if (!e->done)
        table_put(w, "%s", strcmp(e->status, "memory") == 0 ? "out of memory" : e->status);
    else if (b->what == REFERENCE_TIME)
        table_put_spread(w, &(result_spread){1e3 * s->median, 1e3 * s->low, 1e3 * s->high, s->count}, UNIT_NONE);
    else
        table_put_spread(w, s, UNIT_SHARE);
    if (e == best_of(b, cell))
        table_mark(w, MARK_BEST);
}

/* The letter of a footnote, made known where it is new. */
static int letter_of(beside *b, int note)
{
    for (int i = 0; i < b->note_count; i++)
        if (strcmp(reference_note_at(b->notes[i]), reference_note_at(note)) == 0)
            return 'a' + i;
    if (b->note_count == MOST_NOTES)
        return '*';
    b->notes[b->note_count++] = note;
    return 'a' + b->note_count - 1;
}

static void put_theirs(table_writer *w, beside *b, int cell, const char *peer)
{
    char plain[100];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(peer, " "), peer);
    const reference_row *ref = reference_find(&b->r->cells[cell], plain, b->what);
    const int note = ref ? reference_note_index(ref) : -1;
    if (!ref)
        table_put(w, "%s", "");
    else if (note >= 0)
        table_put(w, "%s [%c]", show_in(b, reference_value(ref)).text, letter_of(b, note));
    else
        table_put(w, "%s", show_in(b, reference_value(ref)).text);
}

/* --- the table ----------------------------------------------------------------------------------------------- */

static const reference_row *any_published(const beside *b)
{
    for (int i = 0; i < b->cell_count; i++)
        for (int k = 0; reference_at(k); k++) {
            const reference_row *ref = reference_find(&b->r->cells[b->cells[i]], reference_at(k)->peer, b->what);
            if (ref)
                return ref;
        }
    return NULL;
}

static const reference_study *study_of(const reference_row *row)
{
    int i = 0;
    while (strcmp(reference_study_at(i)->name, row->study) != 0)
        i++;
    return reference_study_at(i);
}

static const char *make_title(pool *p, const beside *b)
{
    const result_cell *c = &b->r->cells[b->cells[0]];
    const bool one_data =
        b->cell_count == 1 || strcmp(c->what.data, b->r->cells[b->cells[b->cell_count - 1]].what.data) == 0;
    char parts[40] = "", data[200] = "";
    if (c->what.folds)
        snprintf(parts, sizeof parts, ", %" PRId64 " folds", c->what.folds);
    else if (c->what.split && strcmp(c->what.split, "all") != 0)
        snprintf(parts, sizeof parts, ", %.20s", c->what.split);
    if (one_data)
        snprintf(data, sizeof data, "%.150s, ", c->what.data);
    return pool_text(p, "%s: %s%s, batch %" PRId64 "%s",
                     b->what == REFERENCE_TIME ? "Milliseconds an image" : "Accuracy", data, c->what.device,
                     c->what.batch, parts);
}

static void put_notes(table_writer *w, const beside *b)
{
    const reference_row *ref = any_published(b);
    const reference_study *study = study_of(ref);
    table_note(w, "Published: %s, %s; %s. %s", ref->study, ref->source, study->machine,
               b->what == REFERENCE_TIME
                   ? "Its seconds are divided by the images that they were for. Machines differ, "
                     "so compare ranks and orders of magnitude, not figures."
                   : "On its real data, after its number of epochs.");
    for (int i = 0; i < b->note_count; i++)
        table_note(w, "[%c] %s.", 'a' + i, reference_note_at(b->notes[i]));
}

static void write_table(table_writer *w, beside *b, lab_table *out)
{
    page_column columns[1 + 2 * MOST_CELLS] = {{"Framework", true}};
    const char *title = make_title(w->pool, b);
    int count = 1;
    w->failed |= !title;
    for (int i = 0; i < b->cell_count; i++) {
        columns[count++] = (page_column){.title = b->r->cells[b->cells[i]].what.network};
        columns[count++] = (page_column){.title = "published"};
    }
    table_begin(w, out, title, columns, count);
    for (int i = 0; i < b->peer_count; i++) {
        table_put(w, "%s", b->peers[i]);
        for (int k = 0; k < b->cell_count; k++) {
            put_mine(w, b, b->cells[k], b->peers[i]);
            put_theirs(w, b, b->cells[k], b->peers[i]);
        }
    }
    put_notes(w, b);
    table_end(w);
}

static brasa_status make_of(pool *p, const lab_results *r, reference_what what, bool *taken, lab_table *out,
                            int *count)
{
    table_writer w = {.pool = p};
    memset(taken, 0, (size_t)r->cell_count * sizeof *taken);
    for (int c = 0; c < r->cell_count && !w.failed; c++) {
        beside b = {.r = r, .what = what};
        if (taken[c] || !is_wanted(&r->cells[c]))
            continue;
        take_cells(&b, taken, c, DIFFERENT_NETWORK);
        if (b.cell_count == 1) /* each network has data of its own */
            take_cells(&b, taken, c, DIFFERENT_NETWORK | DIFFERENT_DATA);
        if (take_peers(&b))
            write_table(&w, &b, &out[(*count)++]);
    }
    return w.failed ? BRASA_OUT_OF_MEMORY : BRASA_OK;
}

brasa_status lab_beside_make(pool *p, const lab_results *r, lab_table **out, int *count)
{
    bool *taken = pool_get(p, (size_t)r->cell_count + 1, sizeof *taken);
    *out = pool_get(p, 2 * (size_t)r->cell_count + 1, sizeof **out);
    *count = 0;
    if (!taken || !*out)
        return BRASA_OUT_OF_MEMORY;
    brasa_status status = make_of(p, r, REFERENCE_TIME, taken, *out, count);
    return status == BRASA_OK ? make_of(p, r, REFERENCE_ACCURACY, taken, *out, count) : status;
}
