/* ptx_names.c - registers, memory and constants of a kernel, as its text names them: see ptx_reader.h. */
#include "ptx_reader.h"

#include <ctype.h>
#include <string.h>

/* --- names ----------------------------------------------------------------------------------------------------- */

int register_stride(int bytes)
{
    return bytes == 0 ? 64 : bytes == 8 ? 8 * LANES : 4 * LANES;
}

place new_register(ptx_kernel *k, int bytes)
{
    const place p = (place)k->registers;
    k->registers += (size_t)register_stride(bytes);
    return p;
}

void declare_registers(reader *r)
{
    const int bytes = type_bytes(take(&r->t));
    if (bytes < 0)
        wrong(&r->t, "a register of a type that is not known");
    do {
        if (r->nranges == MOST_RANGES)
            wrong(&r->t, "too many registers' names");
        if (r->t.failed)
            return;
        range *g = &r->ranges[r->nranges++];
        int64_t count = -1;
        *g = (range){.prefix = take(&r->t), .count = -1, .depth = r->depth};
        if (take_if(&r->t, "<")) {
            if (!number(take(&r->t), &count))
                wrong(&r->t, "expected a number of registers");
            expect(&r->t, ">");
            g->count = (int)count;
        }
        g->first = new_register(r->k, bytes);
        g->stride = (int)(r->k->registers - g->first);
        for (int i = 1; i < g->count; i++)
            new_register(r->k, bytes);
    } while (take_if(&r->t, ","));
    expect(&r->t, ";");
}

/* With the bytes that it takes in a warp, in *stride. */
static place find_register(const reader *r, token t, int *stride)
{
    for (int i = r->nranges - 1; i >= 0; i--) {
        const range *g = &r->ranges[i];
        *stride = g->stride;
        if (g->count < 0) {
            if (same(g->prefix, t))
                return g->first;
            continue;
        }
        if (t.n <= g->prefix.n || memcmp(t.s, g->prefix.s, (size_t)g->prefix.n) != 0)
            continue;
        int at = 0, c = g->prefix.n;
        for (; c < t.n && isdigit((unsigned char)t.s[c]); c++)
            at = at * 10 + (t.s[c] - '0');
        if (c == t.n && at < g->count)
            return g->first + (place)(at * g->stride);
    }
    return NO_PLACE;
}

const symbol *find_symbol(const reader *r, token t)
{
    for (int i = r->nsymbols - 1; i >= 0; i--)
        if (same(r->symbols[i].name, t))
            return &r->symbols[i];
    return NULL;
}

symbol *add_symbol(reader *r, token name, memory_space space, int64_t at, int64_t bytes)
{
    if (r->nsymbols == MOST_SYMBOLS)
        wrong(&r->t, "too many names");
    if (r->t.failed)
        return NULL;
    r->symbols[r->nsymbols] = (symbol){name, space, at, bytes, r->depth};
    return &r->symbols[r->nsymbols++];
}

void declare_memory(reader *r, memory_space space)
{
    int64_t align = 1, bytes = 0;
    const token name = declared(&r->t, &align, &bytes);
    int64_t *total = space == SHARED ? &r->k->shared : &r->k->local;
    *total = aligned(*total, align);
    add_symbol(r, name, space, *total, bytes);
    *total += bytes;
    expect(&r->t, ";");
}

void leave_scope(reader *r)
{
    while (r->nranges && r->ranges[r->nranges - 1].depth == r->depth)
        r->nranges--;
    while (r->nsymbols && r->symbols[r->nsymbols - 1].depth == r->depth)
        r->nsymbols--;
    r->depth--;
}

/* --- operands -------------------------------------------------------------------------------------------------- */

static place constant(reader *r, int64_t value, int bytes)
{
    ptx_kernel *k = r->k;
    if (bytes < 8)
        value = (int64_t)(uint32_t)value;
    uint64_t at = ((uint64_t)value * 0x9e3779b97f4a7c15u + (uint64_t)bytes) >> 50;
    for (; r->hash[3 * at + 1]; at = (at + 1) % CONSTANT_SLOTS)
        if (r->hash[3 * at] == value && r->hash[3 * at + 1] == bytes)
            return (place)r->hash[3 * at + 2];
    const size_t width = bytes == 8 ? 8 * LANES : 4 * LANES;
    if (++r->nhash > CONSTANT_SLOTS / 2 || k->constant_bytes + width > MOST_CONSTANTS) {
        wrong(&r->t, "too many constants");
        return NO_PLACE;
    }
    const place p = (place)k->constant_bytes | IN_CONSTANTS;
    for (int l = 0; l < LANES; l++) {
        char *to = k->constants + k->constant_bytes + (bytes == 8 ? 8 : 4) * (size_t)l;
        const uint32_t low = (uint32_t)value;
        memcpy(to, bytes == 8 ? (const void *)&value : &low, bytes == 8 ? 8 : 4);
    }
    k->constant_bytes += width;
    r->hash[3 * at] = value;
    r->hash[3 * at + 1] = bytes;
    r->hash[3 * at + 2] = p;
    return p;
}

static place special(reader *r, token t)
{
    static const char *const names[SPECIALS] = {
        [TID_X] = "%tid.x",     [TID_Y] = "%tid.y",       [TID_Z] = "%tid.z",       [NTID_X] = "%ntid.x",
        [NTID_Y] = "%ntid.y",   [NTID_Z] = "%ntid.z",     [CTAID_X] = "%ctaid.x",   [CTAID_Y] = "%ctaid.y",
        [CTAID_Z] = "%ctaid.z", [NCTAID_X] = "%nctaid.x", [NCTAID_Y] = "%nctaid.y", [NCTAID_Z] = "%nctaid.z"};
    for (int i = 0; i < SPECIALS; i++)
        if (is(t, names[i])) {
            if (r->k->special[i] == NO_PLACE)
                r->k->special[i] = new_register(r->k, 4);
            return r->k->special[i];
        }
    return NO_PLACE;
}

place operand_of(reader *r, token t, int bytes)
{
    int64_t value;
    int stride = 0;
    place p = find_register(r, t, &stride);
    if (p != NO_PLACE) {
        if (stride != register_stride(bytes))
            wrong(&r->t, "'%.*s' is of another width than what it is used for", t.n, t.s);
        return p;
    }
    if (number(t, &value))
        return bytes ? constant(r, value, bytes) : constant(r, value ? -1 : 0, 4); /* a predicate of all lanes */
    p = *t.s == '%' ? special(r, t) : NO_PLACE;
    if (p != NO_PLACE)
        return p;
    const symbol *s = find_symbol(r, t);
    if (s && bytes)
        return constant(r, s->at, bytes);
    wrong(&r->t, "'%.*s' is not known", t.n, t.s);
    return NO_PLACE;
}

place operand(reader *r, int bytes)
{
    return operand_of(r, take(&r->t), bytes);
}

int operands(reader *r, place list[MOST_LIST], int bytes)
{
    int n = 0;
    expect(&r->t, "{");
    do {
        if (n == MOST_LIST)
            wrong(&r->t, "a list that is too long");
        if (r->t.failed)
            return 0;
        list[n++] = operand(r, bytes);
    } while (take_if(&r->t, ","));
    expect(&r->t, "}");
    return n;
}

void address(reader *r, instruction *i)
{
    int64_t more = 0;
    expect(&r->t, "[");
    const token t = take(&r->t);
    const symbol *s = find_symbol(r, t);
    i->a = NO_PLACE;
    if (s) {
        i->offset = s->at;
        if (i->space == PARAMETER)
            i->space = (uint8_t)s->space; /* of a function that is called */
        if (s->space != i->space)
            wrong(&r->t, "'%.*s' is in another space", t.n, t.s);
    } else {
        i->a = operand_of(r, t, i->space == SHARED ? 4 : 8);
    }
    if (take_if(&r->t, "+") && !number(take(&r->t), &more))
        wrong(&r->t, "expected an offset");
    i->offset += more;
    expect(&r->t, "]");
}

bool is_wide(reader *r)
{
    int stride = 0;
    return find_register(r, peek(&r->t), &stride) != NO_PLACE && stride == register_stride(8);
}
