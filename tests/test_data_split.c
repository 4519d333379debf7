/* test_data_split.c - shares and folds: every sample in its place once, classes in proportion, lists in files. */
#define _GNU_SOURCE
#include "test.h"

#include "data/split.h"
#include "data_files.h"

static brasa_context *ctx;

/* 103 samples: classes a (60), b (33), c (10), in the order a b a b ... */
static dataset *make_set(void)
{
    char text[2000];
    int used = 0, left[3] = {60, 33, 10};
    for (int i = 0; left[0] + left[1] + left[2] > 0; i++)
        if (left[i % 3]) {
            left[i % 3]--;
            used += snprintf(text + used, sizeof text - (size_t)used, "%c,%d\n", 'a' + i % 3, i);
        }
    put_text(in_tree("set.csv"), text);
    char name[300];
    dataset *d = NULL;
    if (!ctx)
        brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx);
    snprintf(name, sizeof name, "csv:%s", in_tree("set.csv"));
    CHECK_STATUS(dataset_open(ctx, name, &d), BRASA_OK);
    return d;
}

static int of_class(const dataset *d, const int32_t *list, int count, int class)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        found += d->label[list[i]] == class;
    return found;
}

/* Adds one to seen[] of each. */
static void mark(const int32_t *list, int count, int *seen)
{
    for (int i = 0; i < count; i++)
        seen[list[i]]++;
}

static bool all_are(const int *seen, int count, int times)
{
    for (int i = 0; i < count; i++)
        if (seen[i] != times)
            return false;
    return true;
}

TEST(parse)
{
    static const char *const bad[] = {"", "70", "70/31", "0/100", "100/0", "70/30x", "all ", "7a/30", "-70/30"};
    split_options o = {0};
    OWNED(dataset) *d = make_set();
    REQUIRE(d);
    CHECK_STATUS(split_parse(ctx, "70/30", &o), BRASA_OK);
    CHECK_INT(o.kind, SPLIT_SHARE);
    CHECK_INT(o.share, 70);
    CHECK_STATUS(split_parse(ctx, "all", &o), BRASA_OK);
    CHECK_INT(o.kind, SPLIT_ALL);
    CHECK_STATUS(split_parse(ctx, "parts", &o), BRASA_OK);
    CHECK_INT(o.kind, SPLIT_PARTS);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(split_parse(ctx, bad[i], &o), BRASA_BAD_ARGUMENT);
        CHECK_HAS(ctx->error, "such as 70/30");
    }
}

TEST(share)
{
    OWNED(dataset) *d = make_set();
    REQUIRE(d);
    for (int form = 0; form < 4; form++) {
        split_options o = {.kind = SPLIT_SHARE, .share = 70, .seed = 3};
        split s;
        int seen[103] = {0}, first = -1;
        o.no_stratify = form & 1;
        o.no_shuffle = form & 2;
        CASE("%s, %s", o.no_stratify ? "not stratified" : "stratified", o.no_shuffle ? "in order" : "shuffled");
        CHECK_STATUS(split_make(d, &o, &s), BRASA_OK);
        CHECK(abs(s.tests - 31) <= 1);
        mark(s.train, s.trains, seen);
        mark(s.test, s.tests, seen);
        CHECK(all_are(seen, 103, 1));
        for (int c = 0; c < 3 && !o.no_stratify; c++)
            CHECK_CLOSE(of_class(d, s.test, s.tests, c), 0.3 * of_class(d, s.train, s.trains, c) / 0.7, 1.5);
        CHECK_INT(split_missing(d, s.train, s.trains, &first), 0);
        CHECK_INT(split_missing(d, s.train, 1, &first), 2);
        CHECK_INT(first, d->label[s.train[0]] == 0);
        if (form == 3) { /* scikit-learn's train_test_split(shuffle=False): 31 = ceil(30.9) test, the last ones */
            CHECK_INT(s.tests, 31);
            CHECK_INT(s.train[71], 71);
            CHECK_INT(s.test[0], 72);
        }
        split_free(&s);
    }
}

TEST(folds)
{
    OWNED(dataset) *d = make_set();
    REQUIRE(d);
    for (int form = 0; form < 4; form++) {
        int seen[103] = {0}, at = 0;
        for (int fold = 0; fold < 10; fold++) {
            split_options o = {.kind = SPLIT_FOLDS, .folds = 10, .fold = fold, .seed = 3};
            split s;
            int here[103] = {0};
            o.no_stratify = form & 1;
            o.no_shuffle = form & 2;
            CASE("%s, %s, %d", o.no_stratify ? "not stratified" : "stratified",
                 o.no_shuffle ? "in order" : "shuffled", fold);
            CHECK_STATUS(split_make(d, &o, &s), BRASA_OK);
            CHECK(s.tests == 10 || s.tests == 11);
            mark(s.test, s.tests, seen);
            mark(s.train, s.trains, here);
            mark(s.test, s.tests, here);
            CHECK(all_are(here, 103, 1));
            for (int c = 0; c < 3 && !o.no_stratify; c++)
                CHECK_CLOSE(of_class(d, s.test, s.tests, c), (c == 0 ? 6 : c == 1 ? 3.3 : 1), 1);
            if (form == 3) { /* scikit-learn's KFold(10): three folds of 11, then 10 */
                CHECK_INT(s.tests, fold < 3 ? 11 : 10);
                for (int i = 0; i < s.tests; i++)
                    CHECK_INT(s.test[i], at++);
            }
            split_free(&s);
        }
        CHECK(all_are(seen, 103, 1)); /* each tests once */
    }
}

/* Ten photos, of which 0, 1, 2 and 5, 6 are of one scene each. */
TEST(groups)
{
    char name[300];
    OWNED(dataset) *d = NULL;
    dataset_close(make_set());
    for (int i = 0; i < 10; i++)
        put_text(in_tree("scenes/%c/%d.jpg", i < 5 ? 'a' : 'b', i), "");
    snprintf(name, sizeof name, "images:%s,groups=scene", in_tree("scenes"));
    CHECK_STATUS(dataset_open(ctx, name, &d), BRASA_BAD_FILE);
    CHECK_HAS(ctx->error, "scenes/index.csv: No such file");
    static const struct {
        const char *text, *why;
    } bad[] = {{"file,kind\na/0.jpg,1\n", "no column 'scene'"},
               {"path,scene\na/0.jpg,1\n", "no column 'file'"},
               {"file,scene\na/0.jpg\n", "line 2: another number of cells"},
               {"file,scene\na/0.jpg,1\na/0.jpg,2\n", "'a/0.jpg' is in it twice"},
               {"file,scene\na/0.jpg,1\n", "it lacks 'a/1.jpg'"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_text(in_tree("scenes/index.csv"), bad[i].text);
        CHECK_STATUS(dataset_open(ctx, name, &d), BRASA_BAD_FILE);
        CHECK_HAS(ctx->error, bad[i].why);
    }
    put_text(in_tree("scenes/index.csv"), "scene,file\nx,a/0.jpg\nx,a/1.jpg\nx,a/2.jpg\ny,a/3.jpg\nz,a/4.jpg\n"
                                          "v,b/5.jpg\nv,b/6.jpg\n1,b/7.jpg\n2,b/8.jpg\n3,b/9.jpg\nw,gone.jpg\n");
    REQUIRE(dataset_open(ctx, name, &d) == BRASA_OK);
    CHECK_INT(d->groups, 8);
    CHECK(!d->note); /* the table is not passed over */
    for (uint64_t seed = 0; seed < 20; seed++) {
        int seen[10] = {0};
        for (int fold = 0; fold < 3; fold++) {
            split s;
            bool tried[10] = {false};
            CHECK_STATUS(
                split_make(d, &(split_options){.kind = SPLIT_FOLDS, .folds = 3, .fold = fold, .seed = seed}, &s),
                BRASA_OK);
            mark(s.test, s.tests, seen);
            for (int i = 0; i < s.tests; i++)
                tried[s.test[i]] = true;
            CHECK(tried[0] == tried[1] && tried[1] == tried[2]);
            CHECK(tried[5] == tried[6]);
            split_free(&s);
        }
        CHECK(all_are(seen, 10, 1));
    }
}

TEST(seeds)
{
    OWNED(dataset) *d = make_set();
    split a, b, c;
    REQUIRE(d);
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_SHARE, .share = 70, .seed = 1}, &a), BRASA_OK);
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_SHARE, .share = 70, .seed = 1}, &b), BRASA_OK);
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_SHARE, .share = 70, .seed = 2}, &c), BRASA_OK);
    CHECK(memcmp(a.train, b.train, (size_t)a.trains * sizeof *a.train) == 0);
    CHECK(memcmp(a.train, c.train, (size_t)a.trains * sizeof *a.train) != 0);
    split_free(&a);
    split_free(&b);
    split_free(&c);
}

TEST(parts_and_all)
{
    dataset *d = make_set(), *two = NULL;
    split s;
    REQUIRE(d);
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_ALL}, &s), BRASA_OK);
    CHECK_INT(s.trains, 103);
    CHECK_INT(s.tests, 0);
    split_free(&s);
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_PARTS}, &s), BRASA_BAD_ARGUMENT);
    CHECK_HAS(ctx->error, "no test part");
    dataset_close(d);
    REQUIRE(dataset_open(ctx, "synth:digits,n=70", &two) == BRASA_OK);
    CHECK_STATUS(split_make(two, &(split_options){.kind = SPLIT_PARTS}, &s), BRASA_OK);
    CHECK_INT(s.trains, 60);
    CHECK_INT(s.test[0], 60);
    split_free(&s);
    CHECK_STATUS(split_make(two, &(split_options){.kind = SPLIT_FOLDS, .folds = 71}, &s), BRASA_BAD_ARGUMENT);
    CHECK_HAS(ctx->error, "2 to 70");
    CHECK_STATUS(split_make(two, &(split_options){.kind = SPLIT_FOLDS, .folds = 5, .fold = 5}, &s),
                 BRASA_BAD_ARGUMENT);
    CHECK_HAS(ctx->error, "0 to 4");
    dataset_close(two);
}

/* A test list without samples is no test: refused, with the numbers, whichever fold is asked for. */
TEST(nothing_to_test)
{
    char name[300];
    dataset *d = NULL;
    split s;
    dataset_close(make_set());
    for (int i = 0; i < 12; i++)
        put_text(in_tree("few/%c/%d.jpg", i % 2 ? 'a' : 'b', i), "");
    char text[400] = "file,scene\n";
    for (int i = 0; i < 12; i++)
        sprintf(text + strlen(text), "%c/%d.jpg,%d\n", i % 2 ? 'a' : 'b', i, i / 4);
    put_text(in_tree("few/index.csv"), text);
    snprintf(name, sizeof name, "images:%s,groups=scene", in_tree("few"));
    REQUIRE(dataset_open(ctx, name, &d) == BRASA_OK);
    for (int fold = 0; fold < 5; fold++) {
        CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_FOLDS, .folds = 5, .fold = fold}, &s),
                     BRASA_BAD_ARGUMENT);
        CHECK_HAS(ctx->error, "of 5 folds");
        CHECK_HAS(ctx->error, "12 samples in 3 groups");
    }
    for (int fold = 0; fold < 3; fold++) { /* as many as there are groups */
        CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_FOLDS, .folds = 3, .fold = fold}, &s), BRASA_OK);
        CHECK_INT(s.tests, 4);
        split_free(&s);
    }
    dataset_close(d);
    put_text(in_tree("two.csv"), "a,1\nb,2\n");
    snprintf(name, sizeof name, "csv:%s", in_tree("two.csv"));
    REQUIRE(dataset_open(ctx, name, &d) == BRASA_OK);
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_SHARE, .share = 70}, &s), BRASA_BAD_ARGUMENT);
    CHECK_HAS(ctx->error, "split: 70/30 leaves no sample to test on: there are 2 samples");
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_SHARE, .share = 50}, &s), BRASA_OK);
    split_free(&s);
    dataset_close(d);
}

TEST(drop)
{
    OWNED(dataset) *d = make_set();
    split s;
    int seen[103] = {0};
    dataset_bad bad[] = {{.sample = 3}, {.sample = 50}, {.sample = 102}};
    REQUIRE(d);
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_SHARE, .share = 70}, &s), BRASA_OK);
    split_drop(&s, &(dataset_report){.bad = bad, .nbad = 3});
    CHECK_INT(s.trains + s.tests, 100);
    mark(s.train, s.trains, seen);
    mark(s.test, s.tests, seen);
    for (int i = 0; i < 103; i++)
        CHECK_INT(seen[i], i != 3 && i != 50 && i != 102);
    split_free(&s);
}

TEST(files)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "line 1: expected train and a number"},
        {"train 2\n1\n", "line 3"},
        {"train 1\n103\ntest 0\n", "line 2: expected a number from 0 to 102"},
        {"train 1\n-1\ntest 0\n", "line 2"},
        {"train 1\n1x\ntest 0\n", "line 2"},
        {"train 2\n1\n1\ntest 0\n", "line 3: sample 1 for the second time"},
        {"train 1\n1\ntest 1\n1\n", "line 4: sample 1 for the second time"},
        {"train 104\n", "line 1"},
        {"train 1\n1\ntest 1\n2\n3\n", "line 5: expected the end"},
    };
    dataset *d = make_set();
    split s, again;
    REQUIRE(d);
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_SHARE, .share = 70}, &s), BRASA_OK);
    CHECK_STATUS(split_write(&s, in_tree("split.txt")), BRASA_OK);
    CHECK_STATUS(split_read(d, in_tree("split.txt"), &again), BRASA_OK);
    CHECK_INT(again.trains, s.trains);
    CHECK_INT(again.tests, s.tests);
    CHECK(memcmp(s.train, again.train, (size_t)s.trains * sizeof *s.train) == 0);
    CHECK(memcmp(s.test, again.test, (size_t)s.tests * sizeof *s.test) == 0);
    split_free(&again);
    CHECK_STATUS(split_write(&s, in_tree("nowhere/split.txt")), BRASA_BAD_FILE);
    CHECK_STATUS(split_write(&s, "/dev/full"), BRASA_BAD_FILE);
    split_free(&s);
    CHECK_STATUS(split_read(d, in_tree("nowhere.txt"), &again), BRASA_BAD_FILE);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CASE("%s", bad[i].why);
        put_text(in_tree("bad.txt"), bad[i].text);
        CHECK_STATUS(split_read(d, in_tree("bad.txt"), &again), BRASA_BAD_FILE);
        CHECK_HAS(ctx->error, "bad.txt");
        CHECK_HAS(ctx->error, bad[i].why);
    }
    dataset_close(d);
    brasa_context_free(ctx);
    ctx = NULL;
}
