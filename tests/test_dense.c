/* test_dense.c - dense layers behind a flatten that views.c takes away, whatever number of channels is flattened. */
#include "test.h"
#include "each_case.h"
#include "task.h"

enum { BATCH = 4, STEPS = 3, SIDE = 6, CLASSES = 5 };

static void train(int channels, const char *kernels, float losses[STEPS])
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_tensor x = brasa_flatten(brasa_input(g, "image", channels, SIDE, SIDE));
    x = brasa_relu(brasa_apply(x, "dense 70"));
    brasa_apply(x, "classify %d", CLASSES);
    OWNED(brasa_session) *s = NULL;
    brasa_session_options o = {
        .size = sizeof o, .batch = BATCH, .optimizer = "sgd lr=0.1 momentum=0.9", .kernels = kernels};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    OWNED(task) t = task_new(CLASSES, channels * SIDE * SIDE, BATCH, 0.3);
    for (int i = 0; s && i < STEPS; i++) {
        task_fill(&t, i * BATCH);
        CHECK_STATUS(brasa_train_step(s, t.images, t.labels, &losses[i]), BRASA_OK);
    }
}

/* Fast kernels start from the weights that the reference starts from, and go the same way. */
TEST(flattened_channels)
{
    static const int channels[] = {1, 2, 3, 4, 8, 16, 17};
    for (size_t c = 0; c < sizeof channels / sizeof channels[0]; c++) {
        CASE("%d", channels[c]);
        float fast[STEPS] = {0}, reference[STEPS] = {0};
        train(channels[c], NULL, fast);
        train(channels[c], "_ref", reference);
        for (int i = 0; i < STEPS; i++)
            CHECK_CLOSE(fast[i], reference[i], 1e-5);
        CHECK(reference[STEPS - 1] != reference[0]);
    }
}
