/* json.c - see json.h. */
#include "core/json.h"
#include "core/json_scan.h"
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
    const char *end = text + strlen(text);
    put(j, "\"", 1);
    for (int length; text < end; text += length) {
        char escape[8];
        length = utf8_length(text, end);
        if (length == 0) /* no UTF-8: the replacement character stands for the byte */
            snprintf(escape, sizeof escape, "\\ufffd");
        else if (*text == '"' || *text == '\\')
            snprintf(escape, sizeof escape, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            snprintf(escape, sizeof escape, "%.*s", length, text);
        put(j, escape, strlen(escape));
        length = length ? length : 1;
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

static void put_real(json *j, const char *key, int digits, double value)
{
    char text[40];
    const numeric_state locale = numeric_enter();
    int length =
        isfinite(value) ? snprintf(text, sizeof text, "%.*g", digits, value) : snprintf(text, sizeof text, "null");
    numeric_leave(locale);
    begin(j, key);
    put(j, text, (size_t)length);
}

void json_real(json *j, const char *key, double value)
{
    put_real(j, key, 9, value);
}

void json_exact(json *j, const char *key, double value)
{
    put_real(j, key, 17, value);
}

void json_bool(json *j, const char *key, bool value)
{
    begin(j, key);
    put(j, value ? "true" : "false", value ? 4 : 5);
}

void json_raw(json *j, const char *key, const char *value)
{
    begin(j, key);
    put(j, value, strlen(value));
}
