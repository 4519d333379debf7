/* test_tune.c - kernels chosen by their times: which is taken, what is kept, and what a file of choices may look
 * like.
 *
 * Times are pretended where the choice matters. Where they are real, only that a choice was made, kept and found. */
#define _GNU_SOURCE
#include "test.h"
#include "files.h"
#include "heap.h"

#include "core/random.h"
#include "train/session.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef POOL_SEPARATE /* the sanitized build, which is slow: see pool.c */
enum { LARGE_FILE = 20000, LARGE_SECONDS = 10 };
#else
enum { LARGE_FILE = 100000, LARGE_SECONDS = 1 };
#endif

/* Two equal convolutions behind a first one: large enough to be worth a time, small enough for a test. */
static const char net[] = "conv %d 3x3 pad=1 name=%s";
enum { CHANNELS = 32, SIDE = 20, BATCH = 2 };

static void build(brasa_graph *g, int wide, const char *c)
{
    brasa_tensor x = brasa_input(g, "image", 3, SIDE, SIDE);
    x = brasa_relu(brasa_apply(x, net, CHANNELS, "a"));
    x = brasa_relu(brasa_apply(x, net, wide, "b"));
    x = brasa_relu(brasa_apply(x, net, CHANNELS, c));
    brasa_classify(brasa_flatten(brasa_global_avgpool(x)), 4);
}

typedef struct fixture {
    heap heap;
    brasa_context *ctx;
    brasa_graph *g;
    brasa_session *s;
    int timed, stop_at; /* nodes; 0: never */
    int wide;           /* channels of layer b; 0: as the others */
    const char *c;      /* the last layer's name and settings; NULL: as the others */
    int batch;          /* of programs whose times are pretended; 0: BATCH */
    char notes[1000];
} fixture;

static bool look_on(void *user, int64_t done, int64_t total, const char *note)
{
    fixture *f = user;
    CHECK(done >= 0 && done <= total);
    if (note)
        strncat(f->notes, note, sizeof f->notes - strlen(f->notes) - 1);
    else
        f->timed++;
    return !f->stop_at || f->timed < f->stop_at;
}

static void open_graph(fixture *f)
{
    brasa_context_options c = {.threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &f->heap};
    f->ctx = NULL;
    f->g = NULL;
    if (brasa_context_new(&c, &f->ctx) == BRASA_OK && (f->g = brasa_graph_new(f->ctx)))
        build(f->g, f->wide ? f->wide : CHANNELS, f->c ? f->c : "c");
}

/* A session; f->timed counts anew. */
static brasa_status open_session(fixture *f, brasa_tuning tuning, brasa_session_options o)
{
    tuning.watch = look_on;
    tuning.user = f;
    f->timed = 0;
    f->notes[0] = '\0';
    open_graph(f);
    o.batch = BATCH;
    o.tuning = &tuning;
    return f->g ? brasa_session_new(f->g, &o, &f->s) : BRASA_OUT_OF_MEMORY;
}

static void close_all(fixture *f)
{
    brasa_session_free(f->s);
    brasa_graph_free(f->g);
    brasa_context_free(f->ctx);
    CHECK_INT(f->heap.live, 0);
    f->s = NULL;
}

static const node *find_node(const graph *g, const char *layer)
{
    for (int i = 0; i < g->nnodes; i++)
        if (strcmp(g->nodes[i].name, layer) == 0 && g->nodes[i].op == op_find("conv2d"))
            return &g->nodes[i];
    return NULL;
}

static const char *kernel_of(const fixture *f, const char *layer)
{
    const node *n = f->s ? find_node(&f->s->current->graph, layer) : NULL;
    return n ? n->kernel->name : "";
}

/* --- pretended times ----------------------------------------------------------------------------------------------
 */

static struct {
    const char *fast; /* whose name has this */
    int64_t time, others;
    int runs;
} pretended;

static brasa_status pretend(const step *s, int64_t *nanoseconds)
{
    pretended.runs++;
    *nanoseconds = strcmp(s->kernel->name, pretended.fast) == 0 ? pretended.time : pretended.others;
    return BRASA_OK;
}

/* The forward pass with the kernels that a tuner chooses. */
static brasa_status choose(const fixture *f, tuner *t, graph *g, bool training)
{
    graph_init(g, f->ctx);
    g->tuner = t;
    brasa_status status = pass_lower(g, f->g, f->batch ? f->batch : BATCH, training);
    if (status == BRASA_OK)
        status = pass_fuse(g);
    return status == BRASA_OK ? pass_select(g, NULL) : status;
}

static tuner *new_tuner(const fixture *f)
{
    tuner *t = NULL;
    CHECK_STATUS(tuner_new(f->ctx, &(brasa_tuning){.measure = true}, &t), BRASA_OK);
    if (t)
        t->run = pretend;
    return t;
}

/* The kernels that layer b can choose from; how many. */
static int candidates(const char *names[MOST_TRIED])
{
    fixture f = {0};
    graph g;
    int count = 0;
    open_graph(&f);
    tuner *t = new_tuner(&f);
    pretended.fast = "";
    pretended.others = 1000;
    CHECK_STATUS(choose(&f, t, &g, true), BRASA_OK);
    const node *n = find_node(&g, "b");
    for (; n && n->choice && count < n->choice->count; count++)
        names[count] = n->choice->tried[count].kernel; /* static texts of the kernels' */
    graph_clear(&g);
    tuner_free(t);
    close_all(&f);
    return count;
}

static const char no_choice[] = "this build has one fast kernel for a convolution";

static bool has_choice(void)
{
    const char *names[MOST_TRIED];
    return candidates(names) > 1;
}

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
    CHECK_STATUS(brasa_context_new(&(brasa_context_options){.threads = 1}, &f.ctx), BRASA_OK);
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

/* Choices for this machine in a file. */
static int kept_in(const fixture *f, const char *path)
{
    tuner *t = NULL;
    CHECK_STATUS(tuner_new(f->ctx, &(brasa_tuning){.cache = path}, &t), BRASA_OK);
    const int count = t ? t->count : -1;
    tuner_free(t);
    return count;
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
        tuner *t = NULL;
        open_graph(&f);
        remove(path);
        const brasa_tuning wish = {.measure = true, .cache = path, .watch = look_on, .user = &f};
        CHECK_STATUS(tuner_new(f.ctx, &wish, &t), BRASA_OK);
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
        for (int64_t i = 0; s->in[k].type == F32 && i < s->in[k].count; i++)
            largest = !isfinite(real[i]) ? INFINITY : fabsf(real[i]) > largest ? fabsf(real[i]) : largest;
        for (size_t i = 0; s->in[k].type != F32 && i < (size_t)s->in[k].count * dtype_size(s->in[k].type); i++)
            largest = bytes[i] ? INFINITY : largest;
        CHECK(largest < 10);
    }
    for (int k = 0; k < s->nout; k++)
        memset(s->out[k].data, 0xFF, (size_t)s->out[k].count * dtype_size(s->out[k].type)); /* NaN, or -1 */
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
        const brasa_tuning tuning = {.measure = true};
        const brasa_session_options o = {.tuning = &tuning};
        CHECK_STATUS(brasa_context_new(&(brasa_context_options){.threads = 8}, &ctx), BRASA_OK);
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
                {"no memory for it", {.measure = true, .most_bytes = 1000}, {0}}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        fixture f = {0};
        CHECK_STATUS(open_session(&f, rows[i].tuning, rows[i].options), BRASA_OK);
        REQUIRE(f.s);
        const node *n = find_node(&f.s->current->graph, "b");
        CHECK(n && !n->choice);
        if (!rows[i].options.deterministic)
            CHECK_TEXT(kernel_of(&f, "b"), names[0]);
        CHECK(!f.s->tuner == rows[i].options.deterministic);
        CHECK(!f.s->tuner || f.s->tuner->open >= 2);
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
        const brasa_tuning tuning = {.measure = true, .cache = caches[i]};
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){0}), BRASA_WRONG_STATE);
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
        tuner *t = NULL;
        open_graph(&f);
        remove(watched);
        CHECK_STATUS(tuner_new(f.ctx, &(brasa_tuning){.measure = true, .cache = watched}, &t), BRASA_OK);
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

/* --- files ---------------------------------------------------------------------------------------------------------
 */

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
    const brasa_tuning tuning = {.measure = true, .cache = cache};
    const brasa_session_options plain = {0};
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
    CHECK_STATUS(open_session(&f, (brasa_tuning){.cache = cache}, plain), BRASA_OK);
    CHECK(strcmp(kernel_of(&f, "b"), first) != 0);
    const node *n = find_node(&f.s->current->graph, "b");
    CHECK(n && n->choice && strcmp(n->choice->tried[n->choice->best].kernel, n->kernel->name) == 0);
    float image[BATCH * 3 * SIDE * SIDE] = {0}, loss = NAN;
    CHECK_STATUS(brasa_train_step(f.s, image, (int32_t[BATCH]){0, 1}, &loss), BRASA_OK);
    CHECK(isfinite(loss));
    close_all(&f);
    CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){.kernels = first}), BRASA_OK);
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
    const brasa_tuning tuning = {.measure = true, .cache = cache};
    fixture f = {0};
    CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){0}), BRASA_OK);
    const int timed = f.timed;
    close_all(&f);
    edit_file(cache, "1 thread\t", "7 thread\t");
    CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){0}), BRASA_OK);
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
    CHECK_STATUS(open_session(&f, (brasa_tuning){.measure = true, .cache = cache}, (brasa_session_options){0}),
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
        const brasa_tuning tuning = {.measure = true, .cache = with_cache ? cache : NULL, .record = record};
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){0}), BRASA_OK);
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
    CHECK_STATUS(open_session(&f, (brasa_tuning){.measure = true}, (brasa_session_options){0}), BRASA_OK);
    snprintf(first, sizeof first, "%s ", kernel_of(&f, "b"));
    snprintf(slower, sizeof slower, "%s9", first);
    CHECK_STATUS(brasa_session_save_tuning(f.s, record), BRASA_OK);
    close_all(&f);
    edit_file(record, first, slower); /* a digit more */
    edit_file(record, "*", "*gone 1\t");
    CHECK_STATUS(open_session(&f, (brasa_tuning){.record = record}, (brasa_session_options){0}), BRASA_OK);
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
        const brasa_tuning tuning = {.measure = true, .cache = paths[i]};
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){0}), BRASA_OK);
        CHECK(f.s);
        if (f.timed)
            CHECK_HAS(f.notes, "times of kernels are not kept");
        close_all(&f);
    }
}

/* Lines that are not just so. In each file the last one is good, and stands. */
TEST(bad_lines)
{
    static const char *const lines[] = {"",
                                        "\t",
                                        "\t\t\t",
                                        "m",
                                        "m\tn",
                                        "m\tn\t*a 1",
                                        "m\tn\ta 1\tb 2",
                                        "m\tn\t*a 1\t*b 2",
                                        "m\tn\t*a\tb 2",
                                        "m\tn\t*a 1 \tb 2",
                                        "m\tn\t*a -1\tb 2",
                                        "m\tn\t*a 0\tb 2",
                                        "m\tn\t*a 1234567890123456789\tb 2",
                                        "m\tn\t*A 1\tb 2",
                                        "m\tn\t* 1\tb 2",
                                        "m\tn\t*a 1\t\tb 2",
                                        "m\t\t*a 1\tb 2",
                                        "m\001\tn\t*a 1\tb 2",
                                        "m\tn\xff\t*a 1\tb 2",
                                        "m\tn\t*a 1\tb 2\tc 3\td 4\te 5\tf 6\tg 7\th 8\ti 9",
                                        "m\tn\t*a 1\tb 2\r"};
    static const char good[] = "this\tnode\t*one_kernel 12\tother 34\n";
    enum { LINES = sizeof lines / sizeof lines[0] };
    const char *path = in_folder("bad.txt");
    fixture f = {0};
    open_graph(&f);
    for (size_t i = 0; i <= LINES; i++) { /* at last, one that begins with a zero */
        CASE("line %zu", i + 1);
        char text[1000];
        const char *note = NULL;
        const int length = snprintf(text, sizeof text, "brasa kernels 1\n%s\n%s", i < LINES ? lines[i] : "?", good);
        char *zero = i < LINES ? NULL : strchr(text, '?');
        if (zero)
            *zero = '\0';
        write_file(path, text, (size_t)length);
        tuner *t = new_tuner(&f);
        CHECK_STATUS(tune_read(t, path, true, &note), BRASA_OK);
        CHECK_HAS(note ? note : "", "1 line is not");
        REQUIRE(t->count == 1);
        CHECK_TEXT(t->choices[0]->tried[1].kernel, "other");
        CHECK_INT(t->choices[0]->tried[0].nanoseconds, 12);
        CHECK_INT(t->choices[0]->best, 0);
        tuner_free(t);
    }
    close_all(&f);
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
        const brasa_tuning tuning = {.measure = true, .cache = path};
        size_t bytes = 0;
        fixture f = {0};
        write_file(path, texts[i], strlen(texts[i]));
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){0}), BRASA_OK);
        CHECK_HAS(f.notes, "passed over");
        CHECK_HAS(f.notes, "times of kernels are not kept");
        CHECK(!tune_writable(f.ctx, path));
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
    CHECK_STATUS(open_session(&f, (brasa_tuning){.measure = true, .cache = path}, (brasa_session_options){0}),
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
        const brasa_tuning tuning = {.measure = true, .cache = path};
        write_file(path, texts[i], strlen(texts[i]));
        fixture f = {0};
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){0}), BRASA_OK);
        CHECK_HAS(f.notes, "passed over");
        CHECK(f.timed > 0);
        close_all(&f);
        CHECK_STATUS(open_session(&f, tuning, (brasa_session_options){0}), BRASA_OK);
        CHECK_TEXT(f.notes, "");
        CHECK_INT(f.timed, 0);
        close_all(&f);
    }
}

/* Any bytes whatever: no crash, no leak, and what is taken from them is as it should be. */
TEST(spoilt_files)
{
    static const char good[] = "brasa kernels 1\nthis\tnode\t*one_kernel 12\tother 34\nthat\tnode\tone 12\t*two 34\n";
    const random_stream random = {.seed = 3, .purpose = RANDOM_TEST};
    const char *path = in_folder("spoilt.txt");
    fixture f = {0};
    uint64_t drawn = 0;
    open_graph(&f);
    for (int i = 0; i < 2000; i++) {
        char text[sizeof good];
        const char *note = NULL;
        memcpy(text, good, sizeof good);
        for (int k = 0; k < 1 + i % 5; k++) {
            const size_t at = (size_t)random_uniform(&random, drawn++, 0, (double)sizeof good - 1);
            text[at] = (char)random_uniform(&random, drawn++, 0, 256);
        }
        write_file(path, text, sizeof good - 1 - (i % 7 == 0 ? (size_t)i % 50 : 0));
        tuner *t = new_tuner(&f);
        CHECK_STATUS(tune_read(t, path, true, &note), BRASA_OK);
        for (int c = 0; c < t->count; c++)
            CHECK(t->choices[c]->count >= 2 && t->choices[c]->best >= 0 &&
                  t->choices[c]->best < t->choices[c]->count);
        tuner_free(t);
    }
    close_all(&f);
}

/* The oldest give way. */
TEST(files_are_bounded)
{
    fixture f = {0};
    const char *path = in_folder("bounded.txt");
    open_graph(&f);
    tuner *t = new_tuner(&f);
    for (int i = 0; i < TUNE_MOST_CHOICES + 10; i++) {
        char key[40];
        snprintf(key, sizeof key, "node %d", i);
        choice *c = tuner_add(t, t->machine, key);
        REQUIRE(c);
        *c = (choice){.machine = c->machine, .node = c->node, .hash = c->hash, .count = 2, .fresh = true};
        c->tried[0] = (tried){"a", 1};
        c->tried[1] = (tried){"b", 2};
    }
    CHECK_STATUS(tune_write(t, path), BRASA_OK);
    tuner_free(t);
    t = new_tuner(&f);
    const char *note = NULL;
    CHECK_STATUS(tune_read(t, path, false, &note), BRASA_OK);
    CHECK(!note);
    CHECK_INT(t->count, TUNE_MOST_CHOICES);
    CHECK_TEXT(t->choices[0]->node, "node 10");
    tuner_free(t);
    close_all(&f);
}

/* A file of many machines, larger than we would write it: not every pair of its lines is compared. */
TEST(large_files)
{
    enum { LINES = LARGE_FILE, OTHERS = 50 };
    const char *path = in_folder("large.txt"), *note = NULL;
    char last[80];
    fixture f = {0};
    size_t bytes = 0;
    open_graph(&f);
    tuner *t = new_tuner(&f);
    FILE *file = fopen(path, "w");
    REQUIRE(file);
    fputs("brasa kernels 1\n", file);
    for (int i = 0; i < LINES; i++)
        if (i % 2)
            fprintf(file, "machine %d\tnode %d\t*one 12\ttwo 34\n", i % OTHERS, i);
        else
            fprintf(file, "%s\tnode %d\tone 34\t*two 12\n", t->machine, i);
    fclose(file);
    const clock_t start = clock();
    CHECK_STATUS(tune_read(t, path, false, &note), BRASA_OK);
    CHECK(!note);
    CHECK_INT(t->count, LINES / 2);
    choice *c = tuner_add(t, t->machine, "node 998");
    CHECK(c && c->count == 2 && c->best == 1);
    c = tuner_add(t, t->machine, "a new node");
    REQUIRE(c && !c->count);
    c->count = 2;
    c->fresh = true;
    c->tried[0] = (tried){"one", 1};
    c->tried[1] = (tried){"two", 2};
    CHECK_STATUS(tune_write(t, path), BRASA_OK);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > LARGE_SECONDS)
        test_fail(__FILE__, __LINE__, "it took %.2f s of processor time", seconds);
    char *text = read_file(path, &bytes);
    REQUIRE(text);
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    CHECK_INT(lines, 1 + TUNE_MOST_CHOICES);
    snprintf(last, sizeof last, "machine 49\tnode %d\t*one 12\ttwo 34\n", LINES - 1);
    CHECK_HAS(text, last);
    CHECK_HAS(text, "\ta new node\t*one 1\ttwo 2\n");
    free(text);
    tuner_free(t);
    close_all(&f);
}

/* Every allocation fails once. */
TEST(out_of_memory)
{
    const char *cache = in_folder("memory.txt");
    for (int n = 1; n < 5000; n++) {
        fixture f = {.heap = {.fail_at = n}};
        if (n % 2) /* measured from nothing, and beside what is there */
            remove(cache);
        brasa_status status =
            open_session(&f, (brasa_tuning){.measure = true, .cache = cache}, (brasa_session_options){0});
        const bool over = f.heap.calls < n;
        CHECK_STATUS(status, over ? BRASA_OK : BRASA_OUT_OF_MEMORY);
        close_all(&f);
        if (over || tests.failed)
            break;
    }
}
