/* facts.c - see facts.h. */
#include "lab/facts.h"

#include "core/json_scan.h"
#include "report/figures.h"

#include <string.h>

enum {
    DEEP = 4 /* objects in each other; what lies deeper is shown as it is */,
    MOST = 200 /* the rest is left out */
};

bool facts_has(const facts *f, const page_fact *one)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->list[i].name, one->name) == 0 && strcmp(f->list[i].value, one->value) == 0)
            return true;
    return false;
}

const char *facts_value(const facts *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->list[i].name, name) == 0)
            return f->list[i].value;
    return NULL;
}

brasa_status facts_add(facts *f, const char *name, const char *value)
{
    const page_fact one = {name, value};
    if (!name || !value)
        return fail_memory(f->pool->ctx, 0);
    if (f->count >= MOST || facts_has(f, &one))
        return BRASA_OK;
    page_fact *grown = pool_grow(f->pool, f->list, f->count, &f->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(f->pool->ctx, sizeof *grown);
    f->list = grown;
    f->list[f->count++] = one;
    return BRASA_OK;
}

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
        return status == BRASA_OK ? facts_add(f, key, text) : status;
    }
    if (bytes && next >= '0' && next <= '9') {
        double value;
        status = json_read_real(s, &value);
        return status == BRASA_OK ? facts_add(f, key, pool_text(f->pool, "%s", show_value(value, UNIT_BYTES).text))
                                  : status;
    }
    status = json_skip(s);
    if (status != BRASA_OK || next == 'n') /* null: there is none */
        return status;
    return facts_add(f, key, plain_value(f->pool, from, s->at));
}

brasa_status facts_read(facts *f, const char *what, const char *account, bool *is_json)
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
    f->count = before; /* what cannot be read is shown as it is */
    return facts_add(f, what, account);
}
