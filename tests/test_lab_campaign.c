/* test_lab_campaign.c - the loop over cells, peers and repeats, with a fake peer and without data: rows for
 * everything that happens, the gate, resuming, doubling, ends in the middle. */
#define _GNU_SOURCE
#include "lab.h"
#include "counted.h"
#include "lab_python.h"

#include "lab/campaign.h"

#include <sys/wait.h>
#include <unistd.h>

#ifdef BRASA_SQLITE

/* --- a source without data ----------------------------------------------------------------------------------- */

typedef struct fake {
    int opened, closed, compared;
    const char *broken;  /* the key of a cell whose files cannot be made */
    bool full;           /* as the disk is full */
    int64_t most_batch;  /* beyond it a run is out of memory; 0: any */
    bool refuses;        /* at the gate, too, each does what its variant says, and the plain one refuses */
    const lab_cell *now; /* that was opened last */
} fake;

static brasa_status fake_open(void *user, const lab_cell *cell, void **prepared, campaign_info *info)
{
    fake *f = user;
    f->opened++;
    f->now = cell;
    *prepared = f;
    *info = (campaign_info){.key = cell->network, .images = 48, .tests = 12, .classes = 3};
    if (!f->broken || strcmp(f->broken, cell->key) != 0)
        return BRASA_OK;
    info->unwritable = f->full;
    return fail(ctx, BRASA_BAD_FILE, "no such pictures");
}

static brasa_status fake_write(void *prepared, const lab_run *run, bool check, const char *path, account_owed *owed)
{
    const fake *f = prepared;
    const bool large = f->most_batch && run->cell->batch > f->most_batch;
    char text[300];
    snprintf(text, sizeof text, "{\"mode\": \"%s\", \"variant\": \"%s\", \"epochs\": %d}", check ? "check" : "train",
             check && f->refuses                           ? (*run->variant ? run->variant : "refused")
             : check || strcmp(run->variant, "other") == 0 ? "good"
             : large                                       ? "memory_failed"
                                                           : run->variant,
             (int)run->cell->epochs);
    write_file(path, text, strlen(text));
    if (!check)
        *owed = (account_owed){.epochs = run->cell->epochs, .images = 48, .tests = 12};
    return BRASA_OK;
}

static brasa_status fake_compare(void *prepared, pool *p, const process_result *brasa, const process_result *peer,
                                 store_parity *out)
{
    fake *f = prepared;
    f->compared++;
    CHECK(strstr(brasa->output, "\"loss\"") && strstr(peer->output, "\"loss\""));
    const bool other = strcmp(out->variant, "other") == 0;
    out->status = other ? "different" : "same";
    out->worst = other ? 0.5 : 1e-6;
    out->detail = pool_text(p, "%s", other ? "the first difference" : "all the same; one loss is not compared");
    return BRASA_OK;
}

static void fake_close(void *prepared)
{
    if (prepared)
        ((fake *)prepared)->closed++;
}

static const char *python[] = {NULL, "-S", BRASA_SOURCE_DIR "/tests/tools/fake_peer.py", NULL};
static const campaign_peer good = {.name = "fake", .variant = "", .argv = python};

static lab_cell small_cell(const char *key)
{
    lab_cell c = cell_of("net", "synth:x");
    c.key = key;
    c.batch = 8;
    return c;
}

/* Of the running test: its store, and what its campaign came to. */
static store *st;
static campaign_result ran;

static campaign_options options_for(fake *f, const lab_cell *cells, int count, const campaign_peer *peers, int npeers)
{
    return (campaign_options){.store = st,
                              .folder = folder,
                              .name = "test",
                              .text = "network net\n",
                              .scale = "full",
                              .cells = cells,
                              .count = count,
                              .peers = peers,
                              .npeers = npeers,
                              .reference = &good,
                              .source = {fake_open, fake_write, fake_compare, fake_close, f},
                              .look = 0.02};
}

static void open_store(const char *name)
{
    store_close(st);
    if (!CHECK(store_open(ctx, in_folder(name), STORE_WORK, &st) == BRASA_OK))
        printf("%s\n", brasa_context_error(ctx));
}

static void begin(void)
{
    start();
    python[0] = find_python();
}

static void end(void)
{
    store_close(st);
    st = NULL;
    stop();
}

AROUND_EACH(begin, end)

/* All rows of a campaign's cell of this key. */
static store_row *rows_of(int64_t campaign, const char *key, int *count)
{
    store_cell *cells;
    store_row *rows = NULL;
    int ncells;
    *count = 0;
    CHECK_STATUS(store_cells(st, &scratch, campaign, &cells, &ncells), BRASA_OK);
    for (int i = 0; i < ncells; i++)
        if (strcmp(cells[i].key, key) == 0)
            CHECK_STATUS(store_rows(st, &scratch, cells[i].id, &rows, count), BRASA_OK);
    return rows;
}

static int rows_with(const store_row *rows, int count, const char *variant, const char *status)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        found += strcmp(rows[i].variant, variant) == 0 && strcmp(rows[i].status, status) == 0;
    return found;
}

static volatile sig_atomic_t stop_now;
typedef struct watcher {
    int rows, stop_at, starts, number, total;
    bool within; /* stop while a run goes on */
} watcher;

static void watch_it(void *user, const campaign_event *e)
{
    watcher *w = user;
    w->rows += e->kind == CAMPAIGN_ROW;
    w->starts += e->kind == CAMPAIGN_START && !e->check;
    if (w->stop_at && (w->within ? e->kind == CAMPAIGN_LINE && !e->check : e->kind == CAMPAIGN_ROW) &&
        w->rows >= w->stop_at)
        stop_now = 1;
    CHECK(e->number <= e->total && e->number >= w->number);
    w->number = e->number;
    w->total = e->total;
}

/* --- rows ---------------------------------------------------------------------------------------------------- */

TEST(everything_becomes_a_row)
{
    PYTHON_OR_SKIP();
    open_store("rows.db");
    const campaign_peer peers[] = {good,
                                   {.name = "fake", .variant = "refused", .argv = python},
                                   {.name = "fake", .variant = "crash", .argv = python},
                                   {.name = "fake", .variant = "garbage", .argv = python},
                                   {.name = "fake", .variant = "other", .argv = python},
                                   {.name = "absent", .variant = "", .why = "not installed"}};
    lab_cell cells[] = {small_cell("a"), small_cell("b"), small_cell("broken")};
    cells[0].repeats = 2;
    fake f = {.broken = "broken"};
    campaign_options o = options_for(&f, cells, 3, peers, 6);
    watcher w = {0};
    o.event = watch_it;
    o.watcher = &w;
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    CHECK(!ran.stopped);
    CHECK_INT(w.number, 18); /* rows of those who are here, told one by one */
    CHECK_INT(w.total, 18);
    CHECK_INT(ran.done, 3);
    CHECK_INT(f.opened, f.closed);
    CHECK_INT(f.compared, 4); /* one network: each once, but the one that they are compared with */
    int count;
    for (int i = 0; i < 2; i++) {
        const store_row *rows = rows_of(ran.campaign, cells[i].key, &count);
        const int repeats = (int)cells[i].repeats;
        CHECK_INT(count, 3 * repeats + 3);
        CHECK_INT(rows_with(rows, count, "", "done"), repeats);
        CHECK_INT(rows_with(rows, count, "refused", "refused"), 1);
        CHECK_INT(rows_with(rows, count, "crash", "killed"), repeats);
        CHECK_INT(rows_with(rows, count, "garbage", "failed"), repeats);
        CHECK_INT(rows_with(rows, count, "other", "different"), 1);
        for (int k = 0; k < count; k++) {
            const store_row *row = &rows[k];
            const bool runs = strcmp(row->status, "different") != 0 && strcmp(row->peer, "absent") != 0;
            CHECK((row->reason == NULL) == (strcmp(row->status, "done") == 0));
            CHECK(!isnan(row->fma_gflops) == runs && !isnan(row->load_before) == runs);
            if (strcmp(row->status, "different") == 0)
                CHECK_TEXT(row->reason, "the first difference");
            if (strcmp(row->peer, "absent") == 0)
                CHECK_TEXT(row->reason, "not installed");
            if (strcmp(row->status, "done") == 0) {
                CHECK_TEXT(row->framework, "Fake");
                CHECK_CLOSE(row->epoch_s, 0.03, 1e-9);
                CHECK_CLOSE(row->accuracy, 0.75, 1e-9);
                CHECK(row->fma_gflops > 0.1);
            }
        }
    }
    const store_row *rows = rows_of(ran.campaign, "broken", &count);
    CHECK_INT(count, 6);
    for (int i = 0; i < count; i++)
        CHECK_TEXT(rows[i].reason, strcmp(rows[i].peer, "absent") == 0 ? "not installed" : "no such pictures");
    store_campaign *g;
    CHECK_STATUS(store_campaigns(st, &scratch, &g, &count), BRASA_OK);
    CHECK(count == 1 && g->finished);
}

/* A full disk is no cell's fault: nothing is written of it, and there is something to go on with. */
TEST(unwritable_files_end_the_campaign)
{
    PYTHON_OR_SKIP();
    open_store("unwritable.db");
    const lab_cell cells[] = {small_cell("a"), small_cell("broken")};
    fake f = {.broken = "broken", .full = true};
    campaign_options o = options_for(&f, cells, 2, &good, 1);
    campaign_result again;
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_BAD_FILE);
    CHECK_INT(f.opened, f.closed);
    CHECK_INT(ran.rows, 0);
    f.full = false;
    f.broken = NULL;
    o.resume = ran.campaign;
    CHECK_STATUS(campaign_run(ctx, &o, &again), BRASA_OK);
    CHECK_INT(again.rows, 2);
}

/* Where Brasa itself cannot do it nobody can be compared; who has a reason of its own says that one. */
TEST(everybody_says_why)
{
    PYTHON_OR_SKIP();
    open_store("why.db");
    const campaign_peer peers[] = {good,
                                   {.name = "fake", .variant = "failed", .argv = python},
                                   {.name = "fake", .variant = "memory_failed", .argv = python},
                                   {.name = "fake", .variant = "good", .argv = python}};
    const lab_cell cell = small_cell("a");
    fake f = {.refuses = true};
    campaign_options o = options_for(&f, &cell, 1, peers, 4);
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    CHECK_INT(f.compared, 0);
    int count;
    const store_row *rows = rows_of(ran.campaign, "a", &count);
    CHECK_INT(count, 4);
    CHECK_INT(rows_with(rows, count, "", "refused"), 1);
    CHECK_INT(rows_with(rows, count, "failed", "failed"), 1);
    CHECK_INT(rows_with(rows, count, "memory_failed", "memory"), 1);
    CHECK_INT(rows_with(rows, count, "good", "failed"), 1);
    for (int i = 0; i < count; i++)
        CHECK_TEXT(rows[i].reason, strstr(rows[i].variant, "failed") ? "it did not work"
                                   : strcmp(rows[i].variant, "good") == 0
                                       ? "Brasa, which all are compared with: refused: no such device here"
                                       : "no such device here");
}

/* --- order --------------------------------------------------------------------------------------------------- */

/* Peers that do not run have rows at once: enough to see the order. */
TEST(order_is_drawn_for_each_repeat_and_recorded)
{
    enum { PEERS = 8, CELLS = 3 };
    static const char *const names[PEERS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    campaign_peer peers[PEERS];
    for (int i = 0; i < PEERS; i++)
        peers[i] = (campaign_peer){.name = names[i], .variant = "", .why = "no"};
    const lab_cell cells[CELLS] = {small_cell("1"), small_cell("2"), small_cell("3")};
    char drawn[2][CELLS][PEERS + 1];
    memset(drawn, 0, sizeof drawn);
    for (int turn = 0; turn < 2; turn++) {
        open_store(turn ? "order1.db" : "order0.db");
        fake f = {0};
        campaign_options o = options_for(&f, cells, CELLS, peers, PEERS);
        CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
        CHECK_INT(ran.rows, PEERS * CELLS);
        CHECK_INT(ran.runs, 0);
        for (int k = 0; k < CELLS; k++) {
            int count;
            const store_row *rows = rows_of(ran.campaign, cells[k].key, &count);
            REQUIRE(count == PEERS);
            for (int i = 0; i < PEERS; i++) {
                CHECK_INT(rows[i].order, k * PEERS + i + 1);
                drawn[turn][k][i] = rows[i].peer[0];
            }
        }
    }
    for (int k = 0; k < CELLS; k++)
        CHECK_TEXT(drawn[1][k], drawn[0][k]); /* of the seed */
    CHECK(strcmp(drawn[0][0], drawn[0][1]) != 0 && strcmp(drawn[0][1], drawn[0][2]) != 0);
    CHECK(strcmp(drawn[0][0], "abcdefgh") != 0);
}

/* --- stopping and going on ----------------------------------------------------------------------------------- */

TEST(stops_and_goes_on_with_what_is_missing)
{
    PYTHON_OR_SKIP();
    for (int within = 0; within < 2; within++) {
        CASE("%s a run", within ? "within" : "after");
        open_store(within ? "within.db" : "after.db");
        const campaign_peer peers[] = {good, {.name = "fake", .variant = "failed", .argv = python}};
        lab_cell cells[] = {small_cell("a"), small_cell("b")};
        cells[1].folds = 2;
        fake f = {0};
        watcher w = {.stop_at = 3, .within = within};
        campaign_options o = options_for(&f, cells, 2, peers, 2);
        o.event = watch_it;
        o.watcher = &w;
        o.stop = &stop_now;
        campaign_result again;
        stop_now = 0;
        CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
        CHECK(ran.stopped);
        CHECK(ran.rows == 3 || (within && ran.rows == 4)); /* a run that was over before it could be stopped counts */
        stop_now = 0;
        w = (watcher){0};
        campaign_options newer = o;
        newer.stop = NULL;
        newer.event = NULL;
        CHECK_STATUS(campaign_run(ctx, &newer, &again), BRASA_OK); /* of the same text: not the one to go on with */
        o.resume = ran.campaign;
        o.who = "these";
        CHECK_STATUS(campaign_run(ctx, &o, &again), BRASA_OK);
        CHECK_INT(again.campaign, ran.campaign);
        CHECK_INT(again.rows, 6 - ran.rows);
        CHECK_INT(w.starts, 6 - ran.rows);
        CHECK_INT(w.total, 6 - ran.rows);
        CHECK_INT(w.number, w.total);
        CHECK_INT(again.done, 3);
        w = (watcher){0};
        CHECK_STATUS(campaign_run(ctx, &o, &again), BRASA_OK);
        CHECK_INT(again.rows, 0); /* failed rows count as done */
        CHECK_INT(w.total, 0);
        CHECK_INT(again.done, 3);
        o.retry = true;
        CHECK_STATUS(campaign_run(ctx, &o, &again), BRASA_OK);
        CHECK_INT(again.rows, 3); /* unless they shall be tried again */
        int count;
        const store_row *rows = rows_of(ran.campaign, "b", &count);
        CHECK_INT(count, 4);
        CHECK_INT(rows_with(rows, count, "", "done"), 2);
        store_campaign *list;
        CHECK_STATUS(store_campaigns(st, &scratch, &list, &count), BRASA_OK);
        CHECK(count == 2 && list[0].finished && strcmp(list[0].peers, "these") == 0);
        o.resume = 99;
        CHECK_STATUS(campaign_run(ctx, &o, &again), BRASA_NOT_FOUND);
        CHECK_HAS(brasa_context_error(ctx), "no campaign 99");
    }
}

/* Tells its parent of each event. */
static void pass_on(void *user, const campaign_event *e)
{
    const int *to = user;
    if (write(*to, &e->kind, 1) != 1)
        _exit(1);
}

/* Killed when so many events have come from it, or over. */
static void kill_at(pid_t lab, int from, int events)
{
    char event;
    while (events-- > 0 && read(from, &event, 1) == 1)
        ;
    kill(lab, SIGKILL);
    waitpid(lab, NULL, 0);
}

/* In the gate, behind it, and behind the first row. */
TEST(killed_and_gone_on)
{
    static const int events[] = {7, 40, 60};
    PYTHON_OR_SKIP();
    const campaign_peer peers[] = {good, {.name = "fake", .variant = "slow", .argv = python}};
    const lab_cell cells[] = {small_cell("a"), small_cell("b")};
    fake f = {0};
    const char *path = in_folder("kill.db");
    for (int i = 0; i < 3; i++) {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        const pid_t lab = fork();
        if (lab == 0) {
            close(ends[0]);
            if (store_open(ctx, path, STORE_WORK, &st) != BRASA_OK)
                _exit(1);
            campaign_options o = options_for(&f, cells, 2, peers, 2);
            o.resume = i > 0; /* the first one's number is 1 */
            o.event = pass_on;
            o.watcher = &ends[1];
            campaign_run(ctx, &o, &ran);
            _exit(0);
        }
        close(ends[1]);
        kill_at(lab, ends[0], events[i]);
        close(ends[0]);
    }
    open_store("kill.db");
    campaign_options o = options_for(&f, cells, 2, peers, 2);
    o.resume = 1;
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    CHECK(ran.rows > 0 && ran.rows < 4);
    for (int i = 0; i < 2; i++) {
        int count;
        const store_row *rows = rows_of(ran.campaign, cells[i].key, &count);
        CHECK_INT(count, 2);
        CHECK_INT(rows_with(rows, count, "", "done") + rows_with(rows, count, "slow", "done"), 2);
        for (int k = 0; k < count; k++) /* what the gate had to say of who passed it, after all */
            CHECK(!*rows[k].variant || strstr(rows[k].detail, "\"gate\": \"one loss is not compared\""));
    }
}

/* Who has runs to make passes the gate again: meanwhile it may have become another. Who has none is left alone, and a
 * campaign to which nothing is done was not resumed. */
TEST(the_gate_is_passed_again)
{
    PYTHON_OR_SKIP();
    open_store("again.db");
    const campaign_peer both[] = {good, {.name = "fake", .variant = "other", .argv = python}};
    const lab_cell cell = small_cell("a");
    fake f = {0};
    campaign_options o = options_for(&f, &cell, 1, both, 1);
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    o.resume = ran.campaign;
    watcher w = {0};
    o.event = watch_it;
    o.watcher = &w;
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    CHECK(ran.rows == 0 && f.compared == 0 && w.starts == 0); /* nothing is missing */
    store_campaign *list;
    int campaigns;
    CHECK_STATUS(store_finish_campaign(st, ran.campaign, NULL), BRASA_OK); /* as if killed behind the last row */
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    CHECK_STATUS(store_campaigns(st, &scratch, &list, &campaigns), BRASA_OK);
    CHECK(campaigns == 1 && list[0].finished && ran.rows == 0);
    store_resumed *resumed;
    store_parity *gates;
    int count;
    CHECK_STATUS(store_resumes(st, &scratch, ran.campaign, &resumed, &count), BRASA_OK);
    CHECK_INT(count, 0);
    store_parity same = {
        .campaign = ran.campaign, .peer = "fake", .variant = "other", .network = "net", .status = "same"};
    CHECK_STATUS(store_add_parity(st, &same), BRASA_OK); /* it was, then */
    o.npeers = 2;
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    CHECK(ran.rows == 1 && ran.runs == 0 && f.compared == 1);
    CHECK_STATUS(store_parities(st, &scratch, ran.campaign, &gates, &count), BRASA_OK);
    for (int i = 0; i < count; i++)
        CHECK_TEXT(gates[i].status, *gates[i].variant ? "different" : "same");
    CHECK_STATUS(store_resumes(st, &scratch, ran.campaign, &resumed, &count), BRASA_OK);
    CHECK_INT(count, 1);
}

/* Times of two machines do not come together in a campaign; whatever else has changed is kept with it. */
TEST(it_goes_on_where_it_was_begun)
{
    PYTHON_OR_SKIP();
    static const struct {
        const char *machine, *refused, *device;
    } starts[] = {
        {"{\"machine\":{\"cpu\":\"a CPU\",\"threads\":2,\"memory_bytes\":1000},\"gpu\":\"one\"}", NULL},
        {"{\"machine\":{\"cpu\":\"another CPU\",\"threads\":2}}",
         "as the processor tells: 'a CPU' then, 'another CPU' now"},
        {"{\"machine\":{\"cpu\":\"a CPU\",\"threads\":4}}", "as the number of threads tells: '2' then, '4' now"},
        {"{\"machine\":{\"cpu\":\"a CPU\",\"threads\":2,\"memory_bytes\":2000},\"gpu\":\"another\"}", NULL},
        {"no JSON", NULL},
        {"{\"machine\":{\"cpu\":\"a CPU\"},\"gpu\":\"another\"}", "as the GPU tells: 'one' then, 'another' now",
         "cuda"},
    };
    open_store("machines.db");
    lab_cell cell = small_cell("a");
    fake f = {0};
    campaign_options o = options_for(&f, &cell, 1, &good, 1);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        CASE("%s", starts[i].machine);
        o.machine = starts[i].machine;
        cell.repeats = (int64_t)i + 1; /* so that a run is missing */
        cell.device = starts[i].device ? starts[i].device : "cpu";
        const brasa_status status = campaign_run(ctx, &o, &ran);
        CHECK_STATUS(status, starts[i].refused ? BRASA_BAD_ARGUMENT : BRASA_OK);
        if (starts[i].refused)
            CHECK_HAS(brasa_context_error(ctx), starts[i].refused);
        o.resume = 1;
    }
    store_resumed *resumed;
    int count;
    CHECK_STATUS(store_resumes(st, &scratch, 1, &resumed, &count), BRASA_OK);
    REQUIRE(count == 2);
    CHECK_TEXT(resumed[0].machine, starts[3].machine);
    CHECK_HAS(resumed[1].at, "T");
}

/* --- doubling ------------------------------------------------------------------------------------------------ */

static brasa_status double_it(void *user, const lab_cell *cell, lab_cell *out, bool *more)
{
    static char keys[8][8];
    static int used;
    int64_t *most = user;
    *out = *cell;
    out->batch *= 2;
    snprintf(keys[used % 8], sizeof keys[0], "%d", (int)out->batch);
    out->key = keys[used++ % 8];
    *more = out->batch <= *most;
    return BRASA_OK;
}

TEST(batches_double_until_a_run_fails)
{
    PYTHON_OR_SKIP();
    open_store("double.db");
    lab_cell cell = small_cell("8");
    cell.doubling = true;
    fake f = {.most_batch = 16};
    int64_t most = 1024;
    campaign_options o = options_for(&f, &cell, 1, &good, 1);
    o.doubled = double_it;
    o.user = &most;
    watcher w = {0};
    o.event = watch_it;
    o.watcher = &w;
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    CHECK_INT(w.number, 3);
    CHECK_INT(w.total, 3);
    w = (watcher){0};
    CHECK_INT(ran.rows, 3); /* 8, 16, and 32, which is too much */
    int count;
    const store_row *rows = rows_of(ran.campaign, "32", &count);
    REQUIRE(count == 1);
    CHECK_TEXT(rows->status, "memory");
    o.resume = ran.campaign;
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    CHECK_INT(ran.rows, 0);
    most = 16;
    o.resume = 0;
    CHECK_STATUS(campaign_run(ctx, &o, &ran), BRASA_OK);
    CHECK_INT(ran.rows, 2); /* all samples are in a batch of 16 */
}

TEST(memory_runs_out)
{
    const campaign_peer peers[] = {{.name = "x", .variant = "", .why = "no"}};
    const lab_cell cell = small_cell("a");
    open_store("memory.db");
    int refused = 0;
    for (int at = 1; at < 30; at++) {
        fake f = {0};
        campaign_options o = options_for(&f, &cell, 1, peers, 1);
        memory.calls = 0;
        memory.fail_at = at;
        brasa_status status = campaign_run(ctx, &o, &ran);
        CHECK(status == BRASA_OK || status == BRASA_OUT_OF_MEMORY);
        refused += status == BRASA_OUT_OF_MEMORY;
        CHECK_INT(f.opened, f.closed);
    }
    memory.fail_at = 0;
    CHECK(refused > 1);
}

#else

TEST(needs_sqlite)
{
    SKIP("this build has no SQLite");
}

#endif
