/* test_softgpu_kernels.c - the software GPU runs kernels as a GPU does, and finds what is wrong with wrong ones: the
 * tests that run on it prove something. */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_SOFTGPU /* where CUDA's compiler is */

#include "softgpu/kernels.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what each test needs --------------------------------------------------------------------------------------- */

/* Memory of the GPU with a copy of what is there; NULL bytes stay as they are. */
static void *on_gpu(const void *data, size_t bytes)
{
    void *at = NULL;
    CHECK_INT(cudaMalloc(&at, bytes), cudaSuccess);
    if (data)
        CHECK_INT(cudaMemcpy(at, data, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return at;
}

static void from_gpu(void *data, const void *at, size_t bytes)
{
    CHECK_INT(cudaMemcpy(data, at, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
}

static cudaStream_t new_stream(void)
{
    cudaStream_t s = NULL;
    CHECK_INT(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
    return s;
}

/* What a process of its own ends with and says: a kernel that is wrong spoils the GPU for good. */
static int in_child(int (*run)(void), char *said, size_t size)
{
    int pipes[2], status = 0;
    size_t length = 0;
    fflush(stdout);
    if (!CHECK(pipe(pipes) == 0))
        return -1;
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        _exit(run() & 0xff);
    }
    close(pipes[1]);
    for (ssize_t got = 1; got > 0 && length + 1 < size; length += got > 0 ? (size_t)got : 0)
        got = read(pipes[0], said + length, size - 1 - length);
    said[length] = '\0';
    close(pipes[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- right kernels ---------------------------------------------------------------------------------------------- */

/* Every pair of these, whatever they are as integers, floats and doubles. */
static const uint64_t patterns[] = {0,          1,          2,          3,
                                    7,          31,         100,        0x7f,
                                    0x80,       0xffff,     0x8000,     0x7fffffff,
                                    0x80000000, 0xffffffff, 0x3f800000, /* as floats: 1, -2.5, 1e-40, the largest,
                                                                           infinite, no number */
                                    0xc0200000, 0x000116c2, 0x7f7fffff, 0x7f800000,
                                    0x7fc00000, 0x3f808000, /* between two of bf16 */
                                    0x3f818000, 0x4b000001, 0x4f000000, 0xff800000,
                                    0x3dcccccd, 0x12345678, 0x9e3779b9};
enum { PATTERNS = sizeof patterns / sizeof patterns[0] };

static operands operands_of(uint64_t p, uint64_t q)
{
    operands o = {.a = (uint32_t)p, .b = (uint32_t)q};
    memcpy(&o.f, &o.a, sizeof o.f);
    memcpy(&o.g, &o.b, sizeof o.g);
    o.x = (double)o.f * (1 + 1e-9) + 0x1p-1060;
    o.y = (double)o.g / 3;
    return o;
}

TEST(arithmetic)
{
    enum { COUNT = PATTERNS * PATTERNS };
    static operands all[COUNT];
    static uint64_t got[COUNT][RESULTS], want[RESULTS];
    for (int i = 0; i < COUNT; i++)
        all[i] = operands_of(patterns[i / PATTERNS], patterns[i % PATTERNS]);
    operands *from = on_gpu(all, sizeof all);
    uint64_t *to = on_gpu(NULL, sizeof got);
    REQUIRE(from && to);
    REQUIRE(arithmetic(from, to, COUNT, NULL) == cudaSuccess);
    from_gpu(got, to, sizeof got);
    for (int i = 0; i < COUNT; i++) {
        compute_on_host(&all[i], want);
        for (int n = 0; n < RESULTS; n++)
            if (got[i][n] != want[n])
                test_fail(__FILE__, __LINE__, "result %d of %08x and %08x is %llx, expected %llx", n, all[i].a,
                          all[i].b, (unsigned long long)got[i][n], (unsigned long long)want[n]);
    }
    cudaFree(from);
    cudaFree(to);
}

static void check_sums(int count, int threads)
{
    const int blocks = (count + threads - 1) / threads;
    float *numbers = calloc((size_t)count, sizeof *numbers), *got = calloc((size_t)blocks, sizeof *got);
    for (int i = 0; i < count; i++)
        numbers[i] = (float)(i * 37 % 101); /* whole: sums are exact in any order */
    float *from = on_gpu(numbers, (size_t)count * sizeof *numbers), *to = on_gpu(NULL, (size_t)blocks * sizeof *got);
    CHECK_INT(sums(from, to, count, threads, NULL), cudaSuccess);
    from_gpu(got, to, (size_t)blocks * sizeof *got);
    for (int b = 0; b < blocks; b++) {
        float want = 0;
        for (int i = b * threads; i < (b + 1) * threads && i < count; i++)
            want += numbers[i];
        CHECK_CLOSE((double)got[b], (double)want, 0);
    }
    cudaFree(from);
    cudaFree(to);
    free(numbers);
    free(got);
}

/* The order of blocks and warps is left open: any of them gives these. */
TEST(sums)
{
    static const char *const seeds[] = {"0", "1", "2", "12345"};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        setenv("SOFTGPU_SEED", seeds[i], 1);
        for (int threads = 32; threads <= 1024; threads *= 2) {
            CASE("seed %s, %d threads", seeds[i], threads);
            check_sums(1000, threads);
            check_sums(1024, threads);
            check_sums(1, threads);
        }
    }
    unsetenv("SOFTGPU_SEED");
}

TEST(loops)
{
    int got[128], *to = on_gpu(NULL, sizeof got);
    CHECK_INT(loops(to, NULL), cudaSuccess);
    from_gpu(got, to, sizeof got);
    for (int t = 0; t < 128; t++) {
        int sum = 0;
        for (int i = 0; i < t && sum <= 1000; i++)
            sum += (i + t) % 3 == 0 ? 0 : i;
        CHECK_INT(got[t], sum);
    }
    cudaFree(to);
}

/* Blocks that wait for each other: as many as there is room for, and one more is refused. */
TEST(together)
{
    enum { ROOM = 4 * 32 }; /* processors, and blocks of one */
    static const int none = 0;
    int got[ROOM];
    unsigned *arrived = on_gpu(&none, sizeof none);
    int *room = on_gpu(NULL, sizeof got), *to = on_gpu(NULL, sizeof got);
    CHECK_INT(together(arrived, room, to, ROOM + 1, NULL), cudaErrorCooperativeLaunchTooLarge);
    CHECK_INT(cudaGetLastError(), cudaErrorCooperativeLaunchTooLarge);
    CHECK_INT(cudaGetLastError(), cudaSuccess); /* it is told once */
    CHECK_INT(together(arrived, room, to, ROOM, NULL), cudaSuccess);
    from_gpu(got, to, sizeof got);
    for (int b = 0; b < ROOM; b++)
        CHECK_INT(got[b], ((b + 1) % ROOM) * ((b + 1) % ROOM));
    cudaFree(arrived);
    cudaFree(room);
    cudaFree(to);
}

/* --- streams ---------------------------------------------------------------------------------------------------- */

/* What the GPU reads by itself is read late: who changes it too soon sees that. */
TEST(late)
{
    int *pinned = NULL, *to = on_gpu(NULL, sizeof *to), got = 0;
    cudaStream_t s = new_stream();
    REQUIRE(cudaHostAlloc((void **)&pinned, sizeof *pinned, 0) == cudaSuccess);
    *pinned = 1;
    CHECK_INT(cudaMemcpyAsync(to, pinned, sizeof *to, cudaMemcpyHostToDevice, s), cudaSuccess);
    *pinned = 2;
    CHECK_INT(cudaStreamSynchronize(s), cudaSuccess);
    from_gpu(&got, to, sizeof got);
    CHECK_INT(got, 2);
    *pinned = 3;
    CHECK_INT(cudaMemcpyAsync(to, pinned, sizeof *to, cudaMemcpyHostToDevice, s), cudaSuccess);
    CHECK_INT(cudaStreamSynchronize(s), cudaSuccess);
    *pinned = 4;
    from_gpu(&got, to, sizeof got);
    CHECK_INT(got, 3);
    CHECK_INT(cudaStreamDestroy(s), cudaSuccess);
    CHECK_INT(cudaFreeHost(pinned), cudaSuccess);
    cudaFree(to);
}

/* Another stream's work is waited for by an event, and is not without one. */
TEST(events)
{
    static const int start[2] = {10, 1};
    int got[2], *to = on_gpu(start, sizeof start);
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t e = NULL;
    float took = 0;
    CHECK_INT(cudaEventCreate(&e), cudaSuccess);
    CHECK_INT(add(to, to + 1, 1, first), cudaSuccess); /* 11 */
    CHECK_INT(cudaEventRecord(e, first), cudaSuccess);
    CHECK_INT(cudaStreamWaitEvent(second, e, 0), cudaSuccess);
    CHECK_INT(add(to + 1, to, 1, second), cudaSuccess); /* 12 */
    CHECK_INT(cudaEventElapsedTime(&took, e, e), cudaErrorNotReady);
    CHECK_INT(cudaGetLastError(), cudaErrorNotReady);
    CHECK_INT(cudaStreamSynchronize(second), cudaSuccess);
    CHECK_INT(cudaEventElapsedTime(&took, e, e), cudaSuccess);
    from_gpu(got, to, sizeof got);
    CHECK_INT(got[0], 11);
    CHECK_INT(got[1], 12);
    CHECK_INT(cudaEventDestroy(e), cudaSuccess);
    CHECK_INT(cudaStreamDestroy(first), cudaSuccess);
    CHECK_INT(cudaStreamDestroy(second), cudaSuccess);
    cudaFree(to);
}

/* A graph does what was recorded, each time anew; what must not be recorded spoils it. */
TEST(graphs)
{
    static const int start[2] = {0, 5};
    int got[2], *to = on_gpu(start, sizeof start);
    void *other = NULL;
    cudaStream_t s = new_stream();
    cudaGraph_t g = NULL;
    cudaGraphExec_t all = NULL;
    CHECK_INT(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CHECK_INT(add(to, to + 1, 1, s), cudaSuccess);
    CHECK_INT(cudaStreamEndCapture(s, &g), cudaSuccess);
    from_gpu(got, to, sizeof got);
    CHECK_INT(got[0], 0);
    CHECK_INT(cudaGraphInstantiate(&all, g, 0), cudaSuccess);
    CHECK_INT(cudaGraphDestroy(g), cudaSuccess);
    for (int i = 0; i < 3; i++)
        CHECK_INT(cudaGraphLaunch(all, s), cudaSuccess);
    CHECK_INT(cudaGraphExecDestroy(all), cudaSuccess); /* what is under way goes on */
    CHECK_INT(cudaStreamSynchronize(s), cudaSuccess);
    from_gpu(got, to, sizeof got);
    CHECK_INT(got[0], 15);
    CHECK_INT(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CHECK_INT(cudaMalloc(&other, 16), cudaErrorStreamCaptureUnsupported);
    CHECK_INT(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    CHECK(!g && !other);
    cudaGetLastError();
    CHECK_INT(cudaStreamDestroy(s), cudaSuccess);
    cudaFree(to);
}

TEST(memory)
{
    size_t before = 0, after = 0, total = 0;
    unsigned char got[16];
    int alone;
    void *at = NULL, *more = NULL;
    setenv("SOFTGPU_MEMORY", "1000000", 1);
    CHECK_INT(cudaMemGetInfo(&before, &total), cudaSuccess);
    CHECK_INT(total, 1000000);
    CHECK_INT(cudaMalloc(&at, 600000), cudaSuccess);
    CHECK_INT(cudaMemGetInfo(&after, &total), cudaSuccess);
    CHECK_INT(before - after, 600000);
    CHECK_INT(cudaMalloc(&more, 600000), cudaErrorMemoryAllocation);
    from_gpu(got, (char *)at + 600000 - sizeof got, sizeof got);
    for (size_t i = 0; i < sizeof got; i++)
        CHECK_INT(got[i], 0xff); /* that nobody wrote yet */
    CHECK_INT(cudaMemcpy((char *)at + 600000 - 8, got, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    CHECK_INT(cudaMemcpy(&alone, &total, sizeof alone, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    CHECK_INT(cudaFree((char *)at + 512), cudaErrorInvalidValue);
    CHECK_INT(cudaFree(at), cudaSuccess);
    CHECK_INT(cudaFree(at), cudaErrorInvalidValue);
    unsetenv("SOFTGPU_MEMORY");
    cudaGetLastError();
}

/* --- wrong kernels ---------------------------------------------------------------------------------------------- */

/* Whatever they start: the error of the start, or of what came of it. */
static int ended(cudaError_t start)
{
    return start == cudaSuccess ? (int)cudaDeviceSynchronize() : (int)start;
}

static void *plain(size_t bytes)
{
    void *at = NULL;
    return cudaMalloc(&at, bytes) == cudaSuccess && cudaMemsetAsync(at, 0, bytes, NULL) == cudaSuccess ? at : NULL;
}

/* The kernel that start_wrong starts. */
static wrong_kernel *wrong;
static int wrong_at;

static int start_wrong(void)
{
    return ended(wrong(plain(256), wrong_at, NULL));
}

static int start_from_host(void)
{
    static int numbers[64];
    int *to = plain(256);
    return ended(add(to, numbers, 64, NULL));
}

static int start_freed(void)
{
    int *from = plain(256), *to = plain(256);
    if (cudaFree(from) != cudaSuccess)
        return 0;
    return ended(add(to, from, 64, NULL));
}

static int start_on_other(void)
{
    setenv("SOFTGPU_DEVICES", "2", 1);
    int *from = plain(256);
    if (cudaSetDevice(1) != cudaSuccess)
        return 0;
    int *to = plain(256);
    cudaStream_t s = NULL;
    if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess)
        return 0;
    return ended(add(to, from, 64, s));
}

/* No stream is the one of the GPU that the thread has chosen. */
static int start_on_second(void)
{
    setenv("SOFTGPU_DEVICES", "2", 1);
    if (cudaSetDevice(1) != cudaSuccess)
        return -1;
    int *at = plain(256);
    return ended(add(at, at, 64, NULL));
}

static int start_too_wide(void)
{
    int *at = plain(1 << 14);
    return ended(add(at, at, 1025, NULL));
}

/* After one that was wrong nothing goes any more, as on a GPU. */
static int start_after_wrong(void)
{
    int *at = plain(256);
    (void)ended(behind(at, 64, NULL));
    return add(at, at, 1, NULL) == cudaErrorIllegalAddress ? (int)cudaMemsetAsync(at, 0, 4, NULL) : 0;
}

TEST(wrong)
{
    static const struct {
        const char *name;
        wrong_kernel *wrong; /* that start_wrong starts */
        int at;
        int (*run)(void);
        cudaError_t error;
        const char *said;
    } rows[] = {
        {"behind a block of memory", behind, 64, start_wrong, cudaErrorIllegalAddress,
         "thread 63 0 0: 4 bytes at"}, /* and which: */
        {"and by how much", behind, 64, start_wrong, cudaErrorIllegalAddress,
         "are 256 bytes behind the start of a block of 256"},
        {"with the kernel's name", behind, 64, start_wrong, cudaErrorIllegalAddress, "run_behind"},
        {"not aligned", crooked, 0, start_wrong, cudaErrorIllegalAddress, "is not aligned to 16 bytes"},
        {"behind shared memory", shared_behind, 1, start_wrong, cudaErrorIllegalAddress,
         "byte 256 of shared memory, which has 256"},
        {"before shared memory", shared_behind, -1, start_wrong, cudaErrorIllegalAddress, "byte -4 of shared memory"},
        {"a race of a reader", race_of_reader, 0, start_wrong, cudaErrorIllegalAddress,
         "without a barrier between them"},
        {"a race of a writer", race_of_writer, 0, start_wrong, cudaErrorIllegalAddress,
         "without a barrier between them"},
        {"a race of writers", race_of_writers, 0, start_wrong, cudaErrorIllegalAddress,
         "writes, without a barrier between them"},
        {"threads that wait elsewhere", parted, 0, start_wrong, cudaErrorIllegalAddress,
         "it waits for threads of its warp"},
        {"its own memory", own_crooked, 4, start_wrong, cudaSuccess, ""},
        {"its own memory, not aligned", own_crooked, 1, start_wrong, cudaErrorIllegalAddress,
         "own memory is not aligned"},
        {"behind its own memory", own_crooked, 64, start_wrong, cudaErrorIllegalAddress,
         "byte 64 of 64 of its own memory"},
        {"a shuffle without itself", masked, 0, start_wrong, cudaErrorIllegalAddress,
         "thread 16 0 0: its mask is 0000ffff"},
        {"an instruction that is not known", unknown, 0, start_wrong, cudaErrorInvalidPtx,
         "'bfind.u32' is not known"},
        {"memory of the host", NULL, 0, start_from_host, cudaErrorIllegalAddress, "which is in no block of memory"},
        {"memory that was freed", NULL, 0, start_freed, cudaErrorIllegalAddress, "run_add"},
        {"memory of another GPU", NULL, 0, start_on_other, cudaErrorIllegalAddress,
         "is memory of GPU 0, and this is GPU 1"},
        {"the second GPU", NULL, 0, start_on_second, cudaSuccess, ""},
        {"too many threads", NULL, 0, start_too_wide, cudaErrorInvalidConfiguration, ""},
        {"after a wrong one", NULL, 0, start_after_wrong, cudaErrorIllegalAddress, "run_behind"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char said[2000];
        CASE("%s", rows[i].name);
        wrong = rows[i].wrong;
        wrong_at = rows[i].at;
        CHECK_INT(in_child(rows[i].run, said, sizeof said), (int)rows[i].error & 0xff);
        CHECK_HAS(said, rows[i].said);
    }
}

/* What nobody wrote is no number. */
TEST(unread)
{
    float got[32], *to = on_gpu(NULL, sizeof got);
    for (int own = 0; own < 2; own++) {
        CHECK_INT(own ? own_unread(to, 5, NULL) : unread(to, 0, NULL), cudaSuccess);
        from_gpu(got, to, sizeof got);
        for (int i = 0; i < 32; i++)
            CHECK(isnan(got[i]));
    }
    cudaFree(to);
}

#else

TEST(software_gpu)
{
    SKIP("this build has no CUDA, or none whose kernels the software GPU can run");
}

#endif
