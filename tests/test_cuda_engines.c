/* test_cuda_engines.c - which of cuDNN's engines is chosen by the clock, of engines that are made up here:
 * fake_cudnn.h, cudnn_rig.h. What is kept of it, and what fails, is test_cuda_engines_kept.c's. */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_CUDA_HOST

#include "cudnn_rig.h"

enum { MB = 1 << 20 };

#define NOTE(name)     (1u << CUDNN_NUMERICAL_NOTE_##name)
#define BEHAVIOR(name) (1u << CUDNN_BEHAVIOR_NOTE_##name)

/* --- time and workspace ---------------------------------------------------------------------------------------- */

/* Whichever place it has in the list. */
TEST(the_fastest_wins)
{
    made_engine engines[] = {{.index = 1}, {.index = 2}, {.index = 3}};
    for (int fastest = 0; fastest < 3; fastest++) {
        CASE("number %d", fastest);
        for (int i = 0; i < 3; i++)
            engines[i].ms = i == fastest ? 1 : 1.2 + 0.1 * i;
        OPEN(engines);
        CHECK_INT(choose().index, fastest + 1);
        rig_close();
    }
}

typedef struct looker {
    int64_t calls, done, total;
    int goes_on; /* so many times */
} looker;

static bool look_on(void *user, int64_t done, int64_t total, const char *note)
{
    looker *l = user;
    l->calls += !note;
    l->done = done;
    l->total = total;
    return l->calls <= l->goes_on;
}

/* Who looks on is told before something is timed, and not where nothing is; and stops it, between two engines, too.
 */
TEST(watched)
{
    static const made_engine engines[] = {{.index = 1, .ms = 2}, {.index = 2, .ms = 1}};
    for (int most = 0; most < 3; most++) {
        looker l = {.goes_on = most};
        CASE("stops after %d", most);
        OPEN(engines);
        rig.tuner->watch = look_on;
        rig.tuner->user = &l;
        rig.tuner->node = 3;
        rig.tuner->nodes = 7;
        rig.tuner->silence = most < 2 ? 0 : INT64_MAX;
        const bool stops = most < 2;
        outcome o = choose();
        CHECK_STATUS(o.status, stops ? BRASA_WRONG_STATE : BRASA_OK);
        CHECK(l.calls == (most == 1 ? 2 : 1) && l.done == 3 && l.total == 7 && (o.executed > 0) == (most > 0));
        CHECK_INT(fake.ran[1] > 0, !stops);
        if (stops)
            CHECK_HAS(brasa_context_error(rig.ctx), "stopped while kernels were timed");
        CHECK_INT(rig.tuner->count, !stops);
        l.calls = 0;
        rig.tuner->measure = false;
        CHECK_STATUS(choose().status, BRASA_OK);
        CHECK_INT(l.calls, 0);
        rig_close();
    }
}

/* 0.25 microseconds for each MB: 100 MB are worth 26 microseconds. */
TEST(workspace_is_charged)
{
    static const made_engine engines[] = {{.index = 1, .ms = 1},
                                          {.index = 2, .ms = 0.99, .workspace = 10 * MB},
                                          {.index = 3, .ms = 0.98, .workspace = 100 * MB}};
    OPEN(engines);
    CHECK_INT(choose().index, 2);
    rig_close();
}

/* The charge alone is more than the best one costs. */
TEST(what_cannot_win_is_not_run)
{
    static const made_engine engines[] = {{.index = 1, .ms = 0.1}, {.index = 2, .ms = 0.01, .workspace = 500 * MB}};
    OPEN(engines);
    CHECK_INT(choose().index, 1);
    CHECK_INT(fake.ran[1], 0);
    rig_close();
}

/* One for whose workspace there is no memory does not keep the others from being timed. The choice among these is for
 * this run alone, unless what was left out could not have won. */
TEST(room_for_some)
{
    enum { MOST = 100 * MB };
    static const struct {
        const char *what;
        made_engine engines[3];
        int64_t winner;
        int timed;
        bool final;
    } rows[] = {
        {"the first wants too much",
         {{.index = 1, .ms = 1, .workspace = 500 * MB}, {.index = 2, .ms = 3}, {.index = 3, .ms = 2, .workspace = 1}},
         3,
         2,
         false},
        {"one in between does",
         {{.index = 1, .ms = 3, .workspace = MOST},
          {.index = 2, .ms = 1, .workspace = MOST + 1},
          {.index = 3, .ms = 2}},
         3,
         2,
         false},
        {"it could not have won",
         {{.index = 1, .ms = 0.01, .workspace = 500 * MB}, {.index = 2, .ms = 0.2}, {.index = 3, .ms = 0.1}},
         3,
         2,
         true},
        {"there is none for any",
         {{.index = 1, .ms = 3, .workspace = 300 * MB},
          {.index = 2, .ms = 1, .workspace = 200 * MB},
          {.index = 3, .way = 1, .ms = 1, .workspace = 200 * MB}},
         1,
         0,
         false},
        {"and what there is some for fails",
         {{.index = 1, .ms = 3, .runs = CUDNN_STATUS_EXECUTION_FAILED},
          {.index = 2, .way = 1, .ms = 1, .workspace = 200 * MB},
          {.index = 3, .ms = 1, .workspace = 200 * MB}},
         3,
         0,
         false},
        {"of the second way alone",
         {{.index = 1, .way = 1, .workspace = 200 * MB}, {.index = 2, .way = 1, .workspace = 200 * MB}, {.way = 1}},
         -1,
         0,
         false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        rig_open(rows[i].engines, rows[i].winner < 0 ? 2 : 3);
        cudart.most = MOST;
        const outcome o = choose();
        CHECK_INT(o.index, rows[i].winner);
        CHECK_INT(o.told.way[0].timed, rows[i].timed);
        CHECK(o.kept == (rows[i].timed > 0 || rows[i].winner > 1) && o.final == rows[i].final);
        rig_close();
    }
}

/* As much as a problem may have is given, and not a byte more. */
TEST(workspace_is_bounded)
{
    static const made_engine engines[] = {
        {.index = 1, .ms = 3}, {.index = 2, .ms = 1, .workspace = MB + 1}, {.index = 3, .ms = 2, .workspace = MB}};
    OPEN(engines);
    rig.problem.most_workspace = MB;
    CHECK_INT(choose().index, 3);
    CHECK_INT(fake.ran[1], 0);
    rig_close();
}

/* An engine of several small kernels runs in a recorded graph later, where starting them costs nothing. */
TEST(engines_are_timed_as_they_will_run)
{
    static const made_engine engines[] = {{.index = 1, .ms = 0.03}, {.index = 2, .ms = 0.02, .starting = 0.05}};
    OPEN(engines);
    const outcome o = choose();
    CHECK_INT(o.index, 2);
    CHECK_CLOSE((double)o.told.way[0].nanoseconds, 20000, 10);
    rig_close();
}

/* The first run loads code, however long that takes. */
TEST(loading_is_not_timed)
{
    static const made_engine engines[] = {{.index = 1, .ms = 2}, {.index = 2, .ms = 1, .loading = 90}};
    OPEN(engines);
    CHECK_INT(choose().index, 2);
    rig_close();
}

/* The middle one of several runs counts: of the fast engine's, the one that is disturbed does not. */
TEST(a_disturbed_run_does_not_decide)
{
    enum { RUNS = 5 };
    static const made_engine engines[] = {{.index = 1, .ms = 1}, {.index = 2, .ms = 0.8}};
    OPEN(engines);
    cudart.disturbed = 1 + RUNS + 2; /* behind those of the first, and the second's own first */
    CHECK_INT(choose().index, 2);
    CHECK_INT(cudart.launches, 2 * (1 + RUNS));
    rig_close();
}

/* A run takes about half a millisecond: twice by itself, and then as often as that takes. */
TEST(short_engines_are_repeated)
{
    static const struct {
        double ms;
        int repeats, runs;
    } rows[] = {{0.001, 16, 5}, {0.11, 4, 5}, {0.6, 1, 5}, {20, 1, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const made_engine engine = {.index = 1, .ms = rows[i].ms};
        CASE("%g ms", rows[i].ms);
        rig_open(&engine, 1);
        const outcome o = choose();
        CHECK_INT(o.executed, 2 + rows[i].repeats);
        CHECK_INT(cudart.launches, 1 + rows[i].runs);
        CHECK_CLOSE((double)o.told.way[0].nanoseconds, rows[i].ms * 1e6, rows[i].ms * 1e3);
        rig_close();
    }
}

/* What is much slower than the best one is not recorded; what takes long and is slower still, not run again. */
TEST(no_time_for_what_is_hopeless)
{
    static const made_engine engines[] = {
        {.index = 1, .ms = 1}, {.index = 2, .ms = 1.4}, {.index = 3, .ms = 1.6}, {.index = 4, .ms = 120}};
    static const int times[] = {3, 3, 2, 1};
    OPEN(engines);
    const outcome o = choose();
    CHECK_INT(o.index, 1);
    for (int i = 1; i < 4; i++)
        CHECK_INT(fake.ran[i], times[i]);
    CHECK_INT(o.told.way[0].timed, 3);
    rig_close();
}

/* --- which may be taken ---------------------------------------------------------------------------------------- */

/* Engines that would change what is computed are left out, however fast they are. */
TEST(notes)
{
    static const unsigned never = NOTE(NONDETERMINISTIC) | NOTE(REDUCED_PRECISION_REDUCTION) |
                                  NOTE(WINOGRAD_TILE_6x6) | NOTE(WINOGRAD_TILE_13x13);
    static const struct {
        const char *name;
        int precision;
        unsigned refused;
    } rows[] = {{"f32", BRASA_F32, NOTE(TENSOR_CORE) | NOTE(DOWN_CONVERT_INPUTS)},
                {"tf32", BRASA_TF32, 0},
                {"bf16", BRASA_BF16, NOTE(WINOGRAD)}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (unsigned note = 0; note < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; note++) {
            const made_engine engines[] = {{.index = 1, .ms = 2},
                                           {.index = 2, .ms = 1, .notes = NOTE(STRICT_NAN_PROP) | 1u << note}};
            CASE("%u with %s", note, rows[i].name);
            OPEN(engines);
            rig.problem.precision = rows[i].precision;
            CHECK_INT(choose().index, (never | rows[i].refused) >> note & 1 ? 1 : 2);
            rig_close();
        }
}

/* So are those of which cuDNN does not say what they compute. */
TEST(no_notes_are_no_promise)
{
    static const made_engine engines[] = {{.index = 1, .ms = 2}, {.index = 2, .ms = 1, .silent = true}};
    OPEN(engines);
    CHECK_INT(choose().index, 1);
    rig_close();
}

/* Engines that are compiled every time are taken only where there is nothing else, and only for the first way. */
TEST(compiled_engines)
{
    enum { COMPILES = BEHAVIOR(RUNTIME_COMPILATION), OTHER = BEHAVIOR(SUPPORTS_CUDA_GRAPH_NATIVE_API) };
    static const struct {
        const char *what;
        made_engine engines[2];
        int64_t winner;
    } rows[] = {
        {"there is another one", {{.index = 1, .ms = 2}, {.index = 2, .ms = 1, .behaves = COMPILES | OTHER}}, 1},
        {"the other one is in another list",
         {{.index = 2, .ms = 1, .behaves = COMPILES}, {.index = 1, .list = LIST_FALLBACK, .ms = 2}},
         1},
        {"there are no others",
         {{.index = 1, .ms = 2, .behaves = COMPILES}, {.index = 2, .ms = 1, .behaves = COMPILES}},
         2},
        {"of the second way", {{.index = 1, .ms = 2}, {.index = 2, .way = 1, .ms = 1, .behaves = COMPILES}}, 1},
        {"of the second way alone",
         {{.index = 1, .way = 1, .ms = 2, .behaves = COMPILES}, {.index = 2, .way = 1, .behaves = COMPILES}},
         -1},
        {"another note", {{.index = 1, .ms = 2}, {.index = 2, .ms = 1, .behaves = OTHER}}, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        OPEN(rows[i].engines);
        CHECK_INT(choose().index, rows[i].winner);
        rig_close();
    }
}

/* An engine that does not do what it should does not win, and nothing is taken where there is no other. */
TEST(engines_that_fail)
{
    static const struct {
        const char *what;
        made_engine engine;
    } rows[] = {
        {"no plan can be made", {.plans = CUDNN_STATUS_NOT_SUPPORTED}},
        {"it cannot be run", {.runs = CUDNN_STATUS_EXECUTION_FAILED}},
        {"it runs out of memory", {.runs = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED}},
        {"it does not start while a graph is recorded", {.recording = REFUSES_TO_BE}},
        {"a graph with it cannot be made", {.recording = SPOILS_THE_GRAPH}},
        {"its result is wrong", {.writes = WRITES_WHAT_IS_WRONG}},
        {"it writes nothing", {.writes = WRITES_NOTHING}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int alone = 0; alone < 2; alone++) {
            made_engine engines[] = {rows[i].engine, {.index = 2, .ms = 2}};
            engines[0].index = 1;
            engines[0].ms = 1;
            CASE("%s%s", rows[i].what, alone ? ", and there is no other" : "");
            rig_open(engines, alone ? 1 : 2);
            const outcome o = choose();
            CHECK_STATUS(o.status, alone ? BRASA_NO_KERNEL : BRASA_OK);
            CHECK_INT(o.index, alone ? -1 : 2);
            CHECK_INT(rig.tuner->count, !alone || !engines[0].plans);
            CHECK(!rig.tuner->count || rig.tuner->choices[0]->fresh == (!alone && o.final));
            rig_close();
        }
}

/* Then a kernel of our own is asked. */
TEST(no_engine_at_all)
{
    rig_open(NULL, 0);
    const outcome o = choose();
    CHECK_STATUS(o.status, BRASA_NO_KERNEL);
    CHECK_INT(o.executed, 0);
    CHECK_INT(rig.tuner->count, 0);
    rig_close();
}

/* Old versions want their handle for a plan; new ones know it, and do not take it. */
TEST(old_and_new_versions)
{
    static const made_engine engines[] = {{.index = 1, .ms = 1}};
    for (int old = 0; old < 2; old++) {
        CASE("%s", old ? "old" : "new");
        OPEN(engines);
        fake.old = old;
        CHECK_INT(choose().index, 1);
        rig_close();
    }
}

/* --- lists ----------------------------------------------------------------------------------------------------- */

/* The next list is asked for where the last one had fewer than three that can be taken. */
TEST(lists)
{
    static const made_engine engines[] = {{.index = 1, .ms = 4},
                                          {.index = 2, .ms = 4},
                                          {.index = 3, .ms = 4, .notes = NOTE(NONDETERMINISTIC)},
                                          {.index = 4, .ms = 3, .list = LIST_B},
                                          {.index = 5, .ms = 1, .list = LIST_FALLBACK}};
    static const struct {
        int first;
        unsigned asked;
        int64_t winner;
    } rows[] = {{0, 1u << LIST_A | 1u << LIST_B, 4}, {1, 1u << LIST_A | 1u << LIST_B | 1u << LIST_FALLBACK, 5}};
    for (int i = 0; i < 2; i++) {
        CASE("%d of the first", 2 - i);
        rig_open(engines + rows[i].first, 5 - rows[i].first);
        rig.problem.ways = 1;
        CHECK_INT(choose().index, rows[i].winner);
        CHECK_INT(fake.asked, rows[i].asked);
        rig_close();
    }
}

/* The first ten of a way are timed, and of them four configurations of the same engine. */
TEST(so_many_are_timed)
{
    made_engine engines[20];
    for (int same = 0; same < 2; same++) {
        CASE("%s", same ? "of the same engine" : "of all");
        for (int i = 0; i < 20; i++)
            engines[i] = (made_engine){.index = same ? 7 : i + 1, .knobs = 1, .value = i + 1, .ms = 20 - 0.5 * i};
        OPEN(engines);
        const outcome o = choose();
        CHECK_INT(o.value, same ? 4 : 10);
        CHECK_INT(o.told.way[0].timed, same ? 4 : 10);
        CHECK_INT(o.told.way[0].engines, same ? 1 : 20);
        rig_close();
    }
}

/* --- ways ------------------------------------------------------------------------------------------------------ */

/* Of two ways the quicker one is taken, with all that runs before and behind its engine. */
TEST(the_quicker_way)
{
    static const made_engine engines[] = {{.index = 1, .ms = 1}, {.index = 2, .way = 1, .ms = 1.2}};
    for (int i = 0; i < 2; i++) {
        CASE("what follows the first takes %g ms", i ? 0.3 : 0.1);
        OPEN(engines);
        rig.finish = i ? 0.3 : 0.1;
        const outcome o = choose();
        CHECK_INT(o.way, i);
        CHECK_INT(o.index, i + 1);
        CHECK_INT(o.told.taken, i);
        for (int way = 0; way < 2; way++) {
            CHECK_INT(rig.starts[way], fake.ran[way] - (way == o.way)); /* it was run once more since */
            CHECK_INT(rig.ends[way], rig.starts[way]);
        }
        rig_close();
    }
}

/* A way that is not accepted, or fails, or is not asked for falls back on the other. */
TEST(one_way_for_the_other)
{
    static const struct {
        const char *what;
        made_engine engines[2];
        int ways, winner;
    } rows[] = {
        {"the second is not accepted",
         {{.index = 1, .ms = 2}, {.index = 2, .way = 1, .ms = 1, .writes = WRITES_WHAT_IS_WRONG}},
         2,
         0},
        {"the second fails",
         {{.index = 1, .ms = 2}, {.index = 2, .way = 1, .ms = 1, .runs = CUDNN_STATUS_EXECUTION_FAILED}},
         2,
         0},
        {"the first is not accepted",
         {{.index = 1, .ms = 1, .writes = WRITES_WHAT_IS_WRONG}, {.index = 2, .way = 1, .ms = 2}},
         2,
         1},
        {"the first has no plan",
         {{.index = 1, .ms = 1, .plans = CUDNN_STATUS_NOT_SUPPORTED}, {.index = 2, .way = 1, .ms = 2}},
         2,
         1},
        {"the second is not asked for", {{.index = 1, .ms = 2}, {.index = 2, .way = 1, .ms = 1}}, 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        OPEN(rows[i].engines);
        rig.problem.ways = rows[i].ways;
        const outcome o = choose();
        CHECK_STATUS(o.status, BRASA_OK);
        CHECK_INT(o.way, rows[i].winner);
        rig_close();
    }
}

/* --- what is told ---------------------------------------------------------------------------------------------- */

/* The problem, the ways by their names with what was found of each, and the engine with its knobs; each engine counts
 * once, in however many configurations and lists it is. */
TEST(choices_are_told)
{
    static const made_engine engines[] = {
        {.index = 38, .knobs = 2, .value = 5, .ms = 2},
        {.index = 38, .knobs = 2, .value = 8, .ms = 1, .workspace = 4096},
        {.index = 40, .ms = 3, .list = LIST_FALLBACK},
        {.index = 38, .knobs = 2, .value = 8, .ms = 1.1, .list = LIST_FALLBACK},
        {.index = 41, .ms = 1, .behaves = BEHAVIOR(RUNTIME_COMPILATION)},
        {.index = 42, .ms = 1, .notes = NOTE(NONDETERMINISTIC)},
        {.index = 38, .way = 1, .ms = 1.4},
    };
    OPEN(engines);
    const outcome o = choose();
    REQUIRE(o.kept && o.tells);
    CHECK_TEXT(o.told.problem, "the problem");
    CHECK_INT(o.told.ways, 2);
    CHECK_INT(o.told.taken, 0);
    CHECK_TEXT(o.told.name[0], "alone");
    CHECK_TEXT(o.told.name[1], "fused");
    CHECK_TEXT(o.told.engine, "38 1=8 2=9");
    CHECK_INT(o.told.way[0].engines, 2);
    CHECK_INT(o.told.way[0].compiled, 1);
    CHECK_INT(o.told.way[0].timed, 4);
    CHECK_CLOSE((double)o.told.way[0].nanoseconds, 1e6, 1e2);
    CHECK_INT(o.told.way[0].workspace, 4096);
    CHECK_INT(o.told.way[1].engines, 1);
    CHECK_INT(o.told.way[1].timed, 1);
    CHECK_CLOSE((double)o.told.way[1].nanoseconds, 1.4e6, 1e2);
    rig_close();
}

#else

TEST(engines)
{
    SKIP("the headers of CUDA and cuDNN are not here");
}

#endif
