/* test_large.c - tensors of more than 2^31 bytes, for real: a training step on pictures that are the same all over
 * must give the loss and the gradients of the same network on pictures of one pixel. Needs 10 GB and half a minute.
 *
 * Many channels, not large pictures: kernels sum a channel in float, one equal term after the other, which is where
 * rounding adds up most. With eight million terms a bias gradient was 3 % off; with a hundred thousand it is not.
 */
#include "test.h"

#include <stdlib.h>

enum { N = 33, CHANNELS = 4096, SIDE = 64, CLASSES = 5, WEIGHTS = CHANNELS };
_Static_assert((int64_t)N *CHANNELS *SIDE *SIDE * 4 > INT64_C(1) << 31, "an offset must not fit 32 bits");

static double available_gigabytes(void)
{
    char line[200];
    double kilobytes = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && kilobytes == 0 && fgets(line, sizeof line, file))
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kilobytes = strtod(line + 13, NULL);
    if (file)
        fclose(file);
    return kilobytes / 1e6;
}

typedef struct result {
    float loss;
    float dwei[WEIGHTS], dbia[WEIGHTS];
    float pooled[N * CHANNELS];
} result;

static float pixel(int n, int c)
{
    return (float)((n * 5 + c * 3) % 11) / 11 - 0.3f;
}

static brasa_status fetch(brasa_session *s, result *r)
{
    brasa_status status = brasa_fetch(s, "loss", &r->loss, sizeof r->loss);
    if (status == BRASA_OK)
        status = brasa_fetch(s, "c.weight.grad", r->dwei, sizeof r->dwei);
    if (status == BRASA_OK)
        status = brasa_fetch(s, "c.bias.grad", r->dbia, sizeof r->dbia);
    return status == BRASA_OK ? brasa_fetch(s, "pooled", r->pooled, sizeof r->pooled) : status;
}

/* One step on pictures of side x side. */
static brasa_status train(int side, result *r)
{
    const size_t plane = (size_t)side * (size_t)side;
    float *images = malloc(sizeof *images * N * CHANNELS * plane);
    int32_t labels[N];
    if (!images)
        return BRASA_OUT_OF_MEMORY;
    for (int n = 0; n < N; n++) {
        labels[n] = n % CLASSES;
        for (int c = 0; c < CHANNELS; c++)
            for (size_t i = 0; i < plane; i++)
                images[((size_t)n * CHANNELS + (size_t)c) * plane + i] = pixel(n, c);
    }
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_tensor x = brasa_input(g, "image", CHANNELS, side, side);
    x = brasa_relu(brasa_apply(x, "conv %d 1x1 groups=%d name=c", CHANNELS, CHANNELS));
    x = brasa_flatten(brasa_global_avgpool(x));
    brasa_output(x, "pooled");
    brasa_classify(x, CLASSES);
    brasa_session *s = NULL;
    brasa_session_options o = {
        .size = sizeof o, .batch = N, .optimizer = "sgd lr=0.1", .keep_gradients = true, .seed = 4};
    brasa_status status = brasa_session_new(g, &o, &s);
    if (status == BRASA_OK)
        status = brasa_train_step(s, images, labels, NULL);
    if (status == BRASA_OK)
        status = fetch(s, r);
    if (status != BRASA_OK)
        printf("%s\n", brasa_graph_error(g));
    brasa_session_free(s);
    brasa_graph_free(g);
    free(images);
    return status;
}

TEST(beyond_2_to_31_bytes)
{
    static result large, small;
    if (available_gigabytes() < 10)
        SKIP("needs 10 GB of memory");
    REQUIRE(train(1, &small) == BRASA_OK);
    REQUIRE(train(SIDE, &large) == BRASA_OK);
    CHECK_CLOSE(large.loss, small.loss, 1e-5);
    for (int i = 0; i < N * CHANNELS; i++)
        CHECK_CLOSE(large.pooled[i], small.pooled[i], 1e-5);
    for (int i = 0; i < WEIGHTS; i++) {
        CHECK_CLOSE(large.dwei[i], small.dwei[i], 1e-5);
        CHECK_CLOSE(large.dbia[i], small.dbia[i], 1e-5);
    }
}
