/* test_data_transform.c - what becomes of a picture on its way into a batch: its shape, its layout, what is drawn by
 * chance, and how it is made smaller. */
#define _GNU_SOURCE
#include "test.h"

#include "loader_rig.h"

TEST(shapes)
{
    static const struct {
        const char *spec, *text;
        int channels, height, width;
        const char *why;
    } rows[] = {
        {"synth:digits,n=10", "", 1, 28, 28, NULL},
        {"synth:digits,n=10", "channels=3 resize=32", 3, 32, 32, NULL},
        {"synth:cifar10,n=10", "crop=24x20 random_crop", 3, 24, 20, NULL},
        {"synth:cifar10,n=10", "channels=1", 1, 32, 32, NULL},
        {"synth:fire,n=10", "resize=256 crop=224", 3, 224, 224, NULL},
        {"synth:letter,n=26", "resize=256 crop=224", 16, 0, 0, NULL},
        {"synth:fire,n=10", "", 0, 0, 0, "need a crop"},
        {"synth:fire,n=10", "crop=224", 0, 0, 0, "needs a resize to at least its size"},
        {"synth:fire,n=10", "resize=200 crop=224", 0, 0, 0, "got resize=200"},
        {"synth:digits,n=10", "crop=32", 0, 0, 0, "a crop of 32x32 out of pictures of 28x28"},
        {"synth:digits,n=10", "crop=24x0", 1, 24, 28, NULL},
        {"synth:digits,n=10", "crop=0x24", 1, 28, 24, NULL},
        {"synth:digits,n=10", "mean=1,2,3", 0, 0, 0, "expected 1 or 1 numbers, got 3 and 1"},
        {"synth:digits,n=10", "channels=2", 0, 0, 0, "expected 1 or 3"},
    };
    OWNED(brasa_context) *ctx = context_of(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int of[3] = {0};
        OWNED(dataset) *d = NULL;
        const transform t = parsed(rows[i].text);
        CASE("%s %s", rows[i].spec, rows[i].text);
        CHECK_STATUS(dataset_open(ctx, rows[i].spec, &d), BRASA_OK);
        CHECK_STATUS(transform_shape(ctx, &t, d, of), rows[i].why ? BRASA_BAD_ARGUMENT : BRASA_OK);
        if (rows[i].why) {
            CHECK_HAS(ctx->error, rows[i].why);
        } else {
            CHECK_INT(of[0], rows[i].channels);
            CHECK_INT(of[1], rows[i].height);
            CHECK_INT(of[2], rows[i].width);
        }
    }
}

/* What the layout says is where it lies, whatever the layout; flips and crops as they were drawn. */
TEST(layouts)
{
    static const struct {
        const char *name;
        layout l;
    } rows[] = {
        {"nchw", {0}},
        {"nhwc", {.permuted = 1, .order = {0, 2, 3, 1}}},
        {"nChw8c", {.nblocks = 1, .axis = {1}, .block = {8}}},
    };
    OWNED(brasa_context) *ctx = NULL;
    OWNED(dataset) *d = NULL;
    picture p = {0};
    int32_t list[6] = {3, 1, 4, 15, 9, 2};
    const transform t = parsed("mean=0.5,0.25,0.125 std=0.5,0.25,2");
    brasa_context_new(NULL, &ctx);
    REQUIRE(dataset_open(ctx, "synth:cifar10,n=20", &d) == BRASA_OK);
    for (int i = 0; i < 3; i++) {
        feeder *f = NULL;
        loader *l = NULL;
        const batch *b = NULL;
        const shape s = shape_4(6, 3, 32, 32);
        CASE("%s", rows[i].name);
        CHECK_STATUS(feeder_new(ctx, &(feeder_options){.set = d, .transform = &t, .layout = rows[i].l}, &f),
                     BRASA_OK);
        CHECK_STATUS(loader_new(f, &(loader_options){.list = list, .count = 6, .batch = 6}, &l), BRASA_OK);
        CHECK_STATUS(loader_next(l, &b), BRASA_OK);
        CHECK_INT(b->input_bytes, (size_t)layout_count(&rows[i].l, &s) * sizeof(float));
        int wrong = 0;
        for (int64_t n = 0; n < 6; n++) {
            CHECK_STATUS(dataset_read(d, ctx, list[n], &p), BRASA_OK);
            for (int64_t k = 0; k < 3 * 1024; k++) {
                const int64_t index[MAX_RANK] = {n, k % 3, k / 3 / 32, k / 3 % 32};
                const double pixel = p.pixels[k] / 255.0, mean = k % 3 == 0 ? 0.5 : k % 3 == 1 ? 0.25 : 0.125;
                const double std = k % 3 == 0 ? 0.5 : k % 3 == 1 ? 0.25 : 2;
                const float got = b->input[layout_offset(&rows[i].l, &s, index)];
                wrong += !(fabs((double)got - (pixel - mean) / std) < 1e-6);
            }
        }
        CHECK_INT(wrong, 0);
        double sum = 0, stored = 0; /* the padding of a block is zero */
        for (int64_t k = 0; k < layout_count(&rows[i].l, &s); k++)
            stored += fabs((double)b->input[k]);
        for (int64_t n = 0; n < 6 * 3 * 1024; n++) {
            const int64_t index[MAX_RANK] = {n / 3072, n / 1024 % 3, n / 32 % 32, n % 32};
            sum += fabs((double)b->input[layout_offset(&rows[i].l, &s, index)]);
        }
        CHECK_CLOSE(stored, sum, 1e-6 * sum);
        loader_free(l);
        feeder_free(f);
    }
    picture_free(ctx, &p);
}

/* Finds the picture in what came out: every place that it may have been cut from, flipped or not. */
static bool find_cut(const picture *p, const float *got, int size, bool flip_rows, int *top, int *left, bool *flipped)
{
    for (*flipped = false;; *flipped = true) {
        for (*top = 0; *top + size <= p->height; ++*top)
            for (*left = 0; *left + size <= p->width; ++*left) {
                bool same = true;
                for (int y = 0; y < size && same; y++)
                    for (int x = 0; x < size && same; x++) {
                        const int row = *top + (*flipped && flip_rows ? size - 1 - y : y);
                        const int column = *left + (*flipped && !flip_rows ? size - 1 - x : x);
                        same = fabsf(got[y * size + x] - p->pixels[row * p->width + column] / 255.0f) < 1e-6f;
                    }
                if (same)
                    return true;
            }
        if (*flipped)
            return false;
    }
}

TEST(random_changes)
{
    for (int form = 0; form < 2; form++) {
        const char *text = form ? "crop=24 random_crop flip=vertical" : "crop=24 random_crop flip=horizontal";
        rig r = make_rig("synth:digits,n=40", text, 0, (loader_options){.batch = 40, .train = true, .seed = 2});
        picture p = {0};
        int flips = 0, tops = 0, lefts = 0;
        REQUIRE(r.l);
        CASE("%s", text);
        for (int epoch = 0; epoch < 3; epoch++) {
            const batch *b = next(&r);
            for (int i = 0; i < b->size; i++) {
                int top = 0, left = 0;
                bool flipped = false;
                CHECK_STATUS(dataset_read(r.d, r.ctx, b->samples[i], &p), BRASA_OK);
                REQUIRE(find_cut(&p, b->input + i * 576, 24, form, &top, &left, &flipped));
                flips += flipped;
                tops |= 1 << top;
                lefts |= 1 << left;
            }
        }
        CHECK(flips > 40 && flips < 80); /* of 120 */
        CHECK_INT(tops, 31);             /* every place from 0 to 4 */
        CHECK_INT(lefts, 31);
        picture_free(r.ctx, &p);
        free_rig(&r);

        CASE("%s, in evaluation", text);
        r = make_rig("synth:digits,n=40", text, 0, (loader_options){.batch = 40});
        REQUIRE(r.l);
        const batch *b = next(&r);
        for (int i = 0; i < b->size; i++) {
            int top = 0, left = 0;
            bool flipped = false;
            CHECK_STATUS(dataset_read(r.d, r.ctx, b->samples[i], &p), BRASA_OK);
            REQUIRE(find_cut(&p, b->input + i * 576, 24, form, &top, &left, &flipped));
            CHECK(top == 2 && left == 2 && !flipped);
        }
        picture_free(r.ctx, &p);
        free_rig(&r);
    }
}

/* The same by the definition, in double precision: each output pixel the mean of the input under a triangle. */
static double resampled(const picture *p, int rows, int columns, int y, int x, int c)
{
    const double sy = (double)p->height / rows, sx = (double)p->width / columns;
    const double ry = sy > 1 ? sy : 1, rx = sx > 1 ? sx : 1, cy = (y + 0.5) * sy, cx = (x + 0.5) * sx;
    double sum = 0, weight = 0;
    for (int v = 0; v < p->height; v++)
        for (int u = 0; u < p->width; u++) {
            const double a = 1 - fabs(v + 0.5 - cy) / ry, b = 1 - fabs(u + 0.5 - cx) / rx;
            if (a <= 0 || b <= 0)
                continue;
            sum += a * b * p->pixels[(v * p->width + u) * p->channels + c];
            weight += a * b;
        }
    return sum / weight;
}

TEST(resizing)
{
    static const struct {
        int height, width, resize, crop;
    } rows[] = {{60, 80, 32, 0},  {60, 80, 32, 28}, {80, 60, 45, 40},
                {20, 31, 64, 64}, {50, 50, 50, 31}, {9, 97, 9, 8}};
    OWNED(brasa_context) *ctx = context_of(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        picture p = {0}, before = {0}, spare = {0};
        const transform t = {.resize = rows[i].resize, .crop = {rows[i].crop, rows[i].crop}};
        CASE("%d x %d to %d, %d", rows[i].width, rows[i].height, rows[i].resize, rows[i].crop);
        make_picture(ctx, &p, rows[i].height, rows[i].width);
        make_picture(ctx, &before, rows[i].height, rows[i].width);
        for (int k = 0; k < p.height * p.width; k++) /* a texture */
            p.pixels[3 * k + 2] = before.pixels[3 * k + 2] = (unsigned char)(k * k * 37 % 251);
        const int shorter = p.height < p.width ? p.height : p.width;
        const int high = p.height * t.resize / shorter, wide = p.width * t.resize / shorter;
        CHECK_STATUS(transform_fixed(ctx, &t, &p, &spare), BRASA_OK);
        CHECK_INT(p.height, t.crop.h ? t.crop.h : high);
        CHECK_INT(p.width, t.crop.w ? t.crop.w : wide);
        double worst = 0;
        for (int y = 0; y < p.height; y++)
            for (int x = 0; x < p.width; x++)
                for (int c = 0; c < 3; c++) {
                    const int top = (int)nearbyint((high - p.height) / 2.0); /* half to even, as torchvision */
                    const int left = (int)nearbyint((wide - p.width) / 2.0);
                    const double want = resampled(&before, high, wide, top + y, left + x, c);
                    const double off = fabs(want - p.pixels[(y * p.width + x) * 3 + c]);
                    worst = off > worst ? off : worst;
                }
        CHECK(worst < 1.01); /* rounded twice */
        picture_free(ctx, &p);
        picture_free(ctx, &before);
        picture_free(ctx, &spare);
    }
}

/* Whatever a picture's size: what is asked for comes out, or it is refused before a pixel is touched. */
TEST(odd_sizes)
{
    static const struct {
        const char *text;
        int height, width;             /* of the picture */
        int fixed_height, fixed_width; /* 0: does not fit */
    } rows[] = {
        {"crop=24", 10, 10, 0, 0},
        {"crop=24", 40, 10, 0, 0},
        {"crop=24 random_crop", 10, 40, 0, 0},
        {"resize=20 crop=20x28", 50, 50, 0, 0},
        {"resize=20 crop=20x28", 50, 80, 20, 28},
        {"crop=24x0", 28, 30, 24, 30},
        {"crop=24x0 random_crop", 28, 30, 28, 30},
        {"resize=32 crop=24", 4, MAX_SIDE, 24, 24}, /* 131,072 wide, if it were made */
        {"resize=32 crop=24 random_crop", MAX_SIDE, 4, MAX_SIDE, 32},
    };
    OWNED(brasa_context) *ctx = context_of(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        picture p = {0}, spare = {0};
        const transform t = parsed(rows[i].text);
        CASE("%s of %dx%d", rows[i].text, rows[i].height, rows[i].width);
        make_picture(ctx, &p, rows[i].height, rows[i].width);
        CHECK_INT(transform_fits(&t, p.height, p.width), rows[i].fixed_height > 0);
        CHECK_STATUS(transform_fixed(ctx, &t, &p, &spare), rows[i].fixed_height ? BRASA_OK : BRASA_BAD_SHAPE);
        if (rows[i].fixed_height) {
            CHECK_INT(p.height, rows[i].fixed_height);
            CHECK_INT(p.width, rows[i].fixed_width);
        } else {
            CHECK_HAS(ctx->error, "does not fit into");
        }
        picture_free(ctx, &p);
        picture_free(ctx, &spare);
    }
}

/* A file by itself becomes what it is in a batch. */
TEST(a_single_picture)
{
    brasa_context *ctx = NULL;
    static float out[3 * 32 * 32];
    char spec[300];
    picture p = {.least = 40};
    const int of[3] = {3, 32, 32}, other[3] = {1, 32, 32};
    const transform t = parsed(STUDY);
    brasa_context_new(NULL, &ctx);
    if (!put_jpeg(ctx, in_tree("one/a/1.jpg"), 90, 70)) {
        brasa_context_free(ctx);
        SKIP("no libjpeg");
    }
    snprintf(spec, sizeof spec, "images:%s", in_tree("one"));
    rig r = make_rig(spec, STUDY, 0, (loader_options){.batch = 1});
    REQUIRE(r.l);
    CHECK_STATUS(picture_read(ctx, in_tree("one/a/1.jpg"), &p), BRASA_OK);
    CHECK_STATUS(transform_picture(ctx, &t, &p, of, out), BRASA_OK);
    CHECK(memcmp(out, next(&r)->input, sizeof out) == 0);
    CHECK_STATUS(transform_picture(ctx, &t, &p, other, out), BRASA_BAD_SHAPE);
    CHECK_STATUS(picture_read(ctx, in_tree("one/none.jpg"), &p), BRASA_BAD_FILE);
    CHECK_HAS(ctx->error, "one/none.jpg: No such file");
    put_text(in_tree("one/bad.jpg"), "text");
    CHECK_STATUS(picture_read(ctx, in_tree("one/bad.jpg"), &p), BRASA_BAD_FILE);
    CHECK_HAS(ctx->error, "one/bad.jpg: neither JPEG nor PNG");
    picture_free(ctx, &p);
    free_rig(&r);
    brasa_context_free(ctx);
}
