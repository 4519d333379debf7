/* test_data_loader.c - batches: which samples, in which order; the same whatever the threads, the budget and the
 * place where it began; and the memory that it takes. */
#define _GNU_SOURCE
#include "test.h"

#include "data/split.h"
#include "loader_rig.h"

#include <dirent.h>

/* --- order ----------------------------------------------------------------------------------------------------- */

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

/* --- memory and threads ---------------------------------------------------------------------------------------- */

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
            &SIZED(brasa_context_options, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &h),
            &ctx);
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
    brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx);
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
    const brasa_context_options c = {
        .size = sizeof c, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = h};
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
    brasa_context *ctx = context_of(0);
    unsigned char data[1000];
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
    brasa_context *ctx = context_of(0);
    const batch *b = NULL;
    char spec[300];
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

/* A photo of 12 million pixels, decoded and cut to 224 x 224 with less than 40 MB. */
TEST(a_large_photo)
{
    brasa_context *ctx = context_of(0);
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
        &SIZED(brasa_context_options, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &h), &ctx);
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
