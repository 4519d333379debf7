/* test_tune_file.c - choices of kernels that are kept: what a file has, who reads it, and what it may look like. */
#define _GNU_SOURCE
#include "test.h"
#include "tune_rig.h"

#include <sys/stat.h>
#include <unistd.h>

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
        CHECK(!choices_writable(f.ctx, path));
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
