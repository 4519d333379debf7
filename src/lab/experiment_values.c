/* experiment_values.c - the fields there are, and what may stand behind each one's name: see experiment.h. */
#include "core/nearest.h"
#include "core/numeric.h"
#include "core/threads.h"
#include "data/dataset.h"
#include "lab/experiment_parts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const experiment_field experiment_fields[KEYS] = {
    [KEY_TITLE] = {"title", LINE, 1, .takes = "what the report is headed with"},
    [KEY_VIEW] = {"view", ONE_OF, 1, .words = "times batches resources threads size accuracy",
                  .takes = "what the report shows: times, batches, resources, threads, size or accuracy (times)"},
    [KEY_NETWORK] = {"network", NETWORKS, EXPERIMENT_LIST, .takes = "names of models, or paths of .net files"},
    [KEY_DATA] = {"data", SETS, EXPERIMENT_LIST,
                  .takes = "data sets, such as synth:fire,n=791; NAME=SPEC lets --data replace it"},
    [KEY_BATCH] = {"batch", NUMBERS, EXPERIMENT_LIST, 1, 65536, .takes = "samples in a step: numbers (32)"},
    [KEY_THREADS] = {"threads", NUMBERS, EXPERIMENT_LIST, 1, MOST_THREADS, "all",
                     "threads of a run: numbers, all, 1..all (all)"},
    [KEY_DEVICE] = {"device", SOME_OF, EXPERIMENT_LIST, .words = "cpu cuda", .takes = "cpu, cuda or both (cpu)"},
    [KEY_PRECISION] = {"precision", SOME_OF, EXPERIMENT_LIST, .words = "f32 tf32 bf16",
                       .takes = "of a GPU: f32, tf32, bf16 (f32)"},
    [KEY_OPTIMIZER] = {"optimizer", LINE, 1, .takes = "as in brasa train (sgd lr=0.01 momentum=0.9)"},
    [KEY_DIALECT] = {"dialect", LINE, 1, .takes = "whose equations: torch, tfkeras, keras2, caffe (torch)"},
    [KEY_TRANSFORM] = {"transform", LINE, 1, .takes = "as in brasa train (what network and data ask for)"},
    [KEY_SPLIT] = {"split", LINE, 1, .takes = "all, parts or 70/30 (all)"},
    [KEY_FOLDS] = {"folds", NUMBERS, 1, 2, 1000, .takes = "train N times, each N-th of the samples tests once"},
    [KEY_EPOCHS] = {"epochs", NUMBERS, 1, 1, 100000, .takes = "of a run (2)"},
    [KEY_REPEATS] = {"repeats", NUMBERS, 1, 1, 1000, .takes = "of every run (3)"},
    [KEY_SEED] = {"seed", NUMBERS, 1, 0, 1 << 30,
                  .takes = "of weights and split; of the order it is that of the first repeat (1)"},
    [KEY_LIMIT] = {"limit", NUMBERS, 1, 1, 10000000, .takes = "seconds that a run may take (600)"},
    [KEY_MEM] = {"mem", BYTES, 1, 1 << 20, INT64_MAX / 2, .takes = "bytes that its processes may have: 11G, 800Mi"},
    [KEY_ON] = {"on", ONE_OF, 1, .words = "doubling", .takes = "doubling: from the last batch on, until a run fails"},
    [KEY_PROFILE] = {"profile", ONE_OF, 1, .words = "yes no",
                     .takes = "yes: after the epochs, which functions take the time (no)"},
};

bool experiment_field_at(int index, const char **name, const char **takes)
{
    if (index < 0 || index >= KEYS)
        return false;
    *name = experiment_fields[index].name;
    *takes = experiment_fields[index].takes;
    return true;
}

/* --- words ----------------------------------------------------------------------------------------------------- */

/* Whether `words` holds the word; offers them all to `n`. */
static bool one_of(const char *words, const char *word, nearest *n, char (*copies)[16])
{
    size_t length;
    bool found = false;
    for (int i = 0; *words; words += length + (words[length] == ' '), i++) {
        length = strcspn(words, " ");
        snprintf(copies[i], sizeof copies[i], "%.*s", (int)length, words);
        nearest_offer(n, copies[i]);
        found = found || strcmp(copies[i], word) == 0;
    }
    return found;
}

static brasa_status check_word(experiment_list *l, const char *word)
{
    char copies[8][16], expected[128];
    nearest n = {.word = word};
    if (one_of(l->f->words, word, &n, copies))
        return BRASA_OK;
    snprintf(expected, sizeof expected, "%s", l->f->words);
    for (char *blank; (blank = strchr(expected, ' '));)
        *blank = '|';
    return fail(l->ctx, BRASA_BAD_FILE, "expected %s, got '%.60s'%s", expected, word, nearest_hint(&n).text);
}

static brasa_status check_network(experiment_list *l, const char *word)
{
    brasa_model_info info = {.size = sizeof info};
    nearest n = {.word = word};
    const size_t length = strlen(word);
    if (length > 4 && strcmp(word + length - 4, ".net") == 0)
        return BRASA_OK;
    for (int i = 0; brasa_model_at(i, &info); i++) {
        if (strcmp(info.name, word) == 0)
            return BRASA_OK;
        nearest_offer(&n, info.name);
    }
    return fail(l->ctx, BRASA_BAD_FILE, "expected a model's name or a .net file, got '%.60s'%s", word,
                nearest_hint(&n).text);
}

/* "NAME=SPEC", or "SPEC" alone; *word becomes the set that counts. */
static brasa_status check_set(experiment_list *l, const char **word)
{
    brasa_context *ctx = l->ctx;
    const size_t length = strcspn(*word, "=:");
    if ((*word)[length] == '=') {
        const char *spec = *word + length + 1;
        for (int i = 0; i < l->ngiven; i++) {
            experiment_given *g = &l->given[i];
            if (strlen(g->name) == length && memcmp(g->name, *word, length) == 0) {
                g->used = true;
                spec = g->spec;
            }
        }
        *word = spec;
    }
    char source[32];
    const size_t colon = strcspn(*word, ":");
    snprintf(source, sizeof source, "%.*s", (int)colon, *word);
    nearest n = {.word = source};
    for (int i = 0; source_at(i); i++) {
        if ((*word)[colon] && strcmp(source_at(i)->name, source) == 0)
            return BRASA_OK;
        nearest_offer(&n, source_at(i)->name);
    }
    return fail(ctx, BRASA_BAD_FILE, "expected a data set, such as synth:fire,n=791 or images:DIR, got '%.100s'%s",
                *word, (*word)[colon] ? nearest_hint(&n).text : "");
}

static brasa_status add_word(experiment_list *l, const char *word)
{
    brasa_context *ctx = l->ctx;
    brasa_status status = l->f->kind == NETWORKS ? check_network(l, word)
                          : l->f->kind == SETS   ? check_set(l, &word)
                                                 : check_word(l, word);
    if (status != BRASA_OK)
        return status;
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->word[i], word) == 0)
            return BRASA_OK; /* once is enough */
    if (l->count == l->f->most)
        return l->f->most == 1 ? fail(ctx, BRASA_BAD_FILE, "expected one word, got '%.60s' too", word)
                               : fail(ctx, BRASA_BAD_FILE, "more than %d words", l->f->most);
    l->word[l->count++] = word;
    return BRASA_OK;
}

/* --- numbers --------------------------------------------------------------------------------------------------- */

/* A number within the field's range, or `all`, at *text, which moves behind it. */
static bool read_number(const experiment_field *f, const char **text, int64_t *out)
{
    if (f->words && strncmp(*text, f->words, strlen(f->words)) == 0) {
        *text += strlen(f->words);
        *out = threads_available();
        return true;
    }
    char *end;
    errno = 0;
    *out = isdigit((unsigned char)**text) ? strtoll(*text, &end, 10) : -1;
    if (*out < 0 || errno || *out < f->low || *out > f->high)
        return false;
    *text = end;
    return true;
}

static bool add_number(experiment_list *l, int64_t number)
{
    for (int i = 0; i < l->count; i++)
        if (l->number[i] == number)
            return true;
    if (l->count == l->f->most)
        return false;
    l->number[l->count++] = number;
    return true;
}

/* FIRST..LAST, the last one included: doubling, or with /STEP in steps. */
static bool add_range(experiment_list *l, int64_t first, int64_t last, int64_t step)
{
    bool fits = last >= first && first > 0;
    for (int64_t at = first; fits && at < last; at = step ? at + step : at * 2)
        fits = add_number(l, at);
    return fits && add_number(l, last);
}

static bool read_numbers(experiment_list *l, const char *word)
{
    int64_t first, last, step = 0;
    if (!read_number(l->f, &word, &first))
        return false;
    if (!*word)
        return add_number(l, first);
    if (l->f->most == 1 || strncmp(word, "..", 2) != 0)
        return false;
    word += 2;
    if (!read_number(l->f, &word, &last))
        return false;
    if (*word == '/') {
        const experiment_field steps = {.low = 1, .high = l->f->high};
        word++;
        if (!read_number(&steps, &word, &step))
            return false;
    }
    return !*word && add_range(l, first, last, step);
}

static brasa_status add_numbers(experiment_list *l, const char *word)
{
    const experiment_field *f = l->f;
    if (read_numbers(l, word))
        return BRASA_OK;
    if (f->most == 1)
        return fail(l->ctx, BRASA_BAD_FILE, "expected one number from %lld to %lld, got '%.60s'", (long long)f->low,
                    (long long)f->high, word);
    return fail(l->ctx, BRASA_BAD_FILE,
                "expected at most %d numbers from %lld to %lld%s, such as 1 2 4, 1..64 (doubling) or 10..100/10, "
                "got '%.60s'",
                f->most, (long long)f->low, (long long)f->high, f->words ? " or all" : "", word);
}

/* "11G", "1.5Gi", "800M": as the option --mem. */
static brasa_status add_bytes(experiment_list *l, const char *word)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    const numeric_state locale = numeric_enter();
    double value = strspn(word, ".0123456789") ? strtod(word, &end) : -1;
    numeric_leave(locale);
    const char *unit = value >= 0 && *end ? strchr(units, *end) : NULL;
    if (unit) {
        const bool binary = end[1] == 'i';
        value *= pow(binary ? 1024 : 1000, (double)(unit - units + 1));
        end += binary ? 2 : 1;
    }
    if (value < (double)l->f->low || value > (double)l->f->high || *end || l->count)
        return fail(l->ctx, BRASA_BAD_FILE,
                    "expected one size of 1Mi or more, such as 800M, 11G or 2Gi, got "
                    "'%.60s'",
                    word);
    l->number[l->count++] = (int64_t)value;
    return BRASA_OK;
}

/* --- all of them ----------------------------------------------------------------------------------------------- */

brasa_status experiment_add(experiment_list *l, const char *word)
{
    return l->f->kind == NUMBERS ? add_numbers(l, word)
           : l->f->kind == BYTES ? add_bytes(l, word)
                                 : add_word(l, word);
}
