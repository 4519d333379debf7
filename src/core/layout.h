/* layout.h - how the elements of a tensor lie in memory.
 *
 * A layout orders the axes and may cut some of them into blocks that become the innermost axes. With N C H W:
 *     plain      nchw      the order of the shape, nothing cut
 *     blocked    nChw16c   C in blocks of 16: N, C / 16, H, W, 16
 *     permuted   nhwc      N, H, W, C
 * An axis whose size is no multiple of its block is padded; the elements in the padding are zero, always: kernels
 * write them so, and element-wise kernels keep zero zero. All zero bytes are the plain layout. Blocks are powers of
 * two, so that those of any two layouts fit into each other.
 */
#ifndef CORE_LAYOUT_H
#define CORE_LAYOUT_H

#include "core/shape.h"

enum { MAX_BLOCKS = 3 };

typedef struct layout {
    uint8_t permuted; /* 1: order[] holds; 0: the shape's order */
    uint8_t order[MAX_RANK];
    uint8_t nblocks; /* outermost first: OIhw16i16o has the blocks of I, then O */
    uint8_t axis[MAX_BLOCKS], block[MAX_BLOCKS];
} layout;

typedef struct layout_text {
    char text[40];
} layout_text;

static inline bool layout_plain(const layout *l)
{
    return !l->permuted && !l->nblocks;
}

/* One axis in blocks: nChw16c is axis 1 in blocks of 16. */
static inline layout layout_in_blocks(int axis, int block)
{
    layout l = {0};
    l.nblocks = 1;
    l.axis[0] = (uint8_t)axis;
    l.block[0] = (uint8_t)block;
    return l;
}

bool layout_equal(const layout *a, const layout *b);
/* Whether the first axis is the outermost and not cut: samples lie whole, one after the other. */
bool layout_keeps_samples(const layout *l);
/* Elements stored, the padding of blocks included. */
int64_t layout_count(const layout *l, const shape *s);
/* Where element index[] of the shape is stored. */
int64_t layout_offset(const layout *l, const shape *s, const int64_t index[MAX_RANK]);
/* Whether two layouts put every element of the shape in the same place, and pad alike: one may be read as the other.
 * So it is with blocks of channels and the plain order where planes have one pixel and the channels fill the blocks.
 */
bool layout_same_bytes(const layout *a, const layout *b, const shape *s);

/* The way from one layout to another, in loops that move by fixed strides in both. Where a block is not full its
 * elements are a part of their own. */
enum { MAX_LOOPS = MAX_RANK + 2 * MAX_BLOCKS };
typedef struct layout_loop {
    int64_t count, src, dst; /* the strides, in elements */
} layout_loop;
typedef struct layout_part {
    int64_t count;    /* elements; padding that both layouts have alike is moved too */
    int64_t src, dst; /* of the first one */
    int loops;
    layout_loop loop[MAX_LOOPS]; /* of at least two turns each, the largest stride in dst first */
} layout_part;
/* The index-th part; it may be empty. False past the last one. */
bool layout_part_at(const layout *src, const layout *dst, const shape *s, int index, layout_part *out);

/* Offsets add up: that of an element is the sum over its axes of what its index there contributes. A table of these
 * contributions, one for each index of each axis, makes walking through a large tensor cheap. It has
 * layout_table_size(s) entries; those of axis d start at table + the sizes of the axes before it. */
int64_t layout_table_size(const shape *s);
void layout_table_fill(const layout *l, const shape *s, int64_t *table);
/* Offsets of a row, the last axis, are base + table[...]: base for the row with this number, in the shape's order. */
int64_t layout_row_base(const shape *s, const int64_t *table, int64_t row);

/* "nChw16c"; letters name the axes ("nchw", "oihw"). By value, to stand in an argument list. */
layout_text layout_print(const layout *l, int rank, const char *letters);

/* The next index in the order of the shape; false after the last one. Start with all zeros. */
bool index_next(const shape *s, int64_t index[MAX_RANK]);

#endif
