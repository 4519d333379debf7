/* fuzz_safetensors.c - libFuzzer's target for reading weights: any bytes as a file, loaded into a small session.
 *
 * Then its notes on the network are read. Besides what the sanitizers see it checks what brasa_session_load promises:
 * a file that is refused changes nothing, and says why in one line; and no allocation is larger than the file
 * warrants. README.md tells how to run it.
 */
#define _GNU_SOURCE
#include "session/session.h"
#include "train/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most); /* libFuzzer's own */

static struct {
    brasa_graph *g;
    brasa_session *s;
    char *before; /* the state as it was made */
    int fd;
    char path[64];
    size_t file, live;
} it;

static void require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s; the error is: %s\n", what, brasa_session_error(it.s));
    abort();
}

static void *watched_alloc(void *user, size_t bytes)
{
    (void)user;
    if (it.s) /* the header, a few bytes an entry of it, and a piece of the data at a time */
        require(bytes < 300000 + 8 * it.file, "a large allocation");
    it.live++;
    return malloc(bytes);
}

static void watched_release(void *user, void *block)
{
    (void)user;
    it.live--;
    free(block);
}

/* Two layers and a batch norm, with an optimizer's slots: names short enough to be found. */
static void start(void)
{
    brasa_context *ctx = NULL;
    brasa_context_options c = {.size = sizeof c, .threads = 1, .alloc = watched_alloc, .release = watched_release};
    if (brasa_context_new(&c, &ctx) != BRASA_OK || !(it.g = brasa_graph_new(ctx)))
        abort();
    brasa_tensor x = brasa_input(it.g, "x", 1, 2, 2);
    x = brasa_apply(brasa_apply(x, "conv 2 1x1 name=a"), "batchnorm name=n");
    brasa_apply(brasa_flatten(x), "classify 2 name=b");
    brasa_session_options o = {.size = sizeof o, .batch = 2, .optimizer = "sgd lr=0.1 momentum=0.9"};
    brasa_session *s = NULL;
    if (brasa_session_new(it.g, &o, &s) != BRASA_OK)
        abort();
    it.before = malloc((size_t)s->persistent);
    memcpy(it.before, s->arena, (size_t)s->persistent);
    it.s = s;
    it.fd = memfd_create("fuzz", 0);
    snprintf(it.path, sizeof it.path, "/proc/self/fd/%d", it.fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!it.s)
        start();
    if (ftruncate(it.fd, 0) != 0 || pwrite(it.fd, data, size, 0) != (ssize_t)size)
        abort();
    it.file = size;
    const size_t bytes = (size_t)it.s->persistent, live = it.live;
    for (int round = 0; round < 4; round++) { /* weights or a checkpoint, all of it or what fits */
        const bool all = round & 2;
        const brasa_load_options o = {.size = sizeof o, round & 1, all, all, all};
        brasa_load_report report = {.size = sizeof report};
        const brasa_status status = brasa_session_load(it.s, it.path, &o, &report);
        require(status == BRASA_OK || status == BRASA_BAD_FILE, "a status that is not expected");
        require(it.live == live, "memory that is not given back");
        if (status != BRASA_OK) {
            require(memcmp(it.before, it.s->arena, bytes) == 0, "a refused file changed the state");
            require(strstr(brasa_session_error(it.s), it.path) && !strchr(brasa_session_error(it.s), '\n'),
                    "no clear error");
        }
        require(status == BRASA_OK || report.loaded == 0, "tensors taken from a refused file");
        memcpy(it.s->arena, it.before, bytes);
    }
    run_info notes;
    const brasa_status status = notes_read(it.s->ctx, it.path, &notes);
    require(status == BRASA_OK || status == BRASA_BAD_FILE, "a status that is not expected");
    require(status != BRASA_OK || (notes.classes && notes.model && notes.settings.transform),
            "notes that are not there");
    run_free(&notes);
    require(it.live == live, "memory that is not given back");
    return 0;
}

/* Mutates what follows the length, and mostly makes the length fit, up to the last brace; else few files would get
 * beyond their first 8 bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    if (size < 10 || most < 16 || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, most);
    size = 8 + LLVMFuzzerMutate(data + 8, size - 8, most - 8);
    size_t length = size - 8;
    while (length > 0 && data[8 + length - 1] != '}')
        length--;
    for (int i = 0; i < 8; i++)
        data[i] = (uint8_t)((uint64_t)length >> 8 * i);
    return size;
}
