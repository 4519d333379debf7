/* many.cuh - one launch that works on many tensors, for kernel.run_many.
 *
 * A network has some hundred parameters, most of them small: a launch for each would take longer than the work. The
 * addresses and sizes of the tensors are a parameter of the kernel, so that nothing has to be copied to the device
 * before it. Tensors are cut into pieces of a fixed number of elements; a block finds out whose piece it has.
 */
#ifndef DEVICE_CUDA_MANY_CUH
#define DEVICE_CUDA_MANY_CUH

#include "device/cuda/quads.cuh"

#include <string.h>

/* The parameters of a kernel had room for 4 KB before CUDA 12.1, and have 32 KB now: enough for most networks. */
#if CUDART_VERSION >= 12010
enum { MANY_TENSORS = 192 };
#else
enum { MANY_TENSORS = 80 };
#endif
enum { MANY_ADDRESSES = 4, MANY_THREADS = 256 };

/* Sets of tensors of one size, a parameter with its gradient and its slots, say. */
typedef struct many {
    int count;
    uint32_t first[MANY_TENSORS + 1]; /* pieces of the sets before; first[count]: of all */
    int64_t size[MANY_TENSORS];       /* elements of a tensor */
    void *data[MANY_TENSORS][MANY_ADDRESSES];
    uint8_t half[MANY_TENSORS]; /* bit a: data[][a] is in 16 bits, or split: the kernel knows which */
} many;

/* Adds a set; the caller sets data[] and half[] of the number that comes back. */
static inline int many_add(many *m, int64_t size, int piece)
{
    const int k = m->count++;
    m->size[k] = size;
    m->first[k + 1] = m->first[k] + (uint32_t)((size + piece - 1) / piece);
    return k;
}

static inline bool many_full(const many *m)
{
    return m->count == MANY_TENSORS;
}

/* Blocks of MANY_THREADS that share out the pieces: as many as the GPU holds. */
static inline int many_blocks(const step *s, const many *m)
{
    const uint32_t most = (uint32_t)queue_of(s)->processors * (2048 / MANY_THREADS), pieces = m->first[m->count];
    return (int)(pieces < most ? pieces : most);
}

/* The set that a piece belongs to: the last one that begins at or before it. */
static __device__ __forceinline__ int many_find(const many &m, uint32_t piece)
{
    int low = 0, high = m.count;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (m.first[middle] <= piece)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first element of this thread's quad number j of a piece that begins at `begin`: neighbours read side by side.
 */
static __device__ __forceinline__ int64_t many_quad(int64_t begin, int j)
{
    return begin + (j * MANY_THREADS + (int)threadIdx.x) * 4;
}

#endif
