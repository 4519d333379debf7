/* reorder.h - what the kernels of the reorder share: going along the loops of a layout_part (see layout.h). */
#ifndef OPS_REORDER_H
#define OPS_REORDER_H

#include "ops/op.h"

/* A place on the way: the offsets that the first `loops` loops of a part have come to. */
typedef struct reorder_cursor {
    int64_t src, dst, turn[MAX_LOOPS];
} reorder_cursor;

/* At their index-th turn, counted through. */
static inline reorder_cursor reorder_start(const layout_part *p, int loops, int64_t index)
{
    reorder_cursor c = {.src = p->src, .dst = p->dst};
    for (int l = loops - 1; l >= 0; l--) {
        c.turn[l] = index % p->loop[l].count;
        index /= p->loop[l].count;
        c.src += c.turn[l] * p->loop[l].src;
        c.dst += c.turn[l] * p->loop[l].dst;
    }
    return c;
}

static inline void reorder_next(const layout_part *p, int loops, reorder_cursor *c)
{
    for (int l = loops - 1; l >= 0; l--) {
        const layout_loop *loop = &p->loop[l];
        c->src += loop->src;
        c->dst += loop->dst;
        if (++c->turn[l] < loop->count)
            return;
        c->turn[l] = 0;
        c->src -= loop->count * loop->src;
        c->dst -= loop->count * loop->dst;
    }
}

#endif
