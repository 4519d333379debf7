/* product.h - the product of two matrices whose elements lie anywhere: what convolutions and dense layers are to the
 * libraries that stand in for NVIDIA's.
 *
 * An element's address is the sum of what its row and its column contribute. So is its position in a plane, for a
 * picture that a window looks at: outside of the plane all elements are zero. With that, the three products of a
 * convolution are one kind of product, whatever the strides, pads and dilations.
 */
#ifndef SOFT_PRODUCT_H
#define SOFT_PRODUCT_H

#include "soft.h"

typedef struct soft_place {
    int64_t offset; /* in elements */
    int32_t y, x;
} soft_place;

typedef struct soft_matrix {
    const void *at;
    soft_type type;
    int32_t height, width; /* of the plane; 0: there is none */
    const soft_place *row, *col;
} soft_matrix;

enum { SOFT_MOST_PIECE = 256 };

/* sums = A x B, m x n, over k, in floats. Products are added up one after the other within a piece, and then the
 * pieces: an element's bits depend on `piece` and `splits`, and neither on threads nor on tiles. */
typedef struct soft_product {
    int64_t m, n, k;
    soft_matrix a, b; /* m x k, k x n */
    bool tf32;        /* floats are rounded to 10 bits of fraction before they are multiplied */
    bool rounded;     /* sums are, to bf16, with every piece */
    int64_t piece;    /* elements of k, up to SOFT_MOST_PIECE */
    int64_t splits;   /* of k, which are added up in a second step, if there is more than one */
    float *workspace; /* splits x m x n then */
    /* Gets sums j .. j + count - 1 of row i, and may change them; from any thread, each sum once. */
    void (*store)(const void *user, int64_t i, int64_t j, int64_t count, float *sums);
    const void *user;
} soft_product;

void soft_multiply(const soft_product *p);

#endif
