/* data.h - for fuzzing what reads data: a folder for the file in hand, and a context that watches. What holds for any
 * bytes: opening works or is refused in one line that names the file; memory is given back, and none is asked for
 * that the file does not warrant. */
#ifndef FUZZ_DATA_H
#define FUZZ_DATA_H

#include "data/dataset.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    brasa_context *ctx;
    char folder[64];
    size_t live, most; /* blocks; bytes of one that are allowed */
} it;

static inline void require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s; the error is: %s\n", what, it.ctx ? it.ctx->error : "");
    abort();
}

static void *watched_alloc(void *user, size_t bytes)
{
    (void)user;
    require(bytes <= it.most, "a large allocation");
    it.live++;
    return malloc(bytes);
}

static void watched_release(void *user, void *block)
{
    (void)user;
    it.live--;
    free(block);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)type;
    (void)f;
    return remove(path);
}

static void clean_up(void)
{
    nftw(it.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* On the first call. The folder is in memory where there is such a file system. */
static inline void start(void)
{
    if (it.ctx)
        return;
    it.most = 1 << 20;
    atexit(clean_up);
    snprintf(it.folder, sizeof it.folder, "%s/brasa-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(it.folder) || brasa_context_new(&SIZED(brasa_context_options, .threads = 1, .alloc = watched_alloc,
                                                        .release = watched_release),
                                                 &it.ctx) != BRASA_OK)
        abort();
}

static inline void put_file(const char *name, const void *data, size_t bytes)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", it.folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        abort();
}

static inline void drop_file(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", it.folder, name);
    remove(path);
}

/* Opens the folder, or a file in it, and reads every sample. `size` of the file that was made up. */
static inline void open_and_read(const char *format, size_t size)
{
    char spec[300];
    dataset *d = NULL;
    picture p = {0};
    const size_t live = it.live;
    it.most = (1 << 20) + 2048 * size; /* packed files become a thousand times as long */
    snprintf(spec, sizeof spec, format, it.folder);
    const brasa_status status = dataset_open(it.ctx, spec, &d);
    require(status == BRASA_OK || status == BRASA_BAD_FILE || status == BRASA_BAD_ARGUMENT, "an unexpected status");
    if (status != BRASA_OK)
        require(strstr(it.ctx->error, it.folder) && !strchr(it.ctx->error, '\n'), "no clear error");
    for (int32_t i = 0; d && i < d->count && i < 1000; i++) {
        require(d->label[i] >= 0 && d->label[i] < d->classes, "a label out of range");
        if (d->numbers)
            require(isfinite(dataset_numbers(d, i)[d->channels - 1]), "a number that is none");
        else
            require(dataset_read(d, it.ctx, i, &p) == BRASA_OK, "a sample that cannot be read");
    }
    picture_free(it.ctx, &p);
    dataset_close(d);
    require(it.live == live, "memory that is not given back");
}

#endif
