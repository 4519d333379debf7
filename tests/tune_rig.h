/* tune_rig.h - for tests of kernels chosen by their times: a small network, sessions over it, and times that are
 * pretended. After test.h. */
#ifndef TEST_TUNE_RIG_H
#define TEST_TUNE_RIG_H

#include "files.h"
#include "heap.h"

#include "session/session.h"

#include <stdlib.h>

/* Two equal convolutions behind a first one: large enough to be worth a time, small enough for a test. */
static const char net[] = "conv %d 3x3 pad=1 name=%s";
enum { CHANNELS = 32, SIDE = 20, BATCH = 2 };

static inline void build(brasa_graph *g, int wide, const char *c)
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
    int64_t at;         /* the one that is timed */
    int wide;           /* channels of layer b; 0: as the others */
    const char *c;      /* the last layer's name and settings; NULL: as the others */
    int batch;          /* of programs whose times are pretended; 0: BATCH */
    char notes[1000];
} fixture;

static inline bool look_on(void *user, int64_t done, int64_t total, const char *note)
{
    fixture *f = user;
    CHECK(done >= 0 && done <= total);
    if (note)
        strncat(f->notes, note, sizeof f->notes - strlen(f->notes) - 1);
    else
        f->timed += !f->timed || done != f->at; /* one that takes long is told again */
    f->at = note ? f->at : done;
    return !f->stop_at || f->timed < f->stop_at;
}

static inline void open_graph(fixture *f)
{
    brasa_context_options c = {
        .size = sizeof c, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &f->heap};
    f->ctx = NULL;
    f->g = NULL;
    if (brasa_context_new(&c, &f->ctx) == BRASA_OK && (f->g = brasa_graph_new(f->ctx)))
        build(f->g, f->wide ? f->wide : CHANNELS, f->c ? f->c : "c");
}

/* A session; f->timed counts anew. */
static inline brasa_status open_session(fixture *f, brasa_tuning tuning, brasa_session_options o)
{
    tuning.size = sizeof tuning;
    tuning.watch = look_on;
    tuning.user = f;
    f->timed = 0;
    f->notes[0] = '\0';
    open_graph(f);
    o.size = sizeof o;
    o.batch = BATCH;
    o.tuning = &tuning;
    return f->g ? brasa_session_new(f->g, &o, &f->s) : BRASA_OUT_OF_MEMORY;
}

static inline void close_all(fixture *f)
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

/* --- pretended times ------------------------------------------------------------------------------------------- */

static struct {
    const char *fast; /* whose name has this */
    int64_t time, others;
    int runs;
} pretended;

static inline brasa_status pretend(const step *s, int64_t *nanoseconds)
{
    pretended.runs++;
    *nanoseconds = strcmp(s->kernel->name, pretended.fast) == 0 ? pretended.time : pretended.others;
    return BRASA_OK;
}

/* The forward pass with the kernels that a tuner chooses. */
static inline brasa_status choose(const fixture *f, tuner *t, graph *g, bool training)
{
    graph_init(g, f->ctx);
    g->tuner = t;
    brasa_status status = pass_lower(g, f->g, f->batch ? f->batch : BATCH, training);
    if (status == BRASA_OK)
        status = pass_fuse(g);
    return status == BRASA_OK ? pass_select(g, NULL) : status;
}

/* With pretended times, for this machine. */
static inline tuner *tuner_with(const fixture *f, const brasa_tuning *wish)
{
    pool p = {.ctx = f->ctx};
    tuner *t = NULL;
    CHECK_STATUS(tuner_new(f->ctx, tuner_machine(&p), wish, &t), BRASA_OK);
    if (t)
        t->run = pretend;
    pool_free(&p);
    return t;
}

static inline tuner *new_tuner(const fixture *f)
{
    return tuner_with(f, &SIZED(brasa_tuning, .measure = true));
}

/* The kernels that layer b can choose from; how many. */
static inline int candidates(const char *names[MOST_TRIED])
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
        names[count] = kernel_find(f.ctx, n->op, F32, n->choice->tried[count].kernel)->name; /* which stays */
    graph_clear(&g);
    tuner_free(t);
    close_all(&f);
    return count;
}

static const char no_choice[] = "this build has one fast kernel for a convolution";

static inline bool has_choice(void)
{
    const char *names[MOST_TRIED];
    return candidates(names) > 1;
}

/* Choices for this machine in a file. */
static inline int kept_in(const fixture *f, const char *path)
{
    tuner *t = tuner_with(f, &SIZED(brasa_tuning, .cache = path));
    const int count = t ? t->count : -1;
    tuner_free(t);
    return count;
}

#endif
