/* plan.h - memory laid out before the first step. */
#ifndef GRAPH_PLAN_H
#define GRAPH_PLAN_H

#include "graph/graph.h"

/* --- the layout of blocks with lifetimes: knows nothing of graphs ---------------------------------------- */

typedef struct plan_block {
    int64_t bytes;
    int first, last; /* steps, both included */
    int64_t crowd;   /* plan_layout's own: the bytes alive at the fullest of its steps */
    int64_t offset;  /* the result */
} plan_block;

enum { PLAN_ALIGN = MEM_ALIGN }; /* a cache line, and the widest vector */

static inline int64_t plan_align(int64_t bytes)
{
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* Sets every offset so that blocks alive at a common step do not overlap; returns the size of the arena, or -1 when
 * out of memory. */
int64_t plan_layout(brasa_context *ctx, plan_block *blocks, int count);
/* The largest sum of bytes alive at one step: no layout can be smaller. */
int64_t plan_lower_bound(const plan_block *blocks, int count, int steps);

/* --- a program's plan -------------------------------------------------------------------------------------- */

typedef struct memory_plan {
    int64_t bytes, lower_bound;
    int64_t *workspace; /* offset for each node, -1: none */
    bool *in_place;     /* output 0 of the node lies where one of its inputs lay */
    int peak_node;      /* where the lower bound is reached */
    int64_t gradients;  /* bytes that are alive there: made by gradients and updates */
    int64_t scratch;    /* and the node's workspace */
} memory_plan;

/* Sets bytes and offset of every TEMP and INPUT value. */
brasa_status pass_plan(graph *g, bool in_place, memory_plan *out);

#endif
