/* layout.c - see layout.h. The general formulas, for planning and for references; fast kernels know their layouts. */
#include "core/layout.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool layout_equal(const layout *a, const layout *b)
{
    return memcmp(a, b, sizeof *a) == 0; /* bytes only: there is no padding */
}

/* The product of the blocks of an axis: what its size is rounded up to. */
static int64_t block_of(const layout *l, int axis)
{
    int64_t block = 1;
    for (int b = 0; b < l->nblocks; b++)
        if (l->axis[b] == axis)
            block *= l->block[b];
    return block;
}

static int64_t outer_size(const layout *l, const shape *s, int axis)
{
    int64_t block = block_of(l, axis);
    return (s->dim[axis] + block - 1) / block;
}

bool layout_keeps_samples(const layout *l)
{
    return block_of(l, 0) == 1 && (!l->permuted || l->order[0] == 0);
}

int64_t layout_count(const layout *l, const shape *s)
{
    int64_t count = 1;
    for (int d = 0; d < s->rank; d++)
        count *= outer_size(l, s, d) * block_of(l, d);
    return count;
}

int64_t layout_offset(const layout *l, const shape *s, const int64_t index[MAX_RANK])
{
    int64_t offset = 0, rest[MAX_RANK];
    for (int i = 0; i < s->rank; i++) {
        int axis = l->permuted ? l->order[i] : i;
        int64_t block = block_of(l, axis);
        offset = offset * outer_size(l, s, axis) + index[axis] / block;
        rest[axis] = index[axis] % block;
    }
    for (int b = 0; b < l->nblocks; b++) {
        int64_t inner = 1; /* what later blocks of the same axis still divide */
        for (int later = b + 1; later < l->nblocks; later++)
            inner *= l->axis[later] == l->axis[b] ? l->block[later] : 1;
        offset = offset * l->block[b] + rest[l->axis[b]] / inner % l->block[b];
    }
    return offset;
}

/* The part of an offset that an index along one axis makes: offsets are the sums of these. */
static int64_t axis_offset(const layout *l, const shape *s, int axis, int64_t i)
{
    int64_t index[MAX_RANK] = {0};
    index[axis] = i;
    return layout_offset(l, s, index);
}

bool layout_same_bytes(const layout *a, const layout *b, const shape *s)
{
    for (int axis = 0; axis < s->rank; axis++)
        for (int64_t i = 1; i < s->dim[axis]; i++)
            if (axis_offset(a, s, axis, i) != axis_offset(b, s, axis, i))
                return false;
    return layout_count(a, s) == layout_count(b, s);
}

/* --- the way from one layout to another ------------------------------------------------------------------------ */

enum { MAX_CUTS = 2 * MAX_BLOCKS + 1 };

/* Where a layout cuts an axis: into pieces of cut[0], these into pieces of cut[1] and so on down to 1. Adds to cut[],
 * which is kept in falling order; returns how many there are then. */
static int add_cuts(const layout *l, int axis, int64_t *cut, int count)
{
    int64_t size = 1;
    for (int b = l->nblocks - 1; b >= 0; b--) {
        if (l->axis[b] != axis || l->block[b] == 1)
            continue;
        int at = count;
        size *= l->block[b];
        while (at > 0 && cut[at - 1] < size)
            at--;
        if (at > 0 && cut[at - 1] == size)
            continue;
        memmove(cut + at + 1, cut + at, (size_t)(count - at) * sizeof *cut);
        cut[at] = size;
        count++;
    }
    return count;
}

/* Adds the loops of one axis: over those pieces of cut[level] that fill no larger piece. */
static void add_axis(const layout *src, const layout *dst, const shape *s, int axis, const int64_t *cut, int cuts,
                     int level, layout_part *out)
{
    const int64_t block = block_of(dst, axis);
    int64_t start = 0, rest = block_of(src, axis) == block ? outer_size(dst, s, axis) * block : s->dim[axis];
    for (int c = 0; c < level; c++) {
        start += rest / cut[c] * cut[c];
        rest %= cut[c];
    }
    out->src += axis_offset(src, s, axis, start);
    out->dst += axis_offset(dst, s, axis, start);
    out->count *= rest / cut[level] * cut[level];
    for (int c = level; c < cuts; c++) {
        const int64_t turns = (c == level ? rest : cut[c - 1]) / cut[c];
        if (turns > 1)
            out->loop[out->loops++] =
                (layout_loop){turns, axis_offset(src, s, axis, cut[c]), axis_offset(dst, s, axis, cut[c])};
    }
}

/* The largest stride in dst first; a loop that goes on where the next one ends becomes one with it. */
static void arrange(layout_part *p)
{
    for (int i = 1; i < p->loops; i++) {
        const layout_loop moved = p->loop[i];
        int at = i;
        for (; at > 0 && p->loop[at - 1].dst < moved.dst; at--)
            p->loop[at] = p->loop[at - 1];
        p->loop[at] = moved;
    }
    int kept = 0;
    for (int i = 1; i < p->loops; i++) {
        layout_loop *outer = &p->loop[kept];
        const layout_loop *inner = &p->loop[i];
        if (outer->src == inner->count * inner->src && outer->dst == inner->count * inner->dst)
            *outer = (layout_loop){outer->count * inner->count, inner->src, inner->dst};
        else
            p->loop[++kept] = *inner;
    }
    p->loops = p->loops ? kept + 1 : 0;
}

bool layout_part_at(const layout *src, const layout *dst, const shape *s, int index, layout_part *out)
{
    *out = (layout_part){.count = 1};
    for (int axis = 0; axis < s->rank; axis++) {
        int64_t cut[MAX_CUTS] = {1};
        const int cuts = add_cuts(dst, axis, cut, add_cuts(src, axis, cut, 1));
        add_axis(src, dst, s, axis, cut, cuts, index % cuts, out);
        index /= cuts;
    }
    arrange(out);
    return index == 0;
}

int64_t layout_table_size(const shape *s)
{
    int64_t size = 1; /* a scalar has one element too */
    for (int d = 0; d < s->rank; d++)
        size += s->dim[d];
    return size;
}

void layout_table_fill(const layout *l, const shape *s, int64_t *table)
{
    table[0] = 0;
    for (int d = 0; d < s->rank; d++) {
        int64_t index[MAX_RANK] = {0};
        for (; index[d] < s->dim[d]; index[d]++)
            *table++ = layout_offset(l, s, index);
    }
}

int64_t layout_row_base(const shape *s, const int64_t *table, int64_t row)
{
    int64_t base = 0, first = 0;
    for (int d = 0; d < s->rank - 1; d++)
        first += s->dim[d];
    for (int d = s->rank - 2; d >= 0; d--) {
        first -= s->dim[d];
        base += table[first + row % s->dim[d]];
        row /= s->dim[d];
    }
    return base;
}

layout_text layout_print(const layout *l, int rank, const char *letters)
{
    layout_text t = {""};
    size_t used = 0;
    if (rank > (int)strlen(letters) || rank < 2)
        return (layout_text){"plain"};
    for (int i = 0; i < rank; i++) {
        int axis = l->permuted ? l->order[i] : i;
        t.text[used++] = (char)(block_of(l, axis) > 1 ? toupper((unsigned char)letters[axis]) : letters[axis]);
    }
    for (int b = 0; b < l->nblocks; b++)
        used += (size_t)snprintf(t.text + used, sizeof t.text - used, "%d%c", l->block[b], letters[l->axis[b]]);
    return t;
}

bool index_next(const shape *s, int64_t index[MAX_RANK])
{
    for (int d = s->rank - 1; d >= 0; d--) {
        if (++index[d] < s->dim[d])
            return true;
        index[d] = 0;
    }
    return false;
}
