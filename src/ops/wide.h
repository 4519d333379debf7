/* wide.h - real.h, and the kernels in float compiled for AVX2 too: for loops that the compiler turns into vectors by
 * itself.
 *
 * An op's file includes this in place of real.h, and has WIDE(op, f) where ELEMENTWISE(op, f) would stand. It is then
 * read a third time, with NAME(f) as f_avx2; nothing is contracted, so the bits are the reference's. There is nothing
 * for AVX-512: such loops wait for memory, and with it they took from a fifth less to a fifth more time (Zen 4).
 */
#include "ops/real.h"

#ifdef BRASA_SIMD

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#define REAL    float
#define NAME(f) PASTE(f, _avx2)
#include REAL_SOURCE
#undef REAL
#undef NAME

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

/* clang-format off */
#define WIDE_(operation, function, ...)                                                                 \
    {.name = #function "_avx2", .op = &operation, .real = F32, .isa = ISA_AVX2, .run = function##_avx2, \
     __VA_ARGS__},                                                                                      \
    REFERENCE_(operation, function, __VA_ARGS__)
/* clang-format on */

#else
#define WIDE_ REFERENCE_
#endif

#define WIDE(operation, function) WIDE_(operation, function, .any_layout = true)
