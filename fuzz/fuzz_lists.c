/* fuzz_lists.c - libFuzzer's target for lists of samples: any bytes as the index.csv that puts pictures into groups,
 * or as the split.txt of a run. */
#define _GNU_SOURCE
#include "data.h"

#include "data/split.h"

#include <sys/stat.h>

static void check(brasa_status status)
{
    require(status == BRASA_OK || status == BRASA_BAD_FILE, "an unexpected status");
    if (status != BRASA_OK)
        require(strstr(it.ctx->error, it.folder) && !strchr(it.ctx->error, '\n'), "no clear error");
}

/* Three pictures of two classes, which are not looked at. */
static void make_folder(void)
{
    static const char *const names[] = {"a", "b"}, *const files[] = {"a/1.jpg", "a/2.jpg", "b/1.png"};
    char path[200];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", it.folder, names[i]);
        mkdir(path, 0777);
    }
    for (int i = 0; i < 3; i++)
        put_file(files[i], "", 0);
}

static void read_groups(const uint8_t *data, size_t size)
{
    char spec[300];
    dataset *d = NULL;
    put_file("index.csv", data, size);
    snprintf(spec, sizeof spec, "images:%s,groups=scene", it.folder);
    check(dataset_open(it.ctx, spec, &d));
    for (int32_t i = 0; d && i < d->count; i++)
        require(d->group[i] >= 0 && d->group[i] < d->groups, "a strange group");
    dataset_close(d);
}

static void read_split(const uint8_t *data, size_t size)
{
    char spec[300], path[200];
    dataset *d = NULL;
    split s;
    put_file("split.txt", data, size);
    snprintf(spec, sizeof spec, "images:%s", it.folder);
    snprintf(path, sizeof path, "%s/split.txt", it.folder);
    require(dataset_open(it.ctx, spec, &d) == BRASA_OK, "no set");
    const brasa_status status = split_read(d, path, &s);
    check(status);
    if (status == BRASA_OK) {
        int seen = 0;
        for (int32_t i = 0; i < s.trains + s.tests; i++)
            seen |= 1 << (i < s.trains ? s.train[i] : s.test[i - s.trains]);
        require(seen < 8 && __builtin_popcount((unsigned)seen) == s.trains + s.tests, "a sample twice");
        split_free(&s);
    }
    dataset_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!it.ctx) {
        start();
        make_folder();
    }
    if (size == 0)
        return 0;
    it.most = (1 << 20) + 2048 * size;
    const size_t live = it.live;
    if (data[0] % 2)
        read_split(data + 1, size - 1);
    else
        read_groups(data + 1, size - 1);
    require(it.live == live, "memory that is not given back");
    return 0;
}
