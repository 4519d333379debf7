/* dense_update_simd.c - the gradient of a dense layer's weights, the update by it, and with few samples the gradient
 * of the data, in one pass, with vectors. (Two, where weights lie output by output.)
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
#include "device/cpu/simd.h"
#include "ops/dense/dense.h"

#include <string.h>

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
        m->src = layout_in_blocks(1, l->block[0]);
    m->vectors = vectors_of(m->cols);
    return m->count == 1 || m->cols % BLOCK == 0;
}

static matrices matrices_here(const step *s)
{
    matrices m;
    matrices_of(&s->in[FUSED_WEI].format.layout, &s->in[FUSED_WEI].shape, &m);
    return m;
}

static bool supports(const graph *g, const node *n)
{
    const value *wei = &g->values[n->in[FUSED_WEI]];
    matrices m;
    return g->ctx->isa == SIMD_ISA && (!wei->settled || matrices_of(&wei->format.layout, &wei->shape, &m));
}

static void formats(const graph *g, const node *n, format *in, format *out)
{
    const value *wei = &g->values[n->in[FUSED_WEI]];
    matrices m;
    matrices_of(&wei->format.layout, &wei->shape, &m);
    fused_update_formats(g, n, in, out);
    in[0].layout = m.src;
    if (((const fused_update_attr *)n->attr)->data)
        out[n->nout - 1].layout = m.src;
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

/* Where a row belongs to an input, its weights by the gradients of their outputs are a share of that input's: all of
 * it where there is one matrix. Of several, which are gone through one after the other as they lie in memory, some
 * make a sum, and these sums are added up: SUMS of them, however many threads there are. */
enum { SUMS = 32 };

static int64_t sums_of(const matrices *m)
{
    return m->count < SUMS ? m->count : SUMS;
}

static int64_t workspace(const graph *g, const node *n)
{
    const value *wei = &g->values[n->in[FUSED_WEI]];
    matrices m;
    matrices_of(&wei->format.layout, &wei->shape, &m);
    const int64_t N = g->values[n->in[1]].shape.dim[0];
    const bool sums = ((const fused_update_attr *)n->attr)->data && m.by_input;
    return (packed(&m, N) + (sums ? sums_of(&m) * N * m.rows : 0)) * (int64_t)sizeof(float);
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
    for (int k = 0; k <= s->nin - FUSED_SLOTS && at + width <= s->out[k].count; k++)
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

/* What a thread goes over the weights with. */
typedef struct pass {
    const step *s;
    matrices m;
    int64_t N;
    const float *rows, *cols; /* packed */
    fused_part update;
} pass;

static pass pass_of(const step *s)
{
    pass p = {.s = s, .m = matrices_here(s), .N = s->in[1].shape.dim[0]};
    p.cols = s->workspace;
    p.rows = p.cols + packed_cols(&p.m, p.N);
    return p;
}

/* One part: its gradient, and the update. */
static void run_part(pass *a, const part *p, int64_t r, const float *col)
{
    _Alignas(64) float dwei[LINES * SPAN];
    const bool whole = p->span == a->m.cols && p->stride == a->m.cols;
    gradient(a->s, &a->m, p, a->rows + r * a->N, col, dwei);
    for (int64_t i = 0; i < (whole ? 1 : p->lines); i++)
        fused_part_run(&a->update, p->first + i * a->m.cols, whole ? p->lines * p->span : p->span,
                       dwei + i * p->stride);
}

static part part_at(const matrices *m, int64_t matrix, int64_t r, int64_t lines, int64_t c)
{
    part p = {.first = (matrix * m->rows + r) * m->cols + c,
              .lines = lines,
              .span = m->cols - c < SPAN ? m->cols - c : SPAN};
    p.stride = whole_groups(m, p.span);
    p.ahead = p.span == m->cols && p.stride == m->cols ? lines * m->cols : p.span;
    return p;
}

/* --- with the gradient of the data ---------------------------------------------------------------------------- */

/* Row r and on of a part, for each sample: into, or added to, sum[n][rows]. */
static void data_of_part(const pass *a, const part *p, const float *col, int64_t r, bool add, float *sum)
{
    const int64_t width = (int64_t)a->m.vectors * BLOCK;
    for (int64_t i = 0; i < p->lines; i++) {
        const float *wei = (const float *)a->s->in[FUSED_WEI].data + p->first + i * a->m.cols;
        for (int64_t n = 0; n < a->N; n++) {
            vec here = {0};
            for (int64_t c = 0; c < p->span; c += BLOCK)
                here += load_lanes(wei + c, first_lanes(p->span - c), (vec){0}) *
                        *(const vec *)(col + c / width * width * a->N + n * width + c % width);
            float *to = sum + n * a->m.rows + r + i;
            *to = (add ? *to : 0) + sum_lanes(here);
        }
    }
}

/* All of some rows of a matrix. */
static void run_rows(pass *a, int64_t matrix, int64_t r, int64_t lines, bool add, float *sum)
{
    const matrices *m = &a->m;
    for (int64_t c = 0; c < m->cols; c += SPAN) {
        const float *col = a->cols + (matrix * m->cols + c) * a->N;
        const part p = part_at(m, matrix, r, lines, c);
        if (sum)
            data_of_part(a, &p, col, r, add || c, sum);
        run_part(a, &p, r, col);
    }
}

/* item: lines_of rows of a matrix */
static void update_range(const step *s, int64_t begin, int64_t end)
{
    pass a = pass_of(s);
    const int64_t most = lines_of(&a.m), items = groups_of(a.m.rows, most);
    fused_part_init(&a.update, s);
    for (int64_t item = begin; item < end; item++) {
        const int64_t r = item % items * most;
        run_rows(&a, item / items, r, a.m.rows - r < most ? a.m.rows - r : most, false, NULL);
    }
}

static float *sum_at(const pass *a, int64_t i)
{
    return (float *)a->s->workspace + packed(&a->m, a->N) + i * a->N * a->m.rows;
}

/* item: lines_of rows, in the matrices of one sum. Those of a range that lie one after the other are gone through so.
 */
static void inputs_range(const step *s, int64_t begin, int64_t end)
{
    pass a = pass_of(s);
    const matrices *m = &a.m;
    const int64_t most = lines_of(m), items = groups_of(m->rows, most), sums = sums_of(m);
    fused_part_init(&a.update, s);
    for (int64_t item = begin, next; item < end; item = next) {
        const int64_t i = item / items, first = m->count * i / sums;
        next = (i + 1) * items < end ? (i + 1) * items : end;
        const int64_t lo = (item - i * items) * most, hi = (next - i * items) * most;
        for (int64_t k = first; k < m->count * (i + 1) / sums; k++)
            for (int64_t r = lo; r < hi && r < m->rows; r += most)
                run_rows(&a, k, r, m->rows - r < most ? m->rows - r : most, k > first, sum_at(&a, i));
    }
}

/* item: an input */
static void add_sums(const step *s, int64_t begin, int64_t end)
{
    const pass a = pass_of(s);
    const arg *dsrc = dense_update_dsrc(s);
    const int64_t length = dsrc->count / a.N;
    for (int64_t n = 0; n < a.N; n++) {
        float *to = (float *)dsrc->data + n * length;
        for (int64_t r = begin; r < end; r++)
            to[r] = sum_at(&a, 0)[n * a.m.rows + r];
        for (int64_t i = 1; i < sums_of(&a.m); i++)
            for (int64_t r = begin; r < end; r++)
                to[r] += sum_at(&a, i)[n * a.m.rows + r];
    }
}

/* Where a row belongs to an output, all rows add to the gradients of all inputs: a pass of its own, before the other.
 * item: DATA_SPAN inputs */
enum { DATA_SPAN = 256 };

static void data_range(const step *s, int64_t begin, int64_t end)
{
    const matrices m = matrices_here(s);
    const arg *dsrc = dense_update_dsrc(s);
    const float *wei = s->in[FUSED_WEI].data, *ddst = s->in[1].data;
    const int64_t N = s->in[1].shape.dim[0], length = dsrc->count / N;
    float sums[DENSE_FEW][DATA_SPAN];
    for (int64_t c = begin * DATA_SPAN; c < end * DATA_SPAN && c < length; c += DATA_SPAN) {
        const int64_t span = length - c < DATA_SPAN ? length - c : DATA_SPAN;
        memset(sums, 0, sizeof sums);
        for (int64_t k = 0; k < m.rows; k++)
            for (int64_t n = 0; n < N; n++)
                for (int64_t i = 0; i < span; i++)
                    sums[n][i] += ddst[n * m.rows + k] * wei[k * m.cols + c + i];
        for (int64_t n = 0; n < N; n++)
            memcpy((float *)dsrc->data + n * length + c, sums[n], (size_t)span * sizeof(float));
    }
}

static brasa_status dense_update(const step *s)
{
    const matrices m = matrices_here(s);
    const arg *dsrc = dense_update_dsrc(s);
    const double samples = (double)s->in[1].shape.dim[0], work = samples * (double)s->out[0].count;
    const int64_t items = groups_of(m.rows, lines_of(&m));
    dense_update_bias(s);
    step_for(s, groups_of(m.rows, LINES), samples * (double)m.rows, pack_rows);
    step_for(s, col_groups(&m), samples * (double)(m.count * m.cols), pack_cols);
    if (dsrc && !m.by_input)
        step_for(s, groups_of(m.cols, DATA_SPAN), work, data_range);
    if (dsrc && m.by_input) {
        step_for(s, sums_of(&m) * items, 2 * work, inputs_range);
        step_for(s, dsrc->count / s->in[1].shape.dim[0], samples * (double)(m.rows * sums_of(&m)), add_sums);
    } else
        step_for(s, m.count * items, work, update_range);
    return BRASA_OK;
}

const kernel SIMD_TABLE(dense_update)[] = {
    SIMD_ROW("dense_update", dense_update_op, .supports = supports, .formats = formats,
             .open = fused_update_open_fast, .workspace = workspace, .run = dense_update),
    {0},
};
