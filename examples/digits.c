/* digits.c - trains mnist_cnn, one of the networks that come with the library, on digits drawn here: what `./run
 * demo` shows. A digit is a glyph of 5 x 7 dots, three pixels a dot, at a random place, with random brightness and
 * noise.
 */
#include <brasa.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 16, STEPS = 60, TESTED = 200, SIDE = 28, DOT = 3 };

/* Rows from top to bottom, five bits each, the leftmost dot first. */
static const unsigned char glyphs[10][7] = {
    {0x0E, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0E}, {0x04, 0x0C, 0x04, 0x04, 0x04, 0x04, 0x0E},
    {0x0E, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1F}, {0x1F, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0E},
    {0x02, 0x06, 0x0A, 0x12, 0x1F, 0x02, 0x02}, {0x1F, 0x10, 0x1E, 0x01, 0x01, 0x11, 0x0E},
    {0x06, 0x08, 0x10, 0x1E, 0x11, 0x11, 0x0E}, {0x1F, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08},
    {0x0E, 0x11, 0x11, 0x0E, 0x11, 0x11, 0x0E}, {0x0E, 0x11, 0x11, 0x0F, 0x01, 0x02, 0x0C},
};

/* In [0, 1). */
static float chance(void)
{
    return (float)(rand() % 10000) / 10000;
}

static bool lit(int digit, int y, int x)
{
    return y >= 0 && y < 7 * DOT && x >= 0 && x < 5 * DOT && (glyphs[digit][y / DOT] >> (4 - x / DOT) & 1);
}

/* images: count x 1 x 28 x 28 */
static void draw(int count, float *images, int32_t *labels)
{
    for (int n = 0; n < count; n++) {
        int digit = rand() % 10, top = 2 + rand() % 4, left = 4 + rand() % 6;
        float ink = 0.6f + 0.4f * chance();
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                *images++ = (lit(digit, y - top, x - left) ? ink : 0) + 0.2f * chance();
        labels[n] = digit;
    }
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* On a terminal one line that moves, elsewhere a line every ten steps. */
static void show(int step, float loss, double start)
{
    bool terminal = isatty(STDOUT_FILENO), last = step == STEPS;
    if (!terminal && step % 10 != 0 && step != 1)
        return;
    char bar[21];
    for (int i = 0; i < 20; i++)
        bar[i] = i < 20 * step / STEPS ? '=' : '.';
    bar[20] = '\0';
    double took = now() - start;
    printf("%sstep %2d/%d  %s  loss %.3f  %.0f img/s  %.0f s%s", terminal ? "\r" : "", step, STEPS, bar, loss,
           step * BATCH / took, last ? took : took / step * (STEPS - step), last ? "" : " left");
    if (terminal) /* over what a longer line left there */
        printf("       ");
    if (!terminal || last)
        printf("\n");
    fflush(stdout);
}

static brasa_status train(brasa_session *s, float *images, int32_t *labels)
{
    brasa_status status = BRASA_OK;
    double start = now();
    for (int step = 1; step <= STEPS && status == BRASA_OK; step++) {
        float loss = 0;
        draw(BATCH, images, labels);
        status = brasa_train_step(s, images, labels, &loss);
        if (status == BRASA_OK)
            show(step, loss, start);
    }
    return status;
}

static brasa_status run(brasa_graph *g, brasa_session **s, float *images, int32_t *labels)
{
    brasa_session_options o = {.batch = BATCH, .optimizer = "adam lr=0.002", .seed = 1};
    brasa_memory memory;
    float loss, accuracy;
    brasa_status status = brasa_model_build(g, "mnist_cnn", 0);
    if (status == BRASA_OK)
        status = brasa_session_new(g, &o, s);
    if (status == BRASA_OK)
        status = brasa_session_memory(*s, &memory);
    if (status != BRASA_OK)
        return status;
    long long params = brasa_graph_param_total(g); /* about a million */
    printf("mnist_cnn  %lld,%03lld,%03lld parameters, made-up digits, batch %d\n", params / 1000000,
           params / 1000 % 1000, params % 1000, BATCH);
    printf("plan       %.1f MB: weights %.1f, optimizer %.1f, activations and gradients %.1f\n",
           (double)memory.total / 1e6, (double)memory.weights / 1e6, (double)memory.optimizer / 1e6,
           (double)memory.transient / 1e6);

    status = train(*s, images, labels);
    draw(TESTED, images, labels);
    if (status == BRASA_OK)
        status = brasa_eval_step(*s, images, labels, TESTED, &loss, &accuracy);
    if (status == BRASA_OK)
        printf("on %d digits it has not seen: loss %.3f, %.1f %% right\n", TESTED, loss, 100 * accuracy);
    return status;
}

int main(void)
{
    static float images[TESTED * SIDE * SIDE];
    static int32_t labels[TESTED];
    brasa_session *s = NULL;
    brasa_graph *g = brasa_graph_new(NULL);
    if (!g)
        return 1;
    brasa_status status = run(g, &s, images, labels);
    if (status != BRASA_OK)
        fprintf(stderr, "%s\n", brasa_graph_error(g));
    brasa_session_free(s);
    brasa_graph_free(g);
    return status == BRASA_OK ? 0 : 1;
}
