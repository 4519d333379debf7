/* winograd8.h - Winograd's algorithm on tiles that see 8 x 8 pixels, for the kernels that are compiled once for each
 * instruction set: windows larger than 3 x 3, and the large windows with strides of first layers.
 *
 * A window of taps x taps then makes a tile of made x made outputs, made = 9 - taps, with 64 products in place of
 * (taps made)^2: 4 in place of 25 an output for 5 x 5. With d what a tile sees, g the weights and y the outputs,
 *     y = A^T [ (G g G^T) . (B^T d B) ] A
 * where . goes element by element: over channels, a matrix product for each of the 64 places, which are called
 * planes. In reverse, the gradient of g is G^T [ (B^T d B) . (A dy A^T) ] G, summed over all tiles.
 *
 * A stride s is undone by phases: the pixels whose coordinates leave the same rest when divided by s are channels of
 * their own, s x s for each channel, over which a window of ceil(R / s) taps moves pixel by pixel. So 11 x 11 with
 * stride 4 is 3 x 3 over 48 channels, and 7 x 7 with stride 2 is 4 x 4 over 12; taps beyond R are zero.
 *
 * lines8.h has the matrices and the products.
 */
#ifndef OPS_CONV2D_WINOGRAD8_H
#define OPS_CONV2D_WINOGRAD8_H

#include "ops/conv2d/lines8.h"

/* --- what is convolved ------------------------------------------------------------------------------------------ */

/* One convolution, as its tiles see it. */
typedef struct tiling {
    int taps, made;            /* of the window over phases; outputs of a tile, both ways */
    int size, phase;           /* of the window that it is: R and the stride */
    bool picture;              /* src is plain, with so few channels that a vector holds their phases */
    int64_t C;                 /* input channels of a picture; else blocks of them */
    int64_t depth;             /* channels that a product sums over: of a picture, its phases */
    int64_t blocks;            /* of these */
    int64_t K;                 /* blocks of output channels */
    int64_t rows, cols, count; /* of tiles: a sample's, and all */
    int64_t top, left;         /* the first tile sees so many zeros before the picture */
} tiling;

/* `turned`: the data gradient, whose src is ddst and whose dst is dsrc. */
static inline tiling tiling_of(const window_attr *w, const shape *src, const shape *dst, bool turned)
{
    tiling g = {.size = w->size.h, .phase = w->stride.h, .picture = src->dim[1] < 4};
    g.taps = (g.size + g.phase - 1) / g.phase;
    g.made = SEEN + 1 - g.taps;
    g.C = g.picture ? src->dim[1] : blocks_of(src->dim[1]);
    g.depth = src->dim[1] * g.phase * g.phase;
    g.blocks = blocks_of(g.depth);
    g.K = blocks_of(dst->dim[1]);
    g.rows = (dst->dim[2] + g.made - 1) / g.made;
    g.cols = (dst->dim[3] + g.made - 1) / g.made;
    g.count = dst->dim[0] * g.rows * g.cols;
    g.top = turned ? g.size - 1 - w->pad.top : w->pad.top;
    g.left = turned ? g.size - 1 - w->pad.left : w->pad.left;
    return g;
}

static inline int64_t panels_of(const tiling *g)
{
    return divide_up(g->K, PANEL);
}

/* A tile: its sample, and its first output. */
typedef struct place {
    int64_t n, y, x;
} place;

static inline place place_of(const tiling *g, int64_t tile)
{
    return (place){tile / (g->rows * g->cols), tile / g->cols % g->rows * g->made, tile % g->cols * g->made};
}

enum { MOST_PHASE = 4, MOST_BLOCKS = 3 * MOST_PHASE * MOST_PHASE / BLOCK }; /* of a picture */

/* SEEN x phase pixels of a row, from x on, each `phase` of them to one vector; `row` is NULL outside of the picture.
 */
INLINE void phases_row(const int phase, const float *row, int64_t x, int64_t W, float *to)
{
    float padded[SEEN * MOST_PHASE];
    const float *from = padded;
    if (row && x >= 0 && x + SEEN * phase <= W)
        from = row + x;
    else
        for (int i = 0; i < SEEN * phase; i++)
            padded[i] = row && x + i >= 0 && x + i < W ? row[x + i] : 0;
    for (int i = 0; i < SEEN; i++)
        memcpy(to + i * BLOCK, from + i * phase, (size_t)phase * sizeof(float));
}

/* The phases that a tile sees of a picture: copy[block][pixel]. In a vector those along x follow each other, then
 * come the next ones along y, then the next channel. */
INLINE void phases_at(const tiling *g, const int phase, const arg *src, place at, vec *copy)
{
    const int64_t H = src->shape.dim[2], W = src->shape.dim[3];
    const int64_t top = at.y * phase - g->top, left = at.x * phase - g->left;
    const float *plane = sample_at(src, at.n);
    int64_t lane = 0;
    for (int64_t c = 0; c < g->C; c++, plane += H * W)
        for (int y = 0; y < phase; y++, lane += phase) {
            float *to = (float *)(copy + lane / BLOCK * PLANES) + lane % BLOCK;
            for (int i = 0; i < SEEN; i++) {
                const int64_t line = top + i * phase + y;
                phases_row(phase, line >= 0 && line < H ? plane + line * W : NULL, left, W, to + i * SEEN * BLOCK);
            }
        }
}

static void phases(const tiling *g, const arg *src, place at, vec *copy)
{
    if (g->phase == 4)
        phases_at(g, 4, src, at, copy);
    else if (g->phase == 2)
        phases_at(g, 2, src, at, copy);
    else
        phases_at(g, 1, src, at, copy);
}

/* Transforms what a tile sees, all blocks: block b goes to to + b * next and the same place of the other planes,
 * which are `plane` apart. `copy`, zero at first, is for a picture's phases. */
static void see(const tiling *g, const arg *src, place at, vec copy[MOST_BLOCKS * PLANES], vec *to, int64_t next,
                int64_t plane)
{
    if (g->picture)
        phases(g, src, at, copy);
    for (int64_t b = 0; b < g->blocks; b++) {
        vec edge[PLANES];
        int64_t row = SEEN;
        const vec *x = copy + b * PLANES;
        if (!g->picture)
            x = pixels_at(plane_at(src, at.n, b), &src->shape, at.y - g->top, at.x - g->left, SEEN, edge, &row);
        square_input(0, x, row, 1, to + b * next, SEEN * plane, plane);
    }
}

/* --- for the tables --------------------------------------------------------------------------------------------- */

/* Fewer tiles are not worth the transforms of the weights: four of 7 x 7 with 48 -> 128 channels took as long as
 * oneDNN's direct convolution. */
enum { FEWEST_TILES = 8 };

/* Pictures take no data gradient: nobody asks for it. */
static inline bool winograd8_supports(const graph *g, const node *n)
{
    const conv2d_attr *t = n->attr;
    const window_attr *w = &t->window;
    const bool forward = n->op == &conv2d_op, data = n->op == &conv2d_grad_data_op;
    const shape *src = &g->values[data ? n->out[0] : n->in[0]].shape;
    const shape *dst = &g->values[forward ? n->out[0] : n->in[1]].shape;
    const int phase = w->stride.h, taps = (w->size.h + phase - 1) / phase;
    const bool square = w->size.w == w->size.h && w->stride.w == phase, picture = src->dim[1] < 4;
    if (!simd_matches(g, n) || t->groups != 1 || w->dilation.h != 1 || w->dilation.w != 1 || !square ||
        dst->dim[1] < 4 || taps > 5 || taps < (phase == 1 ? 4 : 3))
        return false;
    if (picture ? data || (phase != 2 && phase != 4) : phase != 1)
        return false;
    return (data ? tiling_of(w, dst, src, true) : tiling_of(w, src, dst, false)).count >= FEWEST_TILES;
}

/* For kernel.formats. The weights of a picture are in blocks of outputs, with the channels around them: this, too, is
 * what direct kernels read. */
static inline void winograd8_formats(const graph *g, const node *n, format *in, format *out)
{
    conv2d_formats(g, n, in, out);
    if (n->op == &conv2d_grad_data_op || g->values[n->in[0]].shape.dim[1] >= 4)
        return;
    layout *wei = n->op == &conv2d_op ? &in[1].layout : &out[0].layout;
    *wei = (layout){.permuted = 1, .order = {0, 2, 3, 1}, .nblocks = 1, .axis = {0}, .block = {BLOCK}};
}

#endif
