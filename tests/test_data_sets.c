/* test_data_sets.c - every source of data: what it gives for good files, and what it says about bad ones. */
#define _GNU_SOURCE
#include "test.h"

#include "core/sha256.h"
#include "core/sort.h"
#include "data/make.h"
#include "data_files.h"

static brasa_context *ctx;

__attribute__((constructor)) static void start(void)
{
    brasa_context_new(&(brasa_context_options){.threads = 1}, &ctx);
}

__attribute__((destructor)) static void end(void)
{
    brasa_context_free(ctx);
}

/* The set, or NULL with a failed check. */
static dataset *opened(const char *format, ...) BRASA_PRINTF(1, 2);
static dataset *opened(const char *format, ...)
{
    char spec[600];
    dataset *d = NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(spec, sizeof spec, format, args);
    va_end(args);
    if (dataset_open(ctx, spec, &d) != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", spec, ctx->error);
    return d;
}

/* Refused, in one line that holds both texts. */
static void refused(const char *spec, const char *where, const char *why)
{
    dataset *d = NULL;
    const brasa_status status = dataset_open(ctx, spec, &d);
    CHECK(status == BRASA_BAD_FILE || status == BRASA_BAD_ARGUMENT || status == BRASA_NOT_FOUND);
    CHECK(!d);
    CHECK_HAS(ctx->error, where);
    CHECK_HAS(ctx->error, why);
    CHECK(!strchr(ctx->error, '\n'));
    dataset_close(d);
}

/* --- what data stands on -----------------------------------------------------------------------------------------
 */

TEST(sha256)
{
    static const struct {
        const char *text;
        int times;
        const char *hash;
    } known[] = {
        /* FIPS 180-4's examples */
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        sha256 h;
        unsigned char hash[SHA256_BYTES];
        char text[SHA256_TEXT];
        CASE("%.10s x %d", known[i].text, known[i].times);
        sha256_start(&h);
        for (int k = 0; k < known[i].times; k++)
            sha256_add(&h, known[i].text, strlen(known[i].text));
        sha256_end(&h, hash);
        sha256_print(hash, text);
        CHECK_TEXT(text, known[i].hash);
    }
}

static int compare_int(void *user, int64_t a, int64_t b)
{
    const int *list = user;
    return (list[a] > list[b]) - (list[a] < list[b]);
}

static void swap_int(void *user, int64_t a, int64_t b)
{
    int *list = user, first = list[a];
    list[a] = list[b];
    list[b] = first;
}

TEST(sort)
{
    for (int count = 0; count < 40; count++) {
        int list[40];
        for (int i = 0; i < count; i++)
            list[i] = i * 7919 % 23;
        sort_items(list, count, compare_int, swap_int);
        for (int i = 1; i < count; i++)
            CHECK(list[i - 1] <= list[i]);
    }
}

TEST(specs)
{
    refused("fire", "data 'fire'", "expected a source and a colon");
    refused("sinth:fire", "no source 'sinth'", "did you mean 'synth'");
    refused("images:", "data 'images:'", "nothing stands behind the colon");
    refused("synth:fire,m=3", "unknown setting 'm'", "[,n=N]");
    refused("synth:fire,n=0", "n: expected a number from 3", "got '0'");
    refused("synth:fire,n=3x", "n: expected a number", "got '3x'");
    refused("synth:smoke", "there is no 'smoke'", "cifar100");
    refused("synth:digits,size=64", "size", "always of one size");
    refused("synth:digits,coarse", "coarse", "cifar100 only");
    refused("cifar100:x,coarse=perhaps", "coarse", "expected yes or no");
    for (int i = 0; source_at(i); i++)
        CHECK(strncmp(source_at(i)->form, source_at(i)->name, strlen(source_at(i)->name)) == 0);
}

/* --- IDX ---------------------------------------------------------------------------------------------------------
 */

static void check_idx(const dataset *d)
{
    picture p = {0};
    REQUIRE(d);
    CHECK_INT(d->count, 11);
    CHECK_INT(d->parts, 2);
    CHECK_INT(d->part[1].begin, 8);
    CHECK_INT(d->part[1].count, 3);
    CHECK_INT(d->classes, 4);
    CHECK_TEXT(d->class_name[3], "3");
    CHECK_INT(d->channels, 1);
    CHECK_INT(d->height, 5);
    CHECK_INT(d->width, 6);
    CHECK_INT(d->label[7], 3);
    CHECK_INT(d->label[9], 1);
    CHECK_STATUS(dataset_read(d, ctx, 7, &p), BRASA_OK);
    CHECK_INT(p.pixels[0], 210);
    CHECK_STATUS(dataset_read(d, ctx, 10, &p), BRASA_OK);
    CHECK_INT(p.pixels[29], 89);
    CHECK_HAS(dataset_name(d, 10).text, "picture 2");
    picture_free(ctx, &p);
}

TEST(idx)
{
    CASE("plain");
    put_idx(in_tree("idx/train-images-idx3-ubyte"), 3, 8, 5, 6, 240);
    put_labels(in_tree("idx/train-labels-idx1-ubyte"), 8, 4);
    put_idx(in_tree("idx/t10k-images.idx3-ubyte"), 3, 3, 5, 6, 90); /* the other way to write it */
    put_labels(in_tree("idx/t10k-labels.idx1-ubyte"), 3, 4);
    dataset *d = opened("idx:%s", in_tree("idx"));
    check_idx(d);
    CHECK_INT(d ? d->bytes : 1, 0); /* nothing held */
    dataset_close(d);

    CASE("packed");
    unsigned char data[1000];
    if (!put_packed(in_tree("gz/train-images-idx3-ubyte.gz"), data, make_idx(data, 3, (int[]){8, 5, 6}, 240)))
        SKIP("no zlib");
    make_idx(data, 1, (int[]){8}, 8);
    for (int i = 0; i < 8; i++)
        data[8 + i] = (unsigned char)(i % 4);
    put_packed(in_tree("gz/train-labels-idx1-ubyte.gz"), data, 16);
    put_packed(in_tree("gz/t10k-images-idx3-ubyte.gz"), data, make_idx(data, 3, (int[]){3, 5, 6}, 90));
    put_labels(in_tree("gz/t10k-labels-idx1-ubyte"), 3, 4);
    d = opened("idx:%s", in_tree("gz"));
    check_idx(d);
    CHECK_INT(d ? d->bytes : 0, 240 + 90);
    dataset_close(d);
}

TEST(bad_idx)
{
    static const struct {
        const char *name;
        int rank, a, b, c;
        size_t bytes;
        const char *why;
    } rows[] = {
        {"wrong rank", 2, 8, 5, 6, 240, "00 00 08 02, expected 00 00 08 03"},
        {"no samples", 3, 0, 5, 6, 0, "0 samples"},
        {"negative count", 3, -1, 5, 6, 240, "4294967295 samples"},
        {"no rows", 3, 8, 0, 6, 0, "pictures of 0 x 6"},
        {"huge pictures", 3, 8, 1 << 30, 6, 0, "pictures of 1073741824 x 6"},
        {"too short", 3, 8, 5, 6, 239, "announces 240 bytes"},
        {"too long", 3, 8, 5, 6, 241, "257 bytes long, expected 256"},
        {"more than fits", 3, 90000000, 16000, 16000, 100, "announces 23040000000000000 bytes"},
    };
    char spec[300];
    snprintf(spec, sizeof spec, "idx:%s", in_tree("bad_idx"));
    put_labels(in_tree("bad_idx/train-labels-idx1-ubyte"), 8, 4);
    refused(spec, "bad_idx", "no train-images-idx3-ubyte");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        put_idx(in_tree("bad_idx/train-images-idx3-ubyte"), rows[i].rank, rows[i].a, rows[i].b, rows[i].c,
                rows[i].bytes);
        refused(spec, "train-images-idx3-ubyte", rows[i].why);
    }
    CASE("ends in the header");
    put_file(in_tree("bad_idx/train-images-idx3-ubyte"), "\0\0\x08\x03\0\0", 6);
    refused(spec, "train-images-idx3-ubyte", "ends at byte 6, but 10 more");
    put_idx(in_tree("bad_idx/train-images-idx3-ubyte"), 3, 8, 5, 6, 240);
    CASE("labels of others");
    put_labels(in_tree("bad_idx/train-labels-idx1-ubyte"), 9, 4);
    refused(spec, "train-labels-idx1-ubyte", "9 labels, but there are 8");
    CASE("no labels");
    remove(in_tree("bad_idx/train-labels-idx1-ubyte"));
    refused(spec, "bad_idx", "no train-labels-idx1-ubyte");
    CASE("parts that differ");
    put_labels(in_tree("bad_idx/train-labels-idx1-ubyte"), 8, 4);
    put_idx(in_tree("bad_idx/t10k-images-idx3-ubyte"), 3, 3, 6, 5, 90);
    put_labels(in_tree("bad_idx/t10k-labels-idx1-ubyte"), 3, 4);
    refused(spec, "t10k-images", "6 x 5, but the first part has 5 x 6");
}

TEST(bad_gzip)
{
    unsigned char data[1000];
    const size_t length = make_idx(data, 3, (int[]){8, 5, 6}, 240);
    const char *path = in_tree("bad_gz/train-images-idx3-ubyte.gz");
    char spec[300];
    snprintf(spec, sizeof spec, "idx:%s", in_tree("bad_gz"));
    put_labels(in_tree("bad_gz/train-labels-idx1-ubyte"), 8, 4);
    put_file(path, data, length);
    if (!codec_gzip()) {
        refused(spec, "train-images", "zlib1g-dev");
        SKIP("no zlib");
    }
    CASE("not packed");
    refused(spec, "train-images-idx3-ubyte.gz", "not a gzip file");
    put_packed(path, data, length);
    FILE *f = fopen(path, "rb");
    const size_t packed = fread(data, 1, sizeof data, f);
    fclose(f);
    CASE("truncated");
    put_file(path, data, packed / 2);
    refused(spec, "train-images-idx3-ubyte.gz", "ends too early");
    CASE("a flipped bit");
    data[packed / 2] ^= 0x10;
    put_file(path, data, packed);
    refused(spec, "train-images-idx3-ubyte.gz", "after");
    CASE("announces more than a packed file can hold");
    make_idx(data, 3, (int[]){1000000, 1000, 1000}, 0);
    put_packed(path, data, 16);
    refused(spec, "train-images-idx3-ubyte.gz", "announces 1000000000000 bytes");
    CASE("too long");
    put_packed(path, data, make_idx(data, 3, (int[]){8, 5, 6}, 241));
    refused(spec, "train-images-idx3-ubyte.gz", "should end at byte 256");
}

/* --- CIFAR -------------------------------------------------------------------------------------------------------
 */

TEST(cifar10)
{
    picture p = {0};
    put_cifar(in_tree("c10/cifar-10-batches-bin/data_batch_1.bin"), 4, 1, 10);
    put_cifar(in_tree("c10/cifar-10-batches-bin/data_batch_2.bin"), 3, 1, 10);
    put_cifar(in_tree("c10/cifar-10-batches-bin/test_batch.bin"), 2, 1, 10);
    put_text(in_tree("c10/cifar-10-batches-bin/batches.meta.txt"), "a\nb\nc\nd\ne\nf\ng\nh\ni\r\nj\n\n");
    const char *const folders[] = {in_tree("c10"), in_tree("c10/cifar-10-batches-bin")};
    for (int i = 0; i < 2; i++) {
        CASE("%s", i ? "the archive's folder" : "the one around it");
        dataset *d = opened("cifar10:%s", folders[i]);
        REQUIRE(d);
        CHECK_INT(d->count, 9);
        CHECK_INT(d->part[0].count, 7);
        CHECK_INT(d->part[1].begin, 7);
        CHECK_INT(d->classes, 10);
        CHECK_TEXT(d->class_name[8], "i");
        CHECK_INT(d->label[5], 2); /* record 1 of batch 2 */
        CHECK_STATUS(dataset_read(d, ctx, 5, &p), BRASA_OK);
        CHECK_INT(p.channels, 3);
        CHECK_INT(p.width, 32);
        for (int c = 0; c < 3; c++) /* planes become pixels */
            CHECK_INT(p.pixels[3 * 100 + c], 1 + c + 100);
        CHECK_HAS(dataset_name(d, 5).text, "data_batch_2.bin, picture 1");
        dataset_close(d);
    }
    picture_free(ctx, &p);
}

TEST(cifar100)
{
    picture p = {0};
    put_cifar(in_tree("c100/train.bin"), 60, 2, 20);
    put_cifar(in_tree("c100/test.bin"), 3, 2, 20);
    for (int coarse = 0; coarse < 2; coarse++) {
        CASE("%s", coarse ? "coarse" : "fine");
        dataset *d = opened("cifar100:%s%s", in_tree("c100"), coarse ? ",coarse" : "");
        REQUIRE(d);
        CHECK_INT(d->count, 63);
        CHECK_INT(d->classes, coarse ? 20 : 100);
        CHECK_INT(d->label[3], coarse ? 4 : 5);
        CHECK_TEXT(d->class_name[19], "19");
        CHECK_STATUS(dataset_read(d, ctx, 3, &p), BRASA_OK);
        CHECK_INT(p.pixels[0], 3);
        dataset_close(d);
    }
    picture_free(ctx, &p);
}

TEST(bad_cifar)
{
    char spec[300];
    snprintf(spec, sizeof spec, "cifar10:%s", in_tree("bad_c10"));
    const char *path = in_tree("bad_c10/data_batch_1.bin");
    refused(spec, "bad_c10/data_batch_1.bin", "No such file");
    put_file(path, "", 0);
    refused(spec, "data_batch_1.bin", "0 bytes long");
    put_cifar(path, 2, 2, 10);
    refused(spec, "data_batch_1.bin", "6148 bytes long, expected a multiple of 3073");
    put_cifar(path, 12, 1, 11);
    refused(spec, "data_batch_1.bin", "byte 27657: the label 10, expected 0 to 9");
    put_cifar(path, 2, 1, 10);
    put_text(in_tree("bad_c10/batches.meta.txt"), "airplane\nbird\n");
    refused(spec, "batches.meta.txt", "name 3 of 10 is missing");
    put_text(in_tree("bad_c10/batches.meta.txt"), "a\nb\nc\nd\ne\033[2J\nf\ng\nh\ni\nj\n");
    refused(spec, "batches.meta.txt", "name 5 of 10");
}

/* --- CSV ---------------------------------------------------------------------------------------------------------
 */

typedef struct csv_case {
    const char *name, *text, *settings;
    int count, features, classes;
    const char *first_class, *last_class;
    float number; /* the last one of the last line */
} csv_case;

TEST(csv)
{
    static const csv_case rows[] = {
        {"label first", "T,2,8\nI,5,12\nT,1,0.5\n", "", 3, 2, 2, "I", "T", 0.5f},
        {"no line feed at the end", "T,2,8\nI,5,-1e2", "", 2, 2, 2, "I", "T", -100},
        {"a header, by name", "x,y,kind\n1,2,b\n3,4,a\n", ",label=kind", 2, 2, 2, "a", "b", 4},
        {"by number", "1,2,b\n3,4,a\n", ",label=3", 2, 2, 2, "a", "b", 4},
        {"a header of words", "class,x\n3,1\n4,2\n", "", 2, 1, 2, "3", "4", 2},
        {"a header of numbers", "1,2\n3,4\n", ",header=yes", 1, 1, 1, "3", "3", 4},
        {"whole numbers in their order", "10,1\n9,2\n-1,3\n", "", 3, 1, 3, "-1", "10", 3},
        {"quotes", "\"a, \"\"b\"\"\",1\n\"c\",\"2\"\n", "", 2, 1, 2, "a, \"b\"", "c", 2},
        {"carriage returns and empty lines", "\r\na,1\r\n\r\nb, 2 \r\n\n", "", 2, 1, 2, "a", "b", 2},
        {"semicolons", "a;1\nb;2\n", ",separator=semicolon", 2, 1, 2, "a", "b", 2},
        {"tabs", "a\t1\nb\t2\n", ",separator=tab", 2, 1, 2, "a", "b", 2},
        {"a byte order mark",
         "\xEF\xBB\xBF"
         "a,1\nb,2\n",
         "", 2, 1, 2, "a", "b", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const csv_case *r = &rows[i];
        CASE("%s", r->name);
        put_text(in_tree("good.csv"), r->text);
        dataset *d = opened("csv:%s%s", in_tree("good.csv"), r->settings);
        if (!d)
            continue;
        CHECK(d->numbers);
        CHECK_INT(d->count, r->count);
        CHECK_INT(d->channels, r->features);
        CHECK_INT(d->height, 0);
        CHECK_INT(d->classes, r->classes);
        CHECK_TEXT(d->class_name[0], r->first_class);
        CHECK_TEXT(d->class_name[d->classes - 1], r->last_class);
        CHECK_CLOSE(dataset_numbers(d, r->count - 1)[r->features - 1], r->number, 0);
        dataset_close(d);
    }
}

TEST(bad_csv)
{
    static const struct {
        const char *name, *text, *settings, *where, *why;
    } rows[] = {
        {"empty", "", "", "bad.csv", "it is empty"},
        {"blank", "\n\n\r\n", "", "bad.csv", "it is empty"},
        {"a header only", "class,x\n", "", "bad.csv", "no line of data"},
        {"one column", "1\n2\n", "", "line 1", "a single cell"},
        {"ragged, short", "a,1,2\nb,3\n", "", "line 2", "2 cells, but the first line has 3"},
        {"ragged, long", "a,1\n\nb,3,4\n", "", "line 3", "3 cells"},
        {"a word", "a,1\nb,2\nc,three\n", "", "line 3: column 2", "'three' is not a number"},
        {"an empty cell", "a,1,2\nb,,4\n", "", "line 2: column 2", "'' is not a number"},
        {"nan", "a,1\nb,nan\n", "", "line 2: column 2", "'nan' is not a number"},
        {"hexadecimal", "a,1\nb,0x10\n", "", "line 2: column 2", "'0x10' is not a number"},
        {"beyond float", "a,1\nb,1e39\n", "", "line 2: column 2", "'1e39' is not a number"},
        {"an empty label", "a,1\n,2\n", "", "line 2", "an empty label"},
        {"an open quote", "a,1\n\"b,2\n", "", "line 2", "a quote that is not closed on its line"},
        {"a quote over two lines", "a,1\n\"b\nc\",2\n", "", "line 2", "a quote that is not closed on its line"},
        {"a cell to confuse a terminal", "a,1\nb,\033[2J\n", "", "line 2: column 2", "'?' is not a number"},
        {"behind a quote", "a,1\n\"b\"c,2\n", "", "line 2", "text behind a quoted cell"},
        {"no such column", "x,y\n1,2\n", ",label=z", "bad.csv", "no column 'z'"},
        {"no such number", "x,y\n1,2\n", ",label=3", "column 3", "has 2"},
        {"a name without a header", "x,y\n1,2\n", ",label=x,header=no", "'x' is a name", "no header"},
        {"a strange separator", "x,y\n1,2\n", ",separator=blank", "separator", "got 'blank'"},
        {"an escape in a label", "a,1\nb\033[31m,2\n", "", "line 2", "not printable"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char spec[300];
        CASE("%s", rows[i].name);
        put_text(in_tree("bad.csv"), rows[i].text);
        snprintf(spec, sizeof spec, "csv:%s%s", in_tree("bad.csv"), rows[i].settings);
        refused(spec, rows[i].where, rows[i].why);
    }
    CASE("a zero byte");
    char spec[300];
    snprintf(spec, sizeof spec, "csv:%s", in_tree("bad.csv"));
    put_file(in_tree("bad.csv"), "a,1\nb\0,2\n", 9);
    refused(spec, "bad.csv", "byte 5 is zero");
    CASE("a folder");
    snprintf(spec, sizeof spec, "csv:%s", in_tree("."));
    refused(spec, "/.", "not a regular file");
}

/* --- folders of pictures -----------------------------------------------------------------------------------------
 */

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
    dataset *d = opened("images:%s", in_tree("pics"));
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
    dataset_close(d);
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
    dataset *d = opened("%s", spec);
    REQUIRE(d);
    CHECK_INT(d->parts, 2);
    CHECK_INT(d->part[1].begin, 2);
    CHECK_INT(d->label[3], 1);
    CHECK_HAS(dataset_name(d, 3).text, "parts/test/b/2.jpg");
    dataset_close(d);
}

TEST(png)
{
    picture p = {0};
    if (!put_png(ctx, in_tree("png/a/colour.png"), 20, 30, false))
        SKIP("no libspng");
    put_png(ctx, in_tree("png/a/grey.png"), 20, 30, true);
    dataset *d = opened("images:%s", in_tree("png"));
    REQUIRE(d);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(dataset_read(d, ctx, i, &p), BRASA_OK);
        CHECK_INT(p.channels, 3);
        CHECK_INT(p.height, 20);
        CHECK_INT(p.pixels[3 * (10 * 30 + 15)], 127);
        CHECK_INT(p.pixels[3 * (10 * 30 + 15) + 2], i ? 127 : 90);
    }
    dataset_close(d);
    picture_free(ctx, &p);
}

TEST(scaled_decoding)
{
    picture p = {.least = 100};
    if (!put_jpeg(ctx, in_tree("large/a/x.jpg"), 1000, 1600))
        SKIP("no libjpeg");
    dataset *d = opened("images:%s", in_tree("large"));
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
    dataset_close(d);
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
    dataset *d = opened("images:%s", in_tree("bad"));
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
    dataset_close(d);
    picture_free(ctx, &p);
}

/* --- drawn data --------------------------------------------------------------------------------------------------
 */

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
        dataset *d = opened("%s", rows[i].spec);
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
        dataset_close(d);
    }
    picture_free(ctx, &p);
    picture_free(ctx, &q);
}

/* --- hashes ------------------------------------------------------------------------------------------------------
 */

static void hash_of(const char *spec, char out[HASH_TEXT_SIZE], int *duplicates)
{
    dataset_report r = {0};
    dataset *d = opened("%s", spec);
    out[0] = '\0';
    if (d && dataset_examine(d, false, NULL, NULL, &r) == BRASA_OK)
        memcpy(out, r.hash, HASH_TEXT_SIZE);
    *duplicates = r.duplicates;
    CHECK_INT(strlen(out), 64);
    dataset_report_free(&r);
    dataset_close(d);
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

/* What is written in the real set's format is the same data. */
TEST(made_files)
{
    static const char *const specs[] = {"synth:digits,n=70", "synth:cifar10,n=61", "synth:cifar100,n=240",
                                        "synth:letter,n=52"};
    char made[600], first[HASH_TEXT_SIZE], again[HASH_TEXT_SIZE];
    int twice = 0;
    for (int i = 0; i < 4; i++) {
        CASE("%s", specs[i]);
        dataset *d = opened("%s", specs[i]);
        REQUIRE(d);
        CHECK_STATUS(dataset_make(d, in_tree("made%d", i), NULL, NULL, made, sizeof made), BRASA_OK);
        hash_of(specs[i], first, &twice);
        hash_of(made, again, &twice);
        CHECK_TEXT(again, first);
        CHECK_STATUS(dataset_make(d, in_tree("made%d", i), NULL, NULL, made, sizeof made), BRASA_BAD_FILE);
        CHECK_HAS(ctx->error, "not empty");
        dataset_close(d);
    }
    CASE("synth:fire");
    if (!codec_at(0)->version)
        SKIP("no libjpeg");
    dataset *d = opened("synth:fire,n=7,size=64");
    REQUIRE(d);
    CHECK_STATUS(dataset_make(d, in_tree("made_fire"), NULL, NULL, made, sizeof made), BRASA_OK);
    dataset *files = opened("%s", made);
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
    dataset_close(files);
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
    dataset *d = opened("synth:digits,n=1000");
    REQUIRE(d);
    CHECK_STATUS(dataset_examine(d, true, stop_at_once, &calls, &r), BRASA_WRONG_STATE);
    CHECK_INT(calls, 1);
    dataset_report_free(&r);
    dataset_close(d);
}

/* --- real data, where there is some ------------------------------------------------------------------------------
 */

TEST(real_mnist)
{
    const char *folder = real_data("mnist");
    picture p = {0};
    if (!folder || !codec_gzip())
        SKIP("no real data (BRASA_DATA)");
    dataset *d = opened("idx:%s", folder);
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
    dataset_close(d);
    picture_free(ctx, &p);
}

TEST(real_letter)
{
    const char *file = real_data("letter/letter-recognition.data");
    if (!file)
        SKIP("no real data (BRASA_DATA)");
    dataset *d = opened("csv:%s", file);
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
    dataset_close(d);
}

TEST(real_fire)
{
    const char *folder = real_data("fire");
    if (!folder || !codec_at(0)->version)
        SKIP("no real data (BRASA_DATA)");
    dataset_report r = {0};
    dataset *d = opened("images:%s", folder);
    REQUIRE(d);
    CHECK_INT(d->count, 266);
    CHECK_TEXT(d->class_name[1], "none");
    CHECK_STATUS(dataset_examine(d, true, NULL, NULL, &r), BRASA_OK);
    CHECK_INT(r.nbad, 0);
    CHECK_INT(r.per_class[0], 132);
    CHECK_INT(r.per_class[1], 134);
    dataset_report_free(&r);
    dataset_close(d);
}
