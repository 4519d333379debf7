/* fields.c - reading and writing attributes as text. */
#include "core/fields.h"
#include "core/nearest.h"
#include "core/numeric.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 32, MAX_WORD = 160 };

/* One number at the start of *text; moves past it. */
static bool read_real(const char **text, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(*text, &end);
    /* strtod would skip blanks and take "inf", "nan" and hexadecimal: none of them is a setting. */
    if (end == *text || !isfinite(*out) || strspn(*text, "+-.0123456789eE") < (size_t)(end - *text))
        return false;
    *text = end;
    return true;
}

static bool read_int(const char **text, int *out)
{
    double value;
    if (!read_real(text, &value) || value != floor(value) || fabs(value) > INT_MAX)
        return false;
    *out = (int)value;
    return true;
}

static bool in_range(const field *f, double value)
{
    return (f->low == 0 && f->high == 0) || (value >= f->low && value <= f->high);
}

/* Digits: strtod would take the "0x3" of a pair for a hexadecimal number. */
static bool read_size(const char **text, int *out)
{
    const size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > 9)
        return false;
    *out = (int)strtol(*text, NULL, 10);
    *text += digits;
    return true;
}

/* "3" or "3x5". */
static bool read_pair(const char **text, int *h, int *w)
{
    if (!read_size(text, h))
        return false;
    *w = *h;
    if (**text != 'x')
        return true;
    ++*text;
    return read_size(text, w);
}

static bool read_pads(const char *text, pads *p)
{
    *p = (pads){.same = strcmp(text, "same") == 0};
    if (p->same || strcmp(text, "valid") == 0)
        return true;
    if (strchr(text, ',')) {
        int *side[] = {&p->top, &p->left, &p->bottom, &p->right};
        for (int i = 0; i < 4; i++)
            if (!read_int(&text, side[i]) || *text++ != (i < 3 ? ',' : '\0'))
                return false;
    } else {
        if (!read_pair(&text, &p->top, &p->left) || *text)
            return false;
        p->bottom = p->top;
        p->right = p->left;
    }
    const int most = 1 << 20;
    return p->top >= 0 && p->left >= 0 && p->bottom >= 0 && p->right >= 0 && p->top < most && p->left < most &&
           p->bottom < most && p->right < most;
}

static bool read_reals(const field *f, const char *text, reals *r)
{
    r->count = 0;
    do {
        if (r->count == MAX_REALS || !read_real(&text, &r->value[r->count]) || !in_range(f, r->value[r->count]))
            return false;
        r->count++;
    } while (*text++ == ',');
    return text[-1] == '\0';
}

static bool read_bool(const char *text, bool *out)
{
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *out = strcmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static bool read_field(const field *f, void *attr, const char *text)
{
    void *at = (char *)attr + f->offset;
    switch (f->type) {
    case FIELD_INT:
        return read_int(&text, at) && !*text && in_range(f, *(int *)at);
    case FIELD_REAL:
        return read_real(&text, at) && !*text && in_range(f, *(double *)at);
    case FIELD_BOOL:
        return read_bool(text, at);
    case FIELD_PAIR: {
        pair *p = at;
        return read_pair(&text, &p->h, &p->w) && !*text && in_range(f, p->h) && in_range(f, p->w);
    }
    case FIELD_PADS:
        return read_pads(text, at);
    case FIELD_REALS:
        return read_reals(f, text, at);
    case FIELD_WORD:
        for (int i = 0; f->words[i]; i++) {
            if (strcmp(f->words[i], text) == 0) {
                *(int *)at = i;
                return true;
            }
        }
    }
    return false;
}

/* What a field takes, for messages: "a number from 1 to 65536". */
static void describe(const field *f, char *out, size_t size)
{
    static const char *const kinds[] = {
        [FIELD_INT] = "a whole number",
        [FIELD_REAL] = "a number",
        [FIELD_BOOL] = "yes or no",
        [FIELD_PAIR] = "a size such as 3 or 3x5",
        [FIELD_PADS] = "valid, same, 1, 1x2 or top,left,bottom,right",
        [FIELD_REALS] = "numbers with commas between them",
        [FIELD_WORD] = "one of",
    };
    size_t used = (size_t)snprintf(out, size, "%s", kinds[f->type]);
    if (f->low != 0 || f->high != 0) {
        snprintf(out + used, size - used, f->high < 1e15 ? " from %.10g to %.10g" : " of at least %.10g", f->low,
                 f->high);
    } else if (f->type == FIELD_WORD) {
        for (int i = 0; f->words[i] && used < size; i++)
            used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : " ", f->words[i]);
    }
}

static brasa_status refuse(brasa_context *ctx, const char *what, const field *f, const char *text)
{
    char expected[256];
    describe(f, expected, sizeof expected);
    return fail(ctx, BRASA_BAD_ARGUMENT, "%s: %s: expected %s, got '%s'", what, f->name, expected, text);
}

static const field *find(const field *list, const char *name, size_t length)
{
    for (const field *f = list; f->name; f++)
        if (strlen(f->name) == length && memcmp(f->name, name, length) == 0)
            return f;
    return NULL;
}

/* The next positional field that has not been given. */
static const field *next_positional(const field *list, const bool *given)
{
    for (const field *f = list; f->name; f++)
        if (f->positional && !given[f - list])
            return f;
    return NULL;
}

static brasa_status parse_word(brasa_context *ctx, const char *what, const field *list, void *attr, bool *given,
                               const char *word)
{
    const char *equals = strchr(word, '=');
    const field *f = find(list, word, equals ? (size_t)(equals - word) : strlen(word));
    const char *value = equals ? equals + 1 : word;
    if (!equals) {
        if (f && f->type == FIELD_BOOL)
            value = "yes";
        else
            f = next_positional(list, given);
    }
    if (!f) {
        char name[MAX_WORD];
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word) : (int)strlen(word), word);
        nearest n = {.word = name};
        for (const field *c = list; c->name; c++)
            nearest_offer(&n, c->name);
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s: unknown setting '%s'%s", what, name, nearest_hint(&n).text);
    }
    if (given[f - list])
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s: %s is given twice", what, f->name);
    given[f - list] = true;
    return read_field(f, attr, value) ? BRASA_OK : refuse(ctx, what, f, value);
}

void fields_set_defaults(const field *list, void *attr)
{
    const numeric_state locale = numeric_enter();
    for (const field *f = list; f->name; f++)
        if (f->initial)
            read_field(f, attr, f->initial);
    numeric_leave(locale);
}

static brasa_status parse_all(brasa_context *ctx, const char *what, const field *list, void *attr, const char *text)
{
    bool given[MAX_FIELDS] = {false};
    while (*(text += strspn(text, " \t"))) {
        char word[MAX_WORD];
        size_t length = strcspn(text, " \t");
        if (length >= sizeof word)
            return fail(ctx, BRASA_BAD_ARGUMENT, "%s: a word of %zu letters is too long", what, length);
        memcpy(word, text, length);
        word[length] = '\0';
        text += length;
        brasa_status status = parse_word(ctx, what, list, attr, given, word);
        if (status != BRASA_OK)
            return status;
    }
    for (const field *f = list; f->name; f++) {
        if (!f->initial && !given[f - list])
            return fail(ctx, BRASA_BAD_ARGUMENT, "%s: %s is missing: %s", what, f->name, f->help);
    }
    return BRASA_OK;
}

brasa_status fields_parse(brasa_context *ctx, const char *what, const field *list, void *attr, const char *text)
{
    const numeric_state locale = numeric_enter();
    brasa_status status = parse_all(ctx, what, list, attr, text);
    numeric_leave(locale);
    return status;
}

void field_to_json(json *j, const field *f, const void *attr)
{
    const void *at = (const char *)attr + f->offset;
    char text[96];
    switch (f->type) {
    case FIELD_INT:
        json_int(j, f->name, *(const int *)at);
        break;
    case FIELD_REAL:
        json_real(j, f->name, *(const double *)at);
        break;
    case FIELD_BOOL:
        json_bool(j, f->name, *(const bool *)at);
        break;
    case FIELD_PAIR: {
        const pair *p = at;
        snprintf(text, sizeof text, "%dx%d", p->h, p->w);
        json_text(j, f->name, text);
        break;
    }
    case FIELD_PADS: {
        const pads *p = at;
        snprintf(text, sizeof text, "%d,%d,%d,%d", p->top, p->left, p->bottom, p->right);
        json_text(j, f->name, text);
        break;
    }
    case FIELD_REALS: {
        const reals *r = at;
        json_open(j, f->name, '[');
        for (int i = 0; i < r->count; i++)
            json_real(j, NULL, r->value[i]);
        json_close(j, ']');
        break;
    }
    case FIELD_WORD:
        json_text(j, f->name, f->words[*(const int *)at]);
        break;
    }
}

void fields_to_json(json *j, const field *list, const void *attr)
{
    for (const field *f = list; f->name; f++)
        field_to_json(j, f, attr);
}

static void print_pads(const pads *p, char *out, size_t size)
{
    if (p->same)
        snprintf(out, size, "same");
    else if (p->top == p->left && p->top == p->bottom && p->top == p->right)
        snprintf(out, size, p->top ? "%d" : "valid", p->top);
    else
        snprintf(out, size, "%d,%d,%d,%d", p->top, p->left, p->bottom, p->right);
}

static void print_reals(const reals *r, char *out, size_t size)
{
    char text[COUNT_TEXT];
    size_t used = 0;
    for (int i = 0; i < r->count && used < size; i++) {
        numeric_number(r->value[i], text);
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? "," : "", text);
    }
}

/* The field's value as model files have it. */
static void print_value(const field *f, const void *at, char *out, size_t size)
{
    const pair *p = at;
    char text[COUNT_TEXT];
    switch (f->type) {
    case FIELD_INT:
        snprintf(out, size, "%d", *(const int *)at);
        break;
    case FIELD_REAL:
        numeric_number(*(const double *)at, text);
        snprintf(out, size, "%s", text);
        break;
    case FIELD_BOOL:
        snprintf(out, size, "%s", *(const bool *)at ? "yes" : "no");
        break;
    case FIELD_PAIR:
        snprintf(out, size, p->h == p->w ? "%d" : "%dx%d", p->h, p->w);
        break;
    case FIELD_PADS:
        print_pads(at, out, size);
        break;
    case FIELD_REALS:
        print_reals(at, out, size);
        break;
    case FIELD_WORD:
        snprintf(out, size, "%s", f->words[*(const int *)at]);
        break;
    }
}

void field_describe(const field *f, const void *attr, brasa_field *out)
{
    static const char *const types[] = {
        [FIELD_INT] = "int",      [FIELD_REAL] = "real",   [FIELD_BOOL] = "bool",   [FIELD_PAIR] = "size",
        [FIELD_PADS] = "padding", [FIELD_REALS] = "reals", [FIELD_WORD] = "choice",
    };
    *out = (brasa_field){.size = sizeof *out,
                         .name = f->name,
                         .help = f->help,
                         .choices = f->words,
                         .type = types[f->type],
                         .required = !f->initial,
                         .positional = f->positional,
                         .limited = f->low != 0 || f->high != 0,
                         .low = f->low,
                         .high = f->high};
    const numeric_state locale = numeric_enter();
    if (f->initial && attr)
        print_value(f, (const char *)attr + f->offset, out->value, sizeof out->value);
    else if (f->initial)
        snprintf(out->value, sizeof out->value, "%s", f->initial);
    numeric_leave(locale);
}

static size_t field_size(field_type type)
{
    static const size_t sizes[] = {
        [FIELD_INT] = sizeof(int),   [FIELD_REAL] = sizeof(double), [FIELD_BOOL] = sizeof(bool),
        [FIELD_PAIR] = sizeof(pair), [FIELD_PADS] = sizeof(pads),   [FIELD_REALS] = sizeof(reals),
        [FIELD_WORD] = sizeof(int),
    };
    return sizes[type];
}

bool fields_equal(const field *list, const void *a, const void *b)
{
    for (const field *f = list; f->name; f++) {
        const char *pa = (const char *)a + f->offset, *pb = (const char *)b + f->offset;
        if (memcmp(pa, pb, field_size(f->type)) != 0)
            return false; /* attribute structs start zeroed, so padding compares equal */
    }
    return true;
}
