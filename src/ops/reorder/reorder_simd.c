/* reorder_simd.c - any layout to any other, as copies of runs and as transposed tiles.
 *
 * In a part there is mostly one loop along which dst is contiguous, x, and one along which src is, y. Where they are
 * the same it is a copy; else x and y are transposed, in squares of SIDE that fit into registers. So are activations
 * between plain and blocked, and weights between the orders that the forward pass and the data gradient want.
 */
#include "device/cpu/simd.h"
#include "ops/reorder/reorder.h"

#include <string.h>

enum { SIDE = 8 };

typedef float row __attribute__((vector_size(SIDE * sizeof(float))));
typedef int32_t places __attribute__((vector_size(SIDE * sizeof(int32_t))));
typedef float loose_row __attribute__((vector_size(SIDE * sizeof(float)), aligned(sizeof(float)), may_alias));

/* A square, transposed. Three times the first half of the rows is interleaved with the second. */
static inline void transpose(const float *src, int64_t src_stride, float *dst, int64_t dst_stride)
{
    row r[SIDE], t[SIDE];
    for (int i = 0; i < SIDE; i++)
        r[i] = *(const loose_row *)(src + i * src_stride);
    for (int size = 1; size < SIDE; size *= 2) {
        for (int i = 0; i < SIDE / 2; i++) {
            t[2 * i] = SHUFFLE(places, r[i], r[i + SIDE / 2], 0, 8, 1, 9, 2, 10, 3, 11);
            t[2 * i + 1] = SHUFFLE(places, r[i], r[i + SIDE / 2], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(r, t, sizeof r);
    }
    for (int i = 0; i < SIDE; i++)
        *(loose_row *)(dst + i * dst_stride) = r[i];
}

/* dst[j, i] = src[i, j]. Where a side is no multiple of SIDE the last square goes over some elements again. */
static void move_transposed(const layout_loop *x, const layout_loop *y, const float *src, float *dst)
{
    if (x->count < SIDE || y->count < SIDE) {
        for (int64_t j = 0; j < y->count; j++)
            for (int64_t i = 0; i < x->count; i++)
                dst[j * y->dst + i] = src[i * x->src + j];
        return;
    }
    for (int64_t j = 0; j < y->count; j += SIDE) {
        const int64_t from_j = j < y->count - SIDE ? j : y->count - SIDE;
        for (int64_t i = 0; i < x->count; i += SIDE) {
            const int64_t from_i = i < x->count - SIDE ? i : x->count - SIDE;
            transpose(src + from_i * x->src + from_j, x->src, dst + from_j * y->dst + from_i, y->dst);
        }
    }
}

/* A part, ready to be worked on. */
typedef struct job {
    layout_part part; /* its loops are those around x and y, and over the chunks of one of these */
    layout_loop x, y; /* y only where it is transposed */
    bool transposed;
    int64_t items; /* a chunk each */
} job;

enum { X_CHUNK = 4096, Y_CHUNK = 8 * SIDE };

/* The loop over the chunks of a loop becomes the last one of the part. */
static void split(layout_part *p, const layout_loop *l, int64_t chunk)
{
    p->loop[p->loops++] = (layout_loop){(l->count + chunk - 1) / chunk, chunk * l->src, chunk * l->dst};
}

static int64_t chunk_of(int64_t count, int64_t chunk, int64_t turn)
{
    return count - turn * chunk < chunk ? count - turn * chunk : chunk;
}

static job job_of(const layout_part *part)
{
    job j = {.part = *part, .x = {1, 1, 1}, .y = {1, 0, 0}};
    layout_part *p = &j.part;
    if (p->loops)
        j.x = p->loop[--p->loops];
    for (int l = 0; l < p->loops && j.x.src != 1 && j.x.dst == 1 && !j.transposed; l++) {
        if (p->loop[l].src == 1) {
            j.transposed = true;
            j.y = p->loop[l];
            memmove(&p->loop[l], &p->loop[l + 1], (size_t)(--p->loops - l) * sizeof p->loop[0]);
        }
    }
    split(p, j.transposed ? &j.y : &j.x, j.transposed ? Y_CHUNK : X_CHUNK);
    j.items = p->count / (j.x.count * j.y.count) * p->loop[p->loops - 1].count;
    return j;
}

/* What is kept for a node. */
typedef struct work {
    int jobs;
    int64_t items; /* of all jobs, counted through */
    bool pads;
    job job[];
} work;

static brasa_status open(graph *g, node *n)
{
    const value *src = &g->values[n->in[0]], *dst = &g->values[n->out[0]];
    layout_part p;
    int parts = 0;
    while (layout_part_at(&src->format.layout, &dst->format.layout, &dst->shape, parts, &p))
        parts++;
    const size_t bytes = sizeof(work) + (size_t)parts * sizeof(job);
    work *w = mem_get(g->ctx, bytes);
    if (!w)
        return fail_memory(g->ctx, bytes);
    int64_t moved = 0;
    for (int i = 0; layout_part_at(&src->format.layout, &dst->format.layout, &dst->shape, i, &p); i++) {
        if (p.count == 0)
            continue;
        w->job[w->jobs] = job_of(&p);
        w->items += w->job[w->jobs++].items;
        moved += p.count;
    }
    w->pads = moved < layout_count(&dst->format.layout, &dst->shape);
    n->state = w;
    return BRASA_OK;
}

static void move_item(const job *j, int64_t chunk, const float *src, float *dst)
{
    layout_loop x = j->x, y = j->y;
    if (j->transposed) {
        y.count = chunk_of(y.count, Y_CHUNK, chunk);
        move_transposed(&x, &y, src, dst);
        return;
    }
    x.count = chunk_of(x.count, X_CHUNK, chunk);
    if (x.src == 1 && x.dst == 1)
        memcpy(dst, src, (size_t)x.count * sizeof *dst);
    else
        for (int64_t i = 0; i < x.count; i++)
            dst[i * x.dst] = src[i * x.src];
}

static void reorder_range(const step *s, int64_t begin, int64_t end)
{
    const work *w = s->state;
    for (const job *j = w->job; j < w->job + w->jobs; j++) {
        const int loops = j->part.loops;
        const int64_t first = begin > 0 ? begin : 0, last = end < j->items ? end : j->items;
        reorder_cursor at = reorder_start(&j->part, loops, first);
        for (int64_t item = first; item < last; item++, reorder_next(&j->part, loops, &at))
            move_item(j, at.turn[loops - 1], (const float *)s->in[0].data + at.src, (float *)s->out[0].data + at.dst);
        begin -= j->items;
        end -= j->items;
    }
}

/* item: an element stored, padding included */
static void clear_range(const step *s, int64_t begin, int64_t end)
{
    memset((float *)s->out[0].data + begin, 0, (size_t)(end - begin) * sizeof(float));
}

static brasa_status reorder(const step *s)
{
    const work *w = s->state;
    const int64_t count = s->out[0].count;
    if (w->pads)
        step_for(s, count, (double)count, clear_range);
    step_for(s, w->items, (double)count, reorder_range);
    return BRASA_OK;
}

/* It moves elements of 4 bytes, and converts none. */
static bool supports(const graph *g, const node *n)
{
    const value *src = &g->values[n->in[0]], *dst = &g->values[n->out[0]];
    return simd_matches(g, n) && src->format.storage == src->type && dst->format.storage == dst->type;
}

const kernel SIMD_TABLE(reorder)[] = {
    SIMD_ROW("reorder", reorder_op, .supports = supports, .open = open, .close = mem_put, .run = reorder),
    {0},
};
