/* depthwise_cuda.cuh - what the GPU's kernels of depthwise convolutions share, forward and backward.
 *
 * Threads have a few neighbouring channels, a slice of which belongs to a block; they keep the kernels of these in
 * registers and go down the picture in strips one pixel or cell wide, several rows at a time: so many loads are on
 * their way at once.
 */
#ifndef OPS_DEPTHWISE_CUDA_CUH
#define OPS_DEPTHWISE_CUDA_CUH

#include "ops/window.cuh"

extern "C" {
#include "ops/depthwise_grad/depthwise_grad.h"
}

enum { SIZE = 3, TAPS = SIZE * SIZE, SLICE_PACKS = 32 };

/* The kernels that networks are made of, over pictures whose strips can be counted in an int. */
static inline bool depthwise_is_near(const window_attr *t, const shape *src)
{
    return t->size.h == SIZE && t->size.w == SIZE && t->dilation.h == 1 && t->dilation.w == 1 &&
           t->stride.h == t->stride.w && t->stride.h <= 2 && shape_span(src, 2, 4) <= INT32_MAX / 2;
}

/* Packs of channels in slices of about the same width. */
typedef struct slices {
    int count, width;
} slices;

static inline slices slices_of(int64_t packs)
{
    const int64_t count = (packs + SLICE_PACKS - 1) / SLICE_PACKS;
    return slices{(int)count, (int)((packs + count - 1) / count)};
}

/* Weights are state, in floats, or made within a step: folded, in evaluation. */
typedef struct weights {
    const void *data;
    bool is_bf16; /* in 16 bits */
} weights;

static inline weights weights_of(const arg *a)
{
    return weights{a->data, a->format.storage == BF16};
}

static __device__ __forceinline__ float weight_at(const weights &w, int64_t i)
{
    return w.is_bf16 ? to_float(((const bf16 *)w.data)[i]) : ((const float *)w.data)[i];
}

/* The kernels of `count` channels from `first` on, of C, into `room`, channel by channel for each tap. All threads of
 * a block take part. */
static __device__ __forceinline__ void stage_weights(const weights &w, int first, int count, int C, float *room)
{
    const int left = C - first, have = (count < left ? count : left) * TAPS, threads = blockDim.x * blockDim.y;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < have; i += threads)
        room[i % TAPS * count + i / TAPS] = weight_at(w, (int64_t)first * TAPS + i);
    __syncthreads();
}

/* Rows y, y + 1 ... of a picture, a pack from each of some neighbouring columns; zeros from row `bottom` on, above
 * the first one and where a column is not inside. `at` is row y of the first column. Most rows are whole: nothing has
 * to be asked for each pack then. */
template <class T, int V, int ROWS, int COLUMNS>
static __device__ __forceinline__ void load_rows(lanes<T, V> (*to)[COLUMNS], const T *at, int64_t line, int C, int y,
                                                 int bottom, const bool (&inside)[COLUMNS])
{
    bool whole = y >= 0 && y + ROWS <= bottom;
#pragma unroll
    for (int s = 0; s < COLUMNS; s++)
        whole = whole && inside[s];
    if (whole) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int s = 0; s < COLUMNS; s++)
                to[r][s] = *(const lanes<T, V> *)(at + r * line + s * C);
    } else {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int s = 0; s < COLUMNS; s++)
                to[r][s] = fetch<T, V>(at + r * line + s * C, inside[s] && y + r >= 0 && y + r < bottom);
    }
}

/* Kernels lie one after the other, taps in their order: so they do plainly, and as OHWI. */
static inline format depthwise_weights(const graph *g, int v)
{
    const value *x = &g->values[v];
    format f = cuda_format_exact(g, v);
    if (x->settled && layout_same_bytes(&x->format.layout, &f.layout, &x->shape))
        f = {storage_view(x->format.storage), x->format.layout};
    return f;
}

/* depthwise_grad_cuda.cu: hooks for the ops of a single gradient, which are in conv2d's list. */
extern "C" {
void depthwise_data_formats(const graph *g, const node *n, format *in, format *out);
brasa_status depthwise_data_run(const step *s);
void depthwise_weights_formats(const graph *g, const node *n, format *in, format *out);
int64_t depthwise_weights_workspace(const graph *g, const node *n);
brasa_status depthwise_weights_run(const step *s);
brasa_status depthwise_open(graph *g, node *n);
void depthwise_close(brasa_context *ctx, void *state);
}

#endif
