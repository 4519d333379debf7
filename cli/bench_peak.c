/* bench_peak.c - `brasa bench peak`: how many products and sums a second this machine can make at best.
 *
 * Every thread runs fused multiply-adds on registers alone, in more chains than one waits for. No kernel can be
 * faster, so that other figures become shares of this one; and as virtual machines change their speed, the figure
 * taken beside a measurement says how fast the machine was at that time. The file is compiled with
 * -ffp-contract=fast: that makes one instruction of the product and the sum, where the processor has it.
 */
#include "build_info.h"
#include "cli.h"
#include "samples.h"

#include "core/isa.h"
#include "core/threads.h"

#include <stdio.h>

/* So many rounds take 4 to 8 ms at 3 GHz, whatever the vectors: long beside what it takes to wake the threads. */
enum { CHAINS = 12, ROUNDS = 2000000, LEAST_SAMPLES = 5, MOST_SAMPLES = 10000 };

static const double default_seconds = 0.5;

/* Vectors that lie in registers; the numbers tend to 2 and stay there. */
#define LOOP(name, lanes, target)                                                                                    \
    target static float name(int rounds, const float *with)                                                          \
    {                                                                                                                \
        typedef float vec __attribute__((vector_size(lanes * 4)));                                                   \
        const vec half = with[0] - (vec){0}, one = with[1] - (vec){0};                                               \
        vec x[CHAINS];                                                                                               \
        for (int k = 0; k < CHAINS; k++)                                                                             \
            x[k] = one * (float)k;                                                                                   \
        for (int r = 0; r < rounds; r++)                                                                             \
            for (int k = 0; k < CHAINS; k++)                                                                         \
                x[k] = x[k] * half + one;                                                                            \
        for (int k = 1; k < CHAINS; k++)                                                                             \
            x[0] += x[k];                                                                                            \
        return x[0][0];                                                                                              \
    }

LOOP(run_any, 4, )
#ifdef BRASA_SIMD
LOOP(run_avx2, 8, __attribute__((target("avx2,fma"))))
LOOP(run_avx512, 16, __attribute__((target("avx512f"))))
#endif

typedef struct work {
    float (*loop)(int rounds, const float *with);
    int lanes;
    volatile float half, one, result; /* volatile: nothing is known to the compiler, nothing is left out */
} work;

static work work_for(isa i)
{
    work w = {.loop = run_any, .lanes = 4, .half = 0.5f, .one = 1};
#ifdef BRASA_SIMD
    if (i != ISA_ANY) {
        w.loop = i == ISA_AVX512 ? run_avx512 : run_avx2;
        w.lanes = i == ISA_AVX512 ? 16 : 8;
    }
#else
    (void)i;
#endif
    return w;
}

static void run(void *user, int64_t begin, int64_t end)
{
    work *w = user;
    const float with[2] = {w->half, w->one};
    float result = 0;
    for (int64_t i = begin; i < end; i++)
        result += w->loop(ROUNDS, with);
    if (result < 0) /* never, which only we know */
        w->result = result;
}

static int measure(const options *o, int threads, samples *taken)
{
    work w = work_for(isa_available());
    const double seconds = o->seconds >= 0 ? o->seconds : default_seconds, start = clock_seconds();
    while (taken->count < MOST_SAMPLES && (taken->count < LEAST_SAMPLES || clock_seconds() - start < seconds)) {
        const double before = clock_seconds();
        threads_for(threads, threads, run, &w);
        const double took = clock_seconds() - before;
        if (!samples_add(taken, 2.0 * CHAINS * w.lanes * ROUNDS * threads / took))
            return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
    }
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
    const int threads = o->threads ? (int)o->threads : threads_available();
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
