/* bench_step.c - `brasa bench step`: seconds per training step.
 *
 * A step is what a training loop does: the batch is copied in, the program runs, weights are updated. Made-up data,
 * one batch for all steps. The first steps touch new memory and wake the pool, so they are not counted.
 *
 * A GPU finds the batch in its own memory, and is waited for after each step, or after some of them where they are
 * short: a training need not wait after each either. Its first steps load code and record what is repeated.
 */
#include "build_info.h"
#include "device.h"
#include "network.h"
#include "samples.h"

#include "device/device.h"
#include "train/task.h"

#include <math.h>
#include <stdio.h>

enum { SHORT_BATCH = 32, GROUP = 5 };
enum { WARM_UP = 2, LEAST_STEPS = 3, MOST_STEPS = 1000000, MOST_KERNELS = 256 };

static const double default_seconds = 5;

static bool enough(const options *o, int steps, double elapsed)
{
    if (o->steps)
        return steps >= o->steps;
    double seconds = o->seconds >= 0 ? o->seconds : default_seconds;
    return steps >= MOST_STEPS || (steps >= LEAST_STEPS && elapsed >= seconds);
}

static int fail_step(const network *n)
{
    return complain(FAILED, "%s", brasa_session_error(n->session));
}

/* How many steps are timed at once. */
static int group_of(const network *n, const options *o)
{
    return n->context->device->most_pending && o->batch < SHORT_BATCH && !o->steps ? GROUP : 1;
}

static brasa_status run_steps(network *n, int count)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < count && status == BRASA_OK; i++) {
        status = n->context->device->host_memory ? network_feed(n) : session_feed_held(n->session);
        if (status == BRASA_OK)
            status = brasa_train(n->session);
    }
    return status == BRASA_OK ? session_wait(n->session) : status;
}

/* Takes the batch to memory that is not the host's, where it stays. */
static brasa_status hold(network *n)
{
    if (n->context->device->host_memory)
        return BRASA_OK;
    const brasa_status status = network_feed(n);
    return status == BRASA_OK ? session_hold(n->session) : status;
}

static int measure(network *n, const options *o, samples *times, double *first)
{
    const int group = group_of(n, o);
    if (hold(n) != BRASA_OK)
        return fail_step(n);
    for (int i = 0; i < WARM_UP; i++) {
        if (run_steps(n, 1) != BRASA_OK)
            return fail_step(n);
        *first = i == 0 ? clock_since_start() : *first;
    }
    progress p = progress_start(o->quiet);
    double start = clock_seconds(), before = start;
    while (!enough(o, times->count, before - start)) {
        if (run_steps(n, group) != BRASA_OK) {
            progress_end(&p);
            return fail_step(n);
        }
        const double seconds = (clock_seconds() - before) / group;
        if (!samples_add(times, seconds)) {
            progress_end(&p);
            return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
        }
        progress_show(&p, "step %d, %s", times->count * group, print_seconds(seconds).text);
        before = clock_seconds();
    }
    progress_end(&p);
    samples_sort(times);
    return DONE;
}

typedef struct result {
    samples times;
    double first; /* seconds from the start of the process to the end of the first step */
    float loss;
    double flops;
    brasa_memory memory;
    int kernels;
    const char *kernel[MOST_KERNELS];
} result;

static void print_json(const network *n, const options *o, const result *r)
{
    const samples *t = &r->times;
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "model", o->word[0]);
    json_int(&j, "batch", o->batch);
    json_int(&j, "threads", brasa_context_threads(n->context));
    place_json(&j, n->context, n->precision);
    json_text(&j, "optimizer", BENCH_OPTIMIZER);
    json_int(&j, "steps", t->count * group_of(n, o));
    json_real(&j, "median_s", samples_at(t, 0.5));
    json_real(&j, "spread_s", samples_at(t, 0.75) - samples_at(t, 0.25));
    json_real(&j, "min_s", samples_at(t, 0));
    json_real(&j, "max_s", samples_at(t, 1));
    json_real(&j, "first_step_s", r->first);
    json_real(&j, "images_per_s", (double)o->batch / samples_at(t, 0.5));
    json_real(&j, "gflop", r->flops * 1e-9);
    json_real(&j, "gflop_per_s", r->flops * 1e-9 / samples_at(t, 0.5));
    json_int(&j, "peak_rss_bytes", (int64_t)peak_rss_bytes());
    json_int(&j, "plan_bytes", (int64_t)r->memory.total);
    json_real(&j, "loss", r->loss);
    json_open(&j, "kernels", '[');
    for (int i = 0; i < r->kernels; i++)
        json_text(&j, NULL, r->kernel[i]);
    json_close(&j, ']');
    build_json(&j);
    json_close(&j, '}');
}

static void print_text(const network *n, const options *o, const result *r)
{
    const samples *t = &r->times;
    const double median = samples_at(t, 0.5);
    const device *d = n->context->device;
    heading("%s, batch %lld, %s, %s", o->word[0], (long long)o->batch, print_place(n->context, n->precision).text,
            BENCH_OPTIMIZER);
    printf("step      %s median of %d, spread %s (middle half), %s to %s\n", print_seconds(median).text, t->count,
           print_seconds(samples_at(t, 0.75) - samples_at(t, 0.25)).text, print_seconds(samples_at(t, 0)).text,
           print_seconds(samples_at(t, 1)).text);
    printf("speed     %s images/s, %.1f GFLOP/s\n", print_number(round((double)o->batch / median * 10) / 10).text,
           r->flops * 1e-9 / median);
    printf("start     %s to the end of the first step\n", print_seconds(r->first).text);
    printf("memory    %s at peak in the process, %s %s\n", print_bytes(peak_rss_bytes()).text,
           print_bytes((double)r->memory.total).text, d->host_memory ? "of it planned" : "planned of the device's");
    printf("versions  brasa %s, %s, OpenMP %s\n", brasa_version(), build_compiler(), build_openmp());
    if (d->about[0])
        printf("device    %s\n", d->about);
    if (d->missing[0])
        printf("          %s\n", d->missing);
    printf("kernels   ");
    char names[4096] = "";
    size_t used = 0;
    for (int i = 0; i < r->kernels && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s ", r->kernel[i]);
    wrapped(10, 10, names);
}

static int bench(network *n, const options *o, result *r)
{
    if (brasa_graph_param_total(n->graph) == 0)
        return complain(FAILED, "%s: nothing in it can be trained", o->word[0]);
    brasa_session_options s = {.size = sizeof s,
                               .batch = o->batch,
                               .optimizer = BENCH_OPTIMIZER,
                               .seed = (uint64_t)o->seed,
                               .kernels = o->kernels};
    int code = network_compile(n, o, s);
    if (code == DONE)
        code = network_make_data(n, o->batch, (uint64_t)o->seed);
    if (code == DONE)
        code = measure(n, o, &r->times, &r->first);
    if (code != DONE)
        return code;
    /* A time means nothing where the numbers went wrong. */
    if (brasa_fetch(n->session, "loss", &r->loss, sizeof r->loss) != BRASA_OK)
        return fail_step(n);
    if (!isfinite(r->loss))
        return complain(FAILED, "%s: the loss is %g after %d steps", o->word[0], (double)r->loss, r->times.count);
    r->flops = network_flops(n);
    r->kernels = session_kernels(n->session, r->kernel, MOST_KERNELS);
    r->memory = session_memory(n->session);
    return DONE;
}

int run_bench_step(const options *o)
{
    network n;
    result r = {0};
    int code = network_start(&n, o);
    if (code == DONE)
        code = network_build(&n, o);
    if (code == DONE)
        code = bench(&n, o, &r);
    if (code == DONE && o->json)
        print_json(&n, o, &r);
    else if (code == DONE)
        print_text(&n, o, &r);
    samples_free(&r.times);
    network_close(&n);
    return code;
}
