/* cublaslt_parts.h - what cublaslt.c, cublaslt_trial.c and cublaslt_words.c share: the library, a product that is
 * described to it, what was found out about one, and the words for that. */
#ifndef DEVICE_CUDA_CUBLASLT_PARTS_H
#define DEVICE_CUDA_CUBLASLT_PARTS_H

#include "device/cuda/cublaslt.h"

#include <cublasLt.h>

enum {
    LT_PROBLEM_SIZE = 200,
    LT_MOST_WORKSPACE = 32 << 20,
    LT_WORKSPACE_ALIGN = 256 /* which the library demands */
};

/* What was found out about a product. */
typedef struct finding {
    cublaslt_product product;
    bool found;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    int64_t nanoseconds;
    int listed, timed;
    bool tried;           /* on the GPU, by the clock */
    bool lacking;         /* memory: an algorithm that was left out for want of it might have won */
    const choice *choice; /* NULL: it was not chosen by the clock */
    struct finding *next;
} finding;

struct cublaslt {
    cublasLtHandle_t handle;
    char machine[120]; /* "NVIDIA H200, cuBLASLt 130100" */
    /* functions of the library */
    __typeof__(cublasLtCreate) *create;
    __typeof__(cublasLtDestroy) *destroy;
    __typeof__(cublasLtGetVersion) *version;
    __typeof__(cublasLtGetStatusString) *text;
    __typeof__(cublasLtMatmulDescCreate) *desc_create;
    __typeof__(cublasLtMatmulDescDestroy) *desc_destroy;
    __typeof__(cublasLtMatmulDescSetAttribute) *desc_set;
    __typeof__(cublasLtMatrixLayoutCreate) *layout_create;
    __typeof__(cublasLtMatrixLayoutDestroy) *layout_destroy;
    __typeof__(cublasLtMatmulPreferenceCreate) *preference_create;
    __typeof__(cublasLtMatmulPreferenceDestroy) *preference_destroy;
    __typeof__(cublasLtMatmulPreferenceSetAttribute) *preference_set;
    __typeof__(cublasLtMatmulAlgoGetHeuristic) *heuristic;
    __typeof__(cublasLtMatmulAlgoCheck) *check;
    __typeof__(cublasLtMatmul) *matmul;
};

struct cublaslt_plan {
    cuda_queue *queue;
    tuner *tuner; /* or NULL */
    cublaslt_product product;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, d;
    finding best; /* a copy */
};

/* To what the library demands of a workspace. */
static inline size_t lt_align_up(size_t bytes)
{
    return (bytes + LT_WORKSPACE_ALIGN - 1) / LT_WORKSPACE_ALIGN * LT_WORKSPACE_ALIGN;
}

/* --- cublaslt.c ---------------------------------------------------------------------------------------------- */

/* Tells the library of plan->product; cublaslt_undescribe is due even after a failure. */
cublasStatus_t cublaslt_describe(const struct cublaslt *lib, cublaslt_plan *plan);
void cublaslt_undescribe(const cublaslt_plan *plan);
cublasStatus_t cublaslt_start(const cublaslt_plan *plan, const cublasLtMatmulAlgo_t *algorithm, const void *a,
                              const void *b, void *d, const void *vector, void *workspace, size_t bytes);

/* --- cublaslt_trial.c ---------------------------------------------------------------------------------------- */

/* Whether the library takes an algorithm for a plan; *workspace becomes what it needs then. */
bool cublaslt_takes(const cublaslt_plan *plan, const cublasLtMatmulAlgo_t *algorithm, size_t *workspace);
/* Leaves those of the list whose activation keeps what is not a number; may set f->lacking. */
brasa_status cublaslt_drop_careless(const cublaslt_plan *plan, cublasLtMatmulHeuristicResult_t *list, int *count,
                                    finding *f);
/* *best: the number of the fastest, or -1: not one of them runs; sets f->tried, timed and nanoseconds, and may set
 * lacking. Where they cannot be timed, the first one. An error: it was stopped. */
brasa_status cublaslt_time(const cublaslt_plan *plan, const cublasLtMatmulHeuristicResult_t *list, int count,
                           finding *f, int *best);

/* --- cublaslt_words.c ---------------------------------------------------------------------------------------- */

/* "product bf16 4096x100x9216 tn bias relu": what a finding is kept under. */
void cublaslt_name(const cublaslt_product *p, char to[LT_PROBLEM_SIZE]);
/* The library's own structure, byte by byte, which may be kept for the same version; then how many algorithms there
 * were and how many ran, the nanoseconds, the workspace. "none": not one will do. */
void cublaslt_print(const finding *f, char to[CHOICE_WORDS_SIZE]);
/* False: these are no such words. */
bool cublaslt_parse(const char *words, finding *f);

#endif
