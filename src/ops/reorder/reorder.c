/* reorder.c - the same tensor in another layout. Placed by select where a kernel reads another layout than the one
 * that its input is written in; no network asks for it. */
#include "ops/reorder/reorder.h"

#ifdef REAL

/* item: an element stored, padding included */
static void NAME(clear_range)(const step *s, int64_t begin, int64_t end)
{
    REAL *dst = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dst[i] = 0;
}

/* Any layout to any other; item: the innermost loop of a part */
static void NAME(reorder_range)(const step *s, int64_t begin, int64_t end)
{
    layout_part p;
    for (int i = 0; part_at(s, i, &p); i++) {
        const layout_loop x = innermost(&p);
        const int64_t rows = p.count / x.count;
        const int64_t first = begin > 0 ? begin : 0, last = end < rows ? end : rows;
        reorder_cursor at = reorder_start(&p, p.loops - 1, first);
        for (int64_t row = first; row < last; row++, reorder_next(&p, p.loops - 1, &at)) {
            const REAL *src = (const REAL *)s->in[0].data + at.src;
            REAL *dst = (REAL *)s->out[0].data + at.dst;
            for (int64_t j = 0; j < x.count; j++)
                dst[j * x.dst] = src[j * x.src];
        }
        begin -= rows;
        end -= rows;
    }
}

/* Padding that src does not have is cleared first, for it may lie between the elements of an item. */
static brasa_status NAME(reorder)(const step *s)
{
    int64_t rows = 0, moved = 0;
    layout_part p;
    for (int i = 0; part_at(s, i, &p); i++) {
        rows += p.count / innermost(&p).count;
        moved += p.count;
    }
    if (moved < s->out[0].count)
        step_for(s, s->out[0].count, (double)s->out[0].count, NAME(clear_range));
    step_for(s, rows, (double)moved * 2, NAME(reorder_range));
    return BRASA_OK;
}

#else

static bool part_at(const step *s, int index, layout_part *p)
{
    return layout_part_at(&s->in[0].format.layout, &s->out[0].format.layout, &s->out[0].shape, index, p);
}

static layout_loop innermost(const layout_part *p)
{
    return p->loops ? p->loop[p->loops - 1] : (layout_loop){1, 1, 1};
}

#define REAL_SOURCE "ops/reorder/reorder.c"
#include "ops/real.h"

const op_def reorder_op = {.name = "reorder"};

const op_def *const reorder_parts[] = {&reorder_op, NULL};
const kernel reorder_ref[] = {REFERENCE(reorder_op, reorder), {0}};

#endif
