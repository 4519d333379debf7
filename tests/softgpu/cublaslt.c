/* cublaslt.c - stands in for cuBLASLt on the software GPU, and computes: the functions that
 * src/device/cuda/cublaslt.c takes of it.
 *
 * It refuses what the library refuses, and what would go wrong in silence there: results that lie in a factor, or
 * memory that is not the GPU's. Its algorithms add up in different orders, so that bits tell which one was taken, and
 * some of them are traps: one whose sums differ from run to run, one that adds up in 16 bits, one whose activation
 * loses what is not a number. SOFTGPU_CUBLASLT_FAILS=NUMBER is the one that fails when it is run.
 */
#include "soft_cublaslt.h"

enum { MARK = 0x736f6674 };

/* --- the algorithms -------------------------------------------------------------------------------------------- */

const algorithm lt_algorithms[LT_ALGORITHMS] = {
    {.scheme = CUBLASLT_REDUCTION_SCHEME_NONE, .splits = 1, .piece = 256, .alignment = 2},
    {.scheme = CUBLASLT_REDUCTION_SCHEME_NONE, .splits = 1, .piece = 128, .alignment = 16, .tensor_cores = true},
    {.scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
     .splits = 3,
     .piece = 64,
     .alignment = 16,
     .tensor_cores = true,
     .no_gradient = true},
    {.scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE,
     .splits = 1,
     .piece = 64,
     .alignment = 4,
     .tensor_cores = true,
     .varies = true},
    {.scheme = CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE,
     .splits = 2,
     .piece = 256,
     .alignment = 4,
     .tensor_cores = true,
     .no_gradient = true},
    {.scheme = CUBLASLT_REDUCTION_SCHEME_NONE,
     .splits = 1,
     .piece = 192,
     .alignment = 8,
     .tensor_cores = true,
     .careless = true},
    {.scheme = CUBLASLT_REDUCTION_SCHEME_NONE, .splits = 1, .piece = 96, .alignment = 256, .tensor_cores = true},
};
const int lt_proposed[LT_ALGORITHMS] = {5, 1, 3, 2, 6, 4, 0};

/* --- handles, descriptions ------------------------------------------------------------------------------------- */

static void *make(kind k, size_t bytes)
{
    void *made = calloc(1, bytes);
    if (made)
        memcpy(made, &k, sizeof k);
    return made;
}

void *lt_look(const void *thing, kind k)
{
    return thing && memcmp(thing, &k, sizeof k) == 0 ? (void *)(uintptr_t)thing : NULL;
}

static cublasStatus_t unmake(void *thing, kind k)
{
    if (!lt_look(thing, k))
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(thing, 0, sizeof k); /* a second end of it may show */
    free(thing);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t put(void *to, size_t room, const void *from, size_t bytes)
{
    if (!from || room != bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    handle *h = out ? make(A_HANDLE, sizeof *h) : NULL;
    if (!h)
        return out ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_INVALID_VALUE;
    *out = (cublasLtHandle_t)h;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t thing)
{
    handle *h = lt_look(thing, A_HANDLE);
    if (h)
        soft_forget(&h->tasks);
    return unmake(h, A_HANDLE);
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "the library is not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an invalid value was given";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "the program failed on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "this is not supported";
    default:
        return "an error";
    }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t type, cudaDataType_t scale)
{
    if (!out || scale != CUDA_R_32F || (type != CUBLAS_COMPUTE_32F && type != CUBLAS_COMPUTE_32F_FAST_TF32))
        return CUBLAS_STATUS_INVALID_VALUE;
    description *what = make(A_PRODUCT, sizeof *what);
    if (!what)
        return CUBLAS_STATUS_ALLOC_FAILED;
    what->type = type;
    what->turn_a = what->turn_b = CUBLAS_OP_N;
    what->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    *out = (cublasLtMatmulDesc_t)what;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t what)
{
    return unmake(what, A_PRODUCT);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t thing, cublasLtMatmulDescAttributes_t which,
                                              const void *to, size_t bytes)
{
    description *what = lt_look(thing, A_PRODUCT);
    if (!what)
        return CUBLAS_STATUS_INVALID_VALUE;
    switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return put(&what->turn_a, sizeof what->turn_a, to, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return put(&what->turn_b, sizeof what->turn_b, to, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return put(&what->epilogue, sizeof what->epilogue, to, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return put(&what->vector, sizeof what->vector, to, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t line)
{
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    matrix *made = make(A_MATRIX, sizeof *made);
    if (!made)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *made = (matrix){A_MATRIX, type, (int64_t)rows, (int64_t)cols, line};
    *out = (cublasLtMatrixLayout_t)made;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t thing)
{
    return unmake(thing, A_MATRIX);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    wishes *w = make(SOME_WISHES, sizeof *w);
    if (!w)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *w = (wishes){SOME_WISHES, 0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}};
    *out = (cublasLtMatmulPreference_t)w;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t thing)
{
    return unmake(thing, SOME_WISHES);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t thing,
                                                    cublasLtMatmulPreferenceAttributes_t which, const void *to,
                                                    size_t bytes)
{
    wishes *w = lt_look(thing, SOME_WISHES);
    if (!w)
        return CUBLAS_STATUS_INVALID_VALUE;
    switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return put(&w->workspace, sizeof w->workspace, to, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return put(&w->schemes, sizeof w->schemes, to, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return put(&w->alignment[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], sizeof w->alignment[0], to,
                   bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* --- a product ------------------------------------------------------------------------------------------------- */

static bool stored_as(cudaDataType type, soft_type *to)
{
    *to = type == CUDA_R_16BF ? SOFT_BF16 : SOFT_F32;
    return type == CUDA_R_16BF || type == CUDA_R_32F;
}

static bool is_matrix(const matrix *x)
{
    return x->rows > 0 && x->cols > 0 && x->line >= x->rows;
}

static bool is_turn(int32_t turn)
{
    return turn == CUBLAS_OP_N || turn == CUBLAS_OP_T || turn == CUBLAS_OP_C;
}

cublasStatus_t lt_read_product(cublasLtHandle_t library, cublasLtMatmulDesc_t of, cublasLtMatrixLayout_t of_a,
                               cublasLtMatrixLayout_t of_b, cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,
                               product *to)
{
    const description *what = lt_look(of, A_PRODUCT);
    const matrix *a = lt_look(of_a, A_MATRIX), *b = lt_look(of_b, A_MATRIX), *c = lt_look(of_c, A_MATRIX),
                 *d = lt_look(of_d, A_MATRIX);
    memset(to, 0, sizeof *to);
    if (!lt_look(library, A_HANDLE))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!what || !a || !b || !c || !d || !is_matrix(a) || !is_matrix(b) || !is_matrix(c) || !is_matrix(d) ||
        !is_turn(what->turn_a) || !is_turn(what->turn_b))
        return CUBLAS_STATUS_INVALID_VALUE;
    to->turn_a = what->turn_a != CUBLAS_OP_N;
    to->turn_b = what->turn_b != CUBLAS_OP_N;
    to->m = d->rows;
    to->n = d->cols;
    to->k = to->turn_a ? a->rows : a->cols;
    if ((to->turn_a ? a->cols : a->rows) != to->m || (to->turn_b ? b->cols : b->rows) != to->k ||
        (to->turn_b ? b->rows : b->cols) != to->n || c->rows != d->rows || c->cols != d->cols)
        return CUBLAS_STATUS_INVALID_VALUE;
    to->line_a = a->line;
    to->line_b = b->line;
    to->line_c = c->line;
    to->line_d = d->line;
    to->tf32 = what->type == CUBLAS_COMPUTE_32F_FAST_TF32;
    to->epilogue = what->epilogue;
    to->vector = what->vector;
    const bool known = stored_as(a->type, &to->in) && stored_as(d->type, &to->out) && a->type == b->type &&
                       c->type == d->type && (to->in == SOFT_BF16 || to->out == SOFT_F32);
    const bool epilogue = what->epilogue == CUBLASLT_EPILOGUE_DEFAULT || what->epilogue == CUBLASLT_EPILOGUE_RELU ||
                          what->epilogue == CUBLASLT_EPILOGUE_BIAS || what->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
                          what->epilogue == CUBLASLT_EPILOGUE_BGRADB;
    return known && epilogue && !(to->tf32 && to->in == SOFT_BF16) ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_NOT_SUPPORTED;
}

bool lt_can_make(const algorithm *l, const product *p, size_t *workspace)
{
    const uint64_t in = soft_size(p->in), out = soft_size(p->out);
    const bool relu = p->epilogue == CUBLASLT_EPILOGUE_RELU || p->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    *workspace = l->splits > 1 ? (size_t)(l->splits * p->m * p->n) * sizeof(float) : 0;
    return lt_divides(l->alignment, (uint64_t)p->line_a * in) && lt_divides(l->alignment, (uint64_t)p->line_b * in) &&
           lt_divides(l->alignment, (uint64_t)p->line_c * out) &&
           lt_divides(l->alignment, (uint64_t)p->line_d * out) &&
           !(l->no_gradient && p->epilogue == CUBLASLT_EPILOGUE_BGRADB) && (relu || !l->careless) &&
           (l->splits == 1 || p->k >= 32 * l->splits);
}

int lt_number_of(const cublasLtMatmulAlgo_t *name)
{
    if (!name || name->data[1] != MARK || name->data[0] >= LT_ALGORITHMS ||
        name->data[2] != (uint64_t)lt_algorithms[name->data[0]].splits)
        return -1;
    for (int i = 3; i < 8; i++)
        if (name->data[i])
            return -1;
    return (int)name->data[0];
}

static void answer(int number, size_t workspace, cublasLtMatmulHeuristicResult_t *to)
{
    *to = (cublasLtMatmulHeuristicResult_t){
        .algo = {.data = {(uint64_t)number, MARK, (uint64_t)lt_algorithms[number].splits}},
        .workspaceSize = workspace,
        .state = CUBLAS_STATUS_SUCCESS,
        .wavesCount = 1};
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t library, cublasLtMatmulDesc_t what,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t of, int most,
                                              cublasLtMatmulHeuristicResult_t list[], int *count)
{
    const wishes *w = lt_look(of, SOME_WISHES);
    product p;
    if (!w || most <= 0 || !list || !count)
        return CUBLAS_STATUS_INVALID_VALUE;
    *count = 0;
    const cublasStatus_t status = lt_read_product(library, what, a, b, c, d, &p);
    for (int i = 0; i < LT_ALGORITHMS && *count < most && status == CUBLAS_STATUS_SUCCESS; i++) {
        const algorithm *l = &lt_algorithms[lt_proposed[i]];
        size_t workspace;
        bool good = lt_can_make(l, &p, &workspace) && workspace <= w->workspace && !(l->scheme & ~w->schemes);
        for (int k = 0; k < 4; k++)
            good = good && l->alignment <= w->alignment[k];
        if (good && (!p.vector || lt_divides(l->alignment < 64 ? l->alignment : 64, (uintptr_t)p.vector)))
            answer(lt_proposed[i], workspace, &list[(*count)++]);
    }
    return status != CUBLAS_STATUS_SUCCESS || *count ? status : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t library, cublasLtMatmulDesc_t what, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *name, cublasLtMatmulHeuristicResult_t *result)
{
    const int number = lt_number_of(name);
    size_t workspace;
    product p;
    const cublasStatus_t status = lt_read_product(library, what, a, b, c, d, &p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (number < 0 || !result)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!lt_can_make(&lt_algorithms[number], &p, &workspace))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    answer(number, workspace, result);
    return CUBLAS_STATUS_SUCCESS;
}
