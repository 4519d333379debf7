/* bench_sum.c - `brasa bench ops --sum MODEL`: the kernels of a network's training step, each timed alone.
 *
 * A node runs several times in a row, on the data that the nodes before it left, so that what it reads is in the
 * cache as far as it fits. The sum over all nodes is a floor for the step: what the step takes beyond it is lost
 * between the kernels. Steps are timed before and after, in the same process, because machines change their speed.
 */
#include "build_info.h"
#include "network.h"
#include "samples.h"

#include "train/session.h"

#include <stdlib.h>
#include <string.h>

enum { REPEATS = 5, STEPS = 3, MOST_KERNELS = 256 };

/* All nodes that run on one kernel. */
typedef struct row {
    const char *kernel;
    int nodes;
    double seconds;
} row;

typedef struct sum {
    row row[MOST_KERNELS]; /* the slowest first */
    int rows;
    double seconds;
    samples steps;
} sum;

static int fail_session(const network *n)
{
    return complain(FAILED, "%s", brasa_session_error(n->session));
}

static int time_steps(network *n, sum *s, progress *p)
{
    for (int i = 0; i < STEPS; i++) {
        brasa_status status = network_feed(n);
        double start = clock_seconds();
        if (status == BRASA_OK)
            status = brasa_train(n->session);
        if (status != BRASA_OK)
            return fail_session(n);
        if (!samples_add(&s->steps, clock_seconds() - start))
            return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
        progress_show(p, "step %d of %d", s->steps.count, 2 * STEPS);
    }
    return DONE;
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

static int time_kernels(network *n, sum *s, progress *p)
{
    program *all = n->session->current;
    if (network_feed(n) != BRASA_OK)
        return fail_session(n);
    for (int i = 0; i < all->nsteps; i++) {
        int64_t took[REPEATS + 1]; /* the first run warms up */
        samples t = {0};
        brasa_status status = program_repeat(all, i, REPEATS + 1, took);
        if (status != BRASA_OK)
            return complain(FAILED, "%s '%s': %s", all->steps[i].kernel->name, all->steps[i].node->name,
                            brasa_status_text(status));
        for (int k = 1; k <= REPEATS; k++)
            if (!samples_add(&t, (double)took[k] * 1e-9))
                return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
        samples_sort(&t);
        add(s, all->steps[i].kernel->name, samples_at(&t, 0.5));
        samples_free(&t);
        progress_show(p, "node %d of %d", i + 1, all->nsteps);
    }
    return DONE;
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const row *)a)->seconds, y = ((const row *)b)->seconds;
    return (x < y) - (x > y);
}

static void print_text(const network *n, const options *o, const sum *s)
{
    const int threads = brasa_context_threads(n->context);
    const double median = samples_at(&s->steps, 0.5);
    heading("%s, batch %lld, %d thread%s, %s", o->sum, (long long)o->batch, threads, threads == 1 ? "" : "s",
            BENCH_OPTIMIZER);
    printf("%-34s %5s %9s %7s\n", "kernel", "nodes", "alone", "share");
    for (int i = 0; i < s->rows; i++)
        printf("%-34s %5d %9s %5.1f %%\n", s->row[i].kernel, s->row[i].nodes, print_seconds(s->row[i].seconds).text,
               100 * s->row[i].seconds / s->seconds);
    printf("sum of the kernels alone %s, median of %d each\n", print_seconds(s->seconds).text, REPEATS);
    printf("a step of the network    %s, median of %d: %.2f times the sum\n", print_seconds(median).text,
           s->steps.count, median / s->seconds);
}

static void print_json(const network *n, const options *o, const sum *s)
{
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "model", o->sum);
    json_int(&j, "batch", o->batch);
    json_int(&j, "threads", brasa_context_threads(n->context));
    json_text(&j, "optimizer", BENCH_OPTIMIZER);
    json_real(&j, "sum_s", s->seconds);
    json_real(&j, "step_s", samples_at(&s->steps, 0.5));
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

static int measure(network *n, const options *o, sum *s)
{
    progress p = progress_start(o->quiet);
    brasa_status status = network_step(n, true); /* touches all memory once */
    int code = status == BRASA_OK ? time_steps(n, s, &p) : fail_session(n);
    if (code == DONE)
        code = time_kernels(n, s, &p);
    if (code == DONE)
        code = time_steps(n, s, &p);
    progress_end(&p);
    return code;
}

int run_bench_sum(const options *o)
{
    network n;
    sum s = {0};
    options of_model = *o;
    if (o->seconds >= 0)
        return complain(MISUSED, "bench ops: --sum takes no --seconds: each kernel runs %d times", REPEATS);
    if (o->words)
        return complain(MISUSED, "bench ops: --sum takes no op, unexpected '%s'", o->word[0]);
    of_model.word[0] = o->sum;
    of_model.words = 1;
    brasa_session_options session = {.batch = o->batch, .optimizer = BENCH_OPTIMIZER, .seed = (uint64_t)o->seed};
    int code = network_start(&n, o->threads);
    if (code == DONE)
        code = network_build(&n, &of_model);
    if (code == DONE && brasa_graph_param_total(n.graph) == 0)
        code = complain(FAILED, "%s: nothing in it can be trained", o->sum);
    if (code == DONE)
        code = network_compile(&n, &session);
    if (code == DONE)
        code = network_make_data(&n, o->batch, (uint64_t)o->seed);
    if (code == DONE)
        code = measure(&n, o, &s);
    if (code == DONE) {
        samples_sort(&s.steps);
        qsort(s.row, (size_t)s.rows, sizeof s.row[0], by_seconds);
        (o->json ? print_json : print_text)(&n, o, &s);
    }
    samples_free(&s.steps);
    network_close(&n);
    return code;
}
