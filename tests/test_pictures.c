/* test_pictures.c - numbers made of bytes where a network is computed: to the bit those that the host makes. On a
 * device too: see device.h. */
#define _GNU_SOURCE /* readlink, setenv */
#include "test.h"
#include "core/pixel.h"
#include "device.h"
#include "ops/pictures/pictures.h"
#include "session/session.h"

#include <stdlib.h>

typedef struct shot {
    const char *name;
    int channels, height, width; /* of what is cut out */
    int high, wide;              /* of the picture */
    int count;
} shot;

static const shot shots[] = {
    {"one grey pixel", 1, 1, 1, 1, 1, 1}, {"digits", 1, 28, 28, 28, 28, 5}, {"a grey part", 1, 5, 33, 9, 40, 3},
    {"colours", 3, 32, 32, 32, 32, 4},    {"a part", 3, 7, 13, 20, 31, 9},  {"narrow", 3, 40, 2, 41, 3, 2},
    {"large", 3, 224, 224, 256, 300, 3},
};

static const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};

/* The upper half of a float, rounded to even. */
static float halved(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int top_of(const shot *s, int n)
{
    return (s->high - s->height) * n / s->count;
}

static int left_of(const shot *s, int n)
{
    return s->wide - s->width - (s->wide - s->width) * n / s->count;
}

static int64_t bytes_of(const shot *s)
{
    return (int64_t)s->channels * s->high * s->wide;
}

/* By the words of the header, pixel by pixel. */
static float expected(const shot *s, const unsigned char *pixels, int n, int c, int y, int x)
{
    const int mirrored = n % 3;
    const int row = top_of(s, n) + (mirrored == PICTURES_DOWN ? s->height - 1 - y : y);
    const int column = left_of(s, n) + (mirrored == PICTURES_ACROSS ? s->width - 1 - x : x);
    const unsigned char pixel = pixels[n * bytes_of(s) + ((int64_t)row * s->wide + column) * s->channels + c];
    return pixel_number(pixel, 1 / 255.0, mean[c], std[c]);
}

static brasa_graph *build(brasa_context *ctx, const shot *s, pictures_input *p)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_tensor x = brasa_input(g, "image", s->channels, s->height, s->width);
    brasa_output(brasa_apply(x, "dropout 0.5"), "seen"); /* in evaluation, the input itself */
    brasa_apply(brasa_flatten(x), "classify 2");
    *p = (pictures_input){.input = "image",
                          .views = "image/views",
                          .attr = {.channels = s->channels,
                                   .height = s->height,
                                   .width = s->width,
                                   .scale = 1 / 255.0,
                                   .mean = {mean[0], mean[1], mean[2]},
                                   .std = {std[0], std[1], std[2]}}};
    g->pictures = p;
    return g;
}

static void check(brasa_context *ctx, const shot *s, const device_row *r)
{
    pictures_input p;
    brasa_session *session = NULL;
    char *start = NULL;
    const size_t bytes = (size_t)(s->count * bytes_of(s));
    const size_t count = (size_t)s->count * (size_t)(s->channels * s->height * s->width);
    unsigned char *pixels = malloc(bytes);
    float *seen = calloc(count, sizeof *seen);
    pictures_view *views = calloc((size_t)s->count, sizeof *views);
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (unsigned char)(i < 256 ? i : i * 2654435761u >> 13);
    brasa_graph *g = build(ctx, s, &p);
    const brasa_session_options o = {
        .size = sizeof o, .batch = s->count, .inference = true, .precision = r->precision};
    brasa_status status = brasa_session_new(g, &o, &session);
    start = tensors_get(ctx, bytes);
    if (status == BRASA_OK)
        status = device_copy_in(ctx, start, pixels, bytes);
    for (int n = 0; n < s->count; n++)
        views[n] = (pictures_view){
            .pixels = (int64_t)(intptr_t)(start + n * bytes_of(s)) +
                      ((int64_t)top_of(s, n) * s->wide + left_of(s, n)) * s->channels,
            .row = (int64_t)s->wide * s->channels,
            .mirrored = n % 3,
        };
    if (status == BRASA_OK)
        status = brasa_feed(session, "image/views", views, (size_t)s->count * sizeof *views);
    if (status == BRASA_OK)
        status = brasa_evaluate(session);
    if (status == BRASA_OK)
        status = brasa_fetch(session, "seen", seen, count * sizeof *seen);
    if (status != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s", brasa_context_error(ctx));
    size_t i = 0, wrong = 0;
    for (int n = 0; n < s->count; n++)
        for (int c = 0; c < s->channels; c++)
            for (int y = 0; y < s->height; y++)
                for (int x = 0; x < s->width; x++, i++) {
                    const float want = expected(s, pixels, n, c, y, x);
                    wrong += seen[i] != want && !(r->precision == BRASA_BF16 && seen[i] == halved(want));
                }
    CHECK_INT(wrong, 0);
    brasa_session_free(session);
    brasa_graph_free(g);
    tensors_put(ctx, start);
    free(pixels);
    free(seen);
    free(views);
}

TEST(numbers_of_bytes)
{
    OWNED(brasa_context) *ctx = NULL;
    DEVICE_OR_SKIP();
    if (!device_wanted())
        REQUIRE(brasa_context_new(NULL, &ctx) == BRASA_OK);
    for (const device_row *r = device_wanted_rows(); r->name; r++)
        for (size_t i = 0; i < sizeof shots / sizeof shots[0]; i++) {
            CASE("%s in %s", shots[i].name, r->name);
            check(ctx ? ctx : device_context(), &shots[i], r);
        }
}
