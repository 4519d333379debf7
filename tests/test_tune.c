/* test_tune.c - kernels chosen by their times: which is taken, and when.
 *
 * Times are pretended where the choice matters. Where they are real, only that a choice was made. */
#define _GNU_SOURCE
#include "test.h"
#include "tune_rig.h"

TEST(fastest_is_taken)
{
    const char *names[MOST_TRIED];
    const int count = candidates(names);
    if (count < 2)
        SKIP(no_choice);
    static const struct {
        const char *name;
        int64_t time, others;
        bool taken; /* or the first one, which is as fast */
        int batch;
    } rows[] = {{"faster", 1000, 2000, true, BATCH},
                {"faster, and long", 200000000, 800000000, true, 64 * BATCH},
                {"a little", 1000, 1050, true, BATCH},
                {"less than noise", 1000, 1010, false, BATCH},
                {"slower", 2000, 1000, false, BATCH}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int i = 0; i < count; i++) {
            CASE("%s: %s", rows[r].name, names[i]);
            fixture f = {.batch = rows[r].batch};
            graph g;
            open_graph(&f);
            tuner *t = new_tuner(&f);
            pretended.fast = names[i];
            pretended.time = rows[r].time;
            pretended.others = rows[r].others;
            CHECK_STATUS(choose(&f, t, &g, true), BRASA_OK);
            const node *n = find_node(&g, "b");
            const bool slower = rows[r].time > rows[r].others;
            const char *wanted = rows[r].taken ? names[i] : slower && i == 0 ? names[1] : names[0];
            REQUIRE(n && n->choice);
            CHECK_TEXT(n->kernel->name, wanted);
            CHECK_INT(n->choice->tried[i].nanoseconds, rows[r].time);
            CHECK(!n->choice->unsettled);
            CHECK(!n->kernel->open == !n->state);
            graph_clear(&g);
            tuner_free(t);
            close_all(&f);
        }
}

/* A product too small for Strassen's algorithm to pay on every machine: it is taken where the clock says so. */
TEST(not_taken_unseen)
{
    fixture f = {.batch = 1};
    const kernel *ours = NULL;
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &f.ctx), BRASA_OK);
    f.g = brasa_graph_new(f.ctx);
    brasa_tensor x = brasa_apply(brasa_input(f.g, "image", 128, 28, 28), "conv 128 1x1 name=b");
    brasa_classify(brasa_flatten(brasa_global_avgpool(x)), 4);
    while ((ours = kernel_next(f.ctx, op_find("conv2d"), F32, ours)))
        if (strstr(ours->name, "strassen") && ours->isa <= f.ctx->isa)
            break;
    tuner *t = new_tuner(&f);
    pretended.fast = ours ? ours->name : "";
    pretended.time = 1000;
    pretended.others = 2000;
    for (int timed = 0; timed < 2 && library_onednn() && ours; timed++) {
        CASE("%s", timed ? "timed" : "unseen");
        graph g;
        CHECK_STATUS(choose(&f, timed ? t : NULL, &g, true), BRASA_OK);
        const node *n = find_node(&g, "b");
        CHECK(n && !strstr(n->kernel->name, "strassen") == !timed);
        CHECK(!timed || (n && n->choice && n->choice->count == 2 && n->choice->best == 1));
        graph_clear(&g);
    }
    tuner_free(t);
    close_all(&f);
    if (!library_onednn() || !ours)
        SKIP(no_choice);
}

/* Beside another busy process: the first runs of layer b wait for a processor, then two of three, or all of them. */
enum { SPOILT = 6000000, SPOILT_FIRST = 20 };

static brasa_status pretend_busy(const step *s, int64_t *nanoseconds)
{
    static const uint32_t golden = 2654435761u;
    const brasa_status status = pretend(s, nanoseconds);
    const uint32_t run = (uint32_t)pretended.runs;
    if (s->in[0].shape.dim[1] == CHANNELS && (run <= SPOILT_FIRST || (run * golden >> 16) % 3))
        *nanoseconds += SPOILT;
    return status;
}

static brasa_status pretend_hopeless(const step *s, int64_t *nanoseconds)
{
    const brasa_status status = pretend(s, nanoseconds);
    *nanoseconds += s->in[0].shape.dim[1] == CHANNELS ? 2 * SPOILT : 0;
    return status;
}

/* Times that something was in the way of are not believed, and where there are no others, not kept. */
TEST(beside_a_busy_process)
{
    const char *names[MOST_TRIED];
    const int count = candidates(names);
    if (count < 2)
        SKIP(no_choice);
    const char *path = in_folder("busy.txt");
    for (int hopeless = 0; hopeless < 2; hopeless++) {
        CASE("%s", hopeless ? "all the time" : "at times");
        fixture f = {0};
        graph g;
        open_graph(&f);
        remove(path);
        const brasa_tuning wish = {.size = sizeof wish, .measure = true, .cache = path, .watch = look_on, .user = &f};
        tuner *t = tuner_with(&f, &wish);
        REQUIRE(t);
        t->run = hopeless ? pretend_hopeless : pretend_busy;
        pretended.fast = names[1];
        pretended.time = 20000;
        pretended.others = 30000;
        pretended.runs = 0;
        CHECK_STATUS(choose(&f, t, &g, true), BRASA_OK);
        const node *n = find_node(&g, "b");
        REQUIRE(n && n->choice);
        CHECK_TEXT(n->kernel->name, names[hopeless ? 0 : 1]);
        CHECK(n->choice->unsettled == hopeless);
        for (int i = 0; i < count && !hopeless; i++)
            CHECK_INT(n->choice->tried[i].nanoseconds, i == 1 ? 20000 : 30000);
        const int all = t->count, runs = pretended.runs;
        CHECK(runs < 200); /* it gives up */
        CHECK_STATUS(tuner_rest(t), BRASA_OK);
        CHECK_INT(kept_in(&f, path), all - hopeless);
        CHECK(!strstr(f.notes, "times of kernels of 1 node did not settle") == !hopeless);
        graph_clear(&g);
        tuner_free(t);
        close_all(&f);
    }
}

/* Reads numbers near one, and leaves none. */
static brasa_status spoil(const step *s, int64_t *nanoseconds)
{
    for (int k = 0; k < s->nin; k++) {
        const float *real = s->in[k].data;
        const char *bytes = s->in[k].data;
        double largest = 0;
        for (int64_t i = 0; s->in[k].format.storage == F32 && i < s->in[k].count; i++)
            largest = !isfinite(real[i]) ? INFINITY : fabsf(real[i]) > largest ? fabsf(real[i]) : largest;
        for (size_t i = 0;
             s->in[k].format.storage != F32 && i < (size_t)s->in[k].count * dtype_size(s->in[k].format.storage); i++)
            largest = bytes[i] ? INFINITY : largest;
        CHECK(largest < 10);
    }
    for (int k = 0; k < s->nout; k++)
        memset(s->out[k].data, 0xFF, (size_t)s->out[k].count * dtype_size(s->out[k].format.storage)); /* NaN, or -1 */
    *nanoseconds = 1000;
    return BRASA_OK;
}

/* What the nodes before left in the memory is no input: that of c lies where b has written. */
TEST(inputs_are_numbers)
{
    if (!has_choice())
        SKIP(no_choice);
    enum { ROOM = 32 << 20 };
    fixture f = {.wide = 2 * CHANNELS};
    graph g;
    open_graph(&f);
    tuner *t = new_tuner(&f);
    void *memory = aligned_alloc(64, ROOM);
    REQUIRE(memory);
    tuner_lend(t, memory, ROOM);
    t->run = spoil;
    CHECK_STATUS(choose(&f, t, &g, true), BRASA_OK);
    CHECK(t->measured > 1);
    graph_clear(&g);
    CHECK(!t->block);
    tuner_free(t);
    free(memory);
    close_all(&f);
}

/* Small nodes run on one thread, and their workspaces are for one: so they must be timed. What is written past them
 * is found by the sanitizers, or by what it destroys. */
TEST(small_nodes_on_many_threads)
{
    static const char *const layers[] = {"conv 16 3x3 pad=1", "conv 4 7x7 stride=2 pad=3"};
    static const int32_t shapes[][3] = {{16, 7, 7}, {3, 26, 46}};
    for (int i = 0; i < 2; i++) {
        CASE("%s", layers[i]);
        brasa_context *ctx = NULL;
        brasa_session *s = NULL;
        const brasa_tuning tuning = {.size = sizeof tuning, .measure = true};
        const brasa_session_options o = {.size = sizeof o, .tuning = &tuning};
        CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = 8), &ctx), BRASA_OK);
        brasa_graph *g = brasa_graph_new(ctx);
        brasa_tensor x = brasa_input(g, "image", shapes[i][0], shapes[i][1], shapes[i][2]);
        for (int k = 0; k < 2; k++)
            x = brasa_relu(brasa_apply(x, "%s", layers[i]));
        brasa_classify(brasa_flatten(x), 4);
        CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
        brasa_session_free(s);
        brasa_graph_free(g);
        brasa_context_free(ctx);
    }
}

/* Layer c is as b, and so it is in the program for evaluation; a, with its three channels, is not. Initial weights
 * make no difference. */
static void share(const char *last)
{
    const char *names[MOST_TRIED];
    const int count = candidates(names);
    fixture f = {.c = last};
    graph train, eval;
    open_graph(&f);
    tuner *t = new_tuner(&f);
    pretended.fast = names[count - 1];
    pretended.time = 1000;
    pretended.others = 3000;
    CHECK_STATUS(choose(&f, t, &train, true), BRASA_OK);
    const node *b = find_node(&train, "b"), *c = find_node(&train, "c");
    CHECK(b && c && b->choice && b->choice == c->choice && b->kernel == c->kernel);
    const int measured = t->measured, runs = pretended.runs;
    CHECK(measured >= 1 && measured <= 2);
    CHECK_STATUS(choose(&f, t, &eval, false), BRASA_OK);
    CHECK_INT(t->measured, measured);
    CHECK_INT(pretended.runs, runs);
    c = find_node(&eval, "c");
    CHECK(c && c->kernel == b->kernel);
    graph_clear(&train);
    graph_clear(&eval);
    tuner_free(t);
    close_all(&f);
}

TEST(equal_nodes_share)
{
    static const char *const last[] = {"c", "c init=he_normal", "c init=constant init_value=0.5"};
    if (!has_choice())
        SKIP(no_choice);
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
        CASE("%s", last[i]);
        share(last[i]);
    }
}

/* Without a tuner, and where it may not measure, it is the first. */
TEST(first_of_the_list)
{
    const char *names[MOST_TRIED];
    const int count = candidates(names);
    if (count < 2)
        SKIP(no_choice);
    static const struct {
        const char *name;
        brasa_tuning tuning;
        brasa_session_options options;
    } rows[] = {{"no measuring", {.measure = false}, {0}},
                {"a plan", {.measure = true}, {.plan_only = true}},
                {"deterministic", {.measure = true}, {.deterministic = true}},
                {"no memory for it", {.measure = true, .memory_limit = 1000}, {0}}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        fixture f = {0};
        CHECK_STATUS(open_session(&f, rows[i].tuning, rows[i].options), BRASA_OK);
        REQUIRE(f.s);
        const node *n = find_node(&f.s->current->graph, "b");
        CHECK(n && !n->choice);
        if (!rows[i].options.deterministic)
            CHECK_TEXT(kernel_of(&f, "b"), names[0]);
        CHECK((f.s->tuner->open >= 2) == (rows[i].tuning.measure && !rows[i].options.deterministic));
        close_all(&f);
    }
}

/* What was measured until then is kept; where that is not possible, the error is still that it was stopped. */
TEST(stops)
{
    if (!has_choice())
        SKIP(no_choice);
    const char *const caches[] = {NULL, in_folder("stopped.txt"), "/dev/null/kernels.txt"};
    for (int i = 0; i < 3; i++) {
        CASE("cache %s", caches[i] ? caches[i] : "none");
        fixture f = {.stop_at = 2};
        const brasa_tuning tuning = {.size = sizeof tuning, .measure = true, .cache = caches[i]};
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){.size = sizeof(brasa_session_options)}),
                     BRASA_WRONG_STATE);
        CHECK_HAS(brasa_context_error(f.ctx), "stopped");
        CHECK(!f.s);
        if (i == 1)
            CHECK_INT(kept_in(&f, caches[i]), 1);
        close_all(&f);
    }
}

static const char *watched; /* a file */
static int lines_seen;

static brasa_status look_into(const step *s, int64_t *nanoseconds)
{
    size_t bytes = 0;
    char *text = read_file(watched, &bytes);
    int lines = -1; /* without the head */
    for (const char *at = text; at && (at = strchr(at, '\n')); at++)
        lines++;
    lines_seen = lines;
    free(text);
    (void)s;
    *nanoseconds = 1000;
    return BRASA_OK;
}

/* Whoever is killed keeps what was measured before. */
TEST(saved_on_the_way)
{
    if (!has_choice())
        SKIP(no_choice);
    watched = in_folder("way.txt");
    for (int patient = 0; patient < 2; patient++) {
        CASE("%s", patient ? "at the end" : "after each node");
        fixture f = {.c = "c bias=no"};
        graph g;
        open_graph(&f);
        remove(watched);
        tuner *t = tuner_with(&f, &SIZED(brasa_tuning, .measure = true, .cache = watched));
        REQUIRE(t);
        t->run = look_into;
        t->patience = patient ? INT64_MAX : 0;
        lines_seen = -1;
        CHECK_STATUS(choose(&f, t, &g, true), BRASA_OK);
        CHECK(patient ? lines_seen == -1 && t->measured > 1 : lines_seen > 0 && !t->measured);
        const int all = t->count;
        CHECK_STATUS(tuner_rest(t), BRASA_OK);
        CHECK_INT(kept_in(&f, watched), all);
        graph_clear(&g);
        tuner_free(t);
        close_all(&f);
    }
}

/* Every allocation fails once. */
TEST(out_of_memory)
{
    const char *cache = in_folder("memory.txt");
    for (int n = 1; n < 5000; n++) {
        fixture f = {.heap = {.fail_at = n}};
        if (n % 2) /* measured from nothing, and beside what is there */
            remove(cache);
        brasa_status status = open_session(&f, SIZED(brasa_tuning, .measure = true, .cache = cache),
                                           (brasa_session_options){.size = sizeof(brasa_session_options)});
        const bool over = f.heap.calls < n;
        CHECK_STATUS(status, over ? BRASA_OK : BRASA_OUT_OF_MEMORY);
        close_all(&f);
        if (over || tests.failed)
            break;
    }
}
