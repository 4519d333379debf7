/* cudnn_cache.c - engines that were chosen before, in memory and on disk: see cudnn.h.
 *
 * The file `cuda-engines` lies in the folder of the tuning cache ($BRASA_CACHE, "off": none; $XDG_CACHE_HOME/brasa;
 * ~/.cache/brasa). A line of text for each choice, tabs between the parts: the machine, the problem, the engine. The
 * newest is the last. The file may have been edited, cut off, or be another's: a line that is not just so is passed
 * over, and gone when the file is written again. It is replaced as a whole, under a lock on its folder, so that
 * processes that write at the same time lose nothing of each other. An engine that cuDNN does not know any more makes
 * no plan, and the choice is made again. */
#define _GNU_SOURCE
#include "backend/cuda/cudnn.h"
#include "core/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEAD "brasa engines 2" /* 1: workspaces were not charged */

enum {
    PATH_SIZE = 4096,
    VALUE_SIZE = 2000,
    MOST_LINES = 8192, /* the oldest give way */
    MOST_BYTES = 16 << 20,
    LOCK_TRIES = 50,
    LOCK_PAUSE = 10000000, /* nanoseconds */
};

/* --- the engine in words: "0 38 2=5 13=1": the way, the engine, its knobs -------------------------------------- */

static void print_engine(const cudnn_engine *e, char to[VALUE_SIZE])
{
    int length = snprintf(to, VALUE_SIZE, "%d %lld", e->way, (long long)e->index);
    for (int i = 0; i < e->knobs && length < VALUE_SIZE; i++)
        length += snprintf(to + length, (size_t)(VALUE_SIZE - length), " %d=%lld", e->knob[i].type,
                           (long long)e->knob[i].value);
}

/* A number that ends at one of these; moves *at behind it. */
static bool read_number(const char **at, const char *ends, int64_t *to)
{
    char *end;
    errno = 0;
    const long long number = strtoll(*at, &end, 10);
    if (end == *at || errno || (*end && !strchr(ends, *end)) || strchr(" \t", **at))
        return false;
    *to = number;
    *at = end;
    return true;
}

static bool parse_engine(const char *text, cudnn_engine *e)
{
    int64_t way, type;
    *e = (cudnn_engine){0};
    if (!read_number(&text, " ", &way) || !*text++ || !read_number(&text, " ", &e->index))
        return false;
    for (; *text == ' '; e->knobs++) {
        text++;
        if (e->knobs == CUDNN_MOST_KNOBS || !read_number(&text, "=", &type) || !*text++ ||
            !read_number(&text, " ", &e->knob[e->knobs].value) || type < 0 || type > 10000)
            return false;
        e->knob[e->knobs].type = (int)type;
    }
    e->way = way >= 0 && way < CUDNN_MOST_WAYS ? (int)way : -1;
    return !*text && e->way >= 0 && e->index >= 0;
}

/* --- the list -------------------------------------------------------------------------------------------------- */

/* Lines in a pool. */
typedef struct list {
    pool *pool;
    cudnn_line *line;
    int count, capacity;
} list;

static void put_line(list *l, const char *key, const char *words, bool fresh)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->line[i].key, key) == 0) { /* the newest is the last */
            memmove(&l->line[i], &l->line[i + 1], (size_t)(l->count - i - 1) * sizeof *l->line);
            l->count--;
            break;
        }
    cudnn_line *grown = pool_grow(l->pool, l->line, l->count, &l->capacity, sizeof *grown);
    if (!grown)
        return; /* which is forgotten then */
    l->line = grown;
    l->line[l->count++] = (cudnn_line){key, words, fresh};
}

/* "machine \t problem \t engine": the key is the first two. The line is cut, and stays in use. */
static void read_line(list *l, char *line)
{
    cudnn_engine e;
    char *first = strchr(line, '\t'), *second = first ? strchr(first + 1, '\t') : NULL;
    if (!second || first == line || second == first + 1)
        return;
    *second = '\0';
    if (parse_engine(second + 1, &e))
        put_line(l, line, second + 1, false);
}

/* --- the file -------------------------------------------------------------------------------------------------- */

/* false: nothing is kept. */
static bool find_path(char path[PATH_SIZE])
{
    const char *own = getenv("BRASA_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (own && strcmp(own, "off") == 0)
        return false;
    if (own && *own)
        length = snprintf(path, PATH_SIZE, "%s/cuda-engines", own);
    else if (xdg && *xdg == '/')
        length = snprintf(path, PATH_SIZE, "%s/brasa/cuda-engines", xdg);
    else if (home && *home == '/')
        length = snprintf(path, PATH_SIZE, "%s/.cache/brasa/cuda-engines", home);
    return length > 0 && length < PATH_SIZE;
}

static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
}

/* All lines of the file; none where there is no file that can be read. */
static void read_file(list *l, const char *path)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    const bool usual = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= MOST_BYTES;
    char *text = usual ? pool_get(l->pool, (size_t)st.st_size + 1, 1) : NULL;
    size_t got = 0;
    for (ssize_t some = 1; text && some > 0 && got<(size_t)st.st_size; got += some> 0 ? (size_t)some : 0)
        some = read(fd, text + got, (size_t)st.st_size - got);
    close(fd);
    if (!text || strncmp(text, HEAD "\n", strlen(HEAD) + 1) != 0)
        return;
    text[got] = '\0';
    for (char *line = text + strlen(HEAD) + 1, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        read_line(l, line);
    }
}

static void write_file(brasa_context *ctx, const list *l, const char *path)
{
    replacement r;
    brasa_status status = replace_begin(&r, ctx, path);
    if (status == BRASA_OK)
        status = replace_write(&r, HEAD "\n", strlen(HEAD) + 1);
    for (int i = l->count > MOST_LINES ? l->count - MOST_LINES : 0; i < l->count && status == BRASA_OK; i++) {
        const char *const pieces[] = {l->line[i].key, "\t", l->line[i].value, "\n"};
        for (int k = 0; k < 4 && status == BRASA_OK; k++)
            status = replace_write(&r, pieces[k], strlen(pieces[k]));
    }
    (void)replace_end(&r, status); /* where nothing can be written, nothing is kept */
}

/* A lock on the folder of a path, or -1. Whoever does not get it in half a second writes without it: the worst is
 * that engines are timed again. */
static int lock_folder(const char *path)
{
    char folder[PATH_SIZE];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++)
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE}, NULL);
    return fd;
}

/* --- what others call ------------------------------------------------------------------------------------------ */

static list list_of(cudnn *c)
{
    return (list){&c->pool, c->line, c->lines, c->capacity};
}

static void keep_list(cudnn *c, const list *l)
{
    c->line = l->line;
    c->lines = l->count;
    c->capacity = l->capacity;
}

static void load(cudnn *c)
{
    char path[PATH_SIZE];
    if (c->loaded)
        return;
    c->loaded = true;
    list l = list_of(c);
    if (find_path(path))
        read_file(&l, path);
    keep_list(c, &l);
}

/* Whether a line's key is that of a problem on this machine. */
static bool is_key(const cudnn *c, const char *key, const char *problem)
{
    const size_t length = strlen(c->machine);
    return strncmp(key, c->machine, length) == 0 && key[length] == '\t' && strcmp(key + length + 1, problem) == 0;
}

bool cudnn_recall(cudnn *c, const char *key, cudnn_engine *out)
{
    load(c);
    for (int i = c->lines - 1; i >= 0; i--)
        if (is_key(c, c->line[i].key, key))
            return parse_engine(c->line[i].value, out);
    return false;
}

void cudnn_remember(cudnn *c, const char *key, const cudnn_engine *e)
{
    char words[VALUE_SIZE];
    load(c);
    print_engine(e, words);
    const char *whole = pool_text(&c->pool, "%s\t%s", c->machine, key), *kept = pool_text(&c->pool, "%s", words);
    if (!whole || !kept)
        return;
    list l = list_of(c);
    put_line(&l, whole, kept, true);
    keep_list(c, &l);
    c->fresh++;
}

void cudnn_save(cudnn *c)
{
    char path[PATH_SIZE];
    if (!c->fresh)
        return;
    c->fresh = 0;
    if (!find_path(path))
        return;
    make_folders(path);
    pool p = {.ctx = c->ctx};
    list all = {.pool = &p};
    const int lock = lock_folder(path);
    read_file(&all, path);
    for (int i = 0; i < c->lines; i++)
        if (c->line[i].fresh) {
            put_line(&all, c->line[i].key, c->line[i].value, false);
            c->line[i].fresh = false;
        }
    write_file(c->ctx, &all, path);
    if (lock >= 0)
        close(lock);
    pool_free(&p);
}
