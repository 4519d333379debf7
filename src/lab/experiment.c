/* experiment.c - from text to blocks of settings, each checked where it stands: see experiment.h. */
#include "core/nearest.h"
#include "lab/experiment_parts.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FILE = 1 << 16, MAX_LINE = 1000, MAX_NAME = 40, MAX_GIVEN = 16 };

static const char defaults[] = "view times\nbatch 32\nthreads all\ndevice cpu\nprecision f32\n"
                               "optimizer sgd lr=0.01 momentum=0.9\ndialect torch\nsplit all\nepochs 2\n"
                               "repeats 3\nseed 1\nlimit 600\n";

typedef struct reader {
    experiment *e;
    experiment_block all; /* what holds for every block */
    experiment_block *at; /* what lines go to */
    int line, capacity;
    experiment_given given[MAX_GIVEN];
    int ngiven;
} reader;

brasa_status experiment_place(experiment *e, const experiment_block *b, experiment_key key, brasa_status status)
{
    const char *name = experiment_fields[key].name;
    const size_t length = strlen(name);
    const char *error = brasa_context_error(e->ctx);
    const bool named = strncmp(error, name, length) == 0 && error[length] == ':'; /* by the option of that name */
    const int line = experiment_get(e, b, key)->line;
    if (status != BRASA_OK)
        fail_prefix(e->ctx, "%.200s:%d%s%s", e->where, line ? line : b->line, named ? "" : ": ", named ? "" : name);
    return status;
}

/* --- lines ----------------------------------------------------------------------------------------------------- */

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

static brasa_status read_words(experiment_list *l, char *rest)
{
    char *word;
    if (l->f->kind == LINE) {
        l->word[l->count++] = rest;
        return BRASA_OK;
    }
    brasa_status status = next_word(l->ctx, &rest, &word);
    while (status == BRASA_OK && word) {
        status = experiment_add(l, word);
        if (status == BRASA_OK)
            status = next_word(l->ctx, &rest, &word);
    }
    return status;
}

static brasa_status keep(reader *r, const experiment_list *l, experiment_setting *to)
{
    pool *p = &r->e->pool;
    const bool words = l->f->kind != NUMBERS && l->f->kind != BYTES;
    *to = (experiment_setting){.line = r->line, .count = l->count};
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

static void take_title(reader *r)
{
    const experiment_setting *s = experiment_get(r->e, &r->all, KEY_TITLE);
    r->e->title = s->count ? s->word[0] : NULL;
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
    if (!e->nblocks)
        take_title(r);
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
    for (; key < KEYS && strcmp(experiment_fields[key].name, n.word) != 0; key++)
        nearest_offer(&n, experiment_fields[key].name);
    if (key == KEYS) {
        nearest_offer(&n, "experiment");
        return fail(r->e->ctx, BRASA_BAD_FILE, "there is no such field%s", nearest_hint(&n).text);
    }
    experiment_setting *to = small ? &r->at->small[key] : &r->at->plain[key];
    if (to->line > r->at->line)
        return fail(r->e->ctx, BRASA_BAD_FILE, "is in line %d already", to->line);
    experiment_list l = {.ctx = r->e->ctx, .f = &experiment_fields[key], .given = r->given, .ngiven = r->ngiven};
    brasa_status status = read_words(&l, rest);
    if (status == BRASA_OK && (!l.count || (l.f->kind == LINE && !*rest)))
        status = fail(r->e->ctx, BRASA_BAD_FILE, "expected %s; got nothing", l.f->takes);
    return status == BRASA_OK ? keep(r, &l, to) : status;
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

/* --- all of it ------------------------------------------------------------------------------------------------- */

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
        r->given[r->ngiven++] = (experiment_given){word, equals + 1, false};
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
        take_title(&r);
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
