/* conv2d_winograd_weights_simd.c - the gradient of 3 x 3 weights by Winograd's algorithm (winograd.h), in pieces
 * (pieces.h) whose buffers are
 *     seen   [36][block of C][tile][BLOCK]
 *     given  [36][panel][tile][PANEL]
 *     sums   [36][panel][input channel][PANEL]
 */
#include "ops/conv2d/pieces.h"
#include "ops/conv2d/winograd.h"

enum { LINES = BLOCK / 2 }; /* input channels of a product: LINES x PANEL registers hold sums */
/* Tiles of a run. Next to 24, and pieces of 64 channels, it took 10 to 14 % less time with 128 and 256 channels, and
 * as much with 64 and 512. */
enum { RUN = 48 };

/* What is kept for a node. */
typedef struct job {
    pieces pieces;
    tiling tiles;
    int64_t run;                              /* tiles */
    int64_t seen_step, given_step, sums_step; /* of the planes of each buffer, in vectors */
} job;

/* --- the transforms -------------------------------------------------------------------------------------------- */

static void see(const job *j, const piece *p, const arg *src, int64_t first, int64_t count)
{
    for (int64_t c = p->c.lo; c < p->c.hi; c++) {
        place at = place_of(&j->tiles, first);
        for (int64_t t = 0; t < count; t++, place_next(&j->tiles, &at))
            see_tile(&j->tiles, at, src, c, p->seen + (c - p->c.lo) * j->run + t, j->seen_step);
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

static void give(const job *j, const piece *p, const arg *ddst, int64_t first, int64_t count)
{
    for (int64_t k = p->k.lo; k < p->k.hi; k++) {
        const int64_t own = k - p->k.lo;
        vec *to = p->given + (own / PANEL * j->run) * PANEL + own % PANEL, bias = {0};
        place at = place_of(&j->tiles, first);
        for (int64_t t = 0; t < count; t++, place_next(&j->tiles, &at)) {
            vec copy[TILE * TILE];
            int64_t row;
            const vec *x =
                pixels_at(plane_at(ddst, at.n, k), &ddst->shape, at.y * TILE, at.x * TILE, TILE, copy, &row);
            transform_given(x, row, to + t * PANEL, j->given_step, &bias);
        }
        p->bias[own] += bias;
    }
}

static void write_out(const job *j, const piece *p, const arg *dwei)
{
    for (int64_t k = p->k.lo; k < p->k.hi; k++) {
        const int64_t own = k - p->k.lo, inputs = (p->c.hi - p->c.lo) * BLOCK;
        for (int64_t i = 0; i < inputs; i++) {
            const vec *from = p->sums + (own / PANEL * inputs + i) * PANEL + own % PANEL;
            vec *to = (vec *)dwei->data + (k * j->pieces.C + p->c.lo + i / BLOCK) * 9 * BLOCK + i % BLOCK;
            square_weights_grad(from, SEEN * j->sums_step, j->sums_step, to, 3 * BLOCK, BLOCK);
        }
    }
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

static void make(const step *s, const piece *p)
{
    const job *j = s->state;
    for (int64_t t = 0; t < j->tiles.count; t += j->run) {
        const int64_t count = j->tiles.count - t < j->run ? j->tiles.count - t : j->run;
        const int64_t end = t + count, next = j->tiles.count - end < j->run ? j->tiles.count - end : j->run;
        ahead src = ahead_seen(&j->tiles, &s->in[0], p->c, end, next),
              ddst = ahead_made(&j->tiles, &s->in[1], p->k, end, next);
        see(j, p, &s->in[0], t, count);
        give(j, p, &s->in[1], t, count);
        multiply(j, p, count, &src, &ddst);
    }
    write_out(j, p, &s->out[0]);
}

static brasa_status open(graph *g, node *n)
{
    const shape *src = &g->values[n->in[0]].shape, *ddst = &g->values[n->in[1]].shape;
    const pads *pad = &((const conv2d_attr *)n->attr)->window.pad;
    job *j = mem_get(g->ctx, sizeof *j);
    if (!j)
        return fail_memory(g->ctx, sizeof *j);
    pieces *w = &j->pieces;
    *w = pieces_of(blocks_of(src->dim[1]), blocks_of(ddst->dim[1]), node_threads(g, n),
                   (tile_cost){.multiply = PLANES, .see = 280, .give = 200});
    j->tiles = tiling_of(ddst, pad->top, pad->left);
    j->run = j->tiles.count < RUN ? j->tiles.count : RUN;
    j->seen_step = plane_step(w->blocks * j->run);
    j->given_step = plane_step(w->panels * j->run * PANEL);
    j->sums_step = plane_step(w->panels * w->blocks * BLOCK * PANEL);
    w->seen = PLANES * j->seen_step;
    w->given = PLANES * j->given_step;
    w->sums = PLANES * j->sums_step;
    w->size = w->seen + w->given + w->sums + w->panels * PANEL;
    w->make = make;
    n->state = j;
    return BRASA_OK;
}

const kernel SIMD_TABLE(conv2d_winograd_weights)[] = {
    SIMD_ROW("conv2d_grad_weights_winograd", conv2d_grad_weights_op, .supports = winograd_supports,
             .formats = conv2d_formats, .parts_in = 1 | 2, .open = open, .close = mem_put,
             .workspace = pieces_workspace, .run = pieces_run),
    {0},
};
