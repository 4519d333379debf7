/* conv2d_winograd8_simd.c - convolutions with large windows by Winograd's algorithm (winograd8.h), forward and by the
 * data. The latter is the former with input and output in each other's place and the weights turned by half a circle.
 *
 * The weights are transformed first, all of them, into
 *     weights  [panel][64][channel][PANEL]
 * Then each thread goes over its tiles, RUN at a time, so that these stay in the second cache:
 *     seen     [64][group of LINES tiles][block][LINES]   transformed inputs
 *     made     [64][tile][PANEL]                          products, then transformed into the output
 * while a panel's weights pass by once for each run. Every output element is the same sum in the same order, however
 * the work is divided.
 */
#include "ops/conv2d/winograd8.h"

/* Tiles, in whole groups: 28 with AVX-512, 30 with AVX2. Twice as many, or half, change little. */
enum { RUN = (28 + LINES - 1) / LINES * LINES };

typedef struct job {
    tiling g;
    const arg *src, *wei, *bia, *dst; /* by the data: src is ddst, dst is dsrc */
    bool turned;                      /* the weights are */
    activation act;
    bool stream; /* the output goes past the caches */
    int64_t runs, parts;
    int64_t seen_step, made_step, weights_step; /* of the planes; in vectors, as are these: */
    int64_t weights, buffer;                    /* all weights, and what a part needs besides */
} job;

/* --- the weights ------------------------------------------------------------------------------------------------ */

/* Of output block k: the taps that the phase `lane` of a picture has, [tap][tap]. */
static void phase_weights(const job *j, int64_t k, int64_t lane, vec *taps)
{
    const tiling *g = &j->g;
    const int64_t c = lane / g->phase / g->phase, y = lane / g->phase % g->phase, x = lane % g->phase;
    const vec *from = (const vec *)j->wei->data + k * g->size * g->size * g->C + c;
    for (int i = 0; i < g->taps; i++)
        for (int l = 0; l < g->taps; l++) {
            const int64_t h = i * g->phase + y, w = l * g->phase + x;
            const bool inside = h < g->size && w < g->size;
            taps[i * g->taps + l] = inside ? from[(h * g->size + w) * g->C] : (vec){0};
        }
}

/* Output block k of input block b. */
INLINE void transform_block(const job *j, const int taps, int64_t k, int64_t b, vec *to)
{
    const int64_t left = j->g.depth - b * BLOCK, lanes = left < BLOCK ? left : BLOCK;
    vec copy[25 * BLOCK];
    const vec *from = copy;
    int64_t tap = 1, next = 0; /* how far taps, and lanes, are apart */
    if (!j->g.picture) {
        from = (const vec *)j->wei->data + (j->turned ? b * j->g.K + k : k * j->g.blocks + b) * taps * taps * BLOCK;
        tap = BLOCK;
        next = 1;
        if (j->turned) {
            turn_weights((const float *)from, taps * taps, copy);
            from = copy;
        }
    }
    for (int64_t l = 0; l < lanes; l++) {
        if (j->g.picture)
            phase_weights(j, k, b * BLOCK + l, copy);
        square_weights(taps, from + l * next, taps * tap, tap, to + (b * BLOCK + l) * PANEL, SEEN * j->weights_step,
                       j->weights_step);
    }
}

static void transform_weights(const job *j, int64_t k, int64_t b, vec *to)
{
    if (j->g.taps == 3)
        transform_block(j, 3, k, b, to);
    else if (j->g.taps == 4)
        transform_block(j, 4, k, b, to);
    else
        transform_block(j, 5, k, b, to);
}

/* --- the output ------------------------------------------------------------------------------------------------- */

/* Output block k of one tile. */
INLINE void write_tile(const job *j, const int taps, int64_t k, place at, vec bias, const vec *made)
{
    enum { MOST = SEEN - 2 };
    const int64_t P = j->dst->shape.dim[2], Q = j->dst->shape.dim[3];
    const int64_t h = P - at.y < SEEN + 1 - taps ? P - at.y : SEEN + 1 - taps;
    const int64_t w = Q - at.x < SEEN + 1 - taps ? Q - at.x : SEEN + 1 - taps;
    vec out[MOST][MOST], *to = plane_at(j->dst, at.n, k) + at.y * Q + at.x;
    square_output(taps, made, SEEN * j->made_step, j->made_step, out[0], MOST, 1);
    for (int64_t i = 0; i < h; i++)
        for (int64_t l = 0; l < w; l++)
            vec_store(&to[i * Q + l], vec_activate(out[i][l] + bias, j->act), j->stream);
}

/* Output block k of the tiles from `first` on. */
static void write_out(const job *j, int64_t k, int64_t first, int64_t count, const vec *made)
{
    const vec bias = bias_of(j->bia, k);
    for (int64_t t = 0; t < count; t++) {
        const place at = place_of(&j->g, first + t);
        if (j->g.taps == 3)
            write_tile(j, 3, k, at, bias, made + t * PANEL);
        else if (j->g.taps == 4)
            write_tile(j, 4, k, at, bias, made + t * PANEL);
        else
            write_tile(j, 5, k, at, bias, made + t * PANEL);
    }
}

/* --- the products ----------------------------------------------------------------------------------------------- */

/* Of one plane: made[lines][PANEL] = seen[blocks][LINES][BLOCK] x weights[depth][PANEL]. */
typedef void plane_product(const float *seen, const vec *weights, int64_t depth, vec *made);

#define PRODUCT(lines)                                                                                               \
    static void product_##lines(const float *seen, const vec *weights, int64_t depth, vec *made)                     \
    {                                                                                                                \
        product_of(lines, PANEL, seen, LINES, weights, depth, made, false);                                          \
    }
#define POINTER(lines) product_##lines,
EACH_LINES(PRODUCT)
static plane_product *const products[LINES] = {EACH_LINES(POINTER)};

/* --- the parts -------------------------------------------------------------------------------------------------- */

static void run_tiles(const job *j, int64_t first, int64_t count, const vec *weights, vec *buffer)
{
    const tiling *g = &j->g;
    vec *seen = buffer, *made = seen + PLANES * j->seen_step;
    const int64_t lines = divide_up(count, divide_up(count, LINES));
    vec copy[MOST_BLOCKS * PLANES] = {0};
    for (int64_t t = 0; t < count; t++)
        see(g, j->src, place_of(g, first + t), copy, seen + t / lines * g->blocks * LINES + t % lines, LINES,
            j->seen_step);
    for (int64_t k = 0; k < g->K; k += PANEL, weights += PLANES * j->weights_step) {
        for (int p = 0; p < PLANES; p++)
            for (int64_t t = 0; t < count; t += lines)
                products[(count - t < lines ? count - t : lines) - 1](
                    (const float *)(seen + p * j->seen_step + t / lines * g->blocks * LINES),
                    weights + p * j->weights_step, g->depth, made + p * j->made_step + t * PANEL);
        for (int64_t v = 0; v < PANEL && k + v < g->K; v++)
            write_out(j, k + v, first, count, made + v);
    }
}

static job job_of(const node *n, const shape *src, const shape *dst, int threads)
{
    const bool turned = n->op == &conv2d_grad_data_op;
    const window_attr *w = &((const conv2d_attr *)n->attr)->window;
    job j = {.g = tiling_of(w, src, dst, turned), .turned = turned, .act = n->act};
    j.runs = divide_up(j.g.count, RUN);
    if (j.runs < threads)
        j.runs = j.g.count < threads ? j.g.count : threads;
    j.parts = j.runs < threads ? j.runs : threads;
    j.seen_step = plane_step(RUN * j.g.blocks);
    j.made_step = plane_step(RUN * PANEL);
    j.weights_step = plane_step(j.g.depth * PANEL);
    j.weights = panels_of(&j.g) * PLANES * j.weights_step;
    j.buffer = PLANES * (j.seen_step + j.made_step);
    return j;
}

#include "ops/conv2d/both_ways.h"

/* item: the weights of an output block and an input block */
static void weights_range(const step *s, int64_t begin, int64_t end)
{
    const job j = job_here(s);
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = i / j.g.blocks;
        vec *to = (vec *)s->workspace + k / PANEL * PLANES * j.weights_step + k % PANEL;
        transform_weights(&j, k, i % j.g.blocks, to);
    }
}

/* item: a part */
static void parts_range(const step *s, int64_t begin, int64_t end)
{
    const job j = job_here(s);
    const vec *weights = s->workspace;
    for (int64_t part = begin; part < end; part++)
        for (int64_t r = j.runs * part / j.parts; r < j.runs * (part + 1) / j.parts; r++) {
            const int64_t first = j.g.count * r / j.runs, next = j.g.count * (r + 1) / j.runs;
            run_tiles(&j, first, next - first, weights, (vec *)s->workspace + j.weights + part * j.buffer);
        }
    vec_stream_end(j.stream);
}

static brasa_status run(const step *s)
{
    const job j = job_here(s);
    const double weights = (double)(j.g.depth * j.g.K) * BLOCK * PLANES;
    step_for(s, j.g.K * j.g.blocks, weights, weights_range);
    step_for(s, j.parts, (double)j.g.count * weights, parts_range);
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    const job j = job_planned(g, n);
    return (j.weights + j.parts * j.buffer) * (int64_t)sizeof(vec);
}

const kernel SIMD_TABLE(conv2d_winograd8)[] = {
    BOTH_WAYS("winograd8", .supports = winograd8_supports, .formats = winograd8_formats),
    {0},
};
