/* dense_update_simd.c - the gradient of a dense layer's weights and the update by it, in one pass, with vectors.
 *
 * N samples, C inputs, K outputs. In the layouts that forward kernels ask for, the weights are one matrix or several,
 * stored row by row:
 *     oi, oIhw8i         one, K x C: a row for each output
 *     io                 one, C x K: a row for each input
 *     OI16i64o and kin   one for each block of outputs, C x 64
 * and element (r, c) of the gradient is the sum over the samples of row[n][r] x col[n][c], where row and col are
 * ddst and src, or src and ddst. Both are packed first, so that everything is then read from the first byte to the
 * last: rows in groups of LINES, columns in groups of a few vectors, the last one of each filled up
 * with zeros. A sum is made in registers, sample after sample.
 *
 * It is taken for every batch. On VGG-16's first dense layer with momentum, one thread with AVX-512, oneDNN's
 * gradient and the update apart took 80, 93, 123 and 281 ms of processor time for 1, 8, 32 and 100 samples, this 44,
 * 56, 105 and 268. With Adam compiled for AVX-512, 4096 x 4096 weights: 16, 16, 22 and 43 ms apart, 11, 14, 24 and 45
 * here, so from about 32 samples on it pays some time for the room of the gradient. The others were not timed.
 */
#include "backend/cpu/simd.h"
#include "ops/dense/dense.h"

#ifdef SIMD_AVX512
enum { MOST_VECTORS = 4 }; /* of a group of columns: with LINES rows half of the 32 registers hold sums */
#else
enum { MOST_VECTORS = 2 };
#endif
enum { LINES = 4 };
/* Weights that the optimizer's kernel is called for at a time. Of 1024, 2048 and 4096 the first was the fastest, on
 * 4096 x 4096 weights with momentum at 1, 8 and 32 samples. */
enum { SPAN = 1024 };

typedef struct matrices {
    int64_t count, rows, cols; /* of each */
    bool by_input;             /* a row belongs to an input of the layer, a column to an output; else the reverse */
    int vectors;               /* of a group of columns */
    layout src;
} matrices;

/* Vectors of a group of columns: as many as leave no group half empty, or as rows have room for. */
static int vectors_of(int64_t cols)
{
    int vectors = MOST_VECTORS;
    while (vectors > 1 && (cols % BLOCK == 0 ? cols % (vectors * BLOCK) != 0 : cols < vectors * BLOCK))
        vectors /= 2;
    return vectors;
}

/* False for a layout of another kind. */
static bool matrices_of(const layout *l, const shape *wei, matrices *m)
{
    const int64_t K = wei->dim[0], all = layout_count(l, wei);
    const bool blocks = !l->permuted && l->nblocks == 2 && l->axis[0] == 1 && l->axis[1] == 0;
    const bool inputs = !l->permuted && (l->nblocks == 0 || (l->nblocks == 1 && l->axis[0] == 1));
    const bool turned = l->permuted && l->nblocks == 0 && wei->rank == 2; /* there is one such order */
    *m = (matrices){.by_input = !inputs};
    if (blocks) {
        m->count = (K + l->block[1] - 1) / l->block[1];
        m->cols = l->block[1];
    } else if (inputs || turned) {
        m->count = 1;
        m->cols = inputs ? all / K : K;
    } else {
        return false;
    }
    m->rows = all / m->count / m->cols;
    if (wei->rank == 4 && l->nblocks)
        m->src = (layout){.nblocks = 1, .axis = {1}, .block = {l->block[0]}};
    m->vectors = vectors_of(m->cols);
    return m->count == 1 || m->cols % BLOCK == 0;
}

static matrices matrices_here(const step *s)
{
    matrices m;
    matrices_of(&s->in[DENSE_WEI].layout, &s->in[DENSE_WEI].shape, &m);
    return m;
}

static bool supports(const graph *g, const node *n)
{
    const value *wei = &g->values[n->in[DENSE_WEI]];
    matrices m;
    return g->ctx->isa == SIMD_ISA && (!wei->settled || matrices_of(&wei->layout, &wei->shape, &m));
}

static void layouts(const graph *g, const node *n, layout *in, layout *out)
{
    const value *wei = &g->values[n->in[DENSE_WEI]];
    matrices m;
    matrices_of(&wei->layout, &wei->shape, &m);
    dense_update_layouts(g, n, in, out);
    in[0] = m.src;
}

/* --- packing -------------------------------------------------------------------------------------------------- */

static int64_t groups_of(int64_t items, int64_t width)
{
    return (items + width - 1) / width;
}

/* Groups of columns. Where there are several matrices, the columns of each fill theirs. */
static int64_t col_groups(const matrices *m)
{
    return groups_of(m->count * m->cols, (int64_t)m->vectors * BLOCK);
}

/* Floats of the packed columns, which come first, and of both. */
static int64_t packed_cols(const matrices *m, int64_t N)
{
    return col_groups(m) * m->vectors * BLOCK * N;
}

static int64_t packed(const matrices *m, int64_t N)
{
    return packed_cols(m, N) + groups_of(m->rows, LINES) * LINES * N;
}

static int64_t workspace(const graph *g, const node *n)
{
    const value *wei = &g->values[n->in[DENSE_WEI]];
    matrices m;
    matrices_of(&wei->layout, &wei->shape, &m);
    return packed(&m, g->values[n->in[1]].shape.dim[0]) * (int64_t)sizeof(float);
}

/* The groups begin .. end - 1 of a, which is N x length, go to to[group][n][width]; beyond `length` there are zeros.
 */
static void pack(const arg *a, int64_t N, int64_t width, int64_t begin, int64_t end, float *to)
{
    const int64_t length = a->count / N;
    for (int64_t group = begin; group < end; group++) {
        const float *from = (const float *)a->data + group * width;
        const int64_t left = length - group * width, here = left < 0 ? 0 : left < width ? left : width;
        for (int64_t n = 0; n < N; n++) {
            float *place = to + (group * N + n) * width;
            for (int64_t j = 0; j < here; j++)
                place[j] = from[n * length + j];
            for (int64_t j = here; j < width; j++)
                place[j] = 0;
        }
    }
}

/* item: a group of rows */
static void pack_rows(const step *s, int64_t begin, int64_t end)
{
    const matrices m = matrices_here(s);
    const int64_t N = s->in[1].shape.dim[0];
    pack(&s->in[m.by_input ? 0 : 1], N, LINES, begin, end, (float *)s->workspace + packed_cols(&m, N));
}

/* item: a group of columns */
static void pack_cols(const step *s, int64_t begin, int64_t end)
{
    const matrices m = matrices_here(s);
    pack(&s->in[m.by_input ? 1 : 0], s->in[1].shape.dim[0], m.vectors * BLOCK, begin, end, s->workspace);
}

/* --- the pass over the weights -------------------------------------------------------------------------------- */

/* LINES rows of a group of columns, into dwei, whose rows are `stride` apart. */
static inline __attribute__((always_inline)) void tile(const float *row, const float *col, int64_t N,
                                                       const int vectors, float *dwei, int64_t stride)
{
    vec sum[LINES][MOST_VECTORS] = {{{0}}};
    for (int64_t n = 0; n < N; n++, row += LINES, col += vectors * BLOCK)
        for (int r = 0; r < LINES; r++)
            for (int v = 0; v < vectors; v++)
                sum[r][v] += vec_all(row[r]) * *(const vec *)(col + v * BLOCK);
    for (int r = 0; r < LINES; r++)
        for (int v = 0; v < vectors; v++)
            *(vec *)(dwei + r * stride + v * BLOCK) = sum[r][v];
}

/* A part of the weights of one matrix, and of their gradient: it is stored without a gap, or has LINES rows. */
typedef struct part {
    int64_t first;       /* element, as stored */
    int64_t lines, span; /* rows and columns */
    int64_t stride;      /* from row to row of the gradient: whole groups of columns */
    int64_t ahead;       /* from an element to that of the part behind in the same place */
} part;

/* Asks for `width` weights, and as much of each slot, that the next part wants: memory is read while this part is
 * computed. */
static inline void prefetch(const step *s, int64_t at, int64_t width)
{
    for (int k = 0; k <= s->nin - DENSE_SLOTS && at + width <= s->out[k].count; k++)
        for (int64_t i = 0; i < width; i += 64 / (int64_t)sizeof(float))
            __builtin_prefetch((const float *)s->out[k].data + at + i, 1);
}

/* The gradient of a part: dwei[lines, rounded up to LINES][stride]. */
static void gradient(const step *s, const matrices *m, const part *p, const float *row, const float *col, float *dwei)
{
    const int64_t N = s->in[1].shape.dim[0], width = (int64_t)m->vectors * BLOCK;
    for (int64_t r = 0; r < p->lines; r += LINES, row += LINES * N) {
        for (int64_t c = 0; c < p->span; c += width) {
            float *to = dwei + r * p->stride + c;
            for (int64_t i = r; i < r + LINES; i++)
                prefetch(s, p->first + p->ahead + i * m->cols + c, width);
            if (m->vectors == MOST_VECTORS)
                tile(row, col + c * N, N, MOST_VECTORS, to, p->stride);
            else if (m->vectors == 2)
                tile(row, col + c * N, N, 2, to, p->stride);
            else
                tile(row, col + c * N, N, 1, to, p->stride);
        }
    }
}

/* Columns rounded up to whole groups. */
static int64_t whole_groups(const matrices *m, int64_t cols)
{
    const int64_t width = (int64_t)m->vectors * BLOCK;
    return groups_of(cols, width) * width;
}

/* Rows of a part: LINES, or more where its gradient then has at most SPAN elements. */
static int64_t lines_of(const matrices *m)
{
    const int64_t stride = whole_groups(m, m->cols);
    return stride >= SPAN / LINES ? LINES : SPAN / stride / LINES * LINES;
}

/* item: lines_of rows of a matrix */
static void update_range(const step *s, int64_t begin, int64_t end)
{
    _Alignas(64) float dwei[LINES * SPAN];
    const matrices m = matrices_here(s);
    const int64_t N = s->in[1].shape.dim[0], most = lines_of(&m), items = groups_of(m.rows, most);
    const float *cols = s->workspace, *rows = cols + packed_cols(&m, N);
    dense_part update_part;
    dense_part_init(&update_part, s);
    for (int64_t item = begin; item < end; item++) {
        const int64_t matrix = item / items, r = item % items * most, lines = m.rows - r < most ? m.rows - r : most;
        for (int64_t c = 0; c < m.cols; c += SPAN) {
            part p = {.first = (matrix * m.rows + r) * m.cols + c,
                      .lines = lines,
                      .span = m.cols - c < SPAN ? m.cols - c : SPAN};
            p.stride = whole_groups(&m, p.span);
            const bool whole = p.span == m.cols && p.stride == m.cols;
            p.ahead = whole ? lines * m.cols : p.span;
            gradient(s, &m, &p, rows + r * N, cols + (matrix * m.cols + c) * N, dwei);
            for (int64_t i = 0; i < (whole ? 1 : lines); i++)
                dense_part_run(&update_part, p.first + i * m.cols, whole ? lines * p.span : p.span,
                               dwei + i * p.stride);
        }
    }
}

static brasa_status dense_update(const step *s)
{
    const matrices m = matrices_here(s);
    const double samples = (double)s->in[1].shape.dim[0];
    dense_update_bias(s);
    step_for(s, groups_of(m.rows, LINES), samples * (double)m.rows, pack_rows);
    step_for(s, col_groups(&m), samples * (double)(m.count * m.cols), pack_cols);
    step_for(s, m.count * groups_of(m.rows, lines_of(&m)), samples * (double)s->out[0].count, update_range);
    return BRASA_OK;
}

const kernel SIMD_TABLE(dense_update)[] = {
    {
        .name = SIMD_NAME("dense_update"),
        .op = &dense_update_op,
        .real = F32,
        .isa = SIMD_ISA,
        .supports = supports,
        .layouts = layouts,
        .open = dense_update_open_fast,
        .workspace = workspace,
        .run = dense_update,
    },
    {0},
};
