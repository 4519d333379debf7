/* test_cuda_engines_kept.c - which of cuDNN's engines is taken without asking the clock: one that was chosen before,
 * or the first one; and choices for which there is no memory. The engines are made up: fake_cudnn.h, cudnn_rig.h. */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_CUDA_HOST

#include "cudnn_rig.h"

/* The fastest is engine 2, in its second configuration. */
static const made_engine usual[] = {{.index = 1, .ms = 2},
                                    {.index = 2, .knobs = 2, .value = 5, .ms = 3},
                                    {.index = 2, .knobs = 2, .value = 8, .ms = 1},
                                    {.index = 3, .way = 1, .ms = 4}};

static const char *kept_value(void)
{
    const choice *c = choices_find(rig.tuner, rig.lib.machine, rig.problem.key);
    return c ? c->words : "";
}

static bool keep(const char *words)
{
    const choice made = {.machine = rig.lib.machine, .problem = rig.problem.key, .words = words};
    choice *c;
    return tuner_put(rig.tuner, &made, &c) == BRASA_OK;
}

/* A run goes on with what was chosen so far, and knows nothing else. */
static void go_on(void)
{
    const char *record = in_folder("record");
    CHECK_STATUS(choices_write_record(rig.tuner, record), BRASA_OK);
    next_session(record);
}

/* --- chosen before --------------------------------------------------------------------------------------------- */

/* What won is kept with its configuration, and taken from then on without running anything for it. */
TEST(recalled)
{
    OPEN(usual);
    const outcome first = choose();
    CHECK(first.kept && first.executed > 0);
    CHECK_INT(first.value, 8);
    next_session(NULL);
    const outcome again = choose();
    CHECK(again.kept && again.tells);
    CHECK_INT(again.executed, 0);
    CHECK_INT(again.index, 2);
    CHECK_INT(again.value, 8);
    CHECK_INT(again.told.way[0].nanoseconds, first.told.way[0].nanoseconds);
    CHECK_INT(again.told.way[1].timed, 1);
    CHECK_TEXT(again.told.engine, "2 1=8 2=9");
    CHECK(choices_find(rig.tuner, rig.lib.machine, rig.problem.key)->used); /* for the run's record */
    rig_close();
}

/* In the second way, too. */
TEST(recalled_in_its_way)
{
    static const made_engine engines[] = {{.index = 1, .ms = 2}, {.index = 1, .way = 1, .ms = 1}};
    OPEN(engines);
    CHECK_INT(choose().way, 1);
    const outcome o = choose();
    CHECK_INT(o.executed, 0);
    CHECK_INT(o.way, 1);
    rig_close();
}

/* Each problem and each machine has its own. */
TEST(recalled_for_the_same_alone)
{
    OPEN(usual);
    CHECK(choose().executed > 0);
    rig.problem.key = "another problem";
    CHECK(choose().executed > 0);
    rig.problem.key = "the problem";
    snprintf(rig.lib.machine, sizeof rig.lib.machine, "GPU, cuDNN 9.15.0");
    CHECK(choose().executed > 0);
    CHECK_INT(choose().executed, 0);
    CHECK_INT(rig.tuner->count, 3);
    rig_close();
}

/* A line that cannot be taken, of a file that was edited or an engine that is gone, is timed again, and replaced. */
TEST(what_cannot_be_taken_is_timed_again)
{
    static const char *const lines[] = {
        "nonsense",
        "0",
        "0 2",
        "0 1 | 1 0 1 5 0",
        "0 1 | 1 0 1 5 0 | 1 0 1 5 0 | 1 0 1 5 0",
        "0 1 | 1 0 1 5 0 | 1 0 1 5",
        "0 1 | 1 0 1 5 0 | 1 0 1 5 0 ",
        "0 1 | 1 0 1 5 0 | 1 0 1 5 -1",
        "0 1 1= | 1 0 1 5 0 | 1 0 1 5 0",
        "0 1 1=5x | 1 0 1 5 0 | 1 0 1 5 0",
        "0  1 | 1 0 1 5 0 | 1 0 1 5 0",
        "2 1 | 1 0 1 5 0 | 1 0 1 5 0",
        "-1 1 | 1 0 1 5 0 | 1 0 1 5 0",
        "0 -1 | 1 0 1 5 0 | 1 0 1 5 0",
        "0 99 | 1 0 1 5 0 | 1 0 1 5 0",                  /* no such engine */
        "1 1 | 1 0 1 5 0 | 1 0 1 5 0",                   /* of the other way */
        "0 2 1=7 2=8 | 1 0 1 5 0 | 1 0 1 5 0",           /* not in that configuration */
        "0 9223372036854775808 | 1 0 1 5 0 | 1 0 1 5 0", /* too large a number */
        "0 4 | 1 0 1 5 0 | 1 0 1 5 0",                   /* one that may not be taken */
        "0 5 | 1 0 1 5 0 | 1 0 1 5 0",                   /* with too much workspace */
        "0 6 | 1 0 1 5 0 | 1 0 1 5 0",                   /* of which there is no plan */
    };
    static const made_engine engines[] = {
        {.index = 1, .ms = 2},
        {.index = 2, .knobs = 2, .value = 8, .ms = 1},
        {.index = 4, .ms = 0.5, .notes = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
        {.index = 5, .ms = 0.5, .workspace = 2000},
        {.index = 6, .ms = 0.5, .plans = CUDNN_STATUS_NOT_SUPPORTED},
        {.index = INT64_MAX, .ms = 3}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        CASE("'%s'", lines[i]);
        OPEN(engines);
        rig.problem.most_workspace = 1000;
        REQUIRE(keep(lines[i]));
        const outcome o = choose();
        CHECK(o.executed > 0 && o.kept);
        CHECK_INT(o.index, 2);
        CHECK(strcmp(kept_value(), lines[i]) != 0);
        CHECK_INT(choose().executed, 0);
        rig_close();
    }
}

/* Knobs that are too many to be kept: the engine is taken, and timed again the next time. */
TEST(knobs_are_kept_or_not)
{
    for (int more = 0; more < 2; more++) {
        const made_engine engine = {.index = 1, .knobs = CUDNN_MOST_KNOBS + more, .value = INT64_MAX - 60, .ms = 1};
        CASE("%d", engine.knobs);
        rig_open(&engine, 1);
        for (int turn = 0; turn < 2; turn++) {
            const outcome o = choose();
            CHECK_INT(o.index, 1);
            CHECK(o.kept == !more && o.tells == !more);
            CHECK((o.executed > 0) == (more || !turn));
        }
        rig_close();
    }
}

/* What a record says later of the same problem is not what a plan was made with. */
TEST(plans_tell_of_themselves)
{
    static const char *const names[] = {"alone", "fused"};
    cudnn_plan *plan = NULL;
    device_choice told;
    OPEN(usual);
    CHECK_STATUS(cudnn_choose(&rig.queue, &rig.problem, &plan), BRASA_OK);
    REQUIRE(plan != NULL);
    CHECK(keep("nonsense"));
    CHECK(cudnn_tell_choice(plan, 2, names, &told));
    CHECK_TEXT(told.engine, "2 1=8 2=9");
    cudnn_plan_free(rig.ctx, plan);
    rig_close();
}

/* --- other ways to choose -------------------------------------------------------------------------------------- */

/* Nothing is run and nothing is kept: the first of the first way that may be taken is, or what was chosen before,
 * where that is asked for. */
TEST(without_the_clock)
{
    static const made_engine engines[] = {
        {.index = 7, .ms = 1, .behaves = 1u << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION},
        {.index = 6, .ms = 1, .notes = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
        {.index = 5, .ms = 1, .plans = CUDNN_STATUS_NOT_SUPPORTED},
        {.index = 1, .ms = 3},
        {.index = 2, .ms = 1},
        {.index = 3, .way = 1, .ms = 0.5}};
    static const struct {
        const char *what;
        bool tuner, kept, recorded;
        int64_t index;
    } rows[] = {
        {"nothing is known", true, false, false, 1},
        {"known", true, true, false, 2},
        {"known from a record", true, true, true, 2},
        {"nobody is to be asked", false, true, false, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        OPEN(engines);
        if (rows[i].kept)
            CHECK(keep("0 2 | 2 1 2 5000 0 | 1 0 1 5000 0"));
        if (rows[i].recorded)
            go_on();
        rig.tuner->measure = false;
        rig.problem.tuner = rows[i].tuner ? rig.tuner : NULL;
        const outcome o = choose();
        CHECK_INT(o.index, rows[i].index);
        CHECK_INT(o.executed, 0);
        CHECK_INT(cudart.calls, 0);
        CHECK_INT(fake.planned, o.kept ? 1 : 2); /* no more than it takes */
        CHECK_INT(rig.tuner->count, rows[i].kept);
        CHECK(o.kept == (rows[i].index == 2));
        CHECK(o.tells == o.kept);
        rig_close();
    }
}

/* The second way is right only where it was looked at, and so is never taken unseen. */
TEST(the_second_way_is_not_taken_unseen)
{
    static const made_engine engines[] = {{.index = 3, .way = 1, .ms = 1}};
    for (int i = 0; i < 3; i++) {
        CASE("%s", i == 0 ? "timed" : i == 1 ? "not timed" : "nobody is to be asked");
        OPEN(engines);
        rig.tuner->measure = i == 0;
        rig.problem.tuner = i < 2 ? rig.tuner : NULL;
        cudart.full = "cudaMalloc";
        CHECK_STATUS(choose().status, BRASA_NO_KERNEL);
        rig_close();
    }
}

/* With nothing else, one that is compiled is taken unseen. */
TEST(the_first_may_be_compiled)
{
    static const made_engine engines[] = {
        {.index = 7, .ms = 1, .behaves = 1u << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}};
    OPEN(engines);
    rig.problem.tuner = NULL;
    CHECK_INT(choose().index, 7);
    rig_close();
}

/* --- without memory -------------------------------------------------------------------------------------------- */

/* Where the GPU has no memory to time in, the first plan of the first way is taken, and nothing is kept, so that the
 * next time all are timed. */
TEST(no_memory_on_the_gpu)
{
    static const char *const calls[] = {"cudaMalloc", "cudaEventCreate"};
    for (int i = 0; i < 2; i++) {
        CASE("%s", calls[i]);
        OPEN(usual);
        cudart.full = calls[i];
        const outcome without = choose();
        CHECK_INT(without.index, 1);
        CHECK_INT(without.executed, 0);
        CHECK(!without.kept && !without.tells);
        CHECK_INT(rig.tuner->count, 0);
        cudart.full = NULL;
        const outcome with = choose();
        CHECK_INT(with.index, 2);
        CHECK(with.kept);
        rig_close();
    }
}

/* The host's n-th allocation fails: that is told, and no slower engine is taken, and kept, in place of the best. */
TEST(no_memory_of_the_host)
{
    for (int known = 0; known < 2; known++) {
        int told = 0;
        for (int n = 1, last = 0; !last; n++) {
            CASE("%s, call %d", known ? "known" : "timed", n);
            OPEN(usual);
            if (known)
                CHECK(choose().kept);
            rig.heap.fail_at = rig.heap.calls + n;
            const int at = rig.heap.fail_at;
            const outcome o = choose();
            last = rig.heap.calls < at;
            told += o.status == BRASA_OUT_OF_MEMORY;
            if (o.status == BRASA_OK)
                CHECK_INT(o.value, 8);
            else
                CHECK_HAS(brasa_context_error(rig.ctx), "out of memory");
            CHECK(o.status == BRASA_OK || o.status == BRASA_OUT_OF_MEMORY);
            CHECK(!last || o.kept);
            rig_close();
        }
        CHECK_INT(told, known ? 1 : 4);
    }
}

/* What fails for want of memory may run another time: among the others is chosen for this run alone. What fails for
 * another reason is left out for good. */
TEST(what_failed_in_passing)
{
    enum { LITTLE = 200 << 20 };
    static const struct {
        const char *what;
        made_engine engine;
        cudaError_t error;
        size_t left;
        bool final;
    } rows[] = {
        {"its plan, of the GPU's memory",
         {.plans = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED},
         0,
         0,
         false},
        {"its plan, of the host's", {.plans = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED}, 0, 0, false},
        {"its plan, for good", {.plans = CUDNN_STATUS_NOT_SUPPORTED}, 0, 0, true},
        {"its plan, for good, and there is little memory", {.plans = CUDNN_STATUS_NOT_SUPPORTED}, 0, LITTLE, true},
        {"its run, of the GPU's memory", {.runs = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED}, 0, 0, false},
        {"its run, of the host's", {.runs = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED}, 0, 0, false},
        {"its run, for good", {.runs = CUDNN_STATUS_EXECUTION_FAILED}, 0, 0, true},
        {"its run, while there is little memory", {.runs = CUDNN_STATUS_EXECUTION_FAILED}, 0, LITTLE, false},
        {"CUDA, of memory", {.runs = CUDNN_STATUS_EXECUTION_FAILED_CUDART}, cudaErrorMemoryAllocation, 0, false},
        {"its graph", {.recording = SPOILS_THE_GRAPH}, 0, 0, true},
        {"its result", {.writes = WRITES_WHAT_IS_WRONG}, 0, 0, true},
        {"its result, while there is little memory", {.writes = WRITES_WHAT_IS_WRONG}, 0, LITTLE, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const made_engine well[] = {{.index = 1, .ms = 2}, {.index = 2, .ms = 1}};
        made_engine engines[] = {{.index = 1, .ms = 2}, rows[i].engine};
        engines[1].index = 2;
        engines[1].ms = 1;
        CASE("%s", rows[i].what);
        OPEN(engines);
        fake.error = rows[i].error;
        cudart.left = rows[i].left;
        outcome o = choose();
        CHECK(o.index == 1 && o.kept && o.final == rows[i].final);
        fake.made = well;
        fake.error = cudart.left = 0;
        o = choose(); /* the run stays as it is */
        CHECK(o.index == 1 && !o.executed);
        next_session(NULL);
        o = choose();
        CHECK_INT(o.index, rows[i].final ? 1 : 2);
        CHECK(o.final);
        rig_close();
    }
}

/* Where no engine could be run, the run has none, and goes on so; another one asks again. */
TEST(none_ran)
{
    static const made_engine failing[] = {{.index = 1, .ms = 2, .runs = CUDNN_STATUS_EXECUTION_FAILED},
                                          {.index = 2, .way = 1, .writes = WRITES_WHAT_IS_WRONG}};
    OPEN(failing);
    CHECK_STATUS(choose().status, BRASA_NO_KERNEL);
    fake.made = usual;
    go_on();
    const outcome o = choose();
    CHECK(o.status == BRASA_NO_KERNEL && !o.calls);
    rig.problem.tuner = NULL;
    CHECK_STATUS(choose().status, BRASA_OK);
    next_session(NULL);
    CHECK(choose().final);
    rig_close();
}

/* Nor does one go on with another engine that was begun with one for whose timing there was no memory. */
TEST(recorded_and_not_timed)
{
    static const made_engine large[] = {{.index = 1, .ms = 3, .runs = CUDNN_STATUS_EXECUTION_FAILED},
                                        {.index = 2, .ms = 1, .workspace = 200 << 20}};
    OPEN(large);
    cudart.most = 100 << 20;
    outcome o = choose();
    CHECK(o.index == 2 && o.kept && !o.final);
    go_on();
    o = choose();
    CHECK_INT(o.index, 2);
    rig_close();
}

/* A run that goes on with an engine for which there is no memory does not go on with another one. */
TEST(recorded_and_no_memory)
{
    OPEN(usual);
    CHECK(choose().kept);
    go_on();
    int told = 0;
    for (int n = 1, last = 0; !last; n++) {
        CASE("call %d", n);
        fake.calls = 0;
        fake.fail_at = n;
        const outcome o = choose();
        last = o.calls < n;
        told += o.status == BRASA_OUT_OF_MEMORY;
        if (o.status == BRASA_OK)
            CHECK_INT(o.value, 8);
        else
            CHECK_HAS(brasa_context_error(rig.ctx), "out of memory: cuDNN's engines for 'the problem'");
    }
    CHECK(told > 10);
    fake.fail_at = 0;
    rig_close();
}

/* --- calls that fail ------------------------------------------------------------------------------------------- */

/* cuDNN's n-th call fails for want of memory: something is chosen or nothing, all is given back, and what is kept for
 * good is the best. */
TEST(any_call_of_cudnn_may_fail)
{
    for (int known = 0; known < 2; known++)
        for (int n = 1, last = 0; !last; n++) {
            CASE("%s, call %d", known ? "known" : "timed", n);
            OPEN(usual);
            if (known)
                CHECK(choose().kept);
            fake.fail_at = n;
            const outcome o = choose();
            last = o.calls < n;
            CHECK(o.status == BRASA_OK || o.status == BRASA_NO_KERNEL);
            if (last || o.final)
                CHECK_INT(o.value, 8);
            CHECK(!last || o.final);
            rig_close();
        }
}

/* The same of CUDA's. */
TEST(any_call_of_cuda_may_fail)
{
    for (int memory = 0; memory < 2; memory++)
        for (int n = 1, last = 0; !last; n++) {
            CASE("call %d%s", n, memory ? ", for want of memory" : "");
            OPEN(usual);
            cudart.fail_at = n;
            cudart.fails = memory ? cudaErrorMemoryAllocation : cudaErrorUnknown;
            const outcome o = choose();
            last = cudart.calls < n;
            CHECK_STATUS(o.status, BRASA_OK);
            if (last || (memory && o.final))
                CHECK_INT(o.value, 8);
            CHECK(!last || o.final);
            rig_close();
        }
}

/* There is room for so many descriptors and no more. */
TEST(descriptors_are_bounded)
{
    OPEN(usual);
    cudnn_set s = {.lib = &rig.lib};
    for (int i = 0; i < CUDNN_MOST_DESCRIPTORS; i++)
        CHECK(cudnn_make(&s, CUDNN_BACKEND_TENSOR_DESCRIPTOR) != NULL);
    CHECK_INT(s.status, CUDNN_STATUS_SUCCESS);
    CHECK(!cudnn_make(&s, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
    CHECK_INT(s.status, CUDNN_STATUS_INTERNAL_ERROR);
    cudnn_free(&s);
    rig_close();
}

/* A want of memory is told as such, of the host and of the GPU; all else is an error inside, with cuDNN's words. */
TEST(errors)
{
    static const struct {
        cudnnStatus_t status;
        brasa_status told;
    } rows[] = {
        {CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, BRASA_OUT_OF_MEMORY},
        {CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, BRASA_OUT_OF_MEMORY},
        {CUDNN_STATUS_INTERNAL_ERROR, BRASA_INTERNAL},
        {CUDNN_STATUS_EXECUTION_FAILED, BRASA_INTERNAL},
        {CUDNN_STATUS_NOT_SUPPORTED, BRASA_INTERNAL},
    };
    OPEN(usual);
    CHECK_STATUS(cudnn_fail(&rig.lib, CUDNN_STATUS_SUCCESS, "conv1"), BRASA_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_STATUS(cudnn_fail(&rig.lib, rows[i].status, "conv1"), rows[i].told);
        CHECK_TEXT(brasa_context_error(rig.ctx), "conv1: cuDNN says an error: and why");
    }
    rig_close();
}

#else

TEST(engines)
{
    SKIP("the headers of CUDA and cuDNN are not here");
}

#endif
