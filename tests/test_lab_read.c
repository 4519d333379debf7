/* test_lab_read.c - a campaign from the store into memory, with what the store does not know left open.
 *
 * With BRASA_STORE=file the store is also written there; test_lab_report.py reports from it.
 */
#define _GNU_SOURCE
#include "test.h"
#include "files.h"

#include "lab/results_read.h"

OWNER(pool, *x, pool_free(x))

static brasa_context *ctx;

static void add_row(store *s, int64_t cell, const char *peer, int repeat, double image_s, bool fails)
{
    store_row row = {.cell = cell,
                     .peer = peer,
                     .variant = "",
                     .repeat = repeat,
                     .status = fails ? "failed" : "done",
                     .reason = fails ? "no such layer" : NULL,
                     .started = "2026-11-20 14:03:12",
                     .load_before = 0.01,
                     .fma_gflops = 97,
                     .order = repeat,
                     .framework = peer,
                     .version = "1.0",
                     .detail = repeat == 1   ? "{\"threads\": 2}"
                               : repeat == 2 ? "two threads"
                                             : NULL,
                     .import_s = 1.5,
                     .first_step_s = 0.4,
                     .epoch_s = fails ? NAN : 791 * image_s,
                     .eval_s = NAN,
                     .accuracy = NAN,
                     .loss = 0.9,
                     .peak_rss = 400000000,
                     .peak_pss = -1,
                     .peak_memory = 1500,
                     .peak_swap = 0,
                     .cpu_mean = 1.9,
                     .threads_max = 3,
                     .energy_j = NAN,
                     .energy_why = "not allowed",
                     .monitor_share = 0.003,
                     .tail = fails ? "Traceback\n" : NULL};
    const store_epoch epochs[] = {{1, 791 * image_s * 1.1, 791, 791, 1.0, NAN, NAN, NAN},
                                  {2, 791 * image_s, 791, 791, 0.9, NAN, NAN, NAN},
                                  {3, 791 * image_s * 0.9, 791, 791, 0.8, NAN, NAN, NAN}};
    const store_sample samples[] = {
        {.at = 0, .cpu = 0, .rss = 1000, .pss = -1, .threads = 1, .processes = 1, .phase = "load", .memory = -1},
        {.at = 0.1,
         .cpu = 1.9,
         .rss = 2000,
         .pss = 1500,
         .threads = 3,
         .processes = 2,
         .phase = "epoch",
         .memory = 1500}};
    CHECK_STATUS(
        store_add_row(
            s, &row, &(store_details){.epochs = epochs, .nepochs = fails ? 0 : 3, .samples = samples, .nsamples = 2}),
        BRASA_OK);
}

static void fill(store *s)
{
    static const char *const networks[] = {"alexnet", "vgg16"};
    store_campaign old = {.created = "2026-11-19 10:00:00", .name = "quick"};
    store_campaign c = {.created = "2026-11-20 14:03:11",
                        .name = "study1-cpu",
                        .text = "network alexnet vgg16\n",
                        .scale = "small",
                        .machine = "{\"processor\":\"a CPU\"}",
                        .price_per_hour = 36};
    CHECK_STATUS(store_add_campaign(s, &old), BRASA_OK);
    CHECK_STATUS(store_add_campaign(s, &c), BRASA_OK);
    for (int i = 0; i < 2; i++) {
        store_cell cell = {.campaign = c.id,
                           .key = networks[i],
                           .experiment = "main",
                           .network = networks[i],
                           .data = "synth:fire,n=791",
                           .images = 791,
                           .batch = 1,
                           .epochs = 3,
                           .optimizer = "sgd",
                           .dialect = "torch",
                           .split = "all",
                           .device = "cpu",
                           .precision = "f32",
                           .threads = 2,
                           .json = "{\"view\":\"times\",\"title\":null,\"classes\":3,\"test_images\":30,\"most_"
                                   "frequent\":0.9,\"timing\":true,"
                                   "\"limit\":600.5,\"doubling\":true,\"profile\":false}"};
        CHECK_STATUS(store_add_cell(s, &cell), BRASA_OK);
        for (int repeat = 1; repeat <= 3; repeat++) {
            add_row(s, cell.id, "brasa", repeat, 0.1 + 0.001 * repeat, false);
            add_row(s, cell.id, "pytorch", repeat, 0.2 + 0.001 * repeat, i == 1);
        }
    }
    store_parity same = {
        .campaign = c.id, .peer = "brasa", .variant = "", .network = "alexnet", .status = "same", .worst = 1e-7};
    CHECK_STATUS(store_add_parity(s, &same), BRASA_OK);
    CHECK_STATUS(store_finish_campaign(s, old.id, "2026-11-19 10:01:00"), BRASA_OK);
    CHECK_STATUS(
        store_resume_campaign(s, c.id, "all", &(store_resumed){.at = "2026-11-20 15:00:00", .machine = c.machine}),
        BRASA_OK);
}

static store *open_store(const char *path)
{
    store *s = NULL;
    if (!ctx)
        CHECK_STATUS(brasa_context_new(NULL, &ctx), BRASA_OK);
    CHECK_STATUS(store_open(ctx, path, STORE_WORK, &s), BRASA_OK);
    return s;
}

#ifdef BRASA_SQLITE
TEST(a_campaign)
{
    store *s = open_store(in_folder("lab.db"));
    OWNED(pool) p = {.ctx = ctx};
    store_campaign c;
    lab_results r;
    fill(s);
    REQUIRE(results_find_campaign(s, &p, NULL, &c) == BRASA_OK);
    CHECK_TEXT(c.name, "study1-cpu");
    REQUIRE(results_read(s, &p, &c, &r) == BRASA_OK);
    CHECK(!r.finished && r.cell_count == 2 && r.row_count == 12 && r.parity_count == 1 && r.entry_count == 4);
    CHECK_TEXT(r.cells[0].what.view, "times");
    CHECK_INT(r.cells[0].classes, 3);
    CHECK_CLOSE(r.cells[0].most_frequent, 0.9, 0);
    CHECK(!r.cells[0].what.title);
    CHECK(r.cells[0].what.timing && r.cells[0].what.doubling && !r.cells[0].what.profile);
    CHECK_CLOSE(r.cells[0].what.limit, 600.5, 0);
    CHECK_CLOSE(r.rows[0].image_s, 0.101, 1e-12); /* the median of its epochs */
    CHECK(isnan(r.rows[0].peak_pss) && r.rows[0].peak_rss == 4e8);
    CHECK(r.rows[0].peak_memory == 1500 && r.entries[0].peak_memory.median == 1500); /* two that share 500 */
    CHECK_INT(r.rows[0].sample_count, 2);
    CHECK(r.rows[0].samples[0].memory == 1000 && r.rows[0].samples[1].memory == 1500);
    CHECK(isnan(r.rows[0].samples[0].pss) && r.rows[0].samples[1].pss == 1500 && r.rows[0].samples[1].threads == 3);
    CHECK_CLOSE(r.entries[0].image_s.median, 0.102, 1e-12);
    CHECK_CLOSE(r.rows[0].image_cost, 0.00101, 1e-12); /* a hundredth a second */
    CHECK_CLOSE(r.entries[0].epoch_cost.median, 791 * 0.00102, 1e-12);
    CHECK_INT(r.entries[3].epoch_cost.count, 0);
    CHECK_TEXT(r.entries[3].status, "failed");
    CHECK_TEXT(r.entries[3].row->tail, "Traceback\n");
    REQUIRE(r.resumed_count == 1);
    CHECK_TEXT(r.resumed->at, "2026-11-20 15:00:00");
    CHECK(strcmp(r.resumed->machine, c.machine) == 0 && !*r.resumed->brasa);
    store_close(s);
}

TEST(which_campaign)
{
    store *s = open_store(in_folder("which.db"));
    OWNED(pool) p = {.ctx = ctx};
    store_campaign c;
    CHECK_STATUS(results_find_campaign(s, &p, NULL, &c), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "no campaign in the store yet");
    fill(s);
    fill(s);
    CHECK_STATUS(results_find_campaign(s, &p, "1", &c), BRASA_OK);
    CHECK_INT(c.id, 1);
    CHECK_STATUS(results_find_campaign(s, &p, "quick", &c), BRASA_OK);
    CHECK_INT(c.id, 3); /* the newer one */
    CHECK_STATUS(results_find_campaign(s, &p, "quikc", &c), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "did you mean 'quick'?");
    CHECK_STATUS(results_find_campaign(s, &p, "17", &c), BRASA_NOT_FOUND);
    store_close(s);
}

TEST(a_cell_that_is_no_json)
{
    store *s = open_store(in_folder("bad.db"));
    OWNED(pool) p = {.ctx = ctx};
    lab_results r;
    store_campaign c = {.created = "", .name = "bad"};
    store_cell cell = {.key = "a", .experiment = "", .network = "alexnet", .data = "", .json = "{\"view\": oh"};
    CHECK_STATUS(store_add_campaign(s, &c), BRASA_OK);
    cell.campaign = c.id;
    CHECK_STATUS(store_add_cell(s, &cell), BRASA_OK);
    CHECK(results_read(s, &p, &c, &r) != BRASA_OK);
    CHECK_HAS(brasa_context_error(ctx), "a cell in the store: byte 9");
    store_close(s);
}

TEST(a_store_for_others)
{
    const char *path = getenv("BRASA_STORE");
    if (!path)
        SKIP("BRASA_STORE is not set");
    store *s = open_store(path);
    fill(s);
    store_close(s);
}
#else
TEST(no_sqlite)
{
    (void)fill, (void)open_store;
    SKIP("built without SQLite");
}
#endif
