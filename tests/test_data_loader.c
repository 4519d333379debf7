/* test_data_loader.c - batches: which samples, in which order, changed how, in which layout; the same whatever the
 * threads, the budget and the place where it began. */
#define _GNU_SOURCE
#include "test.h"

#include "core/pixel.h"
#include "data/loader.h"
#include "data/split.h"
#include "data_files.h"

#include <dirent.h>

static transform parsed(const char *text)
{
    transform t;
    brasa_context *ctx = NULL;
    brasa_context_new(&(brasa_context_options){.threads = 1}, &ctx);
    fields_set_defaults(transform_fields, &t);
    CHECK_STATUS(fields_parse(ctx, "transform", transform_fields, &t, text), BRASA_OK);
    brasa_context_free(ctx);
    return t;
}

typedef struct rig {
    brasa_context *ctx;
    dataset *d;
    transform t;
    feeder *f;
    loader *l;
    int32_t *list;
} rig;

static rig make_rig(const char *spec, const char *text, int64_t budget, loader_options o)
{
    rig r = {.t = parsed(text)};
    CHECK_STATUS(brasa_context_new(&(brasa_context_options){.threads = 1}, &r.ctx), BRASA_OK);
    CHECK_STATUS(dataset_open(r.ctx, spec, &r.d), BRASA_OK);
    const feeder_options f = {.set = r.d, .transform = &r.t, .budget = budget};
    if (r.d)
        CHECK_STATUS(feeder_new(r.ctx, &f, &r.f), BRASA_OK);
    r.list = calloc(r.d ? (size_t)r.d->count : 1, sizeof *r.list);
    for (int32_t i = 0; r.d && i < r.d->count; i++)
        r.list[i] = i;
    if (r.f && !o.list) {
        o.list = r.list;
        o.count = r.d->count;
    }
    if (r.f)
        CHECK_STATUS(loader_new(r.f, &o, &r.l), BRASA_OK);
    return r;
}

static void free_rig(rig *r)
{
    loader_free(r->l);
    feeder_free(r->f);
    dataset_close(r->d);
    brasa_context_free(r->ctx);
    free(r->list);
}

static const batch *next(rig *r)
{
    const batch *b = NULL;
    CHECK_STATUS(loader_next(r->l, &b), BRASA_OK);
    return b;
}

/* --- order -------------------------------------------------------------------------------------------------------
 */

TEST(epochs)
{
    rig r = make_rig("synth:digits,n=50", "", 0, (loader_options){.batch = 16, .train = true, .seed = 5});
    int seen[50] = {0};
    int32_t first[16];
    REQUIRE(r.l);
    CHECK_INT(loader_steps(r.l), 4);
    for (int epoch = 0; epoch < 3; epoch++)
        for (int step = 0; step < 4; step++) {
            const batch *b = next(&r);
            REQUIRE(b);
            CHECK_INT(b->epoch, epoch);
            CHECK_INT(b->step, step);
            CHECK_INT(b->size, step < 3 ? 16 : 2);
            CHECK_INT(b->input_bytes, (size_t)b->size * 784 * sizeof(float));
            for (int i = 0; i < b->size; i++) {
                seen[b->samples[i]]++;
                CHECK_INT(b->labels[i], b->samples[i] % 10);
            }
            if (step == 0 && epoch == 0)
                memcpy(first, b->samples, sizeof first);
            if (step == 0 && epoch == 1)
                CHECK(memcmp(first, b->samples, sizeof first) != 0);
        }
    for (int i = 0; i < 50; i++)
        CHECK_INT(seen[i], 3);
    free_rig(&r);
}

TEST(evaluation_is_in_order)
{
    static const int32_t list[] = {4, 2, 9, 7, 7};
    loader_options o = {.list = list, .count = 5, .batch = 3};
    rig r = make_rig("synth:letter,n=26", "", 0, o);
    REQUIRE(r.l);
    for (int i = 0; i < 10; i++) {
        const batch *b = i % 5 == 0 || i % 5 == 3 ? next(&r) : NULL;
        if (!b)
            continue;
        CHECK_INT(b->samples[0], list[i % 5]);
        CHECK_INT(b->input_bytes, (size_t)b->size * 16 * sizeof(float)); /* numbers come as they are */
        CHECK(memcmp(b->input, dataset_numbers(r.d, list[i % 5]), 16 * sizeof(float)) == 0);
    }
    free_rig(&r);
}

/* Everything that a batch holds, as one number. */
static uint64_t digest(const batch *b)
{
    uint64_t h = 14695981039346656037u;
    const unsigned char *bytes = (const unsigned char *)b->input;
    for (size_t i = 0; i < b->input_bytes; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    for (int i = 0; i < b->size; i++)
        h = (h ^ (uint64_t)b->samples[i]) * 1099511628211u;
    return h;
}

#define STUDY "resize=40 crop=32 random_crop flip=horizontal mean=0.485,0.456,0.406 std=0.229,0.224,0.225"

TEST(the_same_from_anywhere)
{
    const loader_options o = {.batch = 8, .train = true, .seed = 9};
    uint64_t all[3][4];
    if (!codec_at(0)->version)
        SKIP("no libjpeg");
    rig r = make_rig("synth:fire,n=30,size=64", STUDY, 1 << 24, o);
    REQUIRE(r.l);
    for (int e = 0; e < 3; e++)
        for (int s = 0; s < 4; s++)
            all[e][s] = digest(next(&r));
    CHECK(all[0][0] != all[1][0]);
    CHECK_INT(feeder_decoded(r.f), 30); /* once each: the rest was kept */
    free_rig(&r);

    static const struct {
        const char *name;
        int64_t budget;
        int epoch, step; /* sought */
    } rows[] = {{"nothing kept", 0, 0, 0},
                {"some kept", 20000, 0, 0},
                {"from the middle", 1 << 24, 1, 2},
                {"steps counted on", 1 << 24, 0, 9},
                {"back to the start", 0, 0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        r = make_rig("synth:fire,n=30,size=64", STUDY, rows[i].budget, o);
        REQUIRE(r.l);
        next(&r);
        CHECK_STATUS(loader_seek(r.l, rows[i].epoch, rows[i].step), BRASA_OK);
        for (int at = 4 * rows[i].epoch + rows[i].step; at < 12; at++)
            CHECK(digest(next(&r)) == all[at / 4][at % 4]);
        if (rows[i].budget == 20000)
            CHECK(feeder_decoded(r.f) > 30);
        free_rig(&r);
    }
    CASE("to where it stands");
    r = make_rig("synth:fire,n=30,size=64", STUDY, 0, o);
    REQUIRE(r.l);
    for (int at = 0; at < 12; at++) {
        CHECK_STATUS(loader_seek(r.l, at / 4, at % 4), BRASA_OK);
        CHECK(digest(next(&r)) == all[at / 4][at % 4]);
    }
    loader_free(r.l);
    r.l = NULL;
    CHECK_INT(feeder_decoded(r.f), 3 * 30 + 8); /* and the first batch of the epoch to come: nothing is made twice */
    free_rig(&r);
    CASE("another seed");
    r = make_rig("synth:fire,n=30,size=64", STUDY, 0, (loader_options){.batch = 8, .train = true, .seed = 8});
    REQUIRE(r.l);
    CHECK(digest(next(&r)) != all[0][0]);
    CHECK_STATUS(loader_seek(r.l, -1, 0), BRASA_BAD_ARGUMENT);
    free_rig(&r);
}

/* --- memory and threads --------------------------------------------------------------------------------------------
 */

static int threads_now(void)
{
    int count = 0;
    DIR *list = opendir("/proc/self/task");
    for (struct dirent *e; list && (e = readdir(list));)
        count += e->d_name[0] != '.';
    if (list)
        closedir(list);
    return count;
}

TEST(one_thread_more)
{
    const int before = threads_now();
    loader *more[3] = {NULL};
    rig r = make_rig("synth:digits,n=100", "", 1 << 20, (loader_options){.batch = 10, .train = true});
    REQUIRE(r.l);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(loader_new(r.f, &(loader_options){.list = r.list, .count = 100, .batch = 7}, &more[i]),
                     BRASA_OK);
    for (int i = 0; i < 20; i++) {
        const batch *b = NULL;
        next(&r);
        CHECK_STATUS(loader_next(more[i % 3], &b), BRASA_OK);
    }
    CHECK_INT(threads_now(), before + 1);
    for (int i = 0; i < 3; i++)
        loader_free(more[i]);
    free_rig(&r);
    CHECK_INT(threads_now(), before);
}

/* Rows of a table are copied sooner than a thread is woken. */
TEST(no_thread_for_tables)
{
    const int before = threads_now();
    rig r = make_rig("synth:letter,n=100", "", 0, (loader_options){.batch = 10, .train = true});
    REQUIRE(r.l);
    for (int i = 0; i < 20; i++)
        next(&r);
    CHECK_INT(threads_now(), before);
    free_rig(&r);
}

typedef struct heap {
    int64_t live, most;
    int calls, fail_at;
} heap;

static void *heap_alloc(void *user, size_t bytes)
{
    heap *h = user;
    size_t *block = ++h->calls == h->fail_at ? NULL : malloc(bytes + 16);
    if (!block)
        return NULL;
    *block = bytes;
    h->live += (int64_t)bytes;
    h->most = h->live > h->most ? h->live : h->most;
    return (char *)block + 16;
}

static void heap_release(void *user, void *block)
{
    size_t *start = (size_t *)(void *)((char *)block - 16);
    ((heap *)user)->live -= (int64_t)*start;
    free(start);
}

/* What feeder_bytes and loader_bytes say is what is taken. */
TEST(bytes_are_known)
{
    static const int64_t budgets[] = {0, 10000, 1 << 24};
    if (!codec_at(0)->version)
        SKIP("no libjpeg");
    for (int i = 0; i < 3; i++) {
        heap h = {0};
        brasa_context *ctx = NULL;
        dataset *d = NULL;
        feeder *f = NULL;
        loader *l = NULL;
        int of[3];
        const transform t = parsed("resize=40 crop=32");
        CASE("a budget of %d", (int)budgets[i]);
        brasa_context_new(
            &(brasa_context_options){.threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &h}, &ctx);
        REQUIRE(dataset_open(ctx, "synth:fire,n=30,size=64", &d) == BRASA_OK);
        const feeder_options fo = {.set = d, .transform = &t, .budget = budgets[i]};
        const loader_options lo = {.list = d->label, .count = d->count, .batch = 8, .train = true};
        CHECK_STATUS(transform_shape(ctx, &t, d, of), BRASA_OK);
        const int64_t before = h.live;
        CHECK_STATUS(feeder_new(ctx, &fo, &f), BRASA_OK);
        CHECK_CLOSE((double)(h.live - before), (double)feeder_bytes(&fo, of), 600); /* the table of offsets */
        const int64_t between = h.live;
        CHECK_STATUS(loader_new(f, &lo, &l), BRASA_OK);
        CHECK_INT(h.live - between, loader_bytes(&fo, &lo, of));
        for (int k = 0; k < 10; k++) {
            const batch *b = NULL;
            CHECK_STATUS(loader_next(l, &b), BRASA_OK);
        }
        CHECK_INT(h.live - between, loader_bytes(&fo, &lo, of)); /* and stays so */
        loader_free(l);
        feeder_free(f);
        dataset_close(d);
        brasa_context_free(ctx);
        CHECK_INT(h.live, 0);
    }
}

/* Pictures that are cropped at random are kept whole: what that takes is known from their headers, and all of them
 * find room. */
TEST(kept_before_the_crop)
{
    static const struct {
        int height, width, bytes;
    } rows[] = {{90, 70, 40 * 51}, {1001, 643, 40 * 62}, {70, 331, 40 * 189}, {40, 40, 40 * 40}};
    brasa_context *ctx = NULL;
    dataset *d = NULL;
    dataset_report report = {0};
    feeder *f = NULL;
    loader *l = NULL;
    const batch *b = NULL;
    char spec[300];
    int64_t bytes = 0;
    int of[3];
    const int32_t list[] = {0, 1, 2, 3};
    const transform t = parsed("resize=40 crop=32 random_crop");
    brasa_context_new(&(brasa_context_options){.threads = 1}, &ctx);
    for (int i = 0; i < 4; i++) {
        if (!put_jpeg(ctx, in_tree("whole/a/%d.jpg", i), rows[i].height, rows[i].width)) {
            brasa_context_free(ctx);
            SKIP("no libjpeg");
        }
        bytes += 3 * rows[i].bytes;
    }
    snprintf(spec, sizeof spec, "images:%s", in_tree("whole"));
    REQUIRE(dataset_open(ctx, spec, &d) == BRASA_OK);
    CHECK_STATUS(dataset_identify(d, false, NULL, NULL, &report), BRASA_OK);
    for (int i = 0; i < 4; i++)
        CHECK(report.size[i].height == rows[i].height && report.size[i].width == rows[i].width);
    feeder_options o = {.set = d, .transform = &t};
    CHECK_STATUS(transform_shape(ctx, &t, d, of), BRASA_OK);
    const int64_t none = feeder_bytes(&o, of);
    o.budget = 1 << 30;
    o.sizes = report.size;
    CHECK_CLOSE((double)(feeder_bytes(&o, of) - none), (double)bytes, 4 * (16 + 3 * 40)); /* one row more of each */
    CHECK_STATUS(feeder_new(ctx, &o, &f), BRASA_OK);
    CHECK_STATUS(loader_new(f, &(loader_options){.list = list, .count = 4, .batch = 4, .train = true}, &l), BRASA_OK);
    for (int k = 0; k < 3; k++)
        CHECK_STATUS(loader_next(l, &b), BRASA_OK);
    loader_free(l);
    CHECK_INT(feeder_decoded(f), 4);
    feeder_free(f);
    dataset_report_free(&report);
    dataset_close(d);
    brasa_context_free(ctx);
}

static brasa_status use_all(heap *h, const char *spec)
{
    brasa_context *ctx = NULL;
    dataset *d = NULL;
    feeder *f = NULL;
    loader *l = NULL;
    split s = {0};
    const batch *b = NULL;
    dataset_report report = {0};
    const transform t = parsed("resize=40 crop=32");
    const brasa_context_options c = {.threads = 1, .alloc = heap_alloc, .release = heap_release, .user = h};
    brasa_status status = brasa_context_new(&c, &ctx);
    if (status == BRASA_OK)
        status = dataset_open(ctx, spec, &d);
    if (status == BRASA_OK)
        status = dataset_examine(d, true, NULL, NULL, &report);
    if (status == BRASA_OK)
        status = split_make(d, &(split_options){.kind = SPLIT_FOLDS, .folds = 2}, &s);
    if (status == BRASA_OK)
        status = feeder_new(ctx, &(feeder_options){.set = d, .transform = &t, .budget = 1 << 20}, &f);
    if (status == BRASA_OK)
        status = loader_new(f, &(loader_options){.list = s.train, .count = s.trains, .batch = 4, .train = true}, &l);
    if (status == BRASA_OK)
        status = loader_next(l, &b);
    CHECK(!ctx || status == BRASA_OK || strstr(ctx->error, "out of memory"));
    loader_free(l);
    feeder_free(f);
    split_free(&s);
    dataset_report_free(&report);
    dataset_close(d);
    brasa_context_free(ctx);
    return status;
}

/* The n-th allocation fails, for n = 1, 2, ...: a status and a text, and everything is given back. */
TEST(each_allocation_fails)
{
    char specs[4][300] = {"", "", "", "synth:letter,n=30"};
    brasa_context *ctx = NULL;
    unsigned char data[1000];
    brasa_context_new(NULL, &ctx);
    const bool jpeg = put_jpeg(ctx, in_tree("few/a/1.jpg"), 50, 60) &&
                      put_jpeg(ctx, in_tree("few/a/2.jpg"), 50, 60) && put_jpeg(ctx, in_tree("few/b/1.jpg"), 50, 60);
    brasa_context_free(ctx);
    put_packed(in_tree("few_idx/train-images-idx3-ubyte.gz"), data, make_idx(data, 3, (int[]){9, 9, 9}, 729));
    put_labels(in_tree("few_idx/train-labels-idx1-ubyte"), 9, 3);
    put_cifar(in_tree("few_cifar/data_batch_1.bin"), 9, 1, 10);
    put_text(in_tree("few/index.csv"), "file,scene\na/1.jpg,1\na/2.jpg,1\nb/1.jpg,2\n");
    snprintf(specs[0], sizeof specs[0], "images:%s,groups=scene", in_tree("few"));
    snprintf(specs[1], sizeof specs[1], "idx:%s", in_tree("few_idx"));
    snprintf(specs[2], sizeof specs[2], "cifar10:%s", in_tree("few_cifar"));
    for (int i = 0; i < 4; i++) {
        CASE("%.6s", specs[i]);
        if ((i == 0 && !jpeg) || (i == 1 && !codec_gzip()))
            continue;
        for (int n = 1;; n++) {
            heap h = {.fail_at = n};
            const brasa_status status = use_all(&h, specs[i]);
            CHECK_INT(h.live, 0);
            if (h.calls < n) {
                CHECK_STATUS(status, BRASA_OK);
                CHECK(n > 5);
                break;
            }
            CHECK_STATUS(status, BRASA_OUT_OF_MEMORY);
            if (tests.failed || n > 10000)
                break;
        }
    }
}

/* A broken picture fails its batch with its name; mended, the next call goes on from there. */
TEST(a_bad_picture)
{
    brasa_context *ctx = NULL;
    const batch *b = NULL;
    char spec[300];
    brasa_context_new(NULL, &ctx);
    if (!put_jpeg(ctx, in_tree("mend/a/1.jpg"), 50, 60)) {
        brasa_context_free(ctx);
        SKIP("no libjpeg");
    }
    put_text(in_tree("mend/a/2.jpg"), "broken");
    put_jpeg(ctx, in_tree("mend/a/3.jpg"), 50, 60);
    snprintf(spec, sizeof spec, "images:%s", in_tree("mend"));
    rig r = make_rig(spec, "resize=40 crop=32", 1 << 20, (loader_options){.batch = 1});
    REQUIRE(r.l);
    CHECK_INT(next(&r)->samples[0], 0);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(loader_next(r.l, &b), BRASA_BAD_FILE);
        CHECK_HAS(r.ctx->error, "mend/a/2.jpg: neither JPEG nor PNG");
    }
    put_jpeg(ctx, in_tree("mend/a/2.jpg"), 50, 60);
    CHECK_INT(next(&r)->samples[0], 1);
    CHECK_INT(next(&r)->samples[0], 2);
    free_rig(&r);
    brasa_context_free(ctx);
}

/* --- transforms ----------------------------------------------------------------------------------------------------
 */

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
    brasa_context *ctx = NULL;
    brasa_context_new(NULL, &ctx);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int of[3] = {0};
        dataset *d = NULL;
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
        dataset_close(d);
    }
    brasa_context_free(ctx);
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
    brasa_context *ctx = NULL;
    dataset *d = NULL;
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
    dataset_close(d);
    brasa_context_free(ctx);
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
    brasa_context *ctx = NULL;
    brasa_context_new(NULL, &ctx);
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
    brasa_context_free(ctx);
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
    brasa_context *ctx = NULL;
    brasa_context_new(NULL, &ctx);
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
    brasa_context_free(ctx);
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

/* A photo of 12 million pixels, decoded and cut to 224 x 224 with less than 40 MB. */
TEST(a_large_photo)
{
    brasa_context *ctx = NULL;
    brasa_context_new(NULL, &ctx);
    const bool jpeg = put_jpeg(ctx, in_tree("photo/a/large.jpg"), 3000, 4000);
    brasa_context_free(ctx);
    if (!jpeg)
        SKIP("no libjpeg");
    heap h = {0};
    dataset *d = NULL;
    char spec[300];
    picture p = {.least = 256}, spare = {0};
    const transform t = parsed("resize=256 crop=224");
    snprintf(spec, sizeof spec, "images:%s", in_tree("photo"));
    brasa_context_new(
        &(brasa_context_options){.threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &h}, &ctx);
    REQUIRE(dataset_open(ctx, spec, &d) == BRASA_OK);
    CHECK_STATUS(dataset_read(d, ctx, 0, &p), BRASA_OK);
    CHECK_STATUS(transform_fixed(ctx, &t, &p, &spare), BRASA_OK);
    CHECK_INT(p.width, 224);
    CHECK(h.most < 8000000); /* of ours: the file, and the picture at an eighth */
    picture_free(ctx, &p);
    picture_free(ctx, &spare);
    dataset_close(d);
    brasa_context_free(ctx);
}

/* --- bytes -------------------------------------------------------------------------------------------------------
 */

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
    CHECK_INT(feeder_decoded(b.f) <= 2 * 11, 1);
    free_rig(&a);
    free_rig(&b);
}

/* Batches have room for pictures as they were when they were looked through. */
TEST(bytes_of_a_picture_that_grew)
{
    const loader_options o = {.batch = 2, .train = true, .seed = 3};
    const char *path = in_tree("grown/a/0.jpg");
    brasa_context *ctx = NULL;
    char spec[300], text[300];
    brasa_context_new(&(brasa_context_options){.threads = 1}, &ctx);
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
