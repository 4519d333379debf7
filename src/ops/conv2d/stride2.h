/* stride2.h - Winograd's algorithm for windows of 3 x 3 with stride 2, for the kernels that are compiled once for
 * each instruction set.
 *
 * Along one axis, output i is w0 e[i] + w2 e[i + 1] + w1 o[i], where e are the pixels at even places (of what the
 * first window begins with) and o those at odd ones. The first two products are a window of two taps with stride 1: a
 * tile that sees 8 of e makes 7 outputs with 8 products in place of 14. The third has nothing to save. Along both
 * axes each of four kinds of pixels goes its own way, into planes that are matrix products over channels:
 *     kind     rows, columns   window   transformed along   planes   products of a tile in each
 *     BOTH     even, even      2 x 2    both axes           64       1
 *     DOWN     even, odd       2 x 1    y                   8        7
 *     ACROSS   odd, even       1 x 2    x                   8        7
 *     PLAIN    odd, odd        1 x 1    none                1        49
 * That is 225 products for 49 outputs, 4.6 in place of 9 each, and only a quarter of them go through a transform
 * along both axes, whose errors are the largest. Made with all phases as channels of one plane (winograd8.h) it would
 * be 256.
 *
 * The data gradient sees 8 x 8 of ddst and makes 7 x 7 pixels of each kind, which interleave; the weight gradient is
 * the sum over all tiles and products of a plane. lines8.h has the transforms.
 */
#ifndef OPS_CONV2D_STRIDE2_H
#define OPS_CONV2D_STRIDE2_H

#include "ops/conv2d/lines8.h"

enum { TILE = 7, WINDOW = 2 * TILE + 1 }; /* outputs of a tile, and pixels that it sees, along an axis */
enum { BOTH, DOWN, ACROSS, PLAIN, KINDS };
enum { ALL_PLANES = 81, ALL_ROWS = 225 };

/* Of each kind: its first plane, how many planes it has, and the rows of a tile in each. */
static const struct {
    int first, planes, rows;
} kinds[KINDS] = {{0, 64, 1}, {64, 8, TILE}, {72, 8, TILE}, {80, 1, TILE *TILE}};

/* --- tiles ------------------------------------------------------------------------------------------------------ */

/* Where tiles lie along one axis: tile t sees pixels from t * seen_step + seen on, and makes those from
 * t * made_step + made on. */
typedef struct track {
    int64_t count, seen_step, seen, made_step, made;
} track;

typedef struct tiling {
    track y, x;
    int64_t count;
} tiling;

/* Forward, so many outputs of windows behind so many zeros. */
static inline track track_forward(int64_t outputs, int64_t pad)
{
    return (track){divide_up(outputs, TILE), 2 * TILE, -pad, TILE, 0};
}

/* By the data, so many pixels. Pixel 2 i - pad is at an even place and gets w0 ddst[i] + w2 ddst[i - 1], the one
 * after it is at an odd one and gets w1 ddst[i]. A tile that sees ddst from i on makes pixels from 2 i + 1 - pad on,
 * an odd one first. */
static inline track track_data(int64_t pixels, int64_t pad)
{
    const int64_t i = (pad + 1) / 2 - 1, first = 2 * i + 1 - pad; /* 0 or -1 */
    return (track){divide_up(pixels - first, 2 * TILE), TILE, i, 2 * TILE, first};
}

/* `made` is what is made: dst or, with `data`, dsrc. */
static inline tiling tiling_of(const window_attr *w, const shape *made, bool data)
{
    tiling g = {.y = data ? track_data(made->dim[2], w->pad.top) : track_forward(made->dim[2], w->pad.top),
                .x = data ? track_data(made->dim[3], w->pad.left) : track_forward(made->dim[3], w->pad.left)};
    g.count = made->dim[0] * g.y.count * g.x.count;
    return g;
}

/* A tile: its sample, and the first pixel that it sees, or makes. */
typedef struct place {
    int64_t n, y, x;
} place;

static inline place place_seen(const tiling *g, int64_t tile)
{
    const int64_t y = tile / g->x.count % g->y.count, x = tile % g->x.count;
    return (place){tile / g->x.count / g->y.count, y * g->y.seen_step + g->y.seen, x * g->x.seen_step + g->x.seen};
}

static inline place place_made(const tiling *g, int64_t tile)
{
    const int64_t y = tile / g->x.count % g->y.count, x = tile % g->x.count;
    return (place){tile / g->x.count / g->y.count, y * g->y.made_step + g->y.made, x * g->x.made_step + g->x.made};
}

/* --- what tiles see --------------------------------------------------------------------------------------------- */

/* Where the rows of a tile go: those of the first plane of each kind, and how far planes are apart. Rows of a plane
 * follow each other. */
typedef struct target {
    vec *to[KINDS];
    int64_t plane[KINDS];
} target;

/* The four kinds of pixels of a block of src, transformed. */
static inline void see_src(const arg *src, place at, int64_t block, const target *t)
{
    vec copy[WINDOW * WINDOW];
    int64_t row;
    const vec *x = pixels_at(plane_at(src, at.n, block), &src->shape, at.y, at.x, WINDOW, copy, &row);
    square_input(0, x, 2 * row, 2, t->to[BOTH], SEEN * t->plane[BOTH], t->plane[BOTH]);
    for (int i = 0; i < TILE; i++) {
        line_input(x + 2 * i + 1, 2 * row, t->to[DOWN] + i, t->plane[DOWN]);
        line_input(x + (2 * i + 1) * row, 2, t->to[ACROSS] + i, t->plane[ACROSS]);
        for (int l = 0; l < TILE; l++)
            t->to[PLAIN][i * TILE + l] = x[(2 * i + 1) * row + 2 * l + 1];
    }
}

/* --- for the tables --------------------------------------------------------------------------------------------- */

/* Fewer tiles are not worth the transforms of the weights: four of 256 channels took between 8 % less and 60 % more
 * time than oneDNN's direct kernels, sixteen of 128 between 30 % less and as much. Nor are tiles that are a third
 * empty, or few channels: eight tiles of 16 and of 48 took up to 1.9 and 1.3 times as long as direct kernels. */
enum { FEWEST_TILES = 8, FEWEST_WEIGHTS = 64 * 64 };

static inline bool stride2_supports(const graph *g, const node *n)
{
    const conv2d_attr *t = n->attr;
    const window_attr *w = &t->window;
    const bool forward = n->op == &conv2d_op, data = n->op == &conv2d_grad_data_op;
    const shape *src = &g->values[data ? n->out[0] : n->in[0]].shape;
    const shape *dst = &g->values[forward ? n->out[0] : n->in[1]].shape;
    if (!simd_matches(g, n) || w->size.h != 3 || w->size.w != 3 || w->stride.h != 2 || w->stride.w != 2 ||
        w->dilation.h != 1 || w->dilation.w != 1 || t->groups != 1 || src->dim[1] < BLOCK || dst->dim[1] < BLOCK ||
        src->dim[1] * dst->dim[1] < FEWEST_WEIGHTS)
        return false;
    const int64_t tiles = tiling_of(w, data ? src : dst, data).count;
    return tiles >= FEWEST_TILES && 3 * dst->dim[0] * shape_span(dst, 2, 4) >= 2 * TILE * TILE * tiles;
}

#endif
