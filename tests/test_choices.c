/* test_choices.c - choices by the clock in memory, on disk and in a run's record: what holds, and what a file may
 * look like. */
#define _GNU_SOURCE
#include "counted.h"

#include "core/random.h"
#include "tune/tuner.h"

#include <time.h>

#ifdef POOL_SEPARATE /* the sanitized build, which is slow: see pool.c */
enum { LARGE_FILE = 20000, LARGE_SECONDS = 10 };
#else
enum { LARGE_FILE = 100000, LARGE_SECONDS = 1 };
#endif

#define HEAD "brasa choices 1\n"

static bool take_note(void *user, int64_t done, int64_t total, const char *note)
{
    CHECK(note && !done && !total);
    strncat(user, note, 900 - strlen(user));
    return true;
}

/* For machines that begin with "gpu"; what is noted is in `notes`. */
static char notes[1000];

static tuner *tuner_of(const char *cache, const char *record)
{
    const brasa_tuning wish = {.measure = true, .cache = cache, .record = record, .watch = take_note, .user = notes};
    tuner *t = NULL;
    notes[0] = '\0';
    CHECK_STATUS(tuner_new(ctx, "gpu", &wish, &t), BRASA_OK);
    if (!t)
        exit(1);
    return t;
}

static choice *put(tuner *t, const char *problem, const char *words, bool unsettled)
{
    const choice made = {.machine = "gpu", .problem = problem, .words = words, .unsettled = unsettled};
    choice *c;
    CHECK_STATUS(tuner_put(t, &made, &c), BRASA_OK);
    return c;
}

static const char *words_of(const tuner *t, const char *problem)
{
    const choice *c = choices_find(t, "gpu", problem);
    return !c ? "" : c->words ? c->words : c->tried[c->best].kernel;
}

static void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

static int lines_in(const char *path)
{
    size_t bytes = 0;
    char *text = read_file(path, &bytes);
    int lines = 0;
    for (const char *at = text; at && (at = strchr(at, '\n')); at++)
        lines++;
    free(text);
    return lines;
}

/* --- what holds ------------------------------------------------------------------------------------------------ */

TEST(kept_for_another_process)
{
    start();
    const char *cache = in_folder("kept.txt");
    tried list[] = {{"one_kernel", 12}, {"other", 34}};
    const choice own = {.machine = "gpu", .problem = "node", .count = 2, .best = 1, .tried = list};
    choice *c;
    tuner *t = tuner_of(cache, NULL);
    CHECK(put(t, "conv 1", "0 38 2=5", false)->fresh);
    put(t, "conv 2", "1 40", false);
    put(t, "conv 1", "0 39", false);
    CHECK_STATUS(tuner_put(t, &own, &c), BRASA_OK);
    tuner_free(t);
    CHECK_INT(lines_in(cache), 4);
    t = tuner_of(cache, NULL);
    CHECK_INT(t->count, 3);
    CHECK_TEXT(words_of(t, "conv 1"), "0 39");
    CHECK_TEXT(words_of(t, "conv 2"), "1 40");
    CHECK_TEXT(words_of(t, "node"), "other");
    CHECK(!choices_find(t, "gp", "conv 1") && !choices_find(t, "gpu 2", "conv 1"));
    CHECK(!choices_find(t, "gpu", "conv 2")->used && !choices_find(t, "gpu", "conv 2")->fresh);
    tuner_free(t);
    tuner_free(tuner_of(NULL, NULL));
    stop();
}

TEST(written_by_two)
{
    start();
    const char *cache = in_folder("two.txt");
    tuner *a = tuner_of(cache, NULL), *b = tuner_of(cache, NULL);
    put(a, "of a", "1", false);
    put(b, "of b", "2", false);
    tuner_free(a);
    tuner_free(b);
    a = tuner_of(cache, NULL);
    CHECK_TEXT(words_of(a, "of a"), "1");
    CHECK_TEXT(words_of(a, "of b"), "2");
    tuner_free(a);
    stop();
}

/* A record has what was used, and what a record had before, alone; it stands, whatever the file says by then, and on
 * any machine. */
TEST(record)
{
    start();
    char cache[300], record[300];
    snprintf(cache, sizeof cache, "%s", in_folder("run.txt"));
    snprintf(record, sizeof record, "%s", in_folder("record.txt"));
    tuner *t = tuner_of(cache, NULL);
    put(t, "conv 1", "first", false);
    put(t, "conv 2", "first", false)->used = false;
    CHECK_STATUS(choices_write_record(t, record), BRASA_OK);
    CHECK_INT(lines_in(record), 3); /* the head, what was used, and the end */
    put(t, "conv 1", "second", false);
    tuner_free(t);
    for (int i = 0; i < 2; i++) {
        t = tuner_of(cache, record);
        CHECK_TEXT(notes, "");
        CHECK_TEXT(words_of(t, "conv 1"), "first");
        CHECK_TEXT(words_of(t, "conv 2"), "first"); /* of the file */
        CHECK(choices_find(t, "gpu", "conv 1")->recorded && !choices_find(t, "gpu", "conv 2")->recorded);
        if (!i)
            put(t, "conv 3", "third", false);
        CHECK_STATUS(choices_write_record(t, record), BRASA_OK);
        CHECK_INT(lines_in(record), 4);
        tuner_free(t);
    }
    t = tuner_of(cache, NULL);
    CHECK_TEXT(words_of(t, "conv 1"), "second"); /* a record changes nothing for others */
    CHECK_TEXT(words_of(t, "conv 3"), "third");
    CHECK(choices_write_record(t, "/nowhere/record.txt") != BRASA_OK);
    tuner_free(t);
    stop();
}

/* What may be otherwise the next time holds for the session and its record. It takes nothing from the file, not even
 * what was about to be written there. */
TEST(unsettled)
{
    start();
    char cache[300], record[300];
    snprintf(cache, sizeof cache, "%s", in_folder("haste.txt"));
    snprintf(record, sizeof record, "%s", in_folder("noted.txt"));
    tuner *t = tuner_of(cache, NULL);
    put(t, "conv 1", "timed", false);
    put(t, "conv 1", "in haste", true);
    put(t, "conv 1", "in more haste", true);
    put(t, "conv 2", "in haste", true);
    put(t, "conv 3", "in haste", true);
    put(t, "conv 3", "timed", false);
    CHECK_TEXT(words_of(t, "conv 1"), "in more haste");
    CHECK_STATUS(choices_write_record(t, record), BRASA_OK);
    tuner_free(t);
    t = tuner_of(cache, NULL);
    CHECK_TEXT(words_of(t, "conv 1"), "timed");
    CHECK_TEXT(words_of(t, "conv 2"), "");
    CHECK_TEXT(words_of(t, "conv 3"), "timed");
    tuner_free(t);
    t = tuner_of(cache, record);
    CHECK_TEXT(words_of(t, "conv 1"), "in more haste");
    CHECK_TEXT(words_of(t, "conv 2"), "in haste");
    tuner_free(t);
    stop();
}

/* Any allocation may fail: that is told, and a file is whole or as it was. */
TEST(out_of_memory)
{
    const char *cache = in_folder("memory.txt");
    int refused = 0;
    for (int n = 1, last = 0; !last; n++) {
        start();
        const brasa_tuning wish = {.measure = true, .cache = cache, .record = cache};
        const choice made = {.machine = "gpu", .problem = "conv", .words = "0 38"};
        choice *c;
        tuner *t;
        CASE("call %d", n);
        write_text(cache, HEAD "gpu\tnode\t*a 1\tb 2\nend\n");
        memory.calls = 0;
        memory.fail_at = n;
        brasa_status status = tuner_new(ctx, "gpu", &wish, &t);
        if (status == BRASA_OK)
            status = tuner_put(t, &made, &c);
        if (status == BRASA_OK)
            status = tuner_rest(t);
        tuner_free(t);
        last = memory.calls < n;
        refused += status == BRASA_OUT_OF_MEMORY;
        CHECK(status == (last ? BRASA_OK : BRASA_OUT_OF_MEMORY));
        memory.fail_at = 0;
        t = tuner_of(cache, NULL);
        CHECK_TEXT(words_of(t, "node"), "a");
        CHECK(!last || strcmp(words_of(t, "conv"), "0 38") == 0);
        tuner_free(t);
        stop();
    }
    CHECK(refused > 4);
}

/* --- what a file may look like --------------------------------------------------------------------------------- */

/* Lines that are not just so. In each file the last one is good, and stands. */
TEST(bad_lines)
{
    static const char *const lines[] = {"",
                                        "\t",
                                        "\t\t\t",
                                        "m",
                                        "m\tn",
                                        "m\tn\t",
                                        "m\tn\t0 \001 38",
                                        "m\tn\t0 38\t",
                                        "m\tn\t*a 1",
                                        "m\tn\ta 1\tb 2",
                                        "m\tn\t*a 1\t*b 2",
                                        "m\tn\t*a\tb 2",
                                        "m\tn\t*a 1 \tb 2",
                                        "m\tn\t*a -1\tb 2",
                                        "m\tn\t*a 0\tb 2",
                                        "m\tn\t*a 1234567890123456789\tb 2",
                                        "m\tn\t*A 1\tb 2",
                                        "m\tn\t* 1\tb 2",
                                        "m\tn\t*a 1\t\tb 2",
                                        "m\t\t*a 1\tb 2",
                                        "\tn\t*a 1\tb 2",
                                        "m\001\tn\t*a 1\tb 2",
                                        "m\tn\xff\t*a 1\tb 2",
                                        "m\tn\t*a 1\tb 2\tc 3\td 4\te 5\tf 6\tg 7\th 8\ti 9",
                                        "m\tn\t*a 1\tb 2\r"};
    static const char good[] = "gpu\tnode\t*one_kernel 12\tother 34\n";
    enum { LINES = sizeof lines / sizeof lines[0] };
    const char *path = in_folder("bad.txt");
    start();
    for (size_t i = 0; i <= LINES; i++) /* at last, one that begins with a zero */
        for (int record = 0; record < 2; record++) {
            CASE("line %zu%s", i + 1, record ? " of a record" : "");
            char text[1000];
            const int length =
                snprintf(text, sizeof text, HEAD "%s\n%s%s", i < LINES ? lines[i] : "?", good, record ? "end\n" : "");
            char *zero = i < LINES ? NULL : strchr(text, '?');
            if (zero)
                *zero = '\0';
            write_file(path, text, (size_t)length);
            tuner *t = tuner_of(record ? NULL : path, record ? path : NULL);
            CHECK_HAS(notes, "1 line is not");
            REQUIRE(t->count == 1);
            CHECK_TEXT(t->choices[0]->tried[1].kernel, "other");
            CHECK_INT(t->choices[0]->tried[0].nanoseconds, 12);
            CHECK_INT(t->choices[0]->best, 0);
            tuner_free(t);
        }
    stop();
}

/* A record that is not as it was written: what there is of it holds, and it is told. */
TEST(damaged_record)
{
    start();
    const char *path = in_folder("damaged.txt");
    tuner *t = tuner_of(NULL, NULL);
    put(t, "conv 1", "first", false);
    put(t, "conv 2", "second", false);
    CHECK_STATUS(choices_write_record(t, path), BRASA_OK);
    tuner_free(t);
    size_t size = 0;
    char *text = read_file(path, &size);
    REQUIRE(text != NULL);
    for (size_t length = 0; length <= size; length++) { /* cut off anywhere */
        write_file(path, text, length);
        tuner_free(tuner_of(NULL, path));
        CHECK((strstr(notes, "damaged.txt is damaged (") != NULL) == (length < size));
    }
    for (size_t at = 0; at < size; at++) { /* a letter that is none */
        const char before = text[at];
        text[at] = '\1';
        write_file(path, text, size);
        tuner_free(tuner_of(NULL, path));
        CHECK_HAS(notes, "damaged.txt is damaged (");
        text[at] = before;
    }
    free(text);
    write_text(path, "hello\n");
    tuner_free(tuner_of(NULL, path));
    CHECK_HAS(notes, "damaged.txt is damaged (this is no file of kernels)");
    tuner_free(tuner_of(NULL, in_folder("nothing")));
    CHECK_TEXT(notes, "");
    stop();
}

/* Files of before: own kernels in kernels.txt, and a GPU's libraries in a file beside a run's, which has an end. */
TEST(older_files)
{
#define KERNELS "brasa kernels 1\ngpu\tnode\tone_kernel 34\t*other 12\n"
#define ENGINES "brasa engines 3\ngpu\tconv 1\t0 38 2=5 | 9 2 8 12300 4096\n"
    static const struct {
        const char *what, *record, *beside, *node, *conv, *note;
        bool by_a_gpu;
    } rows[] = {
        {"of the CPU", KERNELS, NULL, "other", "", "", false},
        {"of a GPU", NULL, ENGINES "end\n", "", "0 38 2=5 | 9 2 8 12300 4096", "", true},
        {"of both", KERNELS, ENGINES "end\n", "other", "0 38 2=5 | 9 2 8 12300 4096", "", true},
        {"cut off", KERNELS, ENGINES, "other", "0 38 2=5 | 9 2 8 12300 4096", "engines.txt is damaged (it was cut",
         true},
        {"of now, beside an old one", HEAD "end\n", ENGINES "end\n", "", "", "", false},
    };
    start();
    char record[300], beside[300];
    snprintf(record, sizeof record, "%s", in_folder("kernels.txt"));
    snprintf(beside, sizeof beside, "%s", in_folder("engines.txt"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        remove(record);
        remove(beside);
        if (rows[i].record)
            write_text(record, rows[i].record);
        if (rows[i].beside)
            write_text(beside, rows[i].beside);
        for (int turn = 0; turn < 2; turn++) { /* written anew, they say the same */
            tuner *t = tuner_of(NULL, record);
            CHECK_TEXT(words_of(t, "node"), rows[i].node);
            CHECK_TEXT(words_of(t, "conv 1"), rows[i].conv);
            CHECK((choices_find(t, "cuda", CHOSEN_HERE) != NULL) == rows[i].by_a_gpu);
            CHECK_HAS(notes, turn ? "" : rows[i].note);
            CHECK(*notes == '\0' || (!turn && *rows[i].note));
            CHECK_STATUS(choices_write_record(t, record), BRASA_OK);
            tuner_free(t);
        }
    }
    CASE("a cache");
    write_text(record, KERNELS);
    tuner *t = tuner_of(record, NULL);
    CHECK_TEXT(words_of(t, "node"), "other");
    put(t, "conv 1", "0 39", false);
    tuner_free(t);
    t = tuner_of(record, NULL);
    CHECK_TEXT(words_of(t, "node"), "other");
    CHECK_TEXT(words_of(t, "conv 1"), "0 39");
    CHECK_TEXT(notes, "");
    tuner_free(t);
    stop();
}

/* Any bytes whatever: no crash, no leak, and what is taken from them is as it should be. */
TEST(spoilt_files)
{
    static const char good[] =
        HEAD "gpu\tnode\t*one_kernel 12\tother 34\nthat\tnode\tone 12\t*two 34\ngpu\tconv\t0 38\n";
    const random_stream random = {.seed = 3, .purpose = RANDOM_TEST};
    const char *path = in_folder("spoilt.txt");
    uint64_t drawn = 0;
    start();
    for (int i = 0; i < 2000; i++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (int k = 0; k < 1 + i % 5; k++) {
            const size_t at = (size_t)random_uniform(&random, drawn++, 0, (double)sizeof good - 1);
            text[at] = (char)random_uniform(&random, drawn++, 0, 256);
        }
        write_file(path, text, sizeof good - 1 - (i % 7 == 0 ? (size_t)i % 50 : 0));
        tuner *t = tuner_of(NULL, path);
        for (int c = 0; c < t->count; c++)
            CHECK(t->choices[c]->words ? !t->choices[c]->count && *t->choices[c]->words
                                       : t->choices[c]->count >= 2 && t->choices[c]->best >= 0 &&
                                             t->choices[c]->best < t->choices[c]->count);
        tuner_free(t);
    }
    stop();
}

/* A file of many machines, larger than we would write it: not every pair of its lines is compared, and the oldest
 * give way. */
TEST(large_files)
{
    enum { LINES = LARGE_FILE, OTHERS = 50 };
    const char *path = in_folder("large.txt");
    char last[80];
    size_t bytes = 0;
    start();
    FILE *file = fopen(path, "w");
    REQUIRE(file);
    fputs(HEAD, file);
    for (int i = 0; i < LINES; i++)
        if (i % 2)
            fprintf(file, "machine %d\tnode %d\t*one 12\ttwo 34\n", i % OTHERS, i);
        else
            fprintf(file, "gpu\tnode %d\tone 34\t*two 12\n", i);
    fclose(file);
    const clock_t begin = clock();
    tuner *t = tuner_of(path, NULL);
    CHECK_TEXT(notes, "");
    CHECK_INT(t->count, LINES / 2);
    CHECK_TEXT(words_of(t, "node 998"), "two");
    put(t, "a new node", "1", false);
    tuner_free(t);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (seconds > LARGE_SECONDS)
        test_fail(__FILE__, __LINE__, "it took %.2f s of processor time", seconds);
    CHECK_INT(lines_in(path), 1 + CHOICES_KEPT);
    char *text = read_file(path, &bytes);
    REQUIRE(text);
    snprintf(last, sizeof last, "machine 49\tnode %d\t*one 12\ttwo 34\ngpu\ta new node\t1\n", LINES - 1);
    CHECK_HAS(text, last);
    snprintf(last, sizeof last, HEAD "machine %d\tnode %d\t", (LINES - CHOICES_KEPT + 1) % OTHERS,
             LINES - CHOICES_KEPT + 1);
    CHECK(strncmp(text, last, strlen(last)) == 0);
    free(text);
    stop();
}
