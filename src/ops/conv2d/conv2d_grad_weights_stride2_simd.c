/* conv2d_grad_weights_stride2_simd.c - the gradient of 3 x 3 weights with stride 2 by Winograd's algorithm
 * (stride2.h), in pieces (pieces.h) whose buffers are
 *     seen   [plane][block of C][row]
 *     given  [plane][panel][row][PANEL]
 *     sums   [plane][panel][input channel][PANEL] */
#include "ops/conv2d/pieces.h"
#include "ops/conv2d/stride2.h"

enum { HALF = BLOCK / 2 }; /* input channels of a product: HALF x PANEL registers hold sums */
enum { RUN = 28 };         /* tiles */

/* What is kept for a node. */
typedef struct job {
    pieces pieces;
    tiling tiles;
    int64_t run; /* tiles */
    int64_t seen_at[KINDS],
        seen_step[KINDS]; /* the first plane of each kind, and how far they are apart: in vectors */
    int64_t given_at[KINDS], given_step[KINDS];
    int64_t sums_step;
} job;

/* --- the transforms --------------------------------------------------------------------------------------------- */

static void see(const job *j, const piece *p, const arg *src, int64_t first, int64_t count)
{
    target to;
    for (int64_t c = p->c.lo; c < p->c.hi; c++)
        for (int64_t t = 0; t < count; t++) {
            for (int k = 0; k < KINDS; k++) {
                to.to[k] = p->seen + j->seen_at[k] + ((c - p->c.lo) * j->run + t) * kinds[k].rows;
                to.plane[k] = j->seen_step[k];
            }
            see_src(src, place_seen(&j->tiles, first + t), c, &to);
        }
}

/* The outputs of a tile, transformed as those are that they are multiplied with. Returns their sum. */
static vec give_ddst(const arg *ddst, place at, int64_t block, const target *t)
{
    vec copy[TILE * TILE], half[SEEN][TILE], sum = {0};
    int64_t row;
    const vec *x = pixels_at(plane_at(ddst, at.n, block), &ddst->shape, at.y, at.x, TILE, copy, &row);
    for (int i = 0; i < TILE; i++)
        line_spread(TILE, false, x + i, row, &half[0][i], TILE);
    for (int y = 0; y < SEEN; y++) {
        line_spread(TILE, false, half[y], 1, t->to[BOTH] + y * SEEN * t->plane[BOTH], t->plane[BOTH]);
        for (int i = 0; i < TILE; i++)
            t->to[DOWN][y * t->plane[DOWN] + i * PANEL] = half[y][i];
    }
    for (int i = 0; i < TILE; i++) {
        line_spread(TILE, false, x + i * row, 1, t->to[ACROSS] + i * PANEL, t->plane[ACROSS]);
        vec line = {0};
        for (int l = 0; l < TILE; l++) {
            t->to[PLAIN][(i * TILE + l) * PANEL] = x[i * row + l];
            line += x[i * row + l];
        }
        sum += line;
    }
    return sum;
}

static void give(const job *j, const piece *p, const arg *ddst, int64_t first, int64_t count)
{
    target to;
    for (int64_t k = p->k.lo; k < p->k.hi; k++) {
        const int64_t own = k - p->k.lo;
        vec bias = {0};
        for (int64_t t = 0; t < count; t++) {
            for (int i = 0; i < KINDS; i++) {
                to.to[i] =
                    p->given + j->given_at[i] + (own / PANEL * j->run + t) * kinds[i].rows * PANEL + own % PANEL;
                to.plane[i] = j->given_step[i];
            }
            bias += give_ddst(ddst, place_made(&j->tiles, first + t), k, &to);
        }
        p->bias[own] += bias;
    }
}

static void write_out(const job *j, const piece *p, const arg *dwei)
{
    const int64_t plane = j->sums_step;
    for (int64_t k = p->k.lo; k < p->k.hi; k++) {
        const int64_t own = k - p->k.lo, inputs = (p->c.hi - p->c.lo) * BLOCK;
        for (int64_t i = 0; i < inputs; i++) {
            const vec *from = p->sums + (own / PANEL * inputs + i) * PANEL + own % PANEL;
            vec *to = (vec *)dwei->data + (k * j->pieces.C + p->c.lo + i / BLOCK) * 9 * BLOCK + i % BLOCK;
            square_weights_grad(2, from, SEEN * plane, plane, to, 6 * BLOCK, 2 * BLOCK);
            line_fold(2, true, from + kinds[DOWN].first * plane, plane, to + BLOCK, 6 * BLOCK);
            line_fold(2, true, from + kinds[ACROSS].first * plane, plane, to + 3 * BLOCK, 2 * BLOCK);
            to[4 * BLOCK] = from[kinds[PLAIN].first * plane];
        }
    }
}

/* --- the products ----------------------------------------------------------------------------------------------- */

/* sums[HALF][PANEL] += the products of seen[row][BLOCK], its first HALF, and given[row][PANEL], its first `vectors`.
 */
INLINE void product(const int vectors, const float *seen, const vec *given, int64_t rows, vec *sums)
{
    vec sum[LINES][PANEL] = {{{0}}};
    add_products(HALF, vectors, seen, 1, BLOCK, given, rows, sum);
    end_sums(HALF, vectors, sum, sums, true);
}

static void multiply(const job *j, const piece *p, int64_t count)
{
    const int64_t inputs = (p->c.hi - p->c.lo) * BLOCK, outputs = p->k.hi - p->k.lo;
    vec *sums = p->sums;
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < kinds[k].planes; i++, sums += j->sums_step) {
            const vec *seen = p->seen + j->seen_at[k] + i * j->seen_step[k];
            const vec *given = p->given + j->given_at[k] + i * j->given_step[k];
            const int64_t rows = j->run * kinds[k].rows;
            for (int64_t o = 0; o < outputs; o += PANEL)
                for (int64_t c = 0; c < inputs; c += HALF) {
                    const float *x = (const float *)(seen + c / BLOCK * rows) + c % BLOCK;
                    vec *to = sums + (o / PANEL * inputs + c) * PANEL;
                    if (outputs - o >= PANEL)
                        product(PANEL, x, given + o * rows, count * kinds[k].rows, to);
                    else
                        product(1, x, given + o * rows, count * kinds[k].rows, to);
                }
        }
}

/* --- the pieces ------------------------------------------------------------------------------------------------- */

static void make(const step *s, const piece *p)
{
    const job *j = s->state;
    for (int64_t t = 0; t < j->tiles.count; t += j->run) {
        const int64_t count = j->tiles.count - t < j->run ? j->tiles.count - t : j->run;
        see(j, p, &s->in[0], t, count);
        give(j, p, &s->in[1], t, count);
        multiply(j, p, count);
    }
    write_out(j, p, &s->out[0]);
}

static brasa_status open(graph *g, node *n)
{
    const shape *src = &g->values[n->in[0]].shape, *ddst = &g->values[n->in[1]].shape;
    job *j = mem_get(g->ctx, sizeof *j);
    if (!j)
        return fail_memory(g->ctx, sizeof *j);
    pieces *w = &j->pieces;
    *w = pieces_of(blocks_of(src->dim[1]), blocks_of(ddst->dim[1]), node_threads(g, n),
                   (tile_cost){.multiply = ALL_ROWS, .see = 1000, .give = 800});
    j->tiles = tiling_of(&((const conv2d_attr *)n->attr)->window, ddst, false);
    j->run = divide_up(j->tiles.count, divide_up(j->tiles.count, RUN));
    for (int k = 0; k < KINDS; k++) {
        const int64_t rows = j->run * kinds[k].rows;
        j->seen_step[k] = plane_step(w->blocks * rows);
        j->given_step[k] = plane_step(w->panels * rows * PANEL);
        j->seen_at[k] = w->seen;
        j->given_at[k] = w->given;
        w->seen += kinds[k].planes * j->seen_step[k];
        w->given += kinds[k].planes * j->given_step[k];
    }
    j->sums_step = plane_step(w->panels * w->blocks * BLOCK * PANEL);
    w->sums = ALL_PLANES * j->sums_step;
    w->size = w->seen + w->given + w->sums + w->panels * PANEL;
    w->make = make;
    n->state = j;
    return BRASA_OK;
}

const kernel SIMD_TABLE(conv2d_grad_weights_stride2)[] = {
    SIMD_ROW("conv2d_grad_weights_stride2", conv2d_grad_weights_op, .supports = stride2_supports,
             .formats = conv2d_formats, .parts_in = 1 | 2, .open = open, .close = mem_put,
             .workspace = pieces_workspace, .run = pieces_run),
    {0},
};
