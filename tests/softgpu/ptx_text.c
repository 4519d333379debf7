/* ptx_text.c - see ptx_text.h. */
#define _GNU_SOURCE
#include "ptx_text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

text text_of(const ptx_module *m, const char *at, char *why, size_t why_size)
{
    return (text){
        .at = at, .end = m->text + strlen(m->text), .counted = m->text, .line = 1, .why = why, .why_size = why_size};
}

int text_line(text *t)
{
    while (t->counted < t->at)
        t->line += *t->counted++ == '\n';
    while (t->counted > t->at)
        t->line -= *--t->counted == '\n';
    return t->line;
}

void wrong(text *t, const char *format, ...)
{
    if (t->failed)
        return;
    t->failed = true;
    const int length = snprintf(t->why, t->why_size, "PTX line %d: ", text_line(t));
    va_list list;
    va_start(list, format);
    if (length > 0 && (size_t)length < t->why_size)
        vsnprintf(t->why + length, t->why_size - (size_t)length, format, list);
    va_end(list);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

token peek(text *t)
{
    while (t->at < t->end && isspace((unsigned char)*t->at))
        t->at++;
    const char *s = t->at;
    if (s >= t->end)
        return (token){s, 0};
    if (*s == '"') {
        const char *close = memchr(s + 1, '"', (size_t)(t->end - s - 1));
        return (token){s, close ? (int)(close + 1 - s) : 1};
    }
    if (*s == '-' && isdigit((unsigned char)s[1]))
        s++;
    else if (!is_word(*s))
        return (token){s, 1};
    while (s < t->end && (is_word(*s) || (*s == ':' && (s[1] == ':' || s[-1] == ':'))))
        s++;
    return (token){t->at, (int)(s - t->at)};
}

token take(text *t)
{
    const token got = peek(t);
    t->at = got.s + got.n;
    return got;
}

bool is(token t, const char *s)
{
    return (size_t)t.n == strlen(s) && memcmp(t.s, s, (size_t)t.n) == 0;
}

bool begins(token t, const char *s)
{
    return (size_t)t.n >= strlen(s) && memcmp(t.s, s, strlen(s)) == 0;
}

bool same(token a, token b)
{
    return a.n == b.n && memcmp(a.s, b.s, (size_t)a.n) == 0;
}

void expect(text *t, const char *s)
{
    const token got = take(t);
    if (!is(got, s))
        wrong(t, "expected '%s', got '%.*s'", s, got.n, got.s);
}

bool take_if(text *t, const char *s)
{
    if (t->failed || !is(peek(t), s))
        return false;
    take(t);
    return true;
}

bool number(token t, int64_t *to)
{
    char copy[40], *end;
    if (t.n == 0 || t.n >= (int)sizeof copy || !(isdigit((unsigned char)*t.s) || *t.s == '-'))
        return false;
    memcpy(copy, t.s, (size_t)t.n);
    copy[t.n] = '\0';
    const bool bits = copy[0] == '0' && copy[1] && strchr("fFdD", copy[1]);
    if (copy[0] == '-')
        *to = strtoll(copy, &end, 0);
    else
        *to = (int64_t)strtoull(bits ? copy + 2 : copy, &end, bits ? 16 : 0);
    return *end == '\0' || (strcmp(end, "U") == 0 && !bits);
}

int type_bytes(token t)
{
    static const struct {
        const char *name;
        int bytes;
    } types[] = {{".pred", 0}, {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2},
                 {".u16", 2},  {".s16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4},
                 {".f32", 4},  {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (is(t, types[i].name))
            return types[i].bytes;
    return -1;
}

token declared(text *t, int64_t *align, int64_t *bytes)
{
    int64_t n = 1;
    *align = 0;
    if (take_if(t, ".align") && !number(take(t), align))
        wrong(t, "expected an alignment");
    const token type = take(t);
    *bytes = type_bytes(type);
    if (*bytes <= 0)
        wrong(t, "'%.*s' is no type that is known", type.n, type.s);
    if (!*align)
        *align = *bytes;
    const token name = take(t);
    if (take_if(t, "[")) {
        if (is(peek(t), "]"))
            n = 0;
        else if (!number(take(t), &n))
            wrong(t, "expected a size");
        expect(t, "]");
    }
    *bytes *= n;
    return name;
}

token part(token t, int n)
{
    token p = {t.s, 0};
    for (;; n--) {
        p.n = 0;
        while (p.s + p.n < t.s + t.n && p.s[p.n] != '.')
            p.n++;
        if (n == 0)
            return p;
        p.s += p.n + (p.s + p.n < t.s + t.n);
    }
}

bool has_part(token t, const char *word)
{
    for (int n = 1; part(t, n).n; n++)
        if (is(part(t, n), word))
            return true;
    return false;
}

token last_part(token t)
{
    int n = 0;
    while (part(t, n + 1).n)
        n++;
    token p = part(t, n);
    if (n) {
        p.s--;
        p.n++;
    }
    return p;
}
