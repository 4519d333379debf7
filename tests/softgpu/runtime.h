/* runtime.h - what the files share that stand in for CUDA's runtime.
 *
 * One lock holds for all of it: a call is over before another thread's begins, and kernels run within calls, those
 * that wait for them. So streams do as late as they may what they are given; with SOFTGPU_ORDER=early, at once.
 */
#ifndef SOFTGPU_RUNTIME_H
#define SOFTGPU_RUNTIME_H

#include "ptx_run.h"

#include <cuda_runtime_api.h>

enum {
    MOST_DEVICES = 8,
    PROCESSORS = 4,
    CAPABILITY = 9, /* Hopper */
    SHARED_RESERVED = 1 << 10,
    THREADS_OF_PROCESSOR = 2048,
    BLOCKS_OF_PROCESSOR = 32
};

/* A function of the host that stands for a kernel. */
typedef struct function {
    const void *host;
    char *name;
    struct fatbin *from;
    ptx_kernel *kernel; /* NULL: not looked for yet */
    struct function *next;
} function;

void runtime_lock(void), runtime_unlock(void);
/* Every function of CUDA's that can fail ends with this: the error is kept for cudaGetLastError. */
cudaError_t told(cudaError_t error);
/* What is wrong with the GPU for good, after a kernel that did what it must not. */
cudaError_t runtime_broken(void);
void runtime_break(cudaError_t error, const char *why);
int runtime_device(void); /* of this thread */
int runtime_devices(void), runtime_processors(void);

/* --- kernels (fatbin.c, launch.c) ------------------------------------------------------------------------------ */

/* The PTX of a program's file, as nvcc put it in; NULL: there is none, and `why` says so. */
char *fatbin_words(const void *wrapper, char *why, size_t size);
/* NULL: no such kernel, or it cannot be read; that has been told. */
ptx_kernel *function_kernel(function *f);
function *function_find(const void *host);
int launch_fits(const ptx_kernel *k, int threads, size_t dynamic);

/* --- streams (streams.c) --------------------------------------------------------------------------------------- */

/* A start of a kernel, with the arguments that belong to it. */
cudaError_t stream_launch(cudaStream_t s, const launch *l);
/* Whether this thread records: then some calls are not allowed, and spoil it. */
bool stream_forbids(void);
/* Does all that there is to do. */
void streams_finish(void);

#endif
