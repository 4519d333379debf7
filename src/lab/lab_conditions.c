/* lab_conditions.c - what a campaign ran on, and how its times were taken: see lab_table.h. */
#include "lab/lab_table.h"
#include "core/json_scan.h"

#include "report/figures.h"

#include <math.h>
#include <string.h>

const char lab_clock_words[] =
    "An epoch's time goes from asking for its first batch to the end of its last step, with the results really "
    "there. Import, the first step (which compiles or tunes) and evaluation are timed apart; steps before the first "
    "epoch warm up. Each run is a process of its own; the order of the frameworks is shuffled in each repeat. The "
    "sampler watches from outside, ten times a second; memory is what all processes of a run hold in RAM "
    "together, with what they share counted once.";

enum { MOST_FACTS = 60, DEEP = 4 /* objects in each other; what lies deeper is shown as it is */ };

typedef struct facts {
    pool *pool;
    page_fact *list;
    int count, depth;
} facts;

/* The machine's account and the program's have some facts in common: each is told once. */
static brasa_status add_fact(facts *f, const char *name, const char *value)
{
    if (!name || !value)
        return BRASA_OUT_OF_MEMORY;
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->list[i].name, name) == 0 && strcmp(f->list[i].value, value) == 0)
            return BRASA_OK;
    if (f->count < MOST_FACTS)
        f->list[f->count++] = (page_fact){name, value};
    return BRASA_OK;
}

/* --- accounts ------------------------------------------------------------------------------------------------ */

/* "memory_available_bytes": words; what is counted is in the value. */
static bool name_fact(char *key)
{
    const size_t length = strlen(key), unit = sizeof "_bytes" - 1;
    const bool bytes = length > unit && strcmp(key + length - unit, "_bytes") == 0;
    if (bytes)
        key[length - unit] = '\0';
    for (char *c = key; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    return bytes;
}

/* A value as its account has it; of a list the words alone. */
static const char *plain_value(pool *p, const char *from, const char *end)
{
    if (*from != '[')
        return pool_text(p, "%.*s", (int)(end - from), from);
    char *text = pool_get(p, 2 * (size_t)(end - from) + 1, 1), *to = text;
    for (; text && from < end; from++)
        if (!strchr("[]\" ", *from)) {
            *to++ = *from;
            if (*from == ',')
                *to++ = ' ';
        }
    return text;
}

static brasa_status read_fact(json_scan *s, char *key, void *user)
{
    facts *f = user;
    const char next = json_peek(s), *from = s->at;
    char *text;
    brasa_status status;
    if (next == '{' && f->depth < DEEP) {
        f->depth++;
        status = json_read_object(s, read_fact, f);
        f->depth--;
        return status;
    }
    const bool bytes = name_fact(key);
    if (next == '"') {
        status = json_read_text(s, &text);
        return status == BRASA_OK ? add_fact(f, key, text) : status;
    }
    if (bytes && next >= '0' && next <= '9') {
        double value;
        status = json_read_real(s, &value);
        return status == BRASA_OK ? add_fact(f, key, pool_text(f->pool, "%s", show_value(value, UNIT_BYTES).text))
                                  : status;
    }
    status = json_skip(s);
    if (status != BRASA_OK || next == 'n') /* null: there is none */
        return status;
    return add_fact(f, key, plain_value(f->pool, from, s->at));
}

/* Whether a text is JSON, the whole of it. */
static brasa_status read_account(facts *f, const char *what, const char *account, bool *is_json)
{
    const int before = f->count;
    *is_json = false;
    if (!account || !*account)
        return BRASA_OK;
    char *text = pool_text(f->pool, "%s", account); /* decoded in place */
    if (!text)
        return BRASA_OUT_OF_MEMORY;
    json_scan s = {.ctx = f->pool->ctx, .path = what, .text = text, .at = text, .end = text + strlen(text)};
    const brasa_status status = json_read_object(&s, read_fact, f);
    if (status == BRASA_OUT_OF_MEMORY)
        return status;
    *is_json = status == BRASA_OK && !json_peek(&s);
    if (*is_json)
        return BRASA_OK;
    f->count = before; /* what cannot be read is shown as it is: a report is no place to fail for it */
    return add_fact(f, what, account);
}

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
    facts f = {.pool = p, .list = pool_get(p, MOST_FACTS, sizeof *f.list)};
    if (!f.list)
        return BRASA_OUT_OF_MEMORY;
    brasa_status status = read_account(&f, "Machine", r->machine, &out->machine_is_json);
    if (status == BRASA_OK)
        status = read_account(&f, "Brasa", r->brasa, &out->brasa_is_json);
    for (size_t i = 0; status == BRASA_OK && i < sizeof measured / sizeof *measured; i++)
        status = add_fact(&f, measured[i].name, range(p, r, measured[i].offset, measured[i].unit));
    out->facts = f.list;
    out->count = f.count;
    return status;
}
