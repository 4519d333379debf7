/* json.c - see json.h. */
#include "core/json.h"
#include "core/numeric.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void put(json *j, const char *text, size_t length)
{
    if (!j->failed && !j->write(j->user, text, length))
        j->failed = true;
}

static void put_quoted(json *j, const char *text)
{
    put(j, "\"", 1);
    for (const char *c = text; *c; c++) {
        char escape[8];
        if (*c == '"' || *c == '\\')
            snprintf(escape, sizeof escape, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*c);
        else
            snprintf(escape, sizeof escape, "%c", *c);
        put(j, escape, strlen(escape));
    }
    put(j, "\"", 1);
}

/* What comes before a value: the comma, the key. */
static void begin(json *j, const char *key)
{
    unsigned bit = 1u << j->depth;
    if (j->filled & bit)
        put(j, ",", 1);
    j->filled |= bit;
    if (key) {
        put_quoted(j, key);
        put(j, ":", 1);
    }
}

void json_open(json *j, const char *key, char bracket)
{
    begin(j, key);
    put(j, &bracket, 1);
    j->depth++;
    j->filled &= ~(1u << j->depth);
}

void json_close(json *j, char bracket)
{
    j->depth--;
    put(j, &bracket, 1);
    if (j->depth == 0)
        put(j, "\n", 1);
}

void json_text(json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value)
        put_quoted(j, value);
    else
        put(j, "null", 4);
}

void json_int(json *j, const char *key, int64_t value)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%" PRId64, value);
    begin(j, key);
    put(j, text, (size_t)length);
}

void json_real(json *j, const char *key, double value)
{
    char text[40];
    const numeric_state locale = numeric_enter();
    int length = isfinite(value) ? snprintf(text, sizeof text, "%.9g", value) : snprintf(text, sizeof text, "null");
    numeric_leave(locale);
    begin(j, key);
    put(j, text, (size_t)length);
}

void json_bool(json *j, const char *key, bool value)
{
    begin(j, key);
    put(j, value ? "true" : "false", value ? 4 : 5);
}
