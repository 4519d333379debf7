/* lines8.h - what the kernels of Winograd's algorithm on tiles that see 8 x 8 pixels share: the transforms of a row
 * or column, and the products. For files that are compiled once for each instruction set.
 *
 * The matrices follow from the points at which polynomials are evaluated: 0, 1, -1, 2, -2, 1/2, -1/2 and infinity.
 * All here works on vectors: BLOCK channels at once, one vector a pixel.
 */
#ifndef OPS_CONV2D_LINES8_H
#define OPS_CONV2D_LINES8_H

#include "ops/conv2d/tiles.h"

enum { SEEN = 8, PLANES = SEEN * SEEN };
#ifdef SIMD_AVX512
enum { LINES = 14 }; /* of a product: with PANEL vectors each, 28 of the 32 registers hold sums */
#else
enum { LINES = 6 };
#endif

/* --- the transforms --------------------------------------------------------------------------------------------- */

/* Each of these transforms one row or column: x[i * from] to y[i * to]. */

/* B^T, 8 to 8 */
INLINE void line_input(const vec *x, int64_t from, vec *y, int64_t to)
{
    const vec x0 = x[0], x1 = x[from], x2 = x[2 * from], x3 = x[3 * from];
    const vec x4 = x[4 * from], x5 = x[5 * from], x6 = x[6 * from], x7 = x[7 * from];
    const vec even1 = x2 + x6 - 4.25f * x4, odd1 = x1 + x5 - 4.25f * x3;
    const vec even2 = x6 + 0.25f * x2 - 1.25f * x4, odd2 = 0.5f * x1 - 2.5f * x3 + 2 * x5;
    const vec even3 = x6 + 4 * x2 - 5 * x4, odd3 = 2 * x1 - 2.5f * x3 + 0.5f * x5;
    y[0] = x0 - x6 + 5.25f * (x4 - x2);
    y[to] = even1 + odd1;
    y[2 * to] = even1 - odd1;
    y[3 * to] = even2 + odd2;
    y[4 * to] = even2 - odd2;
    y[5 * to] = even3 + odd3;
    y[6 * to] = even3 - odd3;
    y[7 * to] = x7 - x1 + 5.25f * (x3 - x5);
}

/* The points 1, 2 and 1/2, whose negatives go with them, and what G multiplies the row of each by. */
static const float point[3] = {1, 2, 0.5f}, scale[3] = {-2 / 9.0f, 1 / 90.0f, 32 / 45.0f};

/* A, or G with `weights`: n to 8 */
INLINE void line_spread(const int n, const bool weights, const vec *x, int64_t from, vec *y, int64_t to)
{
    y[0] = x[0];
    y[7 * to] = x[(n - 1) * from];
#pragma GCC unroll 3
    for (int p = 0; p < 3; p++) {
        const float square = point[p] * point[p];
        vec even = {0}, odd = {0};
#pragma GCC unroll 8
        for (int i = (n - 1) / 2 * 2; i >= 0; i -= 2)
            even = x[i * from] + square * even;
#pragma GCC unroll 8
        for (int i = n / 2 * 2 - 1; i >= 0; i -= 2)
            odd = x[i * from] + square * odd;
        even = weights ? scale[p] * even : even;
        odd = (weights ? scale[p] * point[p] : point[p]) * odd;
        y[(1 + 2 * p) * to] = even + odd;
        y[(2 + 2 * p) * to] = even - odd;
    }
}

/* A^T, or G^T with `weights`: 8 to n */
INLINE void line_fold(const int n, const bool weights, const vec *x, int64_t from, vec *y, int64_t to)
{
    vec even[3], odd[3];
#pragma GCC unroll 3
    for (int p = 0; p < 3; p++) {
        even[p] = x[(1 + 2 * p) * from] + x[(2 + 2 * p) * from];
        odd[p] = x[(1 + 2 * p) * from] - x[(2 + 2 * p) * from];
        even[p] = weights ? scale[p] * even[p] : even[p];
        odd[p] = weights ? scale[p] * odd[p] : odd[p];
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        const float up = (float)(1 << i), down = 1 / up;
        vec sum = i % 2 ? odd[0] + up * odd[1] + down * odd[2] : even[0] + up * even[1] + down * even[2];
        sum = i == 0 ? sum + x[0] : i == n - 1 ? sum + x[7 * from] : sum;
        y[i * to] = sum;
    }
}

/* Both ways: `in` x `in` vectors, rows src_row and columns src_col apart, to out x out, dst_row and dst_col apart. */
#define SQUARE(name, in, out, line, ...)                                                                             \
    INLINE void name(const int taps, const vec *src, int64_t src_row, int64_t src_col, vec *dst, int64_t dst_row,    \
                     int64_t dst_col)                                                                                \
    {                                                                                                                \
        vec half[SEEN][SEEN];                                                                                        \
        (void)taps;                                                                                                  \
        for (int x = 0; x < (in); x++)                                                                               \
            line(__VA_ARGS__ src + x * src_col, src_row, &half[0][x], SEEN);                                         \
        for (int y = 0; y < (out); y++)                                                                              \
            line(__VA_ARGS__ half[y], 1, dst + y * dst_row, dst_col);                                                \
    }
#define MADE (9 - taps)
/* clang-format off */
SQUARE(square_input, SEEN, SEEN, line_input, )
SQUARE(square_weights, taps, SEEN, line_spread, taps, true, )
SQUARE(square_output, SEEN, MADE, line_fold, MADE, false, )
SQUARE(square_output_grad, MADE, SEEN, line_spread, MADE, false, )
SQUARE(square_weights_grad, SEEN, taps, line_fold, taps, true, )
/* clang-format on */
#undef SQUARE
#undef MADE

/* --- products --------------------------------------------------------------------------------------------------- */

/* sum[lines][PANEL] += the sum over j of x[line][j] w[j][PANEL], the first `vectors` of a panel; lines and j are
 * `line` and `next` apart in x. */
INLINE void add_products(const int lines, const int vectors, const float *x, const int64_t line, const int64_t next,
                         const vec *w, int64_t count, vec sum[LINES][PANEL])
{
    for (; count > 0; count--, x += next, w += PANEL)
#pragma GCC unroll 16
        for (int l = 0; l < lines; l++) {
            const vec one = vec_all(x[l * line]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[l][v] += one * w[v];
        }
}

/* made[lines][PANEL] += sum, or = where there is nothing yet, the first `vectors` of a panel. */
INLINE void end_sums(const int lines, const int vectors, vec sum[LINES][PANEL], vec *made, bool add)
{
#pragma GCC unroll 16
    for (int l = 0; l < lines; l++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            made[l * PANEL + v] = add ? made[l * PANEL + v] + sum[l][v] : sum[l][v];
}

/* Channels of a sum: the longer it is, the more digits it loses. These are added up afterwards, which makes the
 * errors of 512 channels less than half as large. Sums over tiles end with a run. */
enum { SUM = 64 };

/* made[lines][PANEL] (+)= seen[blocks][apart][BLOCK] x weights[depth][PANEL], the first `vectors` of a panel. */
INLINE void product_of(const int lines, const int vectors, const float *seen, const int64_t apart, const vec *weights,
                       int64_t depth, vec *made, bool add)
{
    for (int64_t c = 0; c < depth; c += SUM) {
        const int64_t end = depth - c < SUM ? depth : c + SUM;
        vec sum[LINES][PANEL] = {{{0}}};
        for (int64_t i = c; i < end; i += BLOCK, seen += apart * BLOCK, weights += BLOCK * PANEL)
            add_products(lines, vectors, seen, BLOCK, 1, weights, end - i < BLOCK ? end - i : BLOCK, sum);
        end_sums(lines, vectors, sum, made, add || c > 0);
    }
}

#endif
