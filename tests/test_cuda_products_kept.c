/* test_cuda_products_kept.c - what is kept of the choices among cuBLASLt's algorithms, and what is made of what was
 * kept; with the stand-ins of products_rig.h. The file itself, and a run's record, are test_kept.c's. */
#define _GNU_SOURCE
#include "test.h"

#if __has_include(<cuda_runtime.h>) && __has_include(<cublasLt.h>)

#include "products_rig.h"

enum { FAST = 1, OTHER = 2 }; /* of the three */

/* A choice in the words in which it is kept. */
static const char *words_of(int index, size_t workspace_bytes)
{
    static char words[KEPT_VALUE_SIZE];
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
    char text[2 * KEPT_VALUE_SIZE], problem[LT_PROBLEM_SIZE];
    const cublaslt_product p = with(extra, CHOOSE_TIMED);
    const char *path = in_folder(name);
    cublaslt_name(&p, problem);
    snprintf(text, sizeof text, HEAD "\n%s\t%s\t%s\n", LT_MACHINE, problem, words);
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

static const char *const choices = "cuda-engines";

/* With what an earlier process has kept for the usual product. */
static void begin_with(const char *words)
{
    set_up(three, 3);
    say(choices, LT_NOTHING, words);
    CHECK_STATUS(rig_open(), BRASA_OK);
}

/* --- kept and recalled ------------------------------------------------------------------------------------------ */

/* In a run that goes on where nothing else is kept. */
static void go_on(void)
{
    CHECK_STATUS(rig.gpu->record(rig.gpu, in_folder("record")), BRASA_OK);
    remove(in_folder(choices));
    next_process();
    CHECK_STATUS(rig.gpu->recall(rig.gpu, in_folder("record")), BRASA_OK);
}

/* What won is taken again without being timed, or asked for: in this process, in the next one, and by a run's record.
 */
TEST(kept)
{
    static const char *const places[] = {"in this process", "in the next one", "by a run's record"};
    begin(three, 3);
    rig.algorithm[0].fails = CUBLAS_STATUS_EXECUTION_FAILED;
    rig.algorithm[FAST].workspace = 300;
    const answer first = ask(LT_NOTHING, CHOOSE_TIMED);
    CHECK(first.taken == FAST && first.tries > 0 && first.asked == 1 && first.told);
    rig.algorithm[0] = (lt_algorithm){.cold = 0.5f}; /* is the fastest by now */
    for (int i = 0; i < 3; i++) {
        CASE("%s", places[i]);
        if (i == 1)
            next_process();
        else if (i == 2)
            go_on();
        const answer a = ask(LT_NOTHING, i == 2 ? CHOOSE_RECORDED : CHOOSE_TIMED);
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
        char words[KEPT_VALUE_SIZE] = "";
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
            const answer a = ask(LT_NOTHING, CHOOSE_TIMED);
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
        const answer a = ask(LT_NOTHING, CHOOSE_TIMED);
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
    CHECK_INT(ask(LT_NOTHING, CHOOSE_TIMED).taken, FAST);
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
    answer a = ask(LT_NOTHING, CHOOSE_TIMED);
    CHECK_STATUS(a.status, BRASA_NO_KERNEL);
    CHECK_TEXT(brasa_context_error(ctx), "");
    CHECK_INT(a.tries, 3);
    memcpy(rig.algorithm, three, sizeof three);
    a = ask(LT_NOTHING, CHOOSE_TIMED);
    CHECK(a.status == BRASA_NO_KERNEL && a.tries == 0);
    CHECK_STATUS(rig.gpu->record(rig.gpu, in_folder("record")), BRASA_OK);
    CHECK(says("record", "\tproduct f32 48x32x40 nn\tnone\n"));
    next_process();
    CHECK(!says(choices, "none"));
    a = ask(LT_NOTHING, CHOOSE_TIMED);
    CHECK(a.taken == FAST && a.tries > 0);
    CHECK_STATUS(rig.gpu->recall(rig.gpu, in_folder("record")), BRASA_OK);
    a = ask(LT_NOTHING, CHOOSE_RECORDED);
    CHECK(a.status == BRASA_NO_KERNEL && a.tries == 0 && a.asked == 0);
    CHECK_STATUS(ask(LT_NOTHING, CHOOSE_FIRST).status, BRASA_OK);
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
        answer a = ask(rows[i].extra, CHOOSE_TIMED);
        CHECK(a.taken == OTHER && a.told);
        CHECK_STATUS(rig.gpu->record(rig.gpu, in_folder("record")), BRASA_OK);
        CHECK(says("record", "\tproduct "));
        rig.algorithm[FAST] = three[FAST];
        cudart.left = 0;
        next_process();
        CHECK(says(choices, "\tproduct ") == rows[i].final);
        CHECK_INT(ask(rows[i].extra, CHOOSE_TIMED).taken, rows[i].final ? OTHER : FAST);
        CHECK_STATUS(rig.gpu->recall(rig.gpu, in_folder("record")), BRASA_OK);
        a = ask(rows[i].extra, CHOOSE_RECORDED);
        CHECK(a.taken == OTHER && a.tries == 0);
        tear_down();
    }
}

/* Older versions kept that none ran for good. */
TEST(none_of_an_older_version)
{
    begin_with("none");
    CHECK_INT(ask(LT_NOTHING, CHOOSE_KNOWN).taken, 0);
    const answer a = ask(LT_NOTHING, CHOOSE_TIMED);
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
    CHECK_STATUS(ask(LT_RELU, CHOOSE_TIMED).status, BRASA_NO_KERNEL);
    CHECK_STATUS(rig.gpu->record(rig.gpu, in_folder("record")), BRASA_OK);
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
    answer a = ask(LT_BIAS, CHOOSE_TIMED);
    CHECK(a.status == BRASA_NO_KERNEL && a.asked == 1 && a.tries == 0);
    a = ask(LT_BIAS, CHOOSE_TIMED);
    CHECK(a.status == BRASA_NO_KERNEL && a.asked == 0);
    CHECK_STATUS(rig.gpu->record(rig.gpu, in_folder("record")), BRASA_OK);
    CHECK(!says("record", "none"));
    next_process();
    a = ask(LT_BIAS, CHOOSE_TIMED);
    CHECK(a.status == BRASA_NO_KERNEL && a.asked == 1);
    CHECK_STATUS(ask(LT_RELU, CHOOSE_TIMED).status, BRASA_NO_KERNEL);
    rig.left = SIZE_MAX;
    CHECK_INT(ask(LT_NOTHING, CHOOSE_TIMED).taken, FAST);
    tear_down();
}

/* --- how it is chosen ------------------------------------------------------------------------------------------- */

/* Timed: what is kept, or the fastest; known: what is kept, or the first; recorded: what the run's record says, or
 * the first; first: the first. And what one of them finds is none of another's. */
TEST(ways_to_choose)
{
    static const choosing ways[] = {CHOOSE_KNOWN, CHOOSE_RECORDED, CHOOSE_FIRST, CHOOSE_TIMED};
    static const struct {
        const char *what;
        int kept, recorded; /* 0: nothing is */
        int taken[4];       /* in these ways */
    } rows[] = {
        {"nothing kept", 0, 0, {0, 0, 0, FAST}},
        {"kept", OTHER, 0, {OTHER, 0, 0, OTHER}},
        {"recorded", 0, OTHER, {OTHER, OTHER, 0, OTHER}},
        {"both", FAST, OTHER, {OTHER, OTHER, 0, OTHER}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        set_up(three, 3);
        if (rows[i].kept)
            say(choices, LT_NOTHING, words_of(rows[i].kept, 0));
        CHECK_STATUS(rig_open(), BRASA_OK);
        if (rows[i].recorded)
            CHECK_STATUS(rig.gpu->recall(rig.gpu, say("record", LT_NOTHING, words_of(rows[i].recorded, 0))),
                         BRASA_OK);
        for (int k = 0; k < 4; k++) {
            const answer a = ask(LT_NOTHING, ways[k]);
            CHECK_INT(a.taken, rows[i].taken[k]);
            CHECK_INT(a.tries > 0, rows[i].taken[k] && !rows[i].kept && !rows[i].recorded);
            CHECK_INT(a.told, rows[i].taken[k] != 0);
        }
        rig_close();
        CHECK(says(choices, words_of(FAST, 0)) == (rows[i].kept == FAST));
        CHECK(says(choices, words_of(OTHER, 0)) == (rows[i].kept == OTHER));
        tear_down();
    }
}

/* What is not timed is not kept: what comes first may be something else in another version. */
TEST(first_ones_are_not_kept)
{
    static const choosing ways[] = {CHOOSE_KNOWN, CHOOSE_RECORDED, CHOOSE_FIRST};
    begin(three, 3);
    for (int i = 0; i < 3; i++)
        CHECK_INT(ask(LT_NOTHING, ways[i]).taken, 0);
    CHECK_STATUS(rig.gpu->record(rig.gpu, in_folder("record")), BRASA_OK);
    CHECK(!says("record", "product"));
    rig_close();
    CHECK(!says(choices, "product"));
    tear_down();
}

/* Deterministic programs, and those that nothing is to be timed for, take the first; but a run goes on as it began.
 */
TEST(what_a_graph_wants)
{
    static const struct {
        choosing asked;
        bool deterministic;
        const char *tune;
        choosing got;
    } rows[] = {
        {CHOOSE_TIMED, false, NULL, CHOOSE_TIMED},       {CHOOSE_KNOWN, false, "on", CHOOSE_KNOWN},
        {CHOOSE_TIMED, false, "off", CHOOSE_FIRST},      {CHOOSE_KNOWN, false, "off", CHOOSE_FIRST},
        {CHOOSE_RECORDED, false, NULL, CHOOSE_RECORDED}, {CHOOSE_RECORDED, false, "off", CHOOSE_RECORDED},
        {CHOOSE_TIMED, true, NULL, CHOOSE_FIRST},        {CHOOSE_RECORDED, true, NULL, CHOOSE_FIRST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const graph g = {.deterministic = rows[i].deterministic, .choosing = rows[i].asked};
        unsetenv("BRASA_TUNE");
        if (rows[i].tune)
            setenv("BRASA_TUNE", rows[i].tune, 1);
        CHECK_INT(cuda_choosing(&g), rows[i].got);
    }
    unsetenv("BRASA_TUNE");
}

/* --- runs ------------------------------------------------------------------------------------------------------- */

/* A run's record holds for its run alone: with that of another one, or none, what the first one said is forgotten; a
 * plan that was made by it goes on, and tells of its own algorithm. */
TEST(another_run)
{
    device_choice choice;
    const cublaslt_product p = with(LT_NOTHING, CHOOSE_RECORDED);
    cublaslt_plan *plan = NULL;
    begin(three, 3);
    CHECK_STATUS(rig.gpu->recall(rig.gpu, say("one", LT_NOTHING, words_of(OTHER, 0))), BRASA_OK);
    CHECK_INT(ask_for(p).taken, OTHER);
    CHECK_STATUS(cublaslt_plan_new(rig.queue, &p, &plan), BRASA_OK);
    CHECK_STATUS(rig.gpu->recall(rig.gpu, say("two", LT_NOTHING, words_of(FAST, 0))), BRASA_OK);
    CHECK_INT(ask_for(p).taken, FAST);
    CHECK_STATUS(rig.gpu->recall(rig.gpu, in_folder("three")), BRASA_OK);
    CHECK_INT(ask_for(p).taken, 0);
    CHECK_INT(ask(LT_NOTHING, CHOOSE_KNOWN).taken, 0);
    CHECK_STATUS(rig.gpu->record(rig.gpu, in_folder("four")), BRASA_OK);
    CHECK(!says("four", "product"));
    CHECK(plan && lt_index(&plan->best.algorithm) == OTHER);
    CHECK(plan && cublaslt_tell_choice(plan, &choice));
    if (plan)
        CHECK_TEXT(choice.engine, "0200000000000000");
    cublaslt_plan_free(plan);
    rig.gpu->disuse(rig.gpu);
    tear_down();
}

/* After a session that was given up the next one's choices are in the run's record, though they are the same. */
TEST(given_up)
{
    begin(three, 3);
    CHECK_INT(ask(LT_NOTHING, CHOOSE_TIMED).taken, FAST);
    rig.gpu->disuse(rig.gpu);
    const answer a = ask(LT_NOTHING, CHOOSE_TIMED);
    CHECK(a.taken == FAST && a.tries == 0);
    CHECK_STATUS(rig.gpu->record(rig.gpu, in_folder("record")), BRASA_OK);
    CHECK(says("record", "\tproduct f32 48x32x40 nn\t"));
    tear_down();
}

/* A library that is not there has nothing to forget. */
TEST(without_the_library)
{
    begin(three, 3);
    cublaslt_close(rig.queue);
    CHECK(!rig.queue->cublaslt);
    cublaslt_forget(rig.queue);
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
