/* campaign.c - see campaign.h. */
#define _POSIX_C_SOURCE 200809L
#include "lab/campaign_parts.h"

#include "core/hash.h"
#include "core/random.h"

#include <string.h>
#include <time.h>

bool campaign_stopped(const campaign *c)
{
    return c->o->stop && *c->o->stop;
}

static bool was_counted(const campaign *c, const lab_cell *cell)
{
    for (int i = 0; i < c->o->count; i++)
        if (strcmp(c->o->cells[i].key, cell->key) == 0)
            return true;
    return false;
}

void campaign_count(campaign *c, const lab_run *run)
{
    c->number++;
    if (!was_counted(c, run->cell) || c->total < c->number)
        c->total++;
}

void campaign_tell(campaign *c, campaign_event e)
{
    e.campaign = c->id;
    e.number = c->number;
    e.total = c->total;
    if (c->o->event)
        c->o->event(c->o->watcher, &e);
}

const char *campaign_date(char text[32])
{
    struct tm tm;
    const time_t now = time(NULL);
    strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    return text;
}

static brasa_status out_of_memory(campaign *c)
{
    return fail_memory(c->ctx, 0);
}

/* --- one process --------------------------------------------------------------------------------------------- */

typedef struct told {
    campaign *campaign;
    const lab_run *run;
    bool check;
} told;

static void tell_line(void *user, const lab_line *line)
{
    const told *t = user;
    campaign_tell(t->campaign,
                  (campaign_event){.kind = CAMPAIGN_LINE, .run = t->run, .check = t->check, .line = line});
}

brasa_status campaign_process(campaign *c, open_cell *x, const campaign_peer *peer, const lab_run *run, bool check,
                              process_result *out)
{
    told t = {c, run, check};
    int words = 0;
    *out = (process_result){.pool = {.ctx = c->ctx}};
    brasa_status status = campaign_touch(c);
    if (status != BRASA_OK)
        return status;
    while (peer->argv[words])
        words++;
    const char **argv = pool_get(&x->pool, (size_t)words + 2, sizeof *argv);
    if (!argv)
        return out_of_memory(c);
    memcpy(argv, peer->argv, (size_t)words * sizeof *argv);
    argv[words] = c->file;
    account_owed owed = {0};
    status = c->o->source.write(x->prepared, run, check, c->file, &owed);
    if (status != BRASA_OK)
        return status;
    if (!check)
        campaign_count(c, run);
    campaign_tell(c, (campaign_event){.kind = CAMPAIGN_START, .run = run, .check = check});
    return process_run(c->ctx,
                       &(process_request){.argv = argv,
                                          .seconds = x->cell->limit,
                                          .memory = x->cell->mem,
                                          .gpu = strcmp(x->cell->device, "cpu") != 0,
                                          .check = check,
                                          .owed = owed,
                                          .stop = c->o->stop,
                                          .line = tell_line,
                                          .user = &t},
                       out);
}

/* --- a cell -------------------------------------------------------------------------------------------------- */

static brasa_status store_cell_of(campaign *c, open_cell *x)
{
    const lab_cell *k = x->cell;
    lab_text all = {.pool = &x->pool};
    json j = {.write = lab_text_write, .user = &all};
    json_open(&j, NULL, '{');
    lab_cell_json(&j, k);
    json_int(&j, "classes", x->info.classes);
    json_int(&j, "test_images", x->info.tests);
    if (x->info.most_frequent > 0)
        json_real(&j, "most_frequent", x->info.most_frequent);
    json_close(&j, '}');
    if (j.failed)
        return out_of_memory(c);
    store_cell s = {.campaign = c->id,
                    .key = k->key,
                    .experiment = k->experiment,
                    .network = k->network,
                    .data = k->data,
                    .images = x->info.images,
                    .batch = k->batch,
                    .epochs = k->epochs,
                    .optimizer = k->optimizer,
                    .dialect = k->dialect,
                    .split = k->split,
                    .folds = k->folds,
                    .device = k->device,
                    .precision = k->precision,
                    .threads = k->threads,
                    .mem = k->mem,
                    .json = all.text,
                    .network_hash = x->info.network_hash,
                    .data_hash = x->info.data_hash};
    brasa_status status = store_add_cell(c->o->store, &s);
    x->id = s.id;
    return status;
}

/* Rows of two networks, or of two sets, must not come together in a cell, whatever their files are called. */
static brasa_status check_content(const campaign *c, const open_cell *x)
{
    for (int i = 0; i < c->nknown; i++) {
        const store_cell *k = &c->known[i];
        if (!k->key || strcmp(k->key, x->cell->key) != 0)
            continue;
        const bool network = k->network_hash && x->info.network_hash && strcmp(k->network_hash, x->info.network_hash);
        if (network || (k->data_hash && x->info.data_hash && strcmp(k->data_hash, x->info.data_hash)))
            return fail(c->ctx, BRASA_BAD_ARGUMENT, "%s %s is not what campaign %lld began with: start a new one",
                        network ? "network" : "data", network ? x->cell->network : x->cell->data, (long long)c->id);
    }
    return BRASA_OK;
}

/* Makes its files. Where that fails the reason is kept for its rows: the other cells go on. */
static brasa_status open_it(campaign *c, const lab_cell *cell, open_cell *x)
{
    *x = (open_cell){.cell = cell, .pool = {.ctx = c->ctx}, .info = {.images = -1, .tests = -1, .classes = -1}};
    brasa_status status = c->o->source.open(c->o->source.user, cell, &x->prepared, &x->info);
    if (status == BRASA_OUT_OF_MEMORY || x->info.unwritable)
        return status;
    if (status != BRASA_OK && !(x->broken = pool_text(&x->pool, "%s", brasa_context_error(c->ctx))))
        return out_of_memory(c);
    return x->broken ? BRASA_OK : check_content(c, x);
}

static void close_it(campaign *c, open_cell *x)
{
    c->o->source.close(x->prepared);
    pool_free(&x->pool);
}

static bool was_final(const store_row *rows, int count, const lab_run *run)
{
    for (int64_t repeat = 1; repeat < run->repeat; repeat++) {
        const store_row *row = campaign_find_row(rows, count, run, repeat);
        if (row && row->status && campaign_is_final(row->status))
            return true;
    }
    return false;
}

/* The peers in an order of their own for each repeat, cell and fold. */
static void shuffle(const campaign *c, const lab_run *run, int *order)
{
    const uint64_t hash = hash_bytes(HASH_START, run->cell->key, strlen(run->cell->key));
    const random_stream s = {.seed = (uint64_t)run->cell->seed,
                             .purpose = RANDOM_DATA,
                             .stream = hash & 0xFFFFFF,
                             .step = (uint32_t)(run->repeat * 1000 + run->fold)};
    for (int i = 0; i < c->o->npeers; i++)
        order[i] = i;
    for (int i = c->o->npeers - 1; i > 0; i--) {
        const int k = (int)random_uniform(&s, (uint64_t)i, 0, i + 1), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
}

/* The rows that were there when the cell was opened, and how each peer stands in it now. */
typedef struct standing {
    const store_row *rows;
    int count;
    bool *in;    /* takes part; in the end: and is done with all folds */
    bool *final; /* no further fold of it is run */
    bool *good;
} standing;

void campaign_ended(campaign *c, const open_cell *x, const lab_run *run, const char *status)
{
    const int64_t folds = run->cell->folds > 0 ? run->cell->folds : 1, fold = run->fold > 0 ? run->fold : 1;
    const int64_t left = (run->cell->repeats - run->repeat) * folds + folds - fold;
    if (was_counted(c, run->cell) && (x->broken || campaign_is_final(status)))
        c->total = c->total - left > c->number ? c->total - (int)left : c->number;
}

/* The run of one peer, where it is missing. */
static brasa_status run_peer(campaign *c, open_cell *x, const lab_run *run, int index, standing *st)
{
    const campaign_peer *peer = &c->o->peers[index];
    const store_row *there = campaign_find_row(st->rows, st->count, run, run->repeat);
    const bool settled = peer->why || x->broken; /* one row says all */
    const char *state = there ? there->status : NULL;
    brasa_status status = BRASA_OK;
    if (!there && (st->final[index] || (run->repeat > 1 && (settled || was_final(st->rows, st->count, run))))) {
        st->good[index] = false;
        return BRASA_OK;
    }
    if (!there || (c->o->retry && !campaign_is(there, "done")))
        status = campaign_row(c, x, peer, run, &state);
    else if (x->broken && !peer->why)
        campaign_ended(c, x, run, state);
    st->good[index] = st->good[index] && state && strcmp(state, "done") == 0;
    st->final[index] = settled || (state && campaign_is_final(state));
    return status;
}

static brasa_status run_fold(campaign *c, open_cell *x, lab_run run, int *order, standing *st)
{
    brasa_status status = BRASA_OK;
    shuffle(c, &run, order);
    for (int i = 0; status == BRASA_OK && i < c->o->npeers && !campaign_stopped(c); i++) {
        run.peer = c->o->peers[order[i]].name;
        run.variant = c->o->peers[order[i]].variant;
        if (st->in[order[i]])
            status = run_peer(c, x, &run, order[i], st);
    }
    return status;
}

/* All peers that are `in`, in all folds; who is done with all of them stays in. */
static brasa_status run_open(campaign *c, open_cell *x, int64_t repeat, bool *in)
{
    const size_t peers = (size_t)c->o->npeers;
    const int64_t folds = x->cell->folds;
    store_row *rows;
    standing st = {.in = in};
    int *order = pool_get(&x->pool, peers + 1, sizeof *order);
    st.final = pool_get(&x->pool, peers + 1, sizeof *st.final);
    st.good = pool_get(&x->pool, peers + 1, sizeof *st.good);
    if (!order || !st.final || !st.good)
        return out_of_memory(c);
    memcpy(st.good, in, peers * sizeof *in);
    brasa_status status = store_rows(c->o->store, &x->pool, x->id, &rows, &st.count);
    st.rows = rows;
    for (int64_t fold = folds > 0; status == BRASA_OK && fold <= folds && !campaign_stopped(c); fold++)
        status = run_fold(c, x, (lab_run){.cell = x->cell, .repeat = repeat, .fold = fold}, order, &st);
    memcpy(in, st.good, peers * sizeof *in);
    return status;
}

static brasa_status run_cell(campaign *c, const lab_cell *cell, int64_t repeat, bool *in)
{
    open_cell x;
    brasa_status status = open_it(c, cell, &x);
    if (status == BRASA_OK)
        status = store_cell_of(c, &x);
    if (status == BRASA_OK)
        status = campaign_gate(c, &x);
    if (status == BRASA_OK && !campaign_stopped(c))
        status = run_open(c, &x, repeat, in);
    close_it(c, &x);
    return status;
}

/* A cell, and where it says so the ones with twice the batch, by those who did the last one. */
static brasa_status run_series(campaign *c, const lab_cell *cell, int64_t repeat)
{
    pool p = {.ctx = c->ctx};
    bool *in = pool_get(&p, (size_t)c->o->npeers + 1, sizeof *in), more = true, any = true;
    lab_cell now = *cell, next;
    brasa_status status = in ? BRASA_OK : out_of_memory(c);
    for (int i = 0; in && i < c->o->npeers; i++)
        in[i] = true;
    while (status == BRASA_OK && more && any && !campaign_stopped(c)) {
        status = run_cell(c, &now, repeat, in);
        more = status == BRASA_OK && now.doubling && c->o->doubled;
        if (more)
            status = c->o->doubled(c->o->user, &now, &next, &more);
        now = more ? next : now;
        any = false;
        for (int i = 0; i < c->o->npeers; i++)
            any = any || in[i];
    }
    pool_free(&p);
    return status;
}

/* --- all of them --------------------------------------------------------------------------------------------- */

static brasa_status begin(campaign *c)
{
    const campaign_options *o = c->o;
    char date[32];
    if (!(c->file = pool_text(&c->pool, "%s/experiment.json", o->folder)))
        return out_of_memory(c);
    if (o->resume)
        return campaign_resume(c);
    store_campaign s = {.created = campaign_date(date),
                        .name = o->name,
                        .text = o->text,
                        .scale = o->scale,
                        .machine = o->machine,
                        .brasa = o->brasa,
                        .price_per_hour = o->price_per_hour,
                        .peers = o->who,
                        .data = o->data};
    brasa_status status = store_add_campaign(o->store, &s);
    c->id = s.id;
    return status;
}

/* Runs that are missing, as far as it is known: cells of the list, peers that can run. */
static brasa_status count_runs(campaign *c)
{
    const campaign_options *o = c->o;
    pool p = {.ctx = c->ctx};
    store_cell *cells;
    int ncells;
    brasa_status status = store_cells(o->store, &p, c->id, &cells, &ncells);
    for (int i = 0; status == BRASA_OK && i < o->count; i++) {
        store_row *rows = NULL;
        int nrows = 0;
        for (int k = 0; status == BRASA_OK && k < ncells; k++)
            if (cells[k].key && strcmp(cells[k].key, o->cells[i].key) == 0)
                status = store_rows(o->store, &p, cells[k].id, &rows, &nrows);
        for (int k = 0; status == BRASA_OK && k < o->npeers; k++)
            if (!o->peers[k].why)
                c->total += campaign_missing(c, &o->cells[i], &o->peers[k], rows, nrows);
    }
    pool_free(&p);
    return status;
}

/* Rows of it that are done, those from before too. */
static brasa_status count_done(campaign *c)
{
    pool p = {.ctx = c->ctx};
    store_cell *cells;
    int ncells;
    brasa_status status = store_cells(c->o->store, &p, c->id, &cells, &ncells);
    for (int i = 0; status == BRASA_OK && i < ncells; i++) {
        store_row *rows;
        int count;
        status = store_rows(c->o->store, &p, cells[i].id, &rows, &count);
        for (int k = 0; status == BRASA_OK && k < count; k++)
            c->result->done += campaign_is(&rows[k], "done");
    }
    pool_free(&p);
    return status;
}

/* Whether all cells of a campaign that is gone on with are what they were, before anything is done to it. */
static brasa_status check_all(campaign *c)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; c->o->resume && status == BRASA_OK && i < c->o->count && !campaign_stopped(c); i++) {
        open_cell x;
        status = open_it(c, &c->o->cells[i], &x);
        close_it(c, &x);
    }
    return status;
}

static brasa_status compare_all(campaign *c)
{
    brasa_status status = check_all(c);
    for (int i = 0; status == BRASA_OK && i < c->o->count && !campaign_stopped(c); i++) {
        open_cell x;
        status = open_it(c, &c->o->cells[i], &x);
        if (status == BRASA_OK)
            status = campaign_gate(c, &x);
        close_it(c, &x);
    }
    return status;
}

static brasa_status run_all(campaign *c)
{
    const campaign_options *o = c->o;
    int64_t repeats = 0;
    brasa_status status = BRASA_OK;
    for (int i = 0; i < o->count; i++)
        repeats = o->cells[i].repeats > repeats ? o->cells[i].repeats : repeats;
    for (int64_t repeat = 1; repeat <= repeats; repeat++) {
        c->order = 0;
        for (int i = 0; status == BRASA_OK && i < o->count && !campaign_stopped(c); i++)
            if (o->cells[i].repeats >= repeat)
                status = run_series(c, &o->cells[i], repeat);
    }
    return status;
}

brasa_status campaign_run(brasa_context *ctx, const campaign_options *o, campaign_result *out)
{
    char date[32];
    campaign c = {.ctx = ctx, .o = o, .pool = {.ctx = ctx}, .result = out};
    *out = (campaign_result){.campaign = 0};
    brasa_status status = begin(&c);
    out->campaign = c.id;
    if (status == BRASA_OK)
        status = count_runs(&c);
    if (status == BRASA_OK) {
        campaign_tell(&c, (campaign_event){.kind = CAMPAIGN_BEGIN});
        status = compare_all(&c);
    }
    if (status == BRASA_OK)
        status = run_all(&c);
    out->stopped = campaign_stopped(&c);
    if (status == BRASA_OK && !out->stopped && !c.finished)
        status = store_finish_campaign(o->store, c.id, campaign_date(date));
    if (status == BRASA_OK)
        status = count_done(&c);
    if (c.account_key)
        process_free(&c.account);
    pool_free(&c.pool);
    return status;
}
