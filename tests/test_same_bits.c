/* test_same_bits.c - a run is a function of its seed: not of the number of threads, nor of when it happens.
 *
 * Libraries split sums as the threads come, so the promise holds for Brasa's own kernels. */
#include "test.h"
#include "each_case.h"
#include "task.h"

enum { STEPS = 5 };

typedef struct run {
    float losses[STEPS];
    float *params; /* all of them, and the buffers, one after the other */
    int64_t count;
} run;

static run train(const char *model, const char *optimizer, int batch, int threads, uint64_t seed)
{
    run r = {.losses = {NAN, NAN, NAN, NAN, NAN}};
    brasa_model_info info = {.size = sizeof info};
    for (int i = 0; brasa_model_at(i, &info) && strcmp(info.name, model) != 0; i++)
        continue;
    brasa_context *ctx = context_of(threads);
    brasa_graph *g = brasa_graph_new(ctx);
    CHECK_STATUS(brasa_model_build(g, model, 0), BRASA_OK);
    brasa_session *s = NULL;
    brasa_session_options o = {
        .size = sizeof o, .batch = batch, .optimizer = optimizer, .clip_norm = 5, .seed = seed, .kernels = "_ref"};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    task t = task_new(info.classes, info.input[0] * info.input[1] * info.input[2], batch, 0.3);
    for (int i = 0; s && i < STEPS; i++) {
        task_fill(&t, i * t.batch);
        CHECK_STATUS(brasa_train_step(s, t.images, t.labels, &r.losses[i]), BRASA_OK);
    }
    brasa_value_info p = {.size = sizeof p};
    for (int i = 0; s && brasa_graph_param_at(g, i, &p); i++) {
        int64_t count = 1;
        for (int d = 0; d < p.rank; d++)
            count *= p.shape[d];
        r.params = realloc(r.params, (size_t)(r.count + count) * sizeof *r.params);
        CHECK_STATUS(brasa_param_get(s, p.name, r.params + r.count, count), BRASA_OK);
        r.count += count;
    }
    task_free(&t);
    brasa_session_free(s);
    brasa_graph_free(g);
    brasa_context_free(ctx);
    return r;
}

static bool same(const run *a, const run *b)
{
    return a->count == b->count && memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->params, b->params, (size_t)a->count * sizeof *a->params) == 0;
}

static void check_threads(const char *model, const char *optimizer, int batch)
{
    run one = train(model, optimizer, batch, 1, 9);
    CHECK(isfinite(one.losses[STEPS - 1]) && one.losses[STEPS - 1] != one.losses[0] && one.count > 0);
    for (int threads = 2; threads <= 3; threads++) {
        run more = train(model, optimizer, batch, threads, 9);
        if (!same(&one, &more))
            test_fail(__FILE__, __LINE__, "%d threads: losses %.9g ... %.9g, with one %.9g ... %.9g", threads,
                      (double)more.losses[0], (double)more.losses[STEPS - 1], (double)one.losses[0],
                      (double)one.losses[STEPS - 1]);
        free(more.params);
    }
    free(one.params);
}

static const char sgd[] = "sgd lr=0.01 momentum=0.9";

TEST(networks)
{
    static const char *const models[] = {"mnist_cnn", "tiny_resnet", "tiny_inception"};
    for (int m = 0; m < 3; m++) {
        CASE("%s", models[m]);
        check_threads(models[m], sgd, 5);
    }
}

TEST(optimizers)
{
    static const char *const optimizers[] = {"rmsprop", "adadelta", "adam", "adamw",
                                             "sgd lr=0.01 nesterov momentum=0.5"};
    for (int o = 0; o < 5; o++) {
        CASE("%s", optimizers[o]);
        check_threads("mnist_cnn", optimizers[o], 1);
    }
}

TEST(seeds)
{
    static const char *const models[] = {"tiny_resnet", "tiny_inception"};
    for (int m = 0; m < 2; m++) {
        CASE("%s", models[m]);
        run first = train(models[m], sgd, 5, 2, 9), again = train(models[m], sgd, 5, 2, 9);
        run other = train(models[m], sgd, 5, 2, 10);
        CHECK(same(&first, &again));
        CHECK(!same(&first, &other));
        CHECK(first.losses[0] != other.losses[0]);
        free(first.params);
        free(again.params);
        free(other.params);
    }
}

/* --- every op, on cases made large enough that several threads share the work ----------------------------------- */

/* The case with its batch, the first axis of every input, so many times as large. */
static op_case enlarged(const op_case *c, int factor, char in[256])
{
    op_case large = *c;
    const char *text = c->in;
    shape s;
    int labels;
    size_t used = 0;
    while (case_next_shape(&text, &s, &labels)) {
        s.dim[0] *= factor;
        used += labels ? (size_t)snprintf(in + used, 256 - used, " labels:%d", labels)
                       : (size_t)snprintf(in + used, 256 - used, " %s", shape_print(&s).text);
    }
    large.in = in;
    return large;
}

static int factor_of(const op_case *c)
{
    shape s = {0};
    int labels;
    const char *text = c->in;
    case_next_shape(&text, &s, &labels);
    return (int)(40000 / shape_count(&s)) + 1;
}

static bool uses_library(const graph *g)
{
    for (int i = 0; i < g->nnodes; i++)
        if (strstr(g->nodes[i].kernel->name, "onednn"))
            return true;
    return false;
}

static void check_kernels(brasa_context *ctx, const op_def *op, const op_case *c, const char *kernels)
{
    char in[256];
    const op_case large = enlarged(c, factor_of(c), in);
    proof one, more;
    proof_options o = {.gradients = !exempt(op, "gradient"), .keep_all = true, .kernels = kernels};
    graph g;
    graph_init(&g, ctx);
    CHECK_STATUS(case_build(&g, op, &large), BRASA_OK);
    brasa_status status = proof_make(&one, &g, o);
    CHECK_STATUS(status, BRASA_OK);
    if (status == BRASA_OK && uses_library(&one.program.graph)) {
        proof_free(&one);
        graph_clear(&g);
        return;
    }
    for (int threads = 2; threads <= 5 && status == BRASA_OK; threads += 3) {
        ctx->threads = threads; /* what a program takes over when it is made */
        CHECK_STATUS(proof_make(&more, &g, o), BRASA_OK);
        for (int v = 0; v < one.program.graph.nvalues; v++)
            if (proof_readable(&one, v) && !proof_same(&one, &more, v))
                test_fail(__FILE__, __LINE__, "value %d (%s) with %d threads", v,
                          shape_print(&one.program.graph.values[v].shape).text, threads);
        proof_free(&more);
    }
    ctx->threads = 1;
    proof_free(&one);
    graph_clear(&g);
}

static void check_op(brasa_context *ctx, const op_def *op, const op_case *c)
{
    check_kernels(ctx, op, c, "_ref");
    check_kernels(ctx, op, c, "_avx");
}

TEST(every_op)
{
    each_case(1, CASE_PLAN | CASE_FAILS, 0, check_op);
}
