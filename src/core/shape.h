/* shape.h - the sizes of a tensor; every size computed here is checked for overflow. */
#ifndef CORE_SHAPE_H
#define CORE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_RANK = 6, SHAPE_TEXT_SIZE = 128 };

/* Sizes from the outermost to the innermost; images are N C H W. rank 0 is a scalar. */
typedef struct shape {
    int rank;
    int64_t dim[MAX_RANK];
} shape;

typedef struct shape_text {
    char text[SHAPE_TEXT_SIZE];
} shape_text;

shape shape_1(int64_t a);
shape shape_2(int64_t a, int64_t b);
shape shape_4(int64_t n, int64_t c, int64_t h, int64_t w);

/* Number of elements, or -1 where a size is not positive or the product exceeds 2^62. */
int64_t shape_count(const shape *s);
/* Product of the sizes from axis `from` up to, not including, `to`. The shape must be valid. */
int64_t shape_span(const shape *s, int from, int to);
bool shape_equal(const shape *a, const shape *b);
/* "32x3x224x224"; a scalar is "scalar". By value, so that it can stand in an argument list. */
shape_text shape_print(const shape *s);

#endif
