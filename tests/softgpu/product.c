/* product.c - products of matrices whose elements lie anywhere: see product.h.
 *
 * The sums are made in tiles. For each piece of k both factors of a tile are gathered into small matrices of floats,
 * and the rest is one loop over vectors.
 */
#include "product.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum {
    HIGH = 6,                   /* rows whose sums are in registers */
    WIDE = 16,                  /* and columns */
    BLOCK = 16 * HIGH,          /* rows of A that are gathered at a time */
    ROWS = 5 * BLOCK,           /* of a tile, at most */
    COLS = 16 * WIDE,           /* the same */
    SMALL = 1 << 21,            /* products that one thread makes faster than several */
    LINE = SOFT_MOST_PIECE + 16 /* from a row of A to the next: no power of two, which caches dislike */
};

typedef float lanes __attribute__((vector_size(WIDE * sizeof(float)), may_alias));

/* Neighbours on an axis which are the same distance apart, all at one point of the plane. */
typedef struct run {
    int64_t first, count, offset, step;
    int32_t y, x;
} run;

/* What a thread works with. */
typedef struct desk {
    float a[BLOCK * LINE];           /* row by row */
    float b[SOFT_MOST_PIECE * COLS]; /* WIDE columns after WIDE columns, in each row by row */
    float sums[ROWS * COLS];
    run runs[SOFT_MOST_PIECE], other[SOFT_MOST_PIECE];
} desk;

static _Thread_local _Alignas(64) desk own_desk;

typedef struct range {
    int64_t lo, hi;
} range;

static range part_of(int64_t all, int64_t size, int64_t number)
{
    const int64_t lo = number * size, hi = lo + size;
    return (range){lo < all ? lo : all, hi < all ? hi : all};
}

static int64_t parts(int64_t all, int64_t size)
{
    return (all + size - 1) / size;
}

/* --- gathering ------------------------------------------------------------------------------------------------- */

static int64_t find_runs(const soft_place *place, range r, run *to)
{
    int64_t count = 0;
    for (int64_t i = r.lo; i < r.hi; i++) {
        run *last = to + (count ? count - 1 : 0);
        const bool same = count && place[i].y == last->y && place[i].x == last->x;
        const int64_t step = same ? place[i].offset - place[i - 1].offset : 0;
        if (same && (last->count == 1 || step == last->step)) {
            last->count++;
            last->step = step;
        } else {
            to[count++] = (run){i - r.lo, 1, place[i].offset, 1, place[i].y, place[i].x};
        }
    }
    return count;
}

/* to[0], to[line], ... = what lies `step` apart. What is next to each other on both sides becomes vectors. */
#define COPY(number)                                                                                                 \
    if (line == 1 && step == 1)                                                                                      \
        for (int64_t i = 0, at = 0; i < count; i++, at++)                                                            \
            to[i] = number;                                                                                          \
    else                                                                                                             \
        for (int64_t i = 0, at = 0; i < count; i++, at += step)                                                      \
        to[i * line] = number

static void copy(float *restrict to, int64_t line, const soft_matrix *m, int64_t offset, int64_t step, int64_t count,
                 bool tf32)
{
    if (m->type == SOFT_BF16) {
        const uint16_t *from = (const uint16_t *)m->at + offset;
        COPY(soft_from_bf16(from[at]));
        return;
    }
    const float *from = (const float *)m->at + offset;
    if (tf32)
        COPY(soft_to_tf32(from[at]));
    else
        COPY(from[at]);
}

/* Gathers some lines, each of these runs: elements of a line are `apart`, and lines `line`. */
static void gather_runs(const soft_matrix *m, bool tf32, const soft_place *place, range lines, const run *runs,
                        int64_t count, float *to, int64_t line, int64_t apart)
{
    for (int64_t i = lines.lo; i < lines.hi; i++, to += line)
        for (const run *r = runs; r < runs + count; r++) {
            const int32_t y = place[i].y + r->y, x = place[i].x + r->x;
            if (!m->height || (y >= 0 && y < m->height && x >= 0 && x < m->width))
                copy(to + r->first * apart, apart, m, place[i].offset + r->offset, r->step, r->count, tf32);
            else
                for (int64_t k = r->first; k < r->first + r->count; k++)
                    to[k * apart] = 0;
        }
}

/* Gathers a part of a matrix: the way along which the runs are longer. */
static void gather(const soft_matrix *m, bool tf32, range rows, range cols, float *to, int64_t row_line,
                   int64_t col_line, desk *d)
{
    const int64_t in_rows = find_runs(m->col, cols, d->runs), in_cols = find_runs(m->row, rows, d->other);
    if ((cols.hi - cols.lo) * in_cols >= (rows.hi - rows.lo) * in_rows)
        gather_runs(m, tf32, m->row, rows, d->runs, in_rows, to, row_line, col_line);
    else
        gather_runs(m, tf32, m->col, cols, d->other, in_cols, to, col_line, row_line);
}

/* --- tiles ----------------------------------------------------------------------------------------------------- */

/* Adds the sums of one piece to HIGH x WIDE of those of the tile. */
static void add_block(int64_t depth, const float *restrict a, const float *restrict b, float *restrict sums)
{
    lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0};
    for (int64_t k = 0; k < depth; k++, a++, b += WIDE) {
        const lanes right = *(const lanes *)b;
        s0 += a[0] * right;
        s1 += a[LINE] * right;
        s2 += a[2 * LINE] * right;
        s3 += a[3 * LINE] * right;
        s4 += a[4 * LINE] * right;
        s5 += a[5 * LINE] * right;
    }
    *(lanes *)sums += s0;
    *(lanes *)(sums + COLS) += s1;
    *(lanes *)(sums + 2 * COLS) += s2;
    *(lanes *)(sums + 3 * COLS) += s3;
    *(lanes *)(sums + 4 * COLS) += s4;
    *(lanes *)(sums + 5 * COLS) += s5;
}

static void add_piece(const soft_product *p, range rows, range cols, range piece, desk *d)
{
    const int64_t width = cols.hi - cols.lo, depth = piece.hi - piece.lo;
    for (int64_t j = 0; j < width; j += WIDE) {
        const range some = {cols.lo + j, cols.lo + j + WIDE < cols.hi ? cols.lo + j + WIDE : cols.hi};
        if (some.hi - some.lo < WIDE)
            memset(d->b + j * depth, 0, (size_t)(depth * WIDE) * sizeof *d->b);
        gather(&p->b, p->tf32, piece, some, d->b + j * depth, WIDE, 1, d);
    }
    for (int64_t i = 0; i < rows.hi - rows.lo; i += BLOCK) {
        const range some = {rows.lo + i, rows.lo + i + BLOCK < rows.hi ? rows.lo + i + BLOCK : rows.hi};
        const int64_t height = some.hi - some.lo, padded = parts(height, HIGH) * HIGH;
        memset(d->a + height * LINE, 0, (size_t)((padded - height) * LINE) * sizeof *d->a);
        gather(&p->a, p->tf32, some, piece, d->a, LINE, 1, d);
        for (int64_t j = 0; j < width; j += WIDE)
            for (int64_t r = 0; r < height; r += HIGH)
                add_block(depth, d->a + r * LINE, d->b + j * depth, d->sums + (i + r) * COLS + j);
    }
}

static void make_tile(const soft_product *p, int64_t split, range rows, range cols, range all, desk *d)
{
    const int64_t height = rows.hi - rows.lo, width = cols.hi - cols.lo;
    memset(d->sums, 0, (size_t)(parts(height, HIGH) * HIGH * COLS) * sizeof *d->sums);
    for (int64_t k = all.lo; k < all.hi; k += p->piece) {
        add_piece(p, rows, cols, (range){k, k + p->piece < all.hi ? k + p->piece : all.hi}, d);
        for (int64_t i = 0; i < height * COLS && p->rounded; i++)
            d->sums[i] = soft_round(d->sums[i], SOFT_BF16);
    }
    for (int64_t i = 0; i < height; i++) {
        float *sums = d->sums + i * COLS;
        if (p->splits > 1)
            memcpy(p->workspace + (split * p->m + rows.lo + i) * p->n + cols.lo, sums, (size_t)width * sizeof *sums);
        else
            p->store(p->user, rows.lo + i, cols.lo, width, sums);
    }
}

/* The second step, where k is split. */
static void add_splits(const soft_product *p)
{
    const int64_t in_row = parts(p->n, COLS);
#pragma omp parallel for if (p->m * p->n > SMALL)
    for (int64_t at = 0; at < p->m * in_row; at++) {
        const int64_t i = at / in_row;
        const range cols = part_of(p->n, COLS, at % in_row);
        float sums[COLS] = {0};
        for (int64_t split = 0; split < p->splits; split++)
            for (int64_t j = cols.lo; j < cols.hi; j++)
                sums[j - cols.lo] += p->workspace[(split * p->m + i) * p->n + j];
        p->store(p->user, i, cols.lo, cols.hi - cols.lo, sums);
    }
}

/* Rows of a tile: a few tiles for each thread. */
static int64_t rows_of(const soft_product *p, int64_t splits)
{
    int64_t threads = 1;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    const int64_t wanted = parts(p->m * parts(p->n, COLS) * splits, 4 * threads);
    return wanted > ROWS ? ROWS : wanted < BLOCK ? BLOCK : parts(wanted, HIGH) * HIGH;
}

void soft_multiply(const soft_product *p)
{
    const int64_t splits = p->splits > 1 ? p->splits : 1, rows = rows_of(p, splits), depth = parts(p->k, splits);
    const int64_t down = parts(p->m, rows), across = parts(p->n, COLS);
    if (splits > 1) /* what is read there before it is written shows */
        memset(p->workspace, 0xff, (size_t)(splits * p->m * p->n) * sizeof *p->workspace);
#pragma omp parallel for schedule(dynamic) if (p->m * p->n * p->k > SMALL)
    for (int64_t t = 0; t < splits * down * across; t++)
        make_tile(p, t / across / down, part_of(p->m, rows, t / across % down), part_of(p->n, COLS, t % across),
                  part_of(p->k, depth, t / across / down), &own_desk);
    if (splits > 1)
        add_splits(p);
}
