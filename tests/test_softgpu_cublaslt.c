/* test_softgpu_cublaslt.c - the library that stands in for cuBLASLt on the software GPU: all of its algorithms
 * against sums in doubles, when its work is done, and what it refuses. */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_SOFT_CUBLASLT /* where CUDA's compiler is */

#include "softgpu_rig.h"

#include <cublasLt.h>

#ifdef _OPENMP
#include <omp.h>
#endif

static struct {
    void *file;
    cublasLtHandle_t handle;
#define FUNCTIONS(F)                                                                                                 \
    F(Create)                                                                                                        \
    F(Destroy)                                                                                                       \
    F(GetVersion)                                                                                                    \
    F(GetStatusString)                                                                                               \
    F(MatmulDescCreate)                                                                                              \
    F(MatmulDescDestroy)                                                                                             \
    F(MatmulDescSetAttribute)                                                                                        \
    F(MatrixLayoutCreate)                                                                                            \
    F(MatrixLayoutDestroy)                                                                                           \
    F(MatmulPreferenceCreate)                                                                                        \
    F(MatmulPreferenceDestroy)                                                                                       \
    F(MatmulPreferenceSetAttribute)                                                                                  \
    F(MatmulAlgoGetHeuristic)                                                                                        \
    F(MatmulAlgoCheck)                                                                                               \
    F(Matmul)
#define FUNCTION(name) __typeof__(&cublasLt##name) name;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
} lt;

static bool lt_open(void)
{
    bool good = lt.file || (lt.file = rig_open(TEST_SOFT_CUBLASLT));
#define FUNCTION(name) good = good && rig_take(lt.file, "cublasLt" #name, &lt.name);
    FUNCTIONS(FUNCTION)
#undef FUNCTION
    return good && (lt.handle || lt.Create(&lt.handle) == CUBLAS_STATUS_SUCCESS);
}

static void begin(void)
{
    CHECK(lt_open());
}

AROUND_EACH(begin, NULL)

/* --- a product ------------------------------------------------------------------------------------------------- */

typedef struct shape_of {
    int m, n, k, turn_a, turn_b, more; /* more: between columns */
    soft_type in, out;
    int tf32;
    uint32_t epilogue;
    float alpha, beta;
} shape_of;

enum { WORKSPACE = 8 << 20, MOST = 16 };

/* A product with its memory. */
typedef struct setting {
    const shape_of *s;
    int line_a, line_b, line_d, cols_a, cols_b, elements;
    void *a, *b, *c, *d, *vector, *workspace;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t of_a, of_b, of_d;
    cublasLtMatmulHeuristicResult_t list[MOST];
    int count;
} setting;

static void describe(setting *t)
{
    const shape_of *s = t->s;
    const int32_t turn_a = s->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N, turn_b = s->turn_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType in = s->in == SOFT_BF16 ? CUDA_R_16BF : CUDA_R_32F,
                       out = s->out == SOFT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    CHECK_INT(lt.MatmulDescCreate(&t->what, s->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
              0);
    CHECK_INT(lt.MatmulDescSetAttribute(t->what, CUBLASLT_MATMUL_DESC_TRANSA, &turn_a, sizeof turn_a), 0);
    CHECK_INT(lt.MatmulDescSetAttribute(t->what, CUBLASLT_MATMUL_DESC_TRANSB, &turn_b, sizeof turn_b), 0);
    CHECK_INT(lt.MatmulDescSetAttribute(t->what, CUBLASLT_MATMUL_DESC_EPILOGUE, &s->epilogue, sizeof s->epilogue), 0);
    CHECK_INT(lt.MatmulDescSetAttribute(t->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &t->vector, sizeof t->vector), 0);
    CHECK_INT(
        lt.MatrixLayoutCreate(&t->of_a, in, (uint64_t)(s->turn_a ? s->k : s->m), (uint64_t)t->cols_a, t->line_a), 0);
    CHECK_INT(
        lt.MatrixLayoutCreate(&t->of_b, in, (uint64_t)(s->turn_b ? s->n : s->k), (uint64_t)t->cols_b, t->line_b), 0);
    CHECK_INT(lt.MatrixLayoutCreate(&t->of_d, out, (uint64_t)s->m, (uint64_t)s->n, t->line_d), 0);
}

static void undescribe(const setting *t)
{
    CHECK_INT(lt.MatmulDescDestroy(t->what), 0);
    CHECK_INT(lt.MatrixLayoutDestroy(t->of_a), 0);
    CHECK_INT(lt.MatrixLayoutDestroy(t->of_b), 0);
    CHECK_INT(lt.MatrixLayoutDestroy(t->of_d), 0);
}

static cublasStatus_t list(setting *t, uint32_t schemes, uint64_t workspace, uint32_t alignment)
{
    cublasLtMatmulPreference_t wishes;
    CHECK_INT(lt.MatmulPreferenceCreate(&wishes), 0);
    CHECK_INT(
        lt.MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes),
        0);
    CHECK_INT(lt.MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                              sizeof workspace),
              0);
    for (int i = 0; i < 4; i++)
        CHECK_INT(lt.MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, &alignment,
                                                  sizeof alignment),
                  0);
    const cublasStatus_t status = lt.MatmulAlgoGetHeuristic(lt.handle, t->what, t->of_a, t->of_b, t->of_d, t->of_d,
                                                            wishes, MOST, t->list, &t->count);
    CHECK_INT(lt.MatmulPreferenceDestroy(wishes), 0);
    return status;
}

static void set_up(setting *t, const shape_of *s)
{
    *t = (setting){.s = s, .cols_a = s->turn_a ? s->m : s->k, .cols_b = s->turn_b ? s->k : s->n};
    t->line_a = (s->turn_a ? s->k : s->m) + s->more;
    t->line_b = (s->turn_b ? s->n : s->k) + s->more;
    t->line_d = s->m + s->more;
    t->elements = s->m > s->n ? s->m : s->n;
    t->a = rig_memory((size_t)(t->line_a * t->cols_a) * 4);
    t->b = rig_memory((size_t)(t->line_b * t->cols_b) * 4);
    t->c = rig_memory((size_t)(t->line_d * s->n) * 4);
    t->d = rig_memory((size_t)(t->line_d * s->n) * 4);
    t->vector = rig_memory((size_t)t->elements * 4);
    t->workspace = rig_memory(WORKSPACE);
    rig_fill(t->a, s->in, t->line_a * t->cols_a, 1);
    rig_fill(t->b, s->in, t->line_b * t->cols_b, 2);
    rig_fill(t->c, s->out, t->line_d * s->n, 3);
    rig_fill(t->vector, s->out, t->elements, 4);
    describe(t);
}

static void tear_down(setting *t)
{
    undescribe(t);
    void *const all[] = {t->a, t->b, t->c, t->d, t->vector, t->workspace};
    for (int i = 0; i < 6; i++)
        free(all[i]);
}

OWNER(setting, *x, tear_down(x))

static cublasStatus_t multiply(const setting *t, const cublasLtMatmulAlgo_t *algorithm, size_t workspace)
{
    return lt.Matmul(lt.handle, t->what, &t->s->alpha, t->a, t->of_a, t->b, t->of_b, &t->s->beta, t->c, t->of_d, t->d,
                     t->of_d, algorithm, t->workspace, workspace, NULL);
}

static double at_a(const setting *t, int i, int k)
{
    return soft_read(t->a, t->s->in, t->s->turn_a ? k + i * t->line_a : i + k * t->line_a);
}

static double at_b(const setting *t, int k, int j)
{
    return soft_read(t->b, t->s->in, t->s->turn_b ? j + k * t->line_b : k + j * t->line_b);
}

/* Whether all of the result is what it should be, and what lies between its columns is untouched. */
static void check_result(const setting *t, const void *vector)
{
    const shape_of *s = t->s;
    int wrong = 0;
    for (int j = 0; j < s->n; j++) {
        double column = 0;
        for (int k = 0; k < s->k; k++)
            column += at_b(t, k, j);
        if (s->epilogue == CUBLASLT_EPILOGUE_BGRADB)
            wrong += !(fabs(soft_read(t->vector, s->out, j) - column) <= rig_allowed(column, s->k, s->out, 0));
        for (int i = 0; i < t->line_d; i++) {
            const float got = soft_read(t->d, s->out, i + j * t->line_d);
            double sum = 0, absolute = 1;
            if (i >= s->m) {
                wrong += !isnan(got);
                continue;
            }
            for (int k = 0; k < s->k; k++) {
                sum += at_a(t, i, k) * at_b(t, k, j);
                absolute += fabs(at_a(t, i, k) * at_b(t, k, j));
            }
            sum = sum * s->alpha + s->beta * soft_read(t->c, s->out, i + j * t->line_d);
            if (s->epilogue == CUBLASLT_EPILOGUE_BIAS || s->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
                sum += soft_read(vector, s->out, i);
            if (s->epilogue == CUBLASLT_EPILOGUE_RELU || s->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
                sum = sum > 0 ? sum : 0;
            wrong += !(fabs(got - sum) <= rig_allowed(sum, absolute, s->out, s->tf32 ? 10 : 0));
        }
    }
    CHECK_INT(wrong, 0);
}

/* --- results --------------------------------------------------------------------------------------------------- */

#define EPILOGUE(name) CUBLASLT_EPILOGUE_##name
static const shape_of shapes[] = {
    {5, 3, 7, 0, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(DEFAULT), 1, 0},
    {1, 1, 1, 0, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(DEFAULT), 1, 0},
    {64, 32, 128, 1, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(RELU_BIAS), 1, 0},
    {64, 33, 300, 1, 0, 8, SOFT_F32, SOFT_F32, 0, EPILOGUE(BIAS), 1, 0},
    {48, 40, 200, 0, 1, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(BGRADB), 1, 0},
    {48, 40, 200, 1, 1, 4, SOFT_F32, SOFT_F32, 0, EPILOGUE(RELU), 1, 0},
    {16, 16, 600, 0, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(DEFAULT), 0.5f, 2},
    {64, 32, 256, 1, 0, 0, SOFT_F32, SOFT_F32, 1, EPILOGUE(RELU_BIAS), 1, 0},
    {17, 13, 97, 0, 1, 3, SOFT_F32, SOFT_F32, 1, EPILOGUE(DEFAULT), 1, 0},
    {64, 32, 256, 1, 0, 0, SOFT_BF16, SOFT_BF16, 0, EPILOGUE(RELU_BIAS), 1, 0},
    {24, 40, 520, 0, 0, 0, SOFT_BF16, SOFT_BF16, 0, EPILOGUE(BIAS), 1, 0},
    {17, 13, 97, 0, 1, 3, SOFT_BF16, SOFT_BF16, 0, EPILOGUE(RELU), 1, 0},
    {32, 16, 64, 0, 1, 32, SOFT_BF16, SOFT_F32, 0, EPILOGUE(DEFAULT), 1, 0.25f},
    {300, 2, 1000, 1, 0, 0, SOFT_BF16, SOFT_BF16, 0, EPILOGUE(DEFAULT), 1, 0},
    {10, 700, 90, 1, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(RELU_BIAS), 1, 0},
};

/* Every algorithm that is proposed; its work is done late, and twice, when all that described it is gone. */
TEST(results)
{
    for (size_t row = 0; row < sizeof shapes / sizeof shapes[0]; row++) {
        const shape_of *s = &shapes[row];
        OWNED(setting) t;
        set_up(&t, s);
        CHECK_INT(list(&t, CUBLASLT_REDUCTION_SCHEME_MASK & ~CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, WORKSPACE, 256),
                  0);
        CHECK(t.count > 0);
        for (int i = 0; i < t.count; i++) {
            CASE("%dx%dx%d %c%c+%d %s epilogue %u, algorithm %d", s->m, s->n, s->k, s->turn_a ? 't' : 'n',
                 s->turn_b ? 't' : 'n', s->more, s->in == SOFT_BF16 ? "bf16" : "f32", s->epilogue,
                 (int)t.list[i].algo.data[0]);
            const cublasLtMatmulAlgo_t algorithm = t.list[i].algo;
            const size_t workspace = t.list[i].workspaceSize;
            memset(t.d, 0xff, (size_t)(t.line_d * s->n) * 4);
            CHECK_INT(multiply(&t, &algorithm, workspace), 0);
            CHECK(isnan(soft_read(t.d, s->out, 0)));
            undescribe(&t);
            rig_run(2);
            check_result(&t, t.vector);
            describe(&t);
        }
    }
}

static int number(const setting *t, int i)
{
    return (int)t->list[i].algo.data[0];
}

/* Runs one of the list, by its number; false: it is not in there. */
static bool run_number(setting *t, int wanted)
{
    for (int i = 0; i < t->count; i++)
        if (number(t, i) == wanted && multiply(t, &t->list[i].algo, t->list[i].workspaceSize) == 0) {
            rig_run(1);
            return true;
        }
    return false;
}

enum { PLAIN, CORES, SPLIT, VARIES, IN_OUTPUT_TYPE, CARELESS, DEMANDING };

TEST(orders)
{
    static const shape_of s = {64, 64, 960, 0, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(DEFAULT), 1, 0};
    float last[5][64 * 64];
    OWNED(setting) t;
    set_up(&t, &s);
    CHECK_INT(list(&t, CUBLASLT_REDUCTION_SCHEME_MASK, WORKSPACE, 64), 0);
    for (int i = PLAIN; i <= SPLIT; i++) {
        CHECK(run_number(&t, i));
        memcpy(last[i], t.d, sizeof last[i]);
        for (int k = 0; k < i; k++)
            CHECK(memcmp(last[i], last[k], sizeof last[i]) != 0);
        CHECK(run_number(&t, i));
        CHECK(memcmp(last[i], t.d, sizeof last[i]) == 0);
    }
    CHECK(run_number(&t, VARIES));
    memcpy(last[VARIES], t.d, sizeof last[VARIES]);
    CHECK(run_number(&t, VARIES));
    CHECK(memcmp(last[VARIES], t.d, sizeof last[VARIES]) != 0);
}

/* The bits are the same on one thread as on several. */
TEST(threads)
{
#ifdef _OPENMP
    static const shape_of s = {300, 200, 190, 0, 1, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(DEFAULT), 1, 0};
    static float alone[300 * 200];
    setting t;
    set_up(&t, &s);
    CHECK_INT(list(&t, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, WORKSPACE, 64), 0);
    for (int i = PLAIN; i <= SPLIT; i++) {
        omp_set_num_threads(1);
        CHECK(run_number(&t, i));
        memcpy(alone, t.d, sizeof alone);
        omp_set_num_threads(3);
        CHECK(run_number(&t, i));
        CHECK(memcmp(alone, t.d, sizeof alone) == 0);
    }
    check_result(&t, t.vector);
    tear_down(&t);
#else
    SKIP("no OpenMP");
#endif
}

/* Factors keep 10 bits where that is allowed, and the algorithm does so. */
TEST(tf32)
{
    static const shape_of s[2] = {{4, 4, 4, 0, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(DEFAULT), 1, 0},
                                  {4, 4, 4, 0, 0, 0, SOFT_F32, SOFT_F32, 1, EPILOGUE(DEFAULT), 1, 0}};
    for (int tf32 = 0; tf32 < 2; tf32++) {
        OWNED(setting) t;
        set_up(&t, &s[tf32]);
        for (int i = 0; i < 16; i++) {
            ((float *)t.a)[i] = i % 5 == 0 ? 1 + 0x1p-10f + 0x1p-11f + 0x1p-20f : 0;
            ((float *)t.b)[i] = i % 5 == 0;
        }
        CHECK_INT(list(&t, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 0, 64), 0);
        CHECK(run_number(&t, PLAIN) == true);
        CHECK(*(float *)t.d == 1 + 0x1p-10f + 0x1p-11f + 0x1p-20f);
        CHECK(run_number(&t, CORES) == true);
        CHECK(*(float *)t.d == (tf32 ? 1 + 0x1p-9f : 1 + 0x1p-10f + 0x1p-11f + 0x1p-20f));
    }
}

TEST(nan)
{
    static const shape_of s = {64, 32, 128, 1, 0, 0, SOFT_BF16, SOFT_BF16, 0, EPILOGUE(RELU_BIAS), 1, 0};
    OWNED(setting) t;
    set_up(&t, &s);
    soft_write(t.b, SOFT_BF16, 0, NAN);
    CHECK_INT(list(&t, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, WORKSPACE, 64), 0);
    for (int i = 0; i < t.count; i++) {
        CHECK_INT(multiply(&t, &t.list[i].algo, t.list[i].workspaceSize), 0);
        rig_run(1);
        CHECK_INT(isnan(soft_read(t.d, SOFT_BF16, 0)) != 0, number(&t, i) != CARELESS);
    }
}

/* --- what is refused ------------------------------------------------------------------------------------------- */

TEST(lists)
{
    static const shape_of s = {64, 32, 128, 1, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(RELU_BIAS), 1, 0};
    static const struct {
        const char *what;
        uint32_t schemes, alignment;
        uint64_t workspace;
        unsigned expected; /* bit by bit */
    } rows[] = {
        {"all", CUBLASLT_REDUCTION_SCHEME_MASK, 256, WORKSPACE, 0x7f},
        {"as Brasa asks", CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 64, WORKSPACE, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 5},
        {"no workspace", CUBLASLT_REDUCTION_SCHEME_MASK, 256, 0, 1 << 0 | 1 << 1 | 1 << 3 | 1 << 5 | 1 << 6},
        {"a byte less", CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 64, 3 * 64 * 32 * 4 - 1, 1 << 0 | 1 << 1 | 1 << 5},
        {"no splits", CUBLASLT_REDUCTION_SCHEME_NONE, 4, WORKSPACE, 1 << 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OWNED(setting) t;
        unsigned found = 0;
        CASE("%s", rows[i].what);
        set_up(&t, &s);
        CHECK_INT(list(&t, rows[i].schemes, rows[i].workspace, rows[i].alignment), 0);
        for (int k = 0; k < t.count; k++) {
            cublasLtMatmulHeuristicResult_t result;
            found |= 1u << number(&t, k);
            CHECK_INT(lt.MatmulAlgoCheck(lt.handle, t.what, t.of_a, t.of_b, t.of_d, t.of_d, &t.list[k].algo, &result),
                      0);
            CHECK_INT(result.workspaceSize, t.list[k].workspaceSize);
        }
        CHECK_INT(found, rows[i].expected);
    }
}

static cublasStatus_t try_layouts(setting *t, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                  cublasLtMatrixLayout_t d)
{
    return lt.Matmul(lt.handle, t->what, &t->s->alpha, t->a, a, t->b, b, &t->s->beta, t->d, d, t->d, d,
                     &t->list[0].algo, t->workspace, WORKSPACE, NULL);
}

/* One size or type after the other is wrong. */
TEST(wrong_layouts)
{
    static const shape_of s = {64, 32, 128, 0, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(DEFAULT), 1, 0};
    static const struct {
        cudaDataType type;
        uint64_t rows, cols;
        int64_t line;
    } rows[] = {{CUDA_R_32F, 64, 127, 64},  {CUDA_R_32F, 63, 128, 64}, {CUDA_R_32F, 64, 128, 63},
                {CUDA_R_16BF, 64, 128, 64}, {CUDA_R_16F, 64, 128, 64}, {CUDA_R_32F, 0, 128, 64}};
    OWNED(setting) t;
    set_up(&t, &s);
    CHECK_INT(list(&t, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, WORKSPACE, 64), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cublasLtMatrixLayout_t wrong;
        CASE("%d", (int)i);
        CHECK_INT(lt.MatrixLayoutCreate(&wrong, rows[i].type, rows[i].rows, rows[i].cols, rows[i].line), 0);
        CHECK(try_layouts(&t, wrong, t.of_b, t.of_d) != CUBLAS_STATUS_SUCCESS);
        CHECK_INT(lt.MatrixLayoutDestroy(wrong), 0);
    }
    CASE("in each other's place");
    CHECK(try_layouts(&t, t.of_b, t.of_a, t.of_d) != CUBLAS_STATUS_SUCCESS);
    CHECK(try_layouts(&t, t.of_a, t.of_b, t.of_a) != CUBLAS_STATUS_SUCCESS);
    CHECK(try_layouts(&t, NULL, t.of_b, t.of_d) != CUBLAS_STATUS_SUCCESS);
    CHECK(try_layouts(&t, (cublasLtMatrixLayout_t)t.what, t.of_b, t.of_d) != CUBLAS_STATUS_SUCCESS);
    CHECK_INT(rig.tasks, 0);
}

TEST(wrong_attributes)
{
    cublasLtMatmulDesc_t what;
    cublasLtMatmulPreference_t wishes;
    const uint64_t wide = 0;
    CHECK(lt.MatmulDescCreate(&what, CUBLAS_COMPUTE_16F, CUDA_R_32F) != 0);
    CHECK(lt.MatmulDescCreate(&what, CUBLAS_COMPUTE_32F, CUDA_R_16BF) != 0);
    REQUIRE(lt.MatmulDescCreate(&what, CUBLAS_COMPUTE_32F, CUDA_R_32F) == 0);
    REQUIRE(lt.MatmulPreferenceCreate(&wishes) == 0);
    CHECK(lt.MatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_TRANSA, &wide, sizeof wide) != 0);
    CHECK(lt.MatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_TRANSA, NULL, 4) != 0);
    CHECK(lt.MatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &wide, 4) != 0);
    CHECK(lt.MatmulDescSetAttribute((cublasLtMatmulDesc_t)wishes, CUBLASLT_MATMUL_DESC_TRANSA, &wide, 4) != 0);
    CHECK(lt.MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &wide, 4) != 0);
    CHECK(lt.MatmulPreferenceDestroy((cublasLtMatmulPreference_t)what) != 0);
    CHECK_INT(lt.MatmulPreferenceDestroy(wishes), 0);
    CHECK_INT(lt.MatmulDescDestroy(what), 0);
}

/* Addresses, algorithms and workspaces that will not do. */
TEST(wrong_calls)
{
    static const shape_of s = {64, 64, 128, 0, 0, 0, SOFT_F32, SOFT_F32, 0, EPILOGUE(BIAS), 1, 0};
    OWNED(setting) t;
    set_up(&t, &s);
    CHECK_INT(list(&t, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, WORKSPACE, 64), 0);
    int with = -1;
    for (int i = 0; i < t.count; i++)
        with = t.list[i].workspaceSize ? i : with;
    REQUIRE(with >= 0);
    const size_t bytes = t.list[with].workspaceSize;
    cublasLtMatmulAlgo_t algorithm = t.list[with].algo;
    setting u = t;
    CASE("nothing is wrong");
    CHECK_INT(multiply(&u, &algorithm, bytes), 0);
    CHECK_INT(multiply(&u, &algorithm, bytes), 0);
    CHECK(rig.tasks == 2 && rig.task[0].user == rig.task[1].user); /* no more memory for the same once more */
    rig_run(1);
    CASE("the workspace is too small");
    CHECK(multiply(&u, &algorithm, bytes - 1) != 0);
    u.workspace = (char *)t.workspace + 16;
    CASE("the workspace is not aligned");
    CHECK(multiply(&u, &algorithm, bytes) != 0);
    u.workspace = NULL;
    CASE("no workspace");
    CHECK(multiply(&u, &algorithm, bytes) != 0);
    u = t;
    u.a = (char *)t.a + 4;
    CASE("a factor is not aligned");
    CHECK(multiply(&u, &algorithm, bytes) != 0);
    u = t;
    u.d = t.b;
    CASE("the result lies in a factor");
    CHECK(multiply(&u, &algorithm, bytes) != 0);
    u = t;
    u.b = NULL;
    CASE("no factor");
    CHECK(multiply(&u, &algorithm, bytes) != 0);
    CASE("the result is not the GPU's");
    rig.owned = (soft_span){t.a, 64 * 128 * 4};
    CHECK_INT(multiply(&t, &algorithm, bytes), CUBLAS_STATUS_EXECUTION_FAILED);
    rig.owned = (soft_span){0};
    CASE("another algorithm");
    algorithm.data[0] = 1000;
    CHECK(multiply(&t, &algorithm, bytes) != 0);
    algorithm = (cublasLtMatmulAlgo_t){0};
    CHECK(multiply(&t, &algorithm, bytes) != 0);
    CASE("none, and no workspace: one is chosen");
    CHECK_INT(multiply(&t, NULL, 0), 0);
    rig_run(1);
    check_result(&t, t.vector);
    CASE("one that is to fail");
    setenv("SOFTGPU_CUBLASLT_FAILS", "2", 1);
    CHECK_INT(multiply(&t, &t.list[with].algo, bytes), CUBLAS_STATUS_EXECUTION_FAILED);
    unsetenv("SOFTGPU_CUBLASLT_FAILS");
    CHECK_INT(rig.tasks, 0);
}

TEST(end)
{
    CHECK(lt.GetVersion() >= 120000);
    CHECK_HAS(lt.GetStatusString(CUBLAS_STATUS_ALLOC_FAILED), "failed");
    CHECK_INT(lt.Destroy(lt.handle), 0);
    lt.handle = NULL;
    CHECK(lt.Destroy(NULL) != 0);
}

#else

TEST(softgpu_cublaslt)
{
    SKIP("built without CUDA");
}

#endif
