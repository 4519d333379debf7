/* plan.c - liveness, in-place reuse, one arena.
 *
 * Values that share memory (a view and its source, an output written over a dying input, a whole and its parts) form
 * one block. A block lives from its first writer to its last reader. Blocks are placed one after the other at
 * the lowest free offset; several orders are tried, each is improved, and the smallest arena is kept. Programs have
 * up to a few thousand blocks, so quadratic is fine: it happens once.
 */
#include "graph/plan.h"
#include "ops/op.h"

#include <stdlib.h>
#include <string.h>

/* --- blocks ---------------------------------------------------------------------------------------------------- */

static int64_t lifetime(const plan_block *b)
{
    return b->last - b->first + 1;
}

/* Sorted by address once all keys are equal, so that the layout never depends on the C library's qsort. */
static int by_address(const plan_block *a, const plan_block *b)
{
    return a < b ? -1 : a > b;
}

static int by_size(const void *x, const void *y)
{
    const plan_block *a = *(const plan_block *const *)x, *b = *(const plan_block *const *)y;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return lifetime(a) != lifetime(b) ? (lifetime(a) > lifetime(b) ? -1 : 1) : by_address(a, b);
}

static int by_area(const void *x, const void *y)
{
    const plan_block *a = *(const plan_block *const *)x, *b = *(const plan_block *const *)y;
    double p = (double)a->bytes * (double)lifetime(a), q = (double)b->bytes * (double)lifetime(b);
    return p != q ? (p > q ? -1 : 1) : by_size(x, y);
}

static int by_lifetime(const void *x, const void *y)
{
    const plan_block *a = *(const plan_block *const *)x, *b = *(const plan_block *const *)y;
    return lifetime(a) != lifetime(b) ? (lifetime(a) > lifetime(b) ? -1 : 1) : by_size(x, y);
}

static int by_first(const void *x, const void *y)
{
    const plan_block *a = *(const plan_block *const *)x, *b = *(const plan_block *const *)y;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : by_size(x, y);
}

/* Those first that have the least room to move: where the arena is fullest. */
static int by_crowd(const void *x, const void *y)
{
    const plan_block *a = *(const plan_block *const *)x, *b = *(const plan_block *const *)y;
    return a->crowd != b->crowd ? (a->crowd > b->crowd ? -1 : 1) : by_size(x, y);
}

/* Puts order[n] into the lowest gap that fits among the already placed blocks it meets in time. `placed` is kept
 * sorted by offset. */
static int64_t place(plan_block **placed, int n, plan_block *b)
{
    int64_t offset = 0;
    for (int i = 0; i < n; i++) {
        const plan_block *p = placed[i];
        if (p->last < b->first || p->first > b->last)
            continue;
        if (p->offset >= offset + b->bytes)
            break;
        if (p->offset + p->bytes > offset)
            offset = p->offset + p->bytes;
    }
    b->offset = offset;
    int at = n;
    while (at > 0 && placed[at - 1]->offset > offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = b;
    return offset + b->bytes;
}

/* Bytes alive at step t. */
static int64_t alive(const plan_block *blocks, int count, int t)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        if (blocks[i].first <= t && t <= blocks[i].last)
            sum += blocks[i].bytes;
    return sum;
}

/* Sets crowd of every block; returns the largest. */
static int64_t find_crowds(plan_block *blocks, int count)
{
    int end = 0;
    int64_t most = 0;
    for (int i = 0; i < count; i++) {
        blocks[i].crowd = 0;
        end = blocks[i].last >= end ? blocks[i].last + 1 : end;
    }
    for (int t = 0; t < end; t++) {
        const int64_t bytes = alive(blocks, count, t);
        most = bytes > most ? bytes : most;
        for (int i = 0; i < count; i++)
            if (blocks[i].first <= t && t <= blocks[i].last && blocks[i].crowd < bytes)
                blocks[i].crowd = bytes;
    }
    return most;
}

/* A search for the smallest arena. */
typedef struct arrangement {
    plan_block *blocks;
    int count;
    plan_block **order, **placed; /* in which blocks are placed; those that are, by offset */
    int64_t *best_offset, best;   /* -1: none yet */
} arrangement;

/* Places all in order and keeps what comes out if it is the best so far. Returns the place in the order of a block
 * that ends where the arena does. */
static int try_order(arrangement *a)
{
    int64_t size = 0;
    int top = 0;
    for (int i = 0; i < a->count; i++) {
        const int64_t end = place(a->placed, i, a->order[i]);
        if (end > size) {
            size = end;
            top = i;
        }
    }
    if (a->best < 0 || size < a->best) {
        a->best = size;
        for (int i = 0; i < a->count; i++)
            a->best_offset[i] = a->blocks[i].offset;
    }
    return top;
}

/* Whoever had to go to the top of the arena may choose earlier the next time. Ends at the lower bound, or when there
 * is nothing to move, or after a while: some millions of comparisons. */
static void improve(arrangement *a, int top, int64_t lower_bound)
{
    const int64_t cost = (int64_t)a->count * a->count + 1, most = 4000000 / cost, tries = most < 64 ? most : 64;
    for (int64_t t = 0; t < tries && top > 0 && a->best > lower_bound; t++) {
        plan_block *b = a->order[top];
        memmove(&a->order[top / 2 + 1], &a->order[top / 2], (size_t)(top - top / 2) * sizeof b);
        a->order[top / 2] = b;
        top = try_order(a);
    }
}

int64_t plan_layout(brasa_context *ctx, plan_block *blocks, int count)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_lifetime, by_first, by_crowd};
    enum { ORDERS = sizeof orders / sizeof orders[0] };
    const size_t n = (size_t)count + 1;
    arrangement a = {.blocks = blocks, .count = count, .best = -1};
    a.order = mem_get(ctx, n * sizeof *a.order);
    a.placed = mem_get(ctx, n * sizeof *a.placed);
    a.best_offset = mem_get(ctx, n * sizeof *a.best_offset);
    if (a.order && a.placed && a.best_offset) {
        const int64_t lower_bound = find_crowds(blocks, count);
        for (int o = 0; o < ORDERS && a.best != lower_bound; o++) {
            for (int i = 0; i < count; i++)
                a.order[i] = &blocks[i];
            qsort(a.order, (size_t)count, sizeof *a.order, orders[o]);
            improve(&a, try_order(&a), lower_bound);
        }
        for (int i = 0; i < count; i++)
            blocks[i].offset = a.best_offset[i];
    }
    mem_put(ctx, a.order);
    mem_put(ctx, a.placed);
    mem_put(ctx, a.best_offset);
    return a.best;
}

int64_t plan_lower_bound(const plan_block *blocks, int count, int steps)
{
    int64_t most = 0;
    for (int t = 0; t < steps; t++) {
        int64_t sum = alive(blocks, count, t);
        most = sum > most ? sum : most;
    }
    return most;
}

/* --- from a graph to blocks ------------------------------------------------------------------------------- */

typedef struct liveness {
    int *last;  /* value -> last node that reads it, or a part of it */
    int *block; /* value -> block, or -1; of a part: that of the whole holds */
    plan_block *blocks;
    int nblocks;
} liveness;

static bool transient(const value *v)
{
    return v->kind == VALUE_TEMP || v->kind == VALUE_INPUT;
}

static int new_block(liveness *l, int64_t bytes, int first)
{
    l->blocks[l->nblocks] = (plan_block){.bytes = plan_align(bytes), .first = first, .last = first};
    return l->nblocks++;
}

/* The value whose block v lies in. */
static int owner(const graph *g, int v)
{
    return g->values[v].whole >= 0 ? g->values[v].whole : v;
}

/* Value v now lies in block b. */
static void join(liveness *l, int v, int b)
{
    l->block[v] = b;
    if (l->last[v] > l->blocks[b].last)
        l->blocks[b].last = l->last[v];
}

/* The block that output 0 of node i can take over, or -1. An input's block may be written over when nobody reads any
 * value of it after this node, and when the node does not read the same block through another input. Parts are never
 * written over, nor do they lie anywhere but in the whole. */
static int reusable_block(const graph *g, const liveness *l, int i)
{
    const node *n = &g->nodes[i];
    const value *out = &g->values[n->out[0]];
    for (int k = 0; k < n->nin; k++) {
        int b = l->block[n->in[k]];
        if (b < 0)
            continue;
        if (n->op->view && k == 0 && g->values[n->in[k]].format.storage == out->format.storage)
            return b;
        if (k >= 32 || !(n->op->in_place & 1u << k) || l->blocks[b].last > i ||
            g->values[n->in[k]].bytes != out->bytes || g->values[n->in[k]].type != out->type)
            continue;
        int readers = 0;
        for (int j = 0; j < n->nin; j++)
            readers += l->block[owner(g, n->in[j])] == b;
        if (readers == 1)
            return b;
    }
    return -1;
}

static void find_last_readers(const graph *g, int *last)
{
    for (int v = 0; v < g->nvalues; v++)
        last[v] = g->values[v].output ? g->nnodes : -1;
    for (int i = 0; i < g->nnodes; i++)
        for (int k = 0; k < g->nodes[i].nin; k++)
            if (last[g->nodes[i].in[k]] < i)
                last[g->nodes[i].in[k]] = i;
    for (int v = 0; v < g->nvalues; v++)
        if (last[owner(g, v)] < last[v])
            last[owner(g, v)] = last[v];
}

static void make_blocks(graph *g, liveness *l, bool in_place, memory_plan *plan, int *workspace_block)
{
    for (int v = 0; v < g->nvalues; v++) {
        l->block[v] = -1;
        if (g->values[v].kind == VALUE_INPUT)
            join(l, v, new_block(l, g->values[v].bytes, 0));
    }
    for (int i = 0; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        for (int k = 0; k < n->nout; k++) {
            const int v = owner(g, n->out[k]);
            const bool may_reuse = k == 0 && v == n->out[k] && (in_place || n->op->view);
            if (!transient(&g->values[v]) || l->block[v] >= 0)
                continue;
            int b = may_reuse ? reusable_block(g, l, i) : -1;
            plan->in_place[i] = plan->in_place[i] || b >= 0;
            join(l, v, b >= 0 ? b : new_block(l, g->values[v].bytes, i));
        }
        int64_t scratch = n->kernel && n->kernel->workspace ? n->kernel->workspace(g, n) : 0;
        workspace_block[i] = scratch ? new_block(l, scratch, i) : -1;
    }
}

/* What the bytes at the fullest step are for. A block that was written over is what was written last. */
static brasa_status split_peak(graph *g, const liveness *l, const int *workspace_block, memory_plan *out)
{
    const int t = out->peak_node;
    int *writer = pool_get(&g->pool, (size_t)l->nblocks + 1, sizeof *writer); /* node number + 1, of a block */
    if (!writer)
        return fail_memory(g->ctx, (size_t)l->nblocks * sizeof *writer);
    for (int v = 0; v < g->nvalues; v++) {
        const int b = l->block[owner(g, v)], by = transient(&g->values[v]) ? g->values[v].producer : -1;
        if (b >= 0 && by <= t && by + 1 > writer[b])
            writer[b] = by + 1;
    }
    out->scratch = t < g->nnodes && workspace_block[t] >= 0 ? l->blocks[workspace_block[t]].bytes : 0;
    out->gradients = 0;
    for (int b = 0; b < l->nblocks; b++)
        if (l->blocks[b].first <= t && t <= l->blocks[b].last && writer[b] &&
            g->nodes[writer[b] - 1].role != ROLE_FORWARD)
            out->gradients += l->blocks[b].bytes;
    return BRASA_OK;
}

brasa_status pass_plan(graph *g, bool in_place, memory_plan *out)
{
    size_t values = (size_t)g->nvalues + 1, nodes = (size_t)g->nnodes + 1;
    liveness l = {.last = pool_get(&g->pool, values, sizeof *l.last),
                  .block = pool_get(&g->pool, values, sizeof *l.block),
                  .blocks = pool_get(&g->pool, values + nodes, sizeof *l.blocks)};
    int *workspace_block = pool_get(&g->pool, nodes, sizeof *workspace_block);
    out->workspace = pool_get(&g->pool, nodes, sizeof *out->workspace);
    out->in_place = pool_get(&g->pool, nodes, sizeof *out->in_place);
    if (!l.last || !l.block || !l.blocks || !workspace_block || !out->workspace || !out->in_place)
        return fail_memory(g->ctx, (values + nodes) * sizeof *l.blocks);

    for (int v = 0; v < g->nvalues; v++)
        g->values[v].bytes = format_bytes(&g->values[v].format, &g->values[v].shape);
    find_last_readers(g, l.last);
    make_blocks(g, &l, in_place, out, workspace_block);

    out->bytes = plan_layout(g->ctx, l.blocks, l.nblocks);
    if (out->bytes < 0)
        return fail_memory(g->ctx, (size_t)l.nblocks * sizeof *l.blocks);
    out->lower_bound = 0;
    for (int t = 0; t <= g->nnodes; t++) {
        int64_t sum = alive(l.blocks, l.nblocks, t);
        if (sum > out->lower_bound) {
            out->lower_bound = sum;
            out->peak_node = t;
        }
    }
    for (int v = 0; v < g->nvalues; v++) {
        value *x = &g->values[v];
        if (l.block[owner(g, v)] >= 0)
            x->offset = l.blocks[l.block[owner(g, v)]].offset + x->first * (int64_t)dtype_size(x->format.storage);
    }
    for (int i = 0; i < g->nnodes; i++)
        out->workspace[i] = workspace_block[i] < 0 ? -1 : l.blocks[workspace_block[i]].offset;
    return split_peak(g, &l, workspace_block, out);
}
