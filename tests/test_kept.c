/* test_kept.c - choices of a GPU's libraries on disk and in a run's record: no GPU is needed for it. */
#define _GNU_SOURCE
#include "test.h"

#include "device/cuda/kept.c"

#include <stdlib.h>

static char folder[] = "/tmp/brasa-kept-XXXXXX";
static brasa_context *ctx;

static const char *in_folder(const char *name)
{
    static char paths[4][200];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Choices are kept in a folder of the test's own. */
static void set_up(const char *name)
{
    if (!ctx) {
        REQUIRE(mkdtemp(folder) != NULL);
        CHECK_STATUS(brasa_context_new(NULL, &ctx), BRASA_OK);
    }
    setenv("BRASA_CACHE", in_folder(name), 1);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (CHECK(file != NULL)) {
        fputs(text, file);
        fclose(file);
    }
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int lines = 0;
    for (int c; file && (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

static void put_text(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "w");
    if (CHECK(file && fwrite(text, 1, size, file) == size))
        fclose(file);
}

static const char *value_of(kept *k, const char *machine, const char *problem)
{
    const kept_line *l = kept_find(k, machine, problem, false);
    return l ? l->value : "";
}

TEST(kept_for_another_process)
{
    kept k;
    set_up("a/b");
    kept_open(&k, ctx);
    CHECK(!kept_find(&k, "gpu", "conv 1", false));
    CHECK(kept_put(&k, "gpu", "conv 1", "0 38 2=5") != NULL);
    CHECK(kept_put(&k, "gpu", "conv 2", "1 40") != NULL);
    CHECK(kept_put(&k, "gpu", "conv 1", "0 39") != NULL);
    kept_close(&k);
    CHECK(!kept_find(&k, "another gpu", "conv 1", false));
    CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "0 39");
    CHECK_TEXT(value_of(&k, "gpu", "conv 2"), "1 40");
    CHECK(!kept_find(&k, "gpu", "conv 2", false)->used);
    kept_close(&k);
    setenv("BRASA_CACHE", "off", 1);
    CHECK(!kept_find(&k, "gpu", "conv 1", false));
    CHECK(kept_put(&k, "gpu", "conv 1", "0 39") != NULL);
    kept_close(&k);
}

TEST(written_by_two)
{
    kept a, b;
    set_up("two");
    kept_open(&a, ctx);
    kept_open(&b, ctx);
    CHECK(!kept_find(&a, "gpu", "x", false) && !kept_find(&b, "gpu", "x", false));
    kept_put(&a, "gpu", "of a", "1");
    kept_put(&b, "gpu", "of b", "2");
    kept_save(&a);
    kept_save(&b);
    kept_close(&a);
    CHECK_TEXT(value_of(&a, "gpu", "of a"), "1");
    CHECK_TEXT(value_of(&a, "gpu", "of b"), "2");
    kept_close(&a);
    kept_close(&b);
}

TEST(broken_files)
{
    static const struct {
        const char *what, *text, *known;
    } rows[] = {
        {"empty", "", ""},
        {"another's", "some text\ngpu\tconv 1\t0 38\n", ""},
        {"of another version", "brasa engines 1\ngpu\tconv 1\t0 38\n", ""},
        {"cut off", HEAD "\ngpu\tconv 1\t0 38\ngpu\tconv 1\t0 99", "0 38"},
        {"a line without parts", HEAD "\ngpu\ngpu\tconv 1\n\n\t\t\ngpu\tconv 1\t0 38\n", "0 38"},
        {"an empty value", HEAD "\ngpu\tconv 1\t\n", ""},
        {"strange letters", HEAD "\ngpu\tconv 1\t0 \x01 38\n", ""},
        {"said twice", HEAD "\ngpu\tconv 1\t0 38\ngpu\tconv 1\t0 40\n", "0 40"},
    };
    set_up("broken");
    mkdir(in_folder("broken"), 0700);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kept k;
        CASE("%s", rows[i].what);
        write_text(in_folder("broken/cuda-engines"), rows[i].text);
        kept_open(&k, ctx);
        CHECK_TEXT(value_of(&k, "gpu", "conv 1"), rows[i].known);
        kept_put(&k, "gpu", "conv 3", "7");
        kept_close(&k);
        CHECK_TEXT(value_of(&k, "gpu", "conv 3"), "7"); /* it is as it should be now */
        CHECK_TEXT(value_of(&k, "gpu", "conv 1"), rows[i].known);
        kept_close(&k);
    }
    CASE("no file at all");
    unlink(in_folder("broken/cuda-engines"));
    mkdir(in_folder("broken/cuda-engines"), 0700);
    kept k;
    kept_open(&k, ctx);
    kept_put(&k, "gpu", "conv 3", "7");
    kept_close(&k);
    CHECK(!kept_find(&k, "gpu", "conv 3", false));
    kept_close(&k);
}

TEST(bounded)
{
    kept k;
    char problem[50], large[KEPT_VALUE_SIZE + 1];
    set_up("many");
    kept_open(&k, ctx);
    for (int i = 0; i < KEPT_MOST_LINES + 100; i++) {
        snprintf(problem, sizeof problem, "conv %d", i);
        CHECK(kept_put(&k, "gpu", problem, "0 38") != NULL);
    }
    kept_close(&k);
    CHECK_INT(count_lines(in_folder("many/cuda-engines")), KEPT_MOST_LINES + 1);
    CHECK(!kept_find(&k, "gpu", "conv 99", false)); /* the oldest gave way */
    CHECK(kept_find(&k, "gpu", "conv 100", false) != NULL);
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    CHECK(!kept_put(&k, "gpu", "conv 1", large));
    kept_close(&k);
}

TEST(record)
{
    kept k;
    set_up("run");
    kept_open(&k, ctx);
    kept_put(&k, "gpu", "conv 1", "first");
    kept_put(&k, "gpu", "conv 2", "first");
    kept_close(&k);
    kept_find(&k, "gpu", "conv 1", false)->used = true;
    const char *path = in_folder("record.txt");
    CHECK_STATUS(kept_record(&k, path), BRASA_OK);
    CHECK_INT(count_lines(path), 3); /* the head, what was used, alone, and the end */
    kept_put(&k, "gpu", "conv 1", "second");
    kept_close(&k);
    CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "second");
    CHECK_STATUS(kept_recall(&k, path), BRASA_OK);
    CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "first"); /* the run goes on as it began */
    CHECK(kept_find(&k, "gpu", "conv 1", true) != NULL);
    CHECK(!kept_find(&k, "gpu", "conv 2", true)); /* which the run was made without */
    CHECK(kept_find(&k, "gpu", "conv 2", false) != NULL);
    kept_put(&k, "gpu", "conv 3", "third");
    CHECK_STATUS(kept_recall(&k, path), BRASA_OK); /* for another session of the run: it stays what was used */
    const char *again = in_folder("again.txt");
    CHECK_STATUS(kept_record(&k, again), BRASA_OK);
    CHECK_INT(count_lines(again), 4);
    kept_close(&k);
    CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "second"); /* a record changes nothing for others */
    CHECK_TEXT(value_of(&k, "gpu", "conv 3"), "third");
    kept_close(&k);
    CHECK_STATUS(kept_recall(&k, again), BRASA_OK); /* before anything was looked up */
    CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "first");
    kept_close(&k);
    CHECK(kept_record(&k, "/nowhere/record.txt") != BRASA_OK);
}

/* For a session that was given up, and for what may be otherwise the next time. */
TEST(used_by_a_run_alone)
{
    kept k;
    set_up("alone");
    kept_open(&k, ctx);
    kept_put(&k, "gpu", "conv 1", "first");
    kept_disuse(&k);
    kept_note(&k, "gpu", "dense 1", "none");
    const char *path = in_folder("alone.txt");
    CHECK_STATUS(kept_record(&k, path), BRASA_OK);
    CHECK_INT(count_lines(path), 3); /* the head, what was used since, and the end */
    kept_close(&k);
    CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "first");
    CHECK(!kept_find(&k, "gpu", "dense 1", false));
    CHECK_STATUS(kept_recall(&k, path), BRASA_OK);
    CHECK(kept_find(&k, "gpu", "dense 1", true) && !kept_find(&k, "gpu", "conv 1", true));
    kept_close(&k);
}

/* What is noted takes nothing from the file, not even what was about to be written there; and holds no longer than
 * its run does. */
TEST(noted)
{
    static const char *const ends[] = {"another record", "it is given up", "it is chosen again"};
    for (size_t i = 0; i < 3; i++) {
        kept k;
        CASE("%s", ends[i]);
        set_up("noted");
        unlink(in_folder("noted/cuda-engines"));
        kept_open(&k, ctx);
        kept_put(&k, "gpu", "conv 1", "timed");
        kept_note(&k, "gpu", "conv 1", "in haste");
        kept_note(&k, "gpu", "conv 1", "in more haste");
        kept_note(&k, "gpu", "conv 2", "in haste");
        CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "in more haste");
        const char *path = in_folder("noted.txt");
        CHECK_STATUS(kept_record(&k, path), BRASA_OK);
        CHECK_INT(count_lines(path), 4);
        CHECK_STATUS(kept_recall(&k, path), BRASA_OK);
        CHECK(kept_find(&k, "gpu", "conv 2", true) != NULL);
        kept_note(&k, "gpu", "conv 3", "in haste");
        if (i == 0) {
            CHECK_STATUS(kept_recall(&k, in_folder("nothing")), BRASA_OK);
            CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "timed");
            CHECK(!kept_find(&k, "gpu", "conv 2", false) && !kept_find(&k, "gpu", "conv 3", false));
        } else if (i == 1) {
            kept_disuse(&k);
            CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "in more haste"); /* which was recalled */
            CHECK(!kept_find(&k, "gpu", "conv 3", false));
        } else {
            kept_put(&k, "gpu", "conv 3", "timed");
            kept_disuse(&k);
            CHECK_TEXT(value_of(&k, "gpu", "conv 3"), "timed");
        }
        kept_close(&k);
        CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "timed");
        CHECK(!kept_find(&k, "gpu", "conv 2", false));
        CHECK_TEXT(value_of(&k, "gpu", "conv 3"), i == 2 ? "timed" : "");
        kept_close(&k);
    }
}

/* One run after the other in a process: the second has nothing of the first one's record. */
TEST(another_record)
{
    kept k;
    set_up("runs");
    const char *one = in_folder("one.txt"), *two = in_folder("two.txt");
    write_text(one, HEAD "\ngpu\tconv 1\tof one\ngpu\tconv 2\tof one\n");
    write_text(two, HEAD "\ngpu\tconv 3\tof two\n");
    kept_open(&k, ctx);
    kept_put(&k, "gpu", "conv 1", "timed");
    kept_close(&k);
    CHECK_STATUS(kept_recall(&k, one), BRASA_OK);
    CHECK_STATUS(kept_recall(&k, one), BRASA_OK); /* twice: it does not come before itself */
    kept_line *used = kept_find(&k, "gpu", "conv 2", true);
    REQUIRE(used != NULL);
    used->used = true;
    CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "of one");
    CHECK_STATUS(kept_recall(&k, two), BRASA_OK);
    CHECK(!kept_find(&k, "gpu", "conv 1", true) && !kept_find(&k, "gpu", "conv 2", true));
    CHECK(kept_find(&k, "gpu", "conv 3", true) != NULL);
    CHECK_TEXT(value_of(&k, "gpu", "conv 1"), "timed"); /* as before the first record */
    CHECK(!kept_find(&k, "gpu", "conv 2", false));
    CHECK_TEXT(used->value, "of one"); /* for a plan that has it */
    const char *record = in_folder("third.txt");
    CHECK_STATUS(kept_record(&k, record), BRASA_OK);
    CHECK_INT(count_lines(record), 3); /* its own line alone */
    CHECK_STATUS(kept_recall(&k, in_folder("nothing")), BRASA_OK);
    CHECK(!kept_find(&k, "gpu", "conv 3", false));
    kept_put(&k, "gpu", "conv 2", "timed, too");
    CHECK_TEXT(value_of(&k, "gpu", "conv 2"), "timed, too");
    kept_close(&k);
}

/* A record that is not as it was written: what there is of it holds, and it is told once. */
TEST(damaged_record)
{
    set_up("damaged");
    kept k;
    kept_open(&k, ctx);
    kept_put(&k, "gpu", "conv 1", "first");
    kept_put(&k, "gpu", "conv 2", "second");
    const char *path = in_folder("damaged.txt");
    CHECK_STATUS(kept_record(&k, path), BRASA_OK);
    kept_close(&k);
    char text[200];
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL);
    const size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    for (size_t length = 0; length <= size; length++) { /* cut off anywhere */
        put_text(path, text, length);
        CHECK_STATUS(kept_recall(&k, path), BRASA_OK);
        CHECK(k.damaged == (length < size));
        CHECK_STATUS(kept_recall(&k, path), BRASA_OK);
        CHECK(!k.damaged);
        kept_close(&k);
    }
    for (size_t at = 0; at < size; at++) { /* a letter that is none */
        const char before = text[at];
        text[at] = '\1';
        put_text(path, text, size);
        CHECK_STATUS(kept_recall(&k, path), BRASA_OK);
        CHECK(k.damaged);
        kept_close(&k);
        text[at] = before;
    }
    put_text(path, "hello\n", 6);
    CHECK_STATUS(kept_recall(&k, path), BRASA_OK);
    CHECK(k.damaged);
    CHECK_STATUS(kept_recall(&k, in_folder("nothing")), BRASA_OK);
    CHECK(!k.damaged);
    kept_close(&k);
}

TEST(cleared_up)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK_INT(system(command), 0);
    brasa_context_free(ctx);
}
