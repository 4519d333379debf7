/* test_tune_file.c - choices of kernels that are kept: what a file has, who reads it, and what it may look like. */
#define _GNU_SOURCE
#include "test.h"
#include "tune_rig.h"

#include "core/random.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef POOL_SEPARATE /* the sanitized build, which is slow: see pool.c */
enum { LARGE_FILE = 20000, LARGE_SECONDS = 10 };
#else
enum { LARGE_FILE = 100000, LARGE_SECONDS = 1 };
#endif

/* Moves every * of a file of choices to the other kernel, where there are two. */
static void turn_choices(const char *path)
{
    size_t bytes = 0, used = 0;
    char *old = read_file(path, &bytes), *new = malloc(2 * bytes + 2);
    REQUIRE(old && new);
    for (char *line = old, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        char *star = strchr(line, '*'), *first = strchr(line, '\t');
        first = first ? strchr(first + 1, '\t') : NULL;
        if (star && first && star == first + 1) { /* the first one had it: the last one gets it */
            char *last = strrchr(line, '\t');
            used += (size_t)sprintf(new + used, "%.*s%.*s\t*%s\n", (int)(star - line), line, (int)(last - star - 1),
                                    star + 1, last + 1);
        } else if (star && first) {
            used += (size_t)sprintf(new + used, "%.*s\t*%.*s%s\n", (int)(first - line), line, (int)(star - first - 1),
                                    first + 1, star + 1);
        } else {
            used += (size_t)sprintf(new + used, "%s\n", line);
        }
    }
    write_file(path, new, used);
    free(old);
    free(new);
}

TEST(times_are_kept)
{
    if (!has_choice())
        SKIP(no_choice);
    const char *cache = in_folder("kept.txt");
    const brasa_tuning tuning = {.size = sizeof tuning, .measure = true, .cache = cache};
    const brasa_session_options plain = {.size = sizeof plain};
    char first[100];
    fixture f = {0};
    CHECK_STATUS(open_session(&f, tuning, plain), BRASA_OK);
    CHECK(f.timed >= 3); /* forward, data, weights */
    snprintf(first, sizeof first, "%s", kernel_of(&f, "b"));
    close_all(&f);

    CHECK_STATUS(open_session(&f, tuning, plain), BRASA_OK);
    CHECK_INT(f.timed, 0);
    CHECK_TEXT(kernel_of(&f, "b"), first);
    CHECK_TEXT(kernel_of(&f, "c"), first);
    close_all(&f);

    turn_choices(cache);
    CHECK_STATUS(open_session(&f, SIZED(brasa_tuning, .cache = cache), plain), BRASA_OK);
    CHECK(strcmp(kernel_of(&f, "b"), first) != 0);
    const node *n = find_node(&f.s->current->graph, "b");
    CHECK(n && n->choice && strcmp(n->choice->tried[n->choice->best].kernel, n->kernel->name) == 0);
    float image[BATCH * 3 * SIDE * SIDE] = {0}, loss = NAN;
    CHECK_STATUS(brasa_train_step(f.s, image, (int32_t[BATCH]){0, 1}, &loss), BRASA_OK);
    CHECK(isfinite(loss));
    close_all(&f);
    CHECK_STATUS(open_session(&f, tuning, SIZED(brasa_session_options, .kernels = first)), BRASA_OK);
    CHECK_TEXT(kernel_of(&f, "b"), first); /* who names kernels gets these */
    close_all(&f);
}

/* Replaces every `from` in a file. */
static void edit_file(const char *path, const char *from, const char *to)
{
    size_t bytes = 0, used = 0;
    char *old = read_file(path, &bytes), *new = old ? malloc((bytes + 1) * (1 + strlen(to))) : NULL;
    REQUIRE(new);
    for (const char *at = old; *at;) {
        const bool found = strncmp(at, from, strlen(from)) == 0;
        used += (size_t)sprintf(new + used, "%.*s", found ? (int)strlen(to) : 1, found ? to : at);
        at += found ? strlen(from) : 1;
    }
    write_file(path, new, used);
    free(old);
    free(new);
}

/* Another machine, version or number of threads has times of its own, and the file keeps both. */
TEST(machines_differ)
{
    if (!has_choice())
        SKIP(no_choice);
    const char *cache = in_folder("machines.txt");
    const brasa_tuning tuning = {.size = sizeof tuning, .measure = true, .cache = cache};
    fixture f = {0};
    CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){.size = sizeof(brasa_session_options)}), BRASA_OK);
    const int timed = f.timed;
    close_all(&f);
    edit_file(cache, "1 thread\t", "7 thread\t");
    CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){.size = sizeof(brasa_session_options)}), BRASA_OK);
    CHECK_INT(f.timed, timed);
    close_all(&f);
    size_t bytes = 0;
    char *text = read_file(cache, &bytes);
    REQUIRE(text);
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    CHECK_INT(lines, 1 + 2 * timed);
    CHECK_HAS(text, "7 thread\t");
    CHECK_HAS(text, "1 thread\t");
    free(text);
}

/* What a run recorded stands, whatever the cache says, and on any machine; also where it was recorded when the
 * settings of initial weights told nodes apart. */
TEST(record_stands)
{
    if (!has_choice())
        SKIP(no_choice);
    char cache[300], record[300];
    snprintf(cache, sizeof cache, "%s", in_folder("cache.txt"));
    snprintf(record, sizeof record, "%s", in_folder("record.txt"));
    char first[100];
    fixture f = {0};
    CHECK_STATUS(open_session(&f, SIZED(brasa_tuning, .measure = true, .cache = cache),
                              (brasa_session_options){.size = sizeof(brasa_session_options)}),
                 BRASA_OK);
    snprintf(first, sizeof first, "%s", kernel_of(&f, "b"));
    const int timed = f.timed;
    CHECK_STATUS(brasa_session_save_tuning(f.s, record), BRASA_OK);
    close_all(&f);
    turn_choices(cache);
    size_t bytes = 0;
    edit_file(record, "1 thread\t", "7 thread\t");
    for (int i = 0; i < 4; i++) {
        const bool with_cache = i % 2;
        CASE("%s%s", i < 2 ? "a record" : "an old record", with_cache ? ", and a cache that says otherwise" : "");
        if (i == 2)
            edit_file(record, "\"bias\":true\t", "\"bias\":true,\"init\":\"dialect\",\"init_value\":0\t");
        const brasa_tuning tuning = {
            .size = sizeof tuning, .measure = true, .cache = with_cache ? cache : NULL, .record = record};
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){.size = sizeof(brasa_session_options)}),
                     BRASA_OK);
        CHECK_INT(f.timed, 0);
        CHECK_TEXT(kernel_of(&f, "b"), first);
        CHECK_TEXT(kernel_of(&f, "c"), first);
        char *before = read_file(record, &bytes), *after;
        CHECK_STATUS(brasa_session_save_tuning(f.s, record), BRASA_OK);
        REQUIRE(before && (after = read_file(record, &bytes)));
        CHECK_TEXT(after, before);
        free(before);
        free(after);
        close_all(&f);
    }
    CHECK(timed > 0);
}

/* A record of another build: its choice is not to be had, so that the fastest of those that are counts. */
TEST(recorded_kernel_is_gone)
{
    if (!has_choice())
        SKIP(no_choice);
    char record[300], first[100], slower[110];
    snprintf(record, sizeof record, "%s", in_folder("gone.txt"));
    fixture f = {0};
    CHECK_STATUS(open_session(&f, SIZED(brasa_tuning, .measure = true),
                              (brasa_session_options){.size = sizeof(brasa_session_options)}),
                 BRASA_OK);
    snprintf(first, sizeof first, "%s ", kernel_of(&f, "b"));
    snprintf(slower, sizeof slower, "%s9", first);
    CHECK_STATUS(brasa_session_save_tuning(f.s, record), BRASA_OK);
    close_all(&f);
    edit_file(record, first, slower); /* a digit more */
    edit_file(record, "*", "*gone 1\t");
    CHECK_STATUS(open_session(&f, SIZED(brasa_tuning, .record = record),
                              (brasa_session_options){.size = sizeof(brasa_session_options)}),
                 BRASA_OK);
    first[strlen(first) - 1] = '\0';
    CHECK(strcmp(kernel_of(&f, "b"), first) != 0);
    const node *n = find_node(&f.s->current->graph, "b");
    CHECK(n && n->choice);
    close_all(&f);
}

TEST(nowhere_to_keep)
{
    static const char *const paths[] = {"/proc/none/kernels.txt", "/dev/null/kernels.txt", "/dev/full", "/"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        CASE("%s", paths[i]);
        fixture f = {0};
        const brasa_tuning tuning = {.size = sizeof tuning, .measure = true, .cache = paths[i]};
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){.size = sizeof(brasa_session_options)}),
                     BRASA_OK);
        CHECK(f.s);
        if (f.timed)
            CHECK_HAS(f.notes, "times of kernels are not kept");
        close_all(&f);
    }
}

/* Lines that are not just so. In each file the last one is good, and stands. */
TEST(bad_lines)
{
    static const char *const lines[] = {"",
                                        "\t",
                                        "\t\t\t",
                                        "m",
                                        "m\tn",
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
                                        "m\001\tn\t*a 1\tb 2",
                                        "m\tn\xff\t*a 1\tb 2",
                                        "m\tn\t*a 1\tb 2\tc 3\td 4\te 5\tf 6\tg 7\th 8\ti 9",
                                        "m\tn\t*a 1\tb 2\r"};
    static const char good[] = "this\tnode\t*one_kernel 12\tother 34\n";
    enum { LINES = sizeof lines / sizeof lines[0] };
    const char *path = in_folder("bad.txt");
    fixture f = {0};
    open_graph(&f);
    for (size_t i = 0; i <= LINES; i++) { /* at last, one that begins with a zero */
        CASE("line %zu", i + 1);
        char text[1000];
        const char *note = NULL;
        const int length = snprintf(text, sizeof text, "brasa kernels 1\n%s\n%s", i < LINES ? lines[i] : "?", good);
        char *zero = i < LINES ? NULL : strchr(text, '?');
        if (zero)
            *zero = '\0';
        write_file(path, text, (size_t)length);
        tuner *t = new_tuner(&f);
        CHECK_STATUS(tune_read(t, path, true, &note), BRASA_OK);
        CHECK_HAS(note ? note : "", "1 line is not");
        REQUIRE(t->count == 1);
        CHECK_TEXT(t->choices[0]->tried[1].kernel, "other");
        CHECK_INT(t->choices[0]->tried[0].nanoseconds, 12);
        CHECK_INT(t->choices[0]->best, 0);
        tuner_free(t);
    }
    close_all(&f);
}

/* A file of something else, or of a later version: it is told, passed over, and stays. */
TEST(foreign_files)
{
    if (!has_choice())
        SKIP(no_choice);
    static const char *const texts[] = {"{\"settings\":{}}\n", "brasa kernels 2\n", "brasa kernels 10", "\n\n\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CASE("file %zu", i + 1);
        const char *path = in_folder("foreign.txt");
        const brasa_tuning tuning = {.size = sizeof tuning, .measure = true, .cache = path};
        size_t bytes = 0;
        fixture f = {0};
        write_file(path, texts[i], strlen(texts[i]));
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){.size = sizeof(brasa_session_options)}),
                     BRASA_OK);
        CHECK_HAS(f.notes, "passed over");
        CHECK_HAS(f.notes, "times of kernels are not kept");
        CHECK(!tune_writable(f.ctx, path));
        close_all(&f);
        char *text = read_file(path, &bytes);
        CHECK_TEXT(text, texts[i]);
        free(text);
    }
}

/* What is ours is replaced, where a link leads to. */
TEST(links_stay)
{
    if (!has_choice())
        SKIP(no_choice);
    char path[300], target[300];
    struct stat st;
    snprintf(path, sizeof path, "%s", in_folder("link.txt"));
    snprintf(target, sizeof target, "%s", in_folder("target.txt"));
    write_file(target, "", 0);
    CHECK_INT(symlink("target.txt", path), 0);
    fixture f = {0};
    CHECK_STATUS(open_session(&f, SIZED(brasa_tuning, .measure = true, .cache = path),
                              (brasa_session_options){.size = sizeof(brasa_session_options)}),
                 BRASA_OK);
    CHECK_TEXT(f.notes, "");
    CHECK(lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
    CHECK_INT(kept_in(&f, target), f.timed);
    close_all(&f);
}

/* Ours, but cut off: it is told, passed over, and replaced. */
TEST(cut_files)
{
    if (!has_choice())
        SKIP(no_choice);
    static const char *const texts[] = {"brasa kernels 1", "brasa ker", "brasa kernels 1\nthis\tnode\t*a 1\tb"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CASE("file %zu", i + 1);
        const char *path = in_folder("foreign.txt");
        const brasa_tuning tuning = {.size = sizeof tuning, .measure = true, .cache = path};
        write_file(path, texts[i], strlen(texts[i]));
        fixture f = {0};
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){.size = sizeof(brasa_session_options)}),
                     BRASA_OK);
        CHECK_HAS(f.notes, "passed over");
        CHECK(f.timed > 0);
        close_all(&f);
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){.size = sizeof(brasa_session_options)}),
                     BRASA_OK);
        CHECK_TEXT(f.notes, "");
        CHECK_INT(f.timed, 0);
        close_all(&f);
    }
}

/* Any bytes whatever: no crash, no leak, and what is taken from them is as it should be. */
TEST(spoilt_files)
{
    static const char good[] = "brasa kernels 1\nthis\tnode\t*one_kernel 12\tother 34\nthat\tnode\tone 12\t*two 34\n";
    const random_stream random = {.seed = 3, .purpose = RANDOM_TEST};
    const char *path = in_folder("spoilt.txt");
    fixture f = {0};
    uint64_t drawn = 0;
    open_graph(&f);
    for (int i = 0; i < 2000; i++) {
        char text[sizeof good];
        const char *note = NULL;
        memcpy(text, good, sizeof good);
        for (int k = 0; k < 1 + i % 5; k++) {
            const size_t at = (size_t)random_uniform(&random, drawn++, 0, (double)sizeof good - 1);
            text[at] = (char)random_uniform(&random, drawn++, 0, 256);
        }
        write_file(path, text, sizeof good - 1 - (i % 7 == 0 ? (size_t)i % 50 : 0));
        tuner *t = new_tuner(&f);
        CHECK_STATUS(tune_read(t, path, true, &note), BRASA_OK);
        for (int c = 0; c < t->count; c++)
            CHECK(t->choices[c]->count >= 2 && t->choices[c]->best >= 0 &&
                  t->choices[c]->best < t->choices[c]->count);
        tuner_free(t);
    }
    close_all(&f);
}

/* The oldest give way. */
TEST(files_are_bounded)
{
    fixture f = {0};
    const char *path = in_folder("bounded.txt");
    open_graph(&f);
    tuner *t = new_tuner(&f);
    for (int i = 0; i < TUNE_MOST_CHOICES + 10; i++) {
        char key[40];
        snprintf(key, sizeof key, "node %d", i);
        choice *c = tuner_add(t, t->machine, key);
        REQUIRE(c);
        *c = (choice){.machine = c->machine, .node = c->node, .hash = c->hash, .count = 2, .fresh = true};
        c->tried[0] = (tried){"a", 1};
        c->tried[1] = (tried){"b", 2};
    }
    CHECK_STATUS(tune_write(t, path), BRASA_OK);
    tuner_free(t);
    t = new_tuner(&f);
    const char *note = NULL;
    CHECK_STATUS(tune_read(t, path, false, &note), BRASA_OK);
    CHECK(!note);
    CHECK_INT(t->count, TUNE_MOST_CHOICES);
    CHECK_TEXT(t->choices[0]->node, "node 10");
    tuner_free(t);
    close_all(&f);
}

/* A file of many machines, larger than we would write it: not every pair of its lines is compared. */
TEST(large_files)
{
    enum { LINES = LARGE_FILE, OTHERS = 50 };
    const char *path = in_folder("large.txt"), *note = NULL;
    char last[80];
    fixture f = {0};
    size_t bytes = 0;
    open_graph(&f);
    tuner *t = new_tuner(&f);
    FILE *file = fopen(path, "w");
    REQUIRE(file);
    fputs("brasa kernels 1\n", file);
    for (int i = 0; i < LINES; i++)
        if (i % 2)
            fprintf(file, "machine %d\tnode %d\t*one 12\ttwo 34\n", i % OTHERS, i);
        else
            fprintf(file, "%s\tnode %d\tone 34\t*two 12\n", t->machine, i);
    fclose(file);
    const clock_t start = clock();
    CHECK_STATUS(tune_read(t, path, false, &note), BRASA_OK);
    CHECK(!note);
    CHECK_INT(t->count, LINES / 2);
    choice *c = tuner_add(t, t->machine, "node 998");
    CHECK(c && c->count == 2 && c->best == 1);
    c = tuner_add(t, t->machine, "a new node");
    REQUIRE(c && !c->count);
    c->count = 2;
    c->fresh = true;
    c->tried[0] = (tried){"one", 1};
    c->tried[1] = (tried){"two", 2};
    CHECK_STATUS(tune_write(t, path), BRASA_OK);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > LARGE_SECONDS)
        test_fail(__FILE__, __LINE__, "it took %.2f s of processor time", seconds);
    char *text = read_file(path, &bytes);
    REQUIRE(text);
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    CHECK_INT(lines, 1 + TUNE_MOST_CHOICES);
    snprintf(last, sizeof last, "machine 49\tnode %d\t*one 12\ttwo 34\n", LINES - 1);
    CHECK_HAS(text, last);
    CHECK_HAS(text, "\ta new node\t*one 1\ttwo 2\n");
    free(text);
    tuner_free(t);
    close_all(&f);
}
