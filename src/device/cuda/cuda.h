/* cuda.h - what the kernels of NVIDIA GPUs agree on. Included by *_cuda.cu and by the C files beside it.
 *
 * Formats. Pictures lie as NHWC, weights of convolutions as OHWI: the same permutation. Everything else is plain.
 * What is stored in 16 bits with BRASA_BF16 is said in graph/precision.c. All arithmetic is in floats.
 *
 * Kernels. run() starts work in the queue and returns; it must not wait, allocate or copy to or from the host,
 * because it is recorded into a CUDA graph and replayed: everything that changes from step to step is read from the
 * device's memory. Sums are made in a fixed order, without atomics on floats: results repeat bit by bit.
 */
#ifndef DEVICE_CUDA_CUDA_H
#define DEVICE_CUDA_CUDA_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "device/device.h"

enum { CUDA_MOST_ARRIVALS = 1024 };

/* step.queue, and device.queue. */
typedef struct cuda_queue {
    cudaStream_t stream;
    brasa_context *ctx;
    int index;                 /* of the GPU */
    int processors;            /* streaming multiprocessors */
    int64_t cache;             /* bytes of the cache that they share */
    size_t most_shared;        /* bytes of shared memory that a block may ask for */
    unsigned *arrivals;        /* 2 x CUDA_MOST_ARRIVALS zeros, for kernels whose blocks wait for each other: they
                                  leave zeros there again */
    int major, minor;          /* compute capability */
    struct cudnn *cudnn;       /* NULL: not there; made by cudnn.c */
    struct cublaslt *cublaslt; /* NULL: not there; made by cublaslt.c */
} cuda_queue;

static inline cuda_queue *queue_of(const step *s)
{
    return (cuda_queue *)s->queue;
}

/* Takes the error that CUDA keeps for this thread. Whether what failed did so for want of the GPU's memory, or may
 * have, as there is little left: it may do the next time. */
static inline bool cuda_lacks_memory(void)
{
    const size_t little = 256 << 20;
    size_t left = 0, all = 0;
    if (cudaGetLastError() == cudaErrorMemoryAllocation)
        return true;
    if (cudaMemGetInfo(&left, &all) == cudaSuccess)
        return left < little;
    (void)cudaGetLastError();
    return false;
}

static inline cudaStream_t stream_of(const step *s)
{
    return queue_of(s)->stream;
}

/* While a graph is planned. */
static inline cuda_queue *queue_of_graph(const graph *g)
{
    return (cuda_queue *)g->ctx->device->queue;
}

/* Makes a queue's GPU the one that this thread's calls are for: what a thread may call first begins with it. */
void cuda_enter(const cuda_queue *q);
/* The last thing that a kernel's run() does: tells whether what it started was accepted. */
brasa_status cuda_started(const step *s);
/* BRASA_INTERNAL, or BRASA_OUT_OF_MEMORY, with the error's name; `what` is what was tried. */
brasa_status cuda_fail(brasa_context *ctx, cudaError_t error, const char *what);
/* Whether this library has kernels for the current GPU, or can compile them (timing.cu). */
cudaError_t cuda_has_code(void);
/* Keeps the GPU waiting, so that what is started next begins when all of it is queued (timing.cu). */
void cuda_delay(cudaStream_t stream);

/* For kernel.open and close: so many counters of a node, zero, which are its state. A workspace, which is others'
 * between runs, keeps none. */
brasa_status cuda_counters_open(graph *g, node *n, size_t count);
void cuda_counters_close(brasa_context *ctx, void *state);

/* --- layouts ------------------------------------------------------------------------------------------------- */

/* How a value lies: rank 4 as NHWC. */
layout cuda_layout(const graph *g, int v);
/* The same with a storage: what is computed element by element, what a product takes, and the logical type. */
format cuda_format(const graph *g, int v);
format cuda_format_product(const graph *g, int v);
format cuda_format_exact(const graph *g, int v);
/* For kernel.formats: all tensors of a node as cuda_format says. */
void cuda_formats(const graph *g, const node *n, format *in, format *out);
/* For kernel.formats of element-wise work: the tensors of output 0's shape lie in the order of the first one that is
 * settled, stored as cuda_format says; others are plain. */
void cuda_formats_elementwise(const graph *g, const node *n, format *in, format *out);

/* --- kernel lists ---------------------------------------------------------------------------------------------- */

/* A row: CUDA_ROW("relu", relu_cuda_run, cuda_formats_elementwise). The name that is shown is <op>_cuda. */
#define CUDA_ROW(operation, run_hook, formats_hook)                                                                  \
    {                                                                                                                \
        operation,                                                                                                   \
        {                                                                                                            \
            .name = operation "_cuda", .real = F32, .formats = formats_hook, .run = run_hook                         \
        }                                                                                                            \
    }
#define CUDA_END                                                                                                     \
    {                                                                                                                \
        NULL,                                                                                                        \
        {                                                                                                            \
            NULL                                                                                                     \
        }                                                                                                            \
    }

#ifdef __cplusplus
}
#endif

#endif
