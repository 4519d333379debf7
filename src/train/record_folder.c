/* record_folder.c - the folder of a run: made, locked, unmade. Only an empty one is taken, so nothing in it is ever
 * anybody else's. */
#define _GNU_SOURCE
#include "core/replace.h"
#include "train/record.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RUNS = 100000 /* of one model on one day */, TRIES = 100, PAUSE = 5 /* milliseconds */ };

static brasa_status refuse(training *t, const char *path)
{
    return fail(t->task.ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
}

/* --- what is in it ------------------------------------------------------------------------------------------- */

static bool is_number(const char **at)
{
    const char *begin = *at;
    while (isdigit((unsigned char)**at))
        ++*at;
    return *at > begin;
}

/* Whether replace.h would call a temporary file for `file` so. */
static bool is_temporary(const char *name, const char *file)
{
    const size_t length = strlen(file);
    if (strncmp(name, file, length) != 0 || name[length] != '.')
        return false;
    const char *at = name + length + 1;
    return is_number(&at) && *at++ == '-' && is_number(&at) && strcmp(at, ".tmp") == 0;
}

/* What a process that was killed left half written. The lock is ours, so nobody is at it. */
static void sweep(const char *folder)
{
    static const char *const files[] = {RUN_FILE,     MODEL_FILE,  EPOCHS_FILE, SPLIT_FILE,   CHECKPOINT_FILE,
                                        WEIGHTS_FILE, RESULT_FILE, REPORT_FILE, CHOICES_FILE, PROFILE_FILE};
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));)
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
            if (is_temporary(e->d_name, files[i]))
                unlinkat(dirfd(list), e->d_name, 0);
    if (list)
        closedir(list);
}

/* A process that is killed before run.json is there leaves less than a run: half of run.json, and perhaps a copy of
 * the model, which is never there without that half. In place of them the run begins anew. */
static brasa_status check_entries(training *t, DIR *list)
{
    bool begun = false, model = false, other = false;
    for (struct dirent *e; (e = readdir(list));) {
        const char *name = e->d_name;
        if (strcmp(name, RUN_FILE) == 0)
            return fail(t->task.ctx, BRASA_BAD_ARGUMENT,
                        "%s: there is a run already; resume it, or take another folder", t->folder);
        if (is_temporary(name, RUN_FILE))
            begun = true;
        else if (strcmp(name, MODEL_FILE) == 0)
            model = true;
        else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !is_temporary(name, MODEL_FILE))
            other = true;
    }
    if (!other && (begun || !model))
        return BRASA_OK;
    return fail(t->task.ctx, BRASA_BAD_ARGUMENT, "%s: the folder is not empty; take another one", t->folder);
}

static brasa_status check_folder(training *t)
{
    DIR *list = opendir(t->folder);
    brasa_status status = list ? check_entries(t, list) : refuse(t, t->folder);
    if (list)
        closedir(list);
    return status;
}

/* --- making it ----------------------------------------------------------------------------------------------- */

/* "mnist_cnn" of "nets/mnist_cnn.net", without letters that a shell would stumble over. */
static void model_word(const char *model, char *out, size_t size)
{
    const char *slash = strrchr(model, '/');
    snprintf(out, size, "%s", slash ? slash + 1 : model);
    char *end = strrchr(out, '.');
    if (end && strcmp(end, ".net") == 0)
        *end = '\0';
    for (char *c = out; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", *c))
            *c = '-';
}

/* The first number that is free; mkdir alone decides, so that two runs that begin at once get one each. */
static brasa_status make_numbered(training *t)
{
    char model[64], date[16];
    struct tm tm;
    const time_t now = time(NULL);
    model_word(t->task.settings.model, model, sizeof model);
    strftime(date, sizeof date, "%Y-%m-%d", localtime_r(&now, &tm));
    t->made_all = mkdir("runs", 0777) == 0;
    if (!t->made_all && errno != EEXIST)
        return refuse(t, "runs");
    for (int n = 1; n < MOST_RUNS; n++) {
        char *folder = pool_text(&t->task.pool, "runs/%s-%s-%d", date, model, n);
        if (!folder)
            return fail_memory(t->task.ctx, 0);
        if (mkdir(folder, 0777) == 0) {
            t->folder = folder;
            t->made = true;
            return sync_folder(t->task.ctx, "runs");
        }
        if (errno != EEXIST)
            return refuse(t, folder);
    }
    return fail(t->task.ctx, BRASA_BAD_FILE, "runs: no number is left for another run of %s", model);
}

/* Shells complete the names of folders with a slash. */
brasa_status record_folder(training *t, const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    t->folder = pool_text(&t->task.pool, "%.*s", (int)length, path);
    return t->folder ? BRASA_OK : fail_memory(t->task.ctx, length + 1);
}

static brasa_status make_named(training *t)
{
    brasa_status status = record_folder(t, t->options.out);
    t->made = status == BRASA_OK && mkdir(t->folder, 0777) == 0;
    return status == BRASA_OK && !t->made && errno != EEXIST ? refuse(t, t->folder) : status;
}

/* Whether files can be made where `path` is to be. */
static brasa_status check_parent(training *t, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *parent = !slash          ? "."
                         : slash == path ? "/"
                                         : pool_text(&t->task.pool, "%.*s", (int)(slash - path), path);
    if (!parent)
        return fail_memory(t->task.ctx, strlen(path));
    return access(parent, W_OK | X_OK) == 0 ? BRASA_OK : refuse(t, path);
}

brasa_status record_check(training *t)
{
    const char *path = "runs";
    brasa_status status = t->options.out[0] ? record_folder(t, t->options.out) : BRASA_OK;
    if (status != BRASA_OK)
        return status;
    if (t->folder)
        path = t->folder;
    if (access(path, F_OK) != 0)
        status = errno == ENOENT ? check_parent(t, path) : refuse(t, path);
    else if (t->folder)
        status = check_folder(t);
    if (status == BRASA_OK && access(path, F_OK) == 0 && access(path, W_OK | X_OK) != 0)
        status = refuse(t, path);
    t->folder = NULL; /* it is not made yet */
    return status;
}

void record_undo(training *t)
{
    /* All that is made before the first step, and the folder of a fold. */
    static const char *const files[] = {RUN_FILE, MODEL_FILE, CHOICES_FILE}, *const of_unit[] = {SPLIT_FILE,
                                                                                                 CHECKPOINT_FILE};
    const brasa_trainer_options *s = &t->task.settings;
    char fold[32] = "", path[100];
    if (t->lock < 0) /* what is there may be another process's */
        return;
    if (s->folds)
        snprintf(fold, sizeof fold, "fold-%02d/", s->fold ? (int)s->fold : 1);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlinkat(t->lock, files[i], 0);
    for (size_t i = 0; i < sizeof of_unit / sizeof of_unit[0]; i++) {
        snprintf(path, sizeof path, "%s%s", fold, of_unit[i]);
        unlinkat(t->lock, path, 0);
    }
    if (s->folds)
        unlinkat(t->lock, fold, AT_REMOVEDIR);
    if (t->made)
        rmdir(t->folder);
    if (t->made_all)
        rmdir("runs");
    t->folder = NULL;
}

brasa_status record_create(training *t)
{
    brasa_status status = t->options.out[0] ? make_named(t) : make_numbered(t);
    if (status == BRASA_OK)
        status = record_lock(t);
    if (status != BRASA_OK)
        return status;
    status = check_folder(t); /* under the lock: nobody else is making it now */
    if (status != BRASA_OK) {
        record_unlock(t);
        return status;
    }
    unlinkat(t->lock, MODEL_FILE, 0);
    return BRASA_OK;
}

/* Whoever only asks whether somebody is at work (run_busy) has the lock for a moment. */
brasa_status record_lock(training *t)
{
    t->lock = open(t->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->lock < 0)
        return refuse(t, t->folder);
    for (int i = 0; i < TRIES; i++) {
        if (flock(t->lock, LOCK_EX | LOCK_NB) == 0)
            return BRASA_OK;
        if (errno != EWOULDBLOCK || i + 1 == TRIES)
            break;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE * 1000000L}, NULL);
    }
    const brasa_status status =
        errno == EWOULDBLOCK ? fail(t->task.ctx, BRASA_WRONG_STATE, "%s: another process is at work there", t->folder)
                             : refuse(t, t->folder);
    record_unlock(t);
    return status;
}

void record_unlock(training *t)
{
    if (t->lock >= 0)
        close(t->lock);
    t->lock = -1;
}

brasa_status record_unit(training *t)
{
    unit *u = &t->unit;
    sweep(t->folder);
    u->folder = u->fold ? pool_text(&u->pool, "%s/fold-%02d", t->folder, u->fold) : t->folder;
    if (!u->folder)
        return fail_memory(t->task.ctx, 0);
    u->checkpoint = run_path(&u->pool, u->folder, CHECKPOINT_FILE);
    u->weights = run_path(&u->pool, u->folder, WEIGHTS_FILE);
    u->epochs = run_path(&u->pool, u->folder, EPOCHS_FILE);
    u->lists = run_path(&u->pool, u->folder, SPLIT_FILE);
    u->result = run_path(&u->pool, u->folder, RESULT_FILE);
    if (!u->checkpoint || !u->weights || !u->epochs || !u->lists || !u->result)
        return BRASA_OUT_OF_MEMORY;
    if (!u->fold)
        return BRASA_OK;
    if (mkdir(u->folder, 0777) != 0 && errno != EEXIST)
        return refuse(t, u->folder);
    sweep(u->folder);
    return sync_folder(t->task.ctx, t->folder);
}
