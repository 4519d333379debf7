/* conv2d_winograd_simd.c - convolutions of 3 x 3 by Winograd's algorithm (winograd.h), forward and by the data. The
 * latter is the former with input and output in each other's place and the weights turned by half a circle.
 *
 * C input channels, K outputs. Each thread has a part: some tiles and some panels, which are two blocks of outputs.
 * It goes over its tiles, so many at a time that these stay in the second cache:
 *     seen     [36][group of tiles][block of C][LINES][BLOCK]     inputs, transformed
 *     weights  [36][input channel of a chunk][two vectors]        weights, transformed
 *     made     [36][tile][two vectors]                            products, to be transformed into outputs
 * A panel is finished before the next: chunk by chunk of the inputs the products are added to `made`.
 *
 * With many tiles they are divided among the threads, and the weights are transformed once, for all. With few of them
 * the panels are, and weights are transformed when they are needed: as the transformed ones take four times the room,
 * that is faster than to read them from memory, and it is the way of a batch of one picture.
 *
 * Every output element is the same sum in the same order, however the work is divided.
 */
#include "ops/conv2d/winograd.h"

#include <string.h>

/* Tiles of a product: with two vectors of outputs, 28 of AVX-512's 32 registers hold sums. And of a run of many. */
#ifdef SIMD_AVX512
enum { LINES = 14, RUN = 28 };
#else
enum { LINES = 6, RUN = 30 };
#endif
/* Few tiles, and channels of a chunk with many and with few. In processor time of one thread with AVX-512, chunks of
 * 64 and 128 in place of 256 took up to 18 % and 6 % longer; runs of 98 tiles between 4 % less and 11 % more. */
enum { FEW_TILES = 128, KEPT_CHUNK = 256, OWN_CHUNK = 128 };
/* The most channels whose pixels are asked for ahead. Of more, those of a run take much of the second cache, and with
 * 128 to 512 channels no gain stood out from the noise. */
enum { AHEAD_MOST = 64 };

typedef struct job {
    const arg *src, *wei, *bia, *dst; /* by the data: src is ddst, dst is dsrc */
    bool turned;                      /* the weights are */
    bool keep;                        /* the transformed weights, all of them, for all threads */
    bool stream;                      /* the output goes past the caches */
    activation act;
    tiling tiles;
    int64_t C, K;                               /* blocks */
    int64_t run, chunk;                         /* tiles, blocks of C */
    int64_t parts_t, parts_k;                   /* in how many parts the tiles are cut, and the panels */
    int64_t seen_step, weights_step, made_step; /* of the planes of each buffer, in vectors */
    int64_t kept, size;                         /* of the kept weights, and of the other buffers of a part */
} job;

static job job_of(const node *n, const shape *src, const shape *dst, int threads)
{
    const pads *pad = &((const conv2d_attr *)n->attr)->window.pad;
    const bool turned = n->op == &conv2d_grad_data_op;
    job j = {.turned = turned, .act = n->act, .C = blocks_of(src->dim[1]), .K = blocks_of(dst->dim[1])};
    const int64_t panels = divide_up(j.K, PANEL);
    j.tiles = tiling_of(dst, turned ? 2 - pad->top : pad->top, turned ? 2 - pad->left : pad->left);
    j.keep = j.tiles.count > FEW_TILES;
    j.parts_k = j.keep ? 1 : threads < panels ? threads : panels;
    j.parts_t = threads / j.parts_k < j.tiles.count ? threads / j.parts_k : j.tiles.count;
    const int64_t tiles = divide_up(j.tiles.count, j.parts_t), run = j.keep ? RUN : FEW_TILES;
    j.run = divide_up(tiles, divide_up(tiles, run));
    j.chunk = divide_up(j.C, divide_up(j.C, (j.keep ? KEPT_CHUNK : OWN_CHUNK) / BLOCK));
    j.seen_step = plane_step(divide_up(j.run, LINES) * LINES * j.C);
    j.made_step = plane_step(j.run * PANEL);
    j.weights_step = plane_step(j.chunk * BLOCK * PANEL);
    j.kept = j.keep ? panels * divide_up(j.C, j.chunk) * PLANES * j.weights_step : 0;
    j.size = PLANES * (j.seen_step + j.made_step + (j.keep ? 0 : j.weights_step));
    return j;
}

#include "ops/conv2d/both_ways.h"

/* --- the transforms -------------------------------------------------------------------------------------------- */

/* The tiles from `first` on, `lines` of each group. */
static void see(const job *j, int64_t first, int64_t count, int64_t lines, vec *seen)
{
    place p = place_of(&j->tiles, first);
    int64_t line = 0;
    for (int64_t t = 0; t < count; t++, place_next(&j->tiles, &p)) {
        for (int64_t c = 0; c < j->C; c++)
            see_tile(&j->tiles, p, j->src, c, seen + c * LINES + line, j->seen_step);
        if (++line == lines) {
            line = 0;
            seen += j->C * LINES;
        }
    }
}

/* Output block k, input blocks c .. c + count - 1. A block of weights is [tap][input][output]. It is copied even
 * where it is not turned, from the first byte to the last: to read it from memory with a tap here and a tap there
 * made 5.2 of 4.4 ms, with 512 x 512 channels and one picture of 14 x 14. */
static void transform_weights(const job *j, int64_t k, int64_t c, int64_t count, vec *to)
{
    vec copy[9][BLOCK];
    for (int64_t i = 0; i < count; i++) {
        const int64_t block = j->turned ? (c + i) * j->K + k : k * j->C + c + i;
        const float *from = (const float *)j->wei->data + block * 9 * BLOCK * BLOCK;
        if (j->turned)
            turn_weights(from, 9, copy[0]);
        else
            memcpy(copy, from, sizeof copy);
        for (int l = 0; l < BLOCK; l++, to += PANEL)
            square_weights(copy[0] + l, 3 * BLOCK, BLOCK, to, SEEN * j->weights_step, j->weights_step);
    }
}

/* A tile of outputs of one block, finished. */
typedef void writer(const vec *made, int64_t apart, const vec *bias, vec *to, int64_t row);

INLINE void write_as(const activation act, const bool stream, const vec *made, int64_t apart, vec bias, vec *to,
                     int64_t row)
{
    vec out[TILE][TILE];
    square_output(made, SEEN * apart, apart, out[0], TILE, 1);
#pragma GCC unroll 4
    for (int i = 0; i < TILE; i++)
#pragma GCC unroll 4
        for (int l = 0; l < TILE; l++)
            vec_store(to + i * row + l, vec_activate(out[i][l] + bias, act), stream);
}

#define WRITER(name, act, stream)                                                                                    \
    static void name(const vec *made, int64_t apart, const vec *bias, vec *to, int64_t row)                          \
    {                                                                                                                \
        write_as(act, stream, made, apart, *bias, to, row);                                                          \
    }
WRITER(write_plain, ACT_NONE, false)
WRITER(write_relu, ACT_RELU, false)
WRITER(write_relu6, ACT_RELU6, false)
WRITER(stream_plain, ACT_NONE, true)
WRITER(stream_relu, ACT_RELU, true)
WRITER(stream_relu6, ACT_RELU6, true)
#undef WRITER

static writer *const writers[][2] = {
    /* by activation, and whether past the caches */
    [ACT_NONE] = {write_plain, stream_plain},
    [ACT_RELU] = {write_relu, stream_relu},
    [ACT_RELU6] = {write_relu6, stream_relu6},
};

/* Output block k of the tiles from `first` on. */
static void write_out(const job *j, int64_t k, int64_t first, int64_t count, const vec *made)
{
    const int64_t P = j->dst->shape.dim[2], Q = j->dst->shape.dim[3];
    const vec bias = bias_of(j->bia, k);
    writer *write = writers[j->act][false], *write_whole = writers[j->act][j->stream];
    place p = place_of(&j->tiles, first);
    for (int64_t t = 0; t < count; t++, made += PANEL, place_next(&j->tiles, &p)) {
        const int64_t y = p.y * TILE, x = p.x * TILE;
        vec *to = plane_at(j->dst, p.n, k) + y * Q + x, part[TILE][TILE];
        if (y + TILE <= P && x + TILE <= Q) {
            write_whole(made, j->made_step, &bias, to, Q);
            continue;
        }
        write(made, j->made_step, &bias, part[0], TILE);
        for (int64_t i = 0; i < TILE && y + i < P; i++)
            for (int64_t l = 0; l < TILE && x + l < Q; l++)
                to[i * Q + l] = part[i][l];
    }
}

/* --- the products ---------------------------------------------------------------------------------------------- */

/* made[lines][PANEL] (+)= seen[blocks][LINES][BLOCK] x weights[blocks][BLOCK][PANEL], for one plane. */
typedef void product(const float *seen, const vec *weights, int64_t blocks, vec *made, bool add);

static inline __attribute__((always_inline)) void product_of(const int lines, const int vectors, const float *seen,
                                                             const vec *weights, int64_t blocks, vec *made, bool add)
{
    vec sum[LINES][PANEL];
#pragma GCC unroll 16
    for (int l = 0; l < lines; l++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[l][v] = add ? made[l * PANEL + v] : (vec){0};
    for (; blocks > 0; blocks--, seen += LINES * BLOCK)
        for (int c = 0; c < BLOCK; c++, weights += PANEL)
#pragma GCC unroll 16
            for (int l = 0; l < lines; l++) {
                const vec x = vec_all(seen[l * BLOCK + c]);
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++)
                    sum[l][v] += x * weights[v];
            }
#pragma GCC unroll 16
    for (int l = 0; l < lines; l++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            made[l * PANEL + v] = sum[l][v];
}

#define PRODUCT(lines)                                                                                               \
    static void product_1_##lines(const float *s, const vec *w, int64_t blocks, vec *m, bool add)                    \
    {                                                                                                                \
        product_of(lines, 1, s, w, blocks, m, add);                                                                  \
    }                                                                                                                \
    static void product_2_##lines(const float *s, const vec *w, int64_t blocks, vec *m, bool add)                    \
    {                                                                                                                \
        product_of(lines, 2, s, w, blocks, m, add);                                                                  \
    }
EACH_LINES(PRODUCT)
#undef PRODUCT

#define BOTH(lines) {product_1_##lines, product_2_##lines},
static product *const products[LINES][PANEL] = {EACH_LINES(BOTH)};
#undef BOTH

/* All planes of a chunk of `blocks` input blocks from c on; what is read and written next is asked for. */
static void multiply(const job *j, const vec *seen, const vec *weights, vec *made, int64_t count, int64_t lines,
                     int64_t c, int64_t blocks, int64_t vectors, ahead *src, ahead *dst)
{
    for (int p = 0; p < PLANES; p++) {
        for (int64_t t = 0; t < count; t += lines) {
            const int64_t here = count - t < lines ? count - t : lines;
            const vec *from = seen + p * j->seen_step + (t / lines * j->C + c) * LINES;
            products[here - 1][vectors - 1]((const float *)from, weights + p * j->weights_step, blocks,
                                            made + p * j->made_step + t * PANEL, c > 0);
        }
        fetch_ahead(src, &j->tiles, p);
        fetch_ahead(dst, &j->tiles, p);
    }
}

/* --- the parts ------------------------------------------------------------------------------------------------- */

/* All chunks of panel o of the weights. */
static vec *kept_weights(const job *j, const step *s, int64_t o)
{
    return (vec *)s->workspace + o / PANEL * divide_up(j->C, j->chunk) * PLANES * j->weights_step;
}

static int64_t chunk_at(const job *j, int64_t c)
{
    return j->C - c < j->chunk ? j->C - c : j->chunk;
}

/* item: a panel of outputs */
static void weights_range(const step *s, int64_t begin, int64_t end)
{
    const job j = job_here(s);
    for (int64_t k = begin * PANEL; k < end * PANEL && k < j.K; k++) {
        vec *to = kept_weights(&j, s, k) + k % PANEL;
        for (int64_t c = 0; c < j.C; c += j.chunk, to += PLANES * j.weights_step)
            transform_weights(&j, k, c, chunk_at(&j, c), to);
    }
}

/* The tiles from `first` on, for output blocks k; `next` tiles come after them. */
static void run_tiles(const job *j, const step *s, int64_t first, int64_t count, int64_t next, span k, vec *buffer)
{
    vec *seen = buffer, *made = seen + PLANES * j->seen_step, *weights = made + PLANES * j->made_step;
    const int64_t lines = divide_up(count, divide_up(count, LINES));
    see(j, first, count, lines, seen);
    for (int64_t o = k.lo; o < k.hi; o += PANEL) {
        const int64_t vectors = k.hi - o < PANEL ? k.hi - o : PANEL;
        const int64_t soon = o + PANEL >= k.hi && j->C * BLOCK <= AHEAD_MOST ? next : 0;
        if (j->keep)
            weights = kept_weights(j, s, o);
        for (int64_t c = 0; c < j->C; c += j->chunk) {
            for (int64_t v = 0; v < vectors && !j->keep; v++)
                transform_weights(j, o + v, c, chunk_at(j, c), weights + v);
            const bool last = c + j->chunk >= j->C;
            ahead src = ahead_seen(&j->tiles, j->src, (span){0, j->C}, first + count, last ? soon : 0);
            ahead dst = ahead_made(&j->tiles, j->dst, (span){o, o + vectors}, first, last && !j->stream ? count : 0);
            multiply(j, seen, weights, made, count, lines, c, chunk_at(j, c), vectors, &src, &dst);
            weights += j->keep ? PLANES * j->weights_step : 0;
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
            const span here = share(tiles.hi - tiles.lo, r, runs), next = share(tiles.hi - tiles.lo, r + 1, runs);
            run_tiles(&j, s, tiles.lo + here.lo, here.hi - here.lo, r + 1 < runs ? next.hi - next.lo : 0, k,
                      (vec *)s->workspace + j.kept + part * j.size);
        }
    }
    vec_stream_end(j.stream);
}

static brasa_status run(const step *s)
{
    const job j = job_here(s);
    if (j.keep)
        step_for(s, divide_up(j.K, PANEL), (double)(j.C * j.K) * BLOCK * BLOCK * PLANES, weights_range);
    step_for(s, j.parts_t * j.parts_k, (double)s->out[0].count * (double)j.C * BLOCK, parts_range);
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    const job j = job_planned(g, n);
    return (j.kept + j.parts_t * j.parts_k * j.size) * (int64_t)sizeof(vec);
}

const kernel SIMD_TABLE(conv2d_winograd)[] = {
    BOTH_WAYS("winograd", .supports = winograd_supports, .pays = winograd_pays, .formats = conv2d_formats),
    {0},
};
