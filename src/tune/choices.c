/* choices.c - choices in memory and on disk: see tuner.h.
 *
 * A line of text for each, tabs between the parts: the machine, the problem, then each kernel with its time in
 * nanoseconds, a * before the one that was taken; or the words of a library. New ones come last. A record ends with a
 * line that says so. The file may have been edited or cut off: a line that is not just so is passed over, and gone
 * when the file is written again. What cannot be read, or begins otherwise, is another's, and stays. The file is
 * replaced as a whole, under a lock on its folder, so that processes that write at the same time lose nothing of each
 * other. */
#define _GNU_SOURCE
#include "tune/tuner.h"

#include "core/hash.h"
#include "core/json_scan.h"
#include "core/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How a file begins. Before there was one format, own kernels and the libraries of a GPU had one each; a record of
 * own kernels had no last line then. */
enum { HEAD, KERNELS_BEFORE, ENGINES_BEFORE, HEADS };
static const char *const heads[HEADS] = {"brasa choices 1\n", "brasa kernels 1\n", "brasa engines 3\n"};
#define LAST "end"

enum { MOST_BYTES = 16 << 20, LOCK_TRIES = 50, LOCK_PAUSE = 10000000, FIRST_SLOTS = 64 };

/* --- the list -------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *machine, const char *problem)
{
    return hash_bytes(hash_bytes(HASH_START, machine, strlen(machine)), problem, strlen(problem));
}

/* Where a choice is among the slots, or will be. */
static choice **slot_of(choice **slots, int count, uint64_t hash, const char *machine, const char *problem)
{
    const uint64_t last = (uint64_t)count - 1;
    uint64_t at = hash & last;
    while (slots[at] && (slots[at]->hash != hash || strcmp(slots[at]->problem, problem) != 0 ||
                         strcmp(slots[at]->machine, machine) != 0))
        at = (at + 1) & last;
    return &slots[at];
}

choice *choices_find(const tuner *t, const char *machine, const char *problem)
{
    return t->nslots ? *slot_of(t->slots, t->nslots, hash_of(machine, problem), machine, problem) : NULL;
}

/* Room for one more choice in at most half of the slots; false: out of memory. */
static bool make_slots(tuner *t)
{
    if (2 * (t->count + 1) <= t->nslots)
        return true;
    const int count = t->nslots ? 2 * t->nslots : FIRST_SLOTS;
    choice **slots = pool_get(&t->pool, (size_t)count, sizeof *slots);
    for (int i = 0; slots && i < t->count; i++) {
        choice *c = t->choices[i];
        *slot_of(slots, count, c->hash, c->machine, c->problem) = c;
    }
    t->slots = slots ? slots : t->slots;
    t->nslots = slots ? count : t->nslots;
    return slots != NULL;
}

/* The choice for a machine and a problem, which says nothing yet where it is new; NULL: out of memory. */
static choice *add(tuner *t, const char *machine, const char *problem)
{
    const uint64_t hash = hash_of(machine, problem);
    if (!make_slots(t))
        return NULL;
    choice **slot = slot_of(t->slots, t->nslots, hash, machine, problem);
    if (*slot)
        return *slot;
    choice **grown = pool_grow(&t->pool, t->choices, t->count, &t->capacity, sizeof *grown);
    choice *c = pool_get(&t->pool, 1, sizeof *c);
    const char *names[2] = {strcmp(machine, t->machine) == 0 ? t->machine : pool_text(&t->pool, "%s", machine),
                            pool_text(&t->pool, "%s", problem)};
    if (!grown || !c || !names[0] || !names[1])
        return NULL;
    *c = (choice){.machine = names[0], .problem = names[1], .hash = hash};
    t->choices = grown;
    return *slot = t->choices[t->count++] = c;
}

choice *choices_put(tuner *t, const choice *from)
{
    const char *words = from->words ? pool_text(&t->pool, "%s", from->words) : NULL;
    tried *list = pool_get(&t->pool, (size_t)from->count + 1, sizeof *list);
    bool good = list && (words || !from->words);
    for (int i = 0; good && i < from->count; i++) {
        list[i] = (tried){pool_text(&t->pool, "%s", from->tried[i].kernel), from->tried[i].nanoseconds};
        good = list[i].kernel != NULL;
    }
    choice *c = good ? add(t, from->machine, from->problem) : NULL;
    if (!c)
        return NULL;
    *c = (choice){.machine = c->machine,
                  .problem = c->problem,
                  .hash = c->hash,
                  .words = words,
                  .count = from->count,
                  .best = from->best,
                  .tried = list,
                  .unsettled = from->unsettled,
                  .recorded = from->recorded,
                  .used = from->used};
    t->recorded |= from->recorded;
    return c;
}

/* --- reading --------------------------------------------------------------------------------------------------- */

/* The next part of a line, ended by a zero; NULL: there is no more. */
static char *next_part(char **at)
{
    char *part = *at;
    if (!part)
        return NULL;
    char *tab = strchr(part, '\t');
    if (tab)
        *tab = '\0';
    *at = tab ? tab + 1 : NULL;
    return part;
}

/* "*conv2d_onednn 123" */
static bool parse_tried(char *part, choice *c)
{
    const bool best = *part == '*';
    char *name = part + best, *blank = strchr(name, ' ');
    const size_t letters = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (c->count == MOST_TRIED || !blank || !letters || name + letters != blank)
        return false;
    const size_t digits = strspn(blank + 1, "0123456789");
    if (!digits || digits > 18 || blank[1 + digits])
        return false;
    *blank = '\0';
    tried *t = &c->tried[c->count];
    *t = (tried){.kernel = name};
    for (const char *d = blank + 1; *d; d++)
        t->nanoseconds = t->nanoseconds * 10 + (*d - '0');
    if (best && (c->best >= 0 || !t->nanoseconds))
        return false;
    if (best)
        c->best = c->count;
    c->count++;
    return true;
}

static bool is_key(const char *text)
{
    return text && *text && strlen(text) < CHOICE_KEY_SIZE && text_printable(text);
}

/* The texts of *c point into the line; `list` is for what was tried. */
static bool parse_line(char *line, choice *c, tried *list)
{
    *c = (choice){.best = -1, .tried = list};
    c->machine = next_part(&line);
    c->problem = next_part(&line);
    if (!is_key(c->machine) || !is_key(c->problem) || !line)
        return false;
    if (*line && *line != '*' && !strchr(line, '\t')) {
        c->words = line;
        return strlen(line) < CHOICE_WORDS_SIZE && text_printable(line);
    }
    for (char *part; (part = next_part(&line));)
        if (!parse_tried(part, c))
            return false;
    return c->count >= 2 && c->best >= 0;
}

/* What a record says stands. */
static brasa_status keep(tuner *t, choice *c, bool record)
{
    const choice *old = choices_find(t, c->machine, c->problem);
    if (old && old->recorded && !record)
        return BRASA_OK;
    c->recorded = record;
    return choices_put(t, c) ? BRASA_OK : fail_memory(t->ctx, sizeof *c);
}

/* A file that was read. */
typedef struct contents {
    char *text;        /* behind the head, ended by a zero; "" where there is no file */
    const char *wrong; /* why what is there is not for us, or NULL; in the pool */
    int head;          /* of `heads`; HEADS: there is no file */
    int bad;           /* lines that are not as they should be */
    bool ended;        /* by the last line of a record */
} contents;

/* Of a record all lines, of another file those for machines that begin so. */
static brasa_status read_lines(tuner *t, contents *f, const char *machine, bool record)
{
    brasa_status status = BRASA_OK;
    for (char *line = f->text, *end; *line && status == BRASA_OK; line = end + 1) {
        tried list[MOST_TRIED];
        choice c;
        end = strchr(line, '\n');
        if (!end) { /* cut off */
            f->bad++;
            break;
        }
        *end = '\0';
        if (record && strcmp(line, LAST) == 0)
            f->ended = true;
        else if (!parse_line(line, &c, list))
            f->bad++;
        else if (record || strncmp(c.machine, machine, strlen(machine)) == 0)
            status = keep(t, &c, record);
    }
    return status;
}

/* Goes behind the head; of one that is cut off, there is what there is. False: it is not ours. */
static bool skip_head(contents *f)
{
    const size_t length = strlen(f->text);
    for (f->head = 0; f->head < HEADS; f->head++) {
        const size_t whole = strlen(heads[f->head]), there = length < whole ? length : whole;
        if (strncmp(f->text, heads[f->head], there) != 0)
            continue;
        f->text += there == whole ? whole : 0;
        return true;
    }
    return false;
}

static brasa_status load(pool *p, const char *path, contents *f)
{
    struct stat st;
    static char none[] = "", foreign[] = "this is no file of kernels";
    *f = (contents){.text = none, .head = HEADS};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return BRASA_OK;
    if (fd < 0)
        return (f->wrong = pool_text(p, "%s", strerror(errno))) ? BRASA_OK : fail_memory(p->ctx, 0);
    brasa_status status = BRASA_OK;
    char *all = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > MOST_BYTES) {
        f->wrong = foreign;
    } else if (!(all = pool_get(p, (size_t)st.st_size + 1, 1))) {
        status = fail_memory(p->ctx, (size_t)st.st_size);
    } else {
        size_t got = 0;
        for (ssize_t some; got < (size_t)st.st_size; got += (size_t)some) {
            some = read(fd, all + got, (size_t)st.st_size - got);
            if (some <= 0)
                break;
        }
        for (char *zero = all; (zero = memchr(zero, 0, (size_t)(all + got - zero)));)
            *zero = '\1'; /* in no good line either, and no end of the text */
        all[got] = '\0';
        f->text = all;
        f->wrong = skip_head(f) ? NULL : foreign;
        f->text = f->wrong ? none : f->text;
    }
    close(fd);
    return status;
}

/* What is wrong with a file that was read, in words, or NULL. */
static const char *what_is_wrong(pool *p, const contents *f, bool record)
{
    if (f->wrong || (record && f->head != HEADS && f->head != KERNELS_BEFORE && !f->ended))
        return f->wrong ? f->wrong : "it was cut off";
    return f->bad == 0   ? NULL
           : f->bad == 1 ? "1 line is not as it should be"
                         : pool_text(p, "%d lines are not as they should be", f->bad);
}

static brasa_status read_file(tuner *t, const char *path, bool record, contents *f, const char **note)
{
    const choice by_a_gpu = {.machine = "cuda", .problem = CHOSEN_HERE, .words = "yes", .recorded = true};
    pool p = {.ctx = t->ctx};
    brasa_status status = load(&p, path, f);
    if (status == BRASA_OK)
        status = read_lines(t, f, t->machine, record);
    if (status == BRASA_OK && record && f->head == ENGINES_BEFORE && !choices_put(t, &by_a_gpu))
        status = fail_memory(t->ctx, sizeof by_a_gpu);
    const char *wrong = status == BRASA_OK ? what_is_wrong(&p, f, record) : NULL;
    if (wrong) {
        *note = record ? pool_text(&t->pool,
                                   "%s is damaged (%s): kernels that it does not name may be others, and so "
                                   "may the result",
                                   path, wrong)
                       : pool_text(&t->pool, "%s: %s: passed over", path, wrong);
        status = *note ? BRASA_OK : fail_memory(t->ctx, 0);
    }
    pool_free(&p);
    return status;
}

brasa_status choices_read(tuner *t, const char *path, bool record, const char **note)
{
    contents f;
    const brasa_status status = read_file(t, path, record, &f, note);
    if (status != BRASA_OK || !record || f.head == HEAD)
        return status;
    const char *slash = strrchr(path, '/'); /* before, a GPU's choices were in a file beside it */
    const char *beside = pool_text(&t->pool, "%.*sengines.txt", slash ? (int)(slash - path) + 1 : 0, path);
    return beside ? read_file(t, beside, true, &f, note) : fail_memory(t->ctx, strlen(path));
}

/* --- writing --------------------------------------------------------------------------------------------------- */

static brasa_status write_text(replacement *r, const char *text)
{
    return replace_write(r, text, strlen(text));
}

static brasa_status write_choice(replacement *r, const choice *c)
{
    const char *const pieces[] = {c->machine, "\t", c->problem, c->words ? "\t" : "", c->words ? c->words : ""};
    brasa_status status = BRASA_OK;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0] && status == BRASA_OK; i++)
        status = write_text(r, pieces[i]);
    for (int i = 0; i < c->count && status == BRASA_OK; i++) {
        char part[160];
        snprintf(part, sizeof part, "\t%s%.120s %lld", i == c->best ? "*" : "", c->tried[i].kernel,
                 (long long)c->tried[i].nanoseconds);
        status = write_text(r, part);
    }
    return status == BRASA_OK ? write_text(r, "\n") : status;
}

static bool is_wanted(const choice *c, bool record)
{
    return record ? c->used || c->recorded : !c->unsettled;
}

static brasa_status write_all(const tuner *t, const char *path, bool record)
{
    replacement r;
    int count = 0;
    for (int i = 0; i < t->count; i++)
        count += is_wanted(t->choices[i], record);
    brasa_status status = replace_begin(&r, t->ctx, path);
    if (status == BRASA_OK)
        status = write_text(&r, heads[HEAD]);
    for (int i = 0; i < t->count && status == BRASA_OK; i++)
        if (is_wanted(t->choices[i], record) && (record || count-- <= CHOICES_KEPT))
            status = write_choice(&r, t->choices[i]);
    if (status == BRASA_OK && record)
        status = write_text(&r, LAST "\n");
    return replace_end(&r, status);
}

brasa_status choices_write_record(const tuner *t, const char *path)
{
    return write_all(t, path, true);
}

static const char *folder_of(pool *p, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? pool_text(p, "%.*s", slash > path ? (int)(slash - path) : 1, path) : ".";
}

bool choices_writable(brasa_context *ctx, const char *path)
{
    pool p = {.ctx = ctx};
    contents f;
    const char *folder = folder_of(&p, path);
    const bool writable = folder && access(folder, W_OK | X_OK) == 0 && load(&p, path, &f) == BRASA_OK && !f.wrong;
    pool_free(&p);
    return writable;
}

/* A lock on the folder of a path: *fd, or -1. Whoever does not get it in half a second writes without
 * it: the worst is that somebody else's times are measured again. */
static brasa_status lock_folder(pool *p, const char *path, int *fd)
{
    const char *folder = folder_of(p, path);
    *fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    for (int i = 0; *fd >= 0 && i < LOCK_TRIES && flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++)
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE}, NULL);
    return folder ? BRASA_OK : fail_memory(p->ctx, strlen(path));
}

brasa_status choices_write(tuner *t, const char *path)
{
    tuner all = {.ctx = t->ctx, .pool = {.ctx = t->ctx}, .machine = t->machine};
    char target[PATH_MAX];
    contents f;
    int lock;
    if (realpath(path, target)) /* a link stays one */
        path = target;
    brasa_status status = lock_folder(&all.pool, path, &lock);
    if (status == BRASA_OK)
        status = load(&all.pool, path, &f);
    if (status == BRASA_OK && f.wrong)
        status = fail(t->ctx, BRASA_BAD_FILE, "%s: %s", path, f.wrong);
    if (status == BRASA_OK)
        status = read_lines(&all, &f, "", false);
    for (int i = 0; i < t->count && status == BRASA_OK; i++)
        if (t->choices[i]->fresh && !choices_put(&all, t->choices[i]))
            status = fail_memory(t->ctx, sizeof(choice));
    if (status == BRASA_OK)
        status = write_all(&all, path, false);
    for (int i = 0; i < t->count && status == BRASA_OK; i++)
        t->choices[i]->fresh = false;
    if (lock >= 0)
        close(lock);
    pool_free(&all.pool);
    return status;
}
