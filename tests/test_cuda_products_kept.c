/* test_cuda_products_kept.c - what is kept of the choices among cuBLASLt's algorithms, and what is made of what was
 * kept; with the stand-ins of products_rig.h. The file itself is test_choices.c's. */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_CUDA_HOST

#include "products_rig.h"

enum { FAST = 1, OTHER = 2 }; /* of the three */

/* A choice in the words in which it is kept. */
static const char *words_of(int index, size_t workspace_bytes)
{
    static char words[CHOICE_WORDS_SIZE];
    const finding f = {.found = true,
                       .algorithm = lt_number(index),
                       .workspace = workspace_bytes,
                       .nanoseconds = 7000,
                       .listed = 5,
                       .timed = 4};
    cublaslt_print(&f, words);
    return words;
}

/* The algorithm in them. */
static const char *words_start(int index)
{
    static char words[17];
    snprintf(words, sizeof words, "%.16s", words_of(index, 0));
    return words;
}

/* A file that says what was chosen for the usual product. */
static const char *say(const char *name, cublaslt_extra extra, const char *words)
{
    char text[2 * CHOICE_WORDS_SIZE], problem[LT_PROBLEM_SIZE];
    const cublaslt_product p = with(extra);
    const char *path = in_folder(name);
    cublaslt_name(&p, problem);
    snprintf(text, sizeof text, "brasa choices 1\n%s\t%s\t%s\n", LT_MACHINE, problem, words);
    write_file(path, text, strlen(text));
    return path;
}

/* Whether a file has the words. */
static bool says(const char *name, const char *words)
{
    size_t bytes;
    char *text = read_file(in_folder(name), &bytes);
    const bool found = text && strstr(text, words);
    free(text);
    return found;
}

/* With what an earlier process has kept for the usual product. */
static void begin_with(const char *words)
{
    set_up(three, 3);
    say(choices, LT_NOTHING, words);
    CHECK_STATUS(rig_open(), BRASA_OK);
}

/* --- kept and recalled ------------------------------------------------------------------------------------------ */

static void write_record(void)
{
    CHECK_STATUS(choices_write_record(rig.tuner, in_folder("record")), BRASA_OK);
}

/* In a run that goes on, with its record alone. */
static void go_on(void)
{
    CHECK_STATUS(rig_tune(in_folder("record")), BRASA_OK);
}

/* What won is taken again without being timed, or asked for: in this process, in the next one, and by a run's record.
 */
TEST(kept)
{
    static const char *const places[] = {"in this process", "in the next one", "by a run's record"};
    begin(three, 3);
    rig.algorithm[0].fails = CUBLAS_STATUS_EXECUTION_FAILED;
    rig.algorithm[FAST].workspace = 300;
    const answer first = ask(LT_NOTHING);
    CHECK(first.taken == FAST && first.tries > 0 && first.asked == 1 && first.told);
    rig.algorithm[0] = (lt_algorithm){.cold = 0.5f}; /* is the fastest by now */
    for (int i = 0; i < 3; i++) {
        CASE("%s", places[i]);
        if (i == 1)
            next_process();
        if (i == 2) {
            CHECK(ask(LT_NOTHING).told);
            write_record();
            remove(in_folder(choices));
            next_process();
            go_on();
        }
        const answer a = ask(LT_NOTHING);
        CHECK(a.taken == FAST && a.tries == 0 && a.asked == 0);
        CHECK_INT(a.nanoseconds, first.nanoseconds);
        CHECK_INT(a.workspace, 300 + LT_WORKSPACE_ALIGN);
        CHECK(a.told && a.choice.way[0].engines == 3 && a.choice.way[0].timed == 2);
        CHECK_INT(a.choice.way[0].workspace, 300);
    }
    tear_down();
}

/* Lines that are not as they should be are as none: what they are for is timed, and kept anew. */
TEST(lines_of_nonsense)
{
    static const struct {
        const char *what, *digits, *numbers;
    } rows[] = {
        {"words", "", "nothing of the kind"},
        {"more than none", "", "none at all"},
        {"digits alone", "all", ""},
        {"three numbers", "all", " 3 3 1000"},
        {"five numbers", "all", " 3 3 1000 0 7"},
        {"a word behind", "all", " 3 3 1000 0x"},
        {"less than no time", "all", " 3 3 -1000 0"},
        {"too much workspace", "all", " 3 3 1000 33554433"},
        {"less than no workspace", "all", " 3 3 1000 -1"},
        {"too few digits", "some", " 3 3 1000 0"},
        {"large letters", "large", " 3 3 1000 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char words[CHOICE_WORDS_SIZE] = "";
        CASE("%s", rows[i].what);
        for (size_t k = 0; k < sizeof(cublasLtMatmulAlgo_t) && *rows[i].digits; k++) {
            const cublasLtMatmulAlgo_t other = lt_number(OTHER);
            snprintf(words + 2 * k, 3, *rows[i].digits == 'l' ? "%02X" : "%02x", ((const unsigned char *)&other)[k]);
        }
        if (*rows[i].digits == 's')
            words[strlen(words) - 1] = '\0';
        strcat(words, rows[i].numbers);
        begin_with(words);
        for (int process = 0; process < 2; process++) {
            const answer a = ask(LT_NOTHING);
            CHECK_STATUS(a.status, BRASA_OK);
            CHECK_INT(a.taken, FAST);
            CHECK_INT(a.tries > 0, process == 0);
            next_process();
        }
        tear_down();
    }
}

/* An algorithm that is kept is taken if the library takes it, with the workspace that it wants by now, and else what
 * it is for is timed again. */
TEST(kept_algorithms)
{
    static const struct {
        const char *what;
        lt_algorithm other; /* of which the file speaks */
        bool taken;
        size_t bytes;
    } rows[] = {
        {"as it was", {.cold = 2, .workspace = 400}, true, 400},
        {"it wants more", {.cold = 2, .workspace = 400, .checked = 500}, true, 500},
        {"it wants less", {.cold = 2, .workspace = 400, .checked = 300}, true, 400},
        {"it wants all", {.cold = 2, .checked = LT_MOST_WORKSPACE}, true, LT_MOST_WORKSPACE},
        {"it wants too much", {.cold = 2, .checked = LT_MOST_WORKSPACE + 1}, false, 0},
        {"there is none any more", {.cold = 2, .refused = true}, false, 0},
        {"it cannot be had", {.cold = 2, .state = CUBLAS_STATUS_NOT_SUPPORTED}, false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        begin_with(words_of(OTHER, 400));
        rig.algorithm[OTHER] = rows[i].other;
        const answer a = ask(LT_NOTHING);
        CHECK_INT(a.taken, rows[i].taken ? OTHER : FAST);
        CHECK_INT(a.tries > 0, !rows[i].taken);
        CHECK_INT(a.choice.way[0].workspace, rows[i].bytes);
        CHECK_INT(a.choice.way[0].engines, rows[i].taken ? 5 : a.choice.way[0].timed);
        rig_close();
        CHECK(says(choices, words_of(OTHER, 400)) == rows[i].taken);
        tear_down();
    }
    CASE("of another library");
    begin_with(words_of(MOST_ALGORITHMS, 0));
    CHECK_INT(ask(LT_NOTHING).taken, FAST);
    tear_down();
}

/* --- none ------------------------------------------------------------------------------------------------------- */

/* That nothing of what was listed ran may be this moment's fault: it holds in this process and for this run, and is
 * not kept for others. */
TEST(none_ran)
{
    begin(three, 3);
    for (int i = 0; i < 3; i++)
        rig.algorithm[i].fails = CUBLAS_STATUS_ALLOC_FAILED;
    answer a = ask(LT_NOTHING);
    CHECK_STATUS(a.status, BRASA_NO_KERNEL);
    CHECK_TEXT(brasa_context_error(ctx), "");
    CHECK_INT(a.tries, 3);
    memcpy(rig.algorithm, three, sizeof three);
    a = ask(LT_NOTHING);
    CHECK(a.status == BRASA_NO_KERNEL && a.tries == 0);
    write_record();
    CHECK(says("record", "\tproduct f32 48x32x40 nn\tnone\n"));
    next_process();
    CHECK(!says(choices, "none"));
    a = ask(LT_NOTHING);
    CHECK(a.taken == FAST && a.tries > 0);
    go_on();
    a = ask(LT_NOTHING);
    CHECK(a.status == BRASA_NO_KERNEL && a.tries == 0 && a.asked == 0);
    CHECK_STATUS(ask_with(NULL, usual).status, BRASA_OK);
    tear_down();
}

/* What fails for want of memory may run another time: among the others is chosen for this run alone. What fails for
 * another reason is left out for good. */
TEST(what_failed_in_passing)
{
    enum { LITTLE = 200 << 20 };
    static const struct {
        const char *what;
        lt_algorithm fast;
        cublaslt_extra extra;
        size_t left;
        bool final;
    } rows[] = {
        {"of memory", {.cold = 1, .fails = CUBLAS_STATUS_ALLOC_FAILED}, LT_NOTHING, 0, false},
        {"of memory, the third time",
         {.cold = 1, .fails = CUBLAS_STATUS_ALLOC_FAILED, .good = 2},
         LT_NOTHING,
         0,
         false},
        {"of memory, with its activation", {.cold = 1, .fails = CUBLAS_STATUS_ALLOC_FAILED}, LT_RELU, 0, false},
        {"for good", {.cold = 1, .fails = CUBLAS_STATUS_EXECUTION_FAILED}, LT_NOTHING, 0, true},
        {"for good, with its activation", {.cold = 1, .fails = CUBLAS_STATUS_EXECUTION_FAILED}, LT_RELU, 0, true},
        {"with little memory", {.cold = 1, .fails = CUBLAS_STATUS_EXECUTION_FAILED}, LT_NOTHING, LITTLE, false},
        {"with little memory, and its activation",
         {.cold = 1, .fails = CUBLAS_STATUS_EXECUTION_FAILED},
         LT_RELU,
         LITTLE,
         false},
        {"late", {.cold = 1, .late = true}, LT_NOTHING, 0, true},
        {"careless, with little memory", {.cold = 1, .careless = true}, LT_RELU, LITTLE, true},
        {"not at all, with little memory", {.cold = 4}, LT_NOTHING, LITTLE, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        begin(three, 3);
        rig.algorithm[FAST] = rows[i].fast;
        cudart.left = rows[i].left;
        answer a = ask(rows[i].extra);
        CHECK(a.taken == OTHER && a.told);
        write_record();
        CHECK(says("record", "\tproduct "));
        rig.algorithm[FAST] = three[FAST];
        cudart.left = 0;
        next_process();
        CHECK(says(choices, "\tproduct ") == rows[i].final);
        CHECK_INT(ask(rows[i].extra).taken, rows[i].final ? OTHER : FAST);
        go_on();
        a = ask(rows[i].extra);
        CHECK(a.taken == OTHER && a.tries == 0);
        tear_down();
    }
}

/* Older versions kept that none ran for good. */
TEST(none_of_an_older_version)
{
    begin_with("none");
    rig.tuner->measure = false;
    CHECK_INT(ask(LT_NOTHING).taken, 0);
    CHECK_STATUS(rig_tune(NULL), BRASA_OK);
    const answer a = ask(LT_NOTHING);
    CHECK(a.taken == FAST && a.tries > 0);
    rig_close();
    CHECK(!says(choices, "none") && says(choices, words_start(FAST)));
    tear_down();
}

/* Where all activations are careless there is nothing that could run, which holds for the run as well. */
TEST(none_careful)
{
    begin(three, 3);
    for (int i = 0; i < 3; i++)
        rig.algorithm[i].careless = true;
    CHECK_STATUS(ask(LT_RELU).status, BRASA_NO_KERNEL);
    write_record();
    CHECK(says("record", "\tproduct f32 48x32x40 nn relu\tnone\n"));
    rig_close();
    CHECK(!says(choices, "none"));
    tear_down();
}

/* What the library lists nothing for is asked for again by the next process, and kept nowhere; no memory is needed to
 * tell. */
TEST(none_listed)
{
    begin(three, 3);
    for (int i = 0; i < 3; i++)
        rig.algorithm[i].lacks = 1 << LT_BIAS | 1 << LT_RELU;
    rig.left = 0;
    answer a = ask(LT_BIAS);
    CHECK(a.status == BRASA_NO_KERNEL && a.asked == 1 && a.tries == 0);
    a = ask(LT_BIAS);
    CHECK(a.status == BRASA_NO_KERNEL && a.asked == 0);
    write_record();
    CHECK(!says("record", "none"));
    next_process();
    a = ask(LT_BIAS);
    CHECK(a.status == BRASA_NO_KERNEL && a.asked == 1);
    CHECK_STATUS(ask(LT_RELU).status, BRASA_NO_KERNEL);
    rig.left = SIZE_MAX;
    CHECK_INT(ask(LT_NOTHING).taken, FAST);
    tear_down();
}

/* --- how it is chosen ------------------------------------------------------------------------------------------- */

/* The clock: what is known, or the fastest; without it: what is known, or the first; a run that goes on: what its
 * record says, or the first; without a tuner: the first. */
TEST(ways_to_choose)
{
    enum { CLOCK, FILES, RECORD, NOTHING, WAYS };
    static const struct {
        const char *what;
        int kept, recorded; /* 0: nothing is */
        int taken[WAYS];
    } rows[] = {
        {"nothing kept", 0, 0, {FAST, 0, 0, 0}},
        {"kept", OTHER, 0, {OTHER, OTHER, 0, 0}},
        {"recorded", 0, OTHER, {OTHER, OTHER, OTHER, 0}},
        {"both", FAST, OTHER, {OTHER, OTHER, OTHER, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < WAYS; k++) {
            CASE("%s, %d", rows[i].what, k);
            begin(three, 3);
            char cache[300], record[300];
            snprintf(cache, sizeof cache, "%s", in_folder(choices));
            snprintf(record, sizeof record, "%s", in_folder("record"));
            if (rows[i].kept)
                say(choices, LT_NOTHING, words_of(rows[i].kept, 0));
            remove(record);
            if (rows[i].recorded)
                say("record", LT_NOTHING, words_of(rows[i].recorded, 0));
            const brasa_tuning wish = {.measure = k == CLOCK, .cache = k == RECORD ? NULL : cache, .record = record};
            tuner *t = NULL;
            CHECK_STATUS(tuner_new(ctx, "a stand-in", &wish, &t), BRASA_OK);
            const answer a = ask_with(k == NOTHING ? NULL : t, usual);
            CHECK_INT(a.taken, rows[i].taken[k]);
            CHECK_INT(a.tries > 0, k == CLOCK && !rows[i].kept && !rows[i].recorded);
            CHECK_INT(a.told, rows[i].taken[k] != 0);
            tuner_free(t);
            CHECK(says(choices, words_start(OTHER)) == (rows[i].kept == OTHER));
            CHECK(says(choices, words_start(FAST)) == (rows[i].kept == FAST || a.tries > 0));
            tear_down();
        }
}

/* What is not timed is not kept: what comes first may be something else in another version. */
TEST(first_ones_are_not_kept)
{
    begin(three, 3);
    rig.tuner->measure = false;
    for (int i = 0; i < 2; i++)
        CHECK_INT(ask_with(i ? rig.tuner : NULL, usual).taken, 0);
    write_record();
    CHECK(!says("record", "product"));
    rig_close();
    CHECK(!says(choices, "product"));
    tear_down();
}

/* After a session that was given up the next one's choices are in the run's record, though they are the same. */
TEST(given_up)
{
    begin(three, 3);
    CHECK_INT(ask(LT_NOTHING).taken, FAST);
    CHECK_STATUS(rig_tune(NULL), BRASA_OK);
    write_record();
    CHECK(!says("record", "product"));
    const answer a = ask(LT_NOTHING);
    CHECK(a.taken == FAST && a.tries == 0);
    write_record();
    CHECK(says("record", "\tproduct f32 48x32x40 nn\t"));
    tear_down();
}

/* Who looks on stops it between two algorithms, too. */
static bool look_on(void *user, int64_t done, int64_t total, const char *note)
{
    (void)done, (void)total;
    return note || --*(int *)user >= 0;
}

TEST(stopped)
{
    for (int most = 0; most < 3; most++) {
        CASE("after %d", most);
        int left = most;
        begin(three, 3);
        rig.tuner->watch = look_on;
        rig.tuner->user = &left;
        rig.tuner->silence = 0;
        const answer a = ask(LT_NOTHING);
        CHECK_STATUS(a.status, BRASA_WRONG_STATE);
        CHECK_HAS(brasa_context_error(ctx), "stopped while kernels were timed");
        CHECK((a.tries > 0) == (most > 0) && (rig.algorithm[1].runs > 0) == (most > 1));
        CHECK_INT(rig.tuner->count, 0);
        tear_down();
    }
}

/* A library that is not there has nothing to close. */
TEST(without_the_library)
{
    begin(three, 3);
    cublaslt_close(rig.queue);
    CHECK(!rig.queue->cublaslt);
    cublaslt_close(rig.queue);
    cublaslt_plan_free(NULL);
    tear_down();
}

#else

TEST(kept_products)
{
    SKIP("CUDA's headers are not here");
}

#endif
