/* simd.h - for kernels that are compiled once for each instruction set (files named *_simd.c, see cmake/simd.cmake).
 *
 * They work on blocks of BLOCK channels, the layout nChw16c with AVX-512 and nChw8c with AVX2. Inner loops over the
 * lanes of a block become one vector instruction; `vec` is the type for what must stay in a register.
 */
#ifndef DEVICE_CPU_SIMD_H
#define DEVICE_CPU_SIMD_H

#include "device/cpu/cpu.h"

#include <immintrin.h>

#if defined(SIMD_AVX512)
enum { BLOCK = 16 };
#define SIMD_ISA         ISA_AVX512
#define SIMD_NAME(name)  name "_avx512"
#define SIMD_TABLE(name) name##_avx512
#elif defined(SIMD_AVX2)
enum { BLOCK = 8 };
#define SIMD_ISA         ISA_AVX2
#define SIMD_NAME(name)  name "_avx2"
#define SIMD_TABLE(name) name##_avx2
#else
#error "compile this file through cmake/simd.cmake"
#endif

/* BLOCK floats in one register. Blocks are aligned to their size: the arena and every block in it are. */
typedef float vec __attribute__((vector_size(BLOCK * sizeof(float))));
typedef int32_t veci __attribute__((vector_size(BLOCK * sizeof(int32_t))));
/* As large, in half as many lanes. */
typedef uint64_t vec64 __attribute__((vector_size(BLOCK / 2 * sizeof(uint64_t))));

static inline vec vec_all(float x)
{
    return x - (vec){0};
}

static inline vec64 vec64_all(uint64_t x)
{
    return x - (vec64){0};
}

/* Blocks of channels, the last one padded. */
static inline int64_t blocks_of(int64_t channels)
{
    return (channels + BLOCK - 1) / BLOCK;
}

/* Blocks of planes, each of one sample. */
static inline int64_t planes_of(const shape *x)
{
    return x->dim[0] * blocks_of(x->dim[1]);
}

/* Lanes of a where the mask is set, of b elsewhere. */
static inline vec vec_choose(veci mask, vec a, vec b)
{
    return (vec)(((veci)a & mask) | ((veci)b & ~mask));
}

/* ACTIVATE of op.h. */
static inline vec vec_activate(vec x, activation act)
{
    if (act != ACT_NONE)
        x = vec_choose((veci)(x <= 0), (vec){0}, x);
    return act == ACT_RELU6 ? vec_choose((veci)(x >= 6), vec_all(6), x) : x;
}

/* Past the caches, for huge tensors: a line that is written whole need not be read first. A quarter faster for
 * tensors of 50 and 100 MB beside a cache of 32 MB. */
static inline void vec_store(vec *to, vec x, bool stream)
{
    if (!stream)
        *to = x;
    else
#ifdef SIMD_AVX512
        _mm512_stream_ps((float *)to, (__m512)x);
#else
        _mm256_stream_ps((float *)to, (__m256)x);
#endif
}

/* What was streamed can be seen by other threads from here on. */
static inline void vec_stream_end(bool stream)
{
    if (stream)
        _mm_sfence();
}

/* The products of the lower 32 bits of each lane: one instruction, where a * b takes several. */
static inline vec64 vec64_multiply(vec64 a, vec64 b)
{
#ifdef SIMD_AVX512
    return (vec64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#else
    return (vec64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#endif
}

/* --- vectors of a row that may be cut off, and begins anywhere ---------------------------------------------- */

#ifdef SIMD_AVX512
typedef __mmask16 lane_mask;
#else
typedef __m256i lane_mask;
#endif

/* The first `count` lanes of a vector, or all of them. */
static inline lane_mask first_lanes(int64_t count)
{
#ifdef SIMD_AVX512
    return (lane_mask)(count < BLOCK ? (1 << count) - 1 : 0xffff);
#else
    const veci places = {0, 1, 2, 3, 4, 5, 6, 7};
    return (lane_mask)(places < (int32_t)(count < BLOCK ? count : BLOCK));
#endif
}

/* Those of `other` elsewhere. */
static inline vec load_lanes(const float *from, lane_mask which, vec other)
{
#ifdef SIMD_AVX512
    return (vec)_mm512_mask_loadu_ps((__m512)other, which, from);
#else
    return vec_choose((veci)which, (vec)_mm256_maskload_ps(from, which), other);
#endif
}

static inline void store_lanes(float *to, vec x, lane_mask which)
{
#ifdef SIMD_AVX512
    _mm512_mask_storeu_ps(to, which, (__m512)x);
#else
    _mm256_maskstore_ps(to, which, (__m256)x);
#endif
}

static inline float sum_lanes(vec x)
{
#ifdef SIMD_AVX512
    return _mm512_reduce_add_ps((__m512)x);
#else
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
#endif
}

/* The lanes of a and b that are listed, b's counted on from a's; `places` is the type of a vector of such numbers. */
#ifdef __clang__
#define SHUFFLE(places, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(places, a, b, ...) __builtin_shuffle(a, b, (places){__VA_ARGS__})
#endif

/* For kernel.supports: the context works with these vectors. */
static inline bool simd_matches(const graph *g, const node *n)
{
    (void)n;
    return g->ctx->isa == SIMD_ISA;
}

/* For kernel.supports: the same, and input 0 is laid out in blocks. */
static inline bool simd_supports(const graph *g, const node *n)
{
    return simd_matches(g, n) && cpu_is_blocked(g, n);
}

/* Rows of a kernel list: any one, and that of a kernel which works in blocks and needs nothing else. */
#define SIMD_ROW(text, operation, ...)                                                                               \
    {                                                                                                                \
        .name = SIMD_NAME(text), .op = &operation, .real = F32, .isa = SIMD_ISA, __VA_ARGS__                         \
    }
#define SIMD_KERNEL(operation, function)                                                                             \
    SIMD_ROW(#function, operation, .supports = simd_supports, .formats = cpu_formats, .run = function)

#endif
