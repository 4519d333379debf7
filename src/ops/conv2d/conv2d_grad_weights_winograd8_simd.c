/* conv2d_grad_weights_winograd8_simd.c - the weight gradient of convolutions with large windows by Winograd's
 * algorithm (winograd8.h).
 *
 * The sums over tiles are made where the products are, and transformed once, at the end:
 *     sums  [chunk of tiles][panel][64][channel][PANEL]
 * A thread has some of the panels of some chunks. It goes over their tiles, RUN at a time:
 *     seen  [64][tile][block]   transformed inputs
 *     dout  [64][tile][PANEL]   transformed output gradients of one panel
 * There are several chunks where there are few panels. Their number depends on the shapes alone, so the results do
 * not depend on the number of threads. The gradient of the bias is the sum of one plane of dout: that of the point 1,
 * where all pixels of a tile are added up.
 */
#include "ops/conv2d/winograd8.h"

enum { RUN = 28, BIAS_PLANE = SEEN + 1 };
enum { MANY_PANELS = 4, MOST_CHUNKS = 8 };

typedef struct job {
    tiling g;
    const arg *src, *ddst;
    int64_t panels, chunks, parts;
    int64_t seen_step, dout_step, sums_step; /* of the planes; in vectors, as are these: */
    int64_t sums, buffer;                    /* of one panel and chunk, and what a part needs besides */
    vec *all_sums, *all_bias;                /* [chunk][panel], [chunk][panel][PANEL] */
} job;

/* --- tiles ------------------------------------------------------------------------------------------------------ */

INLINE void spread_tile(const job *j, const int taps, int64_t k, place at, vec *to)
{
    vec copy[PLANES];
    int64_t row;
    const vec *x = pixels_at(plane_at(j->ddst, at.n, k), &j->ddst->shape, at.y, at.x, SEEN + 1 - taps, copy, &row);
    square_output_grad(taps, x, row, 1, to, SEEN * j->dout_step, j->dout_step);
}

/* Output block k of the tiles from `first` on. */
static void spread(const job *j, int64_t k, int64_t first, int64_t count, vec *dout)
{
    for (int64_t t = 0; t < count; t++) {
        const place at = place_of(&j->g, first + t);
        if (j->g.taps == 3)
            spread_tile(j, 3, k, at, dout + t * PANEL);
        else if (j->g.taps == 4)
            spread_tile(j, 4, k, at, dout + t * PANEL);
        else
            spread_tile(j, 5, k, at, dout + t * PANEL);
    }
}

/* Of one plane, for some channels: sums[lines][PANEL] += seen[tiles][next], turned, x dout[tiles][PANEL]. */
typedef void plane_product(const float *seen, int64_t next, const vec *dout, int64_t tiles, vec *sums);

INLINE void add_tiles(const int lines, const float *seen, int64_t next, const vec *dout, int64_t tiles, vec *sums)
{
    vec sum[LINES][PANEL] = {{{0}}};
    add_products(lines, PANEL, seen, 1, next, dout, tiles, sum);
    end_sums(lines, PANEL, sum, sums, true);
}

#define PRODUCT(lines)                                                                                               \
    static void product_##lines(const float *seen, int64_t next, const vec *dout, int64_t tiles, vec *sums)          \
    {                                                                                                                \
        add_tiles(lines, seen, next, dout, tiles, sums);                                                             \
    }
#define POINTER(lines) product_##lines,
EACH_LINES(PRODUCT)
static plane_product *const products[LINES] = {EACH_LINES(POINTER)};

static void run_tiles(const job *j, int64_t chunk, span panels, int64_t first, int64_t count, vec *buffer)
{
    const tiling *g = &j->g;
    vec *seen = buffer, *dout = seen + PLANES * j->seen_step;
    const int64_t lines = divide_up(g->depth, divide_up(g->depth, LINES));
    vec copy[MOST_BLOCKS * PLANES] = {0};
    for (int64_t t = 0; t < count; t++)
        see(g, j->src, place_of(g, first + t), copy, seen + t * g->blocks, 1, j->seen_step);
    for (int64_t panel = panels.lo; panel < panels.hi; panel++) {
        vec *sums = j->all_sums + (chunk * j->panels + panel) * j->sums;
        vec *bias = j->all_bias + (chunk * j->panels + panel) * PANEL;
        for (int64_t v = 0; v < PANEL && panel * PANEL + v < g->K; v++)
            spread(j, panel * PANEL + v, first, count, dout + v);
        for (int p = 0; p < PLANES; p++)
            for (int64_t c = 0; c < g->depth; c += lines)
                products[(g->depth - c < lines ? g->depth - c : lines) - 1](
                    (const float *)(seen + p * j->seen_step) + c, g->blocks * BLOCK, dout + p * j->dout_step, count,
                    sums + p * j->sums_step + c * PANEL);
        vec sum[PANEL] = {0};
        for (int64_t t = 0; t < count * PANEL; t++)
            sum[t % PANEL] += dout[BIAS_PLANE * j->dout_step + t];
        for (int64_t v = 0; v < PANEL; v++)
            bias[v] += sum[v];
    }
}

/* --- the parts -------------------------------------------------------------------------------------------------- */

static job job_of(const window_attr *w, const shape *src, const shape *dst, int threads)
{
    job j = {.g = tiling_of(w, src, dst, false)};
    j.panels = panels_of(&j.g);
    j.chunks = j.panels >= MANY_PANELS || j.g.count < RUN ? 1 : j.g.count / RUN;
    if (j.chunks > MOST_CHUNKS)
        j.chunks = MOST_CHUNKS;
    j.parts = j.panels * j.chunks < threads ? j.panels * j.chunks : threads;
    j.seen_step = plane_step(RUN * j.g.blocks);
    j.dout_step = plane_step(RUN * PANEL);
    j.sums_step = plane_step(j.g.depth * PANEL);
    j.sums = PLANES * j.sums_step;
    j.buffer = PLANES * (j.seen_step + j.dout_step);
    return j;
}

static job job_here(const step *s)
{
    job j = job_of(&((const conv2d_attr *)s->attr)->window, &s->in[0].shape, &s->in[1].shape, s->threads);
    j.src = &s->in[0];
    j.ddst = &s->in[1];
    j.all_sums = s->workspace;
    j.all_bias = j.all_sums + j.chunks * j.panels * j.sums;
    return j;
}

static void run_chunk(const job *j, int64_t chunk, span panels, vec *buffer)
{
    const int64_t begin = j->g.count * chunk / j->chunks, end = j->g.count * (chunk + 1) / j->chunks;
    const int64_t runs = divide_up(end - begin, RUN), first_panel = chunk * j->panels + panels.lo;
    memset(j->all_sums + first_panel * j->sums, 0, (size_t)((panels.hi - panels.lo) * j->sums) * sizeof(vec));
    memset(j->all_bias + first_panel * PANEL, 0, (size_t)((panels.hi - panels.lo) * PANEL) * sizeof(vec));
    for (int64_t r = 0; r < runs; r++) {
        const int64_t first = begin + (end - begin) * r / runs, next = begin + (end - begin) * (r + 1) / runs;
        run_tiles(j, chunk, panels, first, next - first, buffer);
    }
}

/* item: a part, which is some panels of some chunks */
static void parts_range(const step *s, int64_t begin, int64_t end)
{
    const job j = job_here(s);
    const int64_t all = j.panels * j.chunks;
    for (int64_t part = begin; part < end; part++) {
        const int64_t last = all * (part + 1) / j.parts;
        for (int64_t at = all * part / j.parts, next; at < last; at = next) {
            const int64_t chunk = at / j.panels, beyond = (chunk + 1) * j.panels;
            next = beyond < last ? beyond : last;
            run_chunk(&j, chunk, (span){at - chunk * j.panels, next - chunk * j.panels},
                      j.all_bias + all * PANEL + part * j.buffer);
        }
    }
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

/* What output block k and one input channel made, over all chunks, as [tap][tap]. */
static void fold(const job *j, int64_t k, int64_t channel, vec *out)
{
    vec sum[PLANES];
    for (int p = 0; p < PLANES; p++) {
        const vec *from = j->all_sums + k / PANEL * j->sums + p * j->sums_step + channel * PANEL + k % PANEL;
        sum[p] = from[0];
        for (int64_t chunk = 1; chunk < j->chunks; chunk++)
            sum[p] += from[chunk * j->panels * j->sums];
    }
    if (j->g.taps == 3)
        square_weights_grad(3, sum, SEEN, 1, out, 3, 1);
    else if (j->g.taps == 4)
        square_weights_grad(4, sum, SEEN, 1, out, 4, 1);
    else
        square_weights_grad(5, sum, SEEN, 1, out, 5, 1);
}

/* Writes the taps of one phase of a picture. */
static void write_phase(const tiling *g, int64_t k, int64_t lane, const vec *taps, vec *dwei)
{
    const int64_t c = lane / g->phase / g->phase, y = lane / g->phase % g->phase, x = lane % g->phase;
    for (int i = 0; i < g->taps; i++)
        for (int l = 0; l < g->taps; l++) {
            const int64_t h = i * g->phase + y, w = l * g->phase + x;
            if (h < g->size && w < g->size)
                dwei[((k * g->size + h) * g->size + w) * g->C + c] = taps[i * g->taps + l];
        }
}

/* item: an output block of one block of input channels */
static void fold_range(const step *s, int64_t begin, int64_t end)
{
    const job j = job_here(s);
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = i / j.g.blocks, b = i % j.g.blocks, all = j.g.taps * j.g.taps;
        for (int64_t l = 0; l < BLOCK; l++) {
            vec taps[25] = {0};
            vec *to = (vec *)s->out[0].data + i * all * BLOCK + l;
            const bool exists = b * BLOCK + l < j.g.depth;
            if (exists)
                fold(&j, k, b * BLOCK + l, taps);
            if (j.g.picture && exists)
                write_phase(&j.g, k, b * BLOCK + l, taps, s->out[0].data);
            for (int64_t t = 0; t < all && !j.g.picture; t++)
                to[t * BLOCK] = taps[t];
        }
    }
}

static void write_bias(const job *j, const arg *dbia)
{
    float *out = dbia->data;
    for (int64_t k = 0; k < j->g.K; k++) {
        vec sum = {0};
        for (int64_t chunk = 0; chunk < j->chunks; chunk++)
            sum += j->all_bias[chunk * j->panels * PANEL + k];
        for (int64_t l = 0; l < BLOCK && k * BLOCK + l < dbia->shape.dim[0]; l++)
            out[k * BLOCK + l] = sum[l];
    }
}

static brasa_status conv2d_grad_weights_winograd8(const step *s)
{
    const job j = job_here(s);
    const double weights = (double)(j.g.depth * j.g.K) * BLOCK * PLANES;
    step_for(s, j.parts, (double)j.g.count * weights, parts_range);
    step_for(s, j.g.K * j.g.blocks, (double)j.chunks * weights, fold_range);
    if (s->nout > 1)
        write_bias(&j, &s->out[1]);
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    const job j = job_of(&((const conv2d_attr *)n->attr)->window, &g->values[n->in[0]].shape,
                         &g->values[n->in[1]].shape, node_threads(g, n));
    return (j.chunks * j.panels * (j.sums + PANEL) + j.parts * j.buffer) * (int64_t)sizeof(vec);
}

const kernel SIMD_TABLE(conv2d_grad_weights_winograd8)[] = {
    SIMD_ROW("conv2d_grad_weights_winograd8", conv2d_grad_weights_op, .supports = winograd8_supports,
             .formats = winograd8_formats, .parts_in = 3, .workspace = workspace,
             .run = conv2d_grad_weights_winograd8),
    {0},
};
