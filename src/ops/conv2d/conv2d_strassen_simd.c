/* conv2d_strassen_simd.c - convolutions of 1 x 1, which are matrix products, by Strassen's algorithm: forward and by
 * the data. The latter is the former with input and output in each other's place and the weights transposed.
 *
 * With pixels, input channels and output channels cut into halves, the product of A (pixels x inputs) and B (inputs x
 * outputs) takes 7 products of halves in place of 8; in Winograd's form, with
 *     S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21, S4 = A12 - S2
 *     T1 = B12 - B11, T2 = B22 - T1, T3 = B22 - B12, T4 = B21 - T2
 *     C11 = A11 B11 + A12 B21             U2 = A11 B11 + S2 T2, U3 = U2 + S3 T3
 *     C21 = U3 + A22 T4                   C22 = U3 + S1 T1       C12 = U2 + S1 T1 + S4 B22
 * Once, on one level: it costs little precision. The halves of the pixels are two rows of LINES of them, a pair,
 * which one call of `seven` makes for four or two blocks of outputs. All sums of products are made in registers.
 *     weights  [panel][chunk of C][7][input channel][two vectors]      B11 B21 T2 T3 T4 T1 B22: once, for all threads
 *     inputs   [pair][7][block of a chunk][LINES][BLOCK]               A11 A12 S2 S3 A22 S1 S4: for a run of pairs
 * which is the order that they are used in. A thread goes over its pairs, so many at a time that these stay in the
 * second cache, and chunk by chunk adds products to the outputs.
 *
 * A pair lies in one sample, whose outputs depend on no other one, and pairs are the same whatever the number of
 * threads is: so are results.
 */
#include "ops/conv2d/tiles.h"

/* Pixels of a product: with two vectors of outputs, 28 of AVX-512's 32 registers hold sums. */
#ifdef SIMD_AVX512
enum { LINES = 14 };
#else
enum { LINES = 6 };
#endif
enum { PRODUCTS = 7, CHUNK = 512 / BLOCK, MOST_PAIRS = 4, RUN_BYTES = 416 << 10 };

typedef struct job {
    const arg *src, *wei, *bia, *dst; /* by the data: src is ddst, dst is dsrc */
    bool turned;                      /* the weights are */
    bool stream;                      /* dst */
    activation act;
    int64_t C, K, half_c, half_k;  /* blocks: of an odd number, the second half has one less */
    int64_t chunk, chunks, panels; /* blocks of half a C; panels of half a K */
    int64_t plane, each, pairs;    /* pixels of a sample; pairs of rows of one, and all */
    int64_t run, parts;            /* pairs of a run; threads with work */
    int64_t weights, inputs, size; /* vectors: weights of a chunk, inputs of a pair, buffer of a part */
} job;

static job job_of(const node *n, const shape *src, const shape *dst, int threads)
{
    job j = {.turned = n->op == &conv2d_grad_data_op, .act = n->act};
    j.C = blocks_of(src->dim[1]);
    j.K = blocks_of(dst->dim[1]);
    j.half_c = divide_up(j.C, 2);
    j.half_k = divide_up(j.K, 2);
    j.chunks = divide_up(j.half_c, CHUNK);
    j.chunk = divide_up(j.half_c, j.chunks);
    j.panels = divide_up(j.half_k, PANEL);
    j.plane = src->dim[2] * src->dim[3];
    j.each = divide_up(j.plane, 2 * LINES);
    j.pairs = src->dim[0] * j.each;
    j.parts = threads < j.pairs ? threads : j.pairs;
    j.weights = PRODUCTS * j.chunk * BLOCK * PANEL;
    j.inputs = PRODUCTS * j.chunk * LINES;
    j.run = RUN_BYTES / (j.inputs * (int64_t)sizeof(vec));
    j.run = j.run < 1 ? 1 : j.run > MOST_PAIRS ? MOST_PAIRS : j.run;
    j.size = j.run * j.inputs;
    return j;
}

#include "ops/conv2d/both_ways.h"

static int64_t chunk_at(const job *j, int64_t c)
{
    return j->half_c - c < j->chunk ? j->half_c - c : j->chunk;
}

/* LINES pixels of a sample, as far as there are so many, and where the first one is. */
typedef struct row {
    int64_t n, at, count;
} row;

static row row_of(const job *j, int64_t index)
{
    const int64_t at = index % (2 * j->each) * LINES, left = j->plane - at;
    return (row){.n = index / (2 * j->each), .at = at, .count = left < 0 ? 0 : left < LINES ? left : LINES};
}

/* --- the sums of halves ---------------------------------------------------------------------------------------- */

/* What a row has of input block c, zeros where there is none: where it lies, or a copy. */
static const vec *row_in(const job *j, const row *r, int64_t c, vec *copy)
{
    if (r->count == LINES && c < j->C)
        return plane_at(j->src, r->n, c) + r->at;
    for (int64_t l = 0; l < LINES; l++)
        copy[l] = l < r->count && c < j->C ? plane_at(j->src, r->n, c)[r->at + l] : (vec){0};
    return copy;
}

/* The inputs of one pair, `blocks` blocks from c on. What comes next in each plane is asked for early: pixels of one
 * row are few, and the hardware does not see where the next plane begins. */
static void sum_inputs(const job *j, int64_t number, int64_t c, int64_t blocks, vec *to)
{
    const row one = row_of(j, 2 * number), two = row_of(j, 2 * number + 1);
    const int64_t far = blocks * LINES;
    for (const int64_t end = c + blocks; c < end; c++) {
        vec copy[4][LINES];
        const vec *a11 = row_in(j, &one, c, copy[0]), *a12 = row_in(j, &one, c + j->half_c, copy[1]);
        const vec *a21 = row_in(j, &two, c, copy[2]), *a22 = row_in(j, &two, c + j->half_c, copy[3]);
        for (int l = 0; l < LINES; l++, to++) {
            const vec x11 = a11[l], x12 = a12[l], x21 = a21[l], x22 = a22[l];
            const vec s1 = x21 + x22, s2 = s1 - x11;
            __builtin_prefetch(a11 + l + j->plane);
            __builtin_prefetch(a12 + l + j->plane);
            __builtin_prefetch(a21 + l + j->plane);
            __builtin_prefetch(a22 + l + j->plane);
            to[0] = x11;
            to[far] = x12;
            to[2 * far] = s2;
            to[3 * far] = x11 - x21;
            to[4 * far] = x22;
            to[5 * far] = s1;
            to[6 * far] = x12 - s2;
        }
    }
}

/* Weights [input][output] of input block c and output block k, zeros where there are none. */
static const vec *weights_in(const job *j, int64_t c, int64_t k, vec *copy)
{
    const int64_t block = j->turned ? c * j->K + k : k * j->C + c;
    const float *from = (const float *)j->wei->data + block * BLOCK * BLOCK;
    if (c >= j->C || k >= j->K)
        memset(copy, 0, BLOCK * sizeof *copy);
    else if (!j->turned)
        return (const vec *)from;
    else
        turn_weights(from, 1, copy);
    return copy;
}

/* Output blocks k of both halves, `blocks` input blocks from c on. */
static void sum_weights(const job *j, int64_t k, int64_t c, int64_t blocks, vec *to)
{
    const int64_t far = blocks * BLOCK * PANEL;
    for (const int64_t end = c + blocks; c < end; c++) {
        vec copy[4][BLOCK];
        const vec *b11 = weights_in(j, c, k, copy[0]), *b12 = weights_in(j, c, k + j->half_k, copy[1]);
        const vec *b21 = weights_in(j, c + j->half_c, k, copy[2]);
        const vec *b22 = weights_in(j, c + j->half_c, k + j->half_k, copy[3]);
        for (int l = 0; l < BLOCK; l++, to += PANEL) {
            const vec t1 = b12[l] - b11[l], t2 = b22[l] - t1;
            to[0] = b11[l];
            to[far] = b21[l];
            to[2 * far] = t2;
            to[3 * far] = b22[l] - b12[l];
            to[4 * far] = b21[l] - t2;
            to[5 * far] = t1;
            to[6 * far] = b22[l];
        }
    }
}

/* --- the products ---------------------------------------------------------------------------------------------- */

/* How outputs are finished: added to what is there, or not; then a bias for each block of the panel, in both halves
 * of the outputs, and the activation. */
typedef struct finish {
    bool add, bare, stream; /* bare: neither added to, nor bias, nor activation */
    activation act;
    vec bias[2][PANEL];
} finish;

typedef vec sums[LINES][PANEL];
#define EACH_SUM                                                                                                     \
    _Pragma("GCC unroll 16") for (int l = 0; l < LINES; l++) _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++)

/* s += a[blocks][LINES][BLOCK] x w[blocks][BLOCK][PANEL] */
INLINE void multiply(const int vectors, sums s, const float *a, const vec *w, int64_t blocks)
{
    for (; blocks > 0; blocks--, a += LINES * BLOCK)
        for (int c = 0; c < BLOCK; c++, w += PANEL)
#pragma GCC unroll 16
            for (int l = 0; l < LINES; l++) {
                const vec x = vec_all(a[l * BLOCK + c]);
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++)
                    s[l][v] += x * w[v];
            }
}

/* Lines of the outputs that are written soon. */
INLINE void expect(const int vectors, const vec *to, int64_t plane, bool stream)
{
    for (int l = 0; l < LINES && !stream; l++)
        for (int v = 0; v < vectors; v++)
            __builtin_prefetch(to + v * plane + l, 1);
}

INLINE void put(const int vectors, sums s, vec *to, int64_t plane, const finish *f, const vec *bias)
{
    if (f->bare && f->stream)
        EACH_SUM vec_store(to + v * plane + l, s[l][v], true);
    else if (f->bare)
        EACH_SUM to[v * plane + l] = s[l][v];
    else
        EACH_SUM
        {
            const vec x = f->add ? s[l][v] + to[v * plane + l] : s[l][v];
            vec_store(to + v * plane + l, vec_activate(x + bias[v], f->act), f->stream);
        }
}

/* Both rows of a pair and `vectors` blocks in each half of the outputs: c11, c12, c21, c22 are `plane` apart. */
INLINE void seven_of(const int vectors, const float *a, const vec *w, int64_t blocks, vec *const to[4], int64_t plane,
                     const finish *f)
{
    const int64_t na = blocks * LINES * BLOCK, nw = blocks * BLOCK * PANEL;
    sums s = {{{0}}}, first, u2, u3;
    multiply(vectors, s, a, w, blocks);
    EACH_SUM first[l][v] = s[l][v];
    expect(vectors, to[0], plane, f->stream);
    multiply(vectors, s, a + na, w + nw, blocks);
    put(vectors, s, to[0], plane, f, f->bias[0]);

    EACH_SUM s[l][v] = first[l][v];
    multiply(vectors, s, a + 2 * na, w + 2 * nw, blocks);
    EACH_SUM u2[l][v] = s[l][v];
    multiply(vectors, s, a + 3 * na, w + 3 * nw, blocks);
    EACH_SUM u3[l][v] = s[l][v];
    expect(vectors, to[2], plane, f->stream);
    multiply(vectors, s, a + 4 * na, w + 4 * nw, blocks);
    put(vectors, s, to[2], plane, f, f->bias[0]);

    EACH_SUM s[l][v] = (vec){0};
    expect(vectors, to[3], plane, f->stream);
    multiply(vectors, s, a + 5 * na, w + 5 * nw, blocks);
    EACH_SUM u3[l][v] += s[l][v];
    put(vectors, u3, to[3], plane, f, f->bias[1]);
    EACH_SUM s[l][v] += u2[l][v];
    expect(vectors, to[1], plane, f->stream);
    multiply(vectors, s, a + 6 * na, w + 6 * nw, blocks);
    put(vectors, s, to[1], plane, f, f->bias[1]);
}

static void seven(int vectors, const float *a, const vec *w, int64_t blocks, vec *const to[4], int64_t plane,
                  const finish *f)
{
    if (vectors == 2)
        seven_of(2, a, w, blocks, to, plane, f);
    else
        seven_of(1, a, w, blocks, to, plane, f);
}

/* --- the parts ------------------------------------------------------------------------------------------------- */

/* item: a panel */
static void weights_range(const step *s, int64_t begin, int64_t end)
{
    const job j = job_here(s);
    for (int64_t panel = begin; panel < end; panel++) {
        vec *to = (vec *)s->workspace + panel * j.chunks * j.weights;
        for (int64_t c = 0; c < j.half_c; c += j.chunk, to += j.weights)
            for (int64_t k = panel * PANEL, v = 0; v < PANEL && k + v < j.half_k; v++)
                sum_weights(&j, k + v, c, chunk_at(&j, c), to + v);
    }
}

/* A row of output block k, from where it was made. Zeros are to be where a block has no channels, and sums whose
 * terms cancel out leave a little. */
static void row_out(const job *j, const row *r, int64_t k, const vec *made, const finish *f, vec bias)
{
    const int64_t channels = j->dst->shape.dim[1] - k * BLOCK;
    for (int64_t l = 0; l < r->count && channels > 0; l++) {
        vec *to = plane_at(j->dst, r->n, k) + r->at + l;
        const vec x = load_lanes((const float *)(made + l), first_lanes(channels), (vec){0});
        *to = vec_activate(x + (f->add ? *to : (vec){0}) + bias, f->act);
    }
}

/* Output blocks k and on, in both halves, of one pair. Where a sample ends within a row, or blocks of outputs
 * are not full, products are made elsewhere first. */
static void make_pair(const job *j, int64_t number, int64_t k, const vec *inputs, const vec *weights, int64_t blocks,
                      const finish *f)
{
    const int vectors = j->half_k - k < PANEL ? 1 : PANEL;
    const int64_t other = k + j->half_k;
    const row one = row_of(j, 2 * number), two = row_of(j, 2 * number + 1);
    if (two.count == LINES && (other + vectors) * BLOCK <= j->dst->shape.dim[1]) {
        vec *const to[4] = {plane_at(j->dst, one.n, k) + one.at, plane_at(j->dst, one.n, other) + one.at,
                            plane_at(j->dst, two.n, k) + two.at, plane_at(j->dst, two.n, other) + two.at};
        seven(vectors, (const float *)inputs, weights, blocks, to, j->plane, f);
        return;
    }
    vec made[4][PANEL * LINES];
    seven(vectors, (const float *)inputs, weights, blocks, (vec *const[]){made[0], made[1], made[2], made[3]}, LINES,
          &(finish){.bare = true});
    for (int v = 0; v < vectors; v++) {
        row_out(j, &one, k + v, made[0] + v * LINES, f, f->bias[0][v]);
        row_out(j, &one, other + v, made[1] + v * LINES, f, f->bias[1][v]);
        row_out(j, &two, k + v, made[2] + v * LINES, f, f->bias[0][v]);
        row_out(j, &two, other + v, made[3] + v * LINES, f, f->bias[1][v]);
    }
}

static finish finish_of(const job *j, int64_t k, int64_t c)
{
    const bool last = c + j->chunk >= j->half_c;
    finish f = {.add = c > 0, .act = last ? j->act : ACT_NONE};
    for (int v = 0; v < PANEL && last && j->bia; v++)
        for (int h = 0; h < 2; h++)
            f.bias[h][v] = k + v + h * j->half_k < j->K ? bias_of(j->bia, k + v + h * j->half_k) : (vec){0};
    f.bare = !f.add && f.act == ACT_NONE && !(last && j->bia);
    f.stream = j->stream && j->chunks == 1; /* else it is read again */
    return f;
}

/* item: a part */
static void parts_range(const step *s, int64_t begin, int64_t end)
{
    const job j = job_here(s);
    const vec *weights = s->workspace;
    for (int64_t part = begin; part < end; part++) {
        vec *inputs = (vec *)s->workspace + j.panels * j.chunks * j.weights + part * j.size;
        const int64_t last = j.pairs * (part + 1) / j.parts;
        for (int64_t first = j.pairs * part / j.parts; first < last; first += j.run) {
            const int64_t count = last - first < j.run ? last - first : j.run;
            for (int64_t c = 0; c < j.half_c; c += j.chunk) {
                for (int64_t i = 0; i < count; i++)
                    sum_inputs(&j, first + i, c, chunk_at(&j, c), inputs + i * j.inputs);
                for (int64_t p = 0; p < j.panels; p++) {
                    const finish f = finish_of(&j, p * PANEL, c);
                    for (int64_t i = 0; i < count; i++)
                        make_pair(&j, first + i, p * PANEL, inputs + i * j.inputs,
                                  weights + (p * j.chunks + c / j.chunk) * j.weights, chunk_at(&j, c), &f);
                }
            }
        }
    }
    vec_stream_end(j.stream);
}

static brasa_status run(const step *s)
{
    const job j = job_here(s);
    step_for(s, j.panels, (double)(j.C * j.K) * BLOCK * BLOCK * 2, weights_range);
    step_for(s, j.parts, (double)s->out[0].count * (double)j.C * BLOCK, parts_range);
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    const job j = job_planned(g, n);
    return (j.panels * j.chunks * j.weights + j.parts * j.size) * (int64_t)sizeof(vec);
}

/* Where it pays. Its times over those of oneDNN, on two cores of an AMD EPYC (Zen 4), batch 32: 0.90 to 0.99 with 256
 * channels and more on either side, 0.97 to 1.04 with 128, 1.03 to 1.46 with 64. At batch 1 on one core, 0.96 to 1.09
 * with pictures of 14 x 14 and 28 x 28. */
enum { FEWEST_CHANNELS = 128, FEWEST_PIXELS = 128 };

/* Halves of channels are whole blocks, pairs of rows are whole: a sixteenth more than there is would be as much as
 * half of what there is to gain. */
static bool fills(int64_t count, int64_t unit)
{
    return 16 * (divide_up(count, unit) * unit - count) <= count;
}

static bool supports(const graph *g, const node *n)
{
    const conv2d_attr *t = n->attr;
    const window_attr *w = &t->window;
    const bool data = n->op == &conv2d_grad_data_op;
    const shape *src = &g->values[n->in[data ? 1 : 0]].shape, *dst = &g->values[n->out[0]].shape;
    return simd_matches(g, n) && w->size.h == 1 && w->size.w == 1 && w->stride.h == 1 && w->stride.w == 1 &&
           t->groups == 1 && shape_span(src, 2, 4) == shape_span(dst, 2, 4) && src->dim[1] >= FEWEST_CHANNELS &&
           dst->dim[1] >= FEWEST_CHANNELS && src->dim[0] * shape_span(src, 2, 4) >= FEWEST_PIXELS &&
           fills(src->dim[1], 2 * BLOCK) && fills(dst->dim[1], 2 * BLOCK) && fills(shape_span(src, 2, 4), 2 * LINES);
}

/* Where it is taken unseen: with fewer pixels it took 1.03 to 1.3 times as long as oneDNN on a core of an Intel Xeon
 * (Emerald Rapids), and 0.9 to 1.4 times with more, 0.90 to 0.99 on an AMD EPYC (Zen 4): docs/speed.md. */
enum { PIXELS_THAT_PAY = 2048 };

static bool pays(const graph *g, const node *n)
{
    const shape *dst = &g->values[n->out[0]].shape;
    return dst->dim[0] * shape_span(dst, 2, 4) >= PIXELS_THAT_PAY;
}

const kernel SIMD_TABLE(conv2d_strassen)[] = {
    BOTH_WAYS("strassen", .supports = supports, .pays = pays, .formats = conv2d_formats),
    {0},
};
