/* test_data_bytes.c - batches of bytes, for a device that makes numbers of them itself: the same numbers as on the
 * CPU. */
#define _GNU_SOURCE
#include "test.h"

#include "core/pixel.h"
#include "loader_rig.h"

/* What whoever computes makes of a sample's bytes. */
static float of_bytes(const rig *r, const unsigned char *pixels, const transform_cut *cut, int c, int y, int x)
{
    const int *of = feeder_shape(r->f);
    const int row = cut->top + (cut->flip == FLIP_VERTICAL ? of[1] - 1 - y : y);
    const int column = cut->left + (cut->flip == FLIP_HORIZONTAL ? of[2] - 1 - x : x);
    const transform *t = &r->t;
    return pixel_number(pixels[(row * cut->width + column) * of[0] + c], t->scale,
                        t->mean.value[t->mean.count > 1 ? c : 0], t->std.value[t->std.count > 1 ? c : 0]);
}

static int differences(const rig *r, const batch *numbers, const batch *b)
{
    const int *of = feeder_shape(r->f);
    const float *want = numbers->input;
    int wrong = 0;
    for (int32_t n = 0; n < b->size; n++)
        for (int c = 0; c < of[0]; c++)
            for (int y = 0; y < of[1]; y++)
                for (int x = 0; x < of[2]; x++)
                    wrong += of_bytes(r, b->pixels + b->cuts[n].offset, &b->cuts[n].cut, c, y, x) != *want++;
    return wrong;
}

static rig make_bytes(const char *spec, const char *text, bool whole, loader_options o)
{
    rig r = make_rig(spec, text, 0, o);
    loader_free(r.l);
    feeder_free(r.f);
    r.l = NULL;
    dataset_report report;
    CHECK_STATUS(dataset_identify(r.d, false, NULL, NULL, &report), BRASA_OK);
    const feeder_options f = {.set = r.d, .transform = &r.t, .sizes = report.size, .bytes = true, .whole = whole};
    CHECK_STATUS(feeder_new(r.ctx, &f, &r.f), BRASA_OK);
    dataset_report_free(&report);
    o.list = r.list;
    o.count = r.d->count;
    CHECK_STATUS(loader_new(r.f, &o, &r.l), BRASA_OK);
    return r;
}

static const struct {
    const char *spec, *transform;
} bytes_rows[] = {
    {"synth:digits,n=23", ""},
    {"synth:digits,n=23", "flip=vertical mean=0.1 std=0.3"},
    {"synth:cifar10,n=23", "crop=24x20 flip=horizontal mean=0.5,0.4,0.3 std=0.2,0.3,0.4"},
    {"synth:cifar10,n=23", "crop=24x20 random_crop=yes flip=horizontal"},
    {"synth:fire,n=23", "resize=40 crop=32 random_crop=yes flip=vertical channels=1"},
};

TEST(bytes_are_the_same_numbers)
{
    for (size_t i = 0; i < sizeof bytes_rows / sizeof bytes_rows[0]; i++)
        for (int whole = 0; whole < 2; whole++) {
            const loader_options o = {.batch = 8, .train = true, .seed = 3};
            CASE("%s %s%s", bytes_rows[i].spec, bytes_rows[i].transform, whole ? ", whole" : "");
            rig a = make_rig(bytes_rows[i].spec, bytes_rows[i].transform, 0, o);
            rig b = make_bytes(bytes_rows[i].spec, bytes_rows[i].transform, whole, o);
            for (int step = 0; a.l && b.l && step < 7; step++) {
                const batch *numbers = next(&a), *bytes = next(&b);
                REQUIRE(numbers && bytes && numbers->size == bytes->size);
                CHECK(memcmp(numbers->samples, bytes->samples, (size_t)bytes->size * sizeof *bytes->samples) == 0);
                CHECK(!bytes->input && bytes->pixel_bytes > 0);
                CHECK_INT(differences(&b, numbers, bytes), 0);
            }
            free_rig(&a);
            free_rig(&b);
        }
}

/* Who has a picture gets no bytes of it, but the same cut. */
TEST(bytes_that_are_skipped)
{
    const loader_options o = {.batch = 8, .train = true, .seed = 3};
    const char *text = "crop=24x20 random_crop=yes flip=horizontal";
    rig a = make_bytes("synth:cifar10,n=23", text, true, o), b = make_bytes("synth:cifar10,n=23", text, true, o);
    REQUIRE(a.l && b.l);
    for (int32_t sample = 0; sample < 23; sample += 2)
        feeder_skip(b.f, sample, 32, 32);
    for (int step = 0; step < 6; step++) {
        const batch *x = next(&a), *y = next(&b);
        size_t bytes = 0;
        for (int32_t n = 0; n < x->size; n++) {
            const bool skipped = x->samples[n] % 2 == 0;
            CHECK(memcmp(&x->cuts[n].cut, &y->cuts[n].cut, sizeof x->cuts[n].cut) == 0);
            CHECK_INT(y->cuts[n].offset, skipped ? -1 : (int64_t)bytes);
            if (!skipped)
                CHECK(memcmp(x->pixels + x->cuts[n].offset, y->pixels + bytes, 32 * 32 * 3) == 0);
            bytes += skipped ? 0 : 32 * 32 * 3;
        }
        CHECK_INT(y->pixel_bytes, bytes);
    }
    CHECK(feeder_decoded(b.f) < feeder_decoded(a.f)); /* a loader that is ahead has decoded some before it was told */
    free_rig(&a);
    free_rig(&b);
}

/* Batches have room for pictures as they were when they were looked through. */
TEST(bytes_of_a_picture_that_grew)
{
    const loader_options o = {.batch = 2, .train = true, .seed = 3};
    const char *path = in_tree("grown/a/0.jpg");
    brasa_context *ctx = context_of(1);
    char spec[300], text[300];
    const bool made = put_jpeg(ctx, path, 50, 40) && put_jpeg(ctx, in_tree("grown/a/1.jpg"), 40, 40);
    if (!made) {
        brasa_context_free(ctx);
        SKIP("no libjpeg");
    }
    snprintf(spec, sizeof spec, "images:%s", in_tree("grown"));
    rig r = make_bytes(spec, "resize=40 crop=32 random_crop=yes", true, o);
    REQUIRE(r.l && next(&r));
    loader_free(r.l);
    CHECK(put_jpeg(ctx, path, 400, 40));
    CHECK_STATUS(loader_new(r.f, &(loader_options){.list = r.list, .count = 2, .batch = 2}, &r.l), BRASA_OK);
    const batch *b = NULL;
    CHECK_STATUS(loader_next(r.l, &b), BRASA_BAD_FILE);
    snprintf(text, sizeof text, "%s", brasa_context_error(r.ctx));
    CHECK_HAS(text, "0.jpg: it was changed");
    free_rig(&r);
    brasa_context_free(ctx);
}
