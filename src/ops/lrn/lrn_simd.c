/* lrn_simd.c - local response normalization in blocks of channels.
 *
 * The window of a channel reaches into the blocks before and after its own. So a strip holds, for some pixels, what
 * is to be summed up in three blocks, the channels of a pixel side by side; a sum is then made of loads at any lane.
 * The strip moves up block by block: every tensor is read from memory once.
 */
#include "device/cpu/simd.h"
#include "ops/lrn/lrn.h"

#include <math.h>

enum { PIXELS = 32 }; /* of a strip: it stays in the first cache, and reads are long enough to be foreseen */

typedef vec strip[PIXELS][3];
typedef float loose_vec __attribute__((vector_size(BLOCK * sizeof(float)), aligned(sizeof(float)), may_alias));

/* Some pixels of one sample; `first` is their first vector in block 0. */
typedef struct tile {
    lrn v;
    int64_t blocks, first, count;
} tile;

static int64_t tiles_of(const lrn *v)
{
    return (v->HW + PIXELS - 1) / PIXELS;
}

static tile tile_at(const lrn *v, int64_t item)
{
    const int64_t sample = item / tiles_of(v), start = item % tiles_of(v) * PIXELS, blocks = blocks_of(v->C);
    return (tile){
        .v = *v,
        .blocks = blocks,
        .first = sample * blocks * v->HW + start,
        .count = v->HW - start < PIXELS ? v->HW - start : PIXELS,
    };
}

/* Makes room for another block. */
static void move_up(strip s, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        s[i][0] = s[i][1];
        s[i][1] = s[i][2];
        s[i][2] = (vec){0};
    }
}

/* The squares of block b; past the last one there are none. */
static void add_squares(const tile *t, const vec *src, int64_t b, strip squares)
{
    const vec *x = src + t->first + b * t->v.HW;
    move_up(squares, t->count);
    for (int64_t i = 0; i < t->count && b < t->blocks; i++)
        squares[i][2] = x[i] * x[i];
}

/* The sum over the window of each channel of the middle block. */
static inline vec window_sum(const vec row[3], int64_t below, int64_t above)
{
    const float *middle = (const float *)&row[1];
    vec sum = {0};
    for (int64_t tap = -below; tap <= above; tap++)
        sum += *(const loose_vec *)(middle + tap);
    return sum;
}

static void scales(const tile *t, strip squares, vec *scale)
{
    for (int64_t i = 0; i < t->count; i++)
        scale[i] = (float)t->v.k + (float)t->v.alpha * window_sum(squares[i], t->v.below, t->v.above);
}

/* x^-beta; for the betas that the dialects have, without a logarithm. */
static void powers(const tile *t, const vec *scale, vec *power)
{
    const float *x = (const float *)scale;
    float *y = (float *)power;
    const double beta = t->v.beta;
    if (beta == 0.75)
        for (int64_t i = 0; i < t->count * BLOCK; i++)
            y[i] = 1 / (sqrtf(x[i]) * sqrtf(sqrtf(x[i])));
    else if (beta == 0.5)
        for (int64_t i = 0; i < t->count * BLOCK; i++)
            y[i] = 1 / sqrtf(x[i]);
    else
        for (int64_t i = 0; i < t->count * BLOCK; i++)
            y[i] = (float)pow(x[i], -beta);
}

/* The lanes of block b that are channels, all bits set: with k = 0 the power of a padding is infinite. */
static veci channels_of(const tile *t, int64_t b)
{
    veci lanes = {0};
    for (int l = 0; l < BLOCK; l++)
        lanes[l] = b * BLOCK + l < t->v.C ? -1 : 0;
    return lanes;
}

/* item: a tile, here and below */
static void lrn_range(const step *s, int64_t begin, int64_t end)
{
    const lrn v = lrn_of(s->attr, &s->in[0].shape);
    for (int64_t item = begin; item < end; item++) {
        const tile t = tile_at(&v, item);
        strip squares = {0};
        vec scale[PIXELS], power[PIXELS];
        add_squares(&t, s->in[0].data, 0, squares);
        for (int64_t b = 0; b < t.blocks; b++) {
            const veci lanes = channels_of(&t, b);
            const vec *src = (const vec *)s->in[0].data + t.first + b * v.HW;
            vec *dst = (vec *)s->out[0].data + t.first + b * v.HW;
            add_squares(&t, s->in[0].data, b + 1, squares);
            scales(&t, squares, scale);
            powers(&t, scale, power);
            for (int64_t i = 0; i < t.count; i++)
                dst[i] = (vec)((veci)(src[i] * power[i]) & lanes);
        }
    }
}

static brasa_status lrn_forward(const step *s)
{
    const lrn v = lrn_of(s->attr, &s->in[0].shape);
    step_for(s, v.N * tiles_of(&v), lrn_work(&v), lrn_range);
    return BRASA_OK;
}

/* First half of the gradient, for block b: dsrc = ddst / scale^beta, and share = ddst src / scale^(beta + 1). */
static void own_part(const tile *t, int64_t b, const vec *src, const vec *ddst, vec *dsrc, strip squares,
                     strip shares)
{
    const int64_t first = t->first + b * t->v.HW;
    const veci lanes = channels_of(t, b);
    vec scale[PIXELS], power[PIXELS];
    add_squares(t, src, b + 1, squares);
    scales(t, squares, scale);
    powers(t, scale, power);
    for (int64_t i = 0; i < t->count; i++) {
        const vec part = ddst[first + i] * power[i];
        shares[i][2] = (vec)((veci)(part * src[first + i] / scale[i]) & lanes);
        dsrc[first + i] = (vec)((veci)part & lanes);
    }
}

/* Second half: dsrc -= 2 alpha' beta src (sum of the shares of the outputs whose window holds the channel). */
static void shared_part(const tile *t, int64_t b, const vec *src, vec *dsrc, strip shares)
{
    const int64_t first = t->first + b * t->v.HW;
    const veci lanes = channels_of(t, b);
    const float factor = (float)(2 * t->v.alpha * t->v.beta);
    for (int64_t i = 0; i < t->count; i++) {
        const vec sum = window_sum(shares[i], t->v.above, t->v.below);
        dsrc[first + i] = (vec)((veci)(dsrc[first + i] - factor * src[first + i] * sum) & lanes);
    }
}

/* The second half is one block behind the first, whose shares it sums up. */
static void lrn_grad_range(const step *s, int64_t begin, int64_t end)
{
    const vec *src = s->in[0].data;
    const lrn v = lrn_of(s->attr, &s->in[0].shape);
    for (int64_t item = begin; item < end; item++) {
        const tile t = tile_at(&v, item);
        strip squares = {0}, shares = {0};
        add_squares(&t, src, 0, squares);
        for (int64_t b = 0; b <= t.blocks; b++) {
            move_up(shares, t.count);
            if (b < t.blocks)
                own_part(&t, b, src, s->in[1].data, s->out[0].data, squares, shares);
            if (b > 0)
                shared_part(&t, b - 1, src, s->out[0].data, shares);
        }
    }
}

static brasa_status lrn_grad(const step *s)
{
    const lrn v = lrn_of(s->attr, &s->in[0].shape);
    step_for(s, v.N * tiles_of(&v), 2 * lrn_work(&v), lrn_grad_range);
    return BRASA_OK;
}

/* A window that reaches no further than the next block. */
static bool supports(const graph *g, const node *n)
{
    return simd_supports(g, n) && ((const lrn_attr *)n->attr)->size <= 2 * BLOCK;
}

const kernel SIMD_TABLE(lrn)[] = {
    SIMD_ROW("lrn", lrn_op, .supports = supports, .formats = cpu_formats, .run = lrn_forward),
    SIMD_ROW("lrn_grad", lrn_grad_op, .supports = supports, .formats = cpu_formats, .run = lrn_grad),
    {0},
};
