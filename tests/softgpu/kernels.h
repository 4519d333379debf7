/* kernels.h - starts the kernels of kernels.cu. */
#ifndef SOFTGPU_KERNELS_H
#define SOFTGPU_KERNELS_H

#include <cuda_runtime_api.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define IN_BOTH static __host__ __device__ inline
extern "C" {
#else
#define IN_BOTH static inline
#endif

enum { RESULTS = 64 };

typedef struct operands {
    double x, y;
    float f, g;
    uint32_t a, b;
} operands;

/* All NaNs are one. */
IN_BOTH uint64_t bits_of_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return f != f ? 0x7fffffff : bits;
}

IN_BOTH uint64_t bits_of_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? 0x7fffffffffffffff : bits;
}

void compute_on_host(const operands *o, uint64_t *to);
cudaError_t arithmetic(const operands *o, uint64_t *to, int count, cudaStream_t s);
cudaError_t sums(const float *from, float *to, int count, int threads, cudaStream_t s);
cudaError_t together(unsigned *arrived, int *room, int *to, int blocks, cudaStream_t s);
cudaError_t loops(int *to, cudaStream_t s);
cudaError_t add(int *to, const int *from, int count, cudaStream_t s);

/* Each does something that a kernel must not do, in one block; `at` says where, or how many threads. */
typedef cudaError_t wrong_kernel(void *memory, int at, cudaStream_t s);
wrong_kernel behind, crooked, shared_behind, race_of_reader, race_of_writer, race_of_writers, parted, unread,
    own_crooked, own_unread, masked, unknown;

#ifdef __CUDACC__
}
#endif

#endif
