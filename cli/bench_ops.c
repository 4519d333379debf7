/* bench_ops.c - `brasa bench ops`: every kernel over the cases of its op, or a given one, forward and backward.
 *
 * A case becomes a graph of one layer and a loss, as in the tests; the profile of its session gives the times. The
 * first session takes the kernels that training would take; each further kernel of an op has a session of its own.
 * Most cases are small, made to be right at the edges: their figures show overhead as much as speed.
 */
#include "build_info.h"
#include "device.h"
#include "network.h"
#include "samples.h"

#include "core/nearest.h"
#include "ops/cases.h"
#include "train/session.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_RUNS = 5, MOST_RUNS = 1000, MOST_STEPS = 32 };

static const double default_seconds = 0.03;

typedef struct bench {
    const options *options;
    network all; /* its context is that of every session */
    json json;
    progress progress;
    const op_def *op;
    const op_case *c;
    bool told; /* the case's heading is printed */
} bench;

/* Nodes of the layer itself: not the loss behind it, not the updates. */
static bool is_measured(const bench *b, const step *s)
{
    return s->node->role != ROLE_UPDATE && strcmp(s->node->name, b->op->name) == 0;
}

static bool is_wanted(const bench *b, const kernel *k)
{
    return !b->options->kernels || strstr(k->name, b->options->kernels);
}

static void print_row(bench *b, const graph *g, const step *s, const samples *t)
{
    if (!is_wanted(b, s->kernel))
        return;
    const char *part = s->node->role == ROLE_FORWARD ? "forward" : "backward";
    double median = samples_at(t, 0.5), per_ns = median > 0 ? 1e-9 / median : 0;
    double gflops = step_flops(g, s) * per_ns, gbytes = step_bytes(s) * per_ns;
    if (b->options->json) {
        json_open(&b->json, NULL, '{');
        json_text(&b->json, "op", b->op->name);
        json_text(&b->json, "case", b->c->in);
        json_text(&b->json, "layer", b->c->layer);
        json_text(&b->json, "part", part);
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

/* Runs the session's program and prints its rows; only: those of this kernel (NULL: all). */
static int measure(bench *b, network *n, const kernel *only)
{
    program *p = n->session->current;
    samples times[MOST_STEPS] = {{0}};
    int code = DONE, count = p->nsteps < MOST_STEPS ? p->nsteps : MOST_STEPS;
    double seconds = b->options->seconds >= 0 ? b->options->seconds : default_seconds, start = clock_seconds();
    for (int run = -1; code == DONE && run < MOST_RUNS; run++) { /* the run before the first one warms up */
        if (run >= LEAST_RUNS && clock_seconds() - start > seconds)
            break;
        brasa_session_profile(n->session, true); /* sets all times to zero */
        if (network_step(n, true) != BRASA_OK)
            code = complain(FAILED, "%s", brasa_session_error(n->session));
        for (int i = 0; code == DONE && run >= 0 && i < count; i++)
            if (!samples_add(&times[i], (double)p->steps[i].nanoseconds * 1e-9))
                code = complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
        progress_show(&b->progress, "%s %s", b->op->name, b->c->in);
    }
    for (int i = 0; i < count; i++) {
        const step *s = &p->steps[i];
        if (code == DONE && is_measured(b, s) && (!only || s->kernel == only)) {
            samples_sort(&times[i]);
            print_row(b, &p->graph, s, &times[i]);
        }
        samples_free(&times[i]);
    }
    return code;
}

/* The case as a graph that can be trained. An op without a gradient (a metric) becomes an output, beside a loss of
 * input 0 alone. */
static brasa_status build_case(graph *g, const op_def *op, const op_case *c)
{
    if (op->grad || (op->lower && !op->labels))
        return case_build(g, op, c);
    int in[CASE_MAX_IN], nin = case_inputs(g, c, in);
    if (nin <= 0)
        return g->status;
    brasa_output((brasa_tensor){g, case_layer(g, op, c, nin, in)}, "metric");
    case_loss(g, in[0]);
    return g->status;
}

/* Kernels that were passed over, each once. */
typedef struct kernel_list {
    int count;
    const kernel *kernel[MOST_STEPS];
} kernel_list;

static bool is_reference(const kernel *k)
{
    const size_t length = strlen(k->name);
    return length > 4 && strcmp(k->name + length - 4, "_ref") == 0;
}

static void list_others(const bench *b, const program *p, kernel_list *list)
{
    for (int i = 0; i < p->nsteps; i++) {
        const step *s = &p->steps[i];
        if (!is_measured(b, s))
            continue;
        for (const kernel *k = NULL; (k = kernel_next(b->all.context, s->node->op, F32, k)) != NULL;) {
            bool known = k == s->kernel || list->count == MOST_STEPS || (b->options->words > 1 && is_reference(k));
            for (int j = 0; j < list->count && !known; j++)
                known = list->kernel[j] == k;
            if (!known)
                list->kernel[list->count++] = k;
        }
    }
}

/* One session over the case. only: takes this kernel and prints its rows alone; others gets what it passed over. */
static int bench_session(bench *b, const kernel *only, kernel_list *others)
{
    network n;
    int code = network_beside(&n, &b->all);
    if (code == DONE && build_case(n.graph, b->op, b->c) != BRASA_OK)
        code = complain(FAILED, "%s", brasa_graph_error(n.graph));
    if (code == DONE) {
        brasa_session_options s = {.optimizer = "sgd lr=0.001", .kernels = only ? only->name : NULL};
        code = network_compile(&n, NULL, s); /* all of them have their turn anyway */
    }
    if (code == DONE)
        code = network_make_data(&n, 1, 0);
    if (code == DONE)
        code = measure(b, &n, only);
    if (code == DONE && others)
        list_others(b, n.session->current, others);
    network_close(&n);
    return code;
}

static int bench_case(bench *b)
{
    kernel_list others = {0};
    b->told = false;
    int code = bench_session(b, NULL, &others);
    for (int i = 0; i < others.count && code == DONE; i++)
        if (is_wanted(b, others.kernel[i]))
            code = bench_session(b, others.kernel[i], NULL);
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
