/* tune_time.c - how long the kernels of one node take: see tune.h.
 *
 * A node is timed by itself, in memory with made-up numbers. Every candidate is opened on a copy of the node, and all
 * of them work on the same tensors; they run in turns, the first round warms up, and the least time of each counts. A
 * candidate that wants a tensor in another layout than it will have pays for a reorder of it. What one node wrote is
 * no input of the next, nor is what a round rewrote one of the next round: products of products would soon be
 * infinite. */
#include "graph/tune.h"

#include "core/random.h"
#include "core/threads.h"
#include "graph/plan.h"

#include <string.h>

/* A race has MOST_ROUNDS that count, or LEAST_ROUNDS once these took ENOUGH nanoseconds, the least times of all added
 * up. Where one run takes LONG nanoseconds, whoever is `hopeless` times slower than another is not asked again, and
 * whoever is left alone has won: a large network would take minutes otherwise.
 *
 * Beside another busy process a run may wait for one of its own threads to get a processor: 15 ms in place of 14 us
 * (libgomp's waiting threads look out for so long before they sleep). So the race goes on until all times are
 * believable: reached twice, about; and not slower than any processor with vectors. After TIRED nanoseconds or
 * TIRED_ROUNDS it ends all the same, unsettled; and after MOST_UNSETTLED races that ended so, none is longer than it
 * would be alone: they would take minutes. */
enum { LEAST_ROUNDS = 4, MOST_ROUNDS = 20, TIRED_ROUNDS = 100, MOST_UNSETTLED = 10 };
enum { ENOUGH = 20000000, LONG = 100000000, TIRED = 300000000 };
static const double hopeless = 1.25, hopeless_first = 2, twice = 2;
/* The slowest that is believed, in nanoseconds: 5 GFLOP/s, a quarter of a GB/s, and a millisecond to wake threads. */
static const double an_operation = 0.2, a_byte = 4, to_wake = 1000000;

typedef struct trial {
    node node; /* a copy, opened for this kernel */
    step step;
    format *format; /* of inputs and outputs */
    bool taken;     /* opened, and in the race */
} trial;

typedef struct trials {
    tuner *tuner;
    graph *g;
    const node *n;
    pool pool;
    int count;
    trial trial[MOST_TRIED];
    int64_t *offset; /* of inputs and outputs in the room, the same for all; last, that of the workspace */
    int64_t inputs;  /* bytes of them, from the beginning of the room */
    int64_t bytes;   /* of the room */
    bool rewrites;   /* the node, some of its inputs */
} trials;

static brasa_status run_step(const step *s, int64_t *nanoseconds)
{
    const int64_t start = tuner_clock();
    const brasa_status status = s->kernel->run(s);
    *nanoseconds = tuner_clock() - start;
    if (*nanoseconds < 1)
        *nanoseconds = 1;
    return status;
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

enum { PATTERN = 4099 }; /* numbers: a prime, so that no two rows are the same */

/* Numbers near one, from and up to these bytes of the room: a pattern of them, again and again. */
static void fill(const tuner *t, int64_t from, int64_t to)
{
    const int64_t most = PATTERN * (int64_t)sizeof *t->numbers;
    for (int64_t at = from; at < to; at += most)
        memcpy(t->room + at, t->numbers, (size_t)(to - at < most ? to - at : most));
}

static brasa_status make_numbers(tuner *t)
{
    const random_stream from = {.purpose = RANDOM_TEST};
    if (t->numbers)
        return BRASA_OK;
    t->numbers = pool_get(&t->pool, PATTERN, sizeof *t->numbers);
    for (uint64_t i = 0; t->numbers && i < PATTERN; i++)
        t->numbers[i] = (float)random_normal(&from, i);
    return t->numbers ? BRASA_OK : fail_memory(t->ctx, PATTERN * sizeof *t->numbers);
}

/* Room for so many bytes, all pages touched. BRASA_NO_KERNEL: more than may be taken. */
static brasa_status make_room(tuner *t, int64_t bytes)
{
    if (t->lent && bytes <= t->lent_bytes && !t->block) {
        t->room = t->lent;
    } else if (t->most_bytes && bytes > t->most_bytes) {
        return fail(t->ctx, BRASA_NO_KERNEL, "kernels are timed in at most %lld bytes", (long long)t->most_bytes);
    } else if (!t->block || bytes > t->room_bytes) {
        mem_put_large(t->ctx, t->block);
        t->filled = t->room_bytes = 0;
        t->room = t->block = mem_get_large(t->ctx, (size_t)bytes);
        if (!t->block)
            return fail_memory(t->ctx, (size_t)bytes);
        t->room_bytes = bytes;
    }
    const brasa_status status = make_numbers(t);
    if (status == BRASA_OK && bytes > t->filled) {
        fill(t, t->filled, bytes);
        t->filled = bytes;
    }
    return status;
}

static const value *value_of(const trials *t, int k)
{
    return &t->g->values[k < t->n->nin ? t->n->in[k] : t->n->out[k - t->n->nin]];
}

/* The input that is rewritten as output k, or -1. */
static int rewritten(const node *n, int k)
{
    for (int i = 0; k >= n->nin && i < n->nin; i++)
        if (n->in[i] == n->out[k - n->nin])
            return i;
    return -1;
}

static int64_t stored_bytes(const trials *t, const trial *r, int k)
{
    const value *v = value_of(t, k);
    return format_bytes(&r->format[k], &v->shape);
}

/* A place for each tensor that is large enough for all, and the workspace behind them. */
static void place(trials *t)
{
    const int args = t->n->nin + t->n->nout;
    int64_t scratch = 0;
    t->bytes = 0;
    for (int k = 0; k < args; k++) {
        const int same = rewritten(t->n, k);
        int64_t most = 0;
        for (int i = 0; i < t->count; i++)
            if (t->trial[i].taken && stored_bytes(t, &t->trial[i], k) > most)
                most = stored_bytes(t, &t->trial[i], k);
        t->offset[k] = same >= 0 ? t->offset[same] : t->bytes;
        t->bytes += same >= 0 ? 0 : plan_align(most);
        t->inputs = k < t->n->nin ? t->bytes : t->inputs;
        t->rewrites = t->rewrites || same >= 0;
    }
    for (int i = 0; i < t->count; i++) {
        const trial *r = &t->trial[i];
        const int64_t bytes = r->taken && r->node.kernel->workspace ? r->node.kernel->workspace(t->g, &r->node) : 0;
        scratch = bytes > scratch ? bytes : scratch;
    }
    t->offset[args] = t->bytes;
    t->bytes += plan_align(scratch);
}

/* The numbers that a node reads. */
static void set_inputs(const trials *t)
{
    const int nin = t->n->nin;
    fill(t->tuner, 0, t->inputs);
    for (int k = 0; k < nin; k++) {
        const dtype type = value_of(t, k)->type;
        const int64_t end = k + 1 < nin ? t->offset[k + 1] : t->inputs;
        if (type != F32 && type != F64) /* labels and counters: zero is always one */
            memset(t->tuner->room + t->offset[k], 0, (size_t)(end - t->offset[k]));
    }
}

/* --- steps ----------------------------------------------------------------------------------------------------- */

/* Opens a kernel on a copy of the node. It is out of the race where it refuses, or where it would write state in
 * another layout than that has. */
static brasa_status open_trial(trials *t, trial *r, const char *name)
{
    const int nin = t->n->nin, args = nin + t->n->nout;
    const kernel *k = kernel_find(t->g->ctx, t->n->op, t->g->real, name);
    r->node = *t->n;
    r->node.state = NULL;
    r->format = pool_get(&t->pool, (size_t)args + 1, sizeof *r->format);
    r->step.in = pool_get(&t->pool, (size_t)args + 1, sizeof *r->step.in);
    if (!r->format || !r->step.in)
        return fail_memory(t->g->ctx, (size_t)args * sizeof *r->step.in);
    brasa_status status = k ? select_try(t->g, &r->node, k) : BRASA_NO_KERNEL;
    r->taken = status == BRASA_OK;
    if (status != BRASA_OK)
        return status == BRASA_NO_KERNEL ? BRASA_OK : status;
    select_formats(t->g, &r->node, r->format, r->format + nin);
    for (int i = nin; i < args; i++)
        if (value_of(t, i)->settled && !format_equal(&value_of(t, i)->format, &r->format[i]))
            r->taken = false;
    return BRASA_OK;
}

static brasa_status bind_trial(const trials *t, trial *r)
{
    const graph *g = t->g;
    const int nin = t->n->nin, args = nin + t->n->nout;
    arg *a = r->step.in;
    for (int k = 0; k < args; k++) {
        const value *v = value_of(t, k);
        const int64_t count = layout_count(&r->format[k].layout, &v->shape);
        a[k] = (arg){.data = t->tuner->room + t->offset[k],
                     .shape = v->shape,
                     .count = count,
                     .sample = count / (v->shape.rank ? v->shape.dim[0] : 1),
                     .pixel = v->shape.rank > 1 ? v->shape.dim[1] : 1,
                     .format = r->format[k]};
    }
    r->step = (step){.kernel = r->node.kernel,
                     .node = &r->node,
                     .attr = r->node.attr,
                     .nin = nin,
                     .nout = args - nin,
                     .in = a,
                     .out = a + nin,
                     .workspace = t->tuner->room + t->offset[args],
                     .state = r->node.state,
                     .threads = node_threads(g, &r->node), /* for so many the workspace has room */
                     .seed = g->seed};
    return r->node.kernel->bind ? r->node.kernel->bind(&r->step) : BRASA_OK;
}

/* --- races ----------------------------------------------------------------------------------------------------- */

typedef struct standings {
    int count;
    bool in[MOST_TRIED];                         /* still asked */
    int64_t least[MOST_TRIED], next[MOST_TRIED]; /* the two least times of each; 0: not yet */
    int64_t spent;                               /* by all runs */
    int64_t most;                                /* that they may take until all times are believed */
    double slowest;                              /* time that is */
} standings;

static void note_time(standings *s, int i, int64_t took, int round)
{
    s->spent += took;
    if (round <= 1) { /* the first one counts for whoever is not asked again */
        s->least[i] = took;
    } else if (took < s->least[i]) {
        s->next[i] = s->least[i];
        s->least[i] = took;
    } else if (!s->next[i] || took < s->next[i]) {
        s->next[i] = took;
    }
}

/* Takes those out of the race that cannot win any more; how many are left. */
static int thin_out(standings *s, double limit)
{
    int64_t fastest = INT64_MAX;
    int left = 0;
    for (int i = 0; i < s->count; i++)
        if (s->in[i] && s->least[i] < fastest)
            fastest = s->least[i];
    for (int i = 0; i < s->count; i++) {
        s->in[i] = s->in[i] && (double)s->least[i] <= (double)fastest * limit;
        left += s->in[i];
    }
    return left;
}

static bool is_settled(const standings *s)
{
    bool settled = true;
    for (int i = 0; i < s->count && settled; i++)
        settled =
            !s->in[i] || ((double)s->next[i] <= (double)s->least[i] * twice && (double)s->least[i] <= s->slowest);
    return settled;
}

/* Whether the race is over after this round, from 0. */
static bool is_over(standings *s, int round)
{
    int64_t sum = 0, fastest = INT64_MAX;
    for (int i = 0; i < s->count; i++) {
        sum += s->in[i] ? s->least[i] : 0;
        fastest = s->in[i] && s->least[i] < fastest ? s->least[i] : fastest;
    }
    if (fastest >= LONG && thin_out(s, round ? hopeless : hopeless_first) < 2)
        return true;
    if (round < LEAST_ROUNDS || (round < MOST_ROUNDS && sum * round < ENOUGH))
        return false;
    return is_settled(s) || round >= TIRED_ROUNDS || s->spent >= s->most;
}

static double slowest_time(const trials *t)
{
    double bytes = 0, operations = t->n->op->cost ? t->n->op->cost(t->g, t->n).flops : 0;
    for (int k = 0; k < t->n->nin + t->n->nout; k++)
        bytes += (double)shape_count(&value_of(t, k)->shape) * (double)dtype_size(value_of(t, k)->type);
    return to_wake + a_byte * bytes + an_operation * operations;
}

/* Runs all in turns; least[] is the least time of each, 0 of those that do not take part. */
static brasa_status race(const trials *t, int64_t *least, bool *settled)
{
    standings s = {.count = t->count, .slowest = slowest_time(t)};
    s.most = t->tuner->unsettled < MOST_UNSETTLED ? TIRED : 0;
    for (int i = 0; i < t->count; i++)
        s.in[i] = t->trial[i].taken;
    int round = 0;
    do {
        if (!round || t->rewrites)
            set_inputs(t);
        for (int i = 0; i < t->count; i++) {
            int64_t took = 0;
            if (!s.in[i])
                continue;
            brasa_status status = (t->tuner->run ? t->tuner->run : run_step)(&t->trial[i].step, &took);
            if (status == BRASA_OK)
                status = tuner_go_on(t->tuner);
            if (status != BRASA_OK)
                return status;
            note_time(&s, i, took, round);
        }
    } while (!is_over(&s, round++));
    memcpy(least, s.least, (size_t)t->count * sizeof *least);
    *settled = *settled && is_settled(&s);
    return BRASA_OK;
}

static brasa_status race_in_pool(const trials *t, int64_t *least, bool *settled)
{
    const int threads = t->tuner->ctx->threads;
    threads_state saved;
    brasa_status status = threads_enter(t->tuner->ctx, threads, &saved);
    if (status != BRASA_OK)
        return status;
    status = race(t, least, settled);
    threads_leave(saved, threads);
    return status;
}

/* What it costs to bring a tensor from one layout to another. The room is large enough for the tensor twice, in any
 * case where somebody would ask. */
static brasa_status time_reorder(tuner *t, const value *like, const format *from, const format *to, int64_t *least,
                                 bool *settled)
{
    graph g;
    graph_init(&g, t->ctx);
    g.real = like->type;
    trials x = {.tuner = t, .g = &g, .count = 1, .pool = {.ctx = t->ctx}};
    int64_t offset[3];
    format both[2] = {*from, *to};
    arg args[3];
    const int in = graph_value(&g, VALUE_TEMP, like->type, &like->shape, NULL);
    const int n = emit_like(&g, &reorder_op, "tune", NULL, 1, &in, 1, &in);
    brasa_status status = n < 0 ? g.status : BRASA_OK;
    if (status == BRASA_OK) {
        g.values[in].format = *from;
        g.values[g.nodes[n].out[0]].format = *to;
        status = select_first(&g, &g.nodes[n]);
    }
    if (status == BRASA_OK) {
        x.n = &g.nodes[n];
        x.offset = offset;
        x.trial[0] = (trial){.node = g.nodes[n], .step = {.in = args}, .format = both, .taken = true};
        place(&x);
        status = make_room(t, x.bytes);
    }
    if (status == BRASA_OK)
        status = bind_trial(&x, &x.trial[0]);
    if (status == BRASA_OK)
        status = race_in_pool(&x, least, settled);
    graph_clear(&g);
    return status;
}

/* Adds to the times what the layouts cost. */
static brasa_status add_reorders(trials *t, const format *usual, int64_t *least, bool *settled)
{
    const int nin = t->n->nin, args = nin + t->n->nout;
    brasa_status status = BRASA_OK;
    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < args && t->trial[i].taken && status == BRASA_OK; k++) {
            const format *own = &t->trial[i].format[k];
            int64_t took[1] = {0};
            if (format_equal(own, &usual[k]))
                continue;
            status = time_reorder(t->tuner, value_of(t, k), k < nin ? &usual[k] : own, k < nin ? own : &usual[k],
                                  took, settled);
            least[i] += took[0];
        }
    return status;
}

brasa_status tuner_measure(tuner *t, graph *g, int i, const format *usual, choice *c)
{
    const int args = g->nodes[i].nin + g->nodes[i].nout;
    int64_t least[MOST_TRIED] = {0};
    bool settled = true;
    trials x = {.tuner = t, .g = g, .n = &g->nodes[i], .count = c->count, .pool = {.ctx = t->ctx}};
    x.offset = pool_get(&x.pool, (size_t)args + 1, sizeof *x.offset);
    brasa_status status = x.offset ? BRASA_OK : fail_memory(t->ctx, (size_t)args * sizeof *x.offset);
    for (int k = 0; k < x.count && status == BRASA_OK; k++)
        status = open_trial(&x, &x.trial[k], c->tried[k].kernel);
    if (status == BRASA_OK) {
        place(&x);
        status = make_room(t, x.bytes);
    }
    for (int k = 0; k < x.count && status == BRASA_OK; k++)
        if (x.trial[k].taken)
            status = bind_trial(&x, &x.trial[k]);
    if (status == BRASA_OK)
        status = race_in_pool(&x, least, &settled);
    if (status == BRASA_OK)
        status = add_reorders(&x, usual, least, &settled);
    c->unsettled = !settled;
    for (int k = 0; k < x.count; k++) {
        node_close(g, &x.trial[k].node);
        c->tried[k].nanoseconds = x.trial[k].taken ? least[k] : 0;
    }
    pool_free(&x.pool);
    return status;
}
