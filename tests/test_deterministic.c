/* test_deterministic.c - with the option `deterministic` the state after some steps has the same bits, whatever the
 * number of threads. Without it nothing is claimed. */
#include "test.h"
#include "task.h"
#include "session/session.h"

enum { BATCH = 12, STEPS = 4, MOST_THREADS_TRIED = 3 };

/* All of the state (weights, buffers, slots) after some steps, which is one piece of memory; to be freed. */
static void *train(const char *model, int threads, int pixels, size_t *bytes)
{
    void *copy = NULL;
    brasa_context *ctx = context_of(threads);
    brasa_session *s = NULL;
    brasa_graph *g = brasa_graph_new(ctx);
    const brasa_session_options o = {.size = sizeof o,
                                     .batch = BATCH,
                                     .optimizer = "sgd lr=0.05 momentum=0.9",
                                     .clip_norm = 5,
                                     .seed = 2,
                                     .deterministic = true};
    CHECK_STATUS(brasa_model_build(g, model, 10), BRASA_OK);
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    task t = task_new(10, pixels, BATCH, 0.5);
    for (int i = 0; s && i < STEPS; i++) {
        task_fill(&t, i * BATCH);
        CHECK_STATUS(brasa_train_step(s, t.images, t.labels, NULL), BRASA_OK);
    }
    if (s && (copy = malloc((size_t)s->persistent)))
        memcpy(copy, s->arena, *bytes = (size_t)s->persistent);
    task_free(&t);
    brasa_session_free(s);
    brasa_graph_free(g);
    brasa_context_free(ctx);
    return copy;
}

TEST(any_number_of_threads)
{
    static const struct {
        const char *model;
        int pixels;
    } rows[] = {{"mnist_cnn", 28 * 28}, {"tiny_resnet", 3 * 32 * 32}, {"tiny_inception", 3 * 32 * 32}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        size_t bytes = 0, same;
        void *one = train(rows[r].model, 1, rows[r].pixels, &bytes);
        REQUIRE(one && bytes > 0);
        for (int threads = 2; threads <= MOST_THREADS_TRIED; threads++) {
            CASE("%s %d", rows[r].model, threads);
            void *many = train(rows[r].model, threads, rows[r].pixels, &same);
            REQUIRE(many);
            CHECK_INT(same, bytes);
            CHECK(memcmp(one, many, bytes) == 0);
            free(many);
        }
        free(one);
    }
}
