/* pieces.h - the gradient of 3 x 3 weights by Winograd's algorithm, cut into pieces: what the kernels for stride 1
 * and 2 share. For files that are compiled once for each instruction set.
 *
 * C input channels, K outputs. The transformed gradient, planes of C x K, is cut into pieces that stay near: some
 * blocks of inputs and some panels of outputs. For a piece all tiles are gone through, a run of them at a time:
 *     seen   inputs, transformed
 *     given  gradients of the outputs, transformed
 *     sums   [plane][panel][input channel][PANEL]: what their products add up to
 * In the end the sums are transformed into the gradient. To transform a tile again for each piece that it has a share
 * in costs less than to move the planes through memory.
 *
 * How the pieces are cut depends on the number of threads, and is decided when the node is opened. Each sum has the
 * same order nevertheless: a run is summed up from zero, then added to the runs before it.
 */
#ifndef OPS_CONV2D_PIECES_H
#define OPS_CONV2D_PIECES_H

#include "ops/conv2d/tiles.h"

/* The most channels of a piece, either way. With 64 the kernel for stride 2 took 9 to 20 % longer on one thread. */
enum { MOST = 128 };

typedef struct piece {
    span c, k; /* blocks of channels */
    vec *seen, *given, *sums, *bias;
} piece;

/* What a kernel keeps for a node begins with this. */
typedef struct pieces {
    int64_t C, K;                                /* blocks */
    int64_t pieces_c, pieces_k;                  /* how many there are, along either axis */
    int64_t blocks, panels;                      /* of the largest */
    int64_t workers;                             /* threads with work */
    int64_t seen, given, sums, size;             /* of a worker's buffers, and all of them: in vectors */
    void (*make)(const step *s, const piece *p); /* the weights' gradient, and the sums for the biases */
} pieces;

/* About how many cycles a tile takes: for the products of a channel and a vector of outputs, and to transform a block
 * of inputs, and one of outputs. */
typedef struct tile_cost {
    int64_t multiply, see, give;
} tile_cost;

/* Cuts the planes for so many threads: as many pieces as let the last thread be ready first. */
static inline pieces pieces_of(int64_t C, int64_t K, int threads, tile_cost cost)
{
    pieces w = {.C = C, .K = K};
    const int64_t panels = divide_up(K, PANEL);
    double best = 0;
    for (int64_t pieces_c = divide_up(C, MOST / BLOCK); pieces_c <= C; pieces_c++)
        for (int64_t pieces_k = divide_up(panels, MOST / BLOCK / PANEL); pieces_k <= panels; pieces_k++) {
            const int64_t blocks = divide_up(C, pieces_c), outputs = divide_up(panels, pieces_k) * PANEL;
            const int64_t each = blocks * outputs * BLOCK * cost.multiply + blocks * cost.see + outputs * cost.give;
            const double time = (double)each * (double)divide_up(pieces_c * pieces_k, threads);
            if (best > 0 && time >= best)
                continue;
            best = time;
            w.pieces_c = pieces_c;
            w.pieces_k = pieces_k;
        }
    w.blocks = divide_up(C, w.pieces_c);
    w.panels = divide_up(panels, w.pieces_k);
    w.workers = w.pieces_c * w.pieces_k < threads ? w.pieces_c * w.pieces_k : threads;
    return w;
}

static inline piece piece_at(const pieces *w, int64_t number, vec *buffer)
{
    const span panels = share(divide_up(w->K, PANEL), number / w->pieces_c, w->pieces_k);
    const int64_t hi = panels.hi * PANEL;
    piece p = {.c = share(w->C, number % w->pieces_c, w->pieces_c), .k = {panels.lo * PANEL, hi < w->K ? hi : w->K}};
    p.seen = buffer;
    p.given = p.seen + w->seen;
    p.sums = p.given + w->given;
    p.bias = p.sums + w->sums;
    memset(p.sums, 0, (size_t)(buffer + w->size - p.sums) * sizeof(vec));
    return p;
}

/* dbia has no padding. */
static inline void write_bias(const arg *dbia, const piece *p)
{
    const int64_t first = p->k.lo * BLOCK, left = dbia->shape.dim[0] - first, all = (p->k.hi - p->k.lo) * BLOCK;
    memcpy((float *)dbia->data + first, p->bias, (size_t)(left < all ? left : all) * sizeof(float));
}

/* item: a worker's share of the pieces */
static void pieces_range(const step *s, int64_t begin, int64_t end)
{
    const pieces *w = s->state;
    for (int64_t worker = begin; worker < end; worker++) {
        const span mine = share(w->pieces_c * w->pieces_k, worker, w->workers);
        for (int64_t i = mine.lo; i < mine.hi; i++) {
            const piece p = piece_at(w, i, (vec *)s->workspace + worker * w->size);
            w->make(s, &p);
            if (s->nout > 1 && p.c.lo == 0)
                write_bias(&s->out[1], &p);
        }
    }
}

static brasa_status pieces_run(const step *s)
{
    const pieces *w = s->state;
    step_for(s, w->workers, (double)s->in[1].count * (double)w->C * BLOCK, pieces_range);
    return BRASA_OK;
}

static int64_t pieces_workspace(const graph *g, const node *n)
{
    const pieces *w = n->state;
    (void)g;
    return w->workers * w->size * (int64_t)sizeof(vec);
}

#endif
