/* soft.h - what the libraries that stand in for cuDNN and cuBLASLt on the software GPU share: numbers as they are
 * stored, work that is put into streams, and a look at memory.
 *
 * A call only checks and notes what is to be done; the work is a task in the stream, run late, and run again by every
 * launch of a graph that it was captured into. So a task is a copy of all that it needs, the numbers behind pointers
 * to the host's memory included, which lives until its library's handle ends. The same call twice is the same task:
 * a long training does not fill the memory.
 */
#ifndef SOFT_H
#define SOFT_H

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* --- numbers --------------------------------------------------------------------------------------------------- */

typedef enum soft_type { SOFT_F32, SOFT_BF16 } soft_type;

static inline size_t soft_size(soft_type type)
{
    return type == SOFT_BF16 ? 2 : 4;
}

static inline uint32_t soft_bits(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static inline float soft_number(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* The nearest, the even one of two. What is not a number stays so. */
static inline uint16_t soft_to_bf16(float number)
{
    const uint32_t bits = soft_bits(number);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float soft_from_bf16(uint16_t bits)
{
    return soft_number((uint32_t)bits << 16);
}

/* To 10 bits of fraction: the nearest, that away from zero of two, as cvt.rna.tf32.f32 does. */
static inline float soft_to_tf32(float number)
{
    const uint32_t bits = soft_bits(number), rounded = (bits + 0x1000) & ~UINT32_C(0x1fff);
    return soft_number((bits & 0x7f800000) == 0x7f800000 ? bits : rounded);
}

static inline float soft_round(float number, soft_type type)
{
    return type == SOFT_BF16 ? soft_from_bf16(soft_to_bf16(number)) : number;
}

static inline float soft_read(const void *from, soft_type type, int64_t at)
{
    return type == SOFT_BF16 ? soft_from_bf16(((const uint16_t *)from)[at]) : ((const float *)from)[at];
}

static inline void soft_write(void *to, soft_type type, int64_t at, float number)
{
    if (type == SOFT_BF16)
        ((uint16_t *)to)[at] = soft_to_bf16(number);
    else
        ((float *)to)[at] = number;
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

typedef struct soft_span {
    const void *at;
    size_t bytes;
} soft_span;

static inline bool soft_overlap(soft_span x, soft_span y)
{
    const uintptr_t from_x = (uintptr_t)x.at, from_y = (uintptr_t)y.at;
    return x.bytes && y.bytes && from_x < from_y + y.bytes && from_y < from_x + x.bytes;
}

/* Whether all of it is in one piece of the GPU's memory. The software GPU may have it, or not. */
__attribute__((weak)) int softgpu_owns(const void *at, size_t bytes);

static inline bool soft_owned(soft_span s)
{
    return !s.bytes || !softgpu_owns || softgpu_owns(s.at, s.bytes);
}

/* --- tasks ----------------------------------------------------------------------------------------------------- */

typedef struct soft_task {
    struct soft_task *next;
    size_t bytes;
    max_align_t what[];
} soft_task;

/* A copy of `what`, which stays until soft_forget: one that is there already, where it is the same to the byte, so
 * that padding should be zero. NULL: there is no memory. */
static inline void *soft_keep(soft_task **list, const void *what, size_t bytes)
{
    soft_task *t = *list;
    while (t && (t->bytes != bytes || memcmp(t->what, what, bytes) != 0))
        t = t->next;
    if (!t && (t = malloc(sizeof *t + bytes))) {
        t->bytes = bytes;
        memcpy(t->what, what, bytes);
        t->next = *list;
        *list = t;
    }
    return t ? t->what : NULL;
}

static inline void soft_forget(soft_task **list)
{
    while (*list) {
        soft_task *next = (*list)->next;
        free(*list);
        *list = next;
    }
}

/* The number that an environment variable has, or -1. */
static inline long soft_setting(const char *name)
{
    const char *words = getenv(name);
    return words && *words ? strtol(words, NULL, 10) : -1;
}

#endif
