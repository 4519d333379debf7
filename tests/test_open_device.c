/* test_open_device.c - devices, as far as none is needed: their names, what is said where one is missing, what the
 * CPU refuses, and whether the backend's library has kernels for all ops. What these compute is test_ops.c's
 * business. */
#define _GNU_SOURCE /* setenv */
#include "counted.h"
#include "device.h"

#include <dlfcn.h>

/* --- names ------------------------------------------------------------------------------------------------------ */

TEST(names)
{
    static const char *const wrong[] = {"gpu",      "cuda:x", "cuda:00", "cuda:-1", "",         "cudax",
                                        "cuda:",    "CUDA",   "cuda:+1", "cuda: 1", " cuda",    "cuda:1 ",
                                        "cuda:0x1", "cuda/0", "cpu:0",   "cuda:1:", "cuda:1.5", "cuda:4294967296"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char quoted[64];
        CASE("'%s'", wrong[i]);
        start();
        CHECK_STATUS(brasa_context_use(ctx, wrong[i]), BRASA_BAD_ARGUMENT);
        snprintf(quoted, sizeof quoted, "expected cpu, cuda or cuda:1, got '%s'", wrong[i]);
        CHECK_HAS(brasa_context_error(ctx), quoted);
        CHECK(!strchr(brasa_context_error(ctx), '\n'));
        CHECK_TEXT(ctx->device->name, "cpu");
        stop();
    }
}

/* A session of a small network, made and trained for a step. */
static brasa_status trains(const brasa_session_options *o)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_session *s = NULL;
    const float x[4] = {1, 2, 3, 4};
    const int32_t label = 1;
    brasa_classify(brasa_relu(brasa_dense(brasa_input_vector(g, "x", 4), 8)), 3);
    brasa_status status = brasa_session_new(g, o, &s);
    if (status == BRASA_OK)
        status = brasa_train_step(s, x, &label, NULL);
    brasa_session_free(s);
    brasa_graph_free(g);
    return status;
}

TEST(cpu)
{
    start();
    CHECK_STATUS(brasa_context_use(ctx, "cpu"), BRASA_OK);
    CHECK_TEXT(ctx->device->name, "cpu");
    CHECK_STATUS(trains(NULL), BRASA_OK);
    CHECK_STATUS(brasa_context_use(ctx, "cpu"), BRASA_OK);
    stop();
}

/* --- what is missing -------------------------------------------------------------------------------------------- */

/* Each text names the thing that is not there. */
static bool says_what(const char *text)
{
    return strstr(text, "no NVIDIA GPU") || strstr(text, "driver") || strstr(text, "brasa_cuda.so") ||
           strstr(text, "numbered from 0");
}

/* No machine has ten thousand of them. What was tried and failed leaves nothing behind. */
TEST(missing_device)
{
    start();
    device_set_folder();
    CHECK_STATUS(brasa_context_use(ctx, "cuda:9999"), BRASA_NOT_FOUND);
    if (!says_what(brasa_context_error(ctx)))
        test_fail(__FILE__, __LINE__, "does not say what is missing: %s", brasa_context_error(ctx));
    CHECK_TEXT(ctx->device->name, "cpu");
    CHECK_STATUS(trains(NULL), BRASA_OK);
    stop();
}

TEST(missing_gpu)
{
    start();
    device_set_folder();
    const brasa_status status = brasa_context_use(ctx, "cuda");
    if (status != BRASA_OK) {
        CHECK_STATUS(status, BRASA_NOT_FOUND);
        if (!says_what(brasa_context_error(ctx)))
            test_fail(__FILE__, __LINE__, "does not say what is missing: %s", brasa_context_error(ctx));
        CHECK_STATUS(trains(NULL), BRASA_OK);
    } else { /* there is one */
        CHECK(strncmp(ctx->device->name, "cuda:0 ", 7) == 0 && ctx->device->memory > 0);
        CHECK_STATUS(brasa_context_use(ctx, "cuda"), BRASA_WRONG_STATE);
        CHECK_HAS(brasa_context_error(ctx), "already");
    }
    stop();
}

/* The folder of backends holds what is given; it is as before afterwards. */
static void in_backends(const char *path, void (*body)(void))
{
    char before[2048];
    const char *given = getenv("BRASA_BACKENDS");
    snprintf(before, sizeof before, "%s", given ? given : "");
    setenv("BRASA_BACKENDS", path, 1);
    body();
    if (given)
        setenv("BRASA_BACKENDS", before, 1);
    else
        unsetenv("BRASA_BACKENDS");
}

static void check_no_library(void)
{
    start();
    CHECK_STATUS(brasa_context_use(ctx, "cuda"), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "there is no brasa_cuda.so in /nowhere, where BRASA_BACKENDS says");
    stop();
}

static void check_not_built(void)
{
    start();
    CHECK_STATUS(brasa_context_use(ctx, "cuda"), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "this build has no brasa_cuda.so");
    CHECK_HAS(brasa_context_error(ctx), "docs/cuda.md");
    stop();
}

static void check_broken_library(void)
{
    start();
    CHECK_STATUS(brasa_context_use(ctx, "cuda:1"), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "brasa_cuda.so cannot be opened");
    stop();
}

static void check_cut_library(void)
{
    start();
    CHECK_STATUS(brasa_context_use(ctx, "cuda"), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "brasa_cuda.so cannot be opened: the file is not whole");
    stop();
}

static void check_another_build(void)
{
    start();
    CHECK_STATUS(brasa_context_use(ctx, "cuda"), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "brasa_cuda.so is of another build than this program");
    stop();
}

TEST(missing_library)
{
    CASE("none");
    in_backends("/nowhere", check_no_library);
    CASE("none beside this program");
    in_backends("", check_not_built);
    CASE("a file that is none");
    const char *path = in_folder("brasa_cuda.so");
    write_file(path, "nothing", 7);
    in_backends(folder, check_broken_library);
    remove(path);
    CASE("the beginning of one");
    size_t size = 0;
    void *whole = read_file(TEST_OTHER_FOLDER "/brasa_cuda.so", &size);
    write_file(path, whole, 5000); /* less than what is loaded */
    in_backends(folder, check_cut_library);
    free(whole);
    remove(path);
    CASE("one of another build");
    in_backends(TEST_OTHER_FOLDER, check_another_build);
}

static void count_line(void *user, const char *line)
{
    CHECK(*line && !strchr(line, '\n'));
    ++*(int *)user;
}

/* What `brasa doctor` prints: a line for each, or one that says why there is none. */
TEST(list)
{
    int lines = 0;
    device_set_folder();
    const int devices = backend_list("cuda", count_line, &lines);
    CHECK(devices >= 0 && lines == (devices ? devices : 1));
    lines = 0;
    CHECK_INT(backend_list("none", count_line, &lines), 0);
    CHECK_INT(lines, 1);
}

/* --- precision -------------------------------------------------------------------------------------------------- */

TEST(precision_of_the_cpu)
{
    static const struct row {
        int32_t precision;
        const char *text;
    } rows[] = {{BRASA_TF32, "precision tf32 is for GPUs"},
                {BRASA_BF16, "precision bf16 is for GPUs"},
                {3, "expected BRASA_F32, BRASA_TF32 or BRASA_BF16, got 3"},
                {-1, "got -1"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%d", (int)rows[i].precision);
        start();
        CHECK_STATUS(trains(&SIZED(brasa_session_options, .precision = rows[i].precision)), BRASA_BAD_ARGUMENT);
        CHECK_HAS(brasa_context_error(ctx), rows[i].text);
        stop();
    }
    CASE("f32");
    start();
    CHECK_STATUS(trains(&SIZED(brasa_session_options, .precision = BRASA_F32)), BRASA_OK);
    stop();
}

/* --- the library's kernels -------------------------------------------------------------------------------------- */

/* Made by fusion, where there is a kernel for it. */
static bool only_of_the_cpu(const op_def *op)
{
    return strcmp(op->name, "conv2d_update") == 0;
}

static const op_def *op_named(const char *name)
{
    for (int i = 0; op_at(i); i++)
        if (strcmp(op_at(i)->name, name) == 0)
            return op_at(i);
    return NULL;
}

static bool has_kernel(const backend *b, const char *op)
{
    for (int l = 0; b->kernels[l]; l++)
        for (const backend_kernel *k = b->kernels[l]; k->op; k++)
            if (strcmp(k->op, op) == 0)
                return true;
    return false;
}

/* Nobody but their name tells kernels apart: in --kernels, and in the record of a run. */
static int kernels_named(const backend *b, const char *name)
{
    int count = 0;
    for (int l = 0; b->kernels[l]; l++)
        for (const backend_kernel *k = b->kernels[l]; k->op; k++)
            count += strcmp(k->kernel.name, name) == 0;
    return count;
}

static void check_kernel(const backend *b, const backend_kernel *k)
{
    CASE("%s", k->kernel.name ? k->kernel.name : k->op);
    REQUIRE(k->kernel.name != NULL);
    if (!op_named(k->op))
        test_fail(__FILE__, __LINE__, "is for '%s', which is no op", k->op);
    CHECK_INT(kernels_named(b, k->kernel.name), 1);
    CHECK(k->kernel.run != NULL);
    CHECK(!k->kernel.op); /* the program's business */
    CHECK_INT(k->kernel.real, F32);
    CHECK_INT(k->kernel.isa, ISA_ANY);
    CHECK(!k->kernel.open == !k->kernel.close);
}

static void check_backend(const backend *b)
{
    const backend_sizes sizes = BACKEND_SIZES;
    CASE("of this build");
    CHECK(strncmp(b->version, brasa_version(), strlen(brasa_version())) == 0);
    CHECK(memcmp(&b->sizes, &sizes, sizeof sizes) == 0);
    CHECK(b->open && b->list);
    for (int l = 0; b->kernels[l]; l++)
        for (const backend_kernel *k = b->kernels[l]; k->op; k++)
            check_kernel(b, k);
    for (int i = 0; op_at(i); i++) {
        if (!kernel_next(NULL, op_at(i), F32, NULL) || only_of_the_cpu(op_at(i)))
            continue;
        CASE("a kernel for %s", op_at(i)->name);
        if (!has_kernel(b, op_at(i)->name))
            test_fail(__FILE__, __LINE__, "missing");
    }
}

TEST(library_has_all_kernels)
{
    char path[2200];
    device_set_folder();
    snprintf(path, sizeof path, "%.2000s/brasa_cuda.so", getenv("BRASA_BACKENDS") ? getenv("BRASA_BACKENDS") : ".");
    if (access(path, R_OK) != 0)
        SKIP("this build has no brasa_cuda.so");
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file)
        test_fail(__FILE__, __LINE__, "%s", dlerror());
    const backend *b = file ? dlsym(file, "brasa_backend") : NULL;
    if (CHECK(b != NULL))
        check_backend(b);
    if (file)
        dlclose(file);
}
