/* test_threads.c - what the library promises to the thread that calls it: how many it uses, its floating-point state,
 * and that contexts do not see each other. */
#include "test.h"

#include "core/cgroup.h"
#include "core/threads.h"
#include "session/session.h"

#include <pthread.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

TEST(cpu_quota)
{
    CHECK_CLOSE(cgroup_quota("200000 100000\n"), 2, 0);
    CHECK_CLOSE(cgroup_quota("150000 100000"), 1.5, 0);
    CHECK_CLOSE(cgroup_quota("50000 100000"), 0.5, 0);
    CHECK_CLOSE(cgroup_quota("max 100000\n"), 0, 0);
    CHECK_CLOSE(cgroup_quota("-1 100000"), 0, 0); /* cgroup v1's word for none */
    CHECK_CLOSE(cgroup_quota("200000"), 0, 0);
    CHECK_CLOSE(cgroup_quota("200000 0"), 0, 0);
    CHECK_CLOSE(cgroup_quota(""), 0, 0);
    CHECK(threads_available() >= 1);
}

static unsigned fp_state(void)
{
#if defined(__x86_64__)
    return _mm_getcsr() & ~0x3fu; /* without the flags that any operation may raise */
#else
    return 0;
#endif
}

static bool denormals_live(void)
{
    volatile float tiny = 1e-40f;
    return tiny * 0.5f != 0;
}

/* Whether denormals are kept in every thread of the caller's pool. */
static bool denormals_live_everywhere(int threads)
{
    int kept = 0, asked = 0;
    (void)threads; /* which the build without OpenMP does not look at */
#pragma omp parallel num_threads(threads) reduction(+ : kept, asked)
    {
        kept += denormals_live();
        asked++;
    }
    return kept == asked && asked > 0;
}

TEST(denormals_in_the_pool)
{
    const int threads = 3;
    unsigned before = fp_state();
    CHECK(denormals_live_everywhere(threads));
    OWNED(brasa_context) *ctx = context_of(0);
    threads_state saved;
    CHECK_STATUS(threads_enter(ctx, threads, &saved), BRASA_OK);
    bool inside = denormals_live();
    threads_leave(saved, threads);
    CHECK(denormals_live_everywhere(threads));
    CHECK_INT(fp_state(), before);
#if defined(__x86_64__) || defined(__aarch64__)
    CHECK(!inside);
#else
    (void)inside;
#endif
}

/* A network whose first product is denormal: dense with all weights 1 on inputs of 1e-40. */
TEST(denormals_in_a_step)
{
#if !defined(__x86_64__) && !defined(__aarch64__)
    SKIP("denormals are not flushed on this machine");
#endif
    OWNED(brasa_context) *ctx = context_of(2);
    OWNED(brasa_graph) *g = brasa_graph_new(ctx);
    OWNED(brasa_session) *s = NULL;
    brasa_tensor x = brasa_apply(brasa_input_vector(g, "x", 1), "dense 1 bias=no init=one");
    brasa_output(x, "product");
    brasa_classify(x, 2);
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .optimizer = "sgd lr=0.1"), &s), BRASA_OK);
    REQUIRE(s);
    const float tiny = 1e-40f;
    const int32_t label = 0;
    float product = -1;
    unsigned before = fp_state();
    CHECK_STATUS(brasa_train_step(s, &tiny, &label, NULL), BRASA_OK);
    CHECK_INT(fp_state(), before);
    CHECK(denormals_live_everywhere(2));
    CHECK_STATUS(brasa_fetch(s, "product", &product, sizeof product), BRASA_OK);
    CHECK(product == 0);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8000); /* a caller who flushes keeps flushing */
    before = fp_state();
    CHECK_STATUS(brasa_train_step(s, &tiny, &label, NULL), BRASA_OK);
    CHECK_INT(fp_state(), before);
    _mm_setcsr(_mm_getcsr() & ~0x8000u);
#endif
}

/* --- small work ------------------------------------------------------------------------------------------------ */

/* The most threads that a node of a training step runs on, of three. */
static int threads_used(const char *model, int batch)
{
    brasa_context *ctx = context_of(3);
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_session *s = NULL;
    const brasa_session_options o = {.size = sizeof o, .batch = batch, .optimizer = "sgd lr=0.1", .plan_only = true};
    const bool ok = g && brasa_model_build(g, model, 0) == BRASA_OK && brasa_session_new(g, &o, &s) == BRASA_OK;
    const program *p = ok ? session_program(s, true, batch) : NULL;
    int most = 0;
    for (int i = 0; p && i < p->nsteps; i++)
        most = p->steps[i].threads > most ? p->steps[i].threads : most;
    CHECK_INT(most, p ? p->threads : -1);
    brasa_session_free(s);
    brasa_graph_free(g);
    brasa_context_free(ctx);
    return most;
}

/* Microseconds of work are not worth waking other threads for: not for the nodes, and not for the step. */
TEST(small_steps_stay_in_one_thread)
{
    CHECK_INT(threads_used("letter_mlp", 128), 1);
    CHECK_INT(threads_used("letter_mlp", 1 << 16), 3);
    CHECK_INT(threads_used("mnist_cnn", 1), 3);
}

/* --- fewer threads than were asked for ------------------------------------------------------------------------- */

#ifdef _OPENMP

typedef struct trainee {
    brasa_context *ctx;
    brasa_graph *g;
    brasa_session *s;
} trainee;

/* A convolution whose weight gradient oneDNN computes in threads that wait for each other. */
static bool open_trainee(trainee *t, int threads)
{
    *t = (trainee){0};
    if (brasa_context_new(&SIZED(brasa_context_options, .threads = threads), &t->ctx) != BRASA_OK)
        return false;
    t->g = brasa_graph_new(t->ctx);
    return t->g && brasa_model_build(t->g, "cifar10_cnn", 0) == BRASA_OK &&
           brasa_session_new(t->g, &SIZED(brasa_session_options, .batch = 8, .optimizer = "sgd lr=0.1"), &t->s) ==
               BRASA_OK;
}

static brasa_status train_trainee(const trainee *t)
{
    static const float x[8 * 3 * 32 * 32];
    static const int32_t labels[8];
    return brasa_train_step(t->s, x, labels, NULL);
}

static void close_trainee(trainee *t)
{
    brasa_session_free(t->s);
    brasa_graph_free(t->g);
    brasa_context_free(t->ctx);
}

/* In a program's own parallel region OpenMP gives a single thread: a context that is made there has one, and what was
 * made for several is refused, where it waited for them for good. */
TEST(inside_a_parallel_region)
{
    enum { OUTSIDE = 2 };
    trainee before[OUTSIDE];
    bool made[OUTSIDE] = {0};
    brasa_status refused[OUTSIDE] = {0}, trained[OUTSIDE] = {0};
    int teams = 0, threads[OUTSIDE] = {0};
    if (omp_get_max_active_levels() > 1 || threads_granted(OUTSIDE) < OUTSIDE)
        SKIP("OpenMP is set up to give other numbers of threads here");
    for (int i = 0; i < OUTSIDE; i++)
        CHECK(open_trainee(&before[i], 3));
#pragma omp parallel num_threads(OUTSIDE) reduction(+ : teams)
    {
        const int i = omp_get_thread_num();
        trainee own;
        made[i] = open_trainee(&own, 3);
        threads[i] = made[i] ? brasa_context_threads(own.ctx) : 0;
        trained[i] = made[i] ? train_trainee(&own) : BRASA_INTERNAL;
        close_trainee(&own);
        refused[i] = train_trainee(&before[i]);
        teams++;
    }
    CHECK_INT(teams, OUTSIDE);
    for (int i = 0; i < OUTSIDE; i++) {
        CHECK_INT(threads[i], 1);
        CHECK_STATUS(trained[i], BRASA_OK);
        CHECK_STATUS(refused[i], BRASA_WRONG_STATE);
        CHECK(strstr(brasa_context_error(before[i].ctx), "OpenMP gives 1 of 3 threads"));
        CHECK_INT(brasa_context_threads(before[i].ctx), 3);
        CHECK_STATUS(train_trainee(&before[i]), BRASA_OK);
        close_trainee(&before[i]);
    }
}

/* OMP_DYNAMIC lets OpenMP give fewer threads than were asked for: at most one for each processor. */
TEST(more_threads_than_processors)
{
    trainee t;
    const int threads = omp_get_num_procs() + 1, dynamic = omp_get_dynamic();
    if (threads > 65 || threads_granted(threads) < threads)
        SKIP("so many threads are too many for a test");
    omp_set_dynamic(1);
    CHECK(open_trainee(&t, threads));
    CHECK_STATUS(train_trainee(&t), BRASA_OK);
    CHECK(omp_get_dynamic());
    omp_set_dynamic(dynamic);
    close_trainee(&t);
}

#endif

/* --- several contexts at once ---------------------------------------------------------------------------------- */

enum { WORKERS = 4, ROUNDS = 6 };

typedef struct worker {
    pthread_t thread;
    int number;
    bool ok;
    float loss; /* after training with the same seed and data as all others */
} worker;

static bool train_once(brasa_context *ctx, float *loss)
{
    float x[8 * 16];
    int32_t labels[8];
    for (int i = 0; i < 8 * 16; i++)
        x[i] = (float)(i * 7 % 11) / 11;
    for (int i = 0; i < 8; i++)
        labels[i] = i * 3 % 26;
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_session *s = NULL;
    bool ok = g && brasa_model_build(g, "letter_mlp", 0) == BRASA_OK &&
              brasa_session_new(g, &SIZED(brasa_session_options, .batch = 8, .optimizer = "adam", .seed = 3), &s) ==
                  BRASA_OK;
    for (int i = 0; ok && i < 5; i++)
        ok = brasa_train_step(s, x, labels, loss) == BRASA_OK;
    brasa_session_free(s);
    brasa_graph_free(g);
    return ok;
}

/* The model file has 1,199,882 parameters, whoever else reads one at the same moment. */
static bool read_file_once(brasa_context *ctx)
{
    brasa_graph *g = brasa_graph_new(ctx);
    bool ok = g && brasa_model_build(g, BRASA_SOURCE_DIR "/src/models/mnist_cnn.net", 0) == BRASA_OK &&
              brasa_graph_param_total(g) == 1199882;
    brasa_graph_free(g);
    return ok;
}

/* An error stays on its own context. */
static bool err_once(brasa_context *ctx, int number)
{
    char name[32];
    snprintf(name, sizeof name, "no_such_model_%d", number);
    brasa_graph *g = brasa_graph_new(ctx);
    bool ok = g && brasa_model_build(g, name, 0) == BRASA_NOT_FOUND && strstr(brasa_context_error(ctx), name);
    brasa_graph_free(g);
    return ok;
}

static void *work(void *user)
{
    worker *w = user;
    brasa_context *ctx = NULL;
    w->ok = brasa_context_new(&SIZED(brasa_context_options, .threads = 1 + w->number % 2), &ctx) == BRASA_OK;
    for (int i = 0; w->ok && i < ROUNDS; i++)
        w->ok = train_once(ctx, &w->loss) && err_once(ctx, w->number) && read_file_once(ctx);
    brasa_context_free(ctx);
    return NULL;
}

TEST(contexts_in_threads)
{
    worker alone = {.number = 0}, workers[WORKERS] = {0};
    work(&alone);
    CHECK(alone.ok);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].number = i;
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < WORKERS; i++) {
        CHECK(workers[i].ok);
        CHECK(workers[i].loss == alone.loss);
    }
}
