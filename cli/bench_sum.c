/* bench_sum.c - `brasa bench ops --sum MODEL`: the kernels of a network's training step, each timed alone.
 *
 * A node runs several times in a row, on the data that the nodes before it left, so that what it reads is in the
 * cache as far as it fits. The sum over all nodes is a floor for the step: what the step takes beyond it is lost
 * between the kernels. Steps are timed before and after, in the same process, because machines change their speed.
 *
 * With --kernels TEXT the first session takes the first kernel of each list whose name holds TEXT. Every further one
 * that it passed over has a session of its own, in which the nodes that it takes are timed again: the fastest counts.
 *
 * On a GPU the same is done with the libraries' kernels, without --kernels too, and the floor of the step is told:
 * see floor.h.
 */
#include "build_info.h"
#include "device.h"
#include "floor.h"
#include "samples.h"

#include "device/device.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

enum { REPEATS = 5, MOST_REPEATS = 1000, STEPS = 3, MOST_KERNELS = 256 };

/* A node, and the fastest of its kernels. Its name dies with its session, but in every session it is the same one of
 * its op: only reorders come and go. */
typedef struct timed {
    const op_def *op;
    int index; /* among the nodes of its op */
    const kernel *kernel;
    double seconds;
} timed;

/* All nodes that run on one kernel. */
typedef struct row {
    const char *kernel;
    int nodes;
    double seconds;
} row;

typedef struct sum {
    const options *options;
    network all; /* its context is that of every session */
    int repeats;
    timed *node; /* of the first session */
    int nodes;
    row row[MOST_KERNELS]; /* the slowest first */
    int rows;
    double seconds;
    floor_time floor; /* of a GPU */
    samples steps;
    progress progress;
} sum;

static int fail_session(const network *n)
{
    return complain(FAILED, "%s", brasa_session_error(n->session));
}

static int time_steps(network *n, sum *s)
{
    const int steps = s->repeats < STEPS ? s->repeats : STEPS;
    for (int i = 0; i < steps; i++) {
        brasa_status status = network_feed(n);
        if (status == BRASA_OK)
            status = session_wait(n->session);
        double start = clock_seconds();
        if (status == BRASA_OK)
            status = brasa_train(n->session);
        if (status == BRASA_OK)
            status = session_wait(n->session);
        if (status != BRASA_OK)
            return fail_session(n);
        if (!samples_add(&s->steps, clock_seconds() - start))
            return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
        progress_show(&s->progress, "step %d of %d", s->steps.count, 2 * steps);
    }
    return DONE;
}

/* Runs a node once to warm up, and `times` times more; *seconds gets their median. */
static int time_node(program *p, int i, int times, double *seconds)
{
    int64_t took[MOST_REPEATS + 1];
    samples t = {0};
    brasa_status status = program_repeat(p, i, times + 1, took);
    for (int k = 1; k <= times && status == BRASA_OK; k++)
        if (!samples_add(&t, (double)took[k] * 1e-9))
            status = BRASA_OUT_OF_MEMORY;
    if (t.count) {
        samples_sort(&t);
        *seconds = samples_at(&t, 0.5);
    }
    samples_free(&t);
    return status == BRASA_OK ? DONE
                              : complain(FAILED, "%s '%s': %s", p->steps[i].kernel->name, p->steps[i].node->name,
                                         brasa_status_text(status));
}

/* Which one of its op's nodes the i-th is. */
static int index_in_op(const program *p, int i)
{
    int index = 0;
    for (int k = 0; k < i; k++)
        index += p->steps[k].node->op == p->steps[i].node->op;
    return index;
}

static int time_all(network *n, sum *s)
{
    program *p = n->session->current;
    s->node = calloc((size_t)p->nsteps, sizeof *s->node);
    if (!s->node)
        return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
    if (network_feed(n) != BRASA_OK)
        return fail_session(n);
    int code = DONE;
    for (; s->nodes < p->nsteps && code == DONE; s->nodes++) {
        timed *t = &s->node[s->nodes];
        const step *at = &p->steps[s->nodes];
        *t = (timed){.op = at->node->op, .index = index_in_op(p, s->nodes), .kernel = at->kernel};
        code = time_node(p, s->nodes, s->repeats, &t->seconds);
        if (!floor_is_product(t->op))
            s->floor.rest_bytes += step_bytes(at);
        progress_show(&s->progress, "node %d of %d", s->nodes + 1, p->nsteps);
    }
    return code;
}

/* The same node timed on another kernel. */
static void offer(sum *s, const program *p, int i, double seconds)
{
    const int index = index_in_op(p, i);
    for (int k = 0; k < s->nodes; k++) {
        timed *t = &s->node[k];
        if (t->op == p->steps[i].node->op && t->index == index && seconds < t->seconds) {
            t->seconds = seconds;
            t->kernel = p->steps[i].kernel;
        }
    }
}

/* The nodes that this kernel takes, in a session where it is the first choice; others run once, for their results. */
static int time_again(network *n, sum *s, const kernel *only)
{
    program *p = n->session->current;
    int code = network_feed(n) == BRASA_OK ? DONE : fail_session(n);
    for (int i = 0; i < p->nsteps && code == DONE; i++) {
        double seconds = 0;
        code = time_node(p, i, p->steps[i].kernel == only ? s->repeats : 0, &seconds);
        if (code == DONE && p->steps[i].kernel == only)
            offer(s, p, i, seconds);
        progress_show(&s->progress, "%s, node %d of %d", only->name, i + 1, p->nsteps);
    }
    return code;
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const row *)a)->seconds, y = ((const row *)b)->seconds;
    return (x < y) - (x > y);
}

static void add(sum *s, const char *name, double seconds)
{
    int at = 0;
    while (at < s->rows && strcmp(s->row[at].kernel, name) != 0)
        at++;
    if (at == MOST_KERNELS)
        at--; /* what there is no row for counts with the last one */
    if (at == s->rows)
        s->row[s->rows++].kernel = name;
    s->row[at].nodes++;
    s->row[at].seconds += seconds;
    s->seconds += seconds;
}

static void add_up(sum *s)
{
    for (int i = 0; i < s->nodes; i++) {
        const timed *t = &s->node[i];
        add(s, t->kernel->name, t->seconds);
        s->floor.products += floor_is_product(t->op);
        s->floor.products_seconds += floor_is_product(t->op) ? t->seconds : 0;
    }
    samples_sort(&s->steps);
    qsort(s->row, (size_t)s->rows, sizeof s->row[0], by_seconds);
}

static void print_floor(const floor_time *f, double of_step)
{
    const double floor = floor_seconds(f);
    printf(
        "the floor of it          %s: %d convolutions and products alone %s, the other nodes' %s once through memory "
        "at %.0f GB/s %s; the step takes %.2f times as long\n",
        print_seconds(floor).text, f->products, print_seconds(f->products_seconds).text,
        print_bytes(f->rest_bytes).text, f->bytes_per_second * 1e-9, print_seconds(floor_rest_seconds(f)).text,
        of_step / floor);
}

/* Whether the time of what moves memory is compared with that of copies in it: where the device has memory of its
 * own. */
static bool has_floor(const sum *s)
{
    return !s->all.context->device->host_memory;
}

static void print_text(const sum *s)
{
    const options *o = s->options;
    const double median = samples_at(&s->steps, 0.5);
    heading("%s, batch %lld, %s, %s", o->sum, (long long)o->batch, print_place(s->all.context, s->all.precision).text,
            BENCH_OPTIMIZER);
    printf("%-34s %5s %9s %7s\n", "kernel", "nodes", "alone", "share");
    for (int i = 0; i < s->rows; i++)
        printf("%-34s %5d %9s %5.1f %%\n", s->row[i].kernel, s->row[i].nodes, print_seconds(s->row[i].seconds).text,
               100 * s->row[i].seconds / s->seconds);
    printf("sum of the kernels alone %s, median of %d each\n", print_seconds(s->seconds).text, s->repeats);
    printf("a step of the network    %s, median of %d: %.2f times the sum\n", print_seconds(median).text,
           s->steps.count, median / s->seconds);
    if (has_floor(s))
        print_floor(&s->floor, median);
}

static void json_floor(json *j, const floor_time *f)
{
    json_open(j, "floor", '{');
    json_real(j, "floor_s", floor_seconds(f));
    json_int(j, "products", f->products);
    json_real(j, "products_s", f->products_seconds);
    json_real(j, "rest_bytes", f->rest_bytes);
    json_real(j, "rest_s", floor_rest_seconds(f));
    json_real(j, "bytes_per_s", f->bytes_per_second);
    json_close(j, '}');
}

static void print_json(const sum *s)
{
    const options *o = s->options;
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "model", o->sum);
    json_int(&j, "batch", o->batch);
    json_int(&j, "threads", brasa_context_threads(s->all.context));
    place_json(&j, s->all.context, s->all.precision);
    json_text(&j, "optimizer", BENCH_OPTIMIZER);
    json_text(&j, "only", o->kernels);
    json_int(&j, "repeats", s->repeats);
    json_real(&j, "sum_s", s->seconds);
    json_real(&j, "step_s", samples_at(&s->steps, 0.5));
    if (has_floor(s))
        json_floor(&j, &s->floor);
    json_open(&j, "kernels", '[');
    for (int i = 0; i < s->rows; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "kernel", s->row[i].kernel);
        json_int(&j, "nodes", s->row[i].nodes);
        json_real(&j, "alone_s", s->row[i].seconds);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    build_json(&j);
    json_close(&j, '}');
}

static int measure(network *n, sum *s)
{
    brasa_status status = network_step(n, true); /* touches all memory once */
    int code = status == BRASA_OK ? time_steps(n, s) : fail_session(n);
    if (code == DONE)
        code = time_all(n, s);
    return code == DONE ? time_steps(n, s) : code;
}

/* A session with the kernels named so; `only`: to time the nodes of this one again, NULL: the first session. */
static int bench_session(sum *s, network *n, const char *kernels, const kernel *only)
{
    options of_model = *s->options;
    of_model.word[0] = s->options->sum;
    of_model.words = 1;
    brasa_session_options session = {.size = sizeof session,
                                     .batch = of_model.batch,
                                     .optimizer = BENCH_OPTIMIZER,
                                     .seed = (uint64_t)of_model.seed,
                                     .kernels = kernels};
    int code = network_beside(n, &s->all);
    if (code == DONE)
        code = network_build(n, &of_model);
    if (code == DONE && brasa_graph_param_total(n->graph) == 0)
        code = complain(FAILED, "%s: nothing in it can be trained", s->options->sum);
    if (code == DONE)
        code = network_compile(n, s->options, session);
    if (code == DONE)
        code = network_make_data(n, of_model.batch, (uint64_t)of_model.seed);
    if (code == DONE)
        code = only ? time_again(n, s, only) : measure(n, s);
    return code;
}

/* Whether some node of the op has a kernel that comes before this one. */
static bool passed_over(const sum *s, const op_def *op, const kernel *k)
{
    for (int i = 0; i < s->nodes; i++)
        for (const kernel *after = s->node[i].kernel; s->node[i].op == op && after;
             after = kernel_next(s->all.context, op, F32, after))
            if (after == k && k != s->node[i].kernel)
                return true;
    return false;
}

/* Whether nodes are to be timed on this kernel, too: unless others are named, those of vendors' libraries. */
static bool is_asked_for(const sum *s, const kernel *k)
{
    return s->options->kernels ? strstr(k->name, s->options->kernels) != NULL : has_floor(s) && k->vendor;
}

static int bench_others(sum *s)
{
    int code = DONE;
    for (int i = 0; op_at(i); i++) {
        const brasa_context *ctx = s->all.context;
        for (const kernel *k = NULL; code == DONE && (k = kernel_next(ctx, op_at(i), F32, k)) != NULL;) {
            if (!is_asked_for(s, k) || !passed_over(s, op_at(i), k))
                continue;
            network n;
            code = bench_session(s, &n, k->name, k);
            network_close(&n);
        }
    }
    return code;
}

int run_bench_sum(const options *o)
{
    network n;
    sum s = {.options = o, .repeats = o->steps ? (int)o->steps : REPEATS};
    if (o->seconds >= 0)
        return complain(MISUSED, "bench ops: --sum takes no --seconds, but --steps: how often each kernel runs");
    if (s.repeats > MOST_REPEATS)
        return complain(MISUSED, "bench ops: --sum takes at most %d --steps", MOST_REPEATS);
    if (o->words)
        return complain(MISUSED, "bench ops: --sum takes no op, unexpected '%s'", o->word[0]);
    s.progress = progress_start(o->quiet);
    int code = network_start(&s.all, o);
    if (code == DONE) {
        code = bench_session(&s, &n, o->kernels, NULL);
        network_close(&n);
    }
    if (code == DONE)
        code = bench_others(&s);
    if (code == DONE && has_floor(&s))
        code = floor_measure_memory(&s.floor, s.all.context);
    progress_end(&s.progress);
    if (code == DONE) {
        add_up(&s);
        (o->json ? print_json : print_text)(&s);
    }
    network_close(&s.all);
    samples_free(&s.steps);
    free(s.node);
    return code;
}
