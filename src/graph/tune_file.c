/* tune_file.c - choices on disk: see tune.h.
 *
 * A line of text for each, tabs between the parts: the machine, the node, then each kernel with its time in
 * nanoseconds, a * before the one that was taken. New ones come last. The file may have been edited or cut off: a
 * line that is not just so is passed over, and gone when the file is written again. What cannot be read, or begins
 * otherwise, is another's, and stays. The file is replaced as a whole, under a lock on its folder, so that processes
 * that write at the same time lose nothing of each other. */
#define _GNU_SOURCE
#include "graph/tune.h"

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

#define HEAD "brasa kernels 1"

static const char foreign[] = "this is no file of kernels";

enum { MOST_BYTES = 16 << 20, LOCK_TRIES = 50, LOCK_PAUSE = 10000000 };

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

/* The texts of *c point into the line. */
static bool parse_line(char *line, choice *c)
{
    *c = (choice){.best = -1};
    c->machine = next_part(&line);
    c->node = next_part(&line);
    if (!c->node || !*c->node || strlen(c->node) >= TUNE_KEY_SIZE || !text_printable(c->machine) ||
        !text_printable(c->node))
        return false;
    for (char *part; (part = next_part(&line));)
        if (!parse_tried(part, c))
            return false;
    return c->count >= 2 && c->best >= 0;
}

static brasa_status keep(tuner *t, const choice *c, bool record)
{
    choice *to = tuner_add(t, c->machine, c->node);
    if (to && to->recorded && !record) /* which stands */
        return BRASA_OK;
    for (int i = 0; to && i < c->count; i++) {
        to->tried[i] = c->tried[i];
        if (!(to->tried[i].kernel = pool_text(&t->pool, "%s", c->tried[i].kernel)))
            to = NULL;
    }
    if (!to)
        return fail_memory(t->ctx, sizeof *to);
    to->count = c->count;
    to->best = c->best;
    to->recorded = record;
    t->recorded |= record;
    return BRASA_OK;
}

/* All lines of a text that ends with a zero; *bad: how many are not as they should be. machine NULL: any. */
static brasa_status read_lines(tuner *t, char *text, const char *machine, bool record, int *bad)
{
    brasa_status status = BRASA_OK;
    for (char *line = text, *end; *line && status == BRASA_OK; line = end + 1) {
        choice c;
        end = strchr(line, '\n');
        if (!end) { /* cut off */
            ++*bad;
            break;
        }
        *end = '\0';
        if (!parse_line(line, &c))
            ++*bad;
        else if (!machine || strcmp(c.machine, machine) == 0)
            status = keep(t, &c, record);
    }
    return status;
}

/* What the file holds behind its head; of a head that is cut off, what there is. NULL: it is not ours. */
static char *skip_head(char *text)
{
    static const char head[] = HEAD "\n";
    const size_t length = strlen(text);
    if (length < strlen(head))
        return strncmp(text, head, length) == 0 ? text : NULL;
    return strncmp(text, head, strlen(head)) == 0 ? text + strlen(head) : NULL;
}

/* The file as a text, "" where there is none; *wrong: why what is there is not for us, or NULL. */
static brasa_status load(pool *p, const char *path, char **text, const char **wrong)
{
    struct stat st;
    static char none[] = "";
    *text = none;
    *wrong = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return BRASA_OK;
    if (fd < 0)
        return (*wrong = pool_text(p, "%s", strerror(errno))) ? BRASA_OK : fail_memory(p->ctx, 0);
    brasa_status status = BRASA_OK;
    char *all = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > MOST_BYTES) {
        *wrong = foreign;
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
        all = skip_head(all);
        *text = all ? all : none;
        *wrong = all ? NULL : foreign;
    }
    close(fd);
    return status;
}

brasa_status tune_read(tuner *t, const char *path, bool record, const char **note)
{
    pool p = {.ctx = t->ctx};
    char *text;
    const char *wrong;
    int bad = 0;
    brasa_status status = load(&p, path, &text, &wrong);
    if (status == BRASA_OK)
        status = read_lines(t, text, record ? NULL : t->machine, record, &bad);
    if (status == BRASA_OK && (wrong || bad)) {
        *note = wrong      ? pool_text(&t->pool, "%s: %s: it is passed over", path, wrong)
                : bad == 1 ? pool_text(&t->pool, "%s: 1 line is not as it should be: passed over", path)
                           : pool_text(&t->pool, "%s: %d lines are not as they should be: passed over", path, bad);
        status = *note ? BRASA_OK : fail_memory(t->ctx, 0);
    }
    pool_free(&p);
    return status;
}

/* --- writing --------------------------------------------------------------------------------------------------- */

static brasa_status write_choice(replacement *r, const choice *c)
{
    brasa_status status = replace_write(r, c->machine, strlen(c->machine));
    if (status == BRASA_OK)
        status = replace_write(r, "\t", 1);
    if (status == BRASA_OK)
        status = replace_write(r, c->node, strlen(c->node));
    for (int i = 0; i < c->count && status == BRASA_OK; i++) {
        char part[160];
        const int length = snprintf(part, sizeof part, "\t%s%.120s %lld", i == c->best ? "*" : "", c->tried[i].kernel,
                                    (long long)c->tried[i].nanoseconds);
        status = replace_write(r, part, (size_t)length);
    }
    return status == BRASA_OK ? replace_write(r, "\n", 1) : status;
}

static bool is_wanted(const choice *c, bool record)
{
    return !record || c->used || c->recorded;
}

static brasa_status write_all(const tuner *t, const char *path, bool record)
{
    replacement r;
    int count = 0;
    for (int i = 0; i < t->count; i++)
        count += is_wanted(t->choices[i], record);
    brasa_status status = replace_begin(&r, t->ctx, path);
    if (status == BRASA_OK)
        status = replace_write(&r, HEAD "\n", strlen(HEAD) + 1);
    for (int i = 0; i < t->count && status == BRASA_OK; i++)
        if (is_wanted(t->choices[i], record) && (record || count-- <= TUNE_MOST_CHOICES))
            status = write_choice(&r, t->choices[i]);
    return replace_end(&r, status);
}

brasa_status tune_write_record(const tuner *t, const char *path)
{
    return write_all(t, path, true);
}

static const char *folder_of(pool *p, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? pool_text(p, "%.*s", slash > path ? (int)(slash - path) : 1, path) : ".";
}

bool tune_writable(brasa_context *ctx, const char *path)
{
    pool p = {.ctx = ctx};
    char *text;
    const char *folder = folder_of(&p, path), *wrong;
    const bool writable =
        folder && access(folder, W_OK | X_OK) == 0 && load(&p, path, &text, &wrong) == BRASA_OK && !wrong;
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

brasa_status tune_write(tuner *t, const char *path)
{
    tuner all = {.ctx = t->ctx, .pool = {.ctx = t->ctx}, .machine = t->machine};
    char *text, target[PATH_MAX];
    const char *wrong;
    int bad = 0, lock;
    if (realpath(path, target)) /* a link stays one */
        path = target;
    brasa_status status = lock_folder(&all.pool, path, &lock);
    if (status == BRASA_OK)
        status = load(&all.pool, path, &text, &wrong);
    if (status == BRASA_OK && wrong)
        status = fail(t->ctx, BRASA_BAD_FILE, "%s: %s", path, wrong);
    if (status == BRASA_OK)
        status = read_lines(&all, text, NULL, false, &bad);
    for (int i = 0; i < t->count && status == BRASA_OK; i++)
        if (t->choices[i]->fresh)
            status = keep(&all, t->choices[i], false);
    if (status == BRASA_OK)
        status = write_all(&all, path, false);
    for (int i = 0; i < t->count && status == BRASA_OK; i++)
        t->choices[i]->fresh = false;
    if (lock >= 0)
        close(lock);
    pool_free(&all.pool);
    return status;
}
