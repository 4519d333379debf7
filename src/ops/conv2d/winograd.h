/* winograd.h - Winograd's algorithm F(4x4, 3x3), for the kernels that are compiled once for each instruction set.
 *
 * A tile of 4 x 4 outputs of a 3 x 3 window takes 36 products in place of 144: with d the 6 x 6 inputs that it sees,
 * g the weights and y the outputs,
 *     y = A^T [ (G g G^T) . (B^T d B) ] A
 * where . goes element by element: over channels, a matrix product for each of the 36 places, which are called
 * planes. In reverse, the gradient of g is G^T [ (B^T d B) . (A dy A^T) ] G, summed over all tiles.
 *
 * The matrices follow from six points at which polynomials are evaluated, here 0, 5/8, -5/8, 3/2, -3/2 and infinity.
 * Next to the usual 1 and 2 the errors are less than half as large, and nothing is slower.
 *
 * All here works on vectors: BLOCK channels at once, one vector a pixel.
 */
#ifndef OPS_CONV2D_WINOGRAD_H
#define OPS_CONV2D_WINOGRAD_H

#include "ops/conv2d/tiles.h"

enum { TILE = 4, SEEN = 6, PLANES = SEEN * SEEN };

/* The points p and q, and the row of G that belongs to each: 1 / the product of its distances from the others. */
#define P1 0.625f
#define Q1 1.5f
#define P2 (P1 * P1)
#define Q2 (Q1 * Q1)
#define P3 (P2 * P1)
#define Q3 (Q2 * Q1)
#define GO (1 / (P2 * Q2))
#define GP (1 / (2 * P2 * (P2 - Q2)))
#define GQ (1 / (2 * Q2 * (Q2 - P2)))

/* Each of these transforms one row or column: x[i * from] to y[i * to]. */
#define LINE INLINE void

/* B^T, 6 to 6 */
LINE line_input(const vec *x, int64_t from, vec *y, int64_t to)
{
    const vec x0 = x[0], x1 = x[from], x2 = x[2 * from], x3 = x[3 * from], x4 = x[4 * from], x5 = x[5 * from];
    const vec even_p = x4 - Q2 * x2, odd_p = x3 - Q2 * x1, even_q = x4 - P2 * x2, odd_q = x3 - P2 * x1;
    y[0] = P2 * Q2 * x0 + (x4 - (P2 + Q2) * x2);
    y[to] = even_p + P1 * odd_p;
    y[2 * to] = even_p - P1 * odd_p;
    y[3 * to] = even_q + Q1 * odd_q;
    y[4 * to] = even_q - Q1 * odd_q;
    y[5 * to] = P2 * Q2 * x1 + (x5 - (P2 + Q2) * x3);
}

/* G, 3 to 6 */
LINE line_weights(const vec *x, int64_t from, vec *y, int64_t to)
{
    const vec x0 = x[0], x1 = x[from], x2 = x[2 * from];
    const vec even_p = GP * x0 + GP * P2 * x2, even_q = GQ * x0 + GQ * Q2 * x2;
    y[0] = GO * x0;
    y[to] = even_p + GP * P1 * x1;
    y[2 * to] = even_p - GP * P1 * x1;
    y[3 * to] = even_q + GQ * Q1 * x1;
    y[4 * to] = even_q - GQ * Q1 * x1;
    y[5 * to] = x2;
}

/* A^T, 6 to 4 */
LINE line_output(const vec *x, int64_t from, vec *y, int64_t to)
{
    const vec even_p = x[from] + x[2 * from], odd_p = x[from] - x[2 * from];
    const vec even_q = x[3 * from] + x[4 * from], odd_q = x[3 * from] - x[4 * from];
    y[0] = x[0] + (even_p + even_q);
    y[to] = P1 * odd_p + Q1 * odd_q;
    y[2 * to] = P2 * even_p + Q2 * even_q;
    y[3 * to] = P3 * odd_p + Q3 * odd_q + x[5 * from];
}

/* A, 4 to 6 */
LINE line_output_grad(const vec *x, int64_t from, vec *y, int64_t to)
{
    const vec x0 = x[0], x1 = x[from], x2 = x[2 * from], x3 = x[3 * from];
    const vec even_p = x0 + P2 * x2, odd_p = x1 + P2 * x3, even_q = x0 + Q2 * x2, odd_q = x1 + Q2 * x3;
    y[0] = x0;
    y[to] = even_p + P1 * odd_p;
    y[2 * to] = even_p - P1 * odd_p;
    y[3 * to] = even_q + Q1 * odd_q;
    y[4 * to] = even_q - Q1 * odd_q;
    y[5 * to] = x3;
}

/* G^T, 6 to 3 */
LINE line_weights_grad(const vec *x, int64_t from, vec *y, int64_t to)
{
    const vec even_p = GP * (x[from] + x[2 * from]), odd_p = GP * P1 * (x[from] - x[2 * from]);
    const vec even_q = GQ * (x[3 * from] + x[4 * from]), odd_q = GQ * Q1 * (x[3 * from] - x[4 * from]);
    y[0] = GO * x[0] + (even_p + even_q);
    y[to] = odd_p + odd_q;
    y[2 * to] = P2 * even_p + Q2 * even_q + x[5 * from];
}

/* Both ways: squares whose rows are src_row and dst_row apart, and their columns src_col and dst_col. Between the two
 * there are as many rows as the registers hold: vectors are stored at half the pace of sums, and the first two of
 * these take much of the time of a convolution with few channels. */
#define SQUARE(line)                                                                                                 \
    INLINE void square_##line(const vec *src, int64_t src_row, int64_t src_col, vec *dst, int64_t dst_row,           \
                              int64_t dst_col)
#define X(y)    (src[(y)*src_row + x * src_col])
#define COLUMNS _Pragma("GCC unroll 6") for (int x = 0; x < SEEN; x++)
#define ROW(y)  (dst + (y)*dst_row)

/* B^T d B, 6 x 6 to 6 x 6 */
SQUARE(input)
{
    vec up[SEEN], down[SEEN];
    COLUMNS up[x] = P2 * Q2 * X(0) + (X(4) - (P2 + Q2) * X(2));
    line_input(up, 1, ROW(0), dst_col);
    COLUMNS
    {
        const vec even = X(4) - Q2 * X(2), odd = X(3) - Q2 * X(1);
        up[x] = even + P1 * odd;
        down[x] = even - P1 * odd;
    }
    line_input(up, 1, ROW(1), dst_col);
    line_input(down, 1, ROW(2), dst_col);
    COLUMNS
    {
        const vec even = X(4) - P2 * X(2), odd = X(3) - P2 * X(1);
        up[x] = even + Q1 * odd;
        down[x] = even - Q1 * odd;
    }
    line_input(up, 1, ROW(3), dst_col);
    line_input(down, 1, ROW(4), dst_col);
    COLUMNS up[x] = P2 * Q2 * X(1) + (X(5) - (P2 + Q2) * X(3));
    line_input(up, 1, ROW(5), dst_col);
}

/* A^T m A, 6 x 6 to 4 x 4 */
SQUARE(output)
{
    vec first[SEEN], second[SEEN];
    COLUMNS
    {
        const vec even_p = X(1) + X(2), even_q = X(3) + X(4);
        first[x] = X(0) + (even_p + even_q);
        second[x] = P2 * even_p + Q2 * even_q;
    }
    line_output(first, 1, ROW(0), dst_col);
    line_output(second, 1, ROW(2), dst_col);
    COLUMNS
    {
        const vec odd_p = X(1) - X(2), odd_q = X(3) - X(4);
        first[x] = P1 * odd_p + Q1 * odd_q;
        second[x] = P3 * odd_p + Q3 * odd_q + X(5);
    }
    line_output(first, 1, ROW(1), dst_col);
    line_output(second, 1, ROW(3), dst_col);
}
#undef X
#undef COLUMNS
#undef ROW

#define SQUARE_OF(line, in, out)                                                                                     \
    SQUARE(line)                                                                                                     \
    {                                                                                                                \
        vec half[out][in];                                                                                           \
        for (int x = 0; x < (in); x++)                                                                               \
            line_##line(src + x * src_col, src_row, &half[0][x], in);                                                \
        for (int y = 0; y < (out); y++)                                                                              \
            line_##line(half[y], 1, dst + y * dst_row, dst_col);                                                     \
    }
SQUARE_OF(weights, 3, 6)
SQUARE_OF(output_grad, 4, 6)
SQUARE_OF(weights_grad, 6, 3)
#undef SQUARE_OF
#undef SQUARE
#undef LINE

/* --- tiles ------------------------------------------------------------------------------------------------------ */

/* What the tiles of one convolution lie on: a tensor that is seen, 6 x 6 at a time, and one that is made. */
typedef struct tiling {
    int64_t rows, cols, count; /* of tiles: a picture's, and all */
    int64_t top, left;         /* the first tile sees so many zeros before the picture */
} tiling;

static inline tiling tiling_of(const shape *made, int64_t top, int64_t left)
{
    tiling g = {.top = top, .left = left};
    g.rows = (made->dim[2] + TILE - 1) / TILE;
    g.cols = (made->dim[3] + TILE - 1) / TILE;
    g.count = made->dim[0] * g.rows * g.cols;
    return g;
}

/* A tile: its sample, its row and its column of tiles. */
typedef struct place {
    int64_t n, y, x;
} place;

static inline place place_of(const tiling *g, int64_t tile)
{
    return (place){tile / (g->rows * g->cols), tile / g->cols % g->rows, tile % g->cols};
}

static inline void place_next(const tiling *g, place *p)
{
    if (++p->x == g->cols) {
        p->x = 0;
        p->n += ++p->y == g->rows;
        p->y = p->y == g->rows ? 0 : p->y;
    }
}

/* A function of its own: its 36 addresses leave no registers to a loop around it. */
static __attribute__((noinline)) void transform_input(const vec *x, int64_t row, vec *to, int64_t apart)
{
    square_input(x, row, 1, to, SEEN * apart, apart);
}

/* What tile p sees of a block of channels, transformed; planes are so far apart. Inlined: a place that is passed in
 * memory is written as numbers and read as a vector, which waits for all the stores before it. A block of 16 channels
 * took about 290 cycles so, in place of 217. */
INLINE void see_tile(const tiling *g, place p, const arg *src, int64_t block, vec *to, int64_t apart)
{
    vec copy[PLANES];
    int64_t row;
    const vec *x = pixels_at(plane_at(src, p.n, block), &src->shape, p.y * TILE - g->top, p.x * TILE - g->left, SEEN,
                             copy, &row);
    transform_input(x, row, to, apart);
}

/* Pixels that are asked of memory while products are made, plane by plane, so that they are near when their turn
 * comes: TILE x TILE of each of `count` tiles, and of some blocks of channels. */
typedef struct ahead {
    const arg *of;
    span blocks;
    int64_t down, right; /* from a tile's outputs to the pixels */
    place at;
    int64_t count, done; /* tiles */
} ahead;

static inline ahead ahead_made(const tiling *g, const arg *of, span blocks, int64_t first, int64_t count)
{
    return (ahead){.of = of, .blocks = blocks, .at = place_of(g, first), .count = count};
}

/* Of a tensor that is seen: the pixels that no tile before has seen. */
static inline ahead ahead_seen(const tiling *g, const arg *of, span blocks, int64_t first, int64_t count)
{
    ahead f = ahead_made(g, of, blocks, first, count);
    f.down = SEEN - TILE - g->top;
    f.right = SEEN - TILE - g->left;
    return f;
}

INLINE void fetch_pixels(const vec *from, int64_t row, int64_t height, int64_t width)
{
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            __builtin_prefetch(from + y * row + x, 0, 2);
}

static inline void fetch_ahead(ahead *f, const tiling *g, int plane)
{
    const int64_t H = f->of->shape.dim[2], W = f->of->shape.dim[3];
    for (; f->done * PLANES < (plane + 1) * f->count; f->done++, place_next(g, &f->at)) {
        const int64_t y = f->at.y * TILE + f->down, x = f->at.x * TILE + f->right;
        const int64_t top = y > 0 ? y : 0, left = x > 0 ? x : 0;
        const int64_t height = (y + TILE < H ? y + TILE : H) - top, width = (x + TILE < W ? x + TILE : W) - left;
        const vec *from = plane_at(f->of, f->at.n, f->blocks.lo) + top * W + left;
        for (int64_t b = f->blocks.lo; b < f->blocks.hi; b++, from += H * W)
            if (height == TILE && width == TILE)
                fetch_pixels(from, W, TILE, TILE);
            else
                fetch_pixels(from, W, height, width);
    }
}

/* --- what the kernels share ------------------------------------------------------------------------------------- */

/* Where it pays, in times over those of the fastest direct kernel, on one core of an AMD EPYC (Zen 4), 64 and 256
 * channels, forward and by the data. Few outputs do not pay for the weights' transform: four pictures of 3 x 3
 * took 1.5, one of 7 x 7 took 0.8 to 0.9. Nor do tiles that are nearly empty: with one output of 16 it was 2.0
 * to 3.6, with a quarter of them 1.0 to 2.2, with 25 of 64, which are pictures of 5 x 5, 0.7 to 1.3. The weight
 * gradient gains a little earlier. */
enum { FEWEST_OUTPUTS = 48, LEAST_FULL = 6 }; /* the latter in a tile */

static inline bool winograd_supports(const graph *g, const node *n)
{
    const conv2d_attr *t = n->attr;
    const window_attr *w = &t->window;
    const bool forward = n->op == &conv2d_op, data = n->op == &conv2d_grad_data_op;
    const shape *src = &g->values[data ? n->out[0] : n->in[0]].shape;
    const shape *dst = &g->values[forward ? n->out[0] : n->in[1]].shape;
    if (!simd_matches(g, n) || w->size.h != 3 || w->size.w != 3 || w->stride.h != 1 || w->stride.w != 1 ||
        w->dilation.h != 1 || w->dilation.w != 1 || t->groups != 1 || src->dim[1] < BLOCK || dst->dim[1] < BLOCK)
        return false;
    /* By the data it is dst as well that says how much there is to do: pixels of src see zeros around it. */
    const int64_t outputs = dst->dim[0] * shape_span(dst, 2, 4), tiles = tiling_of(data ? src : dst, 0, 0).count;
    return outputs >= FEWEST_OUTPUTS && outputs >= LEAST_FULL * tiles;
}

/* Where it is taken unseen: one picture of 7 x 7 took 1.2 to 1.5 on an Intel Xeon (Emerald Rapids). */
enum { OUTPUTS_THAT_PAY = 64 };

static inline bool winograd_pays(const graph *g, const node *n)
{
    const shape *dst = &g->values[n->op == &conv2d_op ? n->out[0] : n->in[1]].shape;
    return dst->dim[0] * shape_span(dst, 2, 4) >= OUTPUTS_THAT_PAY;
}

#endif
