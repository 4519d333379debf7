/* campaign_gate.c - the gate before any timing: see campaign.h and parity.h. */
#include "lab/campaign_parts.h"

#include <math.h>
#include <string.h>

const store_parity *campaign_gate_of(const campaign *c, const char *key, const campaign_peer *peer)
{
    for (int i = c->ngates - 1; i >= 0; i--) /* the last one counts */
        if (strcmp(c->gates[i].network, key) == 0 && strcmp(c->gates[i].peer, peer->name) == 0 &&
            strcmp(c->gates[i].variant, peer->variant) == 0)
            return &c->gates[i];
    return NULL;
}

static brasa_status keep(campaign *c, store_parity *p)
{
    brasa_status status = store_add_parity(c->o->store, p);
    if (status != BRASA_OK)
        return status;
    store_parity copy = {.worst = p->worst, .status = p->status};
    copy.peer = pool_text(&c->pool, "%s", p->peer);
    copy.variant = pool_text(&c->pool, "%s", p->variant);
    copy.network = pool_text(&c->pool, "%s", p->network);
    copy.detail = pool_text(&c->pool, "%s", p->detail ? p->detail : "");
    store_parity *grown = pool_grow(&c->pool, c->gates, c->ngates, &c->capacity, sizeof *grown);
    if (!grown || !copy.peer || !copy.variant || !copy.network || !copy.detail)
        return fail_memory(c->ctx, sizeof *grown);
    c->gates = grown;
    c->gates[c->ngates++] = copy;
    campaign_tell(c, (campaign_event){.kind = CAMPAIGN_PARITY, .parity = p});
    return BRASA_OK;
}

/* Brasa's account for the key, kept as long as cells of the same one follow. */
static brasa_status run_reference(campaign *c, open_cell *x)
{
    if (c->account_key && strcmp(c->account_key, x->info.key) == 0)
        return BRASA_OK;
    if (c->account_key)
        process_free(&c->account);
    const lab_run run = {.cell = x->cell, .peer = c->o->reference->name, .variant = c->o->reference->variant};
    c->account_key = pool_text(&c->pool, "%s", x->info.key);
    brasa_status status = campaign_process(c, x, c->o->reference, &run, true, &c->account);
    if (status == BRASA_OK && !c->account_key)
        status = fail_memory(c->ctx, strlen(x->info.key));
    if (status != BRASA_OK || strcmp(c->account.status, "stopped") == 0) {
        process_free(&c->account);
        c->account_key = NULL;
    }
    return status;
}

static bool is_done(const process_result *r)
{
    return strcmp(r->status, "done") == 0;
}

/* What came of a run that is not done. */
static void tell_reason(const process_result *r, store_parity *out)
{
    const bool told = strcmp(r->status, "refused") == 0 || strcmp(r->status, "memory") == 0;
    out->status = told ? r->status : "failed";
    out->detail = r->reason;
}

/* What came of a peer's run, compared with Brasa's: its own reason comes before Brasa's. */
static brasa_status judge(campaign *c, open_cell *x, const process_result *r, store_parity *out)
{
    out->lines = r->output;
    if (is_done(r) && is_done(&c->account))
        return c->o->source.compare(x->prepared, &x->pool, &c->account, r, out);
    if (!is_done(r)) {
        tell_reason(r, out);
        return BRASA_OK;
    }
    out->status = "failed"; /* there is nobody to be compared with */
    out->detail =
        pool_text(&x->pool, "Brasa, which all are compared with: %s: %s", c->account.status, c->account.reason);
    return out->detail ? BRASA_OK : fail_memory(c->ctx, 0);
}

/* Runs the peer, and keeps what it is found to be. */
static brasa_status run_and_judge(campaign *c, open_cell *x, const campaign_peer *peer, store_parity *p)
{
    const lab_run run = {.cell = x->cell, .peer = peer->name, .variant = peer->variant};
    process_result r;
    brasa_status status = campaign_process(c, x, peer, &run, true, &r);
    const bool stopped = status == BRASA_OK && strcmp(r.status, "stopped") == 0;
    if (status == BRASA_OK && !stopped)
        status = judge(c, x, &r, p);
    if (status == BRASA_OK && !stopped)
        status = keep(c, p);
    process_free(&r);
    return status;
}

static brasa_status compare(campaign *c, open_cell *x, const campaign_peer *peer)
{
    const campaign_peer *reference = c->o->reference;
    store_parity p = {
        .campaign = c->id, .peer = peer->name, .variant = peer->variant, .network = x->info.key, .worst = NAN};
    brasa_status status = run_reference(c, x);
    if (status != BRASA_OK || campaign_stopped(c))
        return status;
    if (strcmp(peer->name, reference->name) != 0 || strcmp(peer->variant, reference->variant) != 0)
        return run_and_judge(c, x, peer, &p);
    p.lines = c->account.output;
    if (!is_done(&c->account)) {
        tell_reason(&c->account, &p);
        return keep(c, &p);
    }
    p.status = "same";
    p.worst = 0;
    p.detail = "what the others are compared with";
    return keep(c, &p);
}

brasa_status campaign_gate(campaign *c, open_cell *x)
{
    brasa_status status = BRASA_OK;
    bool owes = true;
    for (int i = 0; status == BRASA_OK && i < c->o->npeers && !campaign_stopped(c); i++) {
        const campaign_peer *peer = &c->o->peers[i];
        if (peer->why || x->broken || campaign_gate_of(c, x->info.key, peer))
            continue;
        status = campaign_owes(c, x, peer, &owes);
        if (status == BRASA_OK && owes)
            status = compare(c, x, peer);
    }
    return status;
}
