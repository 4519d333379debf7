/* test_device.c - whole networks on a device: what the CPU learns, it learns too. See device.h; without
 * BRASA_TEST_DEVICE there is nothing to test.
 *
 * Fusion, optimizers, batches in parts and what goes in and out of a session have no cases for test_ops.c. Results
 * are compared by the norm of their difference: where a sign before a ReLU is a matter of rounding, single elements
 * jump.
 */
#define _GNU_SOURCE /* readlink, setenv */
#include "test.h"
#include "device.h"
#include "each_case.h"
#include "files.h"
#include "run.h"
#include "session/session.h"

/* What may be off, in norm, of numbers that a network computes and of gradients that it computes from them. Of ten
 * layers some tenths of a per cent of the signs before ReLUs differ in tf32 and bf16, and each such element counts in
 * the gradients with all of its size. */
typedef struct bounds {
    double values, gradients;
} bounds;

static bounds bounds_of(int32_t precision)
{
    static const bounds rows[] = {[BRASA_F32] = {1e-4, 1e-3}, [BRASA_TF32] = {1e-2, 0.1}, [BRASA_BF16] = {5e-2, 0.3}};
    return rows[precision];
}

/* --- networks -------------------------------------------------------------------------------------------------- */

enum { CLASSES = 5, SIZE = 9, BATCH = 6 };

static brasa_tensor start(brasa_graph *g)
{
    return brasa_apply(brasa_input(g, "image", 3, SIZE, SIZE), "conv 20 3x3 name=first");
}

static void finish(brasa_tensor x)
{
    brasa_apply(brasa_flatten(brasa_global_avgpool(x)), "classify %d name=fc", CLASSES);
}

static brasa_tensor conv_bn(brasa_tensor x, const char *conv)
{
    return brasa_batchnorm(brasa_apply(x, "conv 20 %s bias=no", conv));
}

/* Depthwise, relu6, a sum without an activation. */
static void build_mobile(brasa_graph *g)
{
    brasa_tensor x = conv_bn(start(g), "1x1");
    for (int i = 0; i < 2; i++) {
        brasa_tensor y = brasa_apply(conv_bn(x, "1x1"), "relu6");
        y = brasa_apply(conv_bn(y, "3x3 pad=1 groups=20"), "relu6");
        x = brasa_add(x, conv_bn(y, "1x1"));
    }
    finish(x);
}

/* A sum into a batch norm with an activation, and a sum of gradients behind it. */
static void build_residual(brasa_graph *g)
{
    brasa_tensor x = brasa_relu(conv_bn(start(g), "3x3 pad=1"));
    for (int i = 0; i < 2; i++)
        x = brasa_relu(brasa_add(conv_bn(brasa_relu(conv_bn(x, "3x3 pad=1")), "3x3 pad=1"), x));
    finish(x);
}

/* Activations before pooling, normalization across channels, two kinds of pooling side by side. */
static void build_pools(brasa_graph *g)
{
    brasa_tensor x = brasa_apply(brasa_relu(start(g)), "lrn 5");
    brasa_tensor both[2] = {brasa_apply(brasa_relu(brasa_apply(x, "conv 7 1x1")), "maxpool 3 stride=1 pad=1"),
                            brasa_relu(brasa_apply(brasa_apply(x, "avgpool 3 stride=1 pad=1"), "conv 9 1x1"))};
    x = brasa_apply(brasa_concat(g, both, 2), "conv 24 3x3 stride=2 groups=4");
    x = brasa_apply(brasa_maxpool(brasa_relu(x), 2), "dropout 0.3");
    brasa_apply(brasa_relu(brasa_dense(brasa_flatten(x), 17)), "classify %d name=fc", CLASSES);
}

/* Batch norm with many pixels, with and without a sum before the activation. */
static void build_tall(brasa_graph *g)
{
    brasa_tensor x = brasa_apply(brasa_input(g, "image", 3, SIZE, SIZE), "conv 1024 1x1");
    x = brasa_relu(brasa_batchnorm(brasa_apply(x, "reshape 64 36 36")));
    brasa_tensor y = brasa_relu(brasa_batchnorm(brasa_apply(x, "conv 64 1x1 bias=no")));
    finish(brasa_relu(brasa_add(brasa_batchnorm(brasa_apply(y, "conv 64 1x1 bias=no")), x)));
}

/* And with more channels than one launch is good for. */
static void build_wide(brasa_graph *g)
{
    brasa_tensor x = brasa_apply(brasa_input(g, "image", 3, SIZE, SIZE), "conv 8704 1x1");
    finish(brasa_relu(brasa_batchnorm(brasa_apply(x, "reshape 2176 18 18"))));
}

/* Everything that bends. */
static void build_bends(brasa_graph *g)
{
    brasa_tensor x = brasa_apply(start(g), "gelu");
    x = brasa_apply(brasa_apply(x, "conv 12 1x1"), "tanh");
    x = brasa_apply(brasa_apply(x, "conv 12 3x3 dilation=2 pad=2"), "leaky_relu 0.1");
    finish(brasa_apply(brasa_apply(x, "conv 12 1x1"), "sigmoid"));
}

static const struct network {
    const char *name;
    void (*build)(brasa_graph *g); /* NULL: the model of that name */
} networks[] = {{"mobile", build_mobile}, {"residual", build_residual}, {"pools", build_pools}, {"tall", build_tall},
                {"wide", build_wide},     {"bends", build_bends},       {"mnist_cnn", NULL},    {"letter_mlp", NULL},
                {"tiny_resnet", NULL},    {"tiny_inception", NULL}};
enum { NETWORKS = sizeof networks / sizeof networks[0] };

/* --- sessions -------------------------------------------------------------------------------------------------- */

static brasa_context *cpu(void)
{
    static brasa_context *ctx;
    return ctx ? ctx : (ctx = context_of(0));
}

static run run_start(brasa_context *ctx, const struct network *n, brasa_session_options o)
{
    brasa_model_info info = {.size = sizeof info, .classes = CLASSES, .input = {3, SIZE, SIZE}};
    for (int i = 0; !n->build && brasa_model_at(i, &info) && strcmp(info.name, n->name) != 0; i++)
        continue;
    const int pixels = info.input[0] * (info.input[1] ? info.input[1] * info.input[2] : 1);
    run r = {.g = brasa_graph_new(ctx), .t = task_new(info.classes, pixels, (int)o.batch, 0.3)};
    if (n->build)
        n->build(r.g);
    else
        brasa_model_build(r.g, n->name, 0);
    run_session(&r, &o);
    return r;
}

/* Whether a call came back well; what is wrong is told. */
static bool good(const run *r, brasa_status status)
{
    if (status != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s", brasa_session_error(r->s));
    return status == BRASA_OK;
}

/* Steps of training; the loss of the last one. */
static double run_steps(run *r, int steps)
{
    float loss = 0;
    for (int i = 0; r->s && i < steps; i++) {
        task_fill(&r->t, i * r->t.batch);
        if (!good(r, brasa_train_step(r->s, r->t.images, r->t.labels, &loss)))
            return NAN;
    }
    return loss;
}

/* --- comparing ------------------------------------------------------------------------------------------------- */

static double norm(const float *x, const float *y, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)x[i] - (y ? (double)y[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

/* What is next to nothing beside `scale` is rounding. */
static void compare(const char *what, const float *got, const float *want, int64_t count, double bound, double scale)
{
    const double size = fmax(norm(want, NULL, count), 1e-2 * scale), off = norm(got, want, count);
    if (!(off <= bound * size))
        test_fail(__FILE__, __LINE__, "%s is off by %.3g of its norm %.3g, allowed %.3g", what, off / size, size,
                  bound);
}

static int64_t count_of(const brasa_value_info *p)
{
    int64_t count = 1;
    for (int d = 0; d < p->rank; d++)
        count *= p->shape[d];
    return count;
}

/* The gradients of the last step, all of one after the other's; to be freed. */
static float *gradients(const run *r, int64_t *total)
{
    float *all = NULL;
    brasa_value_info p = {.size = sizeof p};
    *total = 0;
    for (int i = 0; brasa_graph_param_at(r->g, i, &p); i++) {
        char name[200];
        if (!p.trainable)
            continue;
        const int64_t count = count_of(&p);
        all = realloc(all, (size_t)(*total + count) * sizeof *all);
        snprintf(name, sizeof name, "%s.grad", p.name);
        good(r, brasa_fetch(r->s, name, all + *total, (size_t)count * sizeof *all));
        *total += count;
    }
    return all;
}

static void compare_gradients(const run *a, const run *b, double bound)
{
    int64_t total, same;
    float *got = gradients(a, &total), *want = gradients(b, &same);
    brasa_value_info p = {.size = sizeof p};
    const double scale = norm(want, NULL, total);
    CHECK_INT(total, same);
    for (int64_t i = 0, at = 0; brasa_graph_param_at(a->g, (int32_t)i, &p); i++)
        if (p.trainable) {
            compare(p.name, got + at, want + at, count_of(&p), bound, scale);
            at += count_of(&p);
        }
    free(got);
    free(want);
}

/* --- what is computed ------------------------------------------------------------------------------------------ */

/* One step from the same weights: loss and gradients; then the logits of an evaluation, where batch norm is folded.
 */
static void check_network(const struct network *n, const device_row *row)
{
    const bounds b = bounds_of(row->precision);
    brasa_session_options o = {
        .size = sizeof o, .batch = BATCH, .optimizer = "sgd lr=0.01", .seed = 3, .keep_gradients = true};
    run want = run_start(cpu(), n, o);
    o.precision = row->precision;
    run got = run_start(device_context(), n, o);
    float x[BATCH * 100], y[BATCH * 100];
    const int64_t logits = (int64_t)BATCH * want.t.classes;
    const size_t bytes = (size_t)logits * sizeof *x;
    if (want.s && got.s && CHECK(logits <= BATCH * 100)) {
        const double loss = run_steps(&want, 1);
        CHECK_CLOSE(run_steps(&got, 1), loss, b.values * fabs(loss));
        compare_gradients(&got, &want, b.gradients);
        if (good(&want, brasa_eval_step(want.s, want.t.images, want.t.labels, BATCH, NULL, NULL)) &&
            good(&got, brasa_eval_step(got.s, want.t.images, want.t.labels, BATCH, NULL, NULL)) &&
            good(&want, brasa_fetch(want.s, "logits", x, bytes)) &&
            good(&got, brasa_fetch(got.s, "logits", y, bytes)))
            compare("logits", y, x, logits, b.values, 0);
    }
    run_end(&want);
    run_end(&got);
}

TEST(networks)
{
    DEVICE_ONLY();
    for (const device_row *row = device_wanted_rows(); row->name; row++)
        for (int i = 0; i < NETWORKS; i++) {
            CASE("%s in %s", networks[i].name, row->name);
            check_network(&networks[i], row);
        }
}

/* What some steps changed in the parameters, and what the optimizer remembers of them. */
static void compare_changes(run *got, run *want, const run *before, double bound)
{
    for (int i = 0; i < want->s->nstates; i++) {
        const state *st = &want->s->states[i];
        const int64_t count = shape_count(&st->shape);
        if (st->type != F32 || st->kind == VALUE_SUM)
            continue;
        float *x = calloc((size_t)count + 1, sizeof *x), *y = calloc((size_t)count + 1, sizeof *y);
        float *start_of = calloc((size_t)count + 1, sizeof *start_of);
        if (good(got, brasa_param_get(got->s, st->name, x, count)) &&
            good(want, brasa_param_get(want->s, st->name, y, count)) &&
            good(before, brasa_param_get(before->s, st->name, start_of, count))) {
            const double size = norm(y, start_of, count), off = norm(x, y, count),
                         least = 1e-6 * norm(y, NULL, count);
            if (!(off <= bound * size + least))
                test_fail(__FILE__, __LINE__, "%s has changed by %.3g, and is off by %.3g of it", st->name, size,
                          off / size);
        }
        free(x);
        free(y);
        free(start_of);
    }
}

TEST(optimizers)
{
    static const struct row {
        const char *optimizer, *schedule;
        double clip;
    } rows[] = {
        {"sgd lr=0.01", NULL, 0},
        {"sgd lr=0.01 weight_decay=0.1", "cosine steps=5 warmup=2", 0},
        {"sgd lr=0.01 momentum=0.9", NULL, 0.01},
        {"sgd lr=0.01 momentum=0.9 nesterov=yes weight_decay=0.1", "step every=1 gamma=0.5", 0},
        {"rmsprop epsilon=0.01 weight_decay=0.1", NULL, 0},
        {"rmsprop epsilon=0.01 momentum=0.5", NULL, 0},
        {"adadelta weight_decay=0.1", NULL, 0},
        {"adam epsilon=0.01 weight_decay=0.1", NULL, 0}, /* a small one makes much of gradients that are nothing */
        {"adamw epsilon=0.01", NULL, 1},
    };
    const struct network mnist = {"mnist_cnn", NULL};
    DEVICE_ONLY();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s, %s, clip %g", rows[i].optimizer, rows[i].schedule ? rows[i].schedule : "constant", rows[i].clip);
        const brasa_session_options o = {.size = sizeof o,
                                         .batch = 5,
                                         .optimizer = rows[i].optimizer,
                                         .schedule = rows[i].schedule,
                                         .clip_norm = rows[i].clip};
        run before = run_start(cpu(), &mnist, o), want = run_start(cpu(), &mnist, o),
            got = run_start(device_context(), &mnist, o);
        if (before.s && want.s && got.s) {
            run_steps(&want, 3);
            run_steps(&got, 3);
            CHECK_INT(brasa_session_steps(got.s), 3);
            compare_changes(&got, &want, &before, 1e-2);
        }
        run_end(&before);
        run_end(&want);
        run_end(&got);
    }
}

TEST(settings)
{
    static const float weights[CLASSES] = {1, 2.5f, 0, 0.5f, 4};
    const struct network pools = {"pools", build_pools};
    DEVICE_ONLY();
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"parts of a batch", "weights of classes", "frozen layers"};
        CASE("%s", names[i]);
        brasa_session_options o = {.size = sizeof o, .batch = 12, .optimizer = "sgd lr=0.05 momentum=0.9"};
        o.class_weights = i == 1 ? weights : NULL;
        o.class_weight_count = i == 1 ? CLASSES : 0;
        o.freeze = i == 2 ? "first.*" : NULL;
        run before = run_start(cpu(), &pools, o), want = run_start(cpu(), &pools, o);
        o.micro_batches = i == 0 ? 3 : 0;
        run got = run_start(device_context(), &pools, o);
        if (before.s && want.s && got.s) {
            const double loss = run_steps(&want, 2);
            CHECK_CLOSE(run_steps(&got, 2), loss, 1e-3 * fabs(loss));
            compare_changes(&got, &want, &before, 1e-2);
        }
        run_end(&before);
        run_end(&want);
        run_end(&got);
    }
}

/* --- bits ------------------------------------------------------------------------------------------------------ */

/* All state has the same bits. */
static void compare_bits(run *a, run *b)
{
    for (int i = 0; i < a->s->nstates; i++) {
        const state *st = &a->s->states[i];
        const int64_t count = shape_count(&st->shape);
        if (st->type != F32 || st->kind == VALUE_SUM)
            continue;
        float *x = calloc((size_t)count + 1, sizeof *x), *y = calloc((size_t)count + 1, sizeof *y);
        if (good(a, brasa_param_get(a->s, st->name, x, count)) &&
            good(b, brasa_param_get(b->s, st->name, y, count)) && memcmp(x, y, (size_t)count * sizeof *x) != 0)
            test_fail(__FILE__, __LINE__, "%s differs", st->name);
        free(x);
        free(y);
    }
    CHECK_INT(brasa_session_steps(a->s), brasa_session_steps(b->s));
}

/* Recorded or not, node by node, and with memory that has moved in between. */
TEST(repeats)
{
    DEVICE_ONLY();
    for (const device_row *row = device_wanted_rows(); row->name; row++)
        for (int i = 0; i < NETWORKS; i++) {
            CASE("%s in %s", networks[i].name, row->name);
            const brasa_session_options o = {.size = sizeof o,
                                             .batch = BATCH,
                                             .optimizer = "sgd lr=0.01 momentum=0.9",
                                             .precision = row->precision};
            run a = run_start(device_context(), &networks[i], o), b = run_start(device_context(), &networks[i], o);
            if (a.s && b.s) {
                run_steps(&a, 4);
                brasa_session_profile(b.s, true);
                run_steps(&b, 1);
                brasa_session_profile(b.s, false);
                good(&b, brasa_session_prepare(b.s, false, 10 * BATCH)); /* takes more memory, to which all moves */
                for (int k = 1; k < 4; k++) {
                    task_fill(&b.t, k * b.t.batch);
                    good(&b, brasa_train_step(b.s, b.t.images, b.t.labels, NULL));
                }
                compare_bits(&a, &b);
            }
            run_end(&a);
            run_end(&b);
        }
}

/* A checkpoint is made in one place and read in the other, both ways, with every bit. */
TEST(checkpoints_move)
{
    const struct network residual = {"residual", build_residual};
    const brasa_load_options all = {.size = sizeof all, .what = BRASA_CHECKPOINT};
    DEVICE_ONLY();
    for (int there = 0; there < 2; there++) {
        CASE(there ? "from the CPU" : "to the CPU");
        const char *path = in_folder("moved.safetensors");
        const brasa_session_options o = {.size = sizeof o, .batch = BATCH, .optimizer = "adam lr=0.01"};
        run a = run_start(there ? cpu() : device_context(), &residual, o);
        run b = run_start(there ? device_context() : cpu(), &residual, o);
        if (a.s && b.s) {
            run_steps(&a, 3);
            if (good(&a, brasa_session_save(a.s, path, BRASA_CHECKPOINT)) &&
                good(&b, brasa_session_load(b.s, path, &all, NULL)))
                compare_bits(&a, &b);
        }
        run_end(&a);
        run_end(&b);
    }
}

/* What is written by name is read by name. */
TEST(parameters)
{
    const struct network residual = {"residual", build_residual};
    DEVICE_ONLY();
    run r = run_start(device_context(), &residual, SIZED(brasa_session_options, .batch = BATCH));
    brasa_value_info p = {.size = sizeof p};
    for (int i = 0; r.s && brasa_graph_param_at(r.g, i, &p); i++) {
        const int64_t count = count_of(&p);
        float *x = calloc((size_t)count, sizeof *x), *y = calloc((size_t)count, sizeof *y);
        CASE("%s", p.name);
        for (int64_t k = 0; k < count; k++)
            x[k] = (float)k - 3;
        if (good(&r, brasa_param_set(r.s, p.name, x, count)) && good(&r, brasa_param_get(r.s, p.name, y, count)))
            CHECK(memcmp(x, y, (size_t)count * sizeof *x) == 0);
        free(x);
        free(y);
    }
    run_end(&r);
}

static brasa_context *device_of_its_own(void)
{
    brasa_context *ctx = context_of(1);
    CHECK_STATUS(brasa_context_use(ctx, device_wanted()), BRASA_OK);
    return ctx;
}

/* Two runs of a network that go on with a record, in contexts of their own, end with the same bits. */
static void compare_contexts(brasa_context *first, brasa_context *second, const struct network *n,
                             const brasa_tuning *record)
{
    const brasa_session_options o = {.size = sizeof o, .batch = BATCH, .precision = BRASA_BF16, .tuning = record};
    run a = run_start(first, n, o), b = run_start(second, n, o);
    run_steps(&a, 3);
    run_steps(&b, 3);
    if (a.s && b.s)
        compare_bits(&a, &b);
    run_end(&a);
    run_end(&b);
}

/* What libraries chose by the clock is recorded, and holds for whoever goes on with the record: with nothing else
 * kept, and nothing timed, the bits are the same. It does not hold for another run, with another record. */
TEST(choices)
{
    DEVICE_ONLY();
    const char *word = getenv("BRASA_TUNE");
    char *before = word ? strdup(word) : NULL;
    unsetenv("BRASA_TUNE");
    setenv("BRASA_CACHE", "off", 1);
    for (int i = 0; i < NETWORKS; i++) {
        CASE("%s", networks[i].name);
        const char *path = in_folder("engines.txt");
        const brasa_tuning clock = {.size = sizeof clock, .measure = true},
                           record = {.size = sizeof record, .record = path};
        const brasa_tuning another = {.size = sizeof another, .record = in_folder("nothing.txt")};
        brasa_session_options o = {.size = sizeof o, .batch = BATCH, .precision = BRASA_BF16, .tuning = &clock};
        brasa_context *first = device_of_its_own(), *second = device_of_its_own(), *third = device_of_its_own();
        run a = run_start(first, &networks[i], o);
        o.tuning = &record;
        if (a.s && good(&a, brasa_session_save_tuning(a.s, path))) {
            run b = run_start(second, &networks[i], o);
            run_steps(&a, 3);
            run_steps(&b, 3);
            if (b.s)
                compare_bits(&a, &b);
            run_end(&b);
            compare_contexts(second, third, &networks[i], &another);
        }
        run_end(&a);
        brasa_context_free(first);
        brasa_context_free(second);
        brasa_context_free(third);
    }
    unsetenv("BRASA_CACHE");
    if (before)
        setenv("BRASA_TUNE", before, 1);
    free(before);
}

/* A node's time is the device's own, and so neither nothing nor what it takes to start it. */
TEST(clocks)
{
    enum { TIMES = 5 };
    const struct network residual = {"residual", build_residual};
    DEVICE_ONLY();
    run r = run_start(device_context(), &residual, SIZED(brasa_session_options, .batch = BATCH));
    run_steps(&r, 3);
    const program *p = r.s ? r.s->current : NULL;
    /* These tensors are small; a GPU in software takes its time, of which other tests take some. */
    const int64_t most = r.s && strstr(r.s->ctx->device->name, "Software") ? 1000000000 : 1000000;
    for (int i = 0; p && i < p->nsteps; i++) {
        int64_t took[TIMES] = {0};
        CASE("%s", p->steps[i].kernel->name);
        CHECK_STATUS(program_repeat(r.s->current, i, TIMES, took), BRASA_OK);
        for (int k = 0; k < TIMES; k++)
            CHECK(took[k] > 300 && took[k] < most); /* nanoseconds */
    }
    run_end(&r);
}
