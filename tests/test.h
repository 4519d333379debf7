/* test.h - a test program in a few macros. Include it once, in the program's one file; main is in here.
 *
 *     TEST(pool_zeroes)
 *     {
 *         char *piece = pool_get(&p, 1, 100);
 *         REQUIRE(piece);                                      // stops this case
 *         CHECK(piece[99] == 0);                               // marks it failed and goes on
 *         CHECK_INT(count, 3);                                 // with both values in the message
 *         CHECK_CLOSE(loss, 2.3026, 1e-4);                     // an absolute tolerance; NaN is close to nothing
 *         CHECK_TEXT(name, "conv1");
 *         CHECK_HAS(brasa_graph_error(g), "did you mean");
 *         CHECK_STATUS(brasa_train(s), BRASA_OK);
 *     }
 *
 * A test driven by a table says CASE("%s", row->name) before each row: every row then counts as a case of its own.
 * SKIP("no such device") leaves a case. All but SKIP and REQUIRE may stand in helper functions too.
 *
 * AROUND_EACH(begin, end), once in a file, names what runs before and after every test (NULL: nothing). A test whose
 * begin fails or skips does not run; end runs however a test was left, so a test need not clean up.
 *
 * The program runs every test, or those whose name contains its argument; -v names each case; the last line is
 * `N passed, N failed[, N skipped]`, and the exit code tells whether any failed (1) or all were skipped (77, which
 * ctest shows as such).
 */
#ifndef TEST_H
#define TEST_H

#include "brasa.h"
#include "core/options.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
} test;

static struct {
    test *first, **last, *now;
    void (*begin)(void), (*end)(void);
    char name[200]; /* of the running case */
    bool open, failed, skipped, verbose;
    int passed_total, failed_total, skipped_total;
} tests = {.last = &tests.first};

/* Constructors of one file run in its order, so tests do too. */
#define TEST(id)                                                                                                     \
    static void test_##id(void);                                                                                     \
    __attribute__((constructor)) static void test_add_##id(void)                                                     \
    {                                                                                                                \
        static test t = {#id, test_##id, NULL};                                                                      \
        *tests.last = &t;                                                                                            \
        tests.last = &t.next;                                                                                        \
    }                                                                                                                \
    static void test_##id(void)

#define AROUND_EACH(before, after)                                                                                   \
    __attribute__((constructor)) static void test_around(void)                                                       \
    {                                                                                                                \
        tests.begin = before;                                                                                        \
        tests.end = after;                                                                                           \
    }

/* OWNED(brasa_graph) *g = brasa_graph_new(ctx); is freed where its block ends, however it is left; what was declared
 * last goes first. OWNER makes the same of another type, from how the variable x is freed. */
#define OWNED(type) __attribute__((unused, cleanup(test_free_##type))) type
#define OWNER(type, variable, call)                                                                                  \
    static inline void test_free_##type(type variable)                                                               \
    {                                                                                                                \
        call;                                                                                                        \
    }
OWNER(brasa_context, **x, brasa_context_free(*x))
OWNER(brasa_graph, **x, brasa_graph_free(*x))
OWNER(brasa_session, **x, brasa_session_free(*x))

/* Counts the running case, if there is one. */
static inline void test_close(void)
{
    if (!tests.open)
        return;
    if (tests.failed)
        tests.failed_total++;
    else if (tests.skipped)
        tests.skipped_total++;
    else
        tests.passed_total++;
    if (tests.verbose)
        printf("%-7s %s\n", tests.failed ? "FAILED" : tests.skipped ? "skipped" : "ok", tests.name);
    tests.open = tests.failed = tests.skipped = false;
    fflush(stdout);
}

/* Starts the next case. What a test did before its first CASE is no case, unless it failed. */
static inline void test_open(const char *pattern, ...) BRASA_PRINTF(1, 2);
static inline void test_open(const char *pattern, ...)
{
    va_list args;
    va_start(args, pattern);
    if (tests.failed || strcmp(tests.name, tests.now->name) != 0)
        test_close();
    int used = snprintf(tests.name, sizeof tests.name, "%s ", tests.now->name);
    vsnprintf(tests.name + used, sizeof tests.name - (size_t)used, pattern, args);
    tests.open = true;
    va_end(args);
}

static inline void test_fail(const char *file, int line, const char *pattern, ...) BRASA_PRINTF(3, 4);
static inline void test_fail(const char *file, int line, const char *pattern, ...)
{
    va_list args;
    va_start(args, pattern);
    tests.open = tests.failed = true;
    printf("%s:%d: %s: ", file, line, tests.name);
    vprintf(pattern, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
}

static inline bool test_check(bool ok, const char *text, const char *file, int line)
{
    if (!ok)
        test_fail(file, line, "%s", text);
    return ok;
}

static inline void test_int(long long got, long long want, const char *text, const char *file, int line)
{
    if (got != want)
        test_fail(file, line, "%s is %lld, expected %lld", text, got, want);
}

static inline void test_near(double got, double want, double tolerance, const char *text, const char *file, int line)
{
    if (!(fabs(got - want) <= tolerance))
        test_fail(file, line, "%s is %.9g, expected %.9g (off by %.3g, allowed %.3g)", text, got, want,
                  fabs(got - want), tolerance);
}

static inline void test_text(const char *got, const char *want, bool part, const char *text, const char *file,
                             int line)
{
    if (!got || (part ? !strstr(got, want) : strcmp(got, want) != 0))
        test_fail(file, line, "%s is \"%s\", expected %s\"%s\"", text, got ? got : "(null)",
                  part ? "to contain " : "", want);
}

static inline void test_status(brasa_status got, brasa_status want, const char *text, const char *file, int line)
{
    if (got != want)
        test_fail(file, line, "%s: '%s', expected '%s'", text, brasa_status_text(got), brasa_status_text(want));
}

#define CASE(...)                         test_open(__VA_ARGS__)
#define CHECK(cond)                       test_check(cond, #cond, __FILE__, __LINE__)
#define CHECK_INT(got, want)              test_int((long long)(got), (long long)(want), #got, __FILE__, __LINE__)
#define CHECK_CLOSE(got, want, tolerance) test_near(got, want, tolerance, #got, __FILE__, __LINE__)
#define CHECK_TEXT(got, want)             test_text(got, want, false, #got, __FILE__, __LINE__)
#define CHECK_HAS(got, part)              test_text(got, part, true, #got, __FILE__, __LINE__)
#define CHECK_STATUS(call, want)          test_status(call, want, #call, __FILE__, __LINE__)
#define REQUIRE(cond)                                                                                                \
    do                                                                                                               \
        if (!CHECK(cond))                                                                                            \
            return;                                                                                                  \
    while (0)
#define SKIP(reason)                                                                                                 \
    do {                                                                                                             \
        printf("skipped %s: %s\n", tests.name, reason);                                                              \
        tests.open = tests.skipped = true;                                                                           \
        return;                                                                                                      \
    } while (0)

/* A context of so many threads; 0: as many as there are. */
static inline brasa_context *context_of(int threads)
{
    brasa_context *ctx = NULL;
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = threads), &ctx), BRASA_OK);
    return ctx;
}

int main(int argc, char **argv)
{
    const char *only = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            tests.verbose = true;
        else
            only = argv[i];
    }
    for (tests.now = tests.first; tests.now; tests.now = tests.now->next) {
        if (!strstr(tests.now->name, only))
            continue;
        snprintf(tests.name, sizeof tests.name, "%s", tests.now->name);
        tests.open = true;
        if (tests.begin)
            tests.begin();
        if (!tests.failed && !tests.skipped)
            tests.now->run();
        if (tests.end)
            tests.end();
        test_close();
    }
    if (tests.passed_total + tests.failed_total + tests.skipped_total == 0) {
        printf("FAILED: no test has '%s' in its name\n", only);
        tests.failed_total++;
    }
    printf("%d passed, %d failed", tests.passed_total, tests.failed_total);
    if (tests.skipped_total)
        printf(", %d skipped", tests.skipped_total);
    printf("\n");
    return tests.failed_total ? 1 : tests.skipped_total && !tests.passed_total ? 77 : 0;
}

#endif
