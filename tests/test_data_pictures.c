/* test_data_pictures.c - folders of pictures, drawn sets, the hashes of sets, and real data where there is some. */
#define _GNU_SOURCE
#include "data_sets.h"

#include "core/sha256.h"
#include "data/draw.h"
#include "data/make.h"

/* --- folders of pictures --------------------------------------------------------------------------------------- */

TEST(images)
{
    picture p = {0};
    if (!put_jpeg(ctx, in_tree("pics/dog/b.JPG"), 40, 60))
        SKIP("no libjpeg");
    put_jpeg(ctx, in_tree("pics/dog/a.jpeg"), 30, 20);
    put_jpeg(ctx, in_tree("pics/cat/c.jpg"), 16, 16);
    put_text(in_tree("pics/cat/.hidden.jpg"), "");
    put_text(in_tree("pics/cat/notes.txt"), "not a picture");
    put_text(in_tree("pics/index.csv"), "neither");
    OWNED(dataset) *d = opened("images:%s", in_tree("pics"));
    REQUIRE(d);
    CHECK_INT(d->count, 3);
    CHECK_INT(d->parts, 1);
    CHECK_INT(d->classes, 2);
    CHECK_TEXT(d->class_name[0], "cat");
    CHECK_INT(d->label[0], 0);
    CHECK_INT(d->label[2], 1);
    CHECK(d->varied);
    CHECK_HAS(d->note, "2 files");
    CHECK_HAS(dataset_name(d, 1).text, "pics/dog/a.jpeg");
    CHECK_STATUS(dataset_read(d, ctx, 2, &p), BRASA_OK);
    CHECK_INT(p.height, 40);
    CHECK_INT(p.width, 60);
    CHECK_CLOSE(p.pixels[3 * (20 * 60 + 30)], 127, 6); /* lossy */
    CHECK_CLOSE(p.pixels[3 * (20 * 60 + 30) + 1], 127, 6);
    picture_free(ctx, &p);
}

TEST(images_in_parts)
{
    if (!put_jpeg(ctx, in_tree("parts/train/a/1.jpg"), 16, 16))
        SKIP("no libjpeg");
    put_jpeg(ctx, in_tree("parts/train/b/1.jpg"), 16, 16);
    put_jpeg(ctx, in_tree("parts/test/a/1.jpg"), 16, 16);
    char spec[300];
    snprintf(spec, sizeof spec, "images:%s", in_tree("parts"));
    refused(spec, "parts/test", "not those of the first part: 'b'");
    put_jpeg(ctx, in_tree("parts/test/b/2.jpg"), 16, 16);
    OWNED(dataset) *d = opened("%s", spec);
    REQUIRE(d);
    CHECK_INT(d->parts, 2);
    CHECK_INT(d->part[1].begin, 2);
    CHECK_INT(d->label[3], 1);
    CHECK_HAS(dataset_name(d, 3).text, "parts/test/b/2.jpg");
}

TEST(png)
{
    picture p = {0};
    if (!put_png(ctx, in_tree("png/a/colour.png"), 20, 30, false))
        SKIP("no libspng");
    put_png(ctx, in_tree("png/a/grey.png"), 20, 30, true);
    OWNED(dataset) *d = opened("images:%s", in_tree("png"));
    REQUIRE(d);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(dataset_read(d, ctx, i, &p), BRASA_OK);
        CHECK_INT(p.channels, 3);
        CHECK_INT(p.height, 20);
        CHECK_INT(p.pixels[3 * (10 * 30 + 15)], 127);
        CHECK_INT(p.pixels[3 * (10 * 30 + 15) + 2], i ? 127 : 90);
    }
    CASE("cut off behind the pixels");
    struct stat whole;
    CHECK_INT(stat(in_tree("png/a/grey.png"), &whole), 0);
    CHECK_INT(truncate(in_tree("png/a/grey.png"), whole.st_size - 12), 0);
    CHECK_STATUS(dataset_read(d, ctx, 1, &p), BRASA_BAD_FILE);
    CHECK_HAS(ctx->error, "grey.png: PNG: cut off: its end is missing");
    picture_free(ctx, &p);
}

TEST(scaled_decoding)
{
    picture p = {.least = 100};
    if (!put_jpeg(ctx, in_tree("large/a/x.jpg"), 1000, 1600))
        SKIP("no libjpeg");
    OWNED(dataset) *d = opened("images:%s", in_tree("large"));
    REQUIRE(d);
    CHECK_STATUS(dataset_read(d, ctx, 0, &p), BRASA_OK);
    CHECK_INT(p.height, 125); /* an eighth: a hundred are enough */
    CHECK_INT(p.full_height, 1000);
    p.least = 126;
    CHECK_STATUS(dataset_read(d, ctx, 0, &p), BRASA_OK);
    CHECK_INT(p.height, 250);
    p.least = 0;
    CHECK_STATUS(dataset_read(d, ctx, 0, &p), BRASA_OK);
    CHECK_INT(p.height, 1000);
    picture_free(ctx, &p);
}

TEST(bad_folders)
{
    char spec[300];
    snprintf(spec, sizeof spec, "images:%s", in_tree("empty"));
    refused(spec, "/empty", "No such file");
    put_text(in_tree("empty/readme.txt"), "");
    refused(spec, "/empty", "no folder in it");
    put_text(in_tree("empty/class/readme.txt"), "");
    refused(spec, "/empty/class", "this class has no picture");
}

/* A JPEG file says its size behind the marker FF C0: 2 bytes of length, 1 of precision, then height and width. */
static void set_jpeg_size(unsigned char *file, size_t bytes, int height, int width)
{
    for (size_t i = 0; i + 9 < bytes; i++)
        if (file[i] == 0xFF && file[i + 1] == 0xC0) {
            file[i + 5] = (unsigned char)(height >> 8);
            file[i + 6] = (unsigned char)height;
            file[i + 7] = (unsigned char)(width >> 8);
            file[i + 8] = (unsigned char)width;
            return;
        }
}

TEST(bad_pictures)
{
    static const char *const names[] = {"1empty.jpg", "2text.png", "3cut.jpg", "4huge.jpg",
                                        "5tiny.jpg",  "6gone.jpg", "7cut.png", "8head.jpg"};
    static const char *const whys[] = {"the file is empty",
                                       "neither JPEG nor PNG",
                                       "JPEG: Premature end",
                                       "30000 x 30000",
                                       "1 x 1 pixels",
                                       "No such file",
                                       "PNG: ",
                                       "JPEG: "};
    picture p = {0};
    size_t bytes = 0;
    make_picture(ctx, &p, 64, 64);
    if (codec_encode_jpeg(ctx, &p, 90, &bytes) != BRASA_OK)
        SKIP("no libjpeg");
    put_text(in_tree("bad/a/%s", names[0]), "");
    put_text(in_tree("bad/a/%s", names[1]), "hello");
    put_file(in_tree("bad/a/%s", names[2]), p.file, bytes / 2);
    put_file(in_tree("bad/a/%s", names[7]), p.file, 20);
    set_jpeg_size(p.file, bytes, 30000, 30000);
    put_file(in_tree("bad/a/%s", names[3]), p.file, bytes);
    set_jpeg_size(p.file, bytes, 1, 1);
    put_file(in_tree("bad/a/%s", names[4]), p.file, bytes);
    CHECK_INT(symlink("/nowhere/at/all.jpg", in_tree("bad/a/%s", names[5])), 0);
    put_png(ctx, in_tree("whole.png"), 20, 20, false);
    if (truncate(in_tree("whole.png"), 60) == 0)
        rename(in_tree("whole.png"), in_tree("bad/a/%s", names[6]));
    else
        put_text(in_tree("bad/a/%s", names[6]), "\x89PNG\r\n\x1A\n"); /* no libspng */
    put_jpeg(ctx, in_tree("bad/a/9good.jpg"), 20, 20);
    OWNED(dataset) *d = opened("images:%s", in_tree("bad"));
    REQUIRE(d);
    for (int i = 0; i < 8; i++) {
        CASE("%s", names[i]);
        CHECK_STATUS(dataset_read(d, ctx, i, &p), BRASA_BAD_FILE);
        CHECK_HAS(ctx->error, names[i]);
        CHECK_HAS(ctx->error, i == 6 && !codec_at(1)->version ? "libspng-dev" : whys[i]);
    }
    CASE("all of them, examined");
    dataset_report r;
    CHECK_STATUS(dataset_examine(d, true, NULL, NULL, &r), BRASA_OK);
    CHECK_INT(r.nbad, 8);
    for (int i = 0; i < r.nbad; i++) {
        CHECK_INT(r.bad[i].sample, i);
        CHECK_HAS(r.bad[i].why, names[i]);
    }
    dataset_report_free(&r);
    CASE("and the good one");
    CHECK_STATUS(dataset_read(d, ctx, 8, &p), BRASA_OK);
    picture_free(ctx, &p);
}

/* --- drawn data ------------------------------------------------------------------------------------------------ */

TEST(synth)
{
    static const struct {
        const char *spec;
        int count, tests, classes, channels, height;
    } rows[] = {
        {"synth:digits", 70000, 10000, 10, 1, 28},
        {"synth:cifar10", 60000, 10000, 10, 3, 32},
        {"synth:cifar100", 60000, 10000, 100, 3, 32},
        {"synth:letter", 20000, 0, 26, 16, 0},
        {"synth:fire", 791, 0, 3, 3, 0},
        {"synth:fire,n=6003", 6003, 0, 3, 3, 0},
        {"synth:digits,n=70", 70, 10, 10, 1, 28},
        {"synth:cifar100,coarse", 60000, 10000, 20, 3, 32},
    };
    picture p = {0}, q = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].spec);
        OWNED(dataset) *d = opened("%s", rows[i].spec);
        if (!d)
            continue;
        CHECK_INT(d->count, rows[i].count);
        CHECK_INT(d->parts == 2 ? d->part[1].count : 0, rows[i].tests);
        CHECK_INT(d->classes, rows[i].classes);
        CHECK_INT(d->channels, rows[i].channels);
        CHECK_INT(d->height, rows[i].height);
        for (int k = 0; k < 16 && d->numbers; k++) {
            const float x = dataset_numbers(d, 5)[k];
            CHECK(x >= 0 && x <= 15 && x == floorf(x));
        }
        if (!d->numbers && (!d->varied || codec_at(0)->version)) {
            CHECK_STATUS(dataset_read(d, ctx, 7, &p), BRASA_OK);
            CHECK_STATUS(dataset_read(d, ctx, 8, &q), BRASA_OK);
            const size_t bytes = (size_t)p.channels * (size_t)p.height * (size_t)p.width;
            CHECK(memcmp(p.pixels, q.pixels, bytes) != 0);
            CHECK_STATUS(dataset_read(d, ctx, 7, &q), BRASA_OK); /* the same whenever it is read */
            CHECK(memcmp(p.pixels, q.pixels, bytes) == 0);
        }
    }
    picture_free(ctx, &p);
    picture_free(ctx, &q);
}

/* --- hashes ---------------------------------------------------------------------------------------------------- */

static bool count_calls(void *user, int32_t done)
{
    (void)done;
    ++*(int *)user;
    return true;
}

static void hash_of(const char *spec, char out[HASH_TEXT_SIZE], int *duplicates)
{
    dataset_report r = {0};
    OWNED(dataset) *d = opened("%s", spec);
    out[0] = '\0';
    if (d && dataset_examine(d, false, NULL, NULL, &r) == BRASA_OK)
        memcpy(out, r.hash, HASH_TEXT_SIZE);
    *duplicates = r.duplicates;
    CHECK_INT(strlen(out), 64);
    dataset_report_free(&r);
}

TEST(hash)
{
    char first[HASH_TEXT_SIZE], other[HASH_TEXT_SIZE];
    char spec[300];
    int twice = 0;
    snprintf(spec, sizeof spec, "csv:%s", in_tree("hash.csv"));
    put_text(in_tree("hash.csv"), "a,1,2\nb,3,4\na,1,2\n");
    hash_of(spec, first, &twice);
    CHECK_INT(twice, 1);
    put_text(in_tree("hash.csv"), "kind,x,y\n\"a\",1.0,2\n\nb,3,4\na,1,2"); /* other bytes, the same data */
    hash_of(spec, other, &twice);
    CHECK_TEXT(other, first);
    static const char *const changed[] = {"b,1,2\nb,3,4\na,1,2\n", "a,1,2\nb,3,5\na,1,2\n", "a,1,2\nc,3,4\na,1,2\n"};
    for (int i = 0; i < 3; i++) {
        CASE("changed %d", i);
        put_text(in_tree("hash.csv"), changed[i]);
        hash_of(spec, other, &twice);
        CHECK(strcmp(first, other) != 0);
    }
    CASE("seeds");
    hash_of("synth:digits,n=70", first, &twice);
    CHECK_INT(twice, 0);
    hash_of("synth:digits,n=70,seed=1", other, &twice);
    CHECK(strcmp(first, other) != 0);
    hash_of("synth:digits,n=70,seed=0", other, &twice);
    CHECK_TEXT(other, first);
}

/* What a set that is about to be used is known by. */
static void named(const char *spec, bool defined, char out[HASH_TEXT_SIZE])
{
    dataset_report r = {0};
    int calls = 0;
    OWNED(dataset) *d = opened("%s", spec);
    REQUIRE(d);
    CHECK_STATUS(dataset_identify(d, true, count_calls, &calls, &r), BRASA_OK);
    CHECK_INT(strlen(r.hash), 64);
    CHECK_INT(r.defined, defined);
    CHECK_INT(calls, defined ? 0 : d->count); /* nothing was drawn */
    int sum = 0;
    for (int i = 0; i < d->classes; i++)
        sum += r.per_class[i];
    CHECK_INT(sum, d->count);
    memcpy(out, r.hash, HASH_TEXT_SIZE);
    dataset_report_free(&r);
}

/* A drawn set is known by what defines it, and by all of it; files are known by what they hold. */
TEST(names_of_drawn_sets)
{
    static const char *const specs[] = {
        "synth:digits,n=600000",  "synth:digits,n=600001",       "synth:digits,n=600000,seed=1",
        "synth:cifar10,n=600000", "synth:cifar100,n=600000",     "synth:cifar100,n=600000,coarse",
        "synth:fire,n=600000",    "synth:fire,n=600000,size=64", "synth:letter,n=2600",
    };
    enum { SPECS = sizeof specs / sizeof specs[0] };
    char names[SPECS][HASH_TEXT_SIZE], again[HASH_TEXT_SIZE], content[HASH_TEXT_SIZE];
    int twice = 0;
    for (int i = 0; i < SPECS; i++) {
        CASE("%s", specs[i]);
        named(specs[i], true, names[i]);
        for (int k = 0; k < i; k++)
            CHECK(strcmp(names[i], names[k]) != 0);
    }
    CASE("defaults written out");
    named("synth:digits,seed=0,n=600000", true, again);
    CHECK_TEXT(again, names[0]);
    named("synth:fire,size=360,n=600000", true, again);
    CHECK_TEXT(again, names[6]);
    CASE("files");
    char spec[300];
    snprintf(spec, sizeof spec, "csv:%s", in_tree("named.csv"));
    put_text(in_tree("named.csv"), "a,1,2\nb,3,4\n");
    hash_of(spec, content, &twice);
    named(spec, false, again);
    CHECK_TEXT(again, content);
}

/* Whoever changes what is drawn raises the version, or a run would go on with other pictures than it began with. Then
 * these are renewed, too. */
TEST(drawings_of_this_version)
{
    static const struct {
        const char *spec, *hash; /* of pixels or numbers, one sample after the other */
    } rows[] = {
        {"synth:fire,n=30,size=64", "158088fb86a76b57db568b7af95c0011ded80d596a72ee8800fcd26054c5eee8"},
        {"synth:digits,n=30", "097785b27a178d7dce7fa18d9068021df6d45c210fa93e30b405bd125b2305fa"},
        {"synth:cifar10,n=30", "5263186fdea1c5903222c7a06efcb8ff5d5b8bcdcee47d88795f7b5b3977eeab"},
        {"synth:cifar100,n=300", "533cc93b42f1e8f305ee6c418ecea0dd687e4c6674d1dd93262ecc5c0a127054"},
        {"synth:letter,n=104", "fcd050f5cd1b470ea0875bde310cbcde9ef49e718b7cca31b80e59d1e29e1801"},
    };
    CHECK_INT(DRAWING_VERSION, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].spec);
        unsigned char digest[SHA256_BYTES];
        char text[SHA256_TEXT];
        picture p = {0};
        sha256 h;
        OWNED(dataset) *d = opened("%s", rows[i].spec);
        REQUIRE(d);
        sha256_start(&h);
        for (int32_t k = 0; k < d->count && (!d->varied || codec_at(0)->version); k++) {
            if (d->numbers) {
                sha256_add(&h, dataset_numbers(d, k), (size_t)d->channels * sizeof(float));
                continue;
            }
            CHECK_STATUS(d->source->read(d, ctx, k, &p), BRASA_OK); /* JPEG is only made of it */
            sha256_add(&h, p.pixels, (size_t)p.channels * (size_t)p.height * (size_t)p.width);
        }
        sha256_end(&h, digest);
        sha256_print(digest, text);
        if (!d->varied || codec_at(0)->version)
            CHECK_TEXT(text, rows[i].hash);
        picture_free(ctx, &p);
    }
}

/* What is written in the real set's format is the same data. */
TEST(made_files)
{
    static const char *const specs[] = {"synth:digits,n=70", "synth:cifar10,n=61", "synth:cifar100,n=240",
                                        "synth:letter,n=52"};
    char made[600], first[HASH_TEXT_SIZE], again[HASH_TEXT_SIZE];
    int twice = 0;
    for (int i = 0; i < 4; i++) {
        CASE("%s", specs[i]);
        OWNED(dataset) *d = opened("%s", specs[i]);
        REQUIRE(d);
        CHECK_STATUS(dataset_make(d, in_tree("made%d", i), NULL, NULL, made, sizeof made), BRASA_OK);
        hash_of(specs[i], first, &twice);
        hash_of(made, again, &twice);
        CHECK_TEXT(again, first);
        CHECK_STATUS(dataset_make(d, in_tree("made%d", i), NULL, NULL, made, sizeof made), BRASA_BAD_FILE);
        CHECK_HAS(ctx->error, "not empty");
    }
    CASE("synth:fire");
    if (!codec_at(0)->version)
        SKIP("no libjpeg");
    dataset *d = opened("synth:fire,n=7,size=64");
    REQUIRE(d);
    CHECK_STATUS(dataset_make(d, in_tree("made_fire"), NULL, NULL, made, sizeof made), BRASA_OK);
    OWNED(dataset) *files = opened("%s", made);
    REQUIRE(files);
    CHECK_INT(files->count, 7);
    CHECK_TEXT(files->class_name[2], "smoke");
    CHECK_HAS(dataset_name(files, 5).text, "smoke/000002.jpg");
    picture p = {0}, q = {0};
    CHECK_STATUS(dataset_read(d, ctx, 2, &p), BRASA_OK);
    CHECK_STATUS(dataset_read(files, ctx, 5, &q), BRASA_OK);
    CHECK(memcmp(p.pixels, q.pixels, 3 * 64 * 48) == 0);
    CHECK_STATUS(dataset_make(files, in_tree("made_again"), NULL, NULL, made, sizeof made), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(dataset_make(d, in_tree("no/such/folder"), NULL, NULL, made, sizeof made), BRASA_BAD_FILE);
    picture_free(ctx, &p);
    picture_free(ctx, &q);
    dataset_close(d);
}

static bool stop_at_once(void *user, int32_t done)
{
    ++*(int *)user;
    return done > 0;
}

TEST(examine_stops)
{
    int calls = 0;
    dataset_report r;
    OWNED(dataset) *d = opened("synth:digits,n=1000");
    REQUIRE(d);
    CHECK_STATUS(dataset_examine(d, true, stop_at_once, &calls, &r), BRASA_WRONG_STATE);
    CHECK_INT(calls, 1);
    dataset_report_free(&r);
}

/* --- real data, where there is some ---------------------------------------------------------------------------- */

TEST(real_mnist)
{
    const char *there = real_data("mnist");
    picture p = {0};
    if (!there || !codec_gzip())
        SKIP("no real data (BRASA_DATA)");
    OWNED(dataset) *d = opened("idx:%s", there);
    REQUIRE(d);
    CHECK_INT(d->count, 70000);
    CHECK_INT(d->part[1].begin, 60000);
    CHECK_INT(d->classes, 10);
    static const int first[] = {5, 0, 4, 1, 9}, tested[] = {7, 2, 1, 0, 4}; /* as everybody knows them */
    for (int i = 0; i < 5; i++) {
        CHECK_INT(d->label[i], first[i]);
        CHECK_INT(d->label[60000 + i], tested[i]);
    }
    long sum = 0;
    for (int i = 0; i < 60000; i++) {
        CHECK_STATUS(dataset_read(d, ctx, i, &p), BRASA_OK);
        for (int k = 0; k < 784; k++)
            sum += p.pixels[k];
    }
    CHECK_CLOSE((double)sum / (60000.0 * 784 * 255), 0.1307, 0.0001); /* the published mean */
    picture_free(ctx, &p);
}

TEST(real_letter)
{
    const char *file = real_data("letter/letter-recognition.data");
    if (!file)
        SKIP("no real data (BRASA_DATA)");
    OWNED(dataset) *d = opened("csv:%s", file);
    REQUIRE(d);
    CHECK_INT(d->count, 20000);
    CHECK_INT(d->channels, 16);
    CHECK_INT(d->classes, 26);
    CHECK_INT(d->label[0], 'T' - 'A');
    CHECK_CLOSE(dataset_numbers(d, 0)[1], 8, 0);
    int32_t letters[26] = {0};
    for (int i = 0; i < d->count; i++)
        letters[d->label[i]]++;
    CHECK_INT(letters[0], 789); /* as its description says */
    CHECK_INT(letters[25], 734);
}

TEST(real_fire)
{
    const char *there = real_data("fire");
    if (!there || !codec_at(0)->version)
        SKIP("no real data (BRASA_DATA)");
    dataset_report r = {0};
    OWNED(dataset) *d = opened("images:%s", there);
    REQUIRE(d);
    CHECK_INT(d->count, 266);
    CHECK_TEXT(d->class_name[1], "none");
    CHECK_STATUS(dataset_examine(d, true, NULL, NULL, &r), BRASA_OK);
    CHECK_INT(r.nbad, 0);
    CHECK_INT(r.per_class[0], 132);
    CHECK_INT(r.per_class[1], 134);
    dataset_report_free(&r);
}
