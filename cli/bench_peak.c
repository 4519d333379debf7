/* bench_peak.c - `brasa bench peak`: how many products and sums a second this machine can make at best. See
 * lab/peak.h. */
#include "build_info.h"
#include "cli.h"
#include "samples.h"

#include "core/isa.h"
#include "core/threads.h"
#include "lab/peak.h"

#include <stdio.h>

enum { LEAST_SAMPLES = 5, MOST_SAMPLES = 10000 };

static const double default_seconds = 0.5;

static int measure(const options *o, int threads, samples *taken)
{
    const double seconds = o->seconds >= 0 ? o->seconds : default_seconds, start = clock_seconds();
    while (taken->count < MOST_SAMPLES && (taken->count < LEAST_SAMPLES || clock_seconds() - start < seconds))
        if (!samples_add(taken, peak_sample(threads)))
            return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
    samples_sort(taken);
    return DONE;
}

static void print_json(int threads, const samples *s)
{
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "isa", isa_name(isa_available()));
    json_int(&j, "threads", threads);
    json_real(&j, "best_gflop_per_s", samples_at(s, 1) * 1e-9);
    json_real(&j, "median_gflop_per_s", samples_at(s, 0.5) * 1e-9);
    json_real(&j, "worst_gflop_per_s", samples_at(s, 0) * 1e-9);
    json_int(&j, "samples", s->count);
    machine_json(&j);
    json_close(&j, '}');
}

int run_bench_peak(const options *o)
{
    samples s = {0};
    const int threads = o->threads ? threads_granted((int)o->threads) : threads_available();
    int code = measure(o, threads, &s);
    if (code == DONE && o->json)
        print_json(threads, &s);
    else if (code == DONE)
        printf("%.1f GFLOP/s at best, %.1f to %.1f in the middle half of %d: float32, %s, %d thread%s\n",
               samples_at(&s, 1) * 1e-9, samples_at(&s, 0.25) * 1e-9, samples_at(&s, 0.75) * 1e-9, s.count,
               isa_name(isa_available()), threads, threads == 1 ? "" : "s");
    samples_free(&s);
    return code;
}
