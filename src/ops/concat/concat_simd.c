/* concat_simd.c - tensors one behind the other along the channels, in blocks of channels.
 *
 * Where every input fills its blocks, as in GoogLeNet, a block of the whole is a block of one input. Else its lanes
 * come from several, and those of an input from two of its blocks.
 */
#include "device/cpu/simd.h"
#include "ops/concat/concat.h"

#include <string.h>

/* Channels c ... c + count - 1 of a sample become the lanes of a block from `lane` on. */
static void copy_channels(const float *src, int64_t c, int64_t count, int64_t HW, float *dst, int64_t lane)
{
    while (count > 0) {
        const int64_t from = c % BLOCK, room = BLOCK - from, part = count < room ? count : room;
        const float *block = src + c / BLOCK * HW * BLOCK + from;
        if (part == BLOCK) {
            memcpy(dst, block, (size_t)(HW * BLOCK) * sizeof *dst);
        } else {
            for (int64_t i = 0; i < HW; i++)
                for (int64_t l = 0; l < part; l++)
                    dst[i * BLOCK + lane + l] = block[i * BLOCK + l];
        }
        c += part;
        lane += part;
        count -= part;
    }
}

/* Block b of a tensor of C channels: the lanes behind them are zero. */
static void clear_padding(int64_t C, int64_t b, int64_t HW, float *dst)
{
    for (int64_t i = 0; i < HW && (b + 1) * BLOCK > C; i++)
        for (int64_t l = C - b * BLOCK; l < BLOCK; l++)
            dst[i * BLOCK + l] = 0;
}

/* item: a block of planes of dst, here and below */
static void concat_range(const step *s, int64_t begin, int64_t end)
{
    const shape *whole = &s->out[0].shape;
    const int64_t HW = shape_span(whole, 2, 4), blocks = blocks_of(whole->dim[1]);
    for (int64_t item = begin; item < end; item++) {
        const int64_t n = item / blocks, b = item % blocks, lo = b * BLOCK, hi = lo + BLOCK;
        float *dst = (float *)s->out[0].data + item * HW * BLOCK;
        for (int64_t k = 0, start = 0; k < s->nin; k++) {
            const int64_t C = s->in[k].shape.dim[1], after = start + C;
            const int64_t first = lo > start ? lo : start, last = hi < after ? hi : after;
            const float *src = (const float *)s->in[k].data + n * blocks_of(C) * HW * BLOCK;
            if (first < last)
                copy_channels(src, first - start, last - first, HW, dst, first - lo);
            start = after;
        }
        clear_padding(whole->dim[1], b, HW, dst);
    }
}

SPLIT_STEP(concat, concat_range, planes_of(&s->out[0].shape), (double)s->out[0].count)

static void slice_range(const step *s, int64_t begin, int64_t end)
{
    const slice_attr *t = s->attr;
    const shape *whole = &s->in[0].shape;
    const int64_t HW = shape_span(whole, 2, 4), blocks = blocks_of(t->length);
    for (int64_t item = begin; item < end; item++) {
        const int64_t n = item / blocks, b = item % blocks, rest = t->length - b * BLOCK;
        const float *src = (const float *)s->in[0].data + n * blocks_of(whole->dim[1]) * HW * BLOCK;
        float *dst = (float *)s->out[0].data + item * HW * BLOCK;
        copy_channels(src, t->start + b * BLOCK, rest < BLOCK ? rest : BLOCK, HW, dst, 0);
        clear_padding(t->length, b, HW, dst);
    }
}

SPLIT_STEP(slice, slice_range, planes_of(&s->out[0].shape), (double)s->out[0].count)

/* Along the channels, and each of the tensors has enough of them. */
static bool all_blocked(const graph *g, const int *values, int count)
{
    for (int k = 0; k < count; k++)
        if (cpu_activation_layout(g->ctx, &g->values[values[k]].shape).nblocks == 0)
            return false;
    return g->ctx->isa == SIMD_ISA;
}

static bool concat_supports(const graph *g, const node *n)
{
    return ((const concat_attr *)n->attr)->axis == 1 && all_blocked(g, n->in, n->nin);
}

static bool slice_supports(const graph *g, const node *n)
{
    return ((const slice_attr *)n->attr)->axis == 1 && all_blocked(g, n->out, 1);
}

const kernel SIMD_TABLE(concat)[] = {
    SIMD_ROW("concat", concat_op, .supports = concat_supports, .formats = cpu_formats, .run = concat),
    SIMD_ROW("slice", slice_op, .supports = slice_supports, .formats = cpu_formats, .run = slice),
    {0},
};
