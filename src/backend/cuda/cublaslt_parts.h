/* cublaslt_parts.h - what was found out about a product, and the words for it: for cublaslt.c and cublaslt_words.c.
 */
#ifndef BACKEND_CUDA_CUBLASLT_PARTS_H
#define BACKEND_CUDA_CUBLASLT_PARTS_H

#include "backend/cuda/cublaslt.h"
#include "backend/cuda/kept.h"

#include <cublasLt.h>

enum { LT_PROBLEM_SIZE = 200, LT_MOST_WORKSPACE = 32 << 20 };

/* What was found out about a product. */
typedef struct finding {
    cublaslt_product product;
    bool found;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    int64_t nanoseconds;
    int listed, timed;
    bool tried;              /* on the GPU, by the clock */
    const kept_line *choice; /* NULL: it was not chosen by the clock */
    struct finding *next;
} finding;

/* "product bf16 4096x100x9216 tn bias relu": what a finding is kept under. */
void cublaslt_name(const cublaslt_product *p, char to[LT_PROBLEM_SIZE]);
/* The library's own structure, byte by byte, which may be kept for the same version; then how many algorithms there
 * were and how many ran, the nanoseconds, the workspace. "none": not one will do. */
void cublaslt_print(const finding *f, char to[KEPT_VALUE_SIZE]);
/* False: these are no such words. */
bool cublaslt_parse(const char *words, finding *f);

#endif
