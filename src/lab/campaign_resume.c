/* campaign_resume.c - going on with a campaign: whether it may be, and what is missing. See campaign.h. */
#include "lab/campaign_parts.h"
#include "lab/facts.h"

#include <string.h>

/* Times of two machines, or with other numbers of processors, do not compare. Accounts of older versions, and of
 * tests, may not name these facts. */
static const struct decisive {
    const char *fact, *words;
} decisive[] = {{"cpu", "processor"}, {"threads", "number of threads"}, {"gpu", "GPU"} /* where one computes */};
enum { ALWAYS = 2, ALL = sizeof decisive / sizeof *decisive };

static brasa_status check_machine(const campaign *c, const store_campaign *before)
{
    pool p = {.ctx = c->ctx};
    facts was = {.pool = &p}, is = {.pool = &p};
    bool read, gpu = false;
    for (int i = 0; i < c->o->count; i++)
        gpu |= strcmp(c->o->cells[i].device, "cpu") != 0;
    brasa_status status = facts_read(&was, "machine", before->machine, &read);
    if (status == BRASA_OK)
        status = facts_read(&is, "machine", c->o->machine, &read);
    for (int i = 0; status == BRASA_OK && i < (gpu ? ALL : ALWAYS); i++) {
        const char *then = facts_value(&was, decisive[i].fact), *now = facts_value(&is, decisive[i].fact);
        if (then && now && strcmp(then, now) != 0)
            status = fail(c->ctx, BRASA_BAD_ARGUMENT,
                          "campaign %lld was begun on another machine, as the %s tells: '%s' then, '%s' now; their "
                          "times do not compare: start a new one",
                          (long long)c->id, decisive[i].words, then, now);
    }
    pool_free(&p);
    return status;
}

brasa_status campaign_resume(campaign *c)
{
    const campaign_options *o = c->o;
    const store_campaign *before = NULL;
    store_campaign *list;
    int count;
    brasa_status status = store_campaigns(o->store, &c->pool, &list, &count);
    for (int i = 0; status == BRASA_OK && i < count; i++)
        if (list[i].id == o->resume)
            before = &list[i];
    if (status == BRASA_OK && !before)
        return fail(c->ctx, BRASA_NOT_FOUND, "the store has no campaign %lld to go on with", (long long)o->resume);
    if (status != BRASA_OK)
        return status;
    c->id = before->id;
    c->finished = before->finished != NULL;
    status = check_machine(c, before);
    return status == BRASA_OK ? store_cells(o->store, &c->pool, c->id, &c->known, &c->nknown) : status;
}

brasa_status campaign_touch(campaign *c)
{
    char date[32];
    if (!c->o->resume || c->resumed)
        return BRASA_OK;
    c->resumed = true;
    c->finished = false;
    return store_resume_campaign(
        c->o->store, c->id, c->o->who,
        &(store_resumed){.at = campaign_date(date), .machine = c->o->machine, .brasa = c->o->brasa});
}

/* --- what is missing ----------------------------------------------------------------------------------------- */

const store_row *campaign_find_row(const store_row *rows, int count, const lab_run *run, int64_t repeat)
{
    for (int i = 0; i < count; i++)
        if (rows[i].repeat == repeat && rows[i].fold == run->fold && strcmp(rows[i].peer, run->peer) == 0 &&
            strcmp(rows[i].variant, run->variant) == 0)
            return &rows[i];
    return NULL;
}

bool campaign_is(const store_row *row, const char *status)
{
    return row->status && strcmp(row->status, status) == 0;
}

bool campaign_is_final(const char *status)
{
    return strcmp(status, "done") != 0 && strcmp(status, "failed") != 0 && strcmp(status, "killed") != 0;
}

int campaign_missing(const campaign *c, const lab_cell *cell, const campaign_peer *peer, const store_row *rows,
                     int count)
{
    lab_run run = {.cell = cell, .peer = peer->name, .variant = peer->variant};
    int missing = 0;
    bool final = false;
    for (run.repeat = 1; run.repeat <= cell->repeats && !final; run.repeat++)
        for (run.fold = cell->folds > 0; run.fold <= cell->folds && !final; run.fold++) {
            const store_row *row = campaign_find_row(rows, count, &run, run.repeat);
            const bool again = row && c->o->retry && !campaign_is(row, "done");
            missing += !row || again;
            final = row && !again && row->status && campaign_is_final(row->status);
        }
    return missing;
}

brasa_status campaign_owes(campaign *c, const open_cell *x, const campaign_peer *peer, bool *owes)
{
    pool p = {.ctx = c->ctx};
    store_row *rows;
    int count;
    brasa_status status = BRASA_OK;
    *owes = true;
    for (int i = 0; status == BRASA_OK && i < c->nknown; i++)
        if (c->known[i].key && strcmp(c->known[i].key, x->cell->key) == 0) {
            status = store_rows(c->o->store, &p, c->known[i].id, &rows, &count);
            *owes = status == BRASA_OK && campaign_missing(c, x->cell, peer, rows, count) > 0;
        }
    pool_free(&p);
    return status;
}
