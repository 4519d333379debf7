/* conv2d_stride2_simd.c - convolutions of 3 x 3 with stride 2 by Winograd's algorithm (stride2.h), forward and by the
 * data.
 *
 * C input channels, K outputs. Each thread has a part: some tiles and some panels, which are two blocks of outputs.
 * It goes over its tiles, a run at a time:
 *     seen     [plane][block of C][row]                    what tiles see, transformed
 *     weights  [plane][input channel of a chunk][PANEL]    weights, transformed
 *     made     [plane][row][PANEL]                         products, to be transformed into outputs
 * The weights of a panel are transformed anew for every run: with 128 channels that is 6 % of the time, while to keep
 * all of them would take nine times the room of the weights. A panel is finished before the next: chunk by chunk of
 * the inputs the products are added to `made`. Every output element is the same sum in the same order, however the
 * work is divided.
 */
#include "ops/conv2d/stride2.h"

enum { RUN = 28, FEW_TILES = 16, CHUNK = 128 }; /* tiles of a run, the fewest of a part, channels of a chunk */

typedef struct job {
    const arg *src, *wei, *bia, *dst; /* by the data: src is ddst, dst is dsrc */
    bool data;
    activation act;
    bool stream; /* the output goes past the caches */
    tiling tiles;
    int64_t C, K;             /* blocks */
    int64_t run, chunk;       /* tiles, blocks of C */
    int64_t parts_t, parts_k; /* in how many parts the tiles are cut, and the panels */
    int64_t seen_at[KINDS],
        seen_step[KINDS]; /* the first plane of each kind, and how far they are apart: in vectors */
    int64_t made_at[KINDS], made_step[KINDS];
    int64_t weights_step, seen, made, size; /* of a part's buffers, and all of them */
} job;

static job job_of(const node *n, const shape *src, const shape *dst, int threads)
{
    const bool data = n->op == &conv2d_grad_data_op;
    job j = {.data = data, .act = n->act, .C = blocks_of(src->dim[1]), .K = blocks_of(dst->dim[1])};
    const int64_t panels = divide_up(j.K, PANEL);
    j.tiles = tiling_of(&((const conv2d_attr *)n->attr)->window, dst, data);
    j.parts_t = j.tiles.count / FEW_TILES < threads ? j.tiles.count / FEW_TILES : threads;
    j.parts_t += j.parts_t == 0;
    j.parts_k = threads / j.parts_t < panels ? threads / j.parts_t : panels;
    const int64_t tiles = divide_up(j.tiles.count, j.parts_t);
    j.run = divide_up(tiles, divide_up(tiles, RUN));
    j.chunk = divide_up(j.C, divide_up(j.C, CHUNK / BLOCK));
    for (int k = 0; k < KINDS; k++) {
        const int64_t rows = j.run * kinds[k].rows;
        j.seen_step[k] = plane_step(rows * j.C);
        j.made_step[k] = plane_step(rows * PANEL);
        j.seen_at[k] = j.seen;
        j.made_at[k] = j.made;
        j.seen += kinds[k].planes * j.seen_step[k];
        j.made += kinds[k].planes * j.made_step[k];
    }
    j.weights_step = plane_step(j.chunk * BLOCK * PANEL);
    j.size = j.seen + j.made + ALL_PLANES * j.weights_step;
    return j;
}

#include "ops/conv2d/both_ways.h"

/* --- the inputs ------------------------------------------------------------------------------------------------- */

/* By the data: what a tile sees of ddst is the same for all kinds, but for the transforms. */
static void see_ddst(const arg *ddst, place at, int64_t block, const target *t)
{
    vec copy[PLANES], half[SEEN][SEEN];
    int64_t row;
    const vec *x = pixels_at(plane_at(ddst, at.n, block), &ddst->shape, at.y, at.x, SEEN, copy, &row);
    for (int i = 0; i < SEEN; i++)
        line_input(x + i, row, &half[0][i], SEEN);
    for (int y = 0; y < SEEN; y++) {
        line_input(half[y], 1, t->to[BOTH] + y * SEEN * t->plane[BOTH], t->plane[BOTH]);
        for (int i = 0; i < TILE; i++)
            t->to[DOWN][y * t->plane[DOWN] + i] = half[y][i];
    }
    for (int i = 0; i < TILE; i++) {
        line_input(x + i * row, 1, t->to[ACROSS] + i, t->plane[ACROSS]);
        for (int l = 0; l < TILE; l++)
            t->to[PLAIN][i * TILE + l] = x[i * row + l];
    }
}

/* The tiles from `first` on. */
static void see(const job *j, int64_t first, int64_t count, vec *seen)
{
    target to;
    for (int64_t c = 0; c < j->C; c++)
        for (int64_t t = 0; t < count; t++) {
            for (int k = 0; k < KINDS; k++) {
                to.to[k] = seen + j->seen_at[k] + (c * count + t) * kinds[k].rows;
                to.plane[k] = j->seen_step[k];
            }
            if (j->data)
                see_ddst(j->src, place_seen(&j->tiles, first + t), c, &to);
            else
                see_src(j->src, place_seen(&j->tiles, first + t), c, &to);
        }
}

/* --- the weights ------------------------------------------------------------------------------------------------ */

/* Output block k, input blocks c .. c + count - 1. A block of weights is [tap][input][output]. */
static void transform_weights(const job *j, int64_t k, int64_t c, int64_t count, vec *to)
{
    const int64_t plane = j->weights_step;
    vec copy[9][BLOCK];
    for (int64_t i = 0; i < count; i++) {
        const int64_t block = j->data ? (c + i) * j->K + k : k * j->C + c + i;
        const float *from = (const float *)j->wei->data + block * 9 * BLOCK * BLOCK;
        if (j->data)
            turn_weights(from, 9, copy[0]);
        else
            memcpy(copy, from, sizeof copy);
        for (int l = 0; l < BLOCK; l++, to += PANEL) {
            square_weights(2, copy[0] + l, 6 * BLOCK, 2 * BLOCK, to, SEEN * plane, plane);
            line_spread(2, true, copy[1] + l, 6 * BLOCK, to + kinds[DOWN].first * plane, plane);
            line_spread(2, true, copy[3] + l, 2 * BLOCK, to + kinds[ACROSS].first * plane, plane);
            to[kinds[PLAIN].first * plane] = copy[4][l];
        }
    }
}

/* --- the outputs ------------------------------------------------------------------------------------------------ */

/* Writes those of size x size pixels, from `at` on, that are in the picture. */
INLINE void write_pixels(const job *j, int64_t k, place at, const int size, const vec *out, vec bias)
{
    const int64_t P = j->dst->shape.dim[2], Q = j->dst->shape.dim[3];
    const int64_t top = at.y < 0 ? -at.y : 0, bottom = P - at.y < size ? P - at.y : size;
    const int64_t left = at.x < 0 ? -at.x : 0, right = Q - at.x < size ? Q - at.x : size;
    vec *to = plane_at(j->dst, at.n, k) + at.y * Q + at.x;
    for (int64_t y = top; y < bottom; y++)
        for (int64_t x = left; x < right; x++)
            vec_store(&to[y * Q + x], vec_activate(out[y * size + x] + bias, j->act), j->stream);
}

/* Tile t of a run: the four kinds are added up, each where it is as far transformed as the next. */
static void write_dst(const job *j, int64_t k, place at, vec bias, const vec *made, int64_t t)
{
    const vec *both = made + j->made_at[BOTH] + t * PANEL, *down = made + j->made_at[DOWN] + t * TILE * PANEL;
    const vec *across = made + j->made_at[ACROSS] + t * TILE * PANEL;
    const vec *plain = made + j->made_at[PLAIN] + t * TILE * TILE * PANEL;
    vec half[SEEN][TILE], out[TILE][TILE];
    for (int y = 0; y < SEEN; y++) {
        line_fold(TILE, false, both + y * SEEN * j->made_step[BOTH], j->made_step[BOTH], half[y], 1);
        for (int x = 0; x < TILE; x++)
            half[y][x] += down[y * j->made_step[DOWN] + x * PANEL];
    }
    for (int x = 0; x < TILE; x++)
        line_fold(TILE, false, &half[0][x], TILE, &out[0][x], TILE);
    for (int y = 0; y < TILE; y++) {
        line_fold(TILE, false, across + y * PANEL, j->made_step[ACROSS], half[0], 1);
        for (int x = 0; x < TILE; x++)
            out[y][x] += half[0][x] + plain[(y * TILE + x) * PANEL];
    }
    write_pixels(j, k, at, TILE, out[0], bias);
}

/* By the data: pixels of the four kinds lie between each other, odd ones first. */
static void write_dsrc(const job *j, int64_t k, place at, const vec *made, int64_t t)
{
    enum { SIZE = 2 * TILE };
    const vec *both = made + j->made_at[BOTH] + t * PANEL, *down = made + j->made_at[DOWN] + t * TILE * PANEL;
    const vec *across = made + j->made_at[ACROSS] + t * TILE * PANEL;
    const vec *plain = made + j->made_at[PLAIN] + t * TILE * TILE * PANEL;
    vec out[SIZE][SIZE];
    square_output(2, both, SEEN * j->made_step[BOTH], j->made_step[BOTH], &out[1][1], 2 * SIZE, 2);
    for (int i = 0; i < TILE; i++) {
        line_fold(TILE, false, down + i * PANEL, j->made_step[DOWN], &out[1][2 * i], 2 * SIZE);
        line_fold(TILE, false, across + i * PANEL, j->made_step[ACROSS], &out[2 * i][1], 2);
        for (int x = 0; x < TILE; x++)
            out[2 * i][2 * x] = plain[(i * TILE + x) * PANEL];
    }
    write_pixels(j, k, at, SIZE, out[0], (vec){0});
}

/* Output block k of the tiles from `first` on. */
static void write_out(const job *j, int64_t k, int64_t first, int64_t count, const vec *made)
{
    const vec bias = bias_of(j->bia, k);
    for (int64_t t = 0; t < count; t++) {
        const place at = place_made(&j->tiles, first + t);
        if (j->data)
            write_dsrc(j, k, at, made, t);
        else
            write_dst(j, k, at, bias, made, t);
    }
}

/* --- the products ----------------------------------------------------------------------------------------------- */

/* made[lines][PANEL] (+)= seen[blocks][apart][BLOCK] x weights[blocks][BLOCK][PANEL], for one group of one plane. */
typedef void product(const float *seen, int64_t apart, const vec *weights, int64_t blocks, vec *made, bool add);

#define PRODUCT_OF(lines, vectors)                                                                                   \
    static void product_##vectors##_##lines(const float *seen, int64_t apart, const vec *weights, int64_t blocks,    \
                                            vec *made, bool add)                                                     \
    {                                                                                                                \
        product_of(lines, vectors, seen, apart, weights, blocks *BLOCK, made, add);                                  \
    }
#define PRODUCT(lines) PRODUCT_OF(lines, 1) PRODUCT_OF(lines, 2)
#define POINTER(lines) {product_1_##lines, product_2_##lines},
EACH_LINES(PRODUCT)
static product *const products[LINES][PANEL] = {EACH_LINES(POINTER)};

/* All planes of a chunk of `blocks` input blocks from c on. */
static void multiply(const job *j, const vec *seen, const vec *weights, vec *made, int64_t count, int64_t c,
                     int64_t blocks, int64_t vectors)
{
    for (int k = 0; k < KINDS; k++) {
        const int64_t rows = count * kinds[k].rows, lines = divide_up(rows, divide_up(rows, LINES));
        for (int p = 0; p < kinds[k].planes; p++, weights += j->weights_step)
            for (int64_t r = 0; r < rows; r += lines) {
                const vec *from = seen + j->seen_at[k] + p * j->seen_step[k] + c * rows + r;
                products[(rows - r < lines ? rows - r : lines) - 1][vectors - 1](
                    (const float *)from, rows, weights, blocks,
                    made + j->made_at[k] + p * j->made_step[k] + r * PANEL, c > 0);
            }
    }
}

/* --- the parts -------------------------------------------------------------------------------------------------- */

/* The tiles from `first` on, for output blocks k. */
static void run_tiles(const job *j, int64_t first, int64_t count, span k, vec *buffer)
{
    vec *seen = buffer, *made = seen + j->seen, *weights = made + j->made;
    see(j, first, count, seen);
    for (int64_t o = k.lo; o < k.hi; o += PANEL) {
        const int64_t vectors = k.hi - o < PANEL ? k.hi - o : PANEL;
        for (int64_t c = 0; c < j->C; c += j->chunk) {
            const int64_t blocks = j->C - c < j->chunk ? j->C - c : j->chunk;
            for (int64_t v = 0; v < vectors; v++)
                transform_weights(j, o + v, c, blocks, weights + v);
            multiply(j, seen, weights, made, count, c, blocks, vectors);
        }
        for (int64_t v = 0; v < vectors; v++)
            write_out(j, o + v, first, count, made + v);
    }
}

/* item: a part */
static void parts_range(const step *s, int64_t begin, int64_t end)
{
    const job j = job_here(s);
    for (int64_t part = begin; part < end; part++) {
        const span tiles = share(j.tiles.count, part % j.parts_t, j.parts_t);
        const span panels = share(divide_up(j.K, PANEL), part / j.parts_t, j.parts_k);
        const span k = {panels.lo * PANEL, panels.hi * PANEL < j.K ? panels.hi * PANEL : j.K};
        const int64_t runs = divide_up(tiles.hi - tiles.lo, j.run);
        for (int64_t r = 0; r < runs; r++) {
            const span here = share(tiles.hi - tiles.lo, r, runs);
            run_tiles(&j, tiles.lo + here.lo, here.hi - here.lo, k, (vec *)s->workspace + part * j.size);
        }
    }
    vec_stream_end(j.stream);
}

static brasa_status run(const step *s)
{
    const job j = job_here(s);
    step_for(s, j.parts_t * j.parts_k, (double)s->out[0].count * (double)j.C * BLOCK, parts_range);
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    const job j = job_planned(g, n);
    return j.parts_t * j.parts_k * j.size * (int64_t)sizeof(vec);
}

const kernel SIMD_TABLE(conv2d_stride2)[] = {
    BOTH_WAYS("stride2", .supports = stride2_supports, .formats = conv2d_formats),
    {0},
};
