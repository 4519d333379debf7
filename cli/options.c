/* options.c - see options.h. */
#include "options.h"

#include "core/nearest.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(options, member)

const option_def option_table[] = {
    {"batch", OPTION_INT, AT(batch), 1, 65536, "N", "samples in a step (32)", "32"},
    {"classes", OPTION_INT, AT(classes), 1, 1000000, "N", "classes of the last layer (the model's own)", NULL},
    {"dialect", OPTION_TEXT, AT(dialect), 0, 0, "NAME", "whose defaults: torch, tfkeras, keras2, caffe (torch)",
     NULL},
    {"eval", OPTION_FLAG, AT(eval), 0, 0, NULL, "the forward pass alone, without labels", NULL},
    {"from", OPTION_TEXT, AT(from), 0, 0, "URL", "a folder of the web to download from (the public one)", NULL},
    {"help", OPTION_FLAG, AT(help), 0, 0, NULL, "this text", NULL},
    {"json", OPTION_FLAG, AT(json), 0, 0, NULL, "JSON in place of text", NULL},
    {"markdown", OPTION_FLAG, AT(markdown), 0, 0, NULL, "a Markdown page in place of text", NULL},
    {"no-fusion", OPTION_FLAG, AT(no_fusion), 0, 0, NULL, "merge no nodes: each layer runs by itself", NULL},
    {"optimizer", OPTION_TEXT, AT(optimizer), 0, 0, "TEXT", "such as \"sgd lr=0.01 momentum=0.9\" (sgd)", NULL},
    {"profile", OPTION_INT, AT(profile), 1, 1000000, "N", "run N steps on made-up data and show times", NULL},
    {"quiet", OPTION_FLAG, AT(quiet), 0, 0, NULL, "no progress on the terminal", NULL},
    {"seconds", OPTION_REAL, AT(seconds), 0, 3600, "S", "measure for about S seconds", NULL},
    {"seed", OPTION_INT, AT(seed), 0, INT64_MAX, "N", "of weights, dropout and made-up data (0)", NULL},
    {"steps", OPTION_INT, AT(steps), 5, 1000000, "N", "measure N steps in place of a time", NULL},
    {"sum", OPTION_TEXT, AT(sum), 0, 0, "MODEL", "the kernels of a network, each timed alone, and their sum", NULL},
    {"threads", OPTION_INT, AT(threads), 1, 1024, "N", "threads in all (all that may be used)", NULL},
    {0},
};

static void *member(options *o, const option_def *def)
{
    return (char *)o + def->offset;
}

/* The table is short: looking through it is quicker than being clever. */
static const option_def *find(const char *name, size_t length)
{
    for (const option_def *def = option_table; def->name; def++)
        if (strlen(def->name) == length && memcmp(def->name, name, length) == 0)
            return def;
    return NULL;
}

bool option_taken(const char *names, const option_def *def)
{
    size_t length = strlen(def->name);
    for (const char *at = names; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, def->name, length) == 0)
            return true;
        at += word;
    }
    return strcmp(def->name, "help") == 0;
}

/* Digits only: strtoll and strtod would take blanks, "inf" and hexadecimal too. */
static bool read_int(const option_def *def, const char *text, int64_t *out)
{
    size_t digits = strspn(text, "-0123456789");
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return digits && !text[digits] && end == text + digits && !errno && *out >= def->low && *out <= def->high;
}

static bool read_real(const option_def *def, const char *text, double *out)
{
    size_t digits = strspn(text, "+-.0123456789eE");
    char *end;
    *out = strtod(text, &end);
    return digits && !text[digits] && end == text + digits && isfinite(*out) && *out >= (double)def->low &&
           *out <= (double)def->high;
}

static bool read_value(options *o, const option_def *def, const char *text)
{
    switch (def->type) {
    case OPTION_FLAG:
        *(bool *)member(o, def) = true;
        return true;
    case OPTION_INT:
        return read_int(def, text, member(o, def));
    case OPTION_REAL:
        return read_real(def, text, member(o, def));
    case OPTION_TEXT:
        *(const char **)member(o, def) = text;
        return *text != '\0';
    }
    return false;
}

static bool refuse_value(char *error, const option_def *def, const char *text)
{
    char expected[80] = "a text";
    if (def->type == OPTION_FLAG)
        snprintf(expected, sizeof expected, "no value");
    else if (def->type != OPTION_TEXT && def->high == INT64_MAX)
        snprintf(expected, sizeof expected, "a number of at least %" PRId64, def->low);
    else if (def->type != OPTION_TEXT)
        snprintf(expected, sizeof expected, "a number from %" PRId64 " to %" PRId64, def->low, def->high);
    snprintf(error, OPTIONS_ERROR_SIZE, "--%s: expected %s, got %.100s", def->name, expected,
             text && *text ? text : "nothing");
    return false;
}

static bool refuse_name(char *error, const char *names, const char *arg)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
    const char *bare = name + strspn(name, "-");
    nearest n = {.word = bare};
    for (const option_def *def = option_table; def->name; def++)
        if (option_taken(names, def))
            nearest_offer(&n, def->name);
    const char *found = nearest_found(&n);
    if (found)
        snprintf(error, OPTIONS_ERROR_SIZE, "unknown option '%s', did you mean '--%s'?", name, found);
    else
        snprintf(error, OPTIONS_ERROR_SIZE, "unknown option '%s'", name);
    return false;
}

/* One option at argv[*i]; moves *i to its value where that is a word of its own. */
static bool parse_option(options *o, const char *names, int argc, char **argv, int *i, char *error)
{
    const char *arg = argv[*i];
    if (strcmp(arg, "-h") == 0)
        return o->help = true;
    const char *equals = strchr(arg, '=');
    const option_def *def = NULL;
    if (arg[1] == '-')
        def = find(arg + 2, equals ? (size_t)(equals - arg - 2) : strlen(arg + 2));
    if (!def || !option_taken(names, def))
        return refuse_name(error, names, arg);

    const char *text = equals ? equals + 1 : NULL;
    if (def->type == OPTION_FLAG)
        return text ? refuse_value(error, def, text) : read_value(o, def, NULL);
    if (!text && *i + 1 < argc)
        text = argv[++*i];
    return (text && read_value(o, def, text)) || refuse_value(error, def, text);
}

bool options_parse(options *out, const char *names, int argc, char **argv, char error[OPTIONS_ERROR_SIZE])
{
    *out = (options){.seconds = -1};
    for (const option_def *def = option_table; def->name; def++)
        if (def->initial)
            read_value(out, def, def->initial);

    bool ended = false;
    for (int i = 0; i < argc; i++) {
        if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
        } else if (!ended && argv[i][0] == '-' && argv[i][1]) {
            if (!parse_option(out, names, argc, argv, &i, error))
                return false;
        } else if (out->words < MAX_WORDS) {
            out->word[out->words++] = argv[i];
        } else {
            snprintf(error, OPTIONS_ERROR_SIZE, "unexpected '%.100s'", argv[i]);
            return false;
        }
    }
    return true;
}
