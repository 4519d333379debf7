/* test_cuda_products.c - which of cuBLASLt's algorithms computes a product. No GPU is needed for it, nor the library,
 * for which there are stand-ins (products_rig.h). What is kept of it is test_cuda_products_kept.c's, and what layers
 * make of it test_cuda_dense.c's. */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_CUDA_HOST

#include "products_rig.h"

enum { MILLISECOND = 1000000, LARGEST = 64 * 64 };

static _Alignas(64) char memories[4][LARGEST * sizeof(float)];

/* Starts it on halves, as floats and as what is stored in 16 bits. */
static brasa_status run_plan(const cublaslt_plan *plan, void *workspace)
{
    char *all = memories[0];
    for (size_t i = 0; i < sizeof memories; i++)
        all[i] = i % 2 ? 0x3f : 0;
    return cublaslt_run(plan, memories[0], memories[1], memories[2], memories[3], workspace);
}

/* --- what the clock says ---------------------------------------------------------------------------------------- */

/* The fastest with cold caches is taken, by the middle one of its times; of two as fast, the library's first. */
TEST(fastest)
{
    static const struct {
        const char *what;
        lt_algorithm list[3];
        int taken, milliseconds;
    } rows[] = {
        {"the first", {{.cold = 1}, {.cold = 3}, {.cold = 2}}, 0, 1},
        {"the last", {{.cold = 3}, {.cold = 2}, {.cold = 1}}, 2, 1},
        {"two as fast", {{.cold = 3}, {.cold = 2}, {.cold = 2}}, 1, 2},
        {"one is fast with warm caches", {{.cold = 4, .warm = 1}, {.cold = 2}, {.cold = 3}}, 1, 2},
        {"one is slow at first", {{.cold = 2}, {.cold = 1, .slow = 0x7}, {.cold = 3}}, 1, 1},
        {"one is slow in between", {{.cold = 2}, {.cold = 1, .slow = 0xc}, {.cold = 3}}, 1, 1},
        {"one is slow mostly", {{.cold = 2}, {.cold = 1, .slow = 0xf}, {.cold = 3}}, 0, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        begin(rows[i].list, 3);
        const answer a = ask(LT_NOTHING);
        CHECK_STATUS(a.status, BRASA_OK);
        CHECK_INT(a.taken, rows[i].taken);
        CHECK_INT(a.nanoseconds, rows[i].milliseconds * MILLISECOND);
        CHECK(a.told);
        CHECK_INT(a.choice.way[0].engines, 3);
        CHECK_INT(a.choice.way[0].timed, 3);
        CHECK_INT(a.choice.way[0].nanoseconds, a.nanoseconds);
        tear_down();
    }
}

/* Workspace is not charged, but there is a most of it; what the library was not asked for is not taken. */
TEST(workspace)
{
    static const struct {
        const char *what;
        lt_algorithm list[2];
        int taken, listed;
        size_t bytes;
    } rows[] = {
        {"as much as may be", {{.cold = 2}, {.cold = 1, .workspace = LT_MOST_WORKSPACE}}, 1, 2, LT_MOST_WORKSPACE},
        {"more", {{.cold = 2}, {.cold = 1, .workspace = LT_MOST_WORKSPACE + 1}}, 0, 1, 0},
        {"more, which is listed",
         {{.cold = 2, .workspace = 5}, {.cold = 1, .workspace = LT_MOST_WORKSPACE + 1, .insists = true}},
         0,
         1,
         5},
        {"listed as what cannot be had", {{.cold = 1, .state = CUBLAS_STATUS_NOT_SUPPORTED}, {.cold = 2}}, 1, 1, 0},
        {"aligned as tensors are", {{.cold = 2}, {.cold = 1, .alignment = 64}}, 1, 2, 0},
        {"aligned better", {{.cold = 2}, {.cold = 1, .alignment = 128}}, 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        begin(rows[i].list, 2);
        const answer a = ask(LT_NOTHING);
        CHECK_INT(a.taken, rows[i].taken);
        CHECK_INT(a.choice.way[0].engines, rows[i].listed);
        CHECK_INT(a.choice.way[0].workspace, rows[i].bytes);
        CHECK_INT(a.workspace, rows[i].bytes ? rows[i].bytes + LT_WORKSPACE_ALIGN : 0);
        tear_down();
    }
}

/* A plan is run by what was chosen, with its workspace at an address that the library takes, wherever there is room.
 */
TEST(runs)
{
    static const lt_algorithm list[] = {{.cold = 2}, {.cold = 1, .workspace = 1000}};
    const cublaslt_product p = usual;
    begin(list, 2);
    cublaslt_plan *plan = NULL;
    CHECK_STATUS(cublaslt_plan_new(rig.queue, rig.tuner, &p, &plan), BRASA_OK);
    const size_t bytes = plan ? (size_t)cublaslt_workspace(plan) : 0;
    for (size_t offset = 0; plan && offset < 2 * LT_WORKSPACE_ALIGN; offset += 51) {
        char *block = malloc(offset + bytes);
        rig.last = -1;
        CHECK_STATUS(run_plan(plan, block + offset), BRASA_OK);
        CHECK_INT(rig.last, 1);
        CHECK_INT(rig.workspace_bytes, 1000);
        CHECK(rig.workspace >= block + offset && rig.workspace + 1000 <= block + offset + bytes);
        free(block);
    }
    cublaslt_plan_free(plan);
    tear_down();
}

/* What cannot be run, at once or later, or lacks memory for it, is not taken, however fast it was, and leaves no
 * error behind. */
TEST(some_fail)
{
    static const struct {
        const char *what;
        lt_algorithm fast;
    } rows[] = {
        {"at once", {.cold = 1, .fails = CUBLAS_STATUS_EXECUTION_FAILED}},
        {"for want of memory", {.cold = 1, .fails = CUBLAS_STATUS_ALLOC_FAILED}},
        {"the second time", {.cold = 1, .fails = CUBLAS_STATUS_ALLOC_FAILED, .good = 1}},
        {"the last time", {.cold = 1, .fails = CUBLAS_STATUS_EXECUTION_FAILED, .good = 5}},
        {"when it is started", {.cold = 1, .late = true}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        begin(three, 3);
        rig.algorithm[1] = rows[i].fast;
        const answer a = ask(LT_NOTHING);
        CHECK_INT(a.taken, 2);
        CHECK_INT(a.nanoseconds, 2 * MILLISECOND);
        CHECK_INT(a.choice.way[0].engines, 3);
        CHECK_INT(a.choice.way[0].timed, 2);
        tear_down();
    }
}

/* Only algorithms are taken that add up in floats and give the same bits every time. */
TEST(results_repeat)
{
    static const struct {
        uint32_t scheme;
        int taken;
    } rows[] = {{CUBLASLT_REDUCTION_SCHEME_INPLACE, 0},
                {CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 0},
                {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const lt_algorithm list[] = {{.cold = 2}, {.cold = 1, .scheme = rows[i].scheme}};
        const cublaslt_product p = usual;
        cublaslt_plan *plan = NULL;
        char first[sizeof memories[2]];
        CASE("scheme %u", rows[i].scheme);
        begin(list, 2);
        CHECK_STATUS(cublaslt_plan_new(rig.queue, rig.tuner, &p, &plan), BRASA_OK);
        if (plan) {
            CHECK_INT(lt_index(&plan->best.algorithm), rows[i].taken);
            CHECK_STATUS(run_plan(plan, NULL), BRASA_OK);
            memcpy(first, memories[2], sizeof first);
            CHECK_STATUS(run_plan(plan, NULL), BRASA_OK);
            CHECK(memcmp(first, memories[2], sizeof first) == 0);
        }
        cublaslt_plan_free(plan);
        tear_down();
    }
}

/* Every kind of product is told to the library as it is, and has a choice and a name of its own. */
TEST(kinds)
{
    static const struct {
        cublaslt_product p;
        const char *problem, *name;
    } rows[] = {
        {{48, 32, 40}, "product f32 48x32x40 nn", "product"},
        {{56, 32, 40}, "product f32 56x32x40 nn", "product"},
        {{48, 24, 40}, "product f32 48x24x40 nn", "product"},
        {{48, 32, 16}, "product f32 48x32x16 nn", "product"},
        {{48, 32, 40, .line_b = 64}, "product f32 48x32x40 nn line 64", "product"},
        {{48, 32, 40, .turn_a = true}, "product f32 48x32x40 tn", "product"},
        {{48, 32, 40, .turn_b = true}, "product f32 48x32x40 nt", "product"},
        {{48, 32, 40, .line_b = 64, .turn_b = true}, "product f32 48x32x40 nt line 64", "product"},
        {{48, 32, 40, .bf16 = true}, "product bf16 48x32x40 nn", "product"},
        {{48, 32, 40, .tf32 = true}, "product tf32 48x32x40 nn", "product"},
        {{48, 32, 40, .extra = LT_BIAS}, "product f32 48x32x40 nn bias", "product+bias"},
        {{48, 32, 40, .extra = LT_RELU}, "product f32 48x32x40 nn relu", "product+relu"},
        {{48, 32, 40, .extra = LT_BIAS_RELU}, "product f32 48x32x40 nn bias relu", "product+bias+relu"},
        {{47, 31, 39}, "product f32 47x31x39 nn", "product"},
        {{48, 72, 40, .turn_b = true, .extra = LT_BIAS_GRADIENT},
         "product f32 48x72x40 nt bias gradient",
         "product+bias gradient"},
    };
    begin(three, 3);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cublaslt_plan *plan = NULL;
        CASE("%s", rows[i].problem);
        const answer a = ask_for(rows[i].p);
        CHECK(a.taken == 1 && a.told && a.asked == 1 && a.tries >= 3);
        CHECK_TEXT(a.choice.problem, rows[i].problem);
        CHECK_TEXT(a.choice.name[0], rows[i].name);
        CHECK_INT(a.choice.ways, 1);
        CHECK_INT(strlen(a.choice.engine), 16);
        CHECK_STATUS(cublaslt_plan_new(rig.queue, rig.tuner, &rows[i].p, &plan), BRASA_OK);
        if (!plan)
            continue;
        CHECK_STATUS(run_plan(plan, NULL), BRASA_OK);
        check_same_product(&rig.ran, &rows[i].p);
        CHECK(rig.a == memories[0] && rig.b == memories[1] && rig.d == memories[2]);
        cublaslt_plan_free(plan);
    }
    tear_down();
}

/* --- activations ------------------------------------------------------------------------------------------------ */

/* An algorithm whose activation hides what is not a number is not taken, however a product is chosen; without one it
 * may be. */
TEST(careless_activations)
{
    static const struct {
        const char *what;
        cublaslt_extra extra;
        bool timed;
        lt_algorithm list[3];
        int taken;
    } rows[] = {
        {"relu", LT_RELU, true, {{.cold = 3}, {.cold = 1, .careless = true}, {.cold = 2}}, 2},
        {"bias, relu", LT_BIAS_RELU, true, {{.cold = 3}, {.cold = 1, .careless = true}, {.cold = 2}}, 2},
        {"bias", LT_BIAS, true, {{.cold = 3}, {.cold = 1, .careless = true}, {.cold = 2}}, 1},
        {"one that does nothing", LT_RELU, true, {{.cold = 3}, {.cold = 1, .idle = true}, {.cold = 2}}, 2},
        {"one that is not for the corner",
         LT_RELU,
         true,
         {{.cold = 3}, {.cold = 1, .checked = LT_MOST_WORKSPACE + 1}, {.cold = 2}},
         2},
        {"the first", LT_RELU, false, {{.cold = 1, .careless = true}, {.cold = 3}, {.cold = 2}}, 1},
        {"one that fails", LT_RELU, false, {{.late = true}, {.fails = CUBLAS_STATUS_ALLOC_FAILED}, {1}}, 2},
        {"all",
         LT_RELU,
         true,
         {{.cold = 3, .careless = true}, {.cold = 1, .careless = true}, {.cold = 2, .careless = true}},
         -1},
    };
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof rows[0]); i++) {
        cublaslt_product p = with(rows[i / 2].extra);
        p.bf16 = i % 2;
        CASE("%s, %s", rows[i / 2].what, p.bf16 ? "bf16" : "f32");
        begin(rows[i / 2].list, 3);
        const answer a = ask_with(rows[i / 2].timed ? rig.tuner : NULL, p);
        CHECK_STATUS(a.status, rows[i / 2].taken < 0 ? BRASA_NO_KERNEL : BRASA_OK);
        CHECK_INT(a.taken, rows[i / 2].taken);
        tear_down();
    }
}

/* Whether an activation is done with a large product depends on a corner of it, and not on the memory that is free:
 * where that is too little for the corner, too, there is an error that says so, and the next time there is none. */
TEST(memory_for_activations)
{
    static const lt_algorithm list[] = {{.cold = 2, .careless = true}, {.cold = 3, .workspace = 100}, {.cold = 1}};
    const cublaslt_product p = {.m = 2000, .n = 1000, .k = 3000, .line_b = 4000, .extra = LT_RELU};
    begin(list, 3);
    rig.left = 10 << 20;
    CHECK_STATUS(ask_for(p).status, BRASA_OUT_OF_MEMORY);
    CHECK_HAS(brasa_context_error(ctx), "no memory on the GPU to try an algorithm, which takes 36 MB");
    rig.left = 36 << 20;
    const answer a = ask_for(p);
    CHECK_STATUS(a.status, BRASA_OK);
    CHECK_INT(a.taken, 1);
    CHECK(!a.told && a.nanoseconds == 0);
    tear_down();
}

/* --- without memory, or too large ------------------------------------------------------------------------------- */

/* Where there is no memory on the GPU to time products, the first algorithm is taken, and nothing is kept. */
TEST(no_memory_for_timing)
{
    static const lt_algorithm list[] = {{.cold = 3, .workspace = 100}, {.cold = 1}};
    begin(list, 2);
    rig.left = 90 << 20;
    for (int i = 0; i < 2; i++) { /* and so it stays in this process */
        const answer a = ask(LT_NOTHING);
        CHECK_STATUS(a.status, BRASA_OK);
        CHECK(a.taken == 0 && a.tries == 0 && !a.told && a.nanoseconds == 0);
        CHECK_INT(a.workspace, 100 + LT_WORKSPACE_ALIGN);
        rig.left = SIZE_MAX;
    }
    next_process();
    const answer a = ask(LT_NOTHING);
    CHECK(a.taken == 1 && a.tries > 0 && a.told);
    tear_down();
}

/* The same where a product is too large for that. */
TEST(too_large)
{
    static const struct {
        cublaslt_product p;
        bool timed;
    } rows[] = {
        {{5848, 5848, 5848}, true},
        {{5849, 5849, 5849}, false},
        {{22350, 22350, 1}, true},
        {{22360, 22360, 1}, false},
        {{22360, 22360, 1, .bf16 = true}, true},
        {{1, 22360, 22360}, false},
        {{22360, 1, 22360, .bf16 = true}, true},
        {{31630, 31630, 1, .bf16 = true}, false},
        {{22360, 1, 22360, .turn_a = true}, false},
    };
    begin(three, 3);
    rig.left = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const cublaslt_product p = rows[i].p;
        CASE("%lld x %lld x %lld%s", (long long)p.m, (long long)p.n, (long long)p.k, p.bf16 ? ", bf16" : "");
        rig.wanted = 0;
        const answer a = ask_for(p);
        CHECK(a.taken == 0 && a.tries == 0 && !a.told);
        CHECK_INT(rig.wanted > 0, rows[i].timed);
    }
    tear_down();
}

/* --- errors ----------------------------------------------------------------------------------------------------- */

/* What a run ends with is told in the library's words; want of memory is told as such. */
TEST(errors_of_runs)
{
    static const struct {
        cublasStatus_t fails;
        brasa_status status;
        const char *words;
    } rows[] = {{CUBLAS_STATUS_ALLOC_FAILED, BRASA_OUT_OF_MEMORY, "cuBLASLt: no memory for this"},
                {CUBLAS_STATUS_EXECUTION_FAILED, BRASA_INTERNAL, "cuBLASLt: this went wrong"}};
    const cublaslt_product p = usual;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cublaslt_plan *plan = NULL;
        CASE("%s", rows[i].words);
        begin(three, 3);
        CHECK_STATUS(cublaslt_plan_new(rig.queue, rig.tuner, &p, &plan), BRASA_OK);
        rig.algorithm[1].fails = rows[i].fails;
        if (plan)
            CHECK_STATUS(run_plan(plan, NULL), rows[i].status);
        CHECK_TEXT(brasa_context_error(ctx), rows[i].words);
        cublaslt_plan_free(plan);
        tear_down();
    }
}

/* Any call of CUDA's may fail: the algorithm that it was for is not taken, or none is timed; but for those that give
 * things back. */
TEST(calls_of_cuda_fail)
{
    static const struct {
        cublaslt_extra extra;
        int given_back, refused;
    } rows[] = {{LT_NOTHING, 3, 0}, {LT_BIAS_RELU, 6, 8}};
    for (int i = 0; i < 2; i++) {
        bool enough = false;
        int at = 0, refused = 0, harmless = 0;
        CASE("%s", i ? "bias, relu" : "nothing");
        while (!enough && at++ < 500) {
            begin(three, 3);
            cudart.calls = 0;
            cudart.fail_at = at;
            const answer a = ask(rows[i].extra);
            enough = cudart.calls < at;
            harmless += !enough && a.told && a.choice.way[0].timed == 3;
            refused += a.status == BRASA_OUT_OF_MEMORY || a.status == BRASA_NO_KERNEL;
            if (a.told)
                CHECK(a.choice.way[0].timed == 3 ? a.taken == 1 : a.choice.way[0].timed == 2 && a.taken > 0);
            else if (a.status == BRASA_OK)
                CHECK(a.taken == 0 && !enough);
            tear_down();
        }
        CHECK(enough && at > 80);
        CHECK_INT(harmless, rows[i].given_back);
        CHECK_INT(refused, rows[i].refused);
    }
}

/* What the library cannot make, or be told, for want of memory ends a plan, or an algorithm, without a trace. */
TEST(settings_fail)
{
    static const cublaslt_extra extras[] = {LT_NOTHING, LT_BIAS_RELU};
    for (int i = 0; i < 2; i++) {
        bool enough = false;
        int at = 0, refused = 0;
        CASE("%s", extras[i] ? "bias, relu" : "nothing");
        while (!enough && at++ < 500) {
            begin(three, 3);
            rig.setting_fails = at;
            const answer a = ask(extras[i]);
            enough = rig.settings < at;
            CHECK(a.status == BRASA_OK || (a.status == BRASA_NO_KERNEL && a.taken < 0));
            CHECK(!enough || a.taken == 1);
            refused += a.status != BRASA_OK;
            tear_down();
        }
        CHECK(enough && refused > 10);
    }
}

/* Any allocation of the host's may fail: that is told, or does not matter. */
TEST(host_memory_runs_out)
{
    static const cublaslt_extra extras[] = {LT_NOTHING, LT_BIAS_RELU};
    for (int i = 0; i < 2; i++) {
        bool enough = false;
        int at = 0, refused = 0;
        CASE("%s", extras[i] ? "bias, relu" : "nothing");
        while (!enough && at++ < 500) {
            const cublaslt_product p = with(extras[i]);
            cublaslt_plan *plan = NULL;
            set_up(three, 3);
            memory.calls = 0;
            memory.fail_at = at;
            brasa_status status = rig_open();
            if (status == BRASA_OK)
                status = cublaslt_plan_new(rig.queue, rig.tuner, &p, &plan);
            CHECK(!plan || status == BRASA_OK);
            cublaslt_plan_free(plan);
            rig_close();
            enough = memory.calls < at;
            CHECK(status == BRASA_OK || status == BRASA_OUT_OF_MEMORY);
            CHECK(status == BRASA_OK || strstr(brasa_context_error(ctx), "memory"));
            refused += status != BRASA_OK;
            memory.fail_at = 0;
            tear_down();
        }
        CHECK(enough && refused > 3);
    }
}

/* Products are chosen on the GPU that they are for, whatever the thread has worked with. */
TEST(on_its_gpu)
{
    begin(three, 3);
    cudart_gpu = 1;
    CHECK_INT(ask(LT_NOTHING).taken, 1);
    tear_down();
}

#else

TEST(products)
{
    SKIP("CUDA's headers are not here");
}

#endif
