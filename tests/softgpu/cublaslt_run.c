/* cublaslt_run.c - products of the library that stands in for cuBLASLt: looks at what they are given, and computes
 * them when their stream comes to it. */
#include "soft_cublaslt.h"
#include "product.h"

#include <stdio.h>

enum { WORKSPACE_ALIGN = 256 };

static bool has_vector(uint32_t epilogue)
{
    return epilogue & CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

/* Elements of a column of D: of as many of its rows. */
static void store(const void *user, int64_t col, int64_t row, int64_t count, float *sums)
{
    const product *p = user;
    const bool relu = p->epilogue == CUBLASLT_EPILOGUE_RELU || p->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    const bool bias = p->epilogue == CUBLASLT_EPILOGUE_BIAS || p->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    for (int64_t i = 0; i < count; i++) {
        float y = p->alpha * sums[i];
        if (p->beta != 0)
            y += p->beta * soft_read(p->c, p->out, row + i + col * p->line_c);
        if (bias)
            y += soft_read(p->vector, p->out, row + i);
        if (relu && !(y > 0) && (y <= 0 || lt_algorithms[p->number].careless))
            y = 0;
        soft_write(p->d, p->out, row + i + col * p->line_d, y);
    }
}

/* Sums of op(B)'s columns. */
static void sum_columns(const product *p)
{
    for (int64_t j = 0; j < p->n; j++) {
        float sum = 0;
        for (int64_t k = 0; k < p->k; k++)
            sum += soft_read(p->b, p->in, p->turn_b ? j + k * p->line_b : k + j * p->line_b);
        soft_write(p->vector, p->out, j, sum);
    }
}

static soft_place *make_axis(int64_t count, int64_t step)
{
    soft_place *place = calloc((size_t)count, sizeof *place);
    for (int64_t i = 0; i < count && place; i++)
        place[i].offset = i * step;
    return place;
}

/* The columns of D are the rows of the product that is made. */
static void run(void *task)
{
    static _Atomic int runs;
    const product *p = task;
    const algorithm *l = &lt_algorithms[p->number];
    soft_place *in_m = make_axis(p->m, p->turn_a ? p->line_a : 1),
               *k_of_a = make_axis(p->k, p->turn_a ? 1 : p->line_a);
    soft_place *in_n = make_axis(p->n, p->turn_b ? 1 : p->line_b),
               *k_of_b = make_axis(p->k, p->turn_b ? p->line_b : 1);
    const soft_product sums = {.m = p->n,
                               .n = p->m,
                               .k = p->k,
                               .a = {.at = p->b, .type = p->in, .row = in_n, .col = k_of_b},
                               .b = {.at = p->a, .type = p->in, .row = k_of_a, .col = in_m},
                               .tf32 = p->tf32 && l->tensor_cores,
                               .rounded = l->scheme == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE && p->out == SOFT_BF16,
                               .piece = l->varies ? l->piece - runs++ % 7 * 8 : l->piece,
                               .splits = l->splits,
                               .workspace = p->workspace,
                               .store = store,
                               .user = p};
    if (p->epilogue == CUBLASLT_EPILOGUE_BGRADB)
        sum_columns(p);
    if (!in_m || !k_of_a || !in_n || !k_of_b) {
        fprintf(stderr, "softgpu: no memory for a product\n");
        abort();
    }
    soft_multiply(&sums);
    free(in_m);
    free(k_of_a);
    free(in_n);
    free(k_of_b);
}

static soft_span span_of(const void *at, int64_t rows, int64_t cols, int64_t line, soft_type type)
{
    return (soft_span){at, (size_t)((cols - 1) * line + rows) * soft_size(type)};
}

static bool aligned(const void *at, uint64_t alignment)
{
    return at && lt_divides(alignment, (uintptr_t)at);
}

/* Whether the addresses will do: results in no factor, all in the GPU's memory. */
static cublasStatus_t check_memory(const product *p)
{
    enum { A, B, C, D, VECTOR, WORKSPACE, SPANS };
    const int64_t elements = p->epilogue == CUBLASLT_EPILOGUE_BGRADB ? p->n : p->m;
    const uint64_t alignment = lt_algorithms[p->number].alignment;
    const soft_span span[SPANS] = {
        [A] = span_of(p->a, p->turn_a ? p->k : p->m, p->turn_a ? p->m : p->k, p->line_a, p->in),
        [B] = span_of(p->b, p->turn_b ? p->n : p->k, p->turn_b ? p->k : p->n, p->line_b, p->in),
        [C] = {p->c, p->c ? span_of(p->c, p->m, p->n, p->line_c, p->out).bytes : 0},
        [D] = span_of(p->d, p->m, p->n, p->line_d, p->out),
        [VECTOR] = {p->vector, has_vector(p->epilogue) ? (size_t)elements * soft_size(p->out) : 0},
        [WORKSPACE] = {p->workspace, p->needed}};
    if (!aligned(p->a, alignment) || !aligned(p->b, alignment) || !aligned(p->d, alignment) ||
        (p->c && !aligned(p->c, alignment)) || (p->needed && !aligned(p->workspace, WORKSPACE_ALIGN)) ||
        (has_vector(p->epilogue) && !aligned(p->vector, alignment < 64 ? alignment : 64)))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < SPANS; i++)
        for (int k = 0; k < SPANS; k++) {
            const bool written = i == D || i == WORKSPACE || (i == VECTOR && p->epilogue == CUBLASLT_EPILOGUE_BGRADB);
            const bool in_place = i == D && k == C && p->c == p->d && p->line_c == p->line_d;
            if (written && i != k && !in_place && !(k == C && p->beta == 0) && soft_overlap(span[i], span[k]))
                return CUBLAS_STATUS_INVALID_VALUE;
        }
    for (int i = 0; i < SPANS; i++)
        if (!soft_owned(span[i]))
            return CUBLAS_STATUS_EXECUTION_FAILED;
    return CUBLAS_STATUS_SUCCESS;
}

/* The first algorithm that gets along with a workspace and what is aligned. */
static int choose(const product *p, size_t bytes)
{
    for (int i = 0; i < LT_ALGORITHMS; i++) {
        const algorithm *l = &lt_algorithms[lt_proposed[i]];
        size_t workspace;
        if (lt_can_make(l, p, &workspace) && workspace <= bytes && aligned(p->a, l->alignment) &&
            aligned(p->b, l->alignment) && aligned(p->d, l->alignment))
            return lt_proposed[i];
    }
    return -1;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t library, cublasLtMatmulDesc_t what, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t of_a, const void *b, cublasLtMatrixLayout_t of_b,
                              const void *beta, const void *c, cublasLtMatrixLayout_t of_c, void *d,
                              cublasLtMatrixLayout_t of_d, const cublasLtMatmulAlgo_t *name, void *workspace,
                              size_t bytes, cudaStream_t stream)
{
    size_t needed;
    product p;
    cublasStatus_t status = lt_read_product(library, what, of_a, of_b, of_c, of_d, &p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = d;
    p.number = name ? lt_number_of(name) : choose(&p, workspace ? bytes : 0);
    if (p.number < 0 || (p.beta != 0 && !c))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!lt_can_make(&lt_algorithms[p.number], &p, &needed))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (needed > bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    p.needed = needed;
    p.workspace = needed ? workspace : NULL;
    if ((status = check_memory(&p)) != CUBLAS_STATUS_SUCCESS)
        return status;
    if (p.number == soft_setting("SOFTGPU_CUBLASLT_FAILS"))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    void *task = soft_keep(&((handle *)lt_look(library, A_HANDLE))->tasks, &p, sizeof p);
    if (!task)
        return CUBLAS_STATUS_ALLOC_FAILED;
    return cudaLaunchHostFunc(stream, run, task) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                : CUBLAS_STATUS_EXECUTION_FAILED;
}
