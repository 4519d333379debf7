/* cublaslt_trial.c - algorithms of cuBLASLt, tried on numbers in memory of their own: see cublaslt_parts.h.
 *
 * Whether an activation is done with a product depends on the product alone: algorithms prove themselves on a corner
 * of it, for which there is memory on any GPU. The clock needs all of it, and a product that is too large, or has no
 * room at the moment, goes without.
 */
#include "device/cuda/cublaslt_parts.h"

#include <string.h>

enum { ROUNDS = 5 };
enum { CORNER = 512 };                                   /* rows and columns, at most */
enum { SWEEP = 64 << 20 };                               /* more than the caches hold */
enum { PATTERN = 1 << 16 };                              /* bytes of numbers, repeated */
static const double most_flops = 4e11, most_bytes = 2e9; /* of a product that is timed: milliseconds, on any GPU */

/* Memory in which algorithms are tried. */
typedef struct room {
    char *block, *pattern; /* on the GPU, and here */
    char *workspace, *a, *b, *d, *vector, *sweep;
    size_t bytes_b;
    cudaEvent_t begin, end;
    bool starved; /* the library has had no memory for a product */
} room;

/* Numbers between -1 and 1, as the matrices store them. */
static void make_numbers(char *to, bool bf16)
{
    uint32_t state = 1;
    for (size_t at = 0; at < PATTERN;) {
        state = state * 1664525u + 1013904223u;
        const float number = (float)(int32_t)state * 0x1p-31f;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        const uint16_t upper = (uint16_t)(bits >> 16);
        memcpy(to + at, bf16 ? (const void *)&upper : (const void *)&bits, bf16 ? sizeof upper : sizeof bits);
        at += bf16 ? sizeof upper : sizeof bits;
    }
}

/* The pattern, again and again: what is there already is copied behind itself. */
static cudaError_t fill(char *to, size_t bytes, const char *pattern, cudaStream_t stream)
{
    size_t have = bytes < PATTERN ? bytes : PATTERN;
    cudaError_t error = cudaMemcpyAsync(to, pattern, have, cudaMemcpyHostToDevice, stream);
    for (size_t more; have < bytes && error == cudaSuccess; have += more) {
        more = bytes - have < have ? bytes - have : have;
        error = cudaMemcpyAsync(to + have, to, more, cudaMemcpyDeviceToDevice, stream);
    }
    return error;
}

static void room_close(cuda_queue *q, room *r)
{
    if (r->begin)
        cudaEventDestroy(r->begin);
    if (r->end)
        cudaEventDestroy(r->end);
    if (r->block)
        cudaFree(r->block);
    (void)cudaGetLastError(); /* of what failed in it, or of memory that there is not: else what follows has it */
    mem_put(q->ctx, r->pattern);
    *r = (room){0};
}

static bool too_large(const cublaslt_product *p)
{
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    return 2 * m * n * k > most_flops || (m * k + k * n + m * n) * (p->bf16 ? 2 : 4) > most_bytes;
}

/* With so many bytes to sweep the caches with. False: the product is too large to be tried, or there is no memory for
 * it; room_close is due even then. */
static bool room_open(const cublaslt_plan *plan, size_t sweep, room *r)
{
    enum { PLACES = 4 };
    const cublaslt_product *p = &plan->product;
    cuda_queue *q = plan->queue;
    if (too_large(p))
        return false;
    const int64_t count_b = p->line_b ? p->line_b * (p->turn_b ? p->k : p->n) : p->k * p->n;
    const int64_t counts[PLACES] = {p->m * p->k, count_b, p->m * p->n, p->m > p->n ? p->m : p->n};
    char **const places[PLACES] = {&r->a, &r->b, &r->d, &r->vector};
    size_t offset[PLACES + 1] = {LT_MOST_WORKSPACE};
    for (int i = 0; i < PLACES; i++)
        offset[i + 1] = lt_align_up(offset[i] + (size_t)counts[i] * (p->bf16 ? 2 : 4));
    r->bytes_b = (size_t)counts[1] * (p->bf16 ? 2 : 4);
    r->pattern = mem_get(q->ctx, PATTERN);
    cudaError_t error = r->pattern ? cudaSuccess : cudaErrorMemoryAllocation;
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&r->block, offset[PLACES] + sweep);
    if (error == cudaSuccess)
        make_numbers(r->pattern, p->bf16);
    for (int i = 0; i < PLACES && error == cudaSuccess; i++) {
        *places[i] = r->block + offset[i];
        error = fill(*places[i], offset[i + 1] - offset[i], r->pattern, q->stream);
    }
    if (error == cudaSuccess)
        error = cudaEventCreate(&r->begin);
    if (error == cudaSuccess)
        error = cudaEventCreate(&r->end);
    if (error != cudaSuccess)
        return false;
    r->workspace = r->block;
    r->sweep = r->block + offset[PLACES];
    return true;
}

static cublasStatus_t try_once(const cublaslt_plan *plan, const cublasLtMatmulHeuristicResult_t *c, room *r)
{
    const cublasStatus_t status =
        cublaslt_start(plan, &c->algo, r->a, r->b, r->d, r->vector, r->workspace, c->workspaceSize);
    r->starved = r->starved || status == CUBLAS_STATUS_ALLOC_FAILED;
    return status;
}

/* Whether what has just failed may do another time. */
static bool lacks_memory(room *r)
{
    const bool starved = r->starved;
    r->starved = false;
    return cuda_lacks_memory() || starved;
}

bool cublaslt_takes(const cublaslt_plan *plan, const cublasLtMatmulAlgo_t *algorithm, size_t *workspace)
{
    const struct cublaslt *lib = plan->queue->cublaslt;
    cublasLtMatmulHeuristicResult_t result = {0};
    if (lib->check(lib->handle, plan->what, plan->a, plan->b, plan->d, plan->d, algorithm, &result) !=
            CUBLAS_STATUS_SUCCESS ||
        result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > LT_MOST_WORKSPACE)
        return false;
    *workspace = result.workspaceSize;
    return true;
}

/* In nanoseconds with cold caches, the middle one of several; -1: it does not run after all. Sweeping the caches
 * takes longer than starting what follows, so that no waiting for the host is timed. */
static int64_t time_of(const cublaslt_plan *plan, const cublasLtMatmulHeuristicResult_t *c, room *r)
{
    const cudaStream_t stream = plan->queue->stream;
    float times[ROUNDS];
    if (try_once(plan, c, r) != CUBLAS_STATUS_SUCCESS)
        return -1;
    for (int i = 0; i < ROUNDS; i++) {
        float took = 0;
        int at = i;
        if (cudaMemsetAsync(r->sweep, 0, SWEEP, stream) != cudaSuccess ||
            cudaEventRecord(r->begin, stream) != cudaSuccess || try_once(plan, c, r) != CUBLAS_STATUS_SUCCESS ||
            cudaEventRecord(r->end, stream) != cudaSuccess || cudaEventSynchronize(r->end) != cudaSuccess ||
            cudaEventElapsedTime(&took, r->begin, r->end) != cudaSuccess)
            return -1;
        for (; at > 0 && times[at - 1] > took; at--)
            times[at] = times[at - 1];
        times[at] = took;
    }
    return (int64_t)(times[ROUNDS / 2] * 1e6f);
}

/* Whether what is not a number comes out of the activation as such, as it does from our relu: a network that has gone
 * astray must not look well. B is full of them. False: it failed. */
static bool try_nan(const cublaslt_plan *corner, const cublasLtMatmulAlgo_t *algorithm, room *r, bool *comes)
{
    const size_t size = corner->product.bf16 ? 2 : 4;
    const cudaStream_t stream = corner->queue->stream;
    cublasLtMatmulHeuristicResult_t c = {.algo = *algorithm};
    uint32_t bits = 0;
    *comes = false;
    if (!cublaslt_takes(corner, algorithm, &c.workspaceSize))
        return true;
    if (cudaMemsetAsync(r->d, 0, size, stream) != cudaSuccess || try_once(corner, &c, r) != CUBLAS_STATUS_SUCCESS ||
        cudaMemcpyAsync(&bits, r->d, size, cudaMemcpyDeviceToHost, stream) != cudaSuccess ||
        cudaStreamSynchronize(stream) != cudaSuccess)
        return false;
    bits = corner->product.bf16 ? bits << 16 : bits;
    *comes = (bits & 0x7fffffff) > 0x7f800000;
    return true;
}

static void keep_careful(const cublaslt_plan *corner, cublasLtMatmulHeuristicResult_t *list, int listed, int *count,
                         room *r, finding *f)
{
    for (int i = 0; i < listed; i++) {
        bool comes = false;
        if (!try_nan(corner, &list[i].algo, r, &comes))
            f->lacking = lacks_memory(r) || f->lacking;
        else if (comes)
            list[(*count)++] = list[i];
    }
}

/* A product of the same kind, no larger than CORNER. */
static cublasStatus_t corner_open(const cublaslt_plan *plan, cublaslt_plan *corner)
{
    cublaslt_product *p = &corner->product;
    *corner = (cublaslt_plan){.queue = plan->queue, .product = plan->product};
    p->m = p->m < CORNER ? p->m : CORNER;
    p->n = p->n < CORNER ? p->n : CORNER;
    p->k = p->k < CORNER ? p->k : CORNER;
    p->line_b = 0;
    return cublaslt_describe(plan->queue->cublaslt, corner);
}

brasa_status cublaslt_drop_careless(const cublaslt_plan *plan, cublasLtMatmulHeuristicResult_t *list, int *count,
                                    finding *f)
{
    const int listed = *count;
    cublaslt_plan corner;
    room r = {0};
    brasa_status status = BRASA_OK;
    *count = 0;
    if (corner_open(plan, &corner) == CUBLAS_STATUS_SUCCESS) {
        if (!room_open(&corner, 0, &r))
            status = fail(plan->queue->ctx, BRASA_OUT_OF_MEMORY,
                          "cuBLASLt: no memory on the GPU to try an algorithm, which takes %d MB",
                          (LT_MOST_WORKSPACE >> 20) + (4 * CORNER * CORNER * 3 >> 20) + 1);
        else if (cudaMemsetAsync(r.b, 0xff, r.bytes_b, plan->queue->stream) == cudaSuccess)
            keep_careful(&corner, list, listed, count, &r, f);
    }
    room_close(plan->queue, &r);
    cublaslt_undescribe(&corner);
    return status;
}

/* *best: the quickest of a list, by f->nanoseconds, or -1. */
static brasa_status find_quickest(const cublaslt_plan *plan, const cublasLtMatmulHeuristicResult_t *list, int count,
                                  room *r, finding *f, int *best)
{
    brasa_status status = BRASA_OK;
    *best = -1;
    for (int i = 0; i < count && status == BRASA_OK; i++, status = tuner_go_on(plan->tuner)) {
        const int64_t time = time_of(plan, &list[i], r);
        f->timed += time >= 0;
        if (time < 0 && lacks_memory(r))
            f->lacking = true;
        if (time < 0 || (*best >= 0 && time >= f->nanoseconds))
            continue;
        *best = i;
        f->nanoseconds = time;
    }
    return status;
}

brasa_status cublaslt_time(const cublaslt_plan *plan, const cublasLtMatmulHeuristicResult_t *list, int count,
                           finding *f, int *best)
{
    room r = {0};
    *best = 0;
    f->tried = room_open(plan, SWEEP, &r);
    const brasa_status status = f->tried ? find_quickest(plan, list, count, &r, f, best) : BRASA_OK;
    room_close(plan->queue, &r);
    return status;
}
