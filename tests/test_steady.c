/* test_steady.c - a training step only runs: no memory is asked for or given back, no mutex is taken, no thread made.
 *
 * The functions that would do so are defined here, so that the whole process (the library, OpenMP, libc) calls these,
 * which count and pass on. A check of the counters comes first: a net with holes catches nothing.
 */
#define _GNU_SOURCE
#include "test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum counted { MALLOC, CALLOC, REALLOC, MEMALIGN, FREE, MMAP, MUTEX, THREAD, COUNTED } counted;
static const char *const names[COUNTED] = {"malloc", "calloc", "realloc", "aligned allocation",
                                           "free",   "mmap",   "mutex",   "thread creation"};
static atomic_int counts[COUNTED];

/* oneDNN puts the arguments of every execution into a table of its own, on the heap: what it asks for there is not
 * ours to prevent. It is the one C++ library in the process. */
static bool from_onednn(void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname &&
           (strstr(info.dli_fname, "libdnnl") || strstr(info.dli_fname, "libstdc++"));
}

static void count_from(counted what, void *caller)
{
    if (!from_onednn(caller))
        atomic_fetch_add_explicit(&counts[what], 1, memory_order_relaxed);
}
#define count(what) count_from(what, __builtin_return_address(0))

/* --- the net: memory goes on to glibc's own names, as dlsym itself asks for memory ------------------------------ */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

void *malloc(size_t bytes)
{
    count(MALLOC);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t size)
{
    count(CALLOC);
    return __libc_calloc(n, size);
}

void *realloc(void *block, size_t bytes)
{
    count(REALLOC);
    return __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count(MEMALIGN);
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes)
{
    count(MEMALIGN);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    count(MEMALIGN);
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}

void free(void *block)
{
    if (block)
        count(FREE);
    __libc_free(block);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    count(MMAP);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

/* dlsym gives an object pointer; ISO C has no cast from it to a function's. */
static void next_function(const char *name, void *function, size_t size)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, size);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);
    if (!next)
        next_function("pthread_mutex_lock", &next, sizeof next);
    count(MUTEX);
    return next(mutex);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *user)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next)
        next_function("pthread_create", &next, sizeof next);
    count(THREAD);
    return next(thread, attr, run, user);
}

static void reset(void)
{
    for (int i = 0; i < COUNTED; i++)
        atomic_store(&counts[i], 0);
}

/* --- the net has no holes --------------------------------------------------------------------------------------- */

static void *nothing(void *user)
{
    return user;
}

/* volatile keeps the compiler from seeing that nothing is done with the memory. */
static void *volatile sink;

TEST(counters_count)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    void *block = NULL;
    pthread_t thread;
    reset();
    sink = malloc(10);
    sink = realloc(sink, 1000);
    free(sink);
    sink = calloc(3, 4);
    free(sink);
    sink = aligned_alloc(64, 128);
    free(sink);
    CHECK(posix_memalign(&block, 64, 100) == 0);
    free(block);
    block = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(block != MAP_FAILED);
    munmap(block, 4096);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    CHECK_INT(counts[MALLOC], 1);
    CHECK_INT(counts[REALLOC], 1);
    CHECK_INT(counts[CALLOC], 1);
    CHECK_INT(counts[MEMALIGN], 2);
    CHECK_INT(counts[FREE], 4);
    CHECK_INT(counts[MMAP], 1);
    CHECK_INT(counts[MUTEX], 1);
    REQUIRE(pthread_create(&thread, NULL, nothing, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK_INT(counts[THREAD], 1);
}

/* Calls that libc makes on its own are seen too. */
TEST(counters_see_libc)
{
    reset();
    sink = strdup("text");
    CHECK_INT(counts[MALLOC], 1);
    free(sink);
    CHECK_INT(counts[FREE], 1);
}

/* And those of OpenMP: a team larger than any before needs new threads. */
TEST(counters_see_openmp)
{
#ifndef _OPENMP
    SKIP("built without OpenMP");
#endif
    int members = 0;
    reset();
#pragma omp parallel num_threads(5) reduction(+ : members)
    members++;
    CHECK_INT(members, 5);
    CHECK_INT(counts[THREAD], 4);
    CHECK(counts[MALLOC] + counts[CALLOC] + counts[REALLOC] + counts[MEMALIGN] > 0);
}

/* --- steps ------------------------------------------------------------------------------------------------------ */

/* The sum of the process's thread numbers: another one, or one less, changes it. */
static long long thread_sum(void)
{
    long long sum = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        sum += atoll(entry->d_name);
    if (folder)
        closedir(folder);
    return sum;
}

enum { BATCH = 2, STEPS = 100, MOST_INPUTS = 3 * 32 * 32 };

static void check_steps(int32_t team, const char *model, brasa_session_options o)
{
    static float images[BATCH * MOST_INPUTS];
    static const int32_t labels[BATCH] = {3, 7};
    OWNED(brasa_context) *ctx = NULL;
    brasa_session *s = NULL;
    float loss = 0;
    for (int i = 0; i < BATCH * MOST_INPUTS; i++)
        images[i] = (float)(i % 17) / 17;
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = team), &ctx), BRASA_OK);
    OWNED(brasa_graph) *g = brasa_graph_new(ctx);
    o.batch = BATCH;
    o.schedule = "step every=9";
    CHECK_STATUS(brasa_model_build(g, model, 0), BRASA_OK);
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    if (s) {
        CHECK_STATUS(brasa_train_step(s, images, labels, &loss), BRASA_OK); /* OpenMP makes its threads here */
        CHECK_STATUS(brasa_eval_step(s, images, labels, 1, &loss, NULL), BRASA_OK);
        long long threads = thread_sum();
        brasa_status status = BRASA_OK;
        reset();
        for (int i = 0; i < STEPS && status == BRASA_OK; i++) {
            status = brasa_train_step(s, images, labels, &loss);
            if (status == BRASA_OK && i % 10 == 0)
                status = brasa_eval_step(s, images, labels, 1, &loss, NULL);
        }
        int seen[COUNTED];
        for (int i = 0; i < COUNTED; i++)
            seen[i] = atomic_load(&counts[i]);
        CHECK_STATUS(status, BRASA_OK);
        CHECK_INT(brasa_session_steps(s), STEPS + 1);
        CHECK_INT(thread_sum(), threads);
        for (int i = 0; i < COUNTED; i++)
            if (seen[i])
                test_fail(__FILE__, __LINE__, "%s was called %d times in %d steps", names[i], seen[i], STEPS);
    }
    brasa_session_free(s);
}

TEST(steps_only_run)
{
    static const char *const rows[][2] = {
        {"mnist_cnn", "sgd lr=0.01 momentum=0.9"},
        {"tiny_resnet", "adam"},
        {"tiny_inception", "rmsprop"},
        {"letter_mlp", "adadelta"},
    };
    for (int i = 0; i < 4; i++) {
        CASE("%s with two threads", rows[i][0]);
        check_steps(2, rows[i][0], SIZED(brasa_session_options, .optimizer = rows[i][1], .clip_norm = 1));
    }
    CASE("letter_mlp with one thread");
    check_steps(1, "letter_mlp", SIZED(brasa_session_options, .optimizer = "adam", .clip_norm = 1));
    CASE("mnist_cnn without clipping: its dense layers are updated in one pass");
    check_steps(2, "mnist_cnn", SIZED(brasa_session_options, .optimizer = "adam"));
    CASE("mnist_cnn in parts");
    check_steps(2, "mnist_cnn",
                SIZED(brasa_session_options, .optimizer = "adam", .clip_norm = 1, .micro_batches = 2));
}
