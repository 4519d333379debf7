/* quads.cuh - four elements at a time, of 32 or 16 bits: where tensors of both types meet, all are read and written
 * in the same steps.
 *
 * Reading is one thing and making floats of it another: what needs several quads starts to read them all before it
 * looks at the first. A tensor begins at a multiple of PLAN_ALIGN bytes, so quads that begin at a multiple of four
 * elements are aligned. */
#ifndef DEVICE_CUDA_QUADS_CUH
#define DEVICE_CUDA_QUADS_CUH

#include "device/cuda/cuda.cuh"

extern "C" {
#include "core/split_f32.h"
}

/* As it is stored; of 16 bits, the first of two elements is the lower half of a word. */
template <class T> struct alignas(4 * sizeof(T)) quad {
    uint32_t word[sizeof(T)];
};

static __device__ __forceinline__ uint32_t bits_of(float x)
{
    return __float_as_uint(x);
}

static __device__ __forceinline__ uint32_t bits_of(bf16 x)
{
    return __bfloat16_as_ushort(x);
}

/* Where element e of a quad is: its word, and by how many bits it is shifted there. */
template <class T> static __device__ __forceinline__ constexpr int word_of(int e)
{
    return e * (int)sizeof(T) / 4;
}

template <class T> static __device__ __forceinline__ constexpr int shift_of(int e)
{
    return e * (int)sizeof(T) % 4 * 8;
}

/* Elements i .. i + 3 of a tensor of `size`; those behind its end are zero. */
template <class T> static __device__ __forceinline__ quad<T> quad_load(const T *from, int64_t i, int64_t size)
{
    if (i + 4 <= size)
        return *(const quad<T> *)(from + i);
    quad<T> q = {};
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (i + e < size)
            q.word[word_of<T>(e)] |= bits_of(from[i + e]) << shift_of<T>(e);
    return q;
}

static __device__ __forceinline__ void quad_floats(const quad<float> &q, float *to)
{
#pragma unroll
    for (int e = 0; e < 4; e++)
        to[e] = __uint_as_float(q.word[e]);
}

static __device__ __forceinline__ void quad_floats(const quad<bf16> &q, float *to)
{
#pragma unroll
    for (int e = 0; e < 4; e++)
        to[e] = __uint_as_float(e % 2 ? q.word[e / 2] & 0xffff0000u : q.word[e / 2] << 16);
}

/* What lies behind the end is not written. */
template <class T>
static __device__ __forceinline__ void quad_store(T *to, int64_t i, int64_t size, const float *from)
{
    if (i + 4 <= size) {
        quad<T> q = {};
#pragma unroll
        for (int e = 0; e < 4; e++)
            q.word[word_of<T>(e)] |= bits_of(from_float<T>(from[e])) << shift_of<T>(e);
        *(quad<T> *)(to + i) = q;
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (i + e < size)
            to[i + e] = from_float<T>(from[e]);
}

/* The same of a tensor whose type is known when it runs. A quad of 16 bits is in the first two words. */
static __device__ __forceinline__ quad<float> quad_load_any(const void *from, bool half, int64_t i, int64_t size)
{
    if (!half)
        return quad_load((const float *)from, i, size);
    const quad<bf16> h = quad_load((const bf16 *)from, i, size);
    return quad<float>{h.word[0], h.word[1]};
}

static __device__ __forceinline__ void quad_floats_any(const quad<float> &q, bool half, float *to)
{
    if (half)
        quad_floats(quad<bf16>{q.word[0], q.word[1]}, to);
    else
        quad_floats(q, to);
}

static __device__ __forceinline__ void quad_store_any(void *to, bool half, int64_t i, int64_t size, const float *from)
{
    if (half)
        quad_store((bf16 *)to, i, size, from);
    else
        quad_store((float *)to, i, size, from);
}

/* The same of floats that may be split (core/split_f32.h), with planes so far apart; 0: they are not. The upper
 * bits are in the first two words of a quad, the lower ones in the others. */
static __device__ __forceinline__ quad<float> quad_load_exact(const void *from, int64_t plane, int64_t i,
                                                              int64_t size)
{
    if (!plane)
        return quad_load((const float *)from, i, size);
    const bf16 *upper = (const bf16 *)from;
    const quad<bf16> u = quad_load(upper, i, size), l = quad_load(upper + plane, i, size);
    return quad<float>{u.word[0], u.word[1], l.word[0], l.word[1]};
}

static __device__ __forceinline__ void quad_floats_exact(const quad<float> &q, int64_t plane, float *to)
{
    if (!plane) {
        quad_floats(q, to);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int shift = shift_of<bf16>(e);
        to[e] =
            __uint_as_float(split_join((uint16_t)(q.word[e / 2] >> shift), (uint16_t)(q.word[2 + e / 2] >> shift)));
    }
}

static __device__ __forceinline__ void quad_store_exact(void *to, int64_t plane, int64_t i, int64_t size,
                                                        const float *from)
{
    if (!plane) {
        quad_store((float *)to, i, size, from);
        return;
    }
    uint16_t *upper = (uint16_t *)to, *lower = upper + plane;
    uint32_t x[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
        x[e] = split_whole(bits_of(from[e]));
    if (i + 4 <= size) {
        quad<bf16> u = {}, l = {};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            u.word[e / 2] |= (uint32_t)split_upper(x[e]) << shift_of<bf16>(e);
            l.word[e / 2] |= (uint32_t)split_lower(x[e]) << shift_of<bf16>(e);
        }
        *(quad<bf16> *)(upper + i) = u;
        *(quad<bf16> *)(lower + i) = l;
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (i + e < size) {
            upper[i + e] = split_upper(x[e]);
            lower[i + e] = split_lower(x[e]);
        }
}

#endif
