/* test_alloc.c - running out of memory: the n-th allocation fails, for n = 1, 2, ... until a run needs fewer.
 *
 * Every time a status and a text must come back, nothing may crash, and every block must be given back. Blocks are
 * filled with rubbish when they are handed out and when they are taken back, so that whoever relies on either is
 * found.
 */
#include "test.h"

#include <stdlib.h>

enum { RUBBISH = 0xA5, MOST_BLOCKS = 4096 };

typedef struct heap {
    int calls, fail_at; /* the call that fails, from 1; 0: none */
    int live;
    bool confused; /* a block that is not ours was given back */
} heap;

/* In front of each block, at a distance that keeps malloc's alignment. */
typedef struct header {
    const heap *owner;
    size_t bytes;
} header;
enum { HEAD = 16 };
_Static_assert(sizeof(header) <= HEAD, "the header fits");

static void *heap_alloc(void *user, size_t bytes)
{
    heap *h = user;
    if (++h->calls == h->fail_at)
        return NULL;
    char *block = malloc(HEAD + bytes);
    if (!block)
        return NULL;
    *(header *)(void *)block = (header){h, bytes};
    memset(block + HEAD, RUBBISH, bytes);
    h->live++;
    return block + HEAD;
}

static void heap_release(void *user, void *block)
{
    heap *h = user;
    header *head = (header *)(void *)((char *)block - HEAD);
    if (head->owner != h) {
        h->confused = true;
        return;
    }
    memset(block, RUBBISH, head->bytes);
    *head = (header){0};
    free(head);
    h->live--;
}

typedef struct plan {
    const char *model;
    const char *optimizer, *schedule;
    double clip_norm;
    int parts;
} plan;

enum { BATCH = 2, MOST_INPUTS = 3 * 32 * 32 };
static float images[(BATCH + 1) * MOST_INPUTS];
static const int32_t labels[BATCH + 1] = {1, 2, 3};

/* From nothing to a step; what was made is freed whatever happens. *text: what the library said. */
static brasa_status run(heap *h, const plan *p, char *text, size_t size)
{
    brasa_context *ctx = NULL;
    brasa_graph *g = NULL;
    brasa_session *s = NULL;
    brasa_context_options c = {
        .size = sizeof c, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = h};
    brasa_status status = brasa_context_new(&c, &ctx);
    snprintf(text, size, "out of memory"); /* where there is nothing yet that could carry a text */
    if (status == BRASA_OK && !(g = brasa_graph_new(ctx)))
        status = BRASA_OUT_OF_MEMORY;
    if (status == BRASA_OK) {
        brasa_session_options o = {.size = sizeof o,
                                   .batch = BATCH,
                                   .optimizer = p->optimizer,
                                   .schedule = p->schedule,
                                   .clip_norm = p->clip_norm,
                                   .micro_batches = p->parts};
        float loss = 0;
        status = brasa_model_build(g, p->model, 0);
        if (status == BRASA_OK)
            status = brasa_session_new(g, &o, &s);
        if (status == BRASA_OK)
            status = brasa_train_step(s, images, labels, &loss);
        CHECK(status != BRASA_OK || isfinite(loss));
        CHECK((status == BRASA_OK) == (s != NULL));
        snprintf(text, size, "%s", brasa_context_error(ctx));
    }
    brasa_session_free(s);
    brasa_graph_free(g);
    brasa_context_free(ctx);
    return status;
}

static void fail_each(const plan *p)
{
    for (int n = 1; n < MOST_BLOCKS; n++) {
        char text[1024];
        heap h = {.fail_at = n};
        brasa_status status = run(&h, p, text, sizeof text);
        CHECK_INT(h.live, 0);
        CHECK(!h.confused);
        if (h.calls < n) { /* this run needed fewer: the end */
            CHECK_STATUS(status, BRASA_OK);
            CHECK(n > 5);
            return;
        }
        CHECK_STATUS(status, BRASA_OUT_OF_MEMORY);
        CHECK_HAS(text, "out of memory");
        if (tests.failed) {
            printf("    allocation %d failed: '%s'\n", n, text);
            return;
        }
    }
    CHECK(!"a run that needs fewer blocks");
}

TEST(each_allocation_fails)
{
    static const plan plans[] = {
        {"mnist_cnn", "sgd lr=0.01 momentum=0.9", NULL, 0},
        {"tiny_resnet", "adam", "cosine steps=10 warmup=2", 1},
        {"tiny_inception", "adadelta", "step every=3", 0},
        {"letter_mlp", "rmsprop", NULL, 0},
        {"mnist_cnn", "sgd lr=0.01 momentum=0.9", NULL, 1, 2},
        {BRASA_SOURCE_DIR "/src/models/mnist_cnn.net", "sgd lr=0.01", NULL, 0},
    };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        CASE("%s%s", strstr(plans[i].model, ".net") ? "mnist_cnn.net" : plans[i].model,
             plans[i].parts ? " in parts" : "");
        fail_each(&plans[i]);
    }
}

/* A session that could not be made ready for another size still trains, and is made ready when there is memory. */
TEST(session_survives)
{
    heap h = {0};
    brasa_context *ctx = NULL;
    brasa_context_options c = {
        .size = sizeof c, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &h};
    REQUIRE(brasa_context_new(&c, &ctx) == BRASA_OK);
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_session *s = NULL;
    float loss = 0, before[10], after[10];
    REQUIRE(g && brasa_model_build(g, "tiny_resnet", 10) == BRASA_OK);
    REQUIRE(brasa_session_new(g, &SIZED(brasa_session_options, .batch = BATCH, .optimizer = "adam"), &s) == BRASA_OK);
    REQUIRE(brasa_train_step(s, images, labels, NULL) == BRASA_OK);

    brasa_value_info bias = {.size = sizeof bias};
    for (int32_t i = 0; brasa_graph_param_at(g, i, &bias) && (bias.rank != 1 || bias.shape[0] != 10); i++)
        continue;
    REQUIRE(bias.rank == 1 && bias.shape[0] == 10);
    CHECK_STATUS(brasa_param_get(s, bias.name, before, 10), BRASA_OK);

    brasa_status status = BRASA_OUT_OF_MEMORY;
    for (int n = 1; n < MOST_BLOCKS && status == BRASA_OUT_OF_MEMORY; n++) {
        int live = h.live;
        h.calls = 0;
        h.fail_at = n;
        status = brasa_session_prepare(s, true, BATCH + 1);
        if (status == BRASA_OK)
            break;
        CHECK_STATUS(status, BRASA_OUT_OF_MEMORY);
        CHECK_HAS(brasa_session_error(s), "out of memory");
        CHECK_INT(h.live, live);
    }
    h.fail_at = 0;
    CHECK_STATUS(status, BRASA_OK);
    CHECK_STATUS(brasa_param_get(s, bias.name, after, 10), BRASA_OK);
    CHECK(memcmp(before, after, sizeof before) == 0);
    CHECK_INT(brasa_session_steps(s), 1);
    CHECK_STATUS(brasa_train_step(s, images, labels, &loss), BRASA_OK);
    CHECK(isfinite(loss));
    CHECK_STATUS(brasa_eval_step(s, images, labels, BATCH + 1, &loss, NULL), BRASA_OK);

    brasa_session_free(s);
    brasa_graph_free(g);
    brasa_context_free(ctx);
    CHECK_INT(h.live, 0);
    CHECK(!h.confused);
}
