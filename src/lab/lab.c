/* lab.c - see lab.h. */
#define _POSIX_C_SOURCE 200809L
#include "lab/lab.h"

#include "data/source.h"

#include <string.h>
#include <time.h>

enum { MOST_BYTES = 64 << 20 };

void lab_cell_json(json *j, const lab_cell *c)
{
    json_text(j, "key", c->key);
    json_text(j, "experiment", c->experiment);
    json_text(j, "title", c->title);
    json_text(j, "view", c->view);
    json_text(j, "network", c->network);
    json_text(j, "data", c->data);
    json_text(j, "transform", c->transform);
    json_text(j, "split", c->split);
    json_text(j, "optimizer", c->optimizer);
    json_text(j, "dialect", c->dialect);
    json_text(j, "device", c->device);
    json_text(j, "precision", c->precision);
    json_int(j, "batch", c->batch);
    json_int(j, "epochs", c->epochs);
    json_int(j, "repeats", c->repeats);
    json_int(j, "folds", c->folds);
    json_int(j, "threads", c->threads);
    json_int(j, "seed", c->seed);
    json_int(j, "mem", c->mem);
    json_real(j, "limit", c->limit);
    json_bool(j, "timing", c->timing);
    json_bool(j, "doubling", c->doubling);
    json_bool(j, "profile", c->profile);
}

bool lab_text_write(void *user, const char *text, size_t length)
{
    lab_text *t = user;
    if (t->used + length >= t->size) {
        const size_t size = 2 * (t->used + length) + 512;
        char *grown = pool_get(t->pool, size, 1);
        if (!grown)
            return false;
        if (t->used)
            memcpy(grown, t->text, t->used);
        t->text = grown;
        t->size = size;
    }
    memcpy(t->text + t->used, text, length);
    t->used += length;
    t->text[t->used] = '\0';
    return true;
}

static double seconds_of(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double lab_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double lab_cpu(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

double lab_thread_cpu(void)
{
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

brasa_status lab_read_file(pool *p, const char *path, char **text, size_t *length)
{
    data_file f;
    brasa_status status = file_open(p->ctx, path, &f);
    if (status != BRASA_OK)
        return status;
    if (f.size > MOST_BYTES)
        status = fail(p->ctx, BRASA_BAD_FILE, "%s: %lld bytes are too many for a file of the lab", path,
                      (long long)f.size);
    *length = status == BRASA_OK ? (size_t)f.size : 0;
    if (status == BRASA_OK && !(*text = pool_get(p, *length + 1, 1)))
        status = fail_memory(p->ctx, *length);
    if (status == BRASA_OK)
        status = file_exact(&f, *text, *length);
    file_close(&f);
    return status;
}
