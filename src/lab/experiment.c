/* experiment.c - from text to blocks of settings, each checked where it stands: see experiment.h. */
#include "core/nearest.h"
#include "core/numeric.h"
#include "core/threads.h"
#include "data/dataset.h"
#include "graph/dialect.h"
#include "lab/experiment_parts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 16, MAX_LINE = 1000, MAX_LIST = 128, MAX_NAME = 40, MAX_GIVEN = 16 };

typedef enum kind { LINE, NETWORKS, SETS, NUMBERS, ONE_OF, SOME_OF, BYTES } kind;

typedef struct field_def {
    const char *name;
    kind kind;
    int most;          /* values */
    int64_t low, high; /* of a number */
    const char *words; /* that may stand there, with blanks between them */
    const char *takes; /* for help */
} field_def;

static const field_def fields[KEYS] = {
    [KEY_TITLE] = {"title", LINE, 1, .takes = "what the report is headed with"},
    [KEY_VIEW] = {"view", ONE_OF, 1, .words = "times batches resources threads size accuracy",
                  .takes = "what the report shows: times, batches, resources, threads, size or accuracy (times)"},
    [KEY_NETWORK] = {"network", NETWORKS, MAX_LIST, .takes = "names of models, or paths of .net files"},
    [KEY_DATA] = {"data", SETS, MAX_LIST,
                  .takes = "data sets, such as synth:fire,n=791; NAME=SPEC lets --data replace it"},
    [KEY_BATCH] = {"batch", NUMBERS, MAX_LIST, 1, 65536, .takes = "samples in a step: numbers (32)"},
    [KEY_THREADS] = {"threads", NUMBERS, MAX_LIST, 1, MOST_THREADS, "all",
                     "threads of a run: numbers, all, 1..all (all)"},
    [KEY_DEVICE] = {"device", SOME_OF, MAX_LIST, .words = "cpu cuda", .takes = "cpu, cuda or both (cpu)"},
    [KEY_PRECISION] = {"precision", SOME_OF, MAX_LIST, .words = "f32 bf16 f16", .takes = "f32, bf16, f16 (f32)"},
    [KEY_OPTIMIZER] = {"optimizer", LINE, 1, .takes = "as in brasa train (sgd lr=0.01 momentum=0.9)"},
    [KEY_DIALECT] = {"dialect", LINE, 1, .takes = "whose equations: torch, tfkeras, keras2, caffe (torch)"},
    [KEY_TRANSFORM] = {"transform", LINE, 1, .takes = "as in brasa train (what network and data ask for)"},
    [KEY_SPLIT] = {"split", LINE, 1, .takes = "all, parts or 70/30 (all)"},
    [KEY_FOLDS] = {"folds", NUMBERS, 1, 2, 1000, .takes = "train N times, each N-th of the samples tests once"},
    [KEY_EPOCHS] = {"epochs", NUMBERS, 1, 1, 100000, .takes = "of a run (2)"},
    [KEY_REPEATS] = {"repeats", NUMBERS, 1, 1, 1000, .takes = "of every run (3)"},
    [KEY_SEED] = {"seed", NUMBERS, 1, 0, 1 << 30, .takes = "of weights, split and order (1)"},
    [KEY_LIMIT] = {"limit", NUMBERS, 1, 1, 10000000, .takes = "seconds that a run may take (600)"},
    [KEY_MEM] = {"mem", BYTES, 1, 1 << 20, INT64_MAX / 2, .takes = "bytes that its processes may have: 11G, 800Mi"},
    [KEY_ON] = {"on", ONE_OF, 1, .words = "doubling", .takes = "doubling: from the last batch on, until a run fails"},
};

static const char defaults[] = "view times\nbatch 32\nthreads all\ndevice cpu\nprecision f32\n"
                               "optimizer sgd lr=0.01 momentum=0.9\ndialect torch\nsplit all\nepochs 2\n"
                               "repeats 3\nseed 1\nlimit 600\n";

/* A set given by --data. */
typedef struct given {
    const char *name, *spec;
    bool used;
} given;

typedef struct reader {
    experiment *e;
    experiment_block all; /* what holds for every block */
    experiment_block *at; /* what lines go to */
    int line, capacity;
    given given[MAX_GIVEN];
    int ngiven;
} reader;

/* What the words of one line are read into. */
typedef struct list {
    reader *r;
    const field_def *f;
    const char *word[MAX_LIST];
    int64_t number[MAX_LIST];
    int count;
} list;

bool experiment_field_at(int index, const char **name, const char **takes)
{
    if (index < 0 || index >= KEYS)
        return false;
    *name = fields[index].name;
    *takes = fields[index].takes;
    return true;
}

brasa_status experiment_place(experiment *e, const experiment_block *b, experiment_key key, brasa_status status)
{
    const int line = experiment_get(e, b, key)->line;
    if (status != BRASA_OK)
        fail_prefix(e->ctx, "%.200s:%d: %s", e->where, line ? line : b->line, fields[key].name);
    return status;
}

/* --- words -------------------------------------------------------------------------------------------------------
 */

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

static brasa_status check_word(list *l, const char *word)
{
    char copies[8][16], expected[128];
    nearest n = {.word = word};
    if (one_of(l->f->words, word, &n, copies))
        return BRASA_OK;
    snprintf(expected, sizeof expected, "%s", l->f->words);
    for (char *blank; (blank = strchr(expected, ' '));)
        *blank = '|';
    return fail(l->r->e->ctx, BRASA_BAD_FILE, "expected %s, got '%.60s'%s", expected, word, nearest_hint(&n).text);
}

static brasa_status check_network(list *l, const char *word)
{
    brasa_model_info info;
    nearest n = {.word = word};
    const size_t length = strlen(word);
    if (length > 4 && strcmp(word + length - 4, ".net") == 0)
        return BRASA_OK;
    for (int i = 0; brasa_model_at(i, &info); i++) {
        if (strcmp(info.name, word) == 0)
            return BRASA_OK;
        nearest_offer(&n, info.name);
    }
    return fail(l->r->e->ctx, BRASA_BAD_FILE, "expected a model's name or a .net file, got '%.60s'%s", word,
                nearest_hint(&n).text);
}

/* "NAME=SPEC", or "SPEC" alone; *word becomes the set that counts. */
static brasa_status check_set(list *l, const char **word)
{
    brasa_context *ctx = l->r->e->ctx;
    const size_t length = strcspn(*word, "=:");
    if ((*word)[length] == '=') {
        const char *spec = *word + length + 1;
        for (int i = 0; i < l->r->ngiven; i++) {
            given *g = &l->r->given[i];
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

static brasa_status add_word(list *l, const char *word)
{
    brasa_context *ctx = l->r->e->ctx;
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

/* --- numbers -----------------------------------------------------------------------------------------------------
 */

/* A number within the field's range, or `all`, at *text, which moves behind it. */
static bool read_number(const field_def *f, const char **text, int64_t *out)
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

static bool add_number(list *l, int64_t number)
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
static bool add_range(list *l, int64_t first, int64_t last, int64_t step)
{
    bool fits = last >= first && first > 0;
    for (int64_t at = first; fits && at < last; at = step ? at + step : at * 2)
        fits = add_number(l, at);
    return fits && add_number(l, last);
}

static bool read_numbers(list *l, const char *word)
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
        const field_def steps = {.low = 1, .high = l->f->high};
        word++;
        if (!read_number(&steps, &word, &step))
            return false;
    }
    return !*word && add_range(l, first, last, step);
}

static brasa_status add_numbers(list *l, const char *word)
{
    const field_def *f = l->f;
    if (read_numbers(l, word))
        return BRASA_OK;
    if (f->most == 1)
        return fail(l->r->e->ctx, BRASA_BAD_FILE, "expected one number from %lld to %lld, got '%.60s'",
                    (long long)f->low, (long long)f->high, word);
    return fail(l->r->e->ctx, BRASA_BAD_FILE,
                "expected at most %d numbers from %lld to %lld%s, such as 1 2 4, 1..64 (doubling) or 10..100/10, "
                "got '%.60s'",
                f->most, (long long)f->low, (long long)f->high, f->words ? " or all" : "", word);
}

/* "11G", "1.5Gi", "800M": as the option --mem. */
static brasa_status add_bytes(list *l, const char *word)
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
        return fail(l->r->e->ctx, BRASA_BAD_FILE,
                    "expected one size of 1Mi or more, such as 800M, 11G or 2Gi, got "
                    "'%.60s'",
                    word);
    l->number[l->count++] = (int64_t)value;
    return BRASA_OK;
}

/* --- lines -------------------------------------------------------------------------------------------------------
 */

/* The next word of *rest, which is cut there; NULL: none. A quote without an end is an error. */
static brasa_status next_word(brasa_context *ctx, char **rest, char **word)
{
    char *at = *rest + strspn(*rest, " \t");
    const bool quoted = *at == '"';
    *word = *at ? at + quoted : NULL;
    if (!*at)
        return BRASA_OK;
    char *end = *word + strcspn(*word, quoted ? "\"" : " \t");
    if (quoted && (!*end || (end[1] && !strchr(" \t", end[1]))))
        return fail(ctx, BRASA_BAD_FILE, "a word that begins with a quote must end with one");
    if (quoted && end == *word)
        return fail(ctx, BRASA_BAD_FILE, "a word without letters");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return BRASA_OK;
}

static brasa_status read_words(list *l, char *rest)
{
    char *word;
    if (l->f->kind == LINE) {
        l->word[l->count++] = rest;
        return BRASA_OK;
    }
    brasa_status status = next_word(l->r->e->ctx, &rest, &word);
    while (status == BRASA_OK && word) {
        status = l->f->kind == NUMBERS ? add_numbers(l, word)
                 : l->f->kind == BYTES ? add_bytes(l, word)
                                       : add_word(l, word);
        if (status == BRASA_OK)
            status = next_word(l->r->e->ctx, &rest, &word);
    }
    return status;
}

static brasa_status keep(list *l, experiment_setting *to)
{
    pool *p = &l->r->e->pool;
    const bool words = l->f->kind != NUMBERS && l->f->kind != BYTES;
    *to = (experiment_setting){.line = l->r->line, .count = l->count};
    const size_t count = (size_t)l->count;
    if (words ? !(to->word = pool_get(p, count, sizeof *to->word))
              : !(to->number = pool_get(p, count, sizeof *to->number)))
        return fail_memory(p->ctx, count * sizeof *to->number);
    for (size_t i = 0; i < count; i++) {
        if (words && !(to->word[i] = pool_text(p, "%s", l->word[i])))
            return fail_memory(p->ctx, strlen(l->word[i]) + 1);
        if (!words)
            to->number[i] = l->number[i];
    }
    return BRASA_OK;
}

static brasa_status begin_block(reader *r, char *rest)
{
    experiment *e = r->e;
    const size_t length = strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
    if (!length || rest[length] || length > MAX_NAME)
        return fail(e->ctx, BRASA_BAD_FILE, "expected a name of at most %d letters, digits, _, - and ., got '%.60s'",
                    MAX_NAME, rest);
    for (int i = 0; i < e->nblocks; i++)
        if (strcmp(e->blocks[i].name, rest) == 0)
            return fail(e->ctx, BRASA_BAD_FILE, "there is a '%s' in line %d already", rest, e->blocks[i].line);
    if (e->nblocks == EXPERIMENT_BLOCKS)
        return fail(e->ctx, BRASA_BAD_FILE, "more than %d of them", EXPERIMENT_BLOCKS);
    experiment_block *grown = pool_grow(&e->pool, e->blocks, e->nblocks, &r->capacity, sizeof *grown);
    const char *name = pool_text(&e->pool, "%s", rest);
    if (!grown || !name)
        return fail_memory(e->ctx, sizeof *grown);
    e->blocks = grown;
    r->at = &e->blocks[e->nblocks++];
    *r->at = r->all;
    r->at->name = name;
    r->at->line = r->line;
    return BRASA_OK;
}

static brasa_status read_field(reader *r, const char *word, char *rest)
{
    const bool small = strncmp(word, "small.", 6) == 0;
    nearest n = {.word = small ? word + 6 : word};
    int key = 0;
    for (; key < KEYS && strcmp(fields[key].name, n.word) != 0; key++)
        nearest_offer(&n, fields[key].name);
    if (key == KEYS) {
        nearest_offer(&n, "experiment");
        return fail(r->e->ctx, BRASA_BAD_FILE, "there is no such field%s", nearest_hint(&n).text);
    }
    experiment_setting *to = small ? &r->at->small[key] : &r->at->plain[key];
    if (to->line > r->at->line)
        return fail(r->e->ctx, BRASA_BAD_FILE, "is in line %d already", to->line);
    list l = {.r = r, .f = &fields[key]};
    brasa_status status = read_words(&l, rest);
    if (status == BRASA_OK && (!l.count || (l.f->kind == LINE && !*rest)))
        status = fail(r->e->ctx, BRASA_BAD_FILE, "expected %s; got nothing", l.f->takes);
    return status == BRASA_OK ? keep(&l, to) : status;
}

/* Cuts comments and blanks off both ends. */
static char *trimmed(char *line)
{
    for (char *at = line; *at; at++) {
        if (*at == '\t')
            *at = ' ';
        if (*at == '#' && (at == line || at[-1] == ' ')) {
            *at = '\0';
            break;
        }
    }
    for (char *end = line + strlen(line); end > line && isspace((unsigned char)end[-1]);)
        *--end = '\0';
    return line + strspn(line, " ");
}

static brasa_status read_line(reader *r, char *line)
{
    brasa_context *ctx = r->e->ctx;
    for (const char *at = line; *at; at++)
        if (iscntrl((unsigned char)*at) && !isspace((unsigned char)*at))
            return fail(ctx, BRASA_BAD_FILE, "a byte 0x%02x: not a text file", (unsigned char)*at);
    line = trimmed(line);
    if (!*line)
        return BRASA_OK;
    char *rest = line + strcspn(line, " ");
    if (*rest)
        *rest++ = '\0';
    rest += strspn(rest, " ");
    const brasa_status status = strcmp(line, "experiment") == 0 ? begin_block(r, rest) : read_field(r, line, rest);
    if (status != BRASA_OK)
        fail_prefix(ctx, "%.40s", line);
    return status;
}

/* `text` is changed. */
static brasa_status read_lines(reader *r, char *text, bool numbered)
{
    for (char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        char *next = line + length + (line[length] == '\n');
        r->line += numbered;
        line[length] = '\0';
        const brasa_status status =
            length > MAX_LINE
                ? fail(r->e->ctx, BRASA_BAD_FILE, "a line of %zu letters; at most %d are allowed", length, MAX_LINE)
                : read_line(r, line);
        if (status != BRASA_OK) {
            fail_prefix(r->e->ctx, "%.200s:%d", r->e->where, r->line);
            return status;
        }
        line = next;
    }
    return BRASA_OK;
}

/* --- all of it ---------------------------------------------------------------------------------------------------
 */

/* "mnist=idx:DIR ..." */
static brasa_status read_given(reader *r, const char *text)
{
    brasa_context *ctx = r->e->ctx;
    char *rest = pool_text(&r->e->pool, "%s", text ? text : ""), *word = NULL;
    if (!rest)
        return fail_memory(ctx, strlen(text));
    brasa_status status = next_word(ctx, &rest, &word);
    for (; status == BRASA_OK && word; status = next_word(ctx, &rest, &word)) {
        char *equals = word + strcspn(word, "=:");
        if (*equals != '=' || equals == word || r->ngiven == MAX_GIVEN)
            return fail(ctx, BRASA_BAD_ARGUMENT, "data: expected NAME=SPEC, at most %d of them, got '%.100s'",
                        MAX_GIVEN, word);
        *equals = '\0';
        r->given[r->ngiven++] = (given){word, equals + 1, false};
    }
    return status;
}

static brasa_status check_given(const reader *r)
{
    for (int i = 0; i < r->ngiven; i++)
        if (!r->given[i].used)
            return fail(r->e->ctx, BRASA_BAD_ARGUMENT, "data: no set is called '%.60s' in %.200s", r->given[i].name,
                        r->e->where);
    return BRASA_OK;
}

static brasa_status read_all(experiment *e, const char *text, const experiment_options *o)
{
    reader r = {.e = e};
    char *given_lines = pool_text(&e->pool, "%s", text), *own = pool_text(&e->pool, "%s", defaults);
    r.at = &r.all;
    r.all.name = e->name;
    if (!given_lines || !own)
        return fail_memory(e->ctx, strlen(text));
    brasa_status status = read_given(&r, o->data);
    if (status == BRASA_OK)
        status = read_lines(&r, own, false);
    if (status == BRASA_OK)
        status = read_lines(&r, given_lines, true);
    if (status == BRASA_OK && !e->nblocks) { /* one that has the file's name */
        if (!(e->blocks = pool_get(&e->pool, 1, sizeof *e->blocks)))
            return fail_memory(e->ctx, sizeof *e->blocks);
        e->blocks[e->nblocks++] = r.all;
    }
    if (status == BRASA_OK)
        status = check_given(&r);
    return status == BRASA_OK ? experiment_expand(e) : status;
}

/* Without folder and ending. */
static const char *bare_name(pool *p, const char *where)
{
    const char *slash = strrchr(where, '/'), *from = slash ? slash + 1 : where, *dot = strrchr(from, '.');
    const size_t length = dot && dot > from ? (size_t)(dot - from) : strlen(from);
    return pool_text(p, "%.*s", (int)length, from);
}

brasa_status experiment_read(brasa_context *ctx, const char *where, const char *text, const experiment_options *o,
                             experiment **out)
{
    pool p = {.ctx = ctx};
    experiment *e = pool_get(&p, 1, sizeof *e);
    *out = NULL;
    if (!e)
        return fail_memory(ctx, sizeof *e);
    *e = (experiment){.ctx = ctx, .pool = p, .small = o->small};
    brasa_status status = BRASA_OK;
    if (strlen(text) > MAX_FILE)
        status = fail(ctx, BRASA_BAD_FILE, "%.200s: larger than %d bytes: not an experiment", where, MAX_FILE);
    else if (!(e->where = pool_text(&e->pool, "%s", where)) || !(e->name = bare_name(&e->pool, where)) ||
             !(e->text = pool_text(&e->pool, "%s", text)))
        status = fail_memory(ctx, strlen(text));
    if (status == BRASA_OK)
        status = read_all(e, text, o);
    if (status == BRASA_OK)
        *out = e;
    else
        experiment_close(e);
    return status;
}

void experiment_close(experiment *e)
{
    if (!e)
        return;
    pool p = e->pool; /* which the experiment lies in */
    pool_free(&p);
}

/* The whole file with a zero behind it. */
static brasa_status load(pool *p, const char *path, char **text)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return fail(p->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    *text = pool_get(p, MAX_FILE + 2, 1);
    const size_t got = *text ? fread(*text, 1, MAX_FILE + 1, file) : 0;
    const int reason = ferror(file) ? errno : 0;
    fclose(file);
    if (!*text)
        return fail_memory(p->ctx, MAX_FILE);
    if (reason)
        return fail(p->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(reason));
    if (memchr(*text, '\0', got))
        return fail(p->ctx, BRASA_BAD_FILE, "%s: holds a zero byte: not a text file", path);
    if (strncmp(*text, "\xEF\xBB\xBF", 3) == 0) /* some editors' byte order mark */
        *text += 3;
    return BRASA_OK;
}

static brasa_status open_file(brasa_context *ctx, const char *path, const experiment_options *o, experiment **out)
{
    pool p = {.ctx = ctx};
    char *text = NULL;
    brasa_status status = load(&p, path, &text);
    if (status == BRASA_OK)
        status = experiment_read(ctx, path, text, o, out);
    pool_free(&p);
    return status;
}

brasa_status experiment_open(brasa_context *ctx, const char *name, const experiment_options *o, experiment **out)
{
    nearest n = {.word = name};
    const lab_preset *preset = NULL;
    for (int i = 0; lab_preset_at(i); i++) {
        nearest_offer(&n, lab_preset_at(i)->name);
        if (strcmp(lab_preset_at(i)->name, name) == 0)
            preset = lab_preset_at(i);
    }
    *out = NULL;
    if (!preset && !strpbrk(name, "./"))
        return fail(ctx, BRASA_NOT_FOUND, "there is no preset '%.60s'%s (a file's name has a . or a / in it)", name,
                    nearest_hint(&n).text);
    brasa_status status = preset ? experiment_read(ctx, name, preset->text, o, out) : open_file(ctx, name, o, out);
    if (status == BRASA_OK && (status = experiment_check(*out)) != BRASA_OK) {
        experiment_close(*out);
        *out = NULL;
    }
    return status;
}
