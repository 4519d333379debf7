/* pictures.c - trains mobilenet_v2, one of the networks that come with the library, on pictures drawn here: what
 * `./run demo` shows. A picture is a disc, a square or a ring of any colour, size and place, in front of a background
 * that fades from one colour to another, with noise over all of it. The shape is what there is to learn.
 */
#include <brasa.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 16, STEPS = 48, SHOWN = 8, TESTED = 64, CLASSES = 3, SIDE = 224, PLANE = SIDE * SIDE };

/* In [0, 1). */
static float chance(void)
{
    return (float)(rand() % 10000) / 10000;
}

typedef struct colour {
    float part[3];
} colour;

static colour any_colour(void)
{
    return (colour){{chance(), chance(), chance()}};
}

/* Whether a shape of this kind and radius has the point, seen from its middle. */
static bool covers(int kind, float radius, float y, float x)
{
    const float square = radius * 0.85f, hole = radius * 0.6f, distance = y * y + x * x;
    if (kind == 1)
        return y > -square && y < square && x > -square && x < square;
    return distance < radius * radius && (kind == 0 || distance > hole * hole);
}

/* image: 3 x 224 x 224, centred at zero */
static void draw_one(int kind, float *image)
{
    const colour top = any_colour(), bottom = any_colour();
    colour ink = any_colour();
    ink.part[kind] = 1.5f;
    const float radius = SIDE * (0.15f + 0.2f * chance());
    const float middle_y = radius + (SIDE - 2 * radius) * chance(),
                middle_x = radius + (SIDE - 2 * radius) * chance();
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            const bool in = covers(kind, radius, (float)y - middle_y, (float)x - middle_x);
            const float low = (float)y / SIDE;
            for (int c = 0; c < 3; c++) {
                const float back = top.part[c] + low * (bottom.part[c] - top.part[c]);
                image[c * PLANE + y * SIDE + x] = 4 * ((in ? ink.part[c] : back) - 0.5f) + 0.3f * chance();
            }
        }
    }
}

/* images: count x 3 x 224 x 224 */
static void draw(int count, float *images, int32_t *labels)
{
    for (int n = 0; n < count; n++) {
        labels[n] = rand() % CLASSES;
        draw_one(labels[n], images + n * 3 * PLANE);
    }
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* On a terminal one line that moves, elsewhere a line every few steps. */
static void show(int step, float loss, double start)
{
    bool terminal = isatty(STDOUT_FILENO), last = step == STEPS;
    if (!terminal && step % SHOWN != 0 && step != 1)
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
    float mean = 0; /* of the last steps: a single batch says little */
    for (int step = 1; step <= STEPS && status == BRASA_OK; step++) {
        float loss = 0;
        draw(BATCH, images, labels);
        status = brasa_train_step(s, images, labels, &loss);
        mean += (loss - mean) / (float)(step < SHOWN ? step : SHOWN);
        if (status == BRASA_OK)
            show(step, mean, start);
    }
    return status;
}

static brasa_status run(brasa_graph *g, brasa_session **s, float *images, int32_t *labels)
{
    brasa_session_options o = {.batch = BATCH, .optimizer = "adam lr=0.001", .seed = 1};
    brasa_memory memory;
    float loss, accuracy;
    brasa_status status = brasa_model_build(g, "mobilenet_v2", CLASSES);
    if (status == BRASA_OK)
        status = brasa_session_new(g, &o, s);
    if (status == BRASA_OK)
        status = brasa_session_memory(*s, &memory);
    if (status != BRASA_OK)
        return status;
    long long params = brasa_graph_param_total(g); /* about two millions */
    printf("mobilenet_v2  %lld,%03lld,%03lld parameters, made-up pictures, batch %d\n", params / 1000000,
           params / 1000 % 1000, params % 1000, BATCH);
    printf("plan          %.1f MB: weights %.1f, optimizer %.1f, activations and gradients %.1f\n",
           (double)memory.total / 1e6, (double)memory.weights / 1e6, (double)memory.optimizer / 1e6,
           (double)memory.transient / 1e6);

    status = train(*s, images, labels);
    draw(TESTED, images, labels);
    if (status == BRASA_OK)
        status = brasa_eval_step(*s, images, labels, TESTED, &loss, &accuracy);
    if (status == BRASA_OK)
        printf("on %d pictures it has not seen: loss %.3f, %.1f %% right\n", TESTED, loss, 100 * accuracy);
    return status;
}

int main(void)
{
    static float images[TESTED * 3 * PLANE];
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
