/* test_lab_store.c - the lab's store: what goes in comes out; writers that are killed, full disks and foreign files.
 */
#define _GNU_SOURCE
#include "counted.h"

#include "lab/store.h"

#ifdef BRASA_SQLITE
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static store_row example_row(int64_t cell, int64_t repeat)
{
    return (store_row){.cell = cell,
                       .peer = "fake",
                       .variant = "",
                       .repeat = repeat,
                       .status = "done",
                       .started = "2026-11-15 12:00:00",
                       .load_before = 0.25,
                       .fma_gflops = NAN,
                       .order = 3,
                       .epoch_s = 1.5,
                       .accuracy = NAN,
                       .peak_rss = 123456789012,
                       .peak_pss = -1,
                       .tail = "last\n"};
}

static const store_epoch two_epochs[] = {
    {.epoch = 1, .seconds = 1.25, .images = 48, .steps = 3, .loss = 1.1, .accuracy = NAN, .eval_s = 0.5},
    {.epoch = 2, .seconds = 1.75, .images = 48, .steps = 3, .loss = NAN, .accuracy = 0.5, .eval_accuracy = 1},
};

/* Samples of which each knows its number. */
static store_sample *some_samples(int count)
{
    store_sample *s = calloc((size_t)count, sizeof *s);
    for (int i = 0; s && i < count; i++)
        s[i] = (store_sample){.at = 0.1 * i, .rss = i, .pss = -1, .phase = "epoch"};
    return s;
}

static store *opened(const char *path, store_mode mode)
{
    store *s;
    if (store_open(ctx, path, mode, &s) != BRASA_OK) {
        printf("%s\n", brasa_context_error(ctx));
        store_close(s);
        return NULL;
    }
    return s;
}

/* The store of the running test. */
static store *st;

static void end_store(void)
{
    store_close(st);
    st = NULL;
}

static store *anew(const char *path, store_mode mode)
{
    end_store();
    return st = opened(path, mode);
}

static void end(void)
{
    end_store();
    stop();
}

AROUND_EACH(start, end)

/* A campaign with a cell; the number of the cell. */
static int64_t make_cell(store *s)
{
    store_campaign g = {.created = "now",
                        .name = "quick",
                        .text = "network alexnet\n",
                        .scale = "small",
                        .price_per_hour = 0.75,
                        .peers = "brasa",
                        .data = "mine=csv:x"};
    CHECK_STATUS(store_add_campaign(s, &g), BRASA_OK);
    store_cell c = {.campaign = g.id, .key = "a", .experiment = "quick", .network = "alexnet", .batch = 8};
    c.network_hash = "12ab";
    c.data_hash = "34cd";
    CHECK_STATUS(store_add_cell(s, &c), BRASA_OK);
    return c.id;
}

/* The one row of a cell, as the test below wrote it. */
static void check_row(int64_t cell)
{
    store_row *row;
    store_epoch *e;
    store_sample *m;
    store_function *f;
    int count;
    CHECK_STATUS(store_rows(st, &scratch, cell, &row, &count), BRASA_OK);
    REQUIRE(count == 1);
    CHECK_INT(row->cell, cell);
    CHECK_INT(row->peak_rss, 123456789012);
    CHECK_INT(row->peak_pss, -1);
    CHECK_INT(row->order, 3);
    CHECK_CLOSE(row->epoch_s, 1.5, 0);
    CHECK(isnan(row->fma_gflops));
    CHECK_TEXT(row->tail, "last\n");
    CHECK(!row->reason);
    CHECK_STATUS(store_epochs(st, &scratch, row->id, &e, &count), BRASA_OK);
    REQUIRE(count == 2);
    CHECK_CLOSE(e[1].seconds, 1.75, 0);
    CHECK(isnan(e[1].loss) && isnan(e[0].accuracy));
    CHECK_STATUS(store_samples(st, &scratch, row->id, &m, &count), BRASA_OK);
    REQUIRE(count == 100);
    CHECK_INT(m[99].rss, 99);
    CHECK_TEXT(m[99].phase, "epoch");
    CHECK_INT(m[99].gpu_memory, 5000000000);
    CHECK(m[99].gpu_busy == 0.5 && isnan(m[0].gpu_busy));
    CHECK_INT(row->gpu_peak, 6000000000);
    CHECK_TEXT(row->gpu_why, "not readable: power");
    CHECK_STATUS(store_functions(st, &scratch, row->id, &f, &count), BRASA_OK);
    REQUIRE(count == 2);
    CHECK_TEXT(f[0].name, "multiply");
    CHECK(f[0].seconds == 0.25 && f[0].calls == 12 && f[1].calls == -1);
    CHECK(store_add_row(st, row, &(store_details){0}) != BRASA_OK); /* it was opened for reading */
}

TEST(everything_comes_back)
{
    const char *path = in_folder("all.db");
    REQUIRE(anew(path, STORE_WORK));
    store_row r = example_row(make_cell(st), 1);
    store_sample *samples = some_samples(100);
    const store_function functions[] = {{"multiply", 0.25, 12}, {"add", 0.125, -1}};
    samples[99].gpu_memory = 5000000000;
    samples[99].gpu_busy = 0.5;
    samples[0].gpu_busy = NAN;
    r.gpu_peak = 6000000000;
    r.gpu_why = "not readable: power";
    const store_details all = {.epochs = two_epochs,
                               .nepochs = 2,
                               .samples = samples,
                               .nsamples = 100,
                               .functions = functions,
                               .nfunctions = 2};
    CHECK_STATUS(store_add_row(st, &r, &all), BRASA_OK);
    store_parity y = {
        .campaign = 1, .peer = "fake", .variant = "", .network = "alexnet", .status = "same", .worst = 1e-6};
    CHECK_STATUS(store_add_parity(st, &y), BRASA_OK);
    y.status = "different";
    CHECK_STATUS(store_add_parity(st, &y), BRASA_OK); /* once more: replaced */
    CHECK_STATUS(store_finish_campaign(st, 1, "later"), BRASA_OK);
    end_store();

    REQUIRE(anew(path, STORE_READ));
    store_campaign *g;
    store_cell *c;
    store_parity *parity;
    int count;
    CHECK_STATUS(store_campaigns(st, &scratch, &g, &count), BRASA_OK);
    REQUIRE(count == 1);
    CHECK_TEXT(g->text, "network alexnet\n");
    CHECK_TEXT(g->finished, "later");
    CHECK_CLOSE(g->price_per_hour, 0.75, 0);
    CHECK_TEXT(g->peers, "brasa");
    CHECK_TEXT(g->data, "mine=csv:x");
    CHECK(!g->machine);
    CHECK_STATUS(store_parities(st, &scratch, g->id, &parity, &count), BRASA_OK);
    REQUIRE(count == 1);
    CHECK_TEXT(parity->status, "different");
    CHECK_STATUS(store_cells(st, &scratch, g->id, &c, &count), BRASA_OK);
    REQUIRE(count == 1);
    CHECK_INT(c->campaign, g->id);
    CHECK_INT(c->batch, 8);
    CHECK_TEXT(c->network_hash, "12ab");
    CHECK_TEXT(c->data_hash, "34cd");
    check_row(c->id);
    end_store();
    free(samples);
}

TEST(a_row_again_replaces_it_and_its_samples)
{
    REQUIRE(anew(in_folder("again.db"), STORE_WORK));
    const int64_t cell = make_cell(st);
    store_sample *samples = some_samples(50);
    store_row *rows;
    store_sample *m;
    int count;
    for (int64_t repeat = 1; repeat <= 2; repeat++) {
        store_row r = example_row(cell, repeat);
        CHECK_STATUS(
            store_add_row(st, &r,
                          &(store_details){.epochs = two_epochs, .nepochs = 2, .samples = samples, .nsamples = 50}),
            BRASA_OK);
    }
    store_row r = example_row(cell, 1);
    r.status = "failed";
    CHECK_STATUS(store_add_row(st, &r, &(store_details){.samples = samples, .nsamples = 7}), BRASA_OK);
    CHECK_STATUS(store_rows(st, &scratch, cell, &rows, &count), BRASA_OK);
    REQUIRE(count == 2);
    CHECK_TEXT(rows[0].status, "done");
    CHECK_TEXT(rows[1].status, "failed");
    CHECK_STATUS(store_samples(st, &scratch, rows[1].id, &m, &count), BRASA_OK);
    CHECK_INT(count, 7);
    store_cell again = {.campaign = 1, .key = "a", .experiment = "quick"};
    CHECK_STATUS(store_add_cell(st, &again), BRASA_OK);
    CHECK_INT(again.id, cell);
    end_store();
    sqlite3 *db;
    sqlite3_stmt *q;
    REQUIRE(sqlite3_open(in_folder("again.db"), &db) == SQLITE_OK);
    sqlite3_prepare_v2(db, "SELECT (SELECT count(*) FROM sample), (SELECT count(*) FROM epoch)", -1, &q, NULL);
    CHECK(sqlite3_step(q) == SQLITE_ROW);
    CHECK_INT(sqlite3_column_int(q, 0), 57);
    CHECK_INT(sqlite3_column_int(q, 1), 2);
    sqlite3_finalize(q);
    sqlite3_close(db);
    free(samples);
}

/* Whether the file is sound, and every row in it has all of its samples; the number of rows. */
static int sound_rows(const char *path, int samples)
{
    store *s = opened(path, STORE_READ);
    pool p = {.ctx = ctx};
    store_row *rows;
    store_sample *m;
    int count = -1, of_row;
    if (!CHECK(s))
        return -1;
    CHECK_STATUS(store_rows(s, &p, 1, &rows, &count), BRASA_OK);
    for (int i = 0; i < count; i++) {
        CHECK_STATUS(store_samples(s, &p, rows[i].id, &m, &of_row), BRASA_OK);
        CHECK_INT(of_row, samples);
    }
    pool_free(&p);
    store_close(s);
    sqlite3 *db;
    sqlite3_stmt *q;
    if (!CHECK(sqlite3_open(path, &db) == SQLITE_OK))
        return -1;
    CHECK(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &q, NULL) == SQLITE_OK);
    CHECK(sqlite3_step(q) == SQLITE_ROW);
    CHECK_TEXT((const char *)sqlite3_column_text(q, 0), "ok");
    sqlite3_finalize(q);
    sqlite3_close(db);
    return count;
}

/* Writes rows as fast as it can, from `first` on, until it is killed or something fails. */
static void write_rows(const char *path, int first, int samples)
{
    store *s;
    brasa_context *own;
    store_sample *m = some_samples(samples);
    if (brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &own) != BRASA_OK ||
        store_open(own, path, STORE_WORK, &s) != BRASA_OK)
        _exit(2);
    for (int i = first;; i++) {
        store_row r = example_row(1, i);
        if (store_add_row(s, &r,
                          &(store_details){.epochs = two_epochs, .nepochs = 2, .samples = m, .nsamples = samples}) !=
            BRASA_OK) {
            fprintf(stderr, "%s\n", brasa_context_error(own));
            fflush(stderr);
            _exit(3);
        }
    }
}

TEST(killed_writers_leave_whole_rows)
{
    enum { KILLS = 25, SAMPLES = 400 };
    const char *path = in_folder("killed.db");
    REQUIRE(anew(path, STORE_WORK));
    make_cell(st);
    end_store();
    int rows = 0;
    for (int i = 0; i < KILLS; i++) {
        const pid_t child = fork();
        if (child == 0)
            write_rows(path, rows + 1, SAMPLES);
        nanosleep(&(struct timespec){.tv_nsec = 5000000 + 1700000L * i}, NULL);
        kill(child, SIGKILL);
        int how;
        waitpid(child, &how, 0);
        CHECK(WIFSIGNALED(how)); /* else it could not write */
        const int now = sound_rows(path, SAMPLES);
        CHECK(now >= rows);
        rows = now;
    }
    CHECK(rows > 0);
}

TEST(full_disk_leaves_whole_rows)
{
    enum { SAMPLES = 400 };
    const char *path = in_folder("full.db");
    REQUIRE(anew(path, STORE_WORK));
    make_cell(st);
    end_store();
    const pid_t child = fork();
    if (child == 0) { /* no file may be larger than this: not quite a full disk, but writes fail just so */
        struct rlimit most = {300000, 300000};
        signal(SIGXFSZ, SIG_IGN);
        if (!freopen(in_folder("full.txt"), "w", stderr) || setrlimit(RLIMIT_FSIZE, &most) != 0)
            _exit(4);
        write_rows(path, 1, SAMPLES);
    }
    int how;
    waitpid(child, &how, 0);
    CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 3);
    CHECK(sound_rows(path, SAMPLES) > 0);
    size_t bytes;
    char *said = read_file(in_folder("full.txt"), &bytes);
    CHECK_HAS(said, "full.db: ");
    CHECK_HAS(said, "(ulimit -f)");
    free(said);
    REQUIRE(anew(path, STORE_WORK)); /* with room again it goes on */
    store_row r = example_row(1, 1000);
    CHECK_STATUS(store_add_row(st, &r, &(store_details){.epochs = two_epochs, .nepochs = 2}), BRASA_OK);
}

TEST(one_works_others_read)
{
    const char *path = in_folder("two.db");
    store *second, *reader;
    REQUIRE(anew(path, STORE_WORK));
    const int64_t cell = make_cell(st);
    CHECK_STATUS(store_open(ctx, path, STORE_WORK, &second), BRASA_WRONG_STATE);
    CHECK_HAS(brasa_context_error(ctx), "another brasa runs experiments with this store");
    store_close(second);
    REQUIRE((reader = opened(path, STORE_READ)));
    store_row r = example_row(cell, 1);
    CHECK_STATUS(store_add_row(st, &r, &(store_details){0}), BRASA_OK);
    store_row *rows;
    int count;
    CHECK_STATUS(store_rows(reader, &scratch, cell, &rows, &count), BRASA_OK);
    CHECK_INT(count, 1);
    store_close(reader);
    REQUIRE(anew(path, STORE_WORK));
}

static void refused(const char *path, store_mode mode, const char *why)
{
    store *s;
    CASE("%s", why);
    CHECK(store_open(ctx, path, mode, &s) != BRASA_OK);
    CHECK_HAS(brasa_context_error(ctx), why);
    CHECK_HAS(brasa_context_error(ctx), path);
    store_close(s);
}

static void make_database(const char *path, const char *sql)
{
    sqlite3 *db;
    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
}

/* What a store of the versions before did not have. */
static const char *const older[] = {
    "ALTER TABLE campaign RENAME COLUMN price_per_hour TO gone; PRAGMA user_version = 1",
    "DROP TABLE function;"
    "ALTER TABLE sample RENAME COLUMN gpu_memory TO gone0; ALTER TABLE sample RENAME COLUMN gpu_busy TO gone1;"
    "ALTER TABLE sample RENAME COLUMN gpu_power TO gone2; ALTER TABLE \"row\" RENAME COLUMN device_peak TO gone0;"
    "ALTER TABLE \"row\" RENAME COLUMN gpu_peak TO gone1; ALTER TABLE \"row\" RENAME COLUMN gpu_busy TO gone2;"
    "ALTER TABLE \"row\" RENAME COLUMN gpu_power TO gone3; ALTER TABLE \"row\" RENAME COLUMN gpu_energy_j TO gone4;"
    "ALTER TABLE \"row\" RENAME COLUMN gpu_why TO gone5; ALTER TABLE \"row\" RENAME COLUMN profile_steps TO gone6;"
    "ALTER TABLE \"row\" RENAME COLUMN profile_s TO gone7; ALTER TABLE \"row\" RENAME COLUMN profile_why TO gone8;"
    "PRAGMA user_version = 2",
    "ALTER TABLE campaign RENAME COLUMN peers TO gone1;"
    "ALTER TABLE campaign RENAME COLUMN data TO gone2;"
    "PRAGMA user_version = 3",
    "ALTER TABLE \"row\" RENAME COLUMN peak_memory TO gone9; ALTER TABLE sample RENAME COLUMN memory TO gone3;"
    "ALTER TABLE cell RENAME COLUMN network_hash TO gone1;"
    "ALTER TABLE cell RENAME COLUMN data_hash TO gone2;"
    "PRAGMA user_version = 4",
    "DROP TABLE resumed; PRAGMA user_version = 5",
};

/* A store of version 1 has no prices, one of 2 no GPUs, one of 3 does not say who takes part, one of 4 neither what
 * processes share nor what network and data held, one of 5 not when it was resumed; readers find them in this
 * version, too. */
TEST(an_old_store_becomes_a_new_one)
{
    for (store_mode mode = STORE_READ; mode <= STORE_WORK; mode++) {
        CASE("%s", mode == STORE_READ ? "to read" : "to work with");
        const char *path = in_folder(mode == STORE_READ ? "old0.db" : "old1.db");
        REQUIRE(anew(path, STORE_WORK));
        store_row r = example_row(make_cell(st), 1), *rows;
        store_sample *one = some_samples(1), *samples;
        CHECK_STATUS(store_add_row(st, &r, &(store_details){.samples = one, .nsamples = 1}), BRASA_OK);
        free(one);
        end_store();
        for (int i = (int)(sizeof older / sizeof older[0]) - 1; i >= 0; i--)
            make_database(path, older[i]);
        REQUIRE(anew(path, mode));
        store_campaign *g;
        store_cell *cells;
        store_function *functions;
        int count;
        CHECK_STATUS(store_rows(st, &scratch, r.cell, &rows, &count), BRASA_OK);
        REQUIRE(count == 1);
        CHECK(rows->gpu_peak == -1 && isnan(rows->gpu_busy) && !rows->profile_why && rows->peak_rss == r.peak_rss);
        CHECK_INT(rows->peak_memory, -1);
        CHECK_STATUS(store_samples(st, &scratch, rows->id, &samples, &count), BRASA_OK);
        CHECK(count == 1 && samples->gpu_memory == -1 && samples->memory == -1 && isnan(samples->gpu_power));
        CHECK_STATUS(store_functions(st, &scratch, rows->id, &functions, &count), BRASA_OK);
        CHECK_INT(count, 0);
        CHECK_STATUS(store_campaigns(st, &scratch, &g, &count), BRASA_OK);
        REQUIRE(count == 1);
        CHECK_TEXT(g->name, "quick");
        CHECK(isnan(g->price_per_hour) && !g->peers && !g->data);
        store_resumed *resumed;
        CHECK_STATUS(store_resumes(st, &scratch, g->id, &resumed, &count), BRASA_OK);
        CHECK_INT(count, 0);
        CHECK_STATUS(store_cells(st, &scratch, g->id, &cells, &count), BRASA_OK);
        CHECK(count == 1 && !cells->network_hash && !cells->data_hash);
        REQUIRE(anew(path, STORE_WORK)); /* and stays one */
        make_cell(st);
        end_store();
    }
}

/* Also by somebody who may not write into it, and then the file stays as it is. */
TEST(an_old_store_of_somebody_else_is_read)
{
    enum { NOBODY = 65534 };
    const char *path = in_folder("theirs.db");
    REQUIRE(anew(path, STORE_WORK));
    make_cell(st);
    end_store();
    for (int i = (int)(sizeof older / sizeof older[0]) - 1; i >= 0; i--)
        make_database(path, older[i]);
    size_t bytes = 0, after = 0;
    char *before = read_file(path, &bytes);
    chmod(path, 0444);
    const bool root = geteuid() == 0; /* who may write everywhere */
    if (root && (chmod(in_folder("."), 0755) != 0 || seteuid(NOBODY) != 0))
        SKIP("root cannot be somebody else here");
    anew(path, STORE_READ);
    if (root)
        CHECK_INT(seteuid(0), 0);
    store_campaign *g;
    store_resumed *resumed;
    int count;
    if (CHECK(st != NULL)) {
        CHECK_STATUS(store_campaigns(st, &scratch, &g, &count), BRASA_OK);
        REQUIRE(count == 1);
        CHECK_STATUS(store_resumes(st, &scratch, g->id, &resumed, &count), BRASA_OK);
        CHECK_INT(count, 0);
    }
    char *now = read_file(path, &after);
    CHECK(before && now && after == bytes && memcmp(now, before, bytes) == 0);
    free(before);
    free(now);
}

TEST(what_is_no_store_is_refused)
{
    write_file(in_folder("text.db"), "this is a text, long enough not to be taken for an empty file", 61);
    write_file(in_folder("empty.db"), "", 0);
    make_database(in_folder("other.db"), "CREATE TABLE t(a)");
    store_close(opened(in_folder("newer.db"), STORE_WORK));
    make_database(in_folder("newer.db"), "PRAGMA user_version = 7");
    for (store_mode mode = STORE_READ; mode <= STORE_GO_ON; mode++) {
        refused(in_folder("text.db"), mode, "no store of the lab");
        refused(in_folder("other.db"), mode, "of another program");
        refused(in_folder("newer.db"), mode, "its version is 7, this one knows 6");
        refused(in_folder("none/x.db"), mode, "No such file");
    }
    for (int i = 0; i < 2; i++) {
        const store_mode mode = i ? STORE_GO_ON : STORE_READ;
        refused(in_folder("missing.db"), mode, "No such file");
        refused(in_folder("empty.db"), mode, "no results yet");
    }
    CHECK(access(in_folder("missing.db"), F_OK) != 0);
    refused(in_folder("."), STORE_WORK, "directory");
    size_t bytes = 0;
    char *text = read_file(in_folder("text.db"), &bytes);
    CHECK_INT(bytes, 61); /* nobody wrote to it */
    free(text);
}

/* A store whose pages were cut off or written over: an error or rows, never a crash. */
TEST(damaged_files_are_told)
{
    const char *path = in_folder("damaged.db");
    REQUIRE(anew(path, STORE_WORK));
    const int64_t cell = make_cell(st);
    store_sample *m = some_samples(500);
    store_row r = example_row(cell, 1);
    CHECK_STATUS(
        store_add_row(st, &r, &(store_details){.epochs = two_epochs, .nepochs = 2, .samples = m, .nsamples = 500}),
        BRASA_OK);
    end_store();
    size_t bytes;
    char *whole = read_file(path, &bytes);
    REQUIRE(whole);
    int told = 0;
    for (size_t at = 100; at < bytes; at += 1024) {
        char *copy = malloc(bytes);
        REQUIRE(copy);
        memcpy(copy, whole, bytes);
        for (size_t i = at; i < at + 64 && i < bytes; i++)
            copy[i] = (char)(i * 7);
        write_file(in_folder("copy.db"), copy, bytes);
        free(copy);
        store_row *rows;
        store_sample *some;
        int count;
        brasa_status status = store_open(ctx, in_folder("copy.db"), STORE_READ, &st);
        if (status == BRASA_OK)
            status = store_rows(st, &scratch, cell, &rows, &count);
        if (status == BRASA_OK && count)
            status = store_samples(st, &scratch, rows[0].id, &some, &count);
        told += status != BRASA_OK;
        end_store();
    }
    CHECK(told > 0);
    free(whole);
    free(m);
}

TEST(memory_runs_out)
{
    int reached = 0;
    const char *path = in_folder("memory.db");
    REQUIRE(anew(path, STORE_WORK));
    make_cell(st);
    for (int at = 1; at < 40; at++) {
        pool p = {.ctx = ctx};
        store_campaign *g;
        int count;
        memory.calls = 0;
        memory.fail_at = at;
        brasa_status status = store_campaigns(st, &p, &g, &count);
        CHECK(status == BRASA_OK || status == BRASA_OUT_OF_MEMORY);
        reached += status == BRASA_OUT_OF_MEMORY;
        pool_free(&p);
    }
    CHECK(reached > 0);
    memory.fail_at = 0;
}

#else

TEST(says_that_there_is_no_sqlite)
{
    start();
    store *s;
    CHECK(store_open(ctx, in_folder("x.db"), STORE_WORK, &s) != BRASA_OK);
    CHECK_HAS(brasa_context_error(ctx), "built without SQLite");
    store_close(s);
    stop();
}

#endif
