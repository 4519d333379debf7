/* test_cuda_calls.c - what an open GPU asks of CUDA's runtime, for which there is a stand-in here (cudart.h). */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_CUDA_HOST

#include "cuda_host.h"

#include <pthread.h>

/* --- what is not looked at here: kernels and libraries --------------------------------------------------------- */

void cublaslt_open(cuda_queue *q, device *d)
{
    (void)q;
    (void)d;
}

void cublaslt_close(cuda_queue *q)
{
    (void)q;
}

static cudaError_t code = cudaSuccess;

cudaError_t cuda_has_code(void)
{
    return code;
}

void cuda_delay(cudaStream_t stream)
{
    (void)stream;
    (void)called(__func__);
}

/* --- devices --------------------------------------------------------------------------------------------------- */

static int started; /* times that the one kernel was */

static brasa_status start_kernel(const step *s)
{
    started++;
    (void)called(__func__);
    return cuda_started(s);
}

static const kernel one_kernel = {.name = "one", .run = start_kernel};
static const node one_node = {.name = "one"};

typedef struct opened {
    brasa_context *ctx;
    device *d;
    step step;
} opened;

static opened open_gpu(int index)
{
    opened o = {.ctx = NULL};
    cudart.expected = index;
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &o.ctx), BRASA_OK);
    CHECK_STATUS(brasa_backend.open(o.ctx, index, &o.d), BRASA_OK);
    o.step = (step){.kernel = &one_kernel, .node = &one_node, .queue = o.d->queue};
    return o;
}

static void close_gpu(opened *o)
{
    cudart.expected = ((cuda_device *)o->d->data)->queue.index;
    o->d->close(o->d);
    brasa_context_free(o->ctx);
}

/* --- which GPU a call is for ----------------------------------------------------------------------------------- */

/* In a thread that has worked with the other one. */
#define FROM_ELSEWHERE(call)                                                                                         \
    do {                                                                                                             \
        CASE("%s on cuda:%d", #call, cudart.expected);                                                               \
        cudart_gpu = !cudart.expected;                                                                               \
        cudart.strays = 0;                                                                                           \
        call;                                                                                                        \
        if (cudart.strays)                                                                                           \
            test_fail(__FILE__, __LINE__, "%s was for the other GPU", cudart.stray);                                 \
    } while (0)

static void call_all(opened *o)
{
    device *d = o->d;
    char host[16] = "";
    void *block = NULL, *pinned = NULL, *record = NULL;
    device_event *m = NULL;
    int ran = 0;
    int64_t times[2];
    FROM_ELSEWHERE(block = d->get(d, 16));
    FROM_ELSEWHERE(CHECK(d->free_memory(d) > 0));
    FROM_ELSEWHERE(CHECK_STATUS(d->copy_in(d, block, host, 8), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->copy_out(d, host, block, 8), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->copy(d, (char *)block + 8, block, 8), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->clear(d, block, 8), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->wait(d), BRASA_OK));
    FROM_ELSEWHERE(pinned = d->get_pinned(d, 8));
    FROM_ELSEWHERE(CHECK_STATUS(d->copy_async(d, STREAM_COPIES, pinned, block, 8), BRASA_OK));
    FROM_ELSEWHERE(m = d->event_new(d));
    FROM_ELSEWHERE(CHECK_STATUS(d->event_record(d, STREAM_COPIES, m), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->stream_wait(d, STREAM_COMPUTE, m), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->event_wait(d, m), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->run(d, &o->step, 1, &record), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->run(d, &o->step, 1, &record), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->run(d, &o->step, 1, &record), BRASA_OK));
    FROM_ELSEWHERE(d->forget(d, record));
    FROM_ELSEWHERE(CHECK_STATUS(d->time(d, &o->step, 1, &ran, times), BRASA_OK));
    FROM_ELSEWHERE(CHECK_STATUS(d->repeat(d, &o->step, 2, times), BRASA_OK));
    FROM_ELSEWHERE(d->event_free(d, m));
    FROM_ELSEWHERE(d->put_pinned(d, pinned));
    FROM_ELSEWHERE(d->put(d, block));
}

static void *call_in_thread(void *user)
{
    call_all(user);
    return NULL;
}

TEST(calls_are_for_the_gpu_of_their_device)
{
    opened first = open_gpu(0), second = open_gpu(1);
    pthread_t thread;
    cudart.expected = 0;
    call_all(&first);
    cudart.expected = 1;
    call_all(&second);
    REQUIRE(pthread_create(&thread, NULL, call_in_thread, &second) == 0);
    pthread_join(thread, NULL);
    close_gpu(&first);
    cudart.expected = 1;
    FROM_ELSEWHERE(close_gpu(&second));
}

static void keep_line(void *user, const char *line)
{
    snprintf(user, 400, "%s", line);
}

/* What cannot run is told when it is opened, and by `brasa doctor`, and not by the first step. */
TEST(gpus_that_have_no_kernels)
{
    static const struct {
        const char *what;
        int capability;
        cudaError_t code;
        const char *words;
    } rows[] = {
        {"too old", 7, cudaSuccess, "its compute capability is 7.0, and 8.0 is the least"},
        {"built for another", 10, cudaErrorNoKernelImageForDevice,
         "no code for compute capability 10.0: configure with -DCMAKE_CUDA_ARCHITECTURES=100"},
        {"built for another, in other words", 10, cudaErrorInvalidDeviceFunction,
         "no code for compute capability 10.0: configure with -DCMAKE_CUDA_ARCHITECTURES=100"},
        {"of a newer CUDA", 10, cudaErrorUnsupportedPtxVersion,
         "the driver is too old to compile this build's code for compute capability 10.0: install a newer one, or "
         "configure with -DCMAKE_CUDA_ARCHITECTURES=100"},
        {"another error", 9, cudaErrorUnknown, ": another"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        char line[400] = "";
        OWNED(brasa_context) *ctx = context_of(0);
        device *d = NULL;
        capability = rows[i].capability;
        code = rows[i].code;
        CHECK_STATUS(brasa_backend.open(ctx, 0, &d), BRASA_NOT_FOUND);
        CHECK_HAS(brasa_context_error(ctx), rows[i].words);
        CHECK(brasa_backend.list(keep_line, line) > 0);
        CHECK_HAS(line, rows[i].words);
    }
    capability = 9;
    code = cudaSuccess;
}

/* A GPU that is another process's is listed with the reason, and without its place on the bus one is worked with; no
 * error of these is left for the first kernel. */
TEST(errors_that_are_none_of_kernels)
{
    char line[400] = "";
    cudart.busy = true;
    CHECK_INT(brasa_backend.list(keep_line, line), GPUS);
    cudart.busy = false;
    CHECK_HAS(line, "cannot be used: ");
    CHECK_INT(cudart.last, cudaSuccess);
    cudart.full = "cudaDeviceGetPCIBusId";
    opened o = open_gpu(0);
    cudart.full = NULL;
    CHECK_TEXT(o.d->address, "");
    void *record = NULL;
    CHECK_STATUS(o.d->run(o.d, &o.step, 1, &record), BRASA_OK);
    o.d->forget(o.d, record);
    close_gpu(&o);
}

/* --- without memory for graphs --------------------------------------------------------------------------------- */

TEST(steps_run_without_a_graph)
{
    static const char *const calls[] = {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
                                        "cudaGraphUpload", NULL};
    for (int i = 0; i < 5; i++) {
        CASE("%s", calls[i] ? calls[i] : "there is memory");
        opened o = open_gpu(0);
        device *d = o.d;
        void *records[2] = {NULL, NULL};
        int warnings = 0;
        cudart.full = calls[i];
        cudart.launches = 0;
        started = 0;
        for (int turn = 0; turn < 3; turn++)
            for (int k = 0; k < 2; k++) {
                CHECK_STATUS(d->run(d, &o.step, 1, &records[k]), BRASA_OK);
                warnings += d->warning[0] != '\0';
                d->warning[0] = '\0';
            }
        CHECK_INT(cudart.launches, calls[i] ? 0 : 2 * 2);
        CHECK_INT(started, i == 0 ? 2 * 3 : calls[i] ? 2 * 4 : 2 * 2); /* while it is recorded, too */
        CHECK_INT(warnings, calls[i] ? 1 : 0);
        cudart.full = NULL;
        for (int k = 0; k < 2; k++)
            d->forget(d, records[k]);
        close_gpu(&o);
    }
}

/* What is no want of memory is told. */
TEST(steps_that_cannot_be_started)
{
    opened o = open_gpu(0);
    void *record = NULL;
    cudart.full = "cudaGraphLaunch";
    CHECK_STATUS(o.d->run(o.d, &o.step, 1, &record), BRASA_OK);
    CHECK_STATUS(o.d->run(o.d, &o.step, 1, &record), BRASA_OUT_OF_MEMORY);
    CHECK_TEXT(o.d->warning, "");
    cudart.full = NULL;
    o.d->forget(o.d, record);
    close_gpu(&o);
}

#else

TEST(calls)
{
    SKIP("CUDA's headers are not here");
}

#endif
