/* conv2d_grad_weights_stride2_simd.c - the gradient of 3 x 3 weights with stride 2 by Winograd's algorithm
 * (stride2.h).
 *
 * C input channels, K outputs. The transformed gradient, 81 planes of C x K, is cut into pieces that stay near: some
 * blocks of inputs and some panels, two blocks of outputs each. For a piece all tiles are gone through, a run of them
 * at a time:
 *     seen   [plane][block of C][row]                   inputs, transformed
 *     given  [plane][panel][row][PANEL]                 gradients of the outputs, transformed
 *     sums   [plane][panel][input channel][PANEL]       what their products add up to
 * In the end the sums are transformed into the gradient. How the pieces are cut depends on the number of threads;
 * each sum has the same order nevertheless: a run is summed up from zero, then added to the runs before it.
 */
#include "ops/conv2d/stride2.h"

enum { HALF = BLOCK / 2 }; /* input channels of a product: HALF x PANEL registers hold sums */
/* Tiles of a run, and the most channels of a piece: with 64 of them it took 9 to 20 % longer on one thread. */
enum { RUN = 28, MOST = 128 };

typedef struct job {
    const arg *src, *ddst, *dwei, *dbia; /* dbia: NULL where it is not wanted */
    tiling tiles;
    int64_t C, K;                               /* blocks */
    int64_t run;                                /* tiles */
    int64_t blocks, panels, pieces_c, pieces_k; /* of a piece, and how many there are */
    int64_t seen_at[KINDS],
        seen_step[KINDS]; /* the first plane of each kind, and how far they are apart: in vectors */
    int64_t given_at[KINDS], given_step[KINDS];
    int64_t sums_step, seen, given, size; /* of a piece's buffers, and all of them */
} job;

/* Blocks of channels. */
typedef struct piece {
    span c, k;
    vec *seen, *given, *sums, *bias;
} piece;

/* --- the transforms --------------------------------------------------------------------------------------------- */

static void see(const job *j, const piece *p, int64_t first, int64_t count)
{
    target to;
    for (int64_t c = p->c.lo; c < p->c.hi; c++)
        for (int64_t t = 0; t < count; t++) {
            for (int k = 0; k < KINDS; k++) {
                to.to[k] = p->seen + j->seen_at[k] + ((c - p->c.lo) * j->run + t) * kinds[k].rows;
                to.plane[k] = j->seen_step[k];
            }
            see_src(j->src, place_seen(&j->tiles, first + t), c, &to);
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

static void give(const job *j, const piece *p, int64_t first, int64_t count)
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
            bias += give_ddst(j->ddst, place_made(&j->tiles, first + t), k, &to);
        }
        p->bias[own] += bias;
    }
}

static void write_out(const job *j, const piece *p)
{
    const int64_t plane = j->sums_step;
    for (int64_t k = p->k.lo; k < p->k.hi; k++) {
        const int64_t own = k - p->k.lo, inputs = (p->c.hi - p->c.lo) * BLOCK;
        for (int64_t i = 0; i < inputs; i++) {
            const vec *from = p->sums + (own / PANEL * inputs + i) * PANEL + own % PANEL;
            vec *to = (vec *)j->dwei->data + (k * j->C + p->c.lo + i / BLOCK) * 9 * BLOCK + i % BLOCK;
            square_weights_grad(2, from, SEEN * plane, plane, to, 6 * BLOCK, 2 * BLOCK);
            line_fold(2, true, from + kinds[DOWN].first * plane, plane, to + BLOCK, 6 * BLOCK);
            line_fold(2, true, from + kinds[ACROSS].first * plane, plane, to + 3 * BLOCK, 2 * BLOCK);
            to[4 * BLOCK] = from[kinds[PLAIN].first * plane];
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

/* --- the products ----------------------------------------------------------------------------------------------- */

/* sums[HALF][PANEL] += the products of seen[row][BLOCK], its first HALF, and given[row][PANEL]. */
static void product(const float *seen, const vec *given, int64_t rows, vec *sums)
{
    vec sum[LINES][PANEL] = {{{0}}};
    add_products(HALF, seen, 1, BLOCK, given, rows, sum);
#pragma GCC unroll 8
    for (int l = 0; l < HALF; l++) {
        sums[l * PANEL] += sum[l][0];
        sums[l * PANEL + 1] += sum[l][1];
    }
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
                for (int64_t c = 0; c < inputs; c += HALF)
                    product((const float *)(seen + c / BLOCK * rows) + c % BLOCK, given + o * rows,
                            count * kinds[k].rows, sums + (o / PANEL * inputs + c) * PANEL);
        }
}

/* --- the pieces ------------------------------------------------------------------------------------------------- */

static void run_piece(const job *j, int64_t number, vec *buffer)
{
    const span panels = share(divide_up(j->K, PANEL), number / j->pieces_c, j->pieces_k);
    const int64_t hi = panels.hi * PANEL;
    piece p = {.c = share(j->C, number % j->pieces_c, j->pieces_c), .k = {panels.lo * PANEL, hi < j->K ? hi : j->K}};
    p.seen = buffer;
    p.given = p.seen + j->seen;
    p.sums = p.given + j->given;
    p.bias = p.sums + ALL_PLANES * j->sums_step;
    memset(p.sums, 0, (size_t)(buffer + j->size - p.sums) * sizeof(vec));
    for (int64_t t = 0; t < j->tiles.count; t += j->run) {
        const int64_t count = j->tiles.count - t < j->run ? j->tiles.count - t : j->run;
        see(j, &p, t, count);
        give(j, &p, t, count);
        multiply(j, &p, count);
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
    for (int64_t blocks = MOST / BLOCK; blocks > 0; blocks /= 2)
        for (int64_t k = MOST / BLOCK / PANEL; k > 0; k /= 2) {
            const int64_t pieces_c = divide_up(j->C, blocks), pieces_k = divide_up(panels, k);
            const double each = (double)(blocks * k * PANEL * BLOCK * ALL_ROWS + 1000 * blocks + 800 * PANEL * k);
            const double time = each * (double)divide_up(pieces_c * pieces_k, threads);
            if (best > 0 && time >= best)
                continue;
            best = time;
            j->pieces_c = pieces_c;
            j->pieces_k = pieces_k;
        }
    j->blocks = divide_up(j->C, j->pieces_c);
    j->panels = divide_up(panels, j->pieces_k);
}

static job job_of(const window_attr *w, const shape *src, const shape *ddst, int threads)
{
    job j = {.C = blocks_of(src->dim[1]), .K = blocks_of(ddst->dim[1]), .tiles = tiling_of(w, ddst, false)};
    j.run = divide_up(j.tiles.count, divide_up(j.tiles.count, RUN));
    cut(&j, threads);
    for (int k = 0; k < KINDS; k++) {
        const int64_t rows = j.run * kinds[k].rows;
        j.seen_step[k] = plane_step(j.blocks * rows);
        j.given_step[k] = plane_step(j.panels * rows * PANEL);
        j.seen_at[k] = j.seen;
        j.given_at[k] = j.given;
        j.seen += kinds[k].planes * j.seen_step[k];
        j.given += kinds[k].planes * j.given_step[k];
    }
    j.sums_step = plane_step(j.panels * j.blocks * BLOCK * PANEL);
    j.size = j.seen + j.given + ALL_PLANES * j.sums_step + j.panels * PANEL;
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
    job j = job_of(&((const conv2d_attr *)s->attr)->window, &s->in[0].shape, &s->in[1].shape, s->threads);
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
    const job j = job_of(&((const conv2d_attr *)s->attr)->window, &s->in[0].shape, &s->in[1].shape, s->threads);
    step_for(s, workers(&j, s->threads), (double)s->in[1].count * (double)j.C * BLOCK, pieces_range);
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    const job j = job_of(&((const conv2d_attr *)n->attr)->window, &g->values[n->in[0]].shape,
                         &g->values[n->in[1]].shape, node_threads(g, n));
    return workers(&j, node_threads(g, n)) * j.size * (int64_t)sizeof(vec);
}

static void layouts(const graph *g, const node *n, layout *in, layout *out)
{
    cpu_layouts(g, n, in, out);
    out[0] = stride2_weights();
    if (n->nout > 1)
        out[1] = (layout){0};
}

const kernel SIMD_TABLE(conv2d_grad_weights_stride2)[] = {
    {
        .name = SIMD_NAME("conv2d_grad_weights_stride2"),
        .op = &conv2d_grad_weights_op,
        .real = F32,
        .isa = SIMD_ISA,
        .supports = stride2_supports,
        .layouts = layouts,
        .parts_in = 1 | 2,
        .workspace = workspace,
        .run = run,
    },
    {0},
};
