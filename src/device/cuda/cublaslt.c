/* cublaslt.c - cuBLASLt, opened at run time: see cublaslt.h.
 *
 * The library lists algorithms for a product, the best first by its own estimate. Up to CANDIDATES of them are tried
 * (cublaslt_trial.c), and the tuner keeps the fastest, for the next product of the same sizes too. Only algorithms
 * that add up in floats are asked for, and those that split a sum do it in two steps, not by atomic additions.
 */
#include "device/cuda/cublaslt_parts.h"
#include "device/cuda/libraries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { CANDIDATES = 8 };
enum { ALIGNMENT = 64 }; /* of tensors: PLAN_ALIGN */

#define FUNCTION(name, member)                                                                                       \
    {                                                                                                                \
        name, offsetof(struct cublaslt, member)                                                                      \
    }
static const struct {
    const char *name;
    size_t member;
} functions[] = {
    FUNCTION("cublasLtCreate", create),
    FUNCTION("cublasLtDestroy", destroy),
    FUNCTION("cublasLtGetVersion", version),
    FUNCTION("cublasLtGetStatusString", text),
    FUNCTION("cublasLtMatmulDescCreate", desc_create),
    FUNCTION("cublasLtMatmulDescDestroy", desc_destroy),
    FUNCTION("cublasLtMatmulDescSetAttribute", desc_set),
    FUNCTION("cublasLtMatrixLayoutCreate", layout_create),
    FUNCTION("cublasLtMatrixLayoutDestroy", layout_destroy),
    FUNCTION("cublasLtMatmulPreferenceCreate", preference_create),
    FUNCTION("cublasLtMatmulPreferenceDestroy", preference_destroy),
    FUNCTION("cublasLtMatmulPreferenceSetAttribute", preference_set),
    FUNCTION("cublasLtMatmulAlgoGetHeuristic", heuristic),
    FUNCTION("cublasLtMatmulAlgoCheck", check),
    FUNCTION("cublasLtMatmul", matmul),
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* --- the library ----------------------------------------------------------------------------------------------- */

static bool find_functions(void *file, struct cublaslt *lib)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        void *found = dlsym(file, functions[i].name);
        if (!found)
            return false;
        memcpy((char *)lib + functions[i].member, &found, sizeof found);
    }
    return true;
}

static const char *start_cublaslt(void *user, void *file)
{
    struct cublaslt *lib = user;
    if (!find_functions(file, lib))
        return "cuBLASLt is too old";
    const cublasStatus_t status = lib->create(&lib->handle);
    return status == CUBLAS_STATUS_SUCCESS ? NULL : lib->text(status);
}

void cublaslt_open(cuda_queue *q, device *d)
{
    const char *why = NULL;
    char words[40];
    struct cublaslt *lib = mem_get(q->ctx, sizeof *lib);
    /* The file stays open: what it registered with the driver is used until the program ends. */
    if (!lib || !(library_find("libcublasLt.so.13", start_cublaslt, lib, &why) ||
                  library_find("libcublasLt.so.12", start_cublaslt, lib, &why))) {
        mem_put(q->ctx, lib);
        library_missing(d, why, "no cuBLASLt", "dense layers take several times as long");
        return;
    }
    const int version = (int)lib->version();
    snprintf(words, sizeof words, "cuBLASLt %d.%d", version / 10000, version / 100 % 100);
    add_words(d->about, sizeof d->about, ", ", words);
    const char *gpu = strchr(d->name, ' '); /* behind "cuda:0" */
    snprintf(lib->machine, sizeof lib->machine, "%.80s, cuBLASLt %d", gpu ? gpu + 1 : d->name, version);
    q->cublaslt = lib;
}

void cublaslt_close(cuda_queue *q)
{
    struct cublaslt *lib = q->cublaslt;
    if (!lib)
        return;
    lib->destroy(lib->handle);
    mem_put(q->ctx, lib);
    q->cublaslt = NULL;
}

/* --- descriptions ---------------------------------------------------------------------------------------------- */

static bool has_vector(const cublaslt_product *p)
{
    return p->extra != LT_NOTHING && p->extra != LT_RELU;
}

static bool has_relu(const cublaslt_product *p)
{
    return p->extra == LT_RELU || p->extra == LT_BIAS_RELU;
}

static cublasStatus_t set(const cublaslt_plan *plan, cublasLtMatmulDescAttributes_t what, const void *to, size_t size)
{
    return plan->queue->cublaslt->desc_set(plan->what, what, to, size);
}

static cublasStatus_t make_product(const struct cublaslt *lib, cublaslt_plan *plan)
{
    static const cublasLtEpilogue_t epilogues[] = {
        [LT_NOTHING] = CUBLASLT_EPILOGUE_DEFAULT,
        [LT_BIAS] = CUBLASLT_EPILOGUE_BIAS,
        [LT_RELU] = CUBLASLT_EPILOGUE_RELU,
        [LT_BIAS_RELU] = CUBLASLT_EPILOGUE_RELU_BIAS,
        [LT_BIAS_GRADIENT] = CUBLASLT_EPILOGUE_BGRADB,
    };
    const cublaslt_product *p = &plan->product;
    const int32_t a = p->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N, b = p->turn_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint32_t epilogue = epilogues[p->extra];
    const void *vector = (const void *)(uintptr_t)ALIGNMENT; /* of one that is not known yet, its alignment counts */
    cublasStatus_t status = lib->desc_create(
        &plan->what, p->tf32 && !p->bf16 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set(plan, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set(plan, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (status == CUBLAS_STATUS_SUCCESS && has_vector(p))
        status = set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
    return status;
}

static cublasStatus_t make_matrix(const struct cublaslt *lib, const cublaslt_product *p, cublasLtMatrixLayout_t *out,
                                  bool turned, int64_t rows, int64_t cols, int64_t line)
{
    const int64_t height = turned ? cols : rows, width = turned ? rows : cols;
    return lib->layout_create(out, p->bf16 ? CUDA_R_16BF : CUDA_R_32F, (uint64_t)height, (uint64_t)width,
                              line ? line : height);
}

cublasStatus_t cublaslt_describe(const struct cublaslt *lib, cublaslt_plan *plan)
{
    const cublaslt_product *p = &plan->product;
    cublasStatus_t status = make_product(lib, plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_matrix(lib, p, &plan->a, p->turn_a, p->m, p->k, 0);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_matrix(lib, p, &plan->b, p->turn_b, p->k, p->n, p->line_b);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_matrix(lib, p, &plan->d, false, p->m, p->n, 0);
    return status;
}

void cublaslt_undescribe(const cublaslt_plan *plan)
{
    const struct cublaslt *lib = plan->queue->cublaslt;
    cublasLtMatrixLayout_t matrices[3] = {plan->a, plan->b, plan->d};
    for (int i = 0; i < 3; i++)
        if (matrices[i])
            lib->layout_destroy(matrices[i]);
    if (plan->what)
        lib->desc_destroy(plan->what);
}

/* What the library proposes; returns how many. */
static int propose(const struct cublaslt *lib, const cublaslt_plan *plan, cublasLtMatmulHeuristicResult_t *list)
{
    static const cublasLtMatmulPreferenceAttributes_t matrices[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t workspace = LT_MOST_WORKSPACE;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = ALIGNMENT;
    cublasLtMatmulPreference_t wanted = NULL;
    int count = 0, usable = 0;
    if (lib->preference_create(&wanted) != CUBLAS_STATUS_SUCCESS)
        return 0;
    cublasStatus_t status =
        lib->preference_set(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lib->preference_set(wanted, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status = lib->preference_set(wanted, matrices[i], &alignment, sizeof alignment);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lib->heuristic(lib->handle, plan->what, plan->a, plan->b, plan->d, plan->d, wanted, CANDIDATES, list,
                                &count);
    lib->preference_destroy(wanted);
    for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; i++)
        if (list[i].state == CUBLAS_STATUS_SUCCESS && list[i].workspaceSize <= LT_MOST_WORKSPACE)
            list[usable++] = list[i];
    return usable;
}

cublasStatus_t cublaslt_start(const cublaslt_plan *plan, const cublasLtMatmulAlgo_t *algorithm, const void *a,
                              const void *b, void *d, const void *vector, void *workspace, size_t bytes)
{
    static const float one = 1, zero = 0;
    const struct cublaslt *lib = plan->queue->cublaslt;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (has_vector(&plan->product))
        status = set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lib->matmul(lib->handle, plan->what, &one, a, plan->a, b, plan->b, &zero, d, plan->d, d, plan->d,
                             algorithm, workspace, bytes, plan->queue->stream);
    return status;
}

/* --- findings -------------------------------------------------------------------------------------------------- */

static bool same_product(const cublaslt_product *x, const cublaslt_product *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->line_b == y->line_b && x->turn_a == y->turn_a &&
           x->turn_b == y->turn_b && x->bf16 == y->bf16 && x->tf32 == y->tf32 && x->extra == y->extra;
}

static brasa_status find_best(const cublaslt_plan *plan, finding *f)
{
    cublasLtMatmulHeuristicResult_t list[CANDIDATES];
    int count = propose(plan->queue->cublaslt, plan, list), best = 0;
    const bool timed = count > 0 && plan->tuner && plan->tuner->measure;
    f->listed = count;
    brasa_status status = timed ? tuner_begin(plan->tuner) : BRASA_OK;
    if (status == BRASA_OK && has_relu(&plan->product) && count > 0)
        status = cublaslt_drop_careless(plan, list, &count, f);
    if (status == BRASA_OK && timed)
        status = cublaslt_time(plan, list, count, f, &best);
    f->found = status == BRASA_OK && count > 0 && best >= 0;
    if (f->found) {
        f->algorithm = list[best].algo;
        f->workspace = list[best].workspaceSize;
    }
    return status;
}

/* --- findings that are kept ------------------------------------------------------------------------------------ */

static bool recall(const cublaslt_plan *plan, finding *f, const char *problem)
{
    choice *c = choices_find(plan->tuner, plan->queue->cublaslt->machine, problem);
    finding known = *f;
    size_t workspace = 0;
    if (!c || !c->words || !cublaslt_parse(c->words, &known))
        return false;
    if (!known.found && !c->recorded) /* it was so once: older versions kept it for all */
        return false;
    if (known.found &&
        !cublaslt_takes(plan, &known.algorithm, &workspace)) /* of a file that somebody has changed, say */
        return false;
    known.workspace = workspace > known.workspace ? workspace : known.workspace;
    c->used = true;
    known.choice = c;
    *f = known;
    return true;
}

/* Looks for a finding in what is known, or finds it out. */
static brasa_status find_out(const cublaslt_plan *plan, finding *f)
{
    char problem[LT_PROBLEM_SIZE], words[CHOICE_WORDS_SIZE];
    choice *kept;
    cublaslt_name(&plan->product, problem);
    if (plan->tuner && recall(plan, f, problem))
        return BRASA_OK;
    const brasa_status status = find_best(plan, f);
    if (status != BRASA_OK || !f->tried) /* by the clock: too large for that, or there was no memory */
        return status;
    cublaslt_print(f, words);
    /* That one of those that are there did not run, or none, may be this moment's fault. */
    const choice made = {.machine = plan->queue->cublaslt->machine,
                         .problem = problem,
                         .words = words,
                         .unsettled = !f->found || f->lacking};
    (void)tuner_put(plan->tuner, &made, &kept); /* without memory it is made again */
    f->choice = kept;
    return BRASA_OK;
}

/* Sets plan->best. What is found out is so for all programs of the tuner. */
static brasa_status look_up(cublaslt_plan *plan)
{
    tuner *t = plan->tuner;
    finding *f = t ? t->findings : NULL;
    while (f && !same_product(&f->product, &plan->product))
        f = f->next;
    plan->best.product = plan->product;
    const brasa_status status = f ? BRASA_OK : find_out(plan, &plan->best);
    if (f) {
        plan->best = *f;
    } else if (t && status == BRASA_OK) {
        if (!(f = pool_get(&t->pool, 1, sizeof *f)))
            return fail_memory(t->ctx, sizeof *f);
        *f = plan->best;
        f->next = t->findings;
        t->findings = f;
    }
    return status == BRASA_OK && !plan->best.found ? BRASA_NO_KERNEL : status;
}

/* --- plans ----------------------------------------------------------------------------------------------------- */

brasa_status cublaslt_plan_new(cuda_queue *q, tuner *t, const cublaslt_product *p, cublaslt_plan **out)
{
    cublaslt_plan *plan = mem_get(q->ctx, sizeof *plan);
    *out = NULL;
    if (!plan)
        return fail_memory(q->ctx, sizeof *plan);
    plan->queue = q;
    plan->tuner = t;
    plan->product = *p;
    cuda_enter(q);
    brasa_status status = BRASA_NO_KERNEL;
    if (cublaslt_describe(q->cublaslt, plan) == CUBLAS_STATUS_SUCCESS)
        status = look_up(plan);
    if (status == BRASA_OK)
        *out = plan;
    else
        cublaslt_plan_free(plan);
    return status;
}

void cublaslt_plan_free(cublaslt_plan *plan)
{
    if (!plan)
        return;
    cublaslt_undescribe(plan);
    mem_put(plan->queue->ctx, plan);
}

int64_t cublaslt_workspace(const cublaslt_plan *plan)
{
    return plan->best.workspace ? (int64_t)plan->best.workspace + LT_WORKSPACE_ALIGN : 0;
}

int64_t cublaslt_nanoseconds(const cublaslt_plan *plan)
{
    return plan->best.nanoseconds;
}

brasa_status cublaslt_run(const cublaslt_plan *plan, const void *a, const void *b, void *d, const void *bias,
                          void *workspace)
{
    const uintptr_t place = lt_align_up((uintptr_t)workspace);
    const size_t bytes = plan->best.workspace;
    const cublasStatus_t status =
        cublaslt_start(plan, &plan->best.algorithm, a, b, d, bias, bytes ? (void *)place : NULL, bytes);
    if (status == CUBLAS_STATUS_SUCCESS)
        return BRASA_OK;
    return fail(plan->queue->ctx, status == CUBLAS_STATUS_ALLOC_FAILED ? BRASA_OUT_OF_MEMORY : BRASA_INTERNAL,
                "cuBLASLt: %s", plan->queue->cublaslt->text(status));
}

bool cublaslt_tell_choice(const cublaslt_plan *plan, device_choice *out)
{
    static const char *const names[] = {[LT_NOTHING] = "product",
                                        [LT_BIAS] = "product+bias",
                                        [LT_RELU] = "product+relu",
                                        [LT_BIAS_RELU] = "product+bias+relu",
                                        [LT_BIAS_GRADIENT] = "product+bias gradient"};
    const finding *f = &plan->best;
    char words[CHOICE_WORDS_SIZE];
    if (!f->choice)
        return false;
    *out = (device_choice){.problem = f->choice->problem, .ways = 1};
    out->name[0] = names[plan->product.extra];
    out->way[0] = (device_way){
        .engines = f->listed, .timed = f->timed, .nanoseconds = f->nanoseconds, .workspace = (int64_t)f->workspace};
    cublaslt_print(f, words);                                  /* the line may be another run's by now */
    snprintf(out->engine, sizeof out->engine, "%.16s", words); /* its number is in the first bytes */
    return true;
}
