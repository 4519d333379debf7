/* lab_conditions.c - what a campaign ran on, and how its times were taken: see lab_table.h. */
#include "lab/facts.h"
#include "lab/lab_table.h"

#include "report/figures.h"

#include <math.h>
#include <string.h>

const char lab_clock_words[] =
    "An epoch's time goes from asking for its first batch to the end of its last step, with the results really "
    "there. Import, the first step (which compiles or tunes) and evaluation are timed apart; steps before the first "
    "epoch warm up. Each run is a process of its own; the order of the frameworks is shuffled in each repeat. The "
    "sampler watches from outside, ten times a second; memory is what all processes of a run hold in RAM "
    "together, with what they share counted once.";

/* --- what was measured --------------------------------------------------------------------------------------- */

/* "0.02 to 0.11" */
static const char *range(pool *p, const lab_results *r, size_t offset, const char *unit)
{
    double low = NAN, high = NAN;
    for (int i = 0; i < r->row_count; i++) {
        const double value = *(const double *)(const void *)((const char *)&r->rows[i] + offset);
        if (isfinite(value)) {
            low = fmin(low, value);
            high = fmax(high, value);
        }
    }
    if (isnan(low))
        return pool_text(p, "not known");
    const shown from = show_rough(low), until = show_rough(high);
    if (strcmp(from.text, until.text) == 0)
        return pool_text(p, "%s %s", from.text, unit);
    return pool_text(p, "%s to %s %s", from.text, until.text, unit);
}

/* How much memory was free is always another. */
static bool differs(const facts *other, const page_fact *one)
{
    return !facts_has(other, one) && strcmp(one->name, "memory available") != 0;
}

/* "2026-11-20T14:03:11Z, with all as before", or with what is not, and without what is not there any more. */
static const char *resumed_words(pool *p, const char *at, const facts *before, const facts *now)
{
    const char *words = "", *comma = "";
    for (int i = 0; words && i < now->count; i++)
        if (differs(before, &now->list[i])) {
            words = pool_text(p, "%s%s with %s %s", words, comma, now->list[i].name, now->list[i].value);
            comma = ",";
        }
    for (int i = 0; words && i < before->count; i++)
        if (differs(now, &before->list[i]) && !facts_value(now, before->list[i].name)) {
            words = pool_text(p, "%s%s without %s", words, comma, before->list[i].name);
            comma = ",";
        }
    return words ? pool_text(p, "%s,%s", at, *words ? words : " with all as before") : NULL;
}

enum { MOST_RESUMES = 5 /* that are told one by one, the last ones */ };

static brasa_status add_resumed(facts *f, const facts *first, const lab_results *r, lab_conditions *out)
{
    brasa_status status = BRASA_OK;
    out->resumed = pool_get(f->pool, (size_t)r->resumed_count + 1, sizeof *out->resumed);
    if (!out->resumed)
        return fail_memory(f->pool->ctx, sizeof *out->resumed);
    for (int i = 0; status == BRASA_OK && i < r->resumed_count; i++) {
        facts now = {.pool = f->pool};
        status = facts_read(&now, "Machine", r->resumed[i].machine, &out->resumed[i].machine_is_json);
        if (status == BRASA_OK)
            status = facts_read(&now, "Brasa", r->resumed[i].brasa, &out->resumed[i].brasa_is_json);
        if (status == BRASA_OK && i >= r->resumed_count - MOST_RESUMES)
            status = facts_add(f, "Resumed", resumed_words(f->pool, r->resumed[i].at, first, &now));
    }
    if (status == BRASA_OK && r->resumed_count > MOST_RESUMES)
        status = facts_add(f, "Resumed before", pool_text(f->pool, "%d times", r->resumed_count - MOST_RESUMES));
    return status;
}

brasa_status lab_conditions_make(pool *p, const lab_results *r, lab_conditions *out)
{
    static const struct {
        const char *name;
        size_t offset;
        const char *unit;
    } measured[] = {
        {"Busy before a run", offsetof(result_row, load_before), "cores"},
        {"Multiply-adds before a run", offsetof(result_row, fma_gflops), "GFLOP/s"},
        {"Cost of watching", offsetof(result_row, monitor_share), "of a core"},
    };
    *out = (lab_conditions){0};
    facts f = {.pool = p};
    brasa_status status = facts_read(&f, "Machine", r->machine, &out->machine_is_json);
    if (status == BRASA_OK)
        status = facts_read(&f, "Brasa", r->brasa, &out->brasa_is_json);
    const facts first = {.list = f.list, .count = f.count}; /* pool_grow leaves what was there */
    for (size_t i = 0; status == BRASA_OK && i < sizeof measured / sizeof *measured; i++)
        status = facts_add(&f, measured[i].name, range(p, r, measured[i].offset, measured[i].unit));
    if (status == BRASA_OK)
        status = add_resumed(&f, &first, r, out);
    out->facts = f.list;
    out->count = f.count;
    return status;
}
