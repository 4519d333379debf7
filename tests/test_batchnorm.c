/* test_batchnorm.c - batch norm where sums are hard to take, and where tensors are large.
 *
 * The cases of the op are small. Here are data that a careless sum would lose (a mean far from zero, one value far
 * from all others, levels that change, no variance at all), and tensors so large that blocks of channels are cut into
 * parts and results are streamed past the caches.
 */
#include "test.h"
#include "each_case.h"

/* --- data ----------------------------------------------------------------------------------------------------- */

/* Element i of a tensor of N x C x HW. */
typedef double (*data)(double noise, int64_t n, int64_t c, int64_t i);

static double plain(double noise, int64_t n, int64_t c, int64_t i)
{
    return (void)n, (void)c, (void)i, noise;
}

static double far_from_zero(double noise, int64_t n, int64_t c, int64_t i)
{
    return (void)n, (void)i, 4096.0 * (double)(c + 1) + noise;
}

static double first_far_off(double noise, int64_t n, int64_t c, int64_t i)
{
    return (void)c, n == 0 && i == 0 ? 1e5 : noise;
}

static double last_far_off(double noise, int64_t n, int64_t c, int64_t i)
{
    return (void)c, n == 2 && i == 40 * 40 - 1 ? -1e5 : noise;
}

static double only_first_differs(double noise, int64_t n, int64_t c, int64_t i)
{
    return (void)noise, n == 0 && i == 0 ? 1000 : (double)c;
}

static double levels(double noise, int64_t n, int64_t c, int64_t i)
{
    return (void)c, (double)(i / 100 % 7) * 1000 - 500 * (double)n + noise;
}

static double constant(double noise, int64_t n, int64_t c, int64_t i)
{
    return (void)n, (void)i, (void)noise, 1.1 * (double)c;
}

/* --- a layer on such data ------------------------------------------------------------------------------------- */

static void set_data(proof *p, data fill)
{
    const int x = graph_find(&p->program.graph, "x0");
    const shape *s = &p->program.graph.values[x].shape;
    const int64_t C = s->dim[1], HW = s->dim[2] * s->dim[3];
    for (int64_t i = 0; i < shape_count(s); i++)
        proof_set_start(p, x, i, (float)fill(proof_start(p, x, i), i / HW / C, i / HW % C, i % HW));
}

static bool run_layer(proof *p, const graph *g, dtype real, data fill)
{
    proof_options o = {.real = real, .gradients = true, .fuse = true, .in_place = true};
    brasa_status status = proof_make(p, g, o);
    CHECK_STATUS(status, BRASA_OK);
    if (status == BRASA_OK) {
        set_data(p, fill);
        CHECK_STATUS(proof_run(p, 255), BRASA_OK);
    }
    return status == BRASA_OK;
}

/* The largest difference of two programs in a value, relative to its largest element. */
static double difference(const proof *a, const proof *b, int v)
{
    double most = 1e-30, off = 0, *x = proof_numbers(a, v), *y = proof_numbers(b, v);
    for (int64_t i = 0; i < proof_count(a, v); i++) {
        most = fmax(most, fabs(y[i]));
        off = isfinite(x[i] - y[i]) ? fmax(off, fabs(x[i] - y[i])) : INFINITY;
    }
    free(x);
    free(y);
    return off / most;
}

static void check_value(const proof *p, const proof *ref, const char *name, int v, double tolerance)
{
    const double off = difference(p, ref, v);
    if (!(off <= tolerance))
        test_fail(__FILE__, __LINE__, "%s is off by %.3g", name, off);
}

/* Statistics to a few roundings; elements as closely as a mean in float allows, which is `slack` deviations. */
static void check_data(const char *in, const op_def *act, data fill, double slack)
{
    OWNED(brasa_context) *ctx = context_of(2);
    OWNED(graph) g = {0};
    proof p, ref;
    graph_init(&g, ctx);
    CHECK_STATUS(build_wrapped(&g, op_find("batchnorm"), &(op_case){in, ""}, act), BRASA_OK);
    const bool made = run_layer(&ref, &g, F64, fill);
    if (run_layer(&p, &g, F32, fill) && made) {
        check_value(&p, &ref, "the mean", graph_find(&p.program.graph, "batchnorm.running_mean"), 3e-7);
        check_value(&p, &ref, "the variance", graph_find(&p.program.graph, "batchnorm.running_var"), 2e-6);
        check_value(&p, &ref, "the output", graph_find(&p.program.graph, "y"), 2e-6 + slack);
        for (int v = 0; v < g.nvalues; v++)
            if (p.program.graph.values[v].kind == VALUE_PARAM)
                check_value(&p, &ref, p.program.graph.values[v].name, p.grad[v], 2e-5 + slack);
    }
    proof_free(&p);
    proof_free(&ref);
}

TEST(hard_sums)
{
    static const struct {
        const char *name;
        data fill;
        double slack;
    } rows[] = {
        {"plain", plain, 0},
        {"far from zero", far_from_zero, 3e-2},         /* 20 x 4096 has steps of 1 / 128 */
        {"the first one far off", first_far_off, 1e-4}, /* whose gradient is the difference of equal numbers */
        {"the last one far off", last_far_off, 1e-4},
        {"only the first one differs", only_first_differs, 1e-4},
        {"levels", levels, 1e-6},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s", rows[r].name);
        check_data("3x20x40x40", NULL, rows[r].fill, rows[r].slack);
    }
}

TEST(no_variance)
{
    OWNED(brasa_context) *ctx = context_of(2);
    OWNED(graph) g = {0};
    OWNED(proof) p = {0};
    graph_init(&g, ctx);
    CHECK_STATUS(case_build(&g, op_find("batchnorm"), &(op_case){"3x20x40x40", ""}), BRASA_OK);
    if (run_layer(&p, &g, F32, constant)) {
        const graph *made = &p.program.graph;
        const int y = graph_find(made, "y"), bia = graph_find(made, "batchnorm.bias");
        for (int64_t i = 0; i < proof_count(&p, y); i++)
            if (!(fabs(proof_get(&p, y, i) - proof_get(&p, bia, i / 1600 % 20)) < 1e-3)) {
                test_fail(__FILE__, __LINE__, "element %lld is %g", (long long)i, proof_get(&p, y, i));
                break;
            }
    }
}

/* --- parts of blocks, and streams ----------------------------------------------------------------------------- */

TEST(large)
{
    static const struct {
        const char *in;
        const op_def *act;
    } rows[] = {
        {"1x5x64x65", &relu_op},   /* one sample, in parts */
        {"2x33x48x50", &relu6_op}, /* parts that begin within a sample */
        {"2x72x240x250", NULL},    /* too large for any cache */
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s", rows[r].in);
        check_data(rows[r].in, rows[r].act, plain, 0);
    }
}

/* The parts are those of the shape: results are the same whoever computes which. */
TEST(threads)
{
    static const char *const shapes[] = {"1x5x64x65", "2x33x48x50", "3x70x30x40"};
    OWNED(brasa_context) *ctx = context_of(1);
    for (int s = 0; s < 3; s++) {
        CASE("%s", shapes[s]);
        OWNED(graph) g = {0};
        proof one, more;
        graph_init(&g, ctx);
        ctx->threads = 1;
        CHECK_STATUS(build_wrapped(&g, op_find("batchnorm"), &(op_case){shapes[s], ""}, &relu_op), BRASA_OK);
        if (run_layer(&one, &g, F32, plain)) {
            for (int threads = 2; threads <= 7; threads++) {
                ctx->threads = threads;
                if (run_layer(&more, &g, F32, plain))
                    for (int v = 0; v < one.program.graph.nvalues; v++)
                        CHECK(!proof_readable(&one, v) || proof_same(&one, &more, v));
                proof_free(&more);
            }
        }
        proof_free(&one);
    }
}
