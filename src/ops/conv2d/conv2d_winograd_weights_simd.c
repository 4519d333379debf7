/* conv2d_winograd_weights_simd.c - the gradient of 3 x 3 weights by Winograd's algorithm (winograd.h).
 *
 * C input channels, K outputs. The transformed gradient, 36 planes of C x K, is cut into pieces that stay near: some
 * blocks of inputs and some panels, two blocks of outputs each. For a piece all tiles are gone through, a run of them
 * at a time:
 *     seen   [36][block of C][tile][BLOCK]                inputs, transformed
 *     given  [36][panel][tile][two vectors]               gradients of the outputs, transformed
 *     sums   [36][panel][input channel][two vectors]      what their products add up to
 * In the end the sums are transformed into the gradient. To transform a tile again for each piece that it has a share
 * in costs less than to move the planes through memory. How the pieces are cut depends on the number of threads; each
 * sum has the same order nevertheless: a run is summed up from zero, then added to the runs before it.
 */
#include "ops/conv2d/winograd.h"

enum { PANEL = 2, LINES = BLOCK / 2 }; /* input channels of a product: LINES x PANEL registers hold sums */
/* Tiles of a run, and the most channels of a piece. Next to 24 and 64 these took 10 to 14 % less time with 128 and
 * 256 channels, and as much with 64 and 512. */
enum { RUN = 48, MOST = 128 };

typedef struct job {
    const arg *src, *ddst, *dwei, *dbia; /* dbia: NULL where it is not wanted */
    tiling tiles;
    int64_t C, K;                                   /* blocks */
    int64_t run;                                    /* tiles */
    int64_t blocks, panels, pieces_c, pieces_k;     /* of a piece, and how many there are */
    int64_t seen_step, given_step, sums_step, size; /* of the planes of each buffer, and all; in vectors */
} job;

/* Blocks of channels. */
typedef struct piece {
    span c, k;
    vec *seen, *given, *sums, *bias;
} piece;

/* --- the transforms -------------------------------------------------------------------------------------------- */

static void see(const job *j, const piece *p, int64_t first, int64_t count)
{
    for (int64_t c = p->c.lo; c < p->c.hi; c++) {
        place at = place_of(&j->tiles, first);
        for (int64_t t = 0; t < count; t++, place_next(&j->tiles, &at))
            see_tile(&j->tiles, at, j->src, c, p->seen + (c - p->c.lo) * j->run + t, j->seen_step);
    }
}

/* The sum of the tile, for the biases. A function of its own for the reason that transform_input is. */
static __attribute__((noinline)) void transform_given(const vec *x, int64_t row, vec *to, int64_t apart, vec *bias)
{
    vec sum = {0};
    square_output_grad(x, row, 1, to, SEEN * apart, apart);
    for (int i = 0; i < TILE; i++, x += row)
        sum += (x[0] + x[1]) + (x[2] + x[3]);
    *bias += sum;
}

static void give(const job *j, const piece *p, int64_t first, int64_t count)
{
    for (int64_t k = p->k.lo; k < p->k.hi; k++) {
        const int64_t own = k - p->k.lo;
        vec *to = p->given + (own / PANEL * j->run) * PANEL + own % PANEL, bias = {0};
        place at = place_of(&j->tiles, first);
        for (int64_t t = 0; t < count; t++, place_next(&j->tiles, &at)) {
            vec copy[TILE * TILE];
            int64_t row;
            const vec *x =
                pixels_at(plane_at(j->ddst, at.n, k), &j->ddst->shape, at.y * TILE, at.x * TILE, TILE, copy, &row);
            transform_given(x, row, to + t * PANEL, j->given_step, &bias);
        }
        p->bias[own] += bias;
    }
}

static void write_out(const job *j, const piece *p)
{
    for (int64_t k = p->k.lo; k < p->k.hi; k++) {
        const int64_t own = k - p->k.lo, inputs = (p->c.hi - p->c.lo) * BLOCK;
        for (int64_t i = 0; i < inputs; i++) {
            const vec *from = p->sums + (own / PANEL * inputs + i) * PANEL + own % PANEL;
            vec *to = (vec *)j->dwei->data + (k * j->C + p->c.lo + i / BLOCK) * 9 * BLOCK + i % BLOCK;
            square_weights_grad(from, SEEN * j->sums_step, j->sums_step, to, 3 * BLOCK, BLOCK);
        }
    }
}

/* dbia has no padding. */
static void write_bias(const job *j, const piece *p)
{
    float *dbia = j->dbia->data;
    const int64_t first = p->k.lo * BLOCK, all = j->dbia->shape.dim[0];
    const int64_t end = p->k.hi * BLOCK < all ? p->k.hi * BLOCK : all;
    for (int64_t k = first; k < end; k++)
        dbia[k] = ((const float *)p->bias)[k - first];
}

/* --- the products ---------------------------------------------------------------------------------------------- */

/* sums[LINES][PANEL] += the products of seen[tile][BLOCK], its first LINES, and given[tile][PANEL]. */
static inline __attribute__((always_inline)) void product(const int vectors, const float *seen, const vec *given,
                                                          int64_t count, vec *sums)
{
    vec sum[LINES][PANEL] = {{{0}}};
    for (int64_t t = 0; t < count; t++, seen += BLOCK, given += PANEL)
#pragma GCC unroll 8
        for (int l = 0; l < LINES; l++) {
            const vec x = vec_all(seen[l]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[l][v] += x * given[v];
        }
#pragma GCC unroll 8
    for (int l = 0; l < LINES; l++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sums[l * PANEL + v] += sum[l][v];
}

static void multiply(const job *j, const piece *p, int64_t count, ahead *src, ahead *ddst)
{
    const int64_t inputs = (p->c.hi - p->c.lo) * BLOCK, outputs = p->k.hi - p->k.lo;
    for (int plane = 0; plane < PLANES; plane++) {
        for (int64_t o = 0; o < outputs; o += PANEL) {
            const vec *given = p->given + plane * j->given_step + o * j->run;
            for (int64_t i = 0; i < inputs; i += LINES) {
                const float *seen = (const float *)(p->seen + plane * j->seen_step + i / BLOCK * j->run) + i % BLOCK;
                vec *sums = p->sums + plane * j->sums_step + o * inputs + i * PANEL;
                if (outputs - o >= PANEL)
                    product(PANEL, seen, given, count, sums);
                else
                    product(1, seen, given, count, sums);
            }
        }
        fetch_ahead(src, &j->tiles, plane);
        fetch_ahead(ddst, &j->tiles, plane);
    }
}

/* --- the pieces ------------------------------------------------------------------------------------------------ */

static void run_piece(const job *j, int64_t number, vec *buffer)
{
    const span panels = share(divide_up(j->K, PANEL), number / j->pieces_c, j->pieces_k);
    const int64_t hi = panels.hi * PANEL;
    piece p = {.c = share(j->C, number % j->pieces_c, j->pieces_c), .k = {panels.lo * PANEL, hi < j->K ? hi : j->K}};
    p.seen = buffer;
    p.given = p.seen + PLANES * j->seen_step;
    p.sums = p.given + PLANES * j->given_step;
    p.bias = p.sums + PLANES * j->sums_step;
    for (vec *x = p.sums; x < buffer + j->size; x++)
        *x = (vec){0};
    for (int64_t t = 0; t < j->tiles.count; t += j->run) {
        const int64_t count = j->tiles.count - t < j->run ? j->tiles.count - t : j->run;
        const int64_t end = t + count, next = j->tiles.count - end < j->run ? j->tiles.count - end : j->run;
        ahead src = ahead_seen(&j->tiles, j->src, p.c, end, next),
              ddst = ahead_made(&j->tiles, j->ddst, p.k, end, next);
        see(j, &p, t, count);
        give(j, &p, t, count);
        multiply(j, &p, count, &src, &ddst);
    }
    write_out(j, &p);
    if (j->dbia && p.c.lo == 0)
        write_bias(j, &p);
}

/* Cuts the planes for so many threads: the sizes of pieces for which the last thread is ready first, given about how
 * many cycles a tile takes to multiply and to transform. */
static void cut(job *j, int threads)
{
    const int64_t panels = divide_up(j->K, PANEL);
    double best = 0;
    for (int64_t pieces_c = divide_up(j->C, MOST / BLOCK); pieces_c <= j->C; pieces_c++)
        for (int64_t pieces_k = divide_up(panels, MOST / BLOCK / PANEL); pieces_k <= panels; pieces_k++) {
            const int64_t blocks = divide_up(j->C, pieces_c), k = divide_up(panels, pieces_k);
            const double each = (double)(blocks * k * PANEL * BLOCK * PLANES + 280 * blocks + 200 * PANEL * k);
            const double time = each * (double)divide_up(pieces_c * pieces_k, threads);
            if (best > 0 && time >= best)
                continue;
            best = time;
            j->pieces_c = pieces_c;
            j->pieces_k = pieces_k;
            j->blocks = blocks;
            j->panels = k;
        }
}

static job job_of(const shape *src, const shape *ddst, const pads *pad, int threads)
{
    job j = {.C = blocks_of(src->dim[1]), .K = blocks_of(ddst->dim[1])};
    j.tiles = tiling_of(ddst, pad->top, pad->left);
    j.run = RUN;
    if (j.run > j.tiles.count)
        j.run = j.tiles.count;
    cut(&j, threads);
    j.seen_step = plane_step(j.blocks * j.run);
    j.given_step = plane_step(j.panels * j.run * PANEL);
    j.sums_step = plane_step(j.panels * j.blocks * BLOCK * PANEL);
    j.size = PLANES * (j.seen_step + j.given_step + j.sums_step) + j.panels * PANEL;
    return j;
}

static int64_t workers(const job *j, int threads)
{
    const int64_t pieces = j->pieces_c * j->pieces_k;
    return pieces < threads ? pieces : threads;
}

/* item: a thread's share of the pieces */
static void pieces_range(const step *s, int64_t begin, int64_t end)
{
    const pads *pad = &((const conv2d_attr *)s->attr)->window.pad;
    job j = job_of(&s->in[0].shape, &s->in[1].shape, pad, s->threads);
    j.src = &s->in[0];
    j.ddst = &s->in[1];
    j.dwei = &s->out[0];
    j.dbia = s->nout > 1 ? &s->out[1] : NULL;
    for (int64_t w = begin; w < end; w++) {
        const span mine = share(j.pieces_c * j.pieces_k, w, workers(&j, s->threads));
        for (int64_t i = mine.lo; i < mine.hi; i++)
            run_piece(&j, i, (vec *)s->workspace + w * j.size);
    }
}

static brasa_status run(const step *s)
{
    const pads *pad = &((const conv2d_attr *)s->attr)->window.pad;
    const job j = job_of(&s->in[0].shape, &s->in[1].shape, pad, s->threads);
    step_for(s, workers(&j, s->threads), (double)s->in[1].count * (double)j.C * BLOCK, pieces_range);
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    const pads *pad = &((const conv2d_attr *)n->attr)->window.pad;
    const job j = job_of(&g->values[n->in[0]].shape, &g->values[n->in[1]].shape, pad, node_threads(g, n));
    return workers(&j, node_threads(g, n)) * j.size * (int64_t)sizeof(vec);
}

static void layouts(const graph *g, const node *n, layout *in, layout *out)
{
    cpu_layouts(g, n, in, out);
    out[0] = winograd_weights();
}

const kernel SIMD_TABLE(conv2d_winograd_weights)[] = {
    {
        .name = SIMD_NAME("conv2d_grad_weights_winograd"),
        .op = &conv2d_grad_weights_op,
        .real = F32,
        .isa = SIMD_ISA,
        .supports = winograd_supports,
        .layouts = layouts,
        .parts_in = 1 | 2,
        .workspace = workspace,
        .run = run,
    },
    {0},
};
