/* maxpool_simd.c - max-pooling in blocks of channels: a lane of a vector is a channel.
 *
 * Forward each output looks at its window. Backward each input looks at the windows that it lies in and takes what
 * they have for it, so that dsrc is written once, from one end to the other, and never read.
 */
#include "device/cpu/simd.h"
#include "ops/maxpool/maxpool.h"

#include <math.h>

typedef struct plane {
    window y, x;
    int64_t HW, P;
} plane;

static plane plane_of(const window_attr *t, const shape *src, const shape *dst)
{
    plane p = {.y = window_y(t, src, dst), .x = window_x(t, src, dst)};
    p.HW = p.y.in * p.x.in;
    p.P = p.y.out * p.x.out;
    return p;
}

/* --- forward ------------------------------------------------------------------------------------------------- */

typedef struct best {
    vec value;
    veci place;
} best;

static inline veci place_all(int64_t place)
{
    return (int32_t)place - (veci){0};
}

/* b, or x where that wins over it: it is larger, or NaN. */
static inline best better(best b, vec x, int64_t place)
{
#ifdef SIMD_AVX512
    const __m512 v = (__m512)x;
    const __mmask16 wins =
        _mm512_cmp_ps_mask(v, (__m512)b.value, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return (best){(vec)_mm512_mask_mov_ps((__m512)b.value, wins, v),
                  (veci)_mm512_mask_mov_epi32((__m512i)b.place, wins, (__m512i)place_all(place))};
#else
    const veci wins = (x > b.value) | (x != x);
    return (best){vec_choose(wins, x, b.value), (place_all(place) & wins) | (b.place & ~wins)};
#endif
}

/* The largest of a window, and its place in the plane. */
static inline best best_of(const vec *src, int64_t W, span rows, span columns)
{
    best b = {vec_all(-INFINITY), place_all(rows.lo * W + columns.lo)}; /* should nothing be above -infinity */
    for (int64_t i = rows.lo; i < rows.hi; i++)
        for (int64_t j = columns.lo; j < columns.hi; j++)
            b = better(b, src[i * W + j], i * W + j);
    return b;
}

/* item: a block of planes */
static void maxpool_range(const step *s, int64_t begin, int64_t end)
{
    const plane p = plane_of(s->attr, &s->in[0].shape, &s->out[0].shape);
    const activation act = s->node->act;
    const bool stream = is_huge(&s->out[0]);
    const vec *src = (const vec *)s->in[0].data + begin * p.HW;
    vec *dst = (vec *)s->out[0].data + begin * p.P;
    veci *winner = (veci *)s->out[1].data + begin * p.P;
    for (int64_t item = begin; item < end; item++, src += p.HW) {
        for (int64_t oy = 0; oy < p.y.out; oy++) {
            const span rows = window_inputs(&p.y, oy);
            for (int64_t ox = 0; ox < p.x.out; ox++) {
                const best b = best_of(src, p.x.in, rows, window_inputs(&p.x, ox));
                vec_store(dst++, vec_activate(b.value, act), stream);
                vec_store((vec *)winner++, (vec)b.place, stream);
            }
        }
    }
    vec_stream_end(stream);
}

SPLIT_STEP(maxpool, maxpool_range, planes_of(&s->out[0].shape), window_taps(s->attr, s->out[0].count))

/* --- gradient ------------------------------------------------------------------------------------------------ */

/* Moves on to the outputs whose windows cover input i, as it goes up. */
static inline void cover(const window *w, int64_t i, span *outputs)
{
    while (outputs->lo < w->out && outputs->lo * w->stride - w->before + w->size <= i)
        outputs->lo++;
    while (outputs->hi < w->out && outputs->hi * w->stride - w->before <= i)
        outputs->hi++;
}

/* sum, and d where the winner is this place. */
static inline vec add_won(vec sum, vec d, veci winner, veci here)
{
#ifdef SIMD_AVX512
    return (vec)_mm512_mask_add_ps((__m512)sum, _mm512_cmpeq_epi32_mask((__m512i)winner, (__m512i)here), (__m512)sum,
                                   (__m512)d);
#else
    return sum + vec_choose(winner == here, d, (vec){0});
#endif
}

/* item: a block of planes */
static void maxpool_grad_range(const step *s, int64_t begin, int64_t end)
{
    const plane p = plane_of(s->attr, &s->out[0].shape, &s->in[1].shape);
    const bool stream = is_huge(&s->out[0]);
    const veci *winner = (const veci *)s->in[0].data + begin * p.P;
    const vec *ddst = (const vec *)s->in[1].data + begin * p.P;
    vec *dsrc = (vec *)s->out[0].data + begin * p.HW;
    for (int64_t item = begin; item < end; item++, winner += p.P, ddst += p.P) {
        span rows = {0, 0};
        for (int64_t iy = 0; iy < p.y.in; iy++) {
            span columns = {0, 0};
            cover(&p.y, iy, &rows);
            for (int64_t ix = 0; ix < p.x.in; ix++) {
                const veci here = place_all(iy * p.x.in + ix);
                vec sum = {0};
                cover(&p.x, ix, &columns);
                for (int64_t i = rows.lo; i < rows.hi; i++)
                    for (int64_t o = i * p.x.out + columns.lo; o < i * p.x.out + columns.hi; o++)
                        sum = add_won(sum, ddst[o], winner[o], here);
                vec_store(dsrc++, sum, stream);
            }
        }
    }
    vec_stream_end(stream);
}

SPLIT_STEP(maxpool_grad, maxpool_grad_range, planes_of(&s->out[0].shape),
           (double)s->out[0].count + window_taps(s->attr, s->in[1].count))

const kernel SIMD_TABLE(maxpool)[] = {
    SIMD_KERNEL(maxpool_op, maxpool),
    SIMD_KERNEL(maxpool_grad_op, maxpool_grad),
    {0},
};
