/* products_rig.h - what stands in for cuBLASLt and its GPU, in a test that has the files that choose its algorithms.
 *
 * Each test makes up the algorithms that the library has. A product reads and writes the first and the last of what a
 * real one would, and takes as long as its algorithm says, by the clock of cudart.h. Whatever is made is counted.
 * After test.h.
 */
#ifndef TEST_PRODUCTS_RIG_H
#define TEST_PRODUCTS_RIG_H

#include <cuda_runtime.h>

/* What the rig does more: see below. */
#define cudaMalloc            cudart_malloc
#define cudaFree              cudart_free
#define cudaMemsetAsync       cudart_memset
#define cudaEventSynchronize  cudart_event_wait
#define cudaStreamSynchronize cudart_stream_wait
cudaError_t cudaMalloc(void **block, size_t bytes);
cudaError_t cudaFree(void *block);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
#include "cudart.h"
#undef cudaMalloc
#undef cudaFree
#undef cudaMemsetAsync
#undef cudaEventSynchronize
#undef cudaStreamSynchronize

#include "cuda_host.h"

#include "device/cuda/cublaslt_parts.h"

/* --- what is not looked at here --------------------------------------------------------------------------------- */

cudaError_t cuda_has_code(void)
{
    return cudaSuccess;
}

void cuda_delay(cudaStream_t stream)
{
    (void)stream;
}

/* --- the rig ---------------------------------------------------------------------------------------------------- */

enum { MOST_ALGORITHMS = 10, CACHE_BYTES = 50 << 20 /* of an H200 */, MARK = 0x4c54 };

#define LT_MACHINE "a stand-in, cuBLASLt 130100"

/* What the library has; mostly all but the time is 0. */
typedef struct lt_algorithm {
    float cold, warm;     /* milliseconds of a run, with cold caches and with warm ones; warm 0: the same */
    float dear;           /* more of them where it makes the gradient of the bias */
    unsigned slow;        /* bit k: the k-th of its runs takes ten times as long */
    size_t workspace;     /* that it needs */
    size_t checked;       /* the same when the library is asked about it alone; 0: as much */
    cublasStatus_t fails; /* what its runs end with */
    int good;             /* but for so many first ones */
    bool late;            /* a run is started, and fails then */
    bool idle;            /* a run does nothing */
    unsigned lacks;       /* bit LT_BIAS: it cannot add one, and so on */
    uint32_t alignment;   /* that it demands of the matrices */
    uint32_t scheme;      /* by which it adds up the parts of a sum; INPLACE: no two runs have the same bits */
    bool careless;        /* its activation makes zeros of what is not a number */
    bool insists;         /* it is listed whatever is asked for */
    cublasStatus_t state; /* of it in lists, and when the library is asked about it */
    bool refused;         /* the library has it no more */
    int runs;             /* so far */
} lt_algorithm;

static struct {
    device *gpu;
    cuda_queue *queue; /* NULL: it is not open yet */
    tuner *tuner;
    lt_algorithm algorithm[MOST_ALGORITHMS];
    int algorithms;
    int asked;            /* how often the library was asked for a list */
    int tries;            /* how often for a product */
    int last;             /* the algorithm of the last one */
    cublaslt_product ran; /* as the library was told */
    const void *a, *b, *d;
    char *workspace;
    size_t workspace_bytes;
    int settings, setting_fails; /* of the library, what was made or set; the one that fails, from 1 */
    bool swept;                  /* the caches are cold */
    bool broken;                 /* what was started has failed */
    int live;                    /* things of the library that are to be given back */
    size_t left, wanted;         /* bytes of the GPU's memory; what was asked for last */
    char *block;                 /* that was taken, or NULL */
    size_t bytes;
    char *sweep; /* what the caches were swept with, to the end of the block */
} rig;

/* --- CUDA, for the files under test ----------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **block, size_t bytes)
{
    rig.wanted = bytes;
    if (rig.queue && bytes > rig.left)
        return cudart.last = cudaErrorMemoryAllocation;
    const cudaError_t error = cudart_malloc(block, bytes);
    if (error == cudaSuccess && rig.queue) {
        rig.block = *block;
        rig.bytes = bytes;
    }
    return error;
}

cudaError_t cudaFree(void *block)
{
    if (block == rig.block)
        rig.block = rig.sweep = NULL;
    return cudart_free(block);
}

/* What is large enough sweeps the caches. It is not written, which would take a while. */
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    if (bytes < CACHE_BYTES)
        return cudart_memset(to, byte, bytes, stream);
    CHECK((char *)to >= rig.block && (char *)to + bytes <= rig.block + rig.bytes);
    rig.sweep = to;
    rig.swept = true;
    return cudart_memset(to, byte, 1, stream);
}

/* What was started is over, well or not. */
static cudaError_t rig_over(cudaError_t error)
{
    const bool broken = rig.broken;
    rig.broken = false;
    return broken ? cudart.last = cudaErrorLaunchFailure : error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return rig_over(cudart_event_wait(event));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    CHECK(!rig.queue || stream == rig.queue->stream);
    return rig_over(cudart_stream_wait(stream));
}

#include "counted.h"
#include "products_lt.h"

/* --- a GPU that is open ----------------------------------------------------------------------------------------- */

static const char *const choices = "choices";

/* A session's tuner: with what earlier ones have kept, or with a record alone, which is not the clock. */
static brasa_status rig_tune(const char *record)
{
    char cache[300];
    snprintf(cache, sizeof cache, "%s", in_folder(choices));
    const brasa_tuning wish = {.measure = !record, .cache = record ? NULL : cache, .record = record};
    tuner_free(rig.tuner);
    return tuner_new(ctx, "a stand-in", &wish, &rig.tuner);
}

static brasa_status rig_open(void)
{
    device *d = NULL;
    const brasa_status status = brasa_backend.open(ctx, 0, &d);
    if (status != BRASA_OK)
        return status;
    rig.gpu = ctx->device = d;
    rig.queue = d->queue;
    rig.queue->cublaslt = lt_library();
    return rig.queue->cublaslt ? rig_tune(NULL) : fail_memory(ctx, sizeof(struct cublaslt));
}

/* Saves what was chosen, as the end of a process does. */
static void rig_close(void)
{
    tuner_free(rig.tuner);
    if (rig.gpu)
        rig.gpu->close(rig.gpu);
    rig.gpu = ctx->device = NULL;
    rig.tuner = NULL;
    rig.queue = NULL;
}

/* A context; a GPU to be opened that has much memory, and a library with these algorithms; nothing is kept. */
static void set_up(const lt_algorithm *list, int count)
{
    start();
    memset(&rig, 0, sizeof rig);
    memset(&cudart, 0, sizeof cudart);
    memcpy(rig.algorithm, list, (size_t)count * sizeof *list);
    rig.algorithms = count;
    rig.left = SIZE_MAX;
    cudart_gpu = 0;
    remove(in_folder(choices));
    setenv("BRASA_CUBLASLT", "off", 1); /* the machine's own */
}

/* The same, and the GPU is open. */
static void begin(const lt_algorithm *list, int count)
{
    set_up(list, count);
    CHECK_STATUS(rig_open(), BRASA_OK);
}

/* All was given back, was for the GPU that it should be for, and left no error behind. */
static void tear_down(void)
{
    cudart.fail_at = 0;
    rig_close();
    CHECK_INT(rig.live, 0);
    CHECK_INT(cudart.live, 0);
    CHECK_INT(cudart.strays, 0);
    CHECK(cudaGetLastError() == cudaSuccess);
    stop();
}

static inline void next_process(void)
{
    rig_close();
    CHECK_STATUS(rig_open(), BRASA_OK);
}

/* --- products --------------------------------------------------------------------------------------------------- */

static const cublaslt_product usual = {.m = 48, .n = 32, .k = 40};
/* Of which the second one is the fastest. */
static const lt_algorithm three[3] = {{.cold = 3}, {.cold = 1}, {.cold = 2}};

/* What comes of a product. */
typedef struct answer {
    brasa_status status;
    int taken;        /* the algorithm, or -1 */
    int tries, asked; /* how many products, and lists, that took */
    int64_t workspace, nanoseconds;
    bool told;
    device_choice choice;
} answer;

static inline answer ask_with(tuner *t, cublaslt_product p)
{
    cublaslt_plan *plan = NULL;
    answer a = {.taken = -1, .tries = -rig.tries, .asked = -rig.asked};
    a.status = cublaslt_plan_new(rig.queue, t, &p, &plan);
    a.tries += rig.tries;
    a.asked += rig.asked;
    CHECK((a.status == BRASA_OK) == (plan != NULL));
    if (!plan)
        return a;
    a.taken = lt_index(&plan->best.algorithm);
    a.workspace = cublaslt_workspace(plan);
    a.nanoseconds = cublaslt_nanoseconds(plan);
    a.told = cublaslt_tell_choice(plan, &a.choice);
    cublaslt_plan_free(plan);
    return a;
}

static inline answer ask_for(cublaslt_product p)
{
    return ask_with(rig.tuner, p);
}

static inline cublaslt_product with(cublaslt_extra extra)
{
    cublaslt_product p = usual;
    p.extra = extra;
    return p;
}

static inline answer ask(cublaslt_extra extra)
{
    return ask_for(with(extra));
}

/* In words, in which all of it is. */
static inline void check_same_product(const cublaslt_product *x, const cublaslt_product *y)
{
    char of_x[LT_PROBLEM_SIZE], of_y[LT_PROBLEM_SIZE];
    cublaslt_name(x, of_x);
    cublaslt_name(y, of_y);
    CHECK_TEXT(of_x, of_y);
}

#endif
