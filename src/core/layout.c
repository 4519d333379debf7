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
