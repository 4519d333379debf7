/* test_data_sets.c - data sets in files of records, IDX, CIFAR and CSV: what they give where they are good, and what
 * is said about bad ones. Pictures are in test_data_pictures.c. */
#define _GNU_SOURCE
#include "data_sets.h"

#include "core/sha256.h"
#include "core/sort.h"

/* --- what data stands on --------------------------------------------------------------------------------------- */

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
    CASE("commas in paths");
    put_text(in_tree("a,b/c,d.csv"), "1,x\n2,y\n");
    dataset *d = opened("csv:%s,label=2", in_tree("a,b/c,d.csv"));
    CHECK_TEXT(d ? d->class_name[1] : "", "y");
    dataset_close(d);
    refused("csv:a,b/none.csv,label=2", "unknown setting 'b/none.csv'", "the form is csv:FILE");
    for (int i = 0; source_at(i); i++)
        CHECK(strncmp(source_at(i)->form, source_at(i)->name, strlen(source_at(i)->name)) == 0);
}

/* --- IDX ------------------------------------------------------------------------------------------------------- */

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

/* --- CIFAR ----------------------------------------------------------------------------------------------------- */

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
        OWNED(dataset) *d = opened("cifar10:%s", folders[i]);
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
        OWNED(dataset) *d = opened("cifar100:%s%s", in_tree("c100"), coarse ? ",coarse" : "");
        REQUIRE(d);
        CHECK_INT(d->count, 63);
        CHECK_INT(d->classes, coarse ? 20 : 100);
        CHECK_INT(d->label[3], coarse ? 4 : 5);
        CHECK_TEXT(d->class_name[19], "19");
        CHECK_STATUS(dataset_read(d, ctx, 3, &p), BRASA_OK);
        CHECK_INT(p.pixels[0], 3);
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

/* --- CSV ------------------------------------------------------------------------------------------------------- */

typedef struct csv_case {
    const char *name, *text, *settings;
    int count, features, classes;
    const char *first_class, *last_class;
    float number; /* the last one of the last line */
} csv_case;

/* That are not empty. */
static int csv_lines(const char *text)
{
    int lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c != '\n' && *c != '\r' && (!c[1] || c[1] == '\n' || c[1] == '\r');
    return lines;
}

TEST(csv)
{
    static const csv_case rows[] = {
        {"label first", "T,2,8\nI,5,12\nT,1,0.5\n", "", 3, 2, 2, "I", "T", 0.5f},
        {"no line feed at the end", "T,2,8\nI,5,-1e2", "", 2, 2, 2, "I", "T", -100},
        {"a header, by name", "x,y,kind\n1,2,b\n3,4,a\n", ",label=kind", 2, 2, 2, "a", "b", 4},
        {"by number", "1,2,b\n3,4,a\n", ",label=3", 2, 2, 2, "a", "b", 4},
        {"a header of words", "class,x\n3,1\n4,2\n", "", 2, 1, 2, "3", "4", 2},
        {"a header of numbers", "1,2\n3,4\n", ",header=yes", 1, 1, 1, "3", "3", 4},
        {"a header of numbers, not seen", "kind,0,1\na,5,6\na,7,8\n", ",header=yes", 2, 2, 1, "a", "a", 8},
        {"a sample that counts", "c,0,1\na,5,6\nc,7,8\n", "", 3, 2, 2, "a", "c", 8},
        {"names with digits", "kind,1st,0x,e1\na,1,2,3\n", "", 1, 3, 1, "a", "a", 3},
        {"blanks around labels", "A,1\n A,2\nA \t,3\nB B,4\n", "", 4, 1, 2, "A", "B B", 4},
        {"blanks in a header", "x, kind \n1,a\n", ",label=kind", 1, 1, 1, "a", "a", 1},
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
        OWNED(dataset) *d = opened("csv:%s%s", in_tree("good.csv"), r->settings);
        if (!d)
            continue;
        CHECK(d->numbers);
        CHECK_TEXT(d->header, csv_lines(r->text) == r->count ? "no" : "yes");
        CHECK_INT(d->count, r->count);
        CHECK_INT(d->channels, r->features);
        CHECK_INT(d->height, 0);
        CHECK_INT(d->classes, r->classes);
        CHECK_TEXT(d->class_name[0], r->first_class);
        CHECK_TEXT(d->class_name[d->classes - 1], r->last_class);
        CHECK_CLOSE(dataset_numbers(d, r->count - 1)[r->features - 1], r->number, 0);
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
        {"nan first", "a,nan\nb,1\n", "", "line 1: column 2: 'nan' is not a number", "say header=yes"},
        {"beyond float first", "a,1e39\nb,1\n", "", "line 1: column 2", "'1e39' is not a number"},
        {"hexadecimal first", "a,0x10\nb,1\n", "", "line 1: column 2", "'0x10' is not a number"},
        {"an empty cell first", "a,1,\nb,1,2\n", "", "line 1: column 3", "'' is not a number"},
        {"names and numbers", "kind,x,1\na,1,2\n", "", "line 1: column 2", "'x' is not a number"},
        {"a header of numbers", "kind,0,1\na,1,2\na,3,4\n", "", "bad.csv", "line 1 may be a header or a sample"},
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
