/* tiles.h - what the kernels of convolution share, for tiles of all sizes: how weights lie, where a tile's pixels
 * lie, and how its outputs are finished. For files that are compiled once for each instruction set. */
#ifndef OPS_CONV2D_TILES_H
#define OPS_CONV2D_TILES_H

#include "device/cpu/simd.h"
#include "ops/conv2d/conv2d.h"

#include <string.h>

enum { PANEL = 2 }; /* output blocks that are made together */

#define INLINE static inline __attribute__((always_inline))

/* row(1) row(2) ... for as many lines as a product has whose sums fill the registers with PANEL vectors each. */
#ifdef SIMD_AVX512
#define EACH_LINES(row)                                                                                              \
    row(1) row(2) row(3) row(4) row(5) row(6) row(7) row(8) row(9) row(10) row(11) row(12) row(13) row(14)
#else
#define EACH_LINES(row) row(1) row(2) row(3) row(4) row(5) row(6)
#endif

static inline int64_t divide_up(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static inline span share(int64_t all, int64_t part, int64_t parts)
{
    return (span){all * part / parts, all * (part + 1) / parts};
}

/* For kernel.formats of all three products: the weights, or their gradient, as direct kernels have them. */
static inline void conv2d_formats(const graph *g, const node *n, format *in, format *out)
{
    cpu_formats(g, n, in, out);
    if (n->op == &conv2d_grad_weights_op)
        out[0].layout = cpu_weight_layout(g->ctx);
    else
        in[n->op == &conv2d_grad_data_op ? 0 : 1].layout = cpu_weight_layout(g->ctx);
}

/* A block of weights, [tap][input][output], as the data gradient sees it: [last tap - tap][output][input]. */
static inline void turn_weights(const float *weights, int taps, vec *turned)
{
    for (int tap = 0; tap < taps; tap++) {
        const float *from = weights + tap * BLOCK * BLOCK;
        float *to = (float *)(turned + (taps - 1 - tap) * BLOCK);
        for (int in = 0; in < BLOCK; in++)
            for (int out = 0; out < BLOCK; out++)
                to[out * BLOCK + in] = from[in * BLOCK + out];
    }
}

/* From one plane to the next, in vectors. Planes whose distance is a power of two would all lie in one set of the
 * cache. */
static inline int64_t plane_step(int64_t vectors)
{
    return vectors + (5 * 16 / BLOCK);
}

static inline float *sample_at(const arg *a, int64_t n)
{
    return (float *)a->data + n * a->sample;
}

/* A block of channels of one sample. */
static inline vec *plane_at(const arg *a, int64_t n, int64_t block)
{
    return (vec *)sample_at(a, n) + block * a->shape.dim[2] * a->shape.dim[3];
}

/* A copy of the size x size pixels from (y, x) on, zeros where there are none. */
static __attribute__((noinline)) void copy_pixels(const vec *plane, int64_t H, int64_t W, int64_t y, int64_t x,
                                                  int size, vec *copy)
{
    const int left = x < 0 ? (int)-x : 0, right = W - x < size ? (int)(W - x) : size;
    for (int i = 0; i < size; i++, copy += size) {
        const bool inside = y + i >= 0 && y + i < H;
        for (int j = 0; j < size; j++)
            copy[j] = inside && j >= left && j < right ? plane[(y + i) * W + x + j] : (vec){0};
    }
}

/* The size x size pixels from (y, x) on, their rows *row apart: where they lie in the plane, or a copy with zeros
 * around it. */
INLINE const vec *pixels_at(const vec *plane, const shape *s, int64_t y, int64_t x, const int size, vec *copy,
                            int64_t *row)
{
    const int64_t H = s->dim[2], W = s->dim[3];
    const bool inside = y >= 0 && x >= 0 && y + size <= H && x + size <= W;
    *row = inside ? W : size;
    if (inside)
        return plane + y * W + x;
    copy_pixels(plane, H, W, y, x, size, copy);
    return copy;
}

/* Block k of the biases, zeros behind the last one; NULL: there are none. */
static inline vec bias_of(const arg *bia, int64_t k)
{
    vec bias = {0};
    if (bia) {
        const int64_t left = bia->shape.dim[0] - k * BLOCK;
        memcpy(&bias, (const float *)bia->data + k * BLOCK, (size_t)(left < BLOCK ? left : BLOCK) * sizeof(float));
    }
    return bias;
}

#endif
