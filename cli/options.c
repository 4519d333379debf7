/* options.c - see options.h. */
#include "options.h"

#include "core/nearest.h"
#include "train/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(options, member)

const option_def option_table[] = {
    {"batch", OPTION_INT, AT(batch), 1, 65536, "N", "samples in a step (32)", "32"},
    {"class-weights", OPTION_TEXT, AT(class_weights), 0, 0, "W",
     "what classes count in the loss: balanced, or 1,2.5,...", NULL},
    {"classes", OPTION_INT, AT(classes), 1, 1000000, "N", "classes of the last layer (the model's own)", NULL},
    {"clip-norm", OPTION_REAL, AT(clip_norm), 0, 1000000, "X", "scale gradients down to this norm (not at all)",
     NULL},
    {"csv", OPTION_FLAG, AT(csv), 0, 0, NULL, "a line of commas for each run in place of text", NULL},
    {"data", OPTION_TEXT, AT(data), 0, 0, "SPEC", "images:DIR, idx:DIR, csv:FILE, synth:fire, ...", NULL},
    {"deterministic", OPTION_FLAG, AT(deterministic), 0, 0, NULL, "the same bits with any number of threads", NULL},
    {"device", OPTION_TEXT, AT(device), 0, 0, "NAME", "what computes: cpu, cuda or cuda:N, a GPU's number (cpu)",
     NULL},
    {"dialect", OPTION_TEXT, AT(dialect), 0, 0, "NAME", "whose defaults: torch, tfkeras, keras2, caffe (torch)",
     NULL},
    {"epochs", OPTION_INT, AT(epochs), 1, 1000000, "N", "how often all samples are trained on (10)", NULL},
    {"eval", OPTION_FLAG, AT(eval), 0, 0, NULL, "the forward pass alone, without labels", NULL},
    {"fold", OPTION_INT, AT(fold), 1, 1000, "K", "this fold alone", NULL},
    {"folds", OPTION_INT, AT(folds), 2, 1000, "N", "train N times, each N-th of the samples tests once", NULL},
    {"freeze", OPTION_TEXT, AT(freeze), 0, 0, "NAMES", "parameters that stay: \"features.*, fc1.*\"", NULL},
    {"from", OPTION_TEXT, AT(from), 0, 0, "URL", "a folder of the web to download from (the public one)", NULL},
    {"help", OPTION_FLAG, AT(help), 0, 0, NULL, "this text", NULL},
    {"json", OPTION_FLAG, AT(json), 0, 0, NULL, "JSON in place of text", NULL},
    {"keep", OPTION_TEXT, AT(keep), 0, 0, "WHAT", "weights: best or last; N: N epochs' checkpoints, too", NULL},
    {"kernels", OPTION_TEXT, AT(kernels), 0, 0, "TEXT", "those whose name holds TEXT, where there are any", NULL},
    {"markdown", OPTION_FLAG, AT(markdown), 0, 0, NULL, "a Markdown page in place of text", NULL},
    {"mem", OPTION_BYTES, AT(mem), 1, INT64_MAX, "SIZE", "memory to stay within: 800M, 2G (10^9 bytes), 2Gi (2^30)",
     NULL},
    {"no-augment", OPTION_FLAG, AT(no_augment), 0, 0, NULL, "pictures neither mirrored nor cut at random", NULL},
    {"no-fusion", OPTION_FLAG, AT(no_fusion), 0, 0, NULL, "merge no nodes: each layer runs by itself", NULL},
    {"no-shuffle", OPTION_FLAG, AT(no_shuffle), 0, 0, NULL, "split samples in their own order", NULL},
    {"no-stratify", OPTION_FLAG, AT(no_stratify), 0, 0, NULL, "split without regard to classes", NULL},
    {"no-tune", OPTION_FLAG, AT(no_tune), 0, 0, NULL, "the first kernel that fits, without timing others", NULL},
    {"optimizer", OPTION_TEXT, AT(optimizer), 0, 0, "TEXT", "such as adam (\"" TRAIN_OPTIMIZER "\")", NULL},
    {"out", OPTION_TEXT, AT(out), 0, 0, "DIR", "the run's folder, new or empty (runs/<date>-<model>-<n>)", NULL},
    {"patience", OPTION_INT, AT(patience), 1, 1000000, "N", "stop after N epochs without a better one", NULL},
    {"peers", OPTION_TEXT, AT(peers), 0, 0, "WHO", "all, or NAME[:VARIANT][=PYTHON] with commas between them (all)",
     NULL},
    {"precision", OPTION_TEXT, AT(precision), 0, 0, "NAME", "of a GPU: f32, tf32 or bf16 (f32)", NULL},
    {"preset", OPTION_TEXT, AT(preset), 0, 0, "NAME",
     "an experiment of the studies: mnist, cifar10, cifar100, letter, fire-small, fire-big", NULL},
    {"price-per-hour", OPTION_REAL, AT(price_per_hour), 0, 1000000, "X",
     "what an hour of this machine costs: tells what epochs and images cost", NULL},
    {"profile", OPTION_INT, AT(profile), 1, 1000000, "[N]", "time each node and kernel in N steps (10)", NULL, "10"},
    {"quiet", OPTION_FLAG, AT(quiet), 0, 0, NULL, "no progress on the terminal", NULL},
    {"remove", OPTION_FLAG, AT(remove), 0, 0, NULL, "take them away again", NULL},
    {"resume", OPTION_TEXT, AT(resume), 0, 0, "RUN", "go on with a run that was stopped", NULL},
    {"retry", OPTION_FLAG, AT(retry), 0, 0, NULL, "make rows again that came to nothing", NULL},
    {"save-every", OPTION_REAL, AT(save_every), 0, 1000000, "S", "seconds between checkpoints; 0: one an epoch (300)",
     NULL},
    {"scale", OPTION_TEXT, AT(scale), 0, 0, "SIZE", "full, or small: minutes on two cores (full)", NULL},
    {"schedule", OPTION_TEXT, AT(schedule), 0, 0, "TEXT", "of the rate, such as cosine or \"step every=1000\"", NULL},
    {"seconds", OPTION_REAL, AT(seconds), 0, 3600, "S", "measure for about S seconds", NULL},
    {"seed", OPTION_INT, AT(seed), 0, INT64_MAX, "N", "of weights, dropout and made-up data (0)", NULL},
    {"skip-bad", OPTION_FLAG, AT(skip_bad), 0, 0, NULL, "leave out pictures that cannot be read, and list them",
     NULL},
    {"split", OPTION_TEXT, AT(split), 0, 0, "HOW", "70/30, parts (as the set comes) or all", NULL},
    {"steps", OPTION_INT, AT(steps), 1, 1000000, "N", "measure N steps in place of a time", NULL},
    {"store", OPTION_TEXT, AT(store), 0, 0, "FILE", "where the lab keeps its results (lab.db)", "lab.db"},
    {"sum", OPTION_TEXT, AT(sum), 0, 0, "MODEL", "the kernels of a network, each timed alone, and their sum", NULL},
    {"threads", OPTION_INT, AT(threads), 1, 1024, "N", "threads in all (all that may be used)", NULL},
    {"top", OPTION_INT, AT(top), 1, 1000000, "N", "show the N likeliest classes (3)", "3"},
    {"transform", OPTION_TEXT, AT(transform), 0, 0, "TEXT", "such as \"resize=256 crop=224 flip=horizontal\"", NULL},
    {"tuned", OPTION_FLAG, AT(tuned), 0, 0, NULL, "time kernels, and show what each took", NULL},
    {"weights", OPTION_TEXT, AT(weights), 0, 0, "FILE", "safetensors to start from", NULL},
    {"yes", OPTION_FLAG, AT(yes), 0, 0, NULL, "ask nothing", NULL},
    {0},
};

_Static_assert(sizeof option_table / sizeof option_table[0] <= 64, "a bit for each in options.given");

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

bool option_given(const options *o, const char *name)
{
    const option_def *def = find(name, strlen(name));
    return def && o->given >> (def - option_table) & 1;
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

/* "2G", "1.5Gi", "800MB", "123456". */
static bool read_bytes(const option_def *def, const char *text, int64_t *out)
{
    static const char units[] = "KMGT";
    size_t digits = strspn(text, ".0123456789");
    char *end;
    double value = strtod(text, &end);
    if (!digits || end != text + digits)
        return false;
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        const bool binary = end[1] == 'i';
        value *= pow(binary ? 1024 : 1000, (double)(unit - units + 1));
        end += binary ? 2 : 1;
    }
    end += *end == 'B';
    if (*end || value < (double)def->low || value >= (double)def->high)
        return false;
    *out = (int64_t)value;
    return true;
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
    case OPTION_BYTES:
        return read_bytes(def, text, member(o, def));
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
    else if (def->type == OPTION_BYTES)
        snprintf(expected, sizeof expected, "a size such as 800M, 2G or 2Gi");
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

    o->given |= UINT64_C(1) << (def - option_table);
    const char *text = equals ? equals + 1 : NULL;
    if (def->type == OPTION_FLAG)
        return text ? refuse_value(error, def, text) : read_value(o, def, NULL);
    const bool bare = def->bare && (*i + 1 >= argc || !strchr("0123456789-", argv[*i + 1][0]) ||
                                    strncmp(argv[*i + 1], "--", 2) == 0);
    if (!text && bare)
        text = def->bare;
    else if (!text && *i + 1 < argc)
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
