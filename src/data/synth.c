/* synth.c - data that needs no file: drawn when it is read, of the shapes and sizes of the real sets, to try things
 * with and to measure by. Learnable, not trivial. A sample depends on (seed, number) alone; classes take turns.
 */
#include "data/codec.h"
#include "data/draw.h"
#include "data/source.h"

#include <stdio.h>
#include <string.h>

enum { FEATURES = 16, LEVELS = 16, STYLES = 2, QUALITY = 90 };

typedef struct kind {
    const char *name;
    int32_t train, test; /* as the real set has them; test 0: one part */
    int classes;
    int channels, height, width;
    bool encoded; /* as JPEG; the size can be set */
} kind;

static const kind kinds[] = {
    {"fire", 791, 0, 3, 3, 270, 360, true},          {"digits", 60000, 10000, 10, 1, 28, 28, false},
    {"cifar10", 50000, 10000, 10, 3, 32, 32, false}, {"cifar100", 50000, 10000, 100, 3, 32, 32, false},
    {"letter", 20000, 0, 26, FEATURES, 0, 0, false},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct state {
    const kind *kind;
    uint64_t seed;
    int height, width;
    bool coarse;
    float *numbers; /* of letters: count x FEATURES */
} state;

/* --- letters --------------------------------------------------------------------------------------------------- */

/* A class has two styles, each a point among the features; samples lie around one of them. */
static void make_letter(uint64_t seed, int32_t sample, int class, float *to)
{
    pen hand = pen_for(seed, DRAW_LETTER, sample);
    const int style = pen_pick(&hand, STYLES);
    struct pen middle = pen_for(seed, DRAW_LETTER_CLASS, class * STYLES + style);
    for (int i = 0; i < FEATURES; i++) {
        float spread = 0;
        for (int k = 0; k < 3; k++)
            spread += pen_between(&hand, -2.5f, 2.5f);
        const float x = pen_between(&middle, 2, 13) + spread;
        to[i] = (float)(int)(x < 0 ? 0 : x > LEVELS - 1 ? LEVELS - 1 : x + 0.5f);
    }
}

static brasa_status make_letters(dataset *d)
{
    state *s = d->state;
    const size_t count = (size_t)d->count * FEATURES;
    if (!(s->numbers = pool_get(&d->pool, count, sizeof *s->numbers)))
        return fail_memory(d->ctx, count * sizeof *s->numbers);
    d->bytes = (int64_t)(count * sizeof *s->numbers);
    for (int32_t i = 0; i < d->count; i++)
        make_letter(s->seed, i, d->label[i], s->numbers + (size_t)i * FEATURES);
    return BRASA_OK;
}

/* --- the set --------------------------------------------------------------------------------------------------- */

static brasa_status find_kind(dataset *d, const char *name, const kind **out)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *out = &kinds[i];
            return BRASA_OK;
        }
    return fail(d->ctx, BRASA_BAD_ARGUMENT, "there is no '%s': expected fire, digits, cifar10, cifar100 or letter",
                name);
}

/* n in all, shared out as the real set's parts are. */
static brasa_status size_parts(dataset *d, const data_spec *sp, const kind *k)
{
    int64_t n = k->train + k->test;
    brasa_status status = spec_number(d->ctx, sp, "n", k->classes, 10000000, &n);
    const int32_t test = (int32_t)(n * k->test / (k->train + k->test));
    if (status != BRASA_OK)
        return status;
    dataset_add_part(d, k->test ? "train" : "all", (int32_t)n - test);
    if (k->test)
        dataset_add_part(d, "test", test);
    return BRASA_OK;
}

static brasa_status read_settings(dataset *d, const data_spec *sp, const kind *k)
{
    state *s = d->state;
    int64_t size = k->width, seed = 0;
    brasa_status status = spec_number(d->ctx, sp, "size", 16, 4096, &size);
    if (status == BRASA_OK)
        status = spec_number(d->ctx, sp, "seed", 0, INT64_MAX, &seed);
    if (status == BRASA_OK)
        status = spec_flag(d->ctx, sp, "coarse", &s->coarse);
    if (status == BRASA_OK && spec_get(sp, "size") && !k->encoded)
        return fail(d->ctx, BRASA_BAD_ARGUMENT, "size: %s is always of one size", k->name);
    if (status == BRASA_OK && s->coarse && k->classes != 100)
        return fail(d->ctx, BRASA_BAD_ARGUMENT, "coarse: for cifar100 only");
    s->kind = k;
    s->seed = (uint64_t)seed;
    s->width = (int)size;
    s->height = k->encoded ? (int)size * 3 / 4 : k->height;
    return status;
}

static brasa_status name_classes(dataset *d)
{
    static const char *const names[] = {"fire", "none", "smoke"};
    const state *s = d->state;
    brasa_status status = dataset_number_classes(d);
    for (int i = 0; status == BRASA_OK && i < d->classes; i++) {
        if (s->kind->encoded)
            d->class_name[i] = names[i];
        else if (d->numbers && !(d->class_name[i] = pool_text(&d->pool, "%c", 'A' + i)))
            return fail_memory(d->ctx, 0);
    }
    return status;
}

static brasa_status synth_open(dataset *d, const data_spec *sp)
{
    const kind *k = NULL;
    state *s = pool_get(&d->pool, 1, sizeof *s);
    if (!(d->state = s))
        return fail_memory(d->ctx, sizeof *s);
    brasa_status status = find_kind(d, sp->path, &k);
    if (status == BRASA_OK)
        status = read_settings(d, sp, k);
    if (status == BRASA_OK)
        status = size_parts(d, sp, k);
    if (status == BRASA_OK)
        status = dataset_make_labels(d);
    if (status != BRASA_OK)
        return status;
    d->classes = s->coarse ? 20 : k->classes;
    d->channels = k->channels;
    d->varied = k->encoded;
    d->numbers = k->height == 0;
    d->height = d->varied ? 0 : s->height;
    d->width = d->varied ? 0 : s->width;
    for (int32_t i = 0; i < d->count; i++)
        d->label[i] = s->coarse ? i % 100 / 5 : i % k->classes;
    status = name_classes(d);
    return status == BRASA_OK && d->numbers ? make_letters(d) : status;
}

static brasa_status synth_read(const dataset *d, brasa_context *errors, int32_t sample, picture *p)
{
    const state *s = d->state;
    const kind *k = s->kind;
    const int class = sample % k->classes;
    brasa_status status = picture_shape(errors, p, k->channels, s->height, s->width);
    if (status != BRASA_OK)
        return status;
    if (k->encoded)
        draw_fire(s->seed, sample, class, p);
    else if (k->channels == 1)
        draw_digit(s->seed, sample, class, p);
    else
        draw_shape(s->seed, sample, class, k->classes, p);
    if (!k->encoded)
        return BRASA_OK;
    size_t bytes;
    return codec_encode_jpeg(errors, p, QUALITY, &bytes);
}

static const float *synth_numbers(const dataset *d, int32_t sample)
{
    const state *s = d->state;
    return s->numbers + (size_t)sample * FEATURES;
}

static sample_name synth_name(const dataset *d, int32_t sample)
{
    sample_name n;
    snprintf(n.text, sizeof n.text, "%.400s, sample %d", d->spec, (int)sample);
    return n;
}

/* How pictures of fire become JPEG files is a matter of the library, as it is how other files are decoded. */
static bool synth_define(const dataset *d, char *text, size_t size, picture_size *each)
{
    const state *s = d->state;
    *each = (picture_size){s->height, s->width};
    snprintf(text, size, "synth:%s, version %d, seed %llu, %dx%d", s->kind->name, DRAWING_VERSION,
             (unsigned long long)s->seed, s->height, s->width);
    return true;
}

const source synth_source = {
    .info = {"synth", "synth:fire|digits|cifar10|cifar100|letter[,n=N][,seed=N][,size=PIXELS][,coarse]",
             "drawn here, no file needed: pictures of fire, and sets of the shapes of the real ones"},
    .keys = "n seed size coarse",
    .open = synth_open,
    .read = synth_read,
    .numbers = synth_numbers,
    .name = synth_name,
    .define = synth_define,
};
