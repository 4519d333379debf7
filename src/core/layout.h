/* layout.h - how the elements of a tensor lie in memory.
 *
 * A layout orders the axes and may cut some of them into blocks that become the innermost axes. With N C H W:
 *     plain      nchw      the order of the shape, nothing cut
 *     blocked    nChw16c   C in blocks of 16: N, C / 16, H, W, 16
 *     permuted   nhwc      N, H, W, C
 * An axis whose size is no multiple of its block is padded; the elements in the padding are zero, always: kernels
 * write them so, and element-wise kernels keep zero zero. All zero bytes are the plain layout.
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

bool layout_equal(const layout *a, const layout *b);
/* Elements stored, the padding of blocks included. */
int64_t layout_count(const layout *l, const shape *s);
/* Where element index[] of the shape is stored. */
int64_t layout_offset(const layout *l, const shape *s, const int64_t index[MAX_RANK]);
/* "nChw16c"; letters name the axes ("nchw", "oihw"). By value, to stand in an argument list. */
layout_text layout_print(const layout *l, int rank, const char *letters);

/* The next index in the order of the shape; false after the last one. Start with all zeros. */
bool index_next(const shape *s, int64_t index[MAX_RANK]);

#endif
