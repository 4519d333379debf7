/* cublaslt.h - products of matrices by cuBLASLt, with the algorithm that is the fastest on this GPU. */
#ifndef DEVICE_CUDA_CUBLASLT_H
#define DEVICE_CUDA_CUBLASLT_H

#include "device/cuda/cuda.h"
#include "tune/tuner.h"

/* What the product does besides: adds a vector of m elements to each column, activates, or sums up each column of
 * op(B), n of them, over k. The vector is stored as the matrices are. */
typedef enum cublaslt_extra { LT_NOTHING, LT_BIAS, LT_RELU, LT_BIAS_RELU, LT_BIAS_GRADIENT } cublaslt_extra;

/* D = op(A) x op(B), where op(A) is m x k, op(B) k x n, and D m x n. Columns lie one after the other, as the library
 * sees matrices: the rows of ours. A is stored m x k, or k x m where it is turned; B in the same way. */
typedef struct cublaslt_product {
    int64_t m, n, k;
    int64_t line_b; /* from a column of B, as it is stored, to the next; 0: there is nothing between them */
    bool turn_a, turn_b;
    bool bf16; /* all are stored in 16 bits; else they are floats. Sums are floats anyway. */
    bool tf32; /* floats may be cut to 10 bits of fraction before they are multiplied */
    cublaslt_extra extra;
} cublaslt_product;

/* A product that is ready to run. */
typedef struct cublaslt_plan cublaslt_plan;

/* Tuner NULL: with the library's first algorithm. BRASA_NO_KERNEL, without words: the library cannot do it. */
brasa_status cublaslt_plan_new(cuda_queue *q, tuner *t, const cublaslt_product *p, cublaslt_plan **out);
void cublaslt_plan_free(cublaslt_plan *plan);
/* Bytes that a run needs, for any address. */
int64_t cublaslt_workspace(const cublaslt_plan *plan);
/* How long a run took when it was timed; 0: it was not. */
int64_t cublaslt_nanoseconds(const cublaslt_plan *plan);
/* For kernel.choice. */
bool cublaslt_tell_choice(const cublaslt_plan *plan, device_choice *out);
/* Starts it. All addresses are multiples of 64, but that of the workspace. */
brasa_status cublaslt_run(const cublaslt_plan *plan, const void *a, const void *b, void *d, const void *bias,
                          void *workspace);

#endif
