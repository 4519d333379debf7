/* kept.c - see kept.h.
 *
 * Tabs stand between the parts of a line. One that is not just so is passed over, and gone when the file is written
 * again. The file is replaced as a whole, under a lock on its folder, so that processes that write at the same time
 * lose nothing of each other. */
#define _GNU_SOURCE
#include "device/cuda/kept.h"
#include "core/cache.h"
#include "core/hash.h"
#include "core/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEAD "brasa engines 3"
#define LAST "end" /* of a record, which is written once: who lacks it was cut off */

enum {
    MOST_BYTES = 16 << 20,
    PART_SIZE = 500, /* of the machine, and of the problem */
    LOCK_TRIES = 50,
    LOCK_PAUSE = 10000000, /* nanoseconds */
    FIRST_SLOTS = 64,
};

/* Choices of so many nanoseconds may be lost. */
static const int64_t patience = 1000000000;

static int64_t now_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- the list -------------------------------------------------------------------------------------------------- */

static uint64_t hash_key(const char *machine, const char *problem)
{
    return hash_bytes(hash_bytes(HASH_START, machine, strlen(machine) + 1), problem, strlen(problem));
}

/* The slot of a key: the line's, or the empty one where it would stand. */
static kept_line **find_slot(const kept *k, const char *machine, const char *problem, uint64_t hash)
{
    uint64_t at = hash & (uint64_t)(k->slots - 1);
    for (; k->slot[at]; at = (at + 1) & (uint64_t)(k->slots - 1)) {
        const kept_line *l = k->slot[at];
        if (l->hash == hash && strcmp(l->machine, machine) == 0 && strcmp(l->problem, problem) == 0)
            break;
    }
    return &k->slot[at];
}

/* Room for one more line in the slots, which are half empty at least. */
static bool grow_slots(kept *k)
{
    if (k->slots > 2 * k->count)
        return true;
    const int slots = k->slots ? 2 * k->slots : FIRST_SLOTS;
    kept_line **slot = pool_get(&k->pool, (size_t)slots, sizeof *slot);
    if (!slot)
        return false;
    k->slot = slot;
    k->slots = slots;
    for (int i = 0; i < k->count; i++)
        *find_slot(k, k->line[i]->machine, k->line[i]->problem, k->line[i]->hash) = k->line[i];
    return true;
}

static kept_line *look_up(const kept *k, const char *machine, const char *problem)
{
    return k->slots ? *find_slot(k, machine, problem, hash_key(machine, problem)) : NULL;
}

/* The line of a key, made where there is none, without a value then; NULL: out of memory. */
static kept_line *add_line(kept *k, const char *machine, const char *problem)
{
    kept_line *l = look_up(k, machine, problem);
    if (l)
        return l;
    kept_line **grown = pool_grow(&k->pool, k->line, k->count, &k->capacity, sizeof *grown);
    if (grown)
        k->line = grown;
    l = grown && grow_slots(k) ? pool_get(&k->pool, 1, sizeof *l) : NULL;
    if (!l || !(l->machine = pool_text(&k->pool, "%s", machine)) ||
        !(l->problem = pool_text(&k->pool, "%s", problem)))
        return NULL;
    l->hash = hash_key(machine, problem);
    k->line[k->count++] = l;
    *find_slot(k, machine, problem, l->hash) = l;
    return l;
}

static kept_line *set_line(kept *k, const char *machine, const char *problem, const char *value)
{
    const char *copy = pool_text(&k->pool, "%s", value);
    kept_line *l = copy ? add_line(k, machine, problem) : NULL;
    if (l) {
        l->value = copy;
        l->gone = false;
    }
    return l;
}

/* What a line said that is not of this run alone, or NULL. */
static const char *held_before(const kept_line *l)
{
    return !l || l->gone ? NULL : l->recorded || l->noted ? l->before : l->value;
}

/* Makes it say that again. */
static void forget_own(kept_line *l)
{
    if (!l->recorded && !l->noted)
        return;
    l->gone = !l->before;
    l->value = l->before ? l->before : l->value;
    l->before = NULL;
    l->recorded = l->noted = false;
}

/* --- reading --------------------------------------------------------------------------------------------------- */

/* A part of a line: something, not too much, of printable letters. Cuts it off at its end and moves *at behind that.
 */
static char *next_part(char **at, char ends, size_t most)
{
    char *part = *at, *end = strchr(part, ends);
    if (ends && !end)
        return NULL;
    end = ends ? end : part + strlen(part);
    *at = ends ? end + 1 : end;
    *end = '\0';
    for (const char *c = part; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return NULL;
    return *part && (size_t)(end - part) < most ? part : NULL;
}

/* What a record says stands. False: out of memory. *whole stays true for a line as it should be. */
static bool read_line(kept *k, char *line, bool record, bool *whole)
{
    char *machine = next_part(&line, '\t', PART_SIZE);
    char *problem = machine ? next_part(&line, '\t', PART_SIZE) : NULL;
    char *value = problem ? next_part(&line, '\0', KEPT_VALUE_SIZE) : NULL;
    *whole = *whole && value;
    if (!value)
        return true; /* which is passed over */
    const kept_line *old = look_up(k, machine, problem);
    if (old && !record && (old->recorded || old->fresh))
        return true;
    const char *before = held_before(old);
    kept_line *l = set_line(k, machine, problem, value);
    if (l && record) {
        l->before = before;
        l->recorded = true;
        l->fresh = l->noted = false;
    }
    return l != NULL;
}

/* The text of a file, in a pool, or NULL where there is none of this form. */
static char *load_file(pool *p, const char *path)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    const bool usual = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= MOST_BYTES;
    char *text = usual ? pool_get(p, (size_t)st.st_size + 1, 1) : NULL;
    size_t got = 0;
    for (ssize_t some = 1; text && some > 0 && got<(size_t)st.st_size; got += some> 0 ? (size_t)some : 0)
        some = read(fd, text + got, (size_t)st.st_size - got);
    close(fd);
    if (!text || strncmp(text, HEAD "\n", strlen(HEAD) + 1) != 0)
        return NULL;
    text[got] = '\0';
    return text + strlen(HEAD) + 1;
}

/* All lines of a file; a last one without its end was cut off. False: out of memory. *whole: none was otherwise than
 * it should be, and a record has its last line; or there is no file. */
static bool read_file(kept *k, const char *path, bool record, bool *whole)
{
    pool p = {.ctx = k->ctx};
    bool good = true, ended = !record;
    char *line = load_file(&p, path);
    *whole = line || access(path, F_OK) != 0;
    for (char *end; good && line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (record && strcmp(line, LAST) == 0)
            ended = true;
        else
            good = read_line(k, line, record, whole);
    }
    *whole = *whole && (ended || !line);
    pool_free(&p);
    return good;
}

/* --- writing --------------------------------------------------------------------------------------------------- */

static brasa_status write_line(replacement *r, const kept_line *l)
{
    const char *const pieces[] = {l->machine, "\t", l->problem, "\t", l->value, "\n"};
    brasa_status status = BRASA_OK;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0] && status == BRASA_OK; i++)
        status = replace_write(r, pieces[i], strlen(pieces[i]));
    return status;
}

static bool is_wanted(const kept_line *l, bool record)
{
    return l->value && !l->gone && (!record || l->used || l->recorded);
}

static brasa_status write_file(const kept *k, const char *path, bool record)
{
    replacement r;
    int more = -KEPT_MOST_LINES;
    for (int i = 0; i < k->count; i++)
        more += is_wanted(k->line[i], record);
    brasa_status status = replace_begin(&r, k->ctx, path);
    if (status == BRASA_OK)
        status = replace_write(&r, HEAD "\n", strlen(HEAD) + 1);
    for (int i = 0; i < k->count && status == BRASA_OK; i++)
        if (is_wanted(k->line[i], record) && (record || more-- <= 0))
            status = write_line(&r, k->line[i]);
    if (status == BRASA_OK && record)
        status = replace_write(&r, LAST "\n", strlen(LAST) + 1);
    return replace_end(&r, status);
}

/* Where choices are kept; false: nowhere. */
static bool find_path(char path[CACHE_PATH_SIZE])
{
    return cache_path("cuda-engines", path);
}

/* A lock on the folder of a path, or -1. Whoever does not get it in half a second writes without it: the worst is
 * that something is timed again. */
static int lock_folder(const char *path)
{
    char folder[CACHE_PATH_SIZE];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    const int fd = open(*folder ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++)
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE}, NULL);
    return fd;
}

/* --- what others call ------------------------------------------------------------------------------------------ */

void kept_open(kept *k, brasa_context *ctx)
{
    *k = (kept){.ctx = ctx, .pool = {.ctx = ctx}};
}

void kept_close(kept *k)
{
    kept_save(k);
    pool_free(&k->pool);
    kept_open(k, k->ctx);
}

static void load(kept *k)
{
    char path[CACHE_PATH_SIZE];
    bool whole;
    if (!k->loaded && find_path(path))
        (void)read_file(k, path, false, &whole); /* what there is no memory for is chosen again */
    k->loaded = true;
}

kept_line *kept_find(kept *k, const char *machine, const char *problem, bool recorded)
{
    load(k);
    kept_line *l = look_up(k, machine, problem);
    return l && l->value && !l->gone && (l->recorded || !recorded) ? l : NULL;
}

/* A line that something is opened with. */
static kept_line *use_line(kept *k, const char *machine, const char *problem, const char *value)
{
    if (strlen(machine) >= PART_SIZE || strlen(problem) >= PART_SIZE || strlen(value) >= KEPT_VALUE_SIZE)
        return NULL;
    kept_line *l = set_line(k, machine, problem, value);
    if (l)
        l->used = true;
    return l;
}

kept_line *kept_note(kept *k, const char *machine, const char *problem, const char *value)
{
    load(k);
    const kept_line *old = look_up(k, machine, problem);
    if (old && old->fresh)
        kept_save(k);
    const char *before = held_before(old);
    kept_line *l = use_line(k, machine, problem, value);
    if (!l)
        return NULL;
    l->before = before;
    l->noted = !l->recorded;
    l->fresh = false;
    return l;
}

kept_line *kept_put(kept *k, const char *machine, const char *problem, const char *value)
{
    load(k);
    kept_line *l = use_line(k, machine, problem, value);
    if (!l)
        return NULL;
    l->before = l->noted ? NULL : l->before;
    l->noted = false;
    l->fresh = true;
    k->fresh++;
    if (!k->saved)
        k->saved = now_nanoseconds();
    else if (now_nanoseconds() - k->saved > patience)
        kept_save(k);
    return l;
}

void kept_save(kept *k)
{
    char path[CACHE_PATH_SIZE];
    if (!k->fresh)
        return;
    k->fresh = 0;
    k->saved = now_nanoseconds();
    if (!find_path(path))
        return;
    cache_make_folders(path);
    kept all;
    kept_open(&all, k->ctx);
    const int lock = lock_folder(path);
    bool whole, good = read_file(&all, path, false, &whole);
    for (int i = 0; i < k->count && good; i++)
        if (k->line[i]->fresh)
            good = set_line(&all, k->line[i]->machine, k->line[i]->problem, k->line[i]->value) != NULL;
    if (good && write_file(&all, path, false) == BRASA_OK)
        for (int i = 0; i < k->count; i++)
            k->line[i]->fresh = false;
    if (lock >= 0)
        close(lock);
    pool_free(&all.pool);
}

/* Of the run before: what its record said, and that anything was used for it. */
static void forget_run(kept *k)
{
    kept_save(k); /* a record takes the place of what is fresh */
    for (int i = 0; i < k->count; i++) {
        forget_own(k->line[i]);
        k->line[i]->used = false;
    }
}

brasa_status kept_recall(kept *k, const char *path)
{
    load(k);
    const bool first = !k->record || strcmp(k->record, path) != 0;
    bool whole;
    if (first) {
        const char *record = pool_text(&k->pool, "%s", path);
        if (!record)
            return fail_memory(k->ctx, strlen(path));
        if (k->record)
            forget_run(k);
        k->record = record;
    }
    const bool good = read_file(k, path, true, &whole);
    k->damaged = first && !whole;
    return good ? BRASA_OK : fail_memory(k->ctx, 0);
}

void kept_disuse(kept *k)
{
    for (int i = 0; i < k->count; i++) {
        if (k->line[i]->noted)
            forget_own(k->line[i]);
        k->line[i]->used = false;
    }
}

brasa_status kept_record(const kept *k, const char *path)
{
    return write_file(k, path, true);
}
