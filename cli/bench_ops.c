/* bench_ops.c - `brasa bench ops`: every kernel over the cases of its op, or a given one, forward and backward.
 *
 * A case becomes a graph of one layer and a loss, as in the tests. The first session takes the kernels that training
 * would take; each further kernel of an op has a session of its own. A node runs several times in a row, on what the
 * nodes before it left, so that what it reads is in the cache as far as it fits.
 * Gradients and updates that are one node in a training, because one pass over memory does both, are timed apart,
 * too, where a case is given: a session in which the weights alone are trained, and one with the inputs alone. Most
 * cases are small, made to be right at the edges: their figures show overhead as much as speed.
 */
#include "build_info.h"
#include "device.h"
#include "network.h"
#include "samples.h"

#include "core/nearest.h"
#include "core/random.h"
#include "ops/cases.h"
#include "ops/optimizer.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_RUNS = 5, FEW_RUNS = 3, MOST_RUNS = 1000, MOST_KERNELS = 64 };

static const double default_seconds = 0.03, long_seconds = 0.5; /* for which few runs will do */

/* Kernels, each once. */
typedef struct kernel_list {
    int count;
    const kernel *kernel[MOST_KERNELS];
} kernel_list;

typedef enum gradients { OF_ALL, OF_WEIGHTS, OF_INPUTS } gradients;

typedef struct bench {
    const options *options;
    network all; /* its context is that of every session */
    json json;
    progress progress;
    const op_def *op;
    const op_case *c;
    bool told;           /* the case's heading is printed */
    gradients gradients; /* of this session */
    kernel_list timed;   /* kernels that have rows of this case, from sessions before this one */
} bench;

static bool has(const kernel_list *list, const kernel *k)
{
    for (int i = 0; i < list->count; i++)
        if (list->kernel[i] == k)
            return true;
    return false;
}

static void add(kernel_list *list, const kernel *k)
{
    if (list->count < MOST_KERNELS && !has(list, k))
        list->kernel[list->count++] = k;
}

/* Nodes of the layer itself, not the loss behind it; updates, where they are those of its weights alone. */
static bool is_layer(const bench *b, const step *s)
{
    if (s->node->role == ROLE_UPDATE)
        return b->gradients == OF_WEIGHTS && optimizer_is(s->node->op);
    return strcmp(s->node->name, b->op->name) == 0;
}

static bool is_measured(const bench *b, const step *s)
{
    return is_layer(b, s) && !has(&b->timed, s->kernel);
}

static bool is_wanted(const bench *b, const kernel *k)
{
    return !b->options->kernels || strstr(k->name, b->options->kernels);
}

static void print_row(bench *b, const graph *g, const step *s, const samples *t)
{
    if (!is_wanted(b, s->kernel))
        return;
    static const char *const parts[] = {
        [ROLE_FORWARD] = "forward", [ROLE_GRADIENT] = "backward", [ROLE_UPDATE] = "update"};
    const char *part = parts[s->node->role];
    double median = samples_at(t, 0.5), per_ns = median > 0 ? 1e-9 / median : 0;
    double gflops = step_flops(g, s) * per_ns, gbytes = step_bytes(s) * per_ns;
    if (b->options->json) {
        json_open(&b->json, NULL, '{');
        json_text(&b->json, "op", b->op->name);
        json_text(&b->json, "case", b->c->in);
        json_text(&b->json, "layer", b->c->layer);
        json_text(&b->json, "part", part);
        json_bool(&b->json, "apart", b->gradients != OF_ALL);
        json_text(&b->json, "kernel", s->kernel->name);
        json_real(&b->json, "median_us", median * 1e6);
        json_real(&b->json, "fastest_us", samples_at(t, 0) * 1e6);
        json_real(&b->json, "gflop_per_s", gflops);
        json_real(&b->json, "gb_per_s", gbytes);
        json_int(&b->json, "runs", t->count);
        json_close(&b->json, '}');
        return;
    }
    progress_end(&b->progress);
    if (!b->told)
        heading(*b->c->layer ? "%s %s (%s)" : "%s %s", b->op->name, b->c->in, b->c->layer);
    b->told = true;
    printf("  %-8s  %-30s %9s %7.2f GFLOP/s %7.2f GB/s\n", part, s->kernel->name, print_seconds(median).text, gflops,
           gbytes);
}

/* Whether a node has run often enough. */
static bool enough(const bench *b, int runs, double elapsed)
{
    const double seconds = b->options->seconds >= 0 ? b->options->seconds : default_seconds;
    const int least = elapsed > long_seconds ? FEW_RUNS : LEAST_RUNS;
    return runs >= MOST_RUNS || (runs >= least && elapsed > seconds);
}

static bool rewrites_input(const step *s)
{
    for (int k = 0; k < s->nin; k++)
        for (int j = 0; j < s->nout; j++)
            if (s->in[k].data == s->out[j].data)
                return true;
    return false;
}

static int run_node(network *n, int i, int64_t *nanoseconds)
{
    program *p = n->session->current;
    const brasa_status status = program_repeat(p, i, 1, nanoseconds);
    return status == BRASA_OK ? DONE
                              : complain(FAILED, "%s: %s", p->steps[i].kernel->name, brasa_status_text(status));
}

/* All that a node needs, as in a step. */
static int run_before(network *n, int i)
{
    int64_t took = 0;
    int code = network_feed(n) == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_session_error(n->session));
    for (int k = 0; k < i && code == DONE; k++)
        code = run_node(n, k, &took);
    return code;
}

/* Where a node rewrites what it reads, that is made again each time: products of products would soon be too small for
 * a processor to be quick with. */
static int time_node(bench *b, network *n, int i, samples *times)
{
    const bool anew = rewrites_input(&n->session->current->steps[i]);
    const double start = clock_seconds();
    int code = DONE;
    for (int run = -1; code == DONE && !enough(b, run, clock_seconds() - start); run++) { /* the first one warms up */
        int64_t took = 0;
        if (anew && run >= 0)
            code = run_before(n, i);
        if (code == DONE)
            code = run_node(n, i, &took);
        if (code == DONE && run >= 0 && !samples_add(times, (double)took * 1e-9))
            code = complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
        progress_show(&b->progress, "%s %s", b->op->name, b->c->in);
    }
    return code;
}

/* -1: there is none. */
static int last_measured(const bench *b, const program *p)
{
    int last = p->nsteps - 1;
    while (last >= 0 && !is_measured(b, &p->steps[last]))
        last--;
    return last;
}

/* Runs the session's program up to the last node that is timed, and prints their rows. */
static int measure(bench *b, network *n)
{
    program *p = n->session->current;
    const int last = last_measured(b, p);
    int code = run_before(n, 0);
    for (int i = 0; i <= last && code == DONE; i++) {
        const step *s = &p->steps[i];
        samples times = {0};
        if (!is_measured(b, s)) {
            code = run_node(n, i, &(int64_t){0});
            continue;
        }
        code = time_node(b, n, i, &times);
        if (code == DONE) {
            samples_sort(&times);
            print_row(b, &p->graph, s, &times);
        }
        samples_free(&times);
    }
    for (int i = 0; i <= last; i++)
        if (is_measured(b, &p->steps[i]))
            add(&b->timed, p->steps[i].kernel);
    return code;
}

/* The case as a graph that can be trained. An op without a gradient (a metric) becomes an output, beside a loss of
 * input 0 alone. What no gradient is wanted of stays as it begins. */
static brasa_status build_case(graph *g, const bench *b)
{
    int in[CASE_MAX_IN], nin = case_inputs(g, b->c, in), inputs = g->nvalues;
    if (nin <= 0)
        return g->status;
    const int y = case_layer(g, b->op, b->c, nin, in);
    const bool learns = b->op->grad || (b->op->lower && !b->op->labels);
    if (!learns)
        brasa_output((brasa_tensor){g, y}, "metric");
    case_loss(g, learns ? y : in[0]);
    for (int v = 0; v < g->nvalues && b->gradients != OF_ALL; v++)
        if (g->values[v].kind == VALUE_PARAM && (v < inputs) == (b->gradients == OF_WEIGHTS))
            g->values[v].kind = VALUE_BUFFER;
    return g->status;
}

static bool is_reference(const kernel *k)
{
    const size_t length = strlen(k->name);
    return length > 4 && strcmp(k->name + length - 4, "_ref") == 0;
}

/* Kernels of the layer's nodes that were passed over. */
static void list_others(const bench *b, const program *p, kernel_list *list)
{
    for (int i = 0; i < p->nsteps; i++) {
        const step *s = &p->steps[i];
        if (!is_layer(b, s))
            continue;
        for (const kernel *k = NULL; (k = kernel_next(b->all.context, s->node->op, F32, k)) != NULL;)
            if (!has(&b->timed, k) && !(b->options->words > 1 && is_reference(k)))
                add(list, k);
    }
}

enum { PATTERN = 4099 }; /* numbers: a prime, so that no two rows are the same */

/* A state begins with a few numbers of its own, again and again. */
static int repeat_numbers(network *n, const state *st, const initializer *start, uint32_t stream)
{
    const random_stream from = {.purpose = RANDOM_TEST, .stream = stream};
    const int64_t count = st->bytes / (int64_t)sizeof(float);
    float numbers[PATTERN], *to = session_state_data(n->session, st);
    for (uint64_t i = 0; i < PATTERN; i++)
        numbers[i] = (float)(start->form == START_UNIFORM ? random_uniform(&from, i, start->a, start->b)
                                                          : start->a + start->b * random_normal(&from, i));
    for (int64_t at = 0; at < count; at += PATTERN)
        memcpy(to + at, numbers, sizeof *to * (size_t)(count - at < PATTERN ? count - at : PATTERN));
    return session_push(n->session, st) == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_session_error(n->session));
}

static bool is_drawn(const initializer *start)
{
    return start->form != START_CONSTANT;
}

/* A session whose weights and inputs are not drawn one by one: with large ones that would take longer than all that
 * is timed. */
static int compile(network *n, brasa_session_options s)
{
    const int count = n->graph->nvalues;
    initializer *starts = calloc((size_t)count + 1, sizeof *starts);
    if (!starts)
        return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
    for (int v = 0; v < count; v++) {
        starts[v] = n->graph->values[v].start;
        if (is_drawn(&starts[v]))
            n->graph->values[v].start = (initializer){START_CONSTANT, 0, 0};
    }
    int code = network_compile(n, NULL, s); /* all kernels have their turn anyway */
    for (int v = 0; v < count && code == DONE; v++) {
        const state *st = is_drawn(&starts[v]) ? session_state(n->session, n->graph->values[v].name) : NULL;
        if (st)
            code = repeat_numbers(n, st, &starts[v], (uint32_t)v);
    }
    free(starts);
    return code;
}

/* One session over the case. first: the kernel that it takes where it can; others gets what it passed over. Where
 * the plan has nothing to time that was not timed yet, that is all. */
static int bench_session(bench *b, const kernel *first, kernel_list *others)
{
    network n;
    int code = network_beside(&n, &b->all);
    if (code == DONE && build_case(n.graph, b) != BRASA_OK)
        code = complain(FAILED, "%s", brasa_graph_error(n.graph));
    brasa_session_options s = {.size = sizeof s,
                               .optimizer = BENCH_OPTIMIZER,
                               .kernels = first ? first->name : NULL,
                               .no_fusion = b->gradients != OF_ALL,
                               .plan_only = true};
    if (code == DONE)
        code = network_compile(&n, NULL, s);
    if (code == DONE && others)
        list_others(b, n.session->current, others);
    if (code == DONE && last_measured(b, n.session->current) >= 0) {
        brasa_session_free(n.session);
        n.session = NULL;
        s.plan_only = false;
        code = compile(&n, s);
        if (code == DONE)
            code = network_make_data(&n, 1, 0);
        if (code == DONE)
            code = measure(b, &n);
    }
    network_close(&n);
    return code;
}

static int bench_kernels(bench *b)
{
    kernel_list others = {0};
    int code = bench_session(b, NULL, &others);
    for (int i = 0; i < others.count && code == DONE; i++)
        if (!has(&b->timed, others.kernel[i]) && is_wanted(b, others.kernel[i]))
            code = bench_session(b, others.kernel[i], NULL);
    return code;
}

static int bench_case(bench *b)
{
    const gradients last = b->options->words > 1 && b->op->params ? OF_INPUTS : OF_ALL;
    int code = DONE;
    b->told = false;
    b->timed.count = 0;
    for (b->gradients = OF_ALL; b->gradients <= last && code == DONE; b->gradients++)
        code = bench_kernels(b);
    return code;
}

static bool has_cases(const op_def *op)
{
    return op->help && op->cases;
}

static int refuse_op(const char *word)
{
    nearest n = {.word = word};
    for (int i = 0; op_at(i); i++)
        if (has_cases(op_at(i)))
            nearest_offer(&n, op_at(i)->name);
    return complain(FAILED, "there is no op '%s'%s", word, nearest_hint(&n).text);
}

/* All cases of b->op, or the given one. */
static int bench_op(bench *b)
{
    const op_case given = {.in = b->options->word[1], .layer = b->options->words > 2 ? b->options->word[2] : ""};
    if (b->options->words > 1) {
        b->c = &given;
        return bench_case(b);
    }
    int code = DONE;
    for (b->c = b->op->cases; b->c->in && code == DONE; b->c++)
        if (!(b->c->flags & (CASE_FAILS | CASE_PLAN)))
            code = bench_case(b);
    return code;
}

int run_bench_ops(const options *o)
{
    static const char *const of_a_network[] = {"batch", "classes", "dialect", "no-tune", "seed", "steps"};
    if (o->sum)
        return run_bench_sum(o);
    for (size_t i = 0; i < sizeof of_a_network / sizeof of_a_network[0]; i++)
        if (option_given(o, of_a_network[i]))
            return complain(MISUSED, "bench ops: --%s goes with --sum alone", of_a_network[i]);
    bench b = {.options = o, .json = json_stdout(), .progress = progress_start(o->quiet)};
    const op_def *wanted = o->words ? op_find(o->word[0]) : NULL;
    if (o->words && (!wanted || !has_cases(wanted)))
        return refuse_op(o->word[0]);
    int code = network_start(&b.all, o);
    if (code == DONE && o->json) {
        json_open(&b.json, NULL, '{');
        build_json(&b.json);
        json_int(&b.json, "threads", brasa_context_threads(b.all.context));
        place_json(&b.json, b.all.context, b.all.precision);
        json_open(&b.json, "rows", '[');
    }
    for (int i = 0; op_at(i) && code == DONE; i++) {
        b.op = op_at(i);
        if (has_cases(b.op) && (!wanted || b.op == wanted))
            code = bench_op(&b);
    }
    progress_end(&b.progress);
    if (b.all.graph && o->json) {
        json_close(&b.json, ']');
        json_close(&b.json, '}');
    }
    network_close(&b.all);
    return code;
}
