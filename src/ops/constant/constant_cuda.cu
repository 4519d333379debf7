/* constant_cuda.cu - numbers that never change, on GPUs: they come as parameters of the kernels. */
#include "device/cuda/cuda.cuh"

#include <string.h>

enum { THREADS = 256, AT_ONCE = 2048 /* floats: 8 kB */ };

typedef struct numbers {
    float x[AT_ONCE];
} numbers;

static __global__ void constant_kernel(float *dst, float value)
{
    *dst = value;
}

static __global__ void __launch_bounds__(THREADS)
    constants_kernel(float *dst, const __grid_constant__ numbers n, int64_t count)
{
    GRID_FOR(i, count)
    {
        dst[i] = n.x[i];
    }
}

static brasa_status run_constant(const step *s)
{
    constant_kernel<<<1, 1, 0, stream_of(s)>>>((float *)s->out[0].data, (float)*(const double *)s->attr);
    return cuda_started(s);
}

static brasa_status run_constants(const step *s)
{
    const constants_attr *t = (const constants_attr *)s->attr;
    for (int64_t i = 0; i < t->count; i += AT_ONCE) {
        const int64_t count = t->count - i < AT_ONCE ? t->count - i : AT_ONCE;
        numbers n = {};
        memcpy(n.x, t->values + i, (size_t)count * sizeof(float));
        constants_kernel<<<blocks_for(s, count, THREADS), THREADS, 0, stream_of(s)>>>((float *)s->out[0].data + i, n,
                                                                                      count);
    }
    return cuda_started(s);
}

CUDA_KERNELS(constant) = {
    CUDA_ROW("constant", run_constant, NULL),
    CUDA_ROW("constants", run_constants, NULL),
    CUDA_END,
};
