/* products_lt.h - the library of products_rig.h, which includes it: the functions that stand in for cuBLASLt's.
 *
 * They are told of products as the library is, and look whether what they are told is one: sizes that go together,
 * alignments that are kept, memory that is there.
 */
#ifndef TEST_PRODUCTS_LT_H
#define TEST_PRODUCTS_LT_H

typedef struct lt_description {
    cublasComputeType_t type;
    int32_t turn_a, turn_b;
    uint32_t epilogue;
    char *vector;
} lt_description;

typedef struct lt_matrix {
    cudaDataType type;
    int64_t rows, cols, line;
} lt_matrix;

/* In the order of the matrices: A, B, C, D. */
typedef struct lt_wishes {
    uint64_t workspace;
    uint32_t schemes, alignment[4];
} lt_wishes;

static char lt_place; /* whose address is the handle */

/* --- things that are made and set ------------------------------------------------------------------------------- */

static cublasStatus_t lt_setting(void)
{
    return ++rig.settings == rig.setting_fails ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t lt_make(void *out, size_t bytes)
{
    void *made_of = lt_setting() == CUBLAS_STATUS_SUCCESS ? calloc(1, bytes) : NULL;
    if (!made_of)
        return CUBLAS_STATUS_ALLOC_FAILED;
    memcpy(out, &made_of, sizeof made_of);
    rig.live++;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t lt_unmake(void *thing)
{
    CHECK(thing != NULL);
    rig.live--;
    free(thing);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t lt_put(void *to, size_t room_for, const void *from, size_t bytes)
{
    if (room_for != bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, bytes);
    return lt_setting();
}

static cublasStatus_t lt_destroy(cublasLtHandle_t handle)
{
    CHECK((void *)handle == &lt_place);
    rig.live--;
    return CUBLAS_STATUS_SUCCESS;
}

static const char *lt_text(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_ALLOC_FAILED ? "no memory for this" : "this went wrong";
}

static cublasStatus_t lt_desc_create(cublasLtMatmulDesc_t *out, cublasComputeType_t type, cudaDataType_t scale)
{
    const cublasStatus_t status = lt_make(out, sizeof(lt_description));
    CHECK(scale == CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS) {
        lt_description *what = (void *)*out;
        *what = (lt_description){.type = type, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    }
    return status;
}

static cublasStatus_t lt_desc_destroy(cublasLtMatmulDesc_t what)
{
    return lt_unmake(what);
}

static cublasStatus_t lt_desc_set(cublasLtMatmulDesc_t made_of, cublasLtMatmulDescAttributes_t which, const void *to,
                                  size_t bytes)
{
    lt_description *what = (void *)made_of;
    switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return lt_put(&what->turn_a, sizeof what->turn_a, to, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return lt_put(&what->turn_b, sizeof what->turn_b, to, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return lt_put(&what->epilogue, sizeof what->epilogue, to, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return lt_put(&what->vector, sizeof what->vector, to, bytes);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

static cublasStatus_t lt_layout_create(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t cols,
                                       int64_t line)
{
    const cublasStatus_t status = lt_make(out, sizeof(lt_matrix));
    if (status == CUBLAS_STATUS_SUCCESS) {
        lt_matrix *matrix = (void *)*out;
        *matrix = (lt_matrix){type, (int64_t)rows, (int64_t)cols, line};
    }
    return status;
}

static cublasStatus_t lt_layout_destroy(cublasLtMatrixLayout_t matrix)
{
    return lt_unmake(matrix);
}

/* As the library has it until it is told otherwise: no workspace, all schemes. */
static cublasStatus_t lt_preference_create(cublasLtMatmulPreference_t *out)
{
    const cublasStatus_t status = lt_make(out, sizeof(lt_wishes));
    if (status == CUBLAS_STATUS_SUCCESS) {
        lt_wishes *w = (void *)*out;
        *w = (lt_wishes){.schemes = CUBLASLT_REDUCTION_SCHEME_MASK, .alignment = {256, 256, 256, 256}};
    }
    return status;
}

static cublasStatus_t lt_preference_destroy(cublasLtMatmulPreference_t wishes)
{
    return lt_unmake(wishes);
}

static cublasStatus_t lt_preference_set(cublasLtMatmulPreference_t wishes, cublasLtMatmulPreferenceAttributes_t which,
                                        const void *to, size_t bytes)
{
    lt_wishes *w = (void *)wishes;
    switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return lt_put(&w->workspace, sizeof w->workspace, to, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return lt_put(&w->schemes, sizeof w->schemes, to, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return lt_put(&w->alignment[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], sizeof w->alignment[0], to,
                      bytes);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

/* --- algorithms ------------------------------------------------------------------------------------------------- */

static cublasLtMatmulAlgo_t lt_number(int index)
{
    return (cublasLtMatmulAlgo_t){.data = {(uint64_t)index, MARK}};
}

/* -1: it is none of them. */
static int lt_index(const cublasLtMatmulAlgo_t *number)
{
    return number->data[1] == MARK && number->data[0] < (uint64_t)rig.algorithms ? (int)number->data[0] : -1;
}

static cublaslt_extra lt_extra_of(const lt_description *what)
{
    switch (what->epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
        return LT_BIAS;
    case CUBLASLT_EPILOGUE_RELU:
        return LT_RELU;
    case CUBLASLT_EPILOGUE_RELU_BIAS:
        return LT_BIAS_RELU;
    case CUBLASLT_EPILOGUE_BGRADB:
        return LT_BIAS_GRADIENT;
    default:
        CHECK(what->epilogue == CUBLASLT_EPILOGUE_DEFAULT);
        return LT_NOTHING;
    }
}

/* D = op(A) x op(B), all stored alike; the vector, if there is one, is somewhere. */
static void lt_look_at(const lt_description *what, const lt_matrix *a, const lt_matrix *b, const lt_matrix *d)
{
    const bool turn_a = what->turn_a == CUBLAS_OP_T, turn_b = what->turn_b == CUBLAS_OP_T;
    const cublaslt_extra extra = lt_extra_of(what);
    CHECK_INT(turn_a ? a->cols : a->rows, d->rows);
    CHECK_INT(turn_a ? a->rows : a->cols, turn_b ? b->cols : b->rows);
    CHECK_INT(turn_b ? b->rows : b->cols, d->cols);
    CHECK(a->line >= a->rows && b->line >= b->rows && d->line >= d->rows);
    CHECK(a->type == b->type && a->type == d->type && (a->type == CUDA_R_32F || a->type == CUDA_R_16BF));
    CHECK((extra == LT_NOTHING || extra == LT_RELU) == !what->vector && (uintptr_t)what->vector % 64 == 0);
}

/* The library's answer for one of them: whether it can be had for this product. */
static bool lt_answer(int index, const lt_description *what, size_t workspace, cublasLtMatmulHeuristicResult_t *to)
{
    const lt_algorithm *l = &rig.algorithm[index];
    if (l->refused || l->lacks >> lt_extra_of(what) & 1)
        return false;
    *to = (cublasLtMatmulHeuristicResult_t){
        .algo = lt_number(index), .workspaceSize = workspace, .state = l->state, .wavesCount = 1};
    return true;
}

static bool lt_wanted(const lt_algorithm *l, const lt_wishes *w)
{
    bool good = l->workspace <= w->workspace && !(l->scheme & ~w->schemes);
    CHECK(w->workspace <= LT_MOST_WORKSPACE); /* no more is promised than is kept */
    for (int i = 0; i < 4; i++) {
        good = good && l->alignment <= w->alignment[i];
        CHECK(w->alignment[i] <= 64);
    }
    return good || l->insists;
}

static cublasStatus_t lt_heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t what, cublasLtMatrixLayout_t a,
                                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                   cublasLtMatmulPreference_t wishes, int most,
                                   cublasLtMatmulHeuristicResult_t list[], int *count)
{
    const lt_wishes *w = (const void *)wishes;
    CHECK((void *)handle == &lt_place && c == d);
    lt_look_at((const void *)what, (const void *)a, (const void *)b, (const void *)d);
    rig.asked++;
    *count = 0;
    for (int i = 0; i < rig.algorithms && *count < most; i++)
        if (lt_wanted(&rig.algorithm[i], w))
            *count += lt_answer(i, (const void *)what, rig.algorithm[i].workspace, &list[*count]);
    if (*count)
        return CUBLAS_STATUS_SUCCESS;
    *count = 1; /* which means nothing then */
    list[0] = (cublasLtMatmulHeuristicResult_t){.algo = lt_number(0), .state = CUBLAS_STATUS_SUCCESS};
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t lt_check(cublasLtHandle_t handle, cublasLtMatmulDesc_t what, cublasLtMatrixLayout_t a,
                               cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               const cublasLtMatmulAlgo_t *number, cublasLtMatmulHeuristicResult_t *result)
{
    const int index = lt_index(number);
    const lt_algorithm *l = &rig.algorithm[index < 0 ? 0 : index];
    CHECK((void *)handle == &lt_place && c == d);
    lt_look_at((const void *)what, (const void *)a, (const void *)b, (const void *)d);
    return index >= 0 && lt_answer(index, (const void *)what, l->checked ? l->checked : l->workspace, result)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* --- products --------------------------------------------------------------------------------------------------- */

/* Memory that a product reads or writes. */
typedef struct lt_span {
    char *at;
    size_t bytes;
} lt_span;

static size_t lt_size(const lt_matrix *matrix)
{
    return matrix->type == CUDA_R_16BF ? 2 : 4;
}

static lt_span lt_span_of(const void *at, const lt_matrix *matrix)
{
    const int64_t count = matrix->line * (matrix->cols - 1) + matrix->rows;
    return (lt_span){(char *)(uintptr_t)at, (size_t)count * lt_size(matrix)};
}

static bool lt_overlap(const lt_span *x, const lt_span *y)
{
    const uintptr_t from_x = (uintptr_t)x->at, from_y = (uintptr_t)y->at;
    return x->bytes && y->bytes && from_x < from_y + y->bytes && from_y < from_x + x->bytes;
}

/* Whether it is in memory that was taken of the GPU: of a trial. */
static bool lt_on_trial(const lt_span *s)
{
    const lt_span taken = {rig.block, rig.block ? rig.bytes : 0};
    return lt_overlap(s, &taken);
}

/* None lies in another one; on trial, all of all is in memory that was taken, before what sweeps the caches. */
static void lt_look_at_spans(const lt_span *spans, int count)
{
    const uintptr_t block = (uintptr_t)rig.block;
    for (int i = 0; i < count; i++) {
        const uintptr_t at = (uintptr_t)spans[i].at;
        for (int k = 0; k < i; k++)
            CHECK(!lt_overlap(&spans[i], &spans[k]));
        if (spans[i].bytes && lt_on_trial(&spans[0]))
            CHECK(at >= block && at + spans[i].bytes <= (rig.sweep ? (uintptr_t)rig.sweep : block + rig.bytes));
    }
}

/* The number that is stored somewhere. */
static float lt_read(const char *at, size_t size)
{
    uint32_t bits = 0;
    float number;
    memcpy(&bits, at, size);
    bits = size == 2 ? bits << 16 : bits;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void lt_write(const lt_span *s, size_t size, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    bits = size == 2 ? bits >> 16 : bits;
    memcpy(s->at, &bits, size);
    memcpy(s->at + s->bytes - size, &bits, size);
}

/* Whether all of a span are numbers as they are on trial, or all are none. */
static bool lt_holds(const lt_span *s, size_t size, bool numbers)
{
    bool all = true;
    for (size_t at = 0; at < s->bytes; at += size) {
        const float number = lt_read(s->at + at, size);
        all = all && (numbers ? fabsf(number) > 0 && fabsf(number) <= 1 : isnan(number));
    }
    return all;
}

/* Numbers are multiplied, but on trial B may be full of what is none: whether it is. */
static bool lt_look_at_numbers(const lt_span *a, const lt_span *b, size_t size)
{
    const bool spoilt = isnan(lt_read(b->at, size));
    CHECK(lt_holds(a, size, true));
    CHECK(lt_holds(b, size, !spoilt) && (!spoilt || lt_on_trial(b)));
    return spoilt;
}

/* In the words in which the library's callers put it. */
static cublaslt_product lt_product_of(const lt_description *what, const lt_matrix *a, const lt_matrix *b,
                                      const lt_matrix *d)
{
    CHECK(what->type == CUBLAS_COMPUTE_32F || what->type == CUBLAS_COMPUTE_32F_FAST_TF32);
    return (cublaslt_product){.m = d->rows,
                              .n = d->cols,
                              .k = what->turn_a == CUBLAS_OP_T ? a->rows : a->cols,
                              .line_b = b->line == b->rows ? 0 : b->line,
                              .turn_a = what->turn_a == CUBLAS_OP_T,
                              .turn_b = what->turn_b == CUBLAS_OP_T,
                              .bf16 = d->type == CUDA_R_16BF,
                              .tf32 = what->type == CUBLAS_COMPUTE_32F_FAST_TF32,
                              .extra = lt_extra_of(what)};
}

static void lt_pass_time(lt_algorithm *l, cublaslt_extra extra)
{
    const double took = (rig.swept || l->warm <= 0 ? l->cold : l->warm) + (extra == LT_BIAS_GRADIENT ? l->dear : 0);
    const bool slow = l->runs <= 32 && l->slow >> (l->runs - 1) & 1;
    cudart_work(slow ? 10 * took : took);
    rig.swept = false;
}

static cublasStatus_t lt_matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t made_of, const void *alpha,
                                const void *a, cublasLtMatrixLayout_t of_a, const void *b,
                                cublasLtMatrixLayout_t of_b, const void *beta, const void *c,
                                cublasLtMatrixLayout_t of_c, void *d, cublasLtMatrixLayout_t of_d,
                                const cublasLtMatmulAlgo_t *number, void *workspace, size_t bytes,
                                cudaStream_t stream)
{
    const lt_description *what = (const void *)made_of;
    const lt_matrix *result = (const void *)of_d;
    const cublaslt_extra extra = lt_extra_of(what);
    const size_t size = lt_size(result);
    const int64_t count = extra == LT_BIAS_GRADIENT ? result->cols : result->rows;
    const lt_span spans[5] = {lt_span_of(a, (const void *)of_a),
                              lt_span_of(b, (const void *)of_b),
                              lt_span_of(d, result),
                              {workspace, bytes},
                              {what->vector, what->vector ? (size_t)count * size : 0}};
    const int index = lt_index(number);
    CHECK_INT(cudart_gpu, cudart.expected);
    rig.tries++;
    rig.last = index;
    rig.ran = lt_product_of(what, (const void *)of_a, (const void *)of_b, result);
    rig.a = a;
    rig.b = b;
    rig.d = d;
    rig.workspace = workspace;
    rig.workspace_bytes = bytes;
    if (!CHECK(index >= 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    lt_algorithm *l = &rig.algorithm[index];
    l->runs++;
    CHECK((void *)handle == &lt_place && stream == rig.queue->stream && c == d && of_c == of_d);
    CHECK(*(const float *)alpha == 1 && *(const float *)beta == 0);
    CHECK(((uintptr_t)a | (uintptr_t)b | (uintptr_t)d) % 64 == 0 && (uintptr_t)workspace % LT_WORKSPACE_ALIGN == 0);
    CHECK(bytes >= (l->checked && l->checked < l->workspace ? l->checked : l->workspace) && (!bytes || workspace));
    lt_look_at(what, (const void *)of_a, (const void *)of_b, result);
    lt_look_at_spans(spans, 5);
    if (l->fails != CUBLAS_STATUS_SUCCESS && l->runs > l->good)
        return l->fails;
    lt_pass_time(l, extra);
    rig.broken = l->late;
    if (l->late || l->idle)
        return CUBLAS_STATUS_SUCCESS;
    if (bytes)
        rig.workspace[0] = rig.workspace[bytes - 1] = 0;
    const bool spoilt = lt_look_at_numbers(&spans[0], &spans[1], size);
    const bool careless = l->careless && (extra == LT_RELU || extra == LT_BIAS_RELU);
    const bool by_chance = l->scheme & CUBLASLT_REDUCTION_SCHEME_INPLACE;
    lt_write(&spans[2], size, spoilt ? careless ? 0 : NAN : by_chance ? (float)l->runs : 1);
    if (extra == LT_BIAS_GRADIENT)
        lt_write(&spans[4], size, 1);
    else if (what->vector)
        CHECK(lt_holds(&spans[4], size, true));
    return CUBLAS_STATUS_SUCCESS;
}

/* As cublaslt_open would leave it, or NULL: no memory. */
static struct cublaslt *lt_library(void)
{
    struct cublaslt *lib = mem_get(ctx, sizeof *lib);
    if (!lib)
        return NULL;
    rig.live++;
    *lib = (struct cublaslt){.handle = (cublasLtHandle_t)(void *)&lt_place,
                             .machine = LT_MACHINE,
                             .destroy = lt_destroy,
                             .text = lt_text,
                             .desc_create = lt_desc_create,
                             .desc_destroy = lt_desc_destroy,
                             .desc_set = lt_desc_set,
                             .layout_create = lt_layout_create,
                             .layout_destroy = lt_layout_destroy,
                             .preference_create = lt_preference_create,
                             .preference_destroy = lt_preference_destroy,
                             .preference_set = lt_preference_set,
                             .heuristic = lt_heuristic,
                             .check = lt_check,
                             .matmul = lt_matmul};
    return lib;
}

#endif
