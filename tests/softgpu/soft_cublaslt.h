/* soft_cublaslt.h - what the two files that stand in for cuBLASLt share: what is described, and products as they are
 * run.
 */
#ifndef SOFT_CUBLASLT_H
#define SOFT_CUBLASLT_H

#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop

#include "product.h"

typedef enum kind { A_HANDLE = 0x1b1a5f01, A_PRODUCT, A_MATRIX, SOME_WISHES } kind;

typedef struct handle {
    kind kind;
    soft_task *tasks;
} handle;

typedef struct description {
    kind kind;
    cublasComputeType_t type;
    int32_t turn_a, turn_b;
    uint32_t epilogue;
    void *vector;
} description;

typedef struct matrix {
    kind kind;
    cudaDataType type;
    int64_t rows, cols, line;
} matrix;

typedef struct wishes {
    kind kind;
    uint64_t workspace;
    uint32_t schemes, alignment[4]; /* of A, B, C, D */
} wishes;

typedef struct algorithm {
    uint32_t scheme;
    int64_t splits, piece;
    uint32_t alignment; /* of matrices and their lines, in bytes */
    bool tensor_cores;  /* which round floats, where that is allowed */
    bool no_gradient;   /* it does not make that of the bias */
    bool careless;      /* its activation makes zero of what is not a number */
    bool varies;
} algorithm;

enum { LT_ALGORITHMS = 7 };
extern const algorithm lt_algorithms[LT_ALGORITHMS];
/* The best first. */
extern const int lt_proposed[LT_ALGORITHMS];

/* D = alpha op(A) op(B) + beta C, as a task needs it. */
typedef struct product {
    int64_t m, n, k, line_a, line_b, line_c, line_d;
    const void *a, *b, *c;
    void *d, *vector, *workspace;
    uint64_t needed; /* bytes of it */
    float alpha, beta;
    uint32_t epilogue;
    int32_t number; /* of the algorithm */
    soft_type in, out;
    bool turn_a, turn_b, tf32;
} product;

/* NULL: it is not one of these. */
void *lt_look(const void *thing, kind k);
/* Reads what is described; addresses, numbers and the algorithm follow later. */
cublasStatus_t lt_read_product(cublasLtHandle_t library, cublasLtMatmulDesc_t of, cublasLtMatrixLayout_t of_a,
                               cublasLtMatrixLayout_t of_b, cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,
                               product *to);
/* Whether an algorithm can make a product; *workspace becomes the bytes that it needs. */
bool lt_can_make(const algorithm *l, const product *p, size_t *workspace);
/* Of what the library writes into its structure; -1: it is none of it. */
int lt_number_of(const cublasLtMatmulAlgo_t *name);

static inline bool lt_divides(uint64_t alignment, uint64_t bytes)
{
    return bytes % alignment == 0;
}

#endif
