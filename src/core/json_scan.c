/* json_scan.c - see json_scan.h. */
#include "core/json_scan.h"
#include "core/numeric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

brasa_status json_refuse(const json_scan *s, const char *where, const char *what)
{
    return fail(s->ctx, BRASA_BAD_FILE, "%s: byte %lld%s: %s", s->path,
                (long long)(where - s->text) + (long long)s->place, s->part ? s->part : "", what);
}

char json_peek(json_scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
    return s->at < s->end ? *s->at : '\0';
}

brasa_status json_expect(json_scan *s, char letter)
{
    char text[] = "expected 'x'";
    if (json_peek(s) == letter) {
        s->at++;
        return BRASA_OK;
    }
    text[sizeof text - 3] = letter;
    return json_refuse(s, s->at, text);
}

/* --- texts --------------------------------------------------------------------------------------------------- */

int utf8_length(const char *p, const char *end)
{
    const unsigned char *u = (const unsigned char *)p;
    const int length = u[0] < 0x80 ? 1 : u[0] < 0xC2 ? 0 : u[0] < 0xE0 ? 2 : u[0] < 0xF0 ? 3 : u[0] < 0xF5 ? 4 : 0;
    if (length > end - p)
        return 0;
    for (int i = 1; i < length; i++)
        if ((u[i] & 0xC0) != 0x80)
            return 0;
    if ((u[0] == 0xE0 && u[1] < 0xA0) || (u[0] == 0xED && u[1] >= 0xA0) || (u[0] == 0xF0 && u[1] < 0x90) ||
        (u[0] == 0xF4 && u[1] >= 0x90))
        return 0;
    return length;
}

bool text_printable(const char *text)
{
    const char *end = text + strlen(text);
    for (int length; text < end; text += length)
        if ((unsigned char)*text < 0x20 || *text == 0x7F || (length = utf8_length(text, end)) == 0)
            return false;
    return true;
}

short_text text_short(const char *text)
{
    short_text out = {""};
    const char *end = text + strlen(text), *at = text;
    size_t most = sizeof out.text - sizeof "...";
    for (int length; at < end && (length = utf8_length(at, end)) > 0 && (size_t)(at - text + length) <= most;)
        at += length;
    memcpy(out.text, text, (size_t)(at - text));
    strcpy(out.text + (at - text), at < end ? "..." : "");
    return out;
}

static char *utf8_put(char *to, uint32_t code)
{
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3; /* bytes after the first */
    static const unsigned char first[] = {0x00, 0xC0, 0xE0, 0xF0};
    *to++ = (char)(first[more] | code >> 6 * more);
    for (int i = more - 1; i >= 0; i--)
        *to++ = (char)(0x80 | (code >> 6 * i & 0x3F));
    return to;
}

/* Four hexadecimal digits, or -1. */
static int32_t read_hex(json_scan *s)
{
    int32_t code = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        const char c = s->at < s->end ? *s->at : '\0';
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

/* What follows \u; letters beyond U+FFFF are written as two escapes. */
static brasa_status read_unicode(json_scan *s, char **to)
{
    const char *start = s->at - 2;
    int32_t code = read_hex(s);
    if (code >= 0xD800 && code < 0xDC00) {
        int32_t low = -1;
        if (s->end - s->at > 2 && s->at[0] == '\\' && s->at[1] == 'u') {
            s->at += 2;
            low = read_hex(s);
        }
        code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : -1;
    }
    if (code <= 0 || (code >= 0xDC00 && code < 0xE000)) /* zero would end the text here */
        return json_refuse(s, start, "an escape that stands for no letter");
    *to = utf8_put(*to, (uint32_t)code);
    return BRASA_OK;
}

static brasa_status read_escape(json_scan *s, char **to)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *letter = ++s->at < s->end && *s->at ? strchr(letters, *s->at) : NULL;
    if (letter) {
        *(*to)++ = meanings[letter - letters];
        s->at++;
        return BRASA_OK;
    }
    if (s->at == s->end || *s->at != 'u')
        return json_refuse(s, s->at - 1, "an escape that JSON does not have");
    s->at++;
    return read_unicode(s, to);
}

brasa_status json_read_text(json_scan *s, char **out)
{
    brasa_status status = json_expect(s, '"');
    char *to = s->at, *start = s->at;
    while (status == BRASA_OK && s->at < s->end && *s->at != '"') {
        if (*s->at == '\\') {
            status = read_escape(s, &to);
            continue;
        }
        const int length = (unsigned char)*s->at < 0x20 ? 0 : utf8_length(s->at, s->end);
        if (length == 0)
            return json_refuse(s, s->at, "a control character in a text, or a letter that is not UTF-8");
        memmove(to, s->at, (size_t)length);
        to += length;
        s->at += length;
    }
    if (status != BRASA_OK)
        return status;
    if (s->at == s->end)
        return json_refuse(s, start - 1, "a text that does not end");
    s->at++;
    *to = '\0'; /* at the latest where the closing quote was */
    *out = start;
    return BRASA_OK;
}

/* --- numbers, lists, objects --------------------------------------------------------------------------------- */

brasa_status json_read_number(json_scan *s, uint64_t *out)
{
    const char first = json_peek(s), *start = s->at;
    *out = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        const uint64_t digit = (uint64_t)(*s->at - '0');
        if (*out > (JSON_MOST - digit) / 10)
            return json_refuse(s, start, "a number that is too large");
        *out = *out * 10 + digit;
    }
    const char after = s->at < s->end ? *s->at : '\0';
    if (s->at == start || (first == '0' && s->at > start + 1) || after == '.' || after == 'e' || after == 'E')
        return json_refuse(s, start, "expected a whole number without sign, fraction, exponent or leading zero");
    return BRASA_OK;
}

brasa_status json_read_numbers(json_scan *s, uint64_t *out, int most, int *count)
{
    *count = 0;
    brasa_status status = json_expect(s, '[');
    if (status == BRASA_OK && json_peek(s) == ']') {
        s->at++;
        return BRASA_OK;
    }
    while (status == BRASA_OK) {
        if (*count == most)
            return json_refuse(s, s->at, "more numbers than there may be here");
        if ((status = json_read_number(s, &out[(*count)++])) != BRASA_OK)
            return status;
        if (json_peek(s) != ',')
            return json_expect(s, ']');
        s->at++;
    }
    return status;
}

/* strtod would take blanks, "inf" and hexadecimal, too; and it would not know where to stop. */
brasa_status json_read_real(json_scan *s, double *out)
{
    char text[64], *end;
    json_peek(s);
    const char *start = s->at;
    size_t length = 0;
    for (; s->at < s->end && length + 1 < sizeof text && *s->at && strchr("+-.0123456789eE", *s->at); s->at++)
        text[length++] = *s->at;
    text[length] = '\0';
    const numeric_state locale = numeric_enter();
    *out = strtod(text, &end);
    numeric_leave(locale);
    if (length == 0 || *end || !isfinite(*out))
        return json_refuse(s, start, "expected a number");
    return BRASA_OK;
}

static bool take_word(json_scan *s, const char *word)
{
    const size_t length = strlen(word);
    json_peek(s);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0)
        return false;
    s->at += length;
    return true;
}

brasa_status json_read_bool(json_scan *s, bool *out)
{
    *out = take_word(s, "true");
    return *out || take_word(s, "false") ? BRASA_OK : json_refuse(s, s->at, "expected true or false");
}

brasa_status json_read_list(json_scan *s, brasa_status (*element)(json_scan *s, void *user), void *user)
{
    brasa_status status = json_expect(s, '[');
    if (status == BRASA_OK && json_peek(s) == ']') {
        s->at++;
        return BRASA_OK;
    }
    while (status == BRASA_OK && (status = element(s, user)) == BRASA_OK) {
        if (json_peek(s) != ',')
            return json_expect(s, ']');
        s->at++;
    }
    return status;
}

static brasa_status skip_member(json_scan *s, char *key, void *user);

static brasa_status skip_element(json_scan *s, void *user)
{
    int *depth = user;
    char *text;
    double number;
    const char first = json_peek(s);
    if (*depth == JSON_DEEP)
        return json_refuse(s, s->at, "objects and lists nest too deep here");
    if (first == '"')
        return json_read_text(s, &text);
    if (take_word(s, "true") || take_word(s, "false") || take_word(s, "null"))
        return BRASA_OK;
    if (first != '{' && first != '[')
        return json_read_real(s, &number);
    ++*depth;
    brasa_status status =
        first == '[' ? json_read_list(s, skip_element, depth) : json_read_object(s, skip_member, depth);
    --*depth;
    return status;
}

static brasa_status skip_member(json_scan *s, char *key, void *user)
{
    (void)key;
    return skip_element(s, user);
}

brasa_status json_skip(json_scan *s)
{
    int depth = 0;
    return skip_element(s, &depth);
}

brasa_status json_read_object(json_scan *s, brasa_status (*member)(json_scan *s, char *key, void *user), void *user)
{
    brasa_status status = json_expect(s, '{');
    if (status == BRASA_OK && json_peek(s) == '}') {
        s->at++;
        return BRASA_OK;
    }
    while (status == BRASA_OK) {
        char *key;
        if ((status = json_read_text(s, &key)) != BRASA_OK || (status = json_expect(s, ':')) != BRASA_OK ||
            (status = member(s, key, user)) != BRASA_OK)
            return status;
        if (json_peek(s) != ',')
            return json_expect(s, '}');
        s->at++;
    }
    return status;
}
