/* add_cuda.cu - the sum of two or more tensors, and the activation behind it, on GPUs. */
#include "device/cuda/elementwise.cuh"

/* --- two, as nearly all sums are ------------------------------------------------------------------------------- */

static __device__ float sum(float x, float y, float)
{
    return x + y;
}

static __device__ float sum_relu(float x, float y, float)
{
    return activate(x + y, ACT_RELU);
}

static __device__ float sum_relu6(float x, float y, float)
{
    return activate(x + y, ACT_RELU6);
}

static brasa_status add_two(const step *s)
{
    switch (s->node->act) {
    case ACT_RELU:
        return elementwise<2, sum_relu>(s, 0);
    case ACT_RELU6:
        return elementwise<2, sum_relu6>(s, 0);
    default:
        return elementwise<2, sum>(s, 0);
    }
}

/* --- any number ------------------------------------------------------------------------------------------------ */

enum { MOST = 256, THREADS = 256 };

typedef struct terms {
    int count;
    activation act;
    const void *x[MOST];
} terms;

template <class T>
static __global__ void __launch_bounds__(THREADS)
    add_kernel(const __grid_constant__ terms t, T *out, int64_t packs, int64_t count)
{
    enum { N = pack<T>::N };
    GRID_FOR(i, packs)
    {
        float total[N] = {0};
#pragma unroll 4
        for (int k = 0; k < t.count; k++) {
            const pack<T> p = ((const pack<T> *)t.x[k])[i];
#pragma unroll
            for (int j = 0; j < N; j++)
                total[j] = k ? total[j] + to_float(p.x[j]) : to_float(p.x[j]);
        }
        pack<T> p;
#pragma unroll
        for (int j = 0; j < N; j++)
            p.x[j] = from_float<T>(activate(total[j], t.act));
        ((pack<T> *)out)[i] = p;
    }
    GRID_FOR(i, count - packs * N)
    {
        const int64_t at = packs * N + i;
        float total = to_float(((const T *)t.x[0])[at]);
        for (int k = 1; k < t.count; k++)
            total += to_float(((const T *)t.x[k])[at]);
        out[at] = from_float<T>(activate(total, t.act));
    }
}

template <class T> static void add_start(const step *s, const terms *t)
{
    const arg *out = &s->out[0];
    bool aligned = is_aligned(out, 16);
    for (int k = 0; k < s->nin; k++)
        aligned = aligned && is_aligned(&s->in[k], 16);
    const int64_t packs = aligned ? out->count / pack<T>::N : 0, rest = out->count - packs * pack<T>::N;
    const int blocks = blocks_for(s, packs > rest ? packs : rest, THREADS);
    add_kernel<T><<<blocks, THREADS, 0, stream_of(s)>>>(*t, (T *)out->data, packs, out->count);
}

/* More inputs than fit into one start are added to the output in further ones. Should the output lie where an input
 * does, that is among the first 32 (op_def.in_place), which are read before anything is written. */
static brasa_status add_many(const step *s)
{
    for (int done = 0; done < s->nin;) {
        terms t = {};
        if (done > 0)
            t.x[t.count++] = s->out[0].data;
        while (done < s->nin && t.count < MOST)
            t.x[t.count++] = s->in[done++].data;
        t.act = done == s->nin ? s->node->act : ACT_NONE;
        BY_TYPE(s->out[0].format.storage, add_start, s, &t);
    }
    return cuda_started(s);
}

static brasa_status run(const step *s)
{
    return s->nin == 2 ? add_two(s) : add_many(s);
}

CUDA_KERNELS(add) = {
    CUDA_ROW("add", run, elementwise_formats),
    CUDA_END,
};
