/* record_read.c - reading the folder of a run: see record.h. The files may have been edited or cut off: nothing in
 * them is believed that was not checked. */
#define _GNU_SOURCE
#include "train/record.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20 }; /* of a file here: a hundred thousand epochs take 20 MB */

char *run_path(pool *p, const char *folder, const char *name)
{
    char *path = pool_text(p, "%s/%s", folder, name);
    if (!path)
        fail_memory(p->ctx, strlen(folder) + strlen(name));
    return path;
}

bool run_has(const char *folder, const char *name)
{
    struct stat st;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool there = fd >= 0 && fstatat(fd, name, &st, 0) == 0;
    if (fd >= 0)
        close(fd);
    return there;
}

bool run_busy(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool busy = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return busy;
}

/* --- files --------------------------------------------------------------------------------------------------- */

static brasa_status read_bytes(brasa_context *ctx, const char *path, int fd, char *to, size_t bytes, size_t *got)
{
    for (*got = 0; *got < bytes;) {
        const ssize_t some = read(fd, to + *got, bytes - *got);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return fail(ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
        if (some == 0)
            break;
        *got += (size_t)some;
    }
    return BRASA_OK;
}

/* The whole file as a text to scan, in the pool. */
static brasa_status read_text(pool *p, const char *path, json_scan *out)
{
    struct stat st;
    size_t got = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    brasa_status status = BRASA_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        status = fail(p->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || st.st_size > MOST_BYTES)
        status = fail(p->ctx, BRASA_BAD_FILE, "%s: not a file of a run", path);
    char *text = status == BRASA_OK ? pool_get(p, (size_t)st.st_size + 1, 1) : NULL;
    if (status == BRASA_OK && !text)
        status = fail_memory(p->ctx, (size_t)st.st_size);
    if (status == BRASA_OK)
        status = read_bytes(p->ctx, path, fd, text, (size_t)st.st_size, &got);
    if (fd >= 0)
        close(fd);
    *out = (json_scan){.ctx = p->ctx, .path = path, .text = text, .at = text, .end = text + got};
    return status;
}

/* --- run.json ------------------------------------------------------------------------------------------------ */

static brasa_status read_class(json_scan *s, void *user)
{
    run_info *r = user;
    char *name;
    brasa_status status = json_read_text(s, &name);
    if (status != BRASA_OK)
        return status;
    if (r->classes == MAX_CLASSES || !text_printable(name))
        return json_refuse(s, s->at, "too many classes, or a name that is no plain text");
    const char **grown = pool_grow(&r->pool, r->class_name, r->classes, &r->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(s->ctx, 0);
    r->class_name = grown;
    r->class_name[r->classes++] = name;
    return BRASA_OK;
}

brasa_status run_read_classes(json_scan *s, run_info *r)
{
    return json_read_list(s, read_class, r);
}

static brasa_status read_data(json_scan *s, char *key, void *user)
{
    run_info *r = user;
    if (strcmp(key, "hash") == 0)
        return json_read_text(s, (char **)&r->hash);
    if (strcmp(key, "classes") == 0)
        return run_read_classes(s, r);
    return json_skip(s);
}

static brasa_status read_member(json_scan *s, char *key, void *user)
{
    run_info *r = user;
    if (strcmp(key, "created") == 0)
        return json_read_text(s, (char **)&r->created);
    if (strcmp(key, "settings") == 0)
        return json_read_object(s, settings_read, &(settings_reader){&r->settings, &r->pool});
    if (strcmp(key, "data") == 0)
        return json_read_object(s, read_data, r);
    return json_skip(s);
}

brasa_status run_read(brasa_context *ctx, const char *folder, run_info *out)
{
    *out = (run_info){.pool = {.ctx = ctx}, .folder = folder, .created = ""};
    json_scan s;
    const char *path = run_path(&out->pool, folder, RUN_FILE);
    brasa_status status = path ? read_text(&out->pool, path, &s) : BRASA_OUT_OF_MEMORY;
    if (status == BRASA_OK)
        status = json_read_object(&s, read_member, out);
    if (status == BRASA_OK && (!out->settings.model || !out->settings.data || !out->settings.dialect ||
                               !out->settings.transform || !out->hash || !out->classes))
        status = fail(ctx, BRASA_BAD_FILE, "%s: not the account of a run: its settings or data are missing", path);
    if (status != BRASA_OK)
        return status;
    out->model = out->settings.model;
    if (run_has(folder, MODEL_FILE) && !(out->model = run_path(&out->pool, folder, MODEL_FILE)))
        return BRASA_OUT_OF_MEMORY;
    return BRASA_OK;
}

void run_free(run_info *r)
{
    pool_free(&r->pool);
}

/* --- figures ------------------------------------------------------------------------------------------------- */

static brasa_status read_figure(json_scan *s, double *out)
{
    *out = NAN;
    return json_peek(s) == 'n' ? json_skip(s) : json_read_real(s, out);
}

static brasa_status read_outcome(json_scan *s, char *key, void *user)
{
    run_outcome *o = user;
    char *word;
    if (strcmp(key, "state") == 0) {
        brasa_status status = json_read_text(s, &word);
        o->failed = status == BRASA_OK && strcmp(word, "failed") == 0;
        return status;
    }
    double *figure = strcmp(key, "accuracy") == 0 ? &o->accuracy
                     : strcmp(key, "spread") == 0 ? &o->spread
                     : strcmp(key, "top5") == 0   ? &o->top5
                     : strcmp(key, "loss") == 0   ? &o->loss
                                                  : NULL;
    return figure ? read_figure(s, figure) : json_skip(s);
}

brasa_status run_outcome_read(brasa_context *ctx, const char *folder, run_outcome *out)
{
    *out = (run_outcome){.accuracy = NAN, .top5 = NAN, .loss = NAN, .spread = NAN};
    if (!run_has(folder, RESULT_FILE))
        return BRASA_OK;
    json_scan s;
    pool p = {.ctx = ctx};
    const char *path = run_path(&p, folder, RESULT_FILE);
    brasa_status status = path ? read_text(&p, path, &s) : BRASA_OUT_OF_MEMORY;
    if (status == BRASA_OK)
        status = json_read_object(&s, read_outcome, out);
    out->there = status == BRASA_OK;
    pool_free(&p);
    return status;
}

static brasa_status read_epoch(json_scan *s, char *key, void *user)
{
    brasa_epoch *f = user;
    const struct {
        const char *key;
        double *to;
    } list[] = {{"loss", &f->loss},
                {"accuracy", &f->accuracy},
                {"test_loss", &f->test_loss},
                {"test_accuracy", &f->test_accuracy},
                {"test_top5", &f->test_top5},
                {"seconds", &f->seconds},
                {"images_per_s", &f->images_per_second},
                {"learning_rate", &f->learning_rate},
                {"gpu_memory_bytes", &f->gpu_memory},
                {"gpu_utilization", &f->gpu_utilization}};
    if (strcmp(key, "epoch") == 0)
        return json_read_number(s, (uint64_t *)&f->epoch);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(list[i].key, key) == 0)
            return read_figure(s, list[i].to);
    return json_skip(s);
}

/* A line that ends, has an object in it, and is the next epoch's. */
static bool read_line(json_scan *all, int count, brasa_epoch *out)
{
    char *end = memchr(all->at, '\n', (size_t)(all->end - all->at));
    if (!end)
        return false;
    json_scan s = *all;
    s.end = end;
    all->at = end + 1;
    *out = (brasa_epoch){.test_loss = NAN,
                         .test_accuracy = NAN,
                         .test_top5 = NAN,
                         .learning_rate = NAN,
                         .gpu_memory = NAN,
                         .gpu_utilization = NAN};
    return json_read_object(&s, read_epoch, out) == BRASA_OK && s.at == end && out->epoch == count + 1;
}

brasa_status run_epochs_read(pool *p, const char *folder, brasa_epoch **out, int *count)
{
    int capacity = 0;
    *out = NULL;
    *count = 0;
    if (!run_has(folder, EPOCHS_FILE))
        return BRASA_OK;
    json_scan s;
    const char *path = run_path(p, folder, EPOCHS_FILE);
    brasa_status status = path ? read_text(p, path, &s) : BRASA_OUT_OF_MEMORY;
    brasa_epoch f;
    while (status == BRASA_OK && read_line(&s, *count, &f)) {
        brasa_epoch *grown = pool_grow(p, *out, *count, &capacity, sizeof *grown);
        if (!grown)
            return fail_memory(p->ctx, (size_t)*count * sizeof *grown);
        *out = grown;
        (*out)[(*count)++] = f;
    }
    return status;
}
