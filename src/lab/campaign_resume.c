/* campaign_resume.c - what a campaign that goes on has to begin with, and whether it may: see campaign.h. */
#include "lab/campaign_parts.h"
#include "lab/facts.h"

#include <string.h>

/* Times of two machines, or with other numbers of processors, do not compare. Accounts of older versions, and of
 * tests, may not name these facts. */
static brasa_status check_machine(const campaign *c, const store_campaign *before)
{
    static const char *const decisive[] = {"cpu", "threads"};
    pool p = {.ctx = c->ctx};
    facts was = {.pool = &p}, is = {.pool = &p};
    bool read;
    brasa_status status = facts_read(&was, "machine", before->machine, &read);
    if (status == BRASA_OK)
        status = facts_read(&is, "machine", c->o->machine, &read);
    for (size_t i = 0; status == BRASA_OK && i < sizeof decisive / sizeof *decisive; i++) {
        const char *then = facts_value(&was, decisive[i]), *now = facts_value(&is, decisive[i]);
        if (then && now && strcmp(then, now) != 0)
            status =
                fail(c->ctx, BRASA_BAD_ARGUMENT,
                     "campaign %lld was begun on a machine with %s '%s', and here it is '%s': their times do not "
                     "compare: start a new one",
                     (long long)c->id, decisive[i], then, now);
    }
    pool_free(&p);
    return status;
}

/* What is known of the gate. Those who failed there may try again. */
static brasa_status read_gates(campaign *c)
{
    store_parity *gates;
    int count;
    brasa_status status = store_parities(c->o->store, &c->pool, c->id, &gates, &count);
    for (int i = 0; status == BRASA_OK && i < count; i++) {
        if (!gates[i].peer || !gates[i].variant || !gates[i].network || !gates[i].status ||
            (c->o->retry && strcmp(gates[i].status, "same") != 0))
            continue;
        store_parity *grown = pool_grow(&c->pool, c->gates, c->ngates, &c->capacity, sizeof *grown);
        if (!grown)
            return fail_memory(c->ctx, sizeof *grown);
        c->gates = grown;
        c->gates[c->ngates++] = gates[i];
    }
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
    status = check_machine(c, before);
    if (status == BRASA_OK)
        status = store_cells(o->store, &c->pool, c->id, &c->known, &c->nknown);
    return status == BRASA_OK ? read_gates(c) : status;
}
