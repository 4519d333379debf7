/* elementwise.cuh - kernels that make each element of the output from those at its place in one or two inputs.
 *
 * What they compute is a function of floats, given as a parameter of the template:
 *
 *     static __device__ float relu(float x, float, float) { return x <= 0 ? 0.f : x; }
 *     CUDA_KERNELS(relu) = {CUDA_ROW("relu", (elementwise<1, relu>), elementwise_formats), CUDA_END};
 *
 * The output may lie where an input does: a thread reads all that it needs before it writes, and only its own places.
 */
#ifndef DEVICE_CUDA_ELEMENTWISE_CUH
#define DEVICE_CUDA_ELEMENTWISE_CUH

#include "device/cuda/cuda.cuh"

/* x is an element of input 0, y that of input 1 (or x again, where there is one input), a is a number of the node's.
 */
typedef float (*formula)(float x, float y, float a);

enum { ELEMENTWISE_THREADS = 256 };

/* For kernel.formats: as cuda_formats_elementwise, but with all tensors of output 0's shape stored in its type, so
 * that one is enough to compile for. It differs where state is read, which networks do not do, but tests. */
static inline void elementwise_formats(const graph *g, const node *n, format *in, format *out)
{
    const shape *s = &g->values[n->out[0]].shape;
    cuda_formats_elementwise(g, n, in, out);
    for (int k = 0; k < n->nin; k++)
        if (shape_equal(&g->values[n->in[k]].shape, s))
            in[k].storage = out[0].storage;
}

/* Whether a tensor can be read in units of so many bytes. */
static inline bool is_aligned(const arg *a, size_t bytes)
{
    return (uintptr_t)a->data % bytes == 0;
}

/* Four elements: 16 bytes of floats, 8 of bf16. For kernels whose tensors are of two types. */
template <class T> struct alignas(4 * sizeof(T)) four {
    T x[4];
};

/* Packs first, then what is left of the tensor, element by element. Loads of several packs, a grid apart, are under
 * way at once: so a small tensor still is spread over the whole GPU. */
template <class T, int INPUTS, formula F>
static __global__ void __launch_bounds__(ELEMENTWISE_THREADS)
    elementwise_kernel(const T *x, const T *y, T *out, int64_t packs, int64_t count, float a)
{
    enum { AT_ONCE = 4 / INPUTS, N = pack<T>::N };
    const int64_t grid = (int64_t)gridDim.x * blockDim.x, first = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    for (int64_t i = first; i < packs; i += AT_ONCE * grid) {
        pack<T> p[AT_ONCE], q[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            if (i + u * grid >= packs)
                continue;
            p[u] = ((const pack<T> *)x)[i + u * grid];
            if (INPUTS == 2)
                q[u] = ((const pack<T> *)y)[i + u * grid];
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            if (i + u * grid >= packs)
                continue;
#pragma unroll
            for (int j = 0; j < N; j++)
                p[u].x[j] = from_float<T>(F(to_float(p[u].x[j]), to_float(INPUTS == 2 ? q[u].x[j] : p[u].x[j]), a));
            ((pack<T> *)out)[i + u * grid] = p[u];
        }
    }
    for (int64_t i = packs * N + first; i < count; i += grid)
        out[i] = from_float<T>(F(to_float(x[i]), to_float(y[i]), a));
}

template <class T, int INPUTS, formula F> static void elementwise_start(const step *s, float a)
{
    const arg *x = &s->in[0], *y = &s->in[INPUTS - 1], *out = &s->out[0];
    const bool aligned = is_aligned(x, 16) && is_aligned(y, 16) && is_aligned(out, 16);
    const int64_t packs = aligned ? out->count / pack<T>::N : 0, rest = out->count - packs * pack<T>::N;
    const int blocks = blocks_for(s, packs > rest ? packs : rest, ELEMENTWISE_THREADS);
    elementwise_kernel<T, INPUTS, F><<<blocks, ELEMENTWISE_THREADS, 0, stream_of(s)>>>(
        (const T *)x->data, (const T *)y->data, (T *)out->data, packs, out->count, a);
}

/* The run() of such a kernel. */
template <int INPUTS, formula F> static brasa_status elementwise(const step *s, float a)
{
    if (s->out[0].format.storage == BF16)
        elementwise_start<bf16, INPUTS, F>(s, a);
    else
        elementwise_start<float, INPUTS, F>(s, a);
    return cuda_started(s);
}

/* The same, of a formula without a number of the node's. */
template <int INPUTS, formula F> static brasa_status elementwise(const step *s)
{
    return elementwise<INPUTS, F>(s, 0);
}

#endif
