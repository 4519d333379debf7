/* peak.c - see peak.h. The file is compiled with -ffp-contract=fast: that makes one instruction of the product and
 * the sum, where the processor has it. */
#include "lab/peak.h"

#include "core/isa.h"
#include "core/threads.h"
#include "lab/lab.h"

/* So many rounds take 4 to 8 ms at 3 GHz, whatever the vectors: long beside what it takes to wake the threads. */
enum { CHAINS = 12, ROUNDS = 2000000 };

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

double peak_sample(int threads)
{
    work w = work_for(isa_available());
    const double before = lab_now();
    threads_for(threads, threads, run, &w);
    return 2.0 * CHAINS * w.lanes * ROUNDS * threads / (lab_now() - before);
}

double peak_median(int threads)
{
    double v[5];
    for (int i = 0; i < 5; i++) {
        const double sample = peak_sample(threads);
        int k = i;
        for (; k > 0 && v[k - 1] > sample; k--)
            v[k] = v[k - 1];
        v[k] = sample;
    }
    return v[2];
}
